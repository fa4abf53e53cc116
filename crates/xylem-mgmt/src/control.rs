//! ControlParameters and ControlResponse (NFD wiki, "ControlCommand").
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::Name;
use xylem_packet::tlv::{Reader, write_element};

use crate::record::record;
use crate::{CodecError, types};

record! {
    /// What a command is about, and what came of it. The order in which it is written is NFD's.
    pub struct ControlParameters {
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

impl ControlParameters {
    /// Reads a whole element, as it stands in a command's name.
    ///
    /// # Errors
    /// See [`CodecError`]; `Missing` if the element is another.
    pub fn decode(wire: &[u8]) -> Result<Self, CodecError> {
        Self::from_value(only(wire, types::CONTROL_PARAMETERS)?)
    }

    /// The whole element.
    pub fn encode(&self) -> Vec<u8> {
        let (mut value, mut out) = (Vec::new(), Vec::new());
        self.write_value(&mut value);
        write_element(&mut out, types::CONTROL_PARAMETERS, &value);
        out
    }
}

record! {
    /// The answer to a command. 200 is success; the others are those of HTTP in spirit.
    pub struct ControlResponse {
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

    /// Reads a whole element, the content of the answering Data.
    ///
    /// # Errors
    /// See [`CodecError`]; `Missing` if the element is another.
    pub fn decode(wire: &[u8]) -> Result<Self, CodecError> {
        Self::from_value(only(wire, types::CONTROL_RESPONSE)?)
    }

    /// The whole element.
    pub fn encode(&self) -> Vec<u8> {
        let (mut value, mut out) = (Vec::new(), Vec::new());
        self.write_value(&mut value);
        write_element(&mut out, types::CONTROL_RESPONSE, &value);
        out
    }
}

/// The value of the one element of type `typ` that `wire` is.
pub(crate) fn only(wire: &[u8], typ: u32) -> Result<&[u8], CodecError> {
    let element = Reader::new(wire).next_element()?.ok_or(CodecError::Missing(typ))?;
    if element.typ != typ {
        return Err(CodecError::Missing(typ));
    }
    if element.end == wire.len() { Ok(element.value) } else { Err(CodecError::Malformed(typ)) }
}
