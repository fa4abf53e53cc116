//! Interest packets, parsed in place.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use crate::name::Names;
use crate::tlv::{self, Element, ElementOrder, TlvReader, types};
use crate::{DecodeError, MAX_PACKET, NameRef, SignatureInfo};

/// InterestLifetime of packets without one (packet format v0.3, "InterestLifetime").
pub const DEFAULT_LIFETIME_MS: u64 = 4000;

/// A checked Interest packet.
#[derive(Debug, Clone, Copy)]
pub struct Interest<'a> {
    wire: &'a [u8],
    name: NameRef<'a>,
    can_be_prefix: bool,
    must_be_fresh: bool,
    forwarding_hint: &'a [u8],
    nonce: Option<[u8; 4]>,
    nonce_offset: usize,
    lifetime_ms: Option<u64>,
    hop_limit: Option<u8>,
    hop_limit_offset: usize,
    parameters: Option<&'a [u8]>,
    /// From ApplicationParameters to the packet's end: what the parameters digest covers.
    digested: &'a [u8],
    /// The value of InterestSignatureInfo, checked.
    signature_info: Option<&'a [u8]>,
    signature_value: &'a [u8],
    /// From ApplicationParameters to the end of InterestSignatureInfo.
    signed_tail: &'a [u8],
}

/// A signed Interest's signature.
#[derive(Debug, Clone, Copy)]
pub struct InterestSignature<'a> {
    /// How it is signed.
    pub info: SignatureInfo<'a>,
    /// The signature's bytes.
    pub value: &'a [u8],
    /// The two pieces that the signature covers: the name's components before the parameters digest, then
    /// ApplicationParameters to the end of InterestSignatureInfo.
    pub signed_portions: [&'a [u8]; 2],
}

impl<'a> Interest<'a> {
    /// Checks `wire`, which is one whole Interest of at most [`MAX_PACKET`] bytes, its parameters
    /// digest included.
    #[cfg(feature = "std")]
    #[inline]
    pub fn decode(wire: &'a [u8]) -> Result<Self, DecodeError> {
        Self::decode_with(wire, crate::sha256)
    }

    /// As `decode`, with the caller's SHA-256, which is called only if there are parameters.
    pub fn decode_with(
        wire: &'a [u8],
        sha256: impl FnOnce(&[u8]) -> [u8; 32],
    ) -> Result<Self, DecodeError> {
        if wire.len() > MAX_PACKET {
            return Err(DecodeError::TooLong(wire.len() as u64));
        }
        let value = tlv::read_only(wire, types::INTEREST)?.value;
        let mut reader = TlvReader::new(value);
        let mut order = ElementOrder::new(types::INTEREST);
        let missing_name = DecodeError::Missing { inside: types::INTEREST, typ: types::NAME };
        let first = reader.next_element()?.ok_or(missing_name)?;
        if first.typ != types::NAME {
            return Err(missing_name);
        }
        order.admit(1, types::NAME)?;
        let mut interest = Interest::of_name(wire, NameRef::from_value(first.value)?);
        if interest.name.is_empty() {
            return Err(DecodeError::EmptyName);
        }
        let mut signed_value = None;
        while let Some(element) = reader.next_element()? {
            let rank = match element.typ {
                types::NAME => 1,
                types::CAN_BE_PREFIX => 2,
                types::MUST_BE_FRESH => 3,
                types::FORWARDING_HINT => 4,
                types::NONCE => 5,
                types::INTEREST_LIFETIME => 6,
                types::HOP_LIMIT => 7,
                types::APPLICATION_PARAMETERS => 8,
                types::INTEREST_SIGNATURE_INFO => 9,
                types::INTEREST_SIGNATURE_VALUE => 10,
                other => {
                    order.unknown(other)?;
                    continue;
                }
            };
            if order.admit(rank, element.typ)? {
                if element.typ == types::INTEREST_SIGNATURE_VALUE {
                    signed_value = Some(element.value);
                } else {
                    interest.set(&element, value)?;
                }
            }
        }
        interest.check_parameters(signed_value, sha256)?;
        Ok(interest)
    }

    fn of_name(wire: &'a [u8], name: NameRef<'a>) -> Self {
        Interest {
            wire,
            name,
            can_be_prefix: false,
            must_be_fresh: false,
            forwarding_hint: &[],
            nonce: None,
            nonce_offset: 0,
            lifetime_ms: None,
            hop_limit: None,
            hop_limit_offset: 0,
            parameters: None,
            digested: &[],
            signature_info: None,
            signature_value: &[],
            signed_tail: &[],
        }
    }

    /// Sets the field of one recognized element; `parent` is the packet's value.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "places in the packet, at whose end its value lies"
    )]
    #[inline]
    fn set(&mut self, element: &Element<'a>, parent: &'a [u8]) -> Result<(), DecodeError> {
        let (typ, value) = (element.typ, element.value);
        let bad_length = DecodeError::BadLength { typ, len: value.len() };
        match typ {
            types::CAN_BE_PREFIX | types::MUST_BE_FRESH => {
                if !value.is_empty() {
                    return Err(bad_length);
                }
                if typ == types::CAN_BE_PREFIX {
                    self.can_be_prefix = true;
                } else {
                    self.must_be_fresh = true;
                }
            }
            types::FORWARDING_HINT => {
                Names::check(value, typ)?;
                self.forwarding_hint = value;
            }
            types::NONCE => {
                self.nonce = Some(<[u8; 4]>::try_from(value).map_err(|_| bad_length)?);
                self.nonce_offset = self.wire.len() - parent.len() + element.end - 4;
            }
            types::INTEREST_LIFETIME => self.lifetime_ms = Some(tlv::number_of(typ, value)?),
            types::HOP_LIMIT => {
                let [hops] = *value else { return Err(bad_length) };
                self.hop_limit = Some(hops);
                self.hop_limit_offset = self.wire.len() - parent.len() + element.end - 1;
            }
            types::APPLICATION_PARAMETERS => {
                self.parameters = Some(value);
                self.digested = &parent[element.start..];
            }
            types::INTEREST_SIGNATURE_INFO => {
                SignatureInfo::from_value(value, typ)?;
                self.signature_info = Some(value);
                let after = parent.len() - element.end;
                self.signed_tail = &self.digested[..self.digested.len().saturating_sub(after)];
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks that parameters have their digest in the name, and that a signature has parameters and the digest as the
    /// last component.
    fn check_parameters(
        &mut self,
        signed_value: Option<&'a [u8]>,
        sha256: impl FnOnce(&[u8]) -> [u8; 32],
    ) -> Result<(), DecodeError> {
        let missing = |typ| DecodeError::Missing { inside: types::INTEREST, typ };
        match (self.signature_info, signed_value) {
            (Some(_), Some(value)) => self.signature_value = value,
            (Some(_), None) => return Err(missing(types::INTEREST_SIGNATURE_VALUE)),
            (None, Some(_)) => return Err(missing(types::INTEREST_SIGNATURE_INFO)),
            (None, None) if self.parameters.is_none() => return Ok(()),
            (None, None) => {}
        }
        if self.parameters.is_none() {
            return Err(missing(types::APPLICATION_PARAMETERS));
        }
        let is_digest = |c: &crate::Component<'_>| c.typ() == types::PARAMETERS_SHA256_DIGEST;
        let mut digests = self.name.iter().filter(is_digest);
        let (Some(digest), None) = (digests.next(), digests.next()) else {
            return Err(DecodeError::ParametersDigestPlace);
        };
        let last = self.name.last().is_some_and(|c| is_digest(&c));
        if self.signature_info.is_some() && !last {
            return Err(DecodeError::ParametersDigestPlace);
        }
        if digest.value() != sha256(self.digested) {
            return Err(DecodeError::ParametersDigestMismatch);
        }
        Ok(())
    }

    /// The whole packet.
    #[inline]
    pub fn wire(&self) -> &'a [u8] {
        self.wire
    }

    /// The name, with at least one component.
    #[inline]
    pub fn name(&self) -> NameRef<'a> {
        self.name
    }

    /// Returns whether the name may be a proper prefix of the Data's.
    #[inline]
    pub fn can_be_prefix(&self) -> bool {
        self.can_be_prefix
    }

    /// Returns whether cached Data must be within its freshness period.
    #[inline]
    pub fn must_be_fresh(&self) -> bool {
        self.must_be_fresh
    }

    /// The delegations, best first; empty if there is no forwarding hint.
    pub fn forwarding_hint(&self) -> Names<'a> {
        Names::checked(self.forwarding_hint)
    }

    /// The nonce, which every Interest on a link carries.
    #[inline]
    pub fn nonce(&self) -> Option<[u8; 4]> {
        self.nonce
    }

    /// Offset of the nonce's four octets in [`Self::wire`].
    #[inline]
    pub fn nonce_offset(&self) -> Option<usize> {
        self.nonce.map(|_| self.nonce_offset)
    }

    /// The lifetime in milliseconds; [`DEFAULT_LIFETIME_MS`] if the packet has none.
    #[inline]
    pub fn lifetime_ms(&self) -> u64 {
        self.lifetime_ms.unwrap_or(DEFAULT_LIFETIME_MS)
    }

    /// Number of hops left.
    #[inline]
    pub fn hop_limit(&self) -> Option<u8> {
        self.hop_limit
    }

    /// Offset of the hop limit's octet in [`Self::wire`], so that a forwarder can decrement it.
    #[inline]
    pub fn hop_limit_offset(&self) -> Option<usize> {
        self.hop_limit.map(|_| self.hop_limit_offset)
    }

    /// ApplicationParameters, which match the digest in the name.
    #[inline]
    pub fn app_parameters(&self) -> Option<&'a [u8]> {
        self.parameters
    }

    /// The signature, if the Interest is signed. It is not verified here.
    pub fn signature(&self) -> Option<InterestSignature<'a>> {
        let info = self.signature_info?;
        Some(InterestSignature {
            // Checked when the packet was decoded, so it is always valid.
            info: SignatureInfo::from_value(info, types::INTEREST_SIGNATURE_INFO).ok()?,
            value: self.signature_value,
            signed_portions: [self.name.parent().value(), self.signed_tail],
        })
    }
}
