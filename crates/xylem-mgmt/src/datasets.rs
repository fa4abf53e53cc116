//! The entries of datasets, and notifications of face events (NFD wiki, "StatusDataset",
//! "ForwarderStatus", "FaceMgmt", "FibMgmt", "RibMgmt", "CsMgmt", "StrategyChoice").
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::time::Duration;

use xylem_packet::Name;

use crate::record::record;
use crate::{Persistency, types};

record! {
    /// status/general: the only dataset that is one record without an element around it.
    pub struct GeneralStatus {
        /// Program and version.
        version: String = types::ENTRY,
        /// When the forwarder began, milliseconds since 1970.
        start_ms: u64 = types::LOCAL_URI,
        /// When this was written, likewise.
        current_ms: u64 = types::CHANNEL_STATUS,
        /// Entries of the name tree, where there is one.
        name_tree_entries: u64 = types::CAPACITY,
        /// Prefixes with next hops.
        fib_entries: u64 = types::COUNT,
        /// Pending Interests.
        pit_entries: u64 = types::FACE_PERSISTENCY,
        /// Entries of the measurements table, where there is one.
        measurements_entries: u64 = types::LINK_TYPE,
        /// Cached Data.
        cs_entries: u64 = types::BASE_CONGESTION_MARKING_INTERVAL,
        /// Interests received.
        in_interests: u64 = types::N_IN_INTERESTS,
        /// Data received.
        in_data: u64 = types::N_IN_DATA,
        /// Nacks received.
        in_nacks: u64 = types::N_IN_NACKS,
        /// Interests sent.
        out_interests: u64 = types::N_OUT_INTERESTS,
        /// Data sent.
        out_data: u64 = types::N_OUT_DATA,
        /// Nacks sent.
        out_nacks: u64 = types::N_OUT_NACKS,
        /// Pending Interests that Data ended.
        satisfied: u64 = types::N_SATISFIED_INTERESTS,
        /// Pending Interests that ran out.
        unsatisfied: u64 = types::N_UNSATISFIED_INTERESTS,
    }
}

impl GeneralStatus {
    /// How long the forwarder has been running.
    pub fn uptime(&self) -> Duration {
        Duration::from_millis(self.current_ms.saturating_sub(self.start_ms))
    }
}

record! {
    /// An entry of faces/list and faces/query.
    pub struct FaceStatus entry(types::ENTRY) {
        /// The face's number.
        face_id: u64 = types::FACE_ID,
        /// FaceUri of the remote end.
        uri: String = types::URI,
        /// FaceUri of the local end.
        local_uri: String = types::LOCAL_URI,
        /// Milliseconds until an idle face ends.
        expiration_ms: Option<u64> = types::EXPIRATION_PERIOD,
        /// 0 non-local, 1 local.
        scope: u64 = types::COUNT,
        /// 0 persistent, 1 on demand, 2 permanent.
        persistency: u64 = types::FACE_PERSISTENCY,
        /// 0 point-to-point, 1 multi-access, 2 ad hoc.
        link_type: u64 = types::LINK_TYPE,
        /// Nanoseconds.
        base_congestion_marking_interval: Option<u64> = types::BASE_CONGESTION_MARKING_INTERVAL,
        /// Bytes.
        default_congestion_threshold: Option<u64> = types::DEFAULT_CONGESTION_THRESHOLD,
        /// Bytes.
        mtu: Option<u64> = types::MTU,
        /// Interests received.
        in_interests: u64 = types::N_IN_INTERESTS,
        /// Data received.
        in_data: u64 = types::N_IN_DATA,
        /// Nacks received.
        in_nacks: u64 = types::N_IN_NACKS,
        /// Interests sent.
        out_interests: u64 = types::N_OUT_INTERESTS,
        /// Data sent.
        out_data: u64 = types::N_OUT_DATA,
        /// Nacks sent.
        out_nacks: u64 = types::N_OUT_NACKS,
        /// Bytes received.
        in_bytes: u64 = types::N_IN_BYTES,
        /// Bytes sent.
        out_bytes: u64 = types::N_OUT_BYTES,
        /// [`types::FLAG_LOCAL_FIELDS`] and so on.
        flags: u64 = types::FLAGS,
    }
}

impl FaceStatus {
    /// Where it leads.
    pub fn scope_name(&self) -> &'static str {
        if self.scope == 1 { "local" } else { "non-local" }
    }

    /// How long it lives.
    pub fn persistency_name(&self) -> &'static str {
        Persistency::from_number(self.persistency).unwrap_or(Persistency::Permanent).name()
    }

    /// Who hears it.
    pub fn link_type_name(&self) -> &'static str {
        match self.link_type {
            0 => "point-to-point",
            1 => "multi-access",
            _ => "ad-hoc",
        }
    }
}

record! {
    /// Which faces are asked for: those that agree with every field.
    pub struct FaceQueryFilter within(types::FACE_QUERY_FILTER) {
        /// The face's number.
        face_id: Option<u64> = types::FACE_ID,
        /// Scheme of either FaceUri.
        uri_scheme: Option<String> = types::CAPACITY,
        /// FaceUri of the remote end.
        uri: Option<String> = types::URI,
        /// FaceUri of the local end.
        local_uri: Option<String> = types::LOCAL_URI,
        /// As in [`FaceStatus`].
        scope: Option<u64> = types::COUNT,
        /// As in [`FaceStatus`].
        persistency: Option<u64> = types::FACE_PERSISTENCY,
        /// As in [`FaceStatus`].
        link_type: Option<u64> = types::LINK_TYPE,
    }
}

impl FaceQueryFilter {
    /// Does the face agree with every field?
    pub fn matches(&self, face: &FaceStatus) -> bool {
        fn agrees<T: PartialEq + ?Sized>(wanted: Option<&T>, found: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == found)
        }
        let scheme =
            |uri: &str, wanted: &str| uri.split_once("://").is_some_and(|(s, _)| s == wanted);
        agrees(self.face_id.as_ref(), &face.face_id)
            && agrees(self.uri.as_ref(), &face.uri)
            && agrees(self.local_uri.as_ref(), &face.local_uri)
            && agrees(self.scope.as_ref(), &face.scope)
            && agrees(self.persistency.as_ref(), &face.persistency)
            && agrees(self.link_type.as_ref(), &face.link_type)
            && self
                .uri_scheme
                .as_ref()
                .is_none_or(|wanted| scheme(&face.uri, wanted) || scheme(&face.local_uri, wanted))
    }
}

record! {
    /// An entry of faces/channels: where new faces come from.
    pub struct ChannelStatus entry(types::CHANNEL_STATUS) {
        /// FaceUri of what listens.
        local_uri: String = types::LOCAL_URI,
    }
}

record! {
    /// A notification of the stream faces/events.
    pub struct FaceEvent within(types::FACE_EVENT_NOTIFICATION) {
        /// 1 created, 2 destroyed, 3 up, 4 down.
        kind: u64 = types::FACE_EVENT_KIND,
        /// The face's number.
        face_id: u64 = types::FACE_ID,
        /// FaceUri of the remote end.
        uri: String = types::URI,
        /// FaceUri of the local end.
        local_uri: String = types::LOCAL_URI,
        /// As in [`FaceStatus`].
        scope: u64 = types::COUNT,
        /// As in [`FaceStatus`].
        persistency: u64 = types::FACE_PERSISTENCY,
        /// As in [`FaceStatus`].
        link_type: u64 = types::LINK_TYPE,
        /// As in [`FaceStatus`].
        flags: u64 = types::FLAGS,
    }
}

impl FaceEvent {
    /// [`FaceEvent::kind`] of a new face.
    pub const CREATED: u64 = 1;
    /// [`FaceEvent::kind`] of a face that has gone.
    pub const DESTROYED: u64 = 2;
}

record! {
    /// One way of a FIB entry.
    pub struct NextHopRecord {
        /// The face.
        face_id: u64 = types::FACE_ID,
        /// What going there costs.
        cost: u64 = types::COST,
    }
}

record! {
    /// An entry of fib/list.
    pub struct FibEntry entry(types::ENTRY) {
        /// The prefix.
        name: Name = types::NAME,
        /// Its ways.
        next_hops: Vec<NextHopRecord> = types::LOCAL_URI,
    }
}

record! {
    /// One route of a RIB entry.
    pub struct RibRoute {
        /// The face.
        face_id: u64 = types::FACE_ID,
        /// Who made it.
        origin: u64 = types::ORIGIN,
        /// What going there costs.
        cost: u64 = types::COST,
        /// [`types::ROUTE_CHILD_INHERIT`], [`types::ROUTE_CAPTURE`].
        flags: u64 = types::FLAGS,
        /// Milliseconds until it ends.
        expiration_ms: Option<u64> = types::EXPIRATION_PERIOD,
    }
}

record! {
    /// An entry of rib/list.
    pub struct RibEntry entry(types::ENTRY) {
        /// The prefix.
        name: Name = types::NAME,
        /// Its routes.
        routes: Vec<RibRoute> = types::LOCAL_URI,
    }
}

record! {
    /// The one entry of cs/info.
    pub struct CsStatus entry(types::ENTRY) {
        /// Packets that the store may hold.
        capacity: u64 = types::CAPACITY,
        /// [`types::CS_ADMIT`], [`types::CS_SERVE`].
        flags: u64 = types::FLAGS,
        /// Packets that it holds.
        entries: u64 = types::BASE_CONGESTION_MARKING_INTERVAL,
        /// Interests that it answered.
        hits: u64 = types::LOCAL_URI,
        /// Interests that it could not answer.
        misses: u64 = types::CHANNEL_STATUS,
    }
}

record! {
    /// An entry of strategy-choice/list.
    pub struct StrategyChoice entry(types::ENTRY) {
        /// The prefix.
        name: Name = types::NAME,
        /// The strategy's name.
        strategy: Name = types::STRATEGY,
    }
}
