//! NDNLPv2: what two neighbours tell each other around a packet.

use alloc::vec::Vec;

use crate::tlv::{self, Open, Reader, types};
use crate::{DecodeError, MAX_FRAME};

/// Longest PitToken (NDNLPv2, "PIT Token").
pub const MAX_PIT_TOKEN: usize = 32;

/// Why an Interest comes back (NDNLPv2, "Network Nack").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NackReason(pub u64);

impl NackReason {
    /// No reason given.
    pub const NONE: Self = Self(0);
    /// The link is congested.
    pub const CONGESTION: Self = Self(50);
    /// The nonce was seen before.
    pub const DUPLICATE: Self = Self(100);
    /// Nobody to forward it to.
    pub const NO_ROUTE: Self = Self(150);
}

/// An NDNLPv2 packet. Without a fragment it is idle: it only carries headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LpPacket<'a> {
    /// The network packet, or the piece of it that `frag_index` says.
    pub fragment: Option<&'a [u8]>,
    /// Sequence number of this packet on the link.
    pub sequence: Option<u64>,
    /// Which piece of a network packet this is, the first being 0.
    pub frag_index: Option<u64>,
    /// How many pieces there are.
    pub frag_count: Option<u64>,
    /// 1..=32 opaque octets that come back with the Data or Nack.
    pub pit_token: Option<&'a [u8]>,
    /// The fragment is an Interest that comes back, for this reason.
    pub nack: Option<NackReason>,
    /// Where a local application wants its Interest to go.
    pub next_hop_face_id: Option<u64>,
    /// Where a packet to a local application came from.
    pub incoming_face_id: Option<u64>,
    /// 0 is no congestion.
    pub congestion_mark: Option<u64>,
}

impl<'a> LpPacket<'a> {
    /// Checks `wire`, which is one whole LpPacket of at most [`MAX_FRAME`] bytes. What the fragment
    /// holds is not looked into.
    ///
    /// An unknown header field is skipped if its number is 800..=959 and divisible by 4, and
    /// refused otherwise. A field may not be repeated nor follow the fragment.
    pub fn decode(wire: &'a [u8]) -> Result<Self, DecodeError> {
        if wire.len() > MAX_FRAME {
            return Err(DecodeError::TooLong(wire.len() as u64));
        }
        let inside = types::LP_PACKET;
        let mut reader = Reader::new(tlv::read_only(wire, inside)?.value);
        let mut lp = LpPacket::default();
        while let Some(element) = reader.next_element()? {
            let (typ, value) = (element.typ, element.value);
            if lp.fragment.is_some() {
                return Err(DecodeError::OutOfOrder { inside, typ });
            }
            let bad_length = DecodeError::BadLength { typ, len: value.len() };
            let number = || tlv::number_of(typ, value);
            let repeated = match typ {
                types::LP_FRAGMENT => lp.fragment.replace(value).is_some(),
                types::LP_SEQUENCE => {
                    let octets = <[u8; 8]>::try_from(value).map_err(|_| bad_length)?;
                    lp.sequence.replace(u64::from_be_bytes(octets)).is_some()
                }
                types::LP_FRAG_INDEX => lp.frag_index.replace(number()?).is_some(),
                types::LP_FRAG_COUNT => lp.frag_count.replace(number()?).is_some(),
                types::LP_PIT_TOKEN => {
                    if value.is_empty() || value.len() > MAX_PIT_TOKEN {
                        return Err(bad_length);
                    }
                    lp.pit_token.replace(value).is_some()
                }
                types::LP_NACK => lp.nack.replace(nack_reason(value)?).is_some(),
                types::LP_NEXT_HOP_FACE_ID => lp.next_hop_face_id.replace(number()?).is_some(),
                types::LP_INCOMING_FACE_ID => lp.incoming_face_id.replace(number()?).is_some(),
                types::LP_CONGESTION_MARK => lp.congestion_mark.replace(number()?).is_some(),
                800..=959 if typ & 3 == 0 => false,
                _ => return Err(DecodeError::UnknownCritical { inside, typ }),
            };
            if repeated {
                return Err(DecodeError::Repeated { inside, typ });
            }
        }
        Ok(lp)
    }

    /// True if the fragment is one piece of several.
    pub fn is_fragmented(&self) -> bool {
        self.frag_count.is_some_and(|count| count != 1) || self.frag_index.is_some_and(|i| i != 0)
    }

    /// Appends the packet. The PIT token has at most [`MAX_PIT_TOKEN`] octets.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let fragment_len = self.fragment.map_or(0, <[u8]>::len);
        out.reserve(128 + fragment_len);
        let width = if fragment_len > 180 { 3 } else { 1 };
        let outer = Open::begin(out, types::LP_PACKET, width);
        if let Some(sequence) = self.sequence {
            tlv::write_element(out, types::LP_SEQUENCE, &sequence.to_be_bytes());
        }
        let mut number = |typ, value: Option<u64>| {
            if let Some(value) = value {
                tlv::write_number_element(out, typ, value);
            }
        };
        number(types::LP_FRAG_INDEX, self.frag_index);
        number(types::LP_FRAG_COUNT, self.frag_count);
        if let Some(token) = self.pit_token {
            tlv::write_element(out, types::LP_PIT_TOKEN, token);
        }
        if let Some(reason) = self.nack {
            // Never 253 octets or more, so its length stays one octet.
            let (octets, len) = tlv::number_octets(reason.0);
            tlv::write_var_number(out, u64::from(types::LP_NACK));
            let inner = if reason == NackReason::NONE { 0 } else { 3 + 1 + len };
            tlv::write_var_number(out, inner as u64);
            if inner != 0 {
                tlv::write_element(out, types::LP_NACK_REASON, &octets[..len]);
            }
        }
        let mut number = |typ, value: Option<u64>| {
            if let Some(value) = value {
                tlv::write_number_element(out, typ, value);
            }
        };
        number(types::LP_NEXT_HOP_FACE_ID, self.next_hop_face_id);
        number(types::LP_INCOMING_FACE_ID, self.incoming_face_id);
        number(types::LP_CONGESTION_MARK, self.congestion_mark);
        if let Some(fragment) = self.fragment {
            tlv::write_element(out, types::LP_FRAGMENT, fragment);
        }
        outer.end(out);
    }
}

/// The value of Nack: an optional NackReason, and whatever later versions add.
fn nack_reason(value: &[u8]) -> Result<NackReason, DecodeError> {
    let mut reader = Reader::new(value);
    let mut reason = None;
    while let Some(element) = reader.next_element()? {
        let (inside, typ) = (types::LP_NACK, element.typ);
        match typ {
            types::LP_NACK_REASON if reason.is_some() => {
                return Err(DecodeError::Repeated { inside, typ });
            }
            types::LP_NACK_REASON => reason = Some(tlv::number_of(typ, element.value)?),
            800..=959 if typ & 3 == 0 => {}
            _ => return Err(DecodeError::UnknownCritical { inside, typ }),
        }
    }
    Ok(NackReason(reason.unwrap_or(0)))
}
