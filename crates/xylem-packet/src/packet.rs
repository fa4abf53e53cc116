//! Any packet, and the ends of packets in a stream.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use crate::tlv::{self, types};
use crate::{Data, DecodeError, Interest, LpPacket};

/// Longest Interest or Data, in bytes: the limit that NDN implementations share. The format itself has none.
pub const MAX_PACKET: usize = 8800;

/// Longest LpPacket: a packet and this crate's allowance for headers.
pub const MAX_FRAME: usize = MAX_PACKET + 200;

/// One packet, checked.
#[derive(Debug, Clone, Copy)]
// Views live on the stack while one packet is handled; boxing the larger variant would cost an allocation.
#[allow(clippy::large_enum_variant)]
pub enum Packet<'a> {
    /// A request.
    Interest(Interest<'a>),
    /// An answer.
    Data(Data<'a>),
    /// An Interest or Data with link headers, or headers alone.
    Lp(LpPacket<'a>),
}

impl<'a> Packet<'a> {
    /// Checks `wire`, which must be one complete packet and nothing after it.
    #[cfg(feature = "std")]
    #[inline]
    pub fn decode(wire: &'a [u8]) -> Result<Self, DecodeError> {
        Self::decode_with(wire, crate::sha256)
    }

    /// As `decode`, with the caller's SHA-256, which is called only for Interests with parameters.
    #[inline]
    pub fn decode_with(
        wire: &'a [u8],
        sha256: impl FnOnce(&[u8]) -> [u8; 32],
    ) -> Result<Self, DecodeError> {
        match tlv::read_type(wire)?.0 {
            types::INTEREST => Interest::decode_with(wire, sha256).map(Packet::Interest),
            types::DATA => Data::decode(wire).map(Packet::Data),
            types::LP_PACKET => LpPacket::decode(wire).map(Packet::Lp),
            other => Err(DecodeError::NotAPacket(other)),
        }
    }
}

/// Length of the first complete packet in a stream's buffer; `None` if more bytes are needed.
///
/// Errors: a malformed type or length, a type that is no packet, a length above [`MAX_FRAME`]. An error leaves the
/// stream unusable, as the next packet's beginning is unknown.
pub fn frame_len(buffer: &[u8]) -> Result<Option<usize>, DecodeError> {
    let (typ, type_len) = match tlv::read_type(buffer) {
        Ok(read) => read,
        Err(DecodeError::Truncated) => return Ok(None),
        Err(error) => return Err(error),
    };
    if !matches!(typ, types::INTEREST | types::DATA | types::LP_PACKET) {
        return Err(DecodeError::NotAPacket(typ));
    }
    let (len, len_len) = match tlv::read_var_number(&buffer[type_len..]) {
        Ok(read) => read,
        Err(DecodeError::Truncated) => return Ok(None),
        Err(error) => return Err(error),
    };
    let total = len.saturating_add(type_len as u64).saturating_add(len_len as u64);
    match usize::try_from(total) {
        Ok(total @ ..=MAX_FRAME) => Ok((buffer.len() >= total).then_some(total)),
        _ => Err(DecodeError::TooLong(total)),
    }
}
