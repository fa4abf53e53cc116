//! Building Interest packets.

use alloc::vec::Vec;

#[cfg(feature = "std")]
use crate::SignatureInfo;
use crate::tlv::{self, Open, types};
use crate::{Component, EncodeError, MAX_PACKET, NameRef};

type Sha256 = fn(&[u8]) -> [u8; 32];

/// Describes an Interest. `encode` appends it to a buffer; a builder may be used many times.
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

    /// Lets the Data's name be longer.
    pub fn can_be_prefix(mut self, yes: bool) -> Self {
        self.can_be_prefix = yes;
        self
    }

    /// Refuses cached Data past its freshness period.
    pub fn must_be_fresh(mut self, yes: bool) -> Self {
        self.must_be_fresh = yes;
        self
    }

    /// Names along which the Data may be reached, best first.
    pub fn forwarding_hint(mut self, names: &'a [NameRef<'a>]) -> Self {
        self.forwarding_hint = names;
        self
    }

    /// Sets the nonce: random, new for every transmission.
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

    /// Appends the Interest. On an error `out` is as it was.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.encode_parts(out, None, |_, _| {})
    }

    /// Appends the Interest with ApplicationParameters; their digest is added to the name's end.
    #[cfg(feature = "std")]
    pub fn encode_with_parameters(
        &self,
        out: &mut Vec<u8>,
        parameters: &[u8],
    ) -> Result<(), EncodeError> {
        self.encode_parts(out, Some(crate::sha256), |_, tail| {
            tlv::write_element(tail, types::APPLICATION_PARAMETERS, parameters);
        })
    }

    /// Appends a signed Interest. `sign` is given the two pieces of the signed portion (the name's
    /// components; ApplicationParameters to the end of InterestSignatureInfo) and appends the
    /// signature's value.
    #[cfg(feature = "std")]
    pub fn encode_signed(
        &self,
        out: &mut Vec<u8>,
        parameters: &[u8],
        info: &SignatureInfo<'_>,
        sign: impl FnOnce([&[u8]; 2], &mut Vec<u8>),
    ) -> Result<(), EncodeError> {
        self.encode_parts(out, Some(crate::sha256), |name, tail| {
            tlv::write_element(tail, types::APPLICATION_PARAMETERS, parameters);
            info.encode(tail, types::INTEREST_SIGNATURE_INFO);
            let mut value = Vec::new();
            sign([name, tail], &mut value);
            tlv::write_element(tail, types::INTEREST_SIGNATURE_VALUE, &value);
        })
    }

    /// `tail` appends what stands from ApplicationParameters on; with `sha256`, the digest of that
    /// becomes the name's last component.
    fn encode_parts(
        &self,
        out: &mut Vec<u8>,
        sha256: Option<Sha256>,
        tail: impl FnOnce(&[u8], &mut Vec<u8>),
    ) -> Result<(), EncodeError> {
        if self.name.is_empty() {
            return Err(EncodeError::EmptyName);
        }
        let start = out.len();
        let mut tail_bytes = Vec::new();
        tail(self.name.value(), &mut tail_bytes);
        out.reserve(64 + self.name.encoded_len() + tail_bytes.len());

        let outer = Open::begin(out, types::INTEREST, 1);
        let name = Open::begin(out, types::NAME, 1);
        out.extend_from_slice(self.name.value());
        if let Some(sha256) = sha256 {
            Component::parameters_digest(&sha256(&tail_bytes)).encode(out);
        }
        name.end(out);
        self.encode_guiders(out);
        out.extend_from_slice(&tail_bytes);
        outer.end(out);

        let len = out.len() - start;
        if len > MAX_PACKET {
            out.truncate(start);
            return Err(EncodeError::TooLong(len));
        }
        Ok(())
    }

    fn encode_guiders(&self, out: &mut Vec<u8>) {
        if self.can_be_prefix {
            tlv::write_element(out, types::CAN_BE_PREFIX, &[]);
        }
        if self.must_be_fresh {
            tlv::write_element(out, types::MUST_BE_FRESH, &[]);
        }
        if !self.forwarding_hint.is_empty() {
            let open = Open::begin(out, types::FORWARDING_HINT, 1);
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
