//! NDNLPv2 packets: link headers that two neighbours exchange around a packet.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use crate::acks::Acks;
use crate::buffer::{Buffer, Slice};
use crate::tlv::{self, OpenElement, TlvReader, types};
use crate::{DecodeError, EncodeError, MAX_FRAME};

/// Longest PitToken (NDNLPv2, "PIT Token").
pub const MAX_PIT_TOKEN: usize = 32;

/// Reason of a Nack (NDNLPv2, "Network Nack").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NackReason(pub u64);

impl NackReason {
    /// No reason given.
    pub const NONE: Self = Self(0);
    /// The link is congested.
    pub const CONGESTION: Self = Self(50);
    /// The nonce was seen before.
    pub const DUPLICATE: Self = Self(100);
    /// There is no next hop for the Interest.
    pub const NO_ROUTE: Self = Self(150);
}

/// A producer's request to the caches on its Data's path (NDNLPv2, "Cache Policy"). An unknown policy requests nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CachePolicy(pub u64);

impl CachePolicy {
    /// Do not cache the Data.
    pub const NO_CACHE: Self = Self(1);
}

/// An NDNLPv2 packet. Without a fragment it is idle: it carries headers only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LpPacket<'a> {
    /// The network packet, or the piece of it with index `frag_index`.
    pub fragment: Option<&'a [u8]>,
    /// Sequence number of this packet on the link.
    pub sequence: Option<u64>,
    /// Index of this piece of a network packet, from 0.
    pub frag_index: Option<u64>,
    /// Number of pieces.
    pub frag_count: Option<u64>,
    /// 1..=32 opaque octets that are returned with the Data or Nack.
    pub pit_token: Option<&'a [u8]>,
    /// The fragment is an Interest that is returned for this reason.
    pub nack: Option<NackReason>,
    /// The face to which a local application wants its Interest to go.
    pub next_hop_face_id: Option<u64>,
    /// The face from which a packet to a local application came.
    pub incoming_face_id: Option<u64>,
    /// Whether the Data may be cached.
    pub cache_policy: Option<CachePolicy>,
    /// Congestion mark; 0 means no congestion.
    pub congestion_mark: Option<u64>,
    /// TxSequences of frames from the other side that have been received.
    pub acks: Acks<'a>,
    /// Number of this transmission; the other side acknowledges it.
    pub tx_sequence: Option<u64>,
    /// The Interest must not be flooded to find a route (self-learning).
    pub non_discovery: bool,
    /// A Data packet, not parsed here, by which its signer announces a prefix (self-learning).
    pub prefix_announcement: Option<&'a [u8]>,
}

impl<'a> LpPacket<'a> {
    /// Checks `wire`, which is one whole LpPacket of at most [`MAX_FRAME`] bytes. The fragment is not parsed.
    ///
    /// Header fields must be in the order of their numbers, the fragment last; only Ack may be repeated. An unknown
    /// field is skipped if its number is 800..=959 and divisible by 4, and refused otherwise.
    pub fn decode(wire: &'a [u8]) -> Result<Self, DecodeError> {
        if wire.len() > MAX_FRAME {
            return Err(DecodeError::TooLong(wire.len() as u64));
        }
        let inside = types::LP_PACKET;
        let value = tlv::read_only(wire, inside)?.value;
        let mut reader = TlvReader::new(value);
        let mut lp = LpPacket::default();
        let mut last = 0;
        let mut acks = None;
        while let Some(element) = reader.next_element()? {
            let typ = element.typ;
            if lp.fragment.is_some() || (typ < last && typ != types::LP_FRAGMENT) {
                return Err(DecodeError::OutOfOrder { inside, typ });
            }
            if typ == types::LP_ACK {
                octets8(typ, element.value)?;
                let start = acks.map_or(element.start, |(start, _)| start);
                acks = Some((start, element.end));
            } else if lp.set(typ, element.value)? && typ == last {
                return Err(DecodeError::Repeated { inside, typ });
            }
            last = typ;
        }
        if let Some((start, end)) = acks {
            lp.acks = Acks::checked(&value[start..end]);
        }
        Ok(lp)
    }

    /// Sets one field other than Ack. Returns false if it is unknown and to be skipped.
    #[inline]
    fn set(&mut self, typ: u32, value: &'a [u8]) -> Result<bool, DecodeError> {
        let number = || tlv::number_of(typ, value).map(Some);
        let octets8 = || octets8(typ, value).map(Some);
        let bad_length = DecodeError::BadLength { typ, len: value.len() };
        match typ {
            types::LP_FRAGMENT => self.fragment = Some(value),
            types::LP_SEQUENCE => self.sequence = octets8()?,
            types::LP_FRAG_INDEX => self.frag_index = number()?,
            types::LP_FRAG_COUNT => self.frag_count = number()?,
            types::LP_PIT_TOKEN if value.is_empty() || value.len() > MAX_PIT_TOKEN => {
                return Err(bad_length);
            }
            types::LP_PIT_TOKEN => self.pit_token = Some(value),
            types::LP_NACK => {
                let reason = only_number(value, typ, types::LP_NACK_REASON)?;
                self.nack = Some(NackReason(reason.unwrap_or(0)));
            }
            types::LP_INCOMING_FACE_ID => self.incoming_face_id = number()?,
            types::LP_NEXT_HOP_FACE_ID => self.next_hop_face_id = number()?,
            types::LP_CACHE_POLICY => {
                let inner = types::LP_CACHE_POLICY_TYPE;
                let policy = only_number(value, typ, inner)?;
                let missing = DecodeError::Missing { inside: typ, typ: inner };
                self.cache_policy = Some(CachePolicy(policy.ok_or(missing)?));
            }
            types::LP_CONGESTION_MARK => self.congestion_mark = number()?,
            types::LP_TX_SEQUENCE => self.tx_sequence = octets8()?,
            types::LP_NON_DISCOVERY if !value.is_empty() => return Err(bad_length),
            types::LP_NON_DISCOVERY => self.non_discovery = true,
            types::LP_PREFIX_ANNOUNCEMENT => self.prefix_announcement = Some(value),
            typ if may_be_skipped(typ) => return Ok(false),
            typ => return Err(DecodeError::UnknownCritical { inside: types::LP_PACKET, typ }),
        }
        Ok(true)
    }

    /// Returns whether the fragment is one piece of several.
    pub fn is_fragmented(&self) -> bool {
        self.frag_count.is_some_and(|count| count != 1) || self.frag_index.is_some_and(|i| i != 0)
    }

    /// Appends the packet. The PIT token has at most [`MAX_PIT_TOKEN`] octets.
    pub fn encode(&self, out: &mut impl Buffer) {
        let fragment_len = self.fragment.map_or(0, <[u8]>::len);
        out.expect_more(fragment_len.saturating_add(128));
        let width = if fragment_len > 180 { 3 } else { 1 };
        let outer = OpenElement::begin(out, types::LP_PACKET, width);
        self.encode_fields(out);
        if let Some(fragment) = self.fragment {
            tlv::write_element(out, types::LP_FRAGMENT, fragment);
        }
        outer.end(out);
    }

    /// Writes the packet to the beginning of `out` and returns its length. Errors: `NoRoom`.
    pub fn encode_to_slice(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut out = Slice::new(out);
        self.encode(&mut out);
        if out.is_full() { Err(EncodeError::NoRoom) } else { Ok(out.written().len()) }
    }

    /// Appends every header field in ascending order, without the fragment.
    pub(crate) fn encode_fields(&self, out: &mut impl Buffer) {
        if let Some(sequence) = self.sequence {
            tlv::write_element(out, types::LP_SEQUENCE, &sequence.to_be_bytes());
        }
        write_number(out, types::LP_FRAG_INDEX, self.frag_index);
        write_number(out, types::LP_FRAG_COUNT, self.frag_count);
        if let Some(token) = self.pit_token {
            tlv::write_element(out, types::LP_PIT_TOKEN, token);
        }
        if let Some(reason) = self.nack {
            // No reason means the same as reason 0.
            let reason = (reason != NackReason::NONE).then_some(reason.0);
            write_nested(out, types::LP_NACK, types::LP_NACK_REASON, reason);
        }
        write_number(out, types::LP_INCOMING_FACE_ID, self.incoming_face_id);
        write_number(out, types::LP_NEXT_HOP_FACE_ID, self.next_hop_face_id);
        if let Some(CachePolicy(policy)) = self.cache_policy {
            let inner = types::LP_CACHE_POLICY_TYPE;
            write_nested(out, types::LP_CACHE_POLICY, inner, Some(policy));
        }
        write_number(out, types::LP_CONGESTION_MARK, self.congestion_mark);
        for ack in self.acks {
            tlv::write_element(out, types::LP_ACK, &ack.to_be_bytes());
        }
        if let Some(number) = self.tx_sequence {
            tlv::write_element(out, types::LP_TX_SEQUENCE, &number.to_be_bytes());
        }
        if self.non_discovery {
            tlv::write_element(out, types::LP_NON_DISCOVERY, &[]);
        }
        if let Some(announcement) = self.prefix_announcement {
            tlv::write_element(out, types::LP_PREFIX_ANNOUNCEMENT, announcement);
        }
    }
}

fn write_number(out: &mut impl Buffer, typ: u32, value: Option<u64>) {
    if let Some(value) = value {
        tlv::write_number_element(out, typ, value);
    }
}

/// Writes a field of type `typ` around at most one number of type `inner` (a 3-octet type).
#[expect(clippy::arithmetic_side_effects, reason = "at most 12")]
fn write_nested(out: &mut impl Buffer, typ: u32, inner: u32, number: Option<u64>) {
    tlv::write_var_number(out, u64::from(typ));
    let len = number.map_or(0, |number| 3 + 1 + tlv::number_octets(number).1);
    tlv::write_var_number(out, len as u64);
    write_number(out, inner, number);
}

/// Returns whether a receiver that does not know this header field ignores it (NDNLPv2: a number in 800..=959 with the
/// two lowest bits 0).
const fn may_be_skipped(typ: u32) -> bool {
    matches!(typ, 800..=959) && typ & 3 == 0
}

/// Reads the value of Sequence, TxSequence or Ack, which have a fixed width.
fn octets8(typ: u32, value: &[u8]) -> Result<u64, DecodeError> {
    let octets = <[u8; 8]>::try_from(value);
    octets.map(u64::from_be_bytes).map_err(|_| DecodeError::BadLength { typ, len: value.len() })
}

/// Reads the value of field `inside`: at most one number of type `wanted`, and unknown elements of later versions.
fn only_number(value: &[u8], inside: u32, wanted: u32) -> Result<Option<u64>, DecodeError> {
    let mut reader = TlvReader::new(value);
    let mut number = None;
    while let Some(element) = reader.next_element()? {
        let typ = element.typ;
        if typ == wanted {
            if number.replace(tlv::number_of(typ, element.value)?).is_some() {
                return Err(DecodeError::Repeated { inside, typ });
            }
        } else if !may_be_skipped(typ) {
            return Err(DecodeError::UnknownCritical { inside, typ });
        }
    }
    Ok(number)
}
