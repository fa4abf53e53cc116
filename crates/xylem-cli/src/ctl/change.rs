//! Sends commands to a forwarder and reports their results.

use super::{
    FaceCreate, FaceProperties, Manager, NextHopArg, PersistencyArg, RouteAdd, Switch, show,
};
use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use serde::Serialize;
use xylem_mgmt::types::{
    CS_ADMIT, CS_SERVE, FLAG_CONGESTION_MARKING, FLAG_LP_RELIABILITY, ROUTE_CAPTURE,
    ROUTE_CHILD_INHERIT,
};
use xylem_mgmt::{ControlParameters, FaceQueryFilter};
use xylem_packet::Name;

type Changed = Result<(), CommandFailure>;

pub(super) fn create_face(manager: &mut Manager<'_>, face: FaceCreate, out: &mut Out) -> Changed {
    let (is_new, made) = manager.create_face(&ControlParameters {
        uri: Some(canonical(face.uri)),
        local_uri: face.local,
        ..face.properties.parameters()
    })?;
    if let (false, Some(number)) = (is_new, made.face_id) {
        if face.properties.is_empty() {
            let what = made.persistency.map(show::persistency);
            return done("face-exists", &made, what, out);
        }
        return update_face(manager, &NextHopArg::Face(number), face.properties, out);
    }
    let what = made.persistency.map(show::persistency);
    done("face-created", &made, what, out)
}

pub(super) fn update_face(
    manager: &mut Manager<'_>,
    face: &NextHopArg,
    properties: FaceProperties,
    out: &mut Out,
) -> Changed {
    if properties.is_empty() {
        let what =
            "what is to change? Give --mtu, --persistency, --reliability or --congestion-marking";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    let face_id = Some(face.number(manager)?);
    let parameters = ControlParameters { face_id, ..properties.parameters() };
    let changed = manager.command("faces", "update", &parameters)?;
    done("face-updated", &changed, changed.persistency.map(show::persistency), out)
}

impl FaceProperties {
    fn is_empty(self) -> bool {
        let Self { persistency, mtu, reliability, congestion_marking } = self;
        persistency.is_none() && mtu.is_none() && reliability.or(congestion_marking).is_none()
    }

    fn parameters(self) -> ControlParameters {
        let persistency = self.persistency.map(|persistency| match persistency {
            PersistencyArg::Persistent => 0,
            PersistencyArg::OnDemand => 1,
            PersistencyArg::Permanent => 2,
        });
        let switches = [
            (self.reliability, FLAG_LP_RELIABILITY),
            (self.congestion_marking, FLAG_CONGESTION_MARKING),
        ];
        let (mut flags, mut mask) = (0, 0);
        for (switch, flag) in switches {
            mask |= if switch.is_some() { flag } else { 0 };
            flags |= if switch == Some(Switch::On) { flag } else { 0 };
        }
        ControlParameters {
            mtu: self.mtu,
            persistency,
            flags: (mask != 0).then_some(flags),
            mask: (mask != 0).then_some(mask),
            ..ControlParameters::default()
        }
    }
}

pub(super) fn destroy_face(manager: &mut Manager<'_>, face: &NextHopArg, out: &mut Out) -> Changed {
    let number = face.number(manager)?;
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
    let face = hop.number(manager)?;
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

impl NextHopArg {
    /// The face's number, which the forwarder is asked for if a URI was given.
    pub(super) fn number(&self, manager: &mut Manager<'_>) -> Result<u64, CommandFailure> {
        match self {
            Self::Face(number) => Ok(*number),
            Self::Uri(uri) => face_with(manager, uri),
        }
    }
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
/// host name. The key of an encrypted link stays. A URI of an unknown scheme is left to the forwarder.
pub(super) fn canonical(uri: String) -> String {
    let Ok(parsed) = uri.parse::<xylem_node::PeerUri>() else { return uri };
    let peer = xylem_node::resolve(&parsed).ok().and_then(|peers| peers.into_iter().next());
    peer.and_then(|peer| peer.dialled()).unwrap_or(uri)
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
