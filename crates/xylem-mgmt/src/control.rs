//! ControlParameters and ControlResponse (NFD wiki, "ControlCommand").
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::Name;

use crate::record::record;
use crate::types;

record! {
    /// What a command is about, and what came of it. The order in which it is written is NFD's.
    pub struct ControlParameters within(types::CONTROL_PARAMETERS) {
        /// A prefix.
        name: Option<Name> = types::NAME,
        /// A face; 0 or absent is the one that the command came over.
        face_id: Option<u64> = types::FACE_ID,
        /// FaceUri of the remote end.
        uri: Option<String> = types::URI,
        /// FaceUri of the local end.
        local_uri: Option<String> = types::LOCAL_URI,
        /// Who made a route ([`types::ORIGIN_APP`] and so on).
        origin: Option<u64> = types::ORIGIN,
        /// A route's cost.
        cost: Option<u64> = types::COST,
        /// The content store's, in packets.
        capacity: Option<u64> = types::CAPACITY,
        /// How many packets to erase, or were erased.
        count: Option<u64> = types::COUNT,
        /// Nanoseconds.
        base_congestion_marking_interval: Option<u64> = types::BASE_CONGESTION_MARKING_INTERVAL,
        /// Bytes.
        default_congestion_threshold: Option<u64> = types::DEFAULT_CONGESTION_THRESHOLD,
        /// Bytes.
        mtu: Option<u64> = types::MTU,
        /// Of a face, a route or the content store.
        flags: Option<u64> = types::FLAGS,
        /// Which of the flags are meant.
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
    /// The answer to a command. 200 is success; the others are those of HTTP in spirit.
    pub struct ControlResponse within(types::CONTROL_RESPONSE) {
        /// What came of it.
        code: u64 = types::STATUS_CODE,
        /// The same in words.
        text: String = types::STATUS_TEXT,
        /// What was done, or what stands in the way. Some clients fail without it, so our answers
        /// always have it.
        parameters: Option<ControlParameters> = types::CONTROL_PARAMETERS,
    }
}

impl ControlResponse {
    /// An answer with what was done.
    pub fn new(code: u64, text: impl Into<String>, parameters: ControlParameters) -> Self {
        ControlResponse { code, text: text.into(), parameters: Some(parameters) }
    }
}
