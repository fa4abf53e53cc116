//! Entries of datasets as JSON: the fields of docs/spec/json-events.md, in which numbers of the protocol are words and
//! flags are true or false.

use core::time::Duration;

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::types::{CS_ADMIT, CS_SERVE, ROUTE_CAPTURE, ROUTE_CHILD_INHERIT};
use crate::types::{FLAG_CONGESTION_MARKING, FLAG_LOCAL_FIELDS, FLAG_LP_RELIABILITY};
use crate::{
    CsStatus, FaceStatus, FaceUri, GeneralStatus, NextHopRecord, RibRoute, StrategyChoice,
};

impl Serialize for FaceUri {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

macro_rules! object {
    ($record:ty, |$it:ident| $($field:ident: $value:expr,)*) => {
        impl Serialize for $record {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $it = self;
                let mut object = serializer.serialize_map(None)?;
                $( object.serialize_entry(stringify!($field), &$value)?; )*
                object.end()
            }
        }
    };
}

fn seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}

object! { GeneralStatus, |it|
    version: it.version,
    uptime_seconds: it.uptime().as_secs_f64(),
    fib_entries: it.fib_entries,
    pit_entries: it.pit_entries,
    cs_entries: it.cs_entries,
    in_interests: it.in_interests,
    in_data: it.in_data,
    in_nacks: it.in_nacks,
    out_interests: it.out_interests,
    out_data: it.out_data,
    out_nacks: it.out_nacks,
    satisfied: it.satisfied,
    unsatisfied: it.unsatisfied,
}

object! { FaceStatus, |it|
    face: it.face_id,
    remote: it.uri,
    local: it.local_uri,
    scope: it.scope_name(),
    persistency: it.persistency_name(),
    link: it.link_type_name(),
    mtu: it.mtu,
    expires_seconds: it.expiration_ms.map(seconds),
    reliability: it.flags & FLAG_LP_RELIABILITY != 0,
    congestion_marking: it.flags & FLAG_CONGESTION_MARKING != 0,
    local_fields: it.flags & FLAG_LOCAL_FIELDS != 0,
    in_interests: it.in_interests,
    in_data: it.in_data,
    in_nacks: it.in_nacks,
    in_bytes: it.in_bytes,
    out_interests: it.out_interests,
    out_data: it.out_data,
    out_nacks: it.out_nacks,
    out_bytes: it.out_bytes,
}

// Without the prefix, which the enclosing entry has.
object! { RibRoute, |it|
    face: it.face_id,
    origin: it.origin,
    cost: it.cost,
    inherit: it.flags & ROUTE_CHILD_INHERIT != 0,
    capture: it.flags & ROUTE_CAPTURE != 0,
    expires_seconds: it.expiration_ms.map(seconds),
}

// Without the prefix, which the enclosing entry has.
object! { NextHopRecord, |it|
    face: it.face_id,
    cost: it.cost,
}

object! { CsStatus, |it|
    capacity: it.capacity,
    entries: it.entries,
    hits: it.hits,
    misses: it.misses,
    admit: it.flags & CS_ADMIT != 0,
    serve: it.flags & CS_SERVE != 0,
}

object! { StrategyChoice, |it|
    prefix: it.name,
    strategy: it.strategy,
}
