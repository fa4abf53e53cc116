//! ControlParameters and ControlResponse (NFD wiki, "ControlCommand").
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::Name;

use crate::record::record;
use crate::types;

record! {
    /// Parameters of a command, and of its answer. They are written in NFD's order.
    pub struct ControlParameters within(types::CONTROL_PARAMETERS) {
        /// A prefix.
        name: Option<Name> = types::NAME,
        /// A face; 0 or absent stands for the face that the command came over.
        face_id: Option<u64> = types::FACE_ID,
        /// FaceUri of the remote end.
        uri: Option<String> = types::URI,
        /// FaceUri of the local end.
        local_uri: Option<String> = types::LOCAL_URI,
        /// The origin of a route ([`types::ORIGIN_APP`] and so on).
        origin: Option<u64> = types::ORIGIN,
        /// A route's cost.
        cost: Option<u64> = types::COST,
        /// Capacity of the content store, in packets.
        capacity: Option<u64> = types::CAPACITY,
        /// Number of packets to erase, or that were erased.
        count: Option<u64> = types::COUNT,
        /// Interval in nanoseconds.
        base_congestion_marking_interval: Option<u64> = types::BASE_CONGESTION_MARKING_INTERVAL,
        /// Threshold in bytes.
        default_congestion_threshold: Option<u64> = types::DEFAULT_CONGESTION_THRESHOLD,
        /// Maximum frame in bytes.
        mtu: Option<u64> = types::MTU,
        /// Flags of a face, a route or the content store.
        flags: Option<u64> = types::FLAGS,
        /// The flags to be changed.
        mask: Option<u64> = types::MASK,
        /// A strategy's name.
        strategy: Option<Name> = types::STRATEGY,
        /// Milliseconds until a route ends.
        expiration_ms: Option<u64> = types::EXPIRATION_PERIOD,
        /// Persistency of a face, as a number ([`crate::Persistency`]).
        persistency: Option<u64> = types::FACE_PERSISTENCY,
    }
}

record! {
    /// The answer to a command. Code 200 is success; the others resemble those of HTTP.
    pub struct ControlResponse within(types::CONTROL_RESPONSE) {
        /// The status code.
        code: u64 = types::STATUS_CODE,
        /// The status in words.
        text: String = types::STATUS_TEXT,
        /// Parameters as they are now, or the reason for a refusal. Some clients fail without them, so our answers
        /// always have them.
        parameters: Option<ControlParameters> = types::CONTROL_PARAMETERS,
    }
}

impl ControlResponse {
    /// An answer with parameters.
    pub fn new(code: u64, text: impl Into<String>, parameters: ControlParameters) -> Self {
        ControlResponse { code, text: text.into(), parameters: Some(parameters) }
    }
}
