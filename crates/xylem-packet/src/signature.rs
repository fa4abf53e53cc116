//! SignatureInfo: how a packet is signed and where its key is. The signature itself is made and
//! checked elsewhere.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use crate::buffer::Buffer;
use crate::tlv::{self, Order, Reader, types};
use crate::{DecodeError, NameRef};

/// SignatureType. Numbers up to 5 are NDN's; 6 to 9 are ours (`docs/spec/packet.md`).
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
    /// A segment's place in a BLAKE3 tree: its own value, then the siblings bottom up.
    pub const BLAKE3_MERKLE: Self = Self(8);
    /// A segment's place in an RFC 9162 tree of SHA-256.
    pub const SHA256_MERKLE: Self = Self(9);

    /// Every type that this workspace knows: its name, and whether a KeyLocator says which key it
    /// is (a digest has none, and one that is there is ignored).
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

    /// The name that [`Self::TABLE`] gives it.
    pub fn name(self) -> Option<&'static str> {
        Self::TABLE.iter().find(|(typ, ..)| *typ == self).map(|(_, name, _)| *name)
    }
}

/// Where the key is.
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
        let mut reader = Reader::new(value);
        let order = Order::new(inside);
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
    /// How the packet is signed.
    pub typ: SignatureType,
    /// Where the key is, if said.
    pub key_locator: Option<KeyLocator<'a>>,
    /// SignatureNonce (Interests).
    pub nonce: Option<&'a [u8]>,
    /// SignatureTime in milliseconds since 1970 (Interests).
    pub time_ms: Option<u64>,
    /// SignatureSeqNum (Interests).
    pub sequence: Option<u64>,
    /// The value of ValidityPeriod (certificates), not looked into.
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

    /// Reads a whole SignatureInfo element and nothing after it, as signed Interests of before
    /// packet format v0.3 carry it in a name component.
    pub fn decode(wire: &'a [u8]) -> Result<Self, DecodeError> {
        let typ = types::SIGNATURE_INFO;
        Self::from_value(tlv::read_only(wire, typ)?.value, typ)
    }

    /// Reads the value of element `inside` (SignatureInfo or InterestSignatureInfo).
    pub(crate) fn from_value(value: &'a [u8], inside: u32) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut order = Order::new(inside);
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
                    typ = Some(SignatureType(tlv::number_of(element.typ, value)?));
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

    /// Appends the whole element, of type `outer`.
    pub(crate) fn encode(&self, out: &mut impl Buffer, outer: u32) {
        let open = tlv::Open::begin(out, outer, 1);
        tlv::write_number_element(out, types::SIGNATURE_TYPE, self.typ.0);
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

    /// No fewer bytes than [`Self::encode`] appends.
    #[cfg(feature = "alloc")]
    pub(crate) fn encoded_len_bound(&self) -> usize {
        // Numbers, and headers of everything, take fewer than 96 octets.
        let locator = self.key_locator.as_ref().map_or(0, KeyLocator::value_len);
        [locator, self.nonce.map_or(0, <[u8]>::len), self.validity_period.map_or(0, <[u8]>::len)]
            .into_iter()
            .fold(96, usize::saturating_add)
    }
}
