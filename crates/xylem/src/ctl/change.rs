//! Sends commands to a forwarder and reports their results.

use super::{FaceCreate, Manager, NextHopArg, PersistencyArg, RouteAdd, Switch, show};
use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use serde::Serialize;
use xylem_mgmt::types::{CS_ADMIT, CS_SERVE, ROUTE_CAPTURE, ROUTE_CHILD_INHERIT};
use xylem_mgmt::{ControlParameters, FaceQueryFilter};
use xylem_packet::Name;

type Changed = Result<(), CommandFailure>;

pub(super) fn create_face(manager: &mut Manager<'_>, face: FaceCreate, out: &mut Out) -> Changed {
    let persistency = face.persistency.map(|persistency| match persistency {
        PersistencyArg::Persistent => 0,
        PersistencyArg::OnDemand => 1,
        PersistencyArg::Permanent => 2,
    });
    let made = manager.face_to(&ControlParameters {
        uri: Some(canonical(face.uri)),
        local_uri: face.local,
        mtu: face.mtu,
        persistency,
        ..ControlParameters::default()
    })?;
    let what = made.persistency.map(show::persistency);
    done("face-created", &made, what, out)
}

pub(super) fn destroy_face(manager: &mut Manager<'_>, face: &NextHopArg, out: &mut Out) -> Changed {
    let number = match face {
        NextHopArg::Face(number) => *number,
        NextHopArg::Uri(uri) => face_with(manager, uri)?,
    };
    let parameters = ControlParameters { face_id: Some(number), ..ControlParameters::default() };
    let gone = manager.command("faces", "destroy", &parameters)?;
    done("face-destroyed", &gone, None, out)
}

pub(super) fn add_route(manager: &mut Manager<'_>, route: RouteAdd, out: &mut Out) -> Changed {
    let face = match route.next_hop {
        NextHopArg::Face(number) => Some(number),
        NextHopArg::Uri(uri) => {
            let parameters =
                ControlParameters { uri: Some(canonical(uri)), ..ControlParameters::default() };
            manager.face_to(&parameters)?.face_id
        }
    };
    let flags = if route.no_inherit { 0 } else { ROUTE_CHILD_INHERIT }
        | if route.capture { ROUTE_CAPTURE } else { 0 };
    let made = manager.command(
        "rib",
        "register",
        &ControlParameters {
            name: Some(route.prefix),
            face_id: face,
            origin: Some(route.origin),
            cost: Some(route.cost),
            flags: Some(flags),
            expiration_ms: route.expires.map(|e| u64::try_from(e.as_millis()).unwrap_or(u64::MAX)),
            ..ControlParameters::default()
        },
    )?;
    done("route-added", &made, None, out)
}

pub(super) fn remove_route(
    manager: &mut Manager<'_>,
    prefix: Name,
    hop: &NextHopArg,
    origin: u64,
    out: &mut Out,
) -> Changed {
    let face = match hop {
        NextHopArg::Face(number) => *number,
        NextHopArg::Uri(uri) => face_with(manager, uri)?,
    };
    let gone = manager.command(
        "rib",
        "unregister",
        &ControlParameters {
            name: Some(prefix),
            face_id: Some(face),
            origin: Some(origin),
            ..ControlParameters::default()
        },
    )?;
    done("route-removed", &gone, None, out)
}

pub(super) fn configure_cs(
    manager: &mut Manager<'_>,
    capacity: Option<u64>,
    admit: Option<Switch>,
    serve: Option<Switch>,
    out: &mut Out,
) -> Changed {
    if capacity.is_none() && admit.is_none() && serve.is_none() {
        let what = "nothing to set; give --capacity, --admit or --serve";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    let (mut flags, mut mask) = (0, 0);
    for (switch, bit) in [(admit, CS_ADMIT), (serve, CS_SERVE)] {
        if let Some(switch) = switch {
            mask |= bit;
            flags |= if switch == Switch::On { bit } else { 0 };
        }
    }
    let set = manager.command(
        "cs",
        "config",
        &ControlParameters {
            capacity,
            flags: (mask != 0).then_some(flags),
            mask: (mask != 0).then_some(mask),
            ..ControlParameters::default()
        },
    )?;
    done("cs-configured", &set, None, out)
}

pub(super) fn erase_cs(
    manager: &mut Manager<'_>,
    prefix: Name,
    count: Option<u64>,
    out: &mut Out,
) -> Changed {
    let parameters =
        ControlParameters { name: Some(prefix), count, ..ControlParameters::default() };
    let erased = manager.command("cs", "erase", &parameters)?;
    done("cs-erased", &erased, None, out)
}

pub(super) fn set_strategy(
    manager: &mut Manager<'_>,
    prefix: Name,
    strategy: Name,
    out: &mut Out,
) -> Changed {
    let set = manager.command(
        "strategy-choice",
        "set",
        &ControlParameters {
            name: Some(prefix),
            strategy: Some(strategy),
            ..ControlParameters::default()
        },
    )?;
    done("strategy-set", &set, None, out)
}

pub(super) fn unset_strategy(manager: &mut Manager<'_>, prefix: Name, out: &mut Out) -> Changed {
    let parameters = ControlParameters { name: Some(prefix), ..ControlParameters::default() };
    let unset = manager.command("strategy-choice", "unset", &parameters)?;
    done("strategy-unset", &unset, None, out)
}

/// The one face whose remote end is `uri`.
fn face_with(manager: &mut Manager<'_>, uri: &str) -> Result<u64, CommandFailure> {
    let filter =
        FaceQueryFilter { uri: Some(canonical(uri.to_owned())), ..FaceQueryFilter::default() };
    match manager.faces(Some(&filter))?.as_slice() {
        [face] => Ok(face.face_id),
        [] => Err(CommandFailure::new(
            Exit::Usage,
            format!("there is no face to {uri}; `xylem ndn ctl face list` lists all"),
        )),
        faces => Err(CommandFailure::new(
            Exit::Usage,
            format!(
                "there are {} faces to {uri}; give the number of one (`xylem ndn ctl face list`)",
                faces.len()
            ),
        )),
    }
}

/// Makes a face URI canonical, as NFD requires: the scheme names the address family, and there is a port. Resolves a
/// host name. A URI of an unknown scheme is left to the forwarder.
fn canonical(uri: String) -> String {
    use xylem_node::PeerAddress;
    let Ok(parsed) = uri.parse::<xylem_node::PeerUri>() else { return uri };
    let peer = xylem_node::resolve(&parsed).ok().and_then(|peers| peers.into_iter().next());
    let family = |address: &std::net::SocketAddr| if address.is_ipv4() { 4 } else { 6 };
    match peer {
        Some(PeerAddress::Udp(address)) => format!("udp{}://{address}", family(&address)),
        Some(PeerAddress::Tcp(address)) => format!("tcp{}://{address}", family(&address)),
        _ => uri,
    }
}

/// Reports the result of a command.
fn done(what: &str, found: &ControlParameters, more: Option<&str>, out: &mut Out) -> Changed {
    let name = found.name.as_ref().map(Name::to_string);
    let strategy = found.strategy.as_ref().map(Name::to_string);
    if out.is_json() {
        return out.json(&ChangedRow {
            what,
            prefix: name.as_deref(),
            face: found.face_id,
            uri: found.uri.as_deref(),
            origin: found.origin,
            cost: found.cost,
            capacity: found.capacity,
            count: found.count,
            strategy: strategy.as_deref(),
        });
    }
    if out.is_quiet() {
        return Ok(());
    }
    let mut line = what.to_owned();
    let mut add = |word: &str, value: Option<String>| {
        if let Some(value) = value {
            line.push_str(&format!(" {word} {value}"));
        }
    };
    add("prefix", name);
    add("face", found.face_id.map(|n| n.to_string()));
    add("uri", found.uri.clone());
    add("origin", found.origin.map(|n| n.to_string()));
    add("cost", found.cost.map(|n| n.to_string()));
    add("capacity", found.capacity.map(|n| n.to_string()));
    add("count", found.count.map(|n| n.to_string()));
    add("strategy", strategy);
    add("persistency", more.map(str::to_owned));
    out.line(&line)
}

/// Event: something that `ctl` changed.
#[derive(Serialize)]
#[serde(tag = "event", rename = "changed")]
struct ChangedRow<'a> {
    what: &'a str,
    prefix: Option<&'a str>,
    face: Option<u64>,
    uri: Option<&'a str>,
    origin: Option<u64>,
    cost: Option<u64>,
    capacity: Option<u64>,
    count: Option<u64>,
    strategy: Option<&'a str>,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&ChangedRow {
            what: "cs-erased",
            prefix: None,
            face: None,
            uri: None,
            origin: None,
            cost: None,
            capacity: None,
            count: None,
            strategy: None,
        });
    }
}
