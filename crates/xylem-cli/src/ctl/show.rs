//! Prints the state of a forwarder: one text row per line, or one JSON object.

use super::change::canonical;
use super::{FaceList, Manager, NextHopArg, RouteList};
use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use crate::output::text::{bytes, duration};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;
use xylem_mgmt::types::{CS_ADMIT, CS_SERVE, ROUTE_CAPTURE, ROUTE_CHILD_INHERIT};
use xylem_mgmt::types::{FLAG_CONGESTION_MARKING, FLAG_LOCAL_FIELDS, FLAG_LP_RELIABILITY};
use xylem_mgmt::{
    CsStatus, FaceQueryFilter, FaceStatus, GeneralStatus, NextHopRecord, RibRoute, StrategyChoice,
};
use xylem_packet::Name;

type Shown = Result<(), CommandFailure>;

/// Rows of a table that a page shows at most.
const MAX_ROWS: usize = 256;

pub(super) fn status(manager: &mut Manager<'_>, out: &mut Out) -> Shown {
    let found = manager.status()?;
    if out.is_json() {
        return out.json(&ForwarderStatusRow::of(&found));
    }
    let uptime = uptime(&found);
    out.line(&format!("version     {}", found.version))?;
    out.line(&format!("uptime      {}", duration(uptime)))?;
    out.line(&format!(
        "tables      fib {}, pit {}, content store {}",
        found.fib_entries, found.pit_entries, found.cs_entries
    ))?;
    let counters = |i, d, n| format!("{i} Interests, {d} Data, {n} Nacks");
    let (i, o) = (
        counters(found.in_interests, found.in_data, found.in_nacks),
        counters(found.out_interests, found.out_data, found.out_nacks),
    );
    out.line(&format!("received    {i}"))?;
    out.line(&format!("sent        {o}"))?;
    out.line(&format!("Interests   {} satisfied, {} not", found.satisfied, found.unsatisfied))
}

fn uptime(found: &GeneralStatus) -> Duration {
    Duration::from_millis(found.current_ms.saturating_sub(found.start_ms))
}

/// All that `ctl` shows, under a title for each list. With `--json` the rows are those of the verbs for single lists.
pub(super) fn report(manager: &mut Manager<'_>, out: &mut Out) -> Shown {
    type List = fn(&mut Manager<'_>, &mut Out) -> Shown;
    let lists: [(&str, List); 7] = [
        ("Status", status),
        ("Channels", channels),
        ("Faces", |manager, out| faces(manager, FaceList::default(), out)),
        ("Routes", |manager, out| routes(manager, &RouteList::default(), out)),
        ("FIB", fib),
        ("Content store", cs),
        ("Strategies", strategies),
    ];
    for (number, (title, list)) in lists.into_iter().enumerate() {
        if !out.is_json() {
            if number > 0 {
                out.line("")?;
            }
            out.line(&format!("{title}:"))?;
        }
        list(manager, out)?;
    }
    Ok(())
}

pub(super) fn faces(manager: &mut Manager<'_>, which: FaceList, out: &mut Out) -> Shown {
    let filter = FaceQueryFilter {
        uri: which.uri.map(canonical),
        local_uri: which.local.map(canonical),
        uri_scheme: which.scheme,
        ..FaceQueryFilter::default()
    };
    // A list without a filter is a dataset of its own, which forwarders without queries have as well.
    let found = manager.faces((filter != FaceQueryFilter::default()).then_some(&filter))?;
    found.iter().try_for_each(|face| self::face(face, out))
}

pub(super) fn one_face(manager: &mut Manager<'_>, face: &NextHopArg, out: &mut Out) -> Shown {
    let face_id = Some(face.number(manager)?);
    let filter = FaceQueryFilter { face_id, ..FaceQueryFilter::default() };
    match manager.faces(Some(&filter))?.first() {
        Some(found) => self::face(found, out),
        None => {
            let what = "there is no such face; `xylem ndn ctl face list` lists all";
            Err(CommandFailure::new(Exit::Usage, what))
        }
    }
}

pub(super) fn channels(manager: &mut Manager<'_>, out: &mut Out) -> Shown {
    manager.channels()?.iter().try_for_each(|channel| match out.is_json() {
        true => out.json(&ChannelRow { local: &channel.local_uri }),
        false => out.line(&channel.local_uri),
    })
}

fn face(face: &FaceStatus, out: &mut Out) -> Shown {
    let row = FaceRow::of(face);
    if out.is_json() {
        return out.json(&row);
    }
    let flag = |bit: u64| face.flags & bit != 0;
    let mut notes = vec![row.scope.to_owned(), row.persistency.to_owned(), row.link.to_owned()];
    notes.extend(face.mtu.map(|mtu| format!("mtu {mtu}")));
    let flags = [
        (FLAG_LP_RELIABILITY, "reliable"),
        (FLAG_CONGESTION_MARKING, "marks congestion"),
        (FLAG_LOCAL_FIELDS, "local fields"),
    ];
    notes.extend(flags.iter().filter(|(bit, _)| flag(*bit)).map(|(_, name)| (*name).to_owned()));
    notes.extend(
        face.expiration_ms.map(|ms| format!("ends in {}", duration(Duration::from_millis(ms)))),
    );
    out.line(&format!(
        "face {} remote {} local {} in {}i {}d {}n {} out {}i {}d {}n {} ({})",
        face.face_id,
        face.uri,
        face.local_uri,
        face.in_interests,
        face.in_data,
        face.in_nacks,
        bytes(face.in_bytes),
        face.out_interests,
        face.out_data,
        face.out_nacks,
        bytes(face.out_bytes),
        notes.join(", ")
    ))
}

pub(super) fn persistency(number: u64) -> &'static str {
    match number {
        0 => "persistent",
        1 => "on-demand",
        _ => "permanent",
    }
}

pub(super) fn routes(manager: &mut Manager<'_>, which: &RouteList, out: &mut Out) -> Shown {
    let next_hop = which.next_hop.as_ref().map(|face| face.number(manager)).transpose()?;
    let found = manager.rib()?;
    let prefix = which.prefix.as_ref();
    let is_wanted = |route: &&RibRoute| {
        next_hop.is_none_or(|face| face == route.face_id)
            && which.origin.is_none_or(|origin| origin == route.origin)
    };
    for entry in found.iter().filter(|entry| prefix.is_none_or(|p| *p == entry.name)) {
        let name = entry.name.to_string();
        for route in entry.routes.iter().filter(is_wanted) {
            let row = RouteRow::of(&name, route);
            if out.is_json() {
                out.json(&row)?;
                continue;
            }
            let ends = route.expiration_ms.map_or("never".to_owned(), |ms| {
                format!("in {}", duration(Duration::from_millis(ms)))
            });
            let (inherit, capture) = (
                if row.inherit { ", inherited" } else { "" },
                if row.capture { ", captures" } else { "" },
            );
            out.line(&format!(
                "{name} → face {} cost {} origin {} ends {ends}{inherit}{capture}",
                route.face_id, route.cost, route.origin
            ))?;
        }
    }
    Ok(())
}

pub(super) fn fib(manager: &mut Manager<'_>, out: &mut Out) -> Shown {
    for entry in manager.fib()? {
        let prefix = entry.name.to_string();
        for hop in &entry.next_hops {
            let (face, cost) = (hop.face_id, hop.cost);
            match out.is_json() {
                true => out.json(&FibRow { prefix: &prefix, face, cost })?,
                false => out.line(&format!("{prefix} → face {face} cost {cost}"))?,
            }
        }
    }
    Ok(())
}

pub(super) fn cs(manager: &mut Manager<'_>, out: &mut Out) -> Shown {
    let found = CsRow::of(&manager.cs()?);
    if out.is_json() {
        return out.json(&found);
    }
    let on = |yes| if yes { "on" } else { "off" };
    out.line(&format!("capacity    {} packets", found.capacity))?;
    out.line(&format!("holds       {} packets", found.entries))?;
    out.line(&format!("hits        {}, misses {}", found.hits, found.misses))?;
    out.line(&format!("admit       {}", on(found.admit)))?;
    out.line(&format!("serve       {}", on(found.serve)))
}

pub(super) fn strategies(manager: &mut Manager<'_>, out: &mut Out) -> Shown {
    manager.strategies()?.iter().try_for_each(|choice| strategy(choice, out))
}

/// Shows the choice for the longest prefix of a name.
pub(super) fn strategy_of(manager: &mut Manager<'_>, name: &Name, out: &mut Out) -> Shown {
    let choices = manager.strategies()?;
    let applies = |choice: &&StrategyChoice| choice.name.as_ref().is_prefix_of(name.as_ref());
    let longest = choices.iter().filter(applies).max_by_key(|choice| choice.name.as_ref().len());
    longest.map_or(Ok(()), |choice| strategy(choice, out))
}

fn strategy(choice: &StrategyChoice, out: &mut Out) -> Shown {
    let (prefix, strategy) = (choice.name.to_string(), choice.strategy.to_string());
    match out.is_json() {
        true => out.json(&StrategyRow { prefix: &prefix, strategy: &strategy }),
        false => out.line(&format!("{prefix} {strategy}")),
    }
}

/// `ctl status`.
#[derive(Serialize)]
#[serde(tag = "event", rename = "status")]
struct ForwarderStatusRow<'a> {
    version: &'a str,
    uptime_seconds: f64,
    fib_entries: u64,
    pit_entries: u64,
    cs_entries: u64,
    in_interests: u64,
    in_data: u64,
    in_nacks: u64,
    out_interests: u64,
    out_data: u64,
    out_nacks: u64,
    satisfied: u64,
    unsatisfied: u64,
}

impl<'a> ForwarderStatusRow<'a> {
    fn of(found: &'a GeneralStatus) -> Self {
        Self {
            version: &found.version,
            uptime_seconds: uptime(found).as_secs_f64(),
            fib_entries: found.fib_entries,
            pit_entries: found.pit_entries,
            cs_entries: found.cs_entries,
            in_interests: found.in_interests,
            in_data: found.in_data,
            in_nacks: found.in_nacks,
            out_interests: found.out_interests,
            out_data: found.out_data,
            out_nacks: found.out_nacks,
            satisfied: found.satisfied,
            unsatisfied: found.unsatisfied,
        }
    }
}

/// A row of `ctl face list`.
#[derive(Serialize)]
#[serde(tag = "event", rename = "face")]
struct FaceRow<'a> {
    face: u64,
    remote: &'a str,
    local: &'a str,
    scope: &'a str,
    persistency: &'a str,
    link: &'a str,
    mtu: Option<u64>,
    expires_seconds: Option<f64>,
    reliability: bool,
    congestion_marking: bool,
    local_fields: bool,
    in_interests: u64,
    in_data: u64,
    in_nacks: u64,
    in_bytes: u64,
    out_interests: u64,
    out_data: u64,
    out_nacks: u64,
    out_bytes: u64,
}

impl<'a> FaceRow<'a> {
    fn of(face: &'a FaceStatus) -> Self {
        let flag = |bit: u64| face.flags & bit != 0;
        Self {
            face: face.face_id,
            remote: &face.uri,
            local: &face.local_uri,
            scope: if face.scope == 1 { "local" } else { "non-local" },
            persistency: persistency(face.persistency),
            link: match face.link_type {
                0 => "point-to-point",
                1 => "multi-access",
                _ => "ad-hoc",
            },
            mtu: face.mtu,
            expires_seconds: face.expiration_ms.map(|ms| ms as f64 / 1e3),
            reliability: flag(FLAG_LP_RELIABILITY),
            congestion_marking: flag(FLAG_CONGESTION_MARKING),
            local_fields: flag(FLAG_LOCAL_FIELDS),
            in_interests: face.in_interests,
            in_data: face.in_data,
            in_nacks: face.in_nacks,
            in_bytes: face.in_bytes,
            out_interests: face.out_interests,
            out_data: face.out_data,
            out_nacks: face.out_nacks,
            out_bytes: face.out_bytes,
        }
    }
}

/// A row of `ctl channel list`.
#[derive(Serialize)]
#[serde(tag = "event", rename = "channel")]
struct ChannelRow<'a> {
    local: &'a str,
}

/// A row of `ctl route list`.
#[derive(Serialize)]
#[serde(tag = "event", rename = "route")]
struct RouteRow<'a> {
    prefix: &'a str,
    face: u64,
    origin: u64,
    cost: u64,
    inherit: bool,
    capture: bool,
    expires_seconds: Option<f64>,
}

impl<'a> RouteRow<'a> {
    fn of(prefix: &'a str, route: &RibRoute) -> Self {
        Self {
            prefix,
            face: route.face_id,
            origin: route.origin,
            cost: route.cost,
            inherit: route.flags & ROUTE_CHILD_INHERIT != 0,
            capture: route.flags & ROUTE_CAPTURE != 0,
            expires_seconds: route.expiration_ms.map(|ms| ms as f64 / 1e3),
        }
    }
}

/// A row of `ctl fib list`.
#[derive(Serialize)]
#[serde(tag = "event", rename = "fib")]
struct FibRow<'a> {
    prefix: &'a str,
    face: u64,
    cost: u64,
}

/// `ctl cs info`.
#[derive(Serialize)]
#[serde(tag = "event", rename = "cs")]
struct CsRow {
    capacity: u64,
    entries: u64,
    hits: u64,
    misses: u64,
    admit: bool,
    serve: bool,
}

impl CsRow {
    fn of(found: &CsStatus) -> Self {
        Self {
            capacity: found.capacity,
            entries: found.entries,
            hits: found.hits,
            misses: found.misses,
            admit: found.flags & CS_ADMIT != 0,
            serve: found.flags & CS_SERVE != 0,
        }
    }
}

/// A row of `ctl strategy list`.
#[derive(Serialize)]
#[serde(tag = "event", rename = "strategy")]
struct StrategyRow<'a> {
    prefix: &'a str,
    strategy: &'a str,
}

/// All of these datasets, as `xylem ui` shows them.
pub(super) fn everything(manager: &mut Manager<'_>) -> Result<Value, CommandFailure> {
    let (status, faces, cs) = (manager.status()?, manager.faces(None)?, manager.cs()?);
    let faces: Vec<FaceRow<'_>> = faces.iter().take(MAX_ROWS).map(FaceRow::of).collect();
    let rib = manager.rib()?;
    let names: Vec<String> = rib.iter().map(|entry| entry.name.to_string()).collect();
    let routes = rib
        .iter()
        .zip(&names)
        .flat_map(|(entry, name)| entry.routes.iter().map(move |route| RouteRow::of(name, route)));
    let routes: Vec<RouteRow<'_>> = routes.take(MAX_ROWS).collect();
    let fib = manager.fib()?;
    let hops = fib.iter().flat_map(|entry| {
        let hop = |hop: &NextHopRecord| json!({ "prefix": entry.name.to_string(), "face": hop.face_id, "cost": hop.cost });
        entry.next_hops.iter().map(hop)
    });
    let fib: Vec<Value> = hops.take(MAX_ROWS).collect();
    let strategies = manager.strategies()?;
    let strategy = |choice: &StrategyChoice| json!({ "prefix": choice.name.to_string(), "strategy": choice.strategy.to_string() });
    let strategies: Vec<Value> = strategies.iter().take(MAX_ROWS).map(strategy).collect();
    Ok(json!({
        "status": ForwarderStatusRow::of(&status), "faces": faces, "cs": CsRow::of(&cs),
        "routes": routes, "fib": fib, "strategies": strategies,
    }))
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&ForwarderStatusRow {
            version: "v",
            uptime_seconds: 0.5,
            fib_entries: 0,
            pit_entries: 0,
            cs_entries: 0,
            in_interests: 0,
            in_data: 0,
            in_nacks: 0,
            out_interests: 0,
            out_data: 0,
            out_nacks: 0,
            satisfied: 0,
            unsatisfied: 0,
        });
        assert_documented(&FaceRow {
            face: 1,
            remote: "r",
            local: "l",
            scope: "local",
            persistency: "permanent",
            link: "ad-hoc",
            mtu: None,
            expires_seconds: None,
            reliability: false,
            congestion_marking: false,
            local_fields: false,
            in_interests: 0,
            in_data: 0,
            in_nacks: 0,
            in_bytes: 0,
            out_interests: 0,
            out_data: 0,
            out_nacks: 0,
            out_bytes: 0,
        });
        assert_documented(&RouteRow {
            prefix: "/a",
            face: 1,
            origin: 0,
            cost: 0,
            inherit: true,
            capture: false,
            expires_seconds: None,
        });
        assert_documented(&FibRow { prefix: "/a", face: 1, cost: 0 });
        assert_documented(&CsRow {
            capacity: 1,
            entries: 0,
            hits: 0,
            misses: 0,
            admit: true,
            serve: true,
        });
        assert_documented(&ChannelRow { local: "udp4://0.0.0.0:6363" });
        assert_documented(&StrategyRow { prefix: "/a", strategy: "/s" });
    }
}
