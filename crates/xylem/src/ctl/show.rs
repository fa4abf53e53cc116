//! What a forwarder has, one row a line, or one JSON object.

use super::Manager;
use crate::exit::Failure;
use crate::output::Out;
use crate::output::text::{bytes, duration};
use serde::Serialize;
use std::time::Duration;
use xylem_mgmt::types::{CS_ADMIT, CS_SERVE, ROUTE_CAPTURE, ROUTE_CHILD_INHERIT};
use xylem_mgmt::types::{FLAG_CONGESTION_MARKING, FLAG_LOCAL_FIELDS, FLAG_LP_RELIABILITY};
use xylem_mgmt::{FaceQueryFilter, FaceStatus};
use xylem_packet::Name;

type Shown = Result<(), Failure>;

pub(super) fn status(manager: &mut Manager<'_>, out: &mut Out) -> Shown {
    let found = manager.status()?;
    let uptime = Duration::from_millis(found.current_ms.saturating_sub(found.start_ms));
    if out.is_json() {
        return out.json(&StatusRow {
            version: &found.version,
            uptime_seconds: uptime.as_secs_f64(),
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
        });
    }
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

pub(super) fn faces(manager: &mut Manager<'_>, uri: Option<String>, out: &mut Out) -> Shown {
    let filter = uri.map(|uri| FaceQueryFilter { uri: Some(uri), ..FaceQueryFilter::default() });
    let found = manager.faces(filter.as_ref())?;
    found.iter().try_for_each(|face| self::face(face, out))
}

fn face(face: &FaceStatus, out: &mut Out) -> Shown {
    let scope = if face.scope == 1 { "local" } else { "non-local" };
    let persistency = persistency(face.persistency);
    let link = match face.link_type {
        0 => "point-to-point",
        1 => "multi-access",
        _ => "ad-hoc",
    };
    let flag = |bit: u64| face.flags & bit != 0;
    if out.is_json() {
        return out.json(&FaceRow {
            face: face.face_id,
            remote: &face.uri,
            local: &face.local_uri,
            scope,
            persistency,
            link,
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
        });
    }
    let mut notes = vec![scope.to_owned(), persistency.to_owned(), link.to_owned()];
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

pub(super) fn routes(manager: &mut Manager<'_>, prefix: Option<&Name>, out: &mut Out) -> Shown {
    let found = manager.rib()?;
    for entry in found.iter().filter(|entry| prefix.is_none_or(|p| *p == entry.name)) {
        let name = entry.name.to_string();
        for route in &entry.routes {
            let inherit = route.flags & ROUTE_CHILD_INHERIT != 0;
            let capture = route.flags & ROUTE_CAPTURE != 0;
            if out.is_json() {
                out.json(&RouteRow {
                    prefix: &name,
                    face: route.face_id,
                    origin: route.origin,
                    cost: route.cost,
                    inherit,
                    capture,
                    expires_seconds: route.expiration_ms.map(|ms| ms as f64 / 1e3),
                })?;
                continue;
            }
            let ends = route.expiration_ms.map_or("never".to_owned(), |ms| {
                format!("in {}", duration(Duration::from_millis(ms)))
            });
            let (inherit, capture) =
                (if inherit { ", inherited" } else { "" }, if capture { ", captures" } else { "" });
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
    let found = manager.cs()?;
    let (admit, serve) = (found.flags & CS_ADMIT != 0, found.flags & CS_SERVE != 0);
    if out.is_json() {
        return out.json(&CsRow {
            capacity: found.capacity,
            entries: found.entries,
            hits: found.hits,
            misses: found.misses,
            admit,
            serve,
        });
    }
    let on = |yes| if yes { "on" } else { "off" };
    out.line(&format!("capacity    {} packets", found.capacity))?;
    out.line(&format!("holds       {} packets", found.entries))?;
    out.line(&format!("answered    {}, could not {}", found.hits, found.misses))?;
    out.line(&format!("admit       {}", on(admit)))?;
    out.line(&format!("serve       {}", on(serve)))
}

pub(super) fn strategies(manager: &mut Manager<'_>, out: &mut Out) -> Shown {
    for choice in manager.strategies()? {
        let (prefix, strategy) = (choice.name.to_string(), choice.strategy.to_string());
        match out.is_json() {
            true => out.json(&StrategyRow { prefix: &prefix, strategy: &strategy })?,
            false => out.line(&format!("{prefix} {strategy}"))?,
        }
    }
    Ok(())
}

/// `ctl status`.
#[derive(Serialize)]
#[serde(tag = "event", rename = "status")]
struct StatusRow<'a> {
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

/// A row of `ctl strategy list`.
#[derive(Serialize)]
#[serde(tag = "event", rename = "strategy")]
struct StrategyRow<'a> {
    prefix: &'a str,
    strategy: &'a str,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&StatusRow {
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
        assert_documented(&StrategyRow { prefix: "/a", strategy: "/s" });
    }
}
