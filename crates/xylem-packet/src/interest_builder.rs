//! Builds Interest packets.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

use crate::buffer::{Buffer, Slice};
use crate::tlv::{self, OpenElement, types};
use crate::{Component, EncodeError, MAX_PACKET, NameRef, SignatureInfo};

/// Describes an Interest. `encode` appends it to a buffer; a builder can be used repeatedly.
#[derive(Debug, Clone, Copy)]
pub struct InterestBuilder<'a> {
    name: NameRef<'a>,
    can_be_prefix: bool,
    must_be_fresh: bool,
    forwarding_hint: &'a [NameRef<'a>],
    nonce: Option<[u8; 4]>,
    lifetime_ms: Option<u64>,
    hop_limit: Option<u8>,
}

impl<'a> InterestBuilder<'a> {
    /// An Interest for exactly this name.
    pub fn new(name: NameRef<'a>) -> Self {
        InterestBuilder {
            name,
            can_be_prefix: false,
            must_be_fresh: false,
            forwarding_hint: &[],
            nonce: None,
            lifetime_ms: None,
            hop_limit: None,
        }
    }

    /// Sets CanBePrefix: whether the Data's name may be longer.
    pub fn can_be_prefix(mut self, yes: bool) -> Self {
        self.can_be_prefix = yes;
        self
    }

    /// Sets MustBeFresh: whether cached Data past its freshness period is refused.
    pub fn must_be_fresh(mut self, yes: bool) -> Self {
        self.must_be_fresh = yes;
        self
    }

    /// Sets the names by which the Data may be reached, best first.
    pub fn forwarding_hint(mut self, names: &'a [NameRef<'a>]) -> Self {
        self.forwarding_hint = names;
        self
    }

    /// Sets the nonce, which should be random and new for every transmission.
    pub fn nonce(mut self, nonce: [u8; 4]) -> Self {
        self.nonce = Some(nonce);
        self
    }

    /// Sets InterestLifetime in milliseconds.
    pub fn lifetime_ms(mut self, ms: u64) -> Self {
        self.lifetime_ms = Some(ms);
        self
    }

    /// Sets HopLimit.
    pub fn hop_limit(mut self, hops: u8) -> Self {
        self.hop_limit = Some(hops);
        self
    }

    /// Writes the Interest to the beginning of `out` and returns its length. Needs no allocator.
    ///
    /// Errors: `EmptyName`, `NoRoom`, `TooLong`; the content of `out` is then unspecified.
    pub fn encode_to_slice(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut out = Slice::new(out);
        let head = self.encode_head(&mut out, false)?;
        head.finish(&mut out)
    }

    /// As [`Self::encode_to_slice`] with ApplicationParameters and appends their digest to the name.
    pub fn encode_with_parameters_to_slice(
        &self,
        out: &mut [u8],
        parameters: &[u8],
        sha256: impl FnOnce(&[u8]) -> [u8; 32],
    ) -> Result<usize, EncodeError> {
        let mut out = Slice::new(out);
        let head = self.encode_head(&mut out, true)?;
        tlv::write_element(&mut out, types::APPLICATION_PARAMETERS, parameters);
        head.set_digest(&mut out, sha256)?;
        head.finish(&mut out)
    }

    /// As [`Self::encode_with_parameters_to_slice`], signed. `sign` receives the two pieces of the signed portion (see
    /// `encode_signed`) and the room for the signature's value, writes the value to the room's beginning and returns
    /// its length.
    pub fn encode_signed_to_slice(
        &self,
        out: &mut [u8],
        parameters: &[u8],
        info: &SignatureInfo<'_>,
        sign: impl FnOnce([&[u8]; 2], &mut [u8]) -> usize,
        sha256: impl FnOnce(&[u8]) -> [u8; 32],
    ) -> Result<usize, EncodeError> {
        let mut out = Slice::new(out);
        let head = self.encode_head(&mut out, true)?;
        tlv::write_element(&mut out, types::APPLICATION_PARAMETERS, parameters);
        info.encode(&mut out, types::INTEREST_SIGNATURE_INFO);
        let signed_end = out.written().len();
        let value = OpenElement::begin(&mut out, types::INTEREST_SIGNATURE_VALUE, 1);
        if out.is_full() {
            return Err(EncodeError::NoRoom);
        }
        let (written, room) = out.split();
        let len = sign([self.name.value(), &written[head.tail_start..signed_end]], room);
        out.advance(len);
        value.end(&mut out);
        head.set_digest(&mut out, sha256)?;
        head.finish(&mut out)
    }

    /// Writes everything before ApplicationParameters, with room for their digest if there are any.
    fn encode_head(
        &self,
        out: &mut impl Buffer,
        parameters: bool,
    ) -> Result<InterestHead, EncodeError> {
        if self.name.is_empty() {
            return Err(EncodeError::EmptyName);
        }
        let start = out.written().len();
        let outer = OpenElement::begin(out, types::INTEREST, 1);
        let name = OpenElement::begin(out, types::NAME, 1);
        out.put(self.name.value());
        if parameters {
            Component::parameters_digest(&[0; 32]).encode(out);
        }
        name.end(out);
        let name_end = out.written().len();
        self.encode_guiders(out);
        Ok(InterestHead { start, outer, name_end, tail_start: out.written().len() })
    }

    fn encode_guiders(&self, out: &mut impl Buffer) {
        if self.can_be_prefix {
            tlv::write_element(out, types::CAN_BE_PREFIX, &[]);
        }
        if self.must_be_fresh {
            tlv::write_element(out, types::MUST_BE_FRESH, &[]);
        }
        if !self.forwarding_hint.is_empty() {
            let open = OpenElement::begin(out, types::FORWARDING_HINT, 1);
            self.forwarding_hint.iter().for_each(|name| name.encode(out));
            open.end(out);
        }
        if let Some(nonce) = self.nonce {
            tlv::write_element(out, types::NONCE, &nonce);
        }
        if let Some(ms) = self.lifetime_ms {
            tlv::write_number_element(out, types::INTEREST_LIFETIME, ms);
        }
        if let Some(hops) = self.hop_limit {
            tlv::write_element(out, types::HOP_LIMIT, &[hops]);
        }
    }
}

#[cfg(feature = "alloc")]
impl InterestBuilder<'_> {
    /// Appends the Interest. On an error `out` is as it was.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.reserve(64 + self.name.encoded_len());
        let head = self.encode_head(out, false)?;
        head.finish(out).map(|_| ())
    }

    /// Appends the Interest with ApplicationParameters and appends their digest to the name.
    #[cfg(feature = "std")]
    pub fn encode_with_parameters(
        &self,
        out: &mut Vec<u8>,
        parameters: &[u8],
    ) -> Result<(), EncodeError> {
        out.reserve(128 + self.name.encoded_len() + parameters.len());
        let head = self.encode_head(out, true)?;
        tlv::write_element(out, types::APPLICATION_PARAMETERS, parameters);
        head.set_digest(out, crate::sha256)?;
        head.finish(out).map(|_| ())
    }

    /// Appends a signed Interest. `sign` receives the two pieces of the signed portion (the name's components;
    /// ApplicationParameters to the end of InterestSignatureInfo) and appends the signature's value.
    #[cfg(feature = "std")]
    pub fn encode_signed(
        &self,
        out: &mut Vec<u8>,
        parameters: &[u8],
        info: &SignatureInfo<'_>,
        sign: impl FnOnce([&[u8]; 2], &mut Vec<u8>),
    ) -> Result<(), EncodeError> {
        out.reserve(256 + self.name.encoded_len() + parameters.len());
        let head = self.encode_head(out, true)?;
        tlv::write_element(out, types::APPLICATION_PARAMETERS, parameters);
        info.encode(out, types::INTEREST_SIGNATURE_INFO);
        let mut value = Vec::new();
        sign([self.name.value(), &out[head.tail_start..]], &mut value);
        tlv::write_element(out, types::INTEREST_SIGNATURE_VALUE, &value);
        head.set_digest(out, crate::sha256)?;
        head.finish(out).map(|_| ())
    }
}

/// Positions of the parts of an incomplete Interest. None of them moves until the end.
struct InterestHead {
    start: usize,
    outer: OpenElement,
    name_end: usize,
    tail_start: usize,
}

impl InterestHead {
    /// Sets the parameters digest, which covers everything from ApplicationParameters on.
    fn set_digest(
        &self,
        out: &mut impl Buffer,
        sha256: impl FnOnce(&[u8]) -> [u8; 32],
    ) -> Result<(), EncodeError> {
        if out.is_full() {
            return Err(EncodeError::NoRoom);
        }
        let digest = sha256(&out.written()[self.tail_start..]);
        out.written_mut()[self.name_end - digest.len()..self.name_end].copy_from_slice(&digest);
        Ok(())
    }

    /// Sets the packet's length and returns it. Removes the packet if it is too long.
    fn finish(self, out: &mut impl Buffer) -> Result<usize, EncodeError> {
        self.outer.end(out);
        if out.is_full() {
            return Err(EncodeError::NoRoom);
        }
        let len = out.written().len() - self.start;
        if len > MAX_PACKET {
            out.cut(self.start);
            return Err(EncodeError::TooLong(len));
        }
        Ok(len)
    }
}
