//! SignatureInfo: the type of a packet's signature, and where its key is. Other crates make and verify signatures.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::sync::atomic::{AtomicU32, Ordering};

use crate::buffer::Buffer;
use crate::tlv::{self, ElementOrder, TlvReader, types};
use crate::{DecodeError, NameRef};

/// Numbers in packets for types 6 to 9, which are not registered with NDN.
static ASSIGNED: [AtomicU32; 4] =
    [AtomicU32::new(6), AtomicU32::new(7), AtomicU32::new(8), AtomicU32::new(9)];

/// Marks a number of 6 to 9 that in packets stands for another type.
const REASSIGNED: u64 = 1 << 63;

/// SignatureType. Numbers up to 5 are NDN's; 6 to 9 are xylem's (`docs/spec/packet.md`), and packets may use other
/// numbers for them ([`SignatureType::assign`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignatureType(pub u64);

impl SignatureType {
    /// SHA-256 of the signed portion: integrity only.
    pub const DIGEST_SHA256: Self = Self(0);
    /// RSA over SHA-256.
    pub const RSA: Self = Self(1);
    /// ECDSA over SHA-256.
    pub const ECDSA: Self = Self(3);
    /// HMAC with SHA-256.
    pub const HMAC: Self = Self(4);
    /// Ed25519.
    pub const ED25519: Self = Self(5);
    /// BLAKE3 of the signed portion: integrity only.
    pub const DIGEST_BLAKE3: Self = Self(6);
    /// BLAKE3 keyed hash.
    pub const BLAKE3_KEYED: Self = Self(7);
    /// A segment's proof in a BLAKE3 tree: its own value, then the siblings from the bottom up.
    pub const BLAKE3_MERKLE: Self = Self(8);
    /// A segment's proof in an RFC 9162 tree of SHA-256.
    pub const SHA256_MERKLE: Self = Self(9);

    /// Every type that this workspace knows: its name, and whether a KeyLocator identifies the key. (A digest has no
    /// key, and its KeyLocator is ignored.)
    pub const TABLE: [(Self, &'static str, bool); 9] = [
        (Self::DIGEST_SHA256, "DigestSha256", false),
        (Self::RSA, "SignatureSha256WithRsa", true),
        (Self::ECDSA, "SignatureSha256WithEcdsa", true),
        (Self::HMAC, "SignatureHmacWithSha256", true),
        (Self::ED25519, "SignatureEd25519", true),
        (Self::DIGEST_BLAKE3, "DigestBlake3", false),
        (Self::BLAKE3_KEYED, "SignatureBlake3Keyed", true),
        (Self::BLAKE3_MERKLE, "SignatureBlake3Merkle", true),
        (Self::SHA256_MERKLE, "SignatureSha256Merkle", true),
    ];

    /// Sets the numbers that packets use for the types 6 to 9, in this order, for reading and writing in the whole
    /// process. Call it once, at the start of a program. Returns false and changes nothing if a number is repeated, is
    /// NDN's (0 to 5), or is that of the null signature (200).
    pub fn assign(numbers: [u32; 4]) -> bool {
        let is_free = |number: &u32| *number > 5 && *number != 200;
        let differ = (1..numbers.len()).all(|i| {
            let (before, from) = numbers.split_at(i);
            from.first().is_none_or(|number| !before.contains(number))
        });
        let right = differ && numbers.iter().all(is_free);
        if right {
            for (assigned, number) in ASSIGNED.iter().zip(numbers) {
                assigned.store(number, Ordering::Relaxed);
            }
        }
        right
    }

    /// The number that packets use for this type.
    pub fn number(self) -> u64 {
        match self.0 {
            6..=9 => {
                let ours = [6, 7, 8, 9].iter().position(|number| *number == self.0);
                let assigned = ours.and_then(|i| ASSIGNED.get(i));
                assigned.map_or(self.0, |assigned| assigned.load(Ordering::Relaxed).into())
            }
            number if matches!(number & !REASSIGNED, 6..=9) => number & !REASSIGNED,
            number => number,
        }
    }

    /// The type for which packets use this number.
    #[inline]
    fn of_number(number: u64) -> Self {
        // NDN's numbers, and most others, with one comparison.
        if number < 6 {
            return Self(number);
        }
        for (ours, assigned) in (6..).zip(&ASSIGNED) {
            if u64::from(assigned.load(Ordering::Relaxed)) == number {
                return Self(ours);
            }
        }
        if number < 10 { Self(REASSIGNED | number) } else { Self(number) }
    }

    /// The name in [`Self::TABLE`].
    pub fn name(self) -> Option<&'static str> {
        Self::TABLE.iter().find(|(typ, ..)| *typ == self).map(|(_, name, _)| *name)
    }
}

/// Where the signer's key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLocator<'a> {
    /// The name of the Data that holds the key, or of the signed manifest (types 8 and 9).
    Name(NameRef<'a>),
    /// The digest of the key.
    Digest(&'a [u8]),
}

impl<'a> KeyLocator<'a> {
    fn from_value(value: &'a [u8]) -> Result<Self, DecodeError> {
        let inside = types::KEY_LOCATOR;
        let mut reader = TlvReader::new(value);
        let order = ElementOrder::new(inside);
        let mut found = None;
        while let Some(element) = reader.next_element()? {
            match (element.typ, found) {
                (types::NAME | types::KEY_DIGEST, Some(_)) => {
                    return Err(DecodeError::Repeated { inside, typ: element.typ });
                }
                (types::NAME, None) => {
                    found = Some(KeyLocator::Name(NameRef::from_value(element.value)?));
                }
                (types::KEY_DIGEST, None) => found = Some(KeyLocator::Digest(element.value)),
                (typ, _) => order.unknown(typ)?,
            }
        }
        found.ok_or(DecodeError::Missing { inside, typ: types::NAME })
    }

    fn encode(&self, out: &mut impl Buffer) {
        tlv::write_var_number(out, u64::from(types::KEY_LOCATOR));
        tlv::write_var_number(out, self.value_len() as u64);
        match self {
            KeyLocator::Name(name) => name.encode(out),
            KeyLocator::Digest(digest) => tlv::write_element(out, types::KEY_DIGEST, digest),
        }
    }

    fn value_len(&self) -> usize {
        match self {
            KeyLocator::Name(name) => name.encoded_len(),
            KeyLocator::Digest(digest) => tlv::element_len(types::KEY_DIGEST, digest.len()),
        }
    }
}

/// The value of SignatureInfo or InterestSignatureInfo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignatureInfo<'a> {
    /// The type of the signature.
    pub typ: SignatureType,
    /// Where the key is, if present.
    pub key_locator: Option<KeyLocator<'a>>,
    /// SignatureNonce (Interests).
    pub nonce: Option<&'a [u8]>,
    /// SignatureTime in milliseconds since 1970 (Interests).
    pub time_ms: Option<u64>,
    /// SignatureSeqNum (Interests).
    pub sequence: Option<u64>,
    /// The value of ValidityPeriod (certificates), not parsed.
    pub validity_period: Option<&'a [u8]>,
}

impl<'a> SignatureInfo<'a> {
    /// Type and key only.
    pub const fn new(typ: SignatureType, key_locator: Option<KeyLocator<'a>>) -> Self {
        SignatureInfo {
            typ,
            key_locator,
            nonce: None,
            time_ms: None,
            sequence: None,
            validity_period: None,
        }
    }

    /// Reads a complete SignatureInfo element and nothing after it. Signed Interests from before packet format v0.3
    /// carry one in a name component.
    pub fn decode(wire: &'a [u8]) -> Result<Self, DecodeError> {
        let typ = types::SIGNATURE_INFO;
        Self::from_value(tlv::read_only(wire, typ)?.value, typ)
    }

    /// Reads the value of element `inside` (SignatureInfo or InterestSignatureInfo).
    pub(crate) fn from_value(value: &'a [u8], inside: u32) -> Result<Self, DecodeError> {
        let mut reader = TlvReader::new(value);
        let mut order = ElementOrder::new(inside);
        let mut typ = None;
        let mut info = SignatureInfo::new(SignatureType(0), None);
        while let Some(element) = reader.next_element()? {
            let rank = match element.typ {
                types::SIGNATURE_TYPE => 1,
                types::KEY_LOCATOR => 2,
                types::SIGNATURE_NONCE => 3,
                types::SIGNATURE_TIME => 4,
                types::SIGNATURE_SEQ_NUM => 5,
                types::VALIDITY_PERIOD => 6,
                other => {
                    order.unknown(other)?;
                    continue;
                }
            };
            if !order.admit(rank, element.typ)? {
                continue;
            }
            let value = element.value;
            match element.typ {
                types::SIGNATURE_TYPE => {
                    typ = Some(SignatureType::of_number(tlv::number_of(element.typ, value)?));
                }
                types::KEY_LOCATOR => info.key_locator = Some(KeyLocator::from_value(value)?),
                types::SIGNATURE_NONCE if value.is_empty() => {
                    return Err(DecodeError::BadLength { typ: element.typ, len: 0 });
                }
                types::SIGNATURE_NONCE => info.nonce = Some(value),
                types::SIGNATURE_TIME => info.time_ms = Some(tlv::number_of(element.typ, value)?),
                types::SIGNATURE_SEQ_NUM => {
                    info.sequence = Some(tlv::number_of(element.typ, value)?);
                }
                _ => info.validity_period = Some(value),
            }
        }
        info.typ = typ.ok_or(DecodeError::Missing { inside, typ: types::SIGNATURE_TYPE })?;
        Ok(info)
    }

    /// Appends the whole element, with type `outer`.
    pub(crate) fn encode(&self, out: &mut impl Buffer, outer: u32) {
        let open = tlv::OpenElement::begin(out, outer, 1);
        tlv::write_number_element(out, types::SIGNATURE_TYPE, self.typ.number());
        if let Some(key_locator) = &self.key_locator {
            key_locator.encode(out);
        }
        if let Some(nonce) = self.nonce {
            tlv::write_element(out, types::SIGNATURE_NONCE, nonce);
        }
        if let Some(time) = self.time_ms {
            tlv::write_number_element(out, types::SIGNATURE_TIME, time);
        }
        if let Some(sequence) = self.sequence {
            tlv::write_number_element(out, types::SIGNATURE_SEQ_NUM, sequence);
        }
        if let Some(period) = self.validity_period {
            tlv::write_element(out, types::VALIDITY_PERIOD, period);
        }
        open.end(out);
    }

    /// Upper bound of the bytes that [`Self::encode`] appends.
    #[cfg(feature = "alloc")]
    pub(crate) fn encoded_len_bound(&self) -> usize {
        // Numbers, and the headers of all elements, take fewer than 96 octets.
        let locator = self.key_locator.as_ref().map_or(0, KeyLocator::value_len);
        [locator, self.nonce.map_or(0, <[u8]>::len), self.validity_period.map_or(0, <[u8]>::len)]
            .into_iter()
            .fold(96, usize::saturating_add)
    }
}
