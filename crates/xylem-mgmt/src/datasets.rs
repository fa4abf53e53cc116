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
        /// Start of the forwarder, in milliseconds since 1970.
        start_ms: u64 = types::LOCAL_URI,
        /// Time of this record, in milliseconds since 1970.
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
        /// Pending Interests satisfied by Data.
        satisfied: u64 = types::N_SATISFIED_INTERESTS,
        /// Pending Interests that timed out.
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
        /// Interval in nanoseconds.
        base_congestion_marking_interval: Option<u64> = types::BASE_CONGESTION_MARKING_INTERVAL,
        /// Threshold in bytes.
        default_congestion_threshold: Option<u64> = types::DEFAULT_CONGESTION_THRESHOLD,
        /// Maximum frame in bytes.
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
    /// The scope in words.
    pub fn scope_name(&self) -> &'static str {
        if self.scope == 1 { "local" } else { "non-local" }
    }

    /// The persistency in words.
    pub fn persistency_name(&self) -> &'static str {
        Persistency::from_number(self.persistency).unwrap_or(Persistency::Permanent).name()
    }

    /// The link type in words.
    pub fn link_type_name(&self) -> &'static str {
        match self.link_type {
            0 => "point-to-point",
            1 => "multi-access",
            _ => "ad-hoc",
        }
    }
}

record! {
    /// A filter of faces: those that match every field.
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
    /// Whether the face matches every field.
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
    /// An entry of faces/channels: a socket that accepts new faces.
    pub struct ChannelStatus entry(types::CHANNEL_STATUS) {
        /// FaceUri of the listening socket.
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
    /// [`FaceEvent::kind`] of a face that is gone.
    pub const DESTROYED: u64 = 2;
}

record! {
    /// One next hop of a FIB entry.
    pub struct NextHopRecord {
        /// The face.
        face_id: u64 = types::FACE_ID,
        /// Its cost.
        cost: u64 = types::COST,
    }
}

record! {
    /// An entry of fib/list.
    pub struct FibEntry entry(types::ENTRY) {
        /// The prefix.
        name: Name = types::NAME,
        /// Its next hops.
        next_hops: Vec<NextHopRecord> = types::LOCAL_URI,
    }
}

record! {
    /// One route of a RIB entry.
    pub struct RibRoute {
        /// The face.
        face_id: u64 = types::FACE_ID,
        /// Its origin.
        origin: u64 = types::ORIGIN,
        /// Its cost.
        cost: u64 = types::COST,
        /// [`types::ROUTE_CHILD_INHERIT`], [`types::ROUTE_CAPTURE`].
        flags: u64 = types::FLAGS,
        /// Milliseconds until it expires.
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
        /// Maximum number of packets in the store.
        capacity: u64 = types::CAPACITY,
        /// [`types::CS_ADMIT`], [`types::CS_SERVE`].
        flags: u64 = types::FLAGS,
        /// Number of packets in the store.
        entries: u64 = types::BASE_CONGESTION_MARKING_INTERVAL,
        /// Interests answered from the store.
        hits: u64 = types::LOCAL_URI,
        /// Interests not found in the store.
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
