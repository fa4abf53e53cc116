//! [`CaProfile`]: the signed profile of a CA. [`Lookup`] fetches it.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::fmt;

use xylem_packet::tlv::{TlvReader, types};
use xylem_packet::{Component, Data, InterestBuilder, Name, NameRef};
use xylem_trust::{Certificate, TrustStore, ValidityPeriod, Verifier};

use super::RequestError;
use super::exchange::{InterestExchange, discovery_exchange, packet_exchange};
use crate::numbers::component;
use crate::packets::{CaInfo, ChallengeParameters, ErrorMessage, ProbeRequest, ProbeResponse};

/// How a CA is trusted.
#[derive(Debug, Clone, Copy)]
pub enum ProfileTrust<'a> {
    /// By the SHA-256 of its certificate: the implicit digest.
    Digest([u8; 32]),
    /// By anchors that verify its certificate.
    Store(&'a TrustStore),
}

/// A CA's profile: signed by the key in it, which is not trusted yet.
pub struct CaProfile {
    info: CaInfo,
    digest: [u8; 32],
    verifier: Verifier,
    validity: ValidityPeriod,
}

impl CaProfile {
    /// Parses the profile packet and checks its signature.
    ///
    /// # Errors
    /// `Profile`, if it is no valid profile.
    pub fn decode(wire: &[u8]) -> Result<Self, RequestError> {
        let bad = |why: String| RequestError::Profile(why);
        let data = Data::decode(wire).map_err(|why| bad(why.to_string()))?;
        let info = CaInfo::decode(data.content()).map_err(|why| bad(why.to_string()))?;
        let (name, at) = (data.name(), info_name(info.prefix.as_ref()));
        let rest = name.strip_prefix(at.as_ref()).filter(|rest| rest.len() == 2);
        let segment = rest.and_then(|rest| rest.get(1)?.as_number_of(types::SEGMENT_COMPONENT));
        let whole = data.meta().final_block_id.is_none_or(|last| last == Component::segment(0));
        if segment != Some(0) || !whole {
            return Err(bad(format!("{name} is not the whole profile of {}", info.prefix)));
        }
        let own = Certificate::decode(&info.certificate).map_err(|why| bad(why.to_string()))?;
        if !own.identity().is_prefix_of(info.prefix.as_ref()) {
            return Err(bad(format!(
                "its certificate is for {}, which is not above its prefix",
                own.identity()
            )));
        }
        let verifier = Verifier::of(own.public_key()).map_err(|why| bad(why.to_string()))?;
        let verifier = verifier.named(own.key_name().to_name());
        verifier.data(&data).map_err(|why| bad(why.to_string()))?;
        let (digest, validity) = (own.data().implicit_digest(), own.validity());
        Ok(CaProfile { digest, verifier, validity, info })
    }

    /// The content of the profile.
    pub fn info(&self) -> &CaInfo {
        &self.info
    }

    /// SHA-256 of the CA's certificate, for people to compare.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// An Interest for PROBE: asks which names a client with these parameters may have.
    ///
    /// # Errors
    /// `TooLong`.
    pub fn probe(&self, parameters: &ChallengeParameters) -> Result<Vec<u8>, RequestError> {
        let name = self.info.prefix.child(component::CA).child(component::PROBE);
        let content = ProbeRequest { parameters: parameters.clone() }.encode();
        let mut wire = Vec::new();
        InterestBuilder::new(name.as_ref())
            .must_be_fresh(true)
            .encode_with_parameters(&mut wire, &content)
            .map_err(|_| RequestError::TooLong)?;
        Ok(wire)
    }

    /// Parses the answer to [`Self::probe`].
    ///
    /// # Errors
    /// `NotGenuine` if this CA has not signed it, `Refused`, `Format`.
    pub fn probed(&self, wire: &[u8]) -> Result<ProbeResponse, RequestError> {
        let data = Data::decode(wire).map_err(|_| RequestError::NotGenuine)?;
        self.verifier.data(&data).map_err(|_| RequestError::NotGenuine)?;
        check_refusal(&data)?;
        Ok(ProbeResponse::decode(data.content())?)
    }

    pub(super) fn is_believed(&self, believe: ProfileTrust<'_>, now_ms: u64) -> bool {
        let by_whom = match believe {
            ProfileTrust::Digest(digest) => digest == self.digest,
            ProfileTrust::Store(store) => Certificate::decode(&self.info.certificate)
                .is_ok_and(|own| store.data(own.data(), now_ms).is_ok()),
        };
        by_whom && self.validity.contains(now_ms)
    }

    pub(super) fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    pub(super) fn validity(&self) -> ValidityPeriod {
        self.validity
    }
}

impl fmt::Debug for CaProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("info", &self.info).finish_non_exhaustive()
    }
}

/// Fails if the CA answered with an error.
pub(super) fn check_refusal(data: &Data<'_>) -> Result<(), RequestError> {
    match ErrorMessage::decode(data.content()) {
        Ok(ErrorMessage { code, info }) => Err(RequestError::Refused { code, info }),
        Err(_) => Ok(()),
    }
}

fn info_name(prefix: NameRef<'_>) -> Name {
    prefix.child(component::CA).child(component::INFO)
}

/// Fetches a CA's profile: INFO.
pub struct Lookup {
    prefix: Name,
    exchange: Option<InterestExchange>,
    found: Option<Result<CaProfile, RequestError>>,
}

impl Lookup {
    /// Looks up the CA for names below `prefix`.
    pub fn new(prefix: Name) -> Self {
        let metadata = info_name(prefix.as_ref()).child(component::METADATA);
        Lookup { exchange: discovery_exchange(metadata.as_ref()), prefix, found: None }
    }

    /// The Interest to send now, if any.
    pub fn poll_transmit(&mut self, now_ms: u64, nonce: [u8; 4]) -> Option<Vec<u8>> {
        let exchange = self.exchange.as_mut().filter(|_| self.found.is_none())?;
        if exchange.is_over(now_ms) {
            self.found = Some(Err(RequestError::Silent("INFO")));
            return None;
        }
        exchange.poll(now_ms, nonce)
    }

    /// When to call [`Self::poll_transmit`] again.
    pub fn next_timer(&self) -> Option<u64> {
        self.exchange.as_ref().filter(|_| self.found.is_none()).map(InterestExchange::next_ms)
    }

    /// Takes a Data; returns whether it was an answer.
    pub fn receive(&mut self, wire: &[u8]) -> bool {
        let Ok(data) = Data::decode(wire) else { return false };
        let asked = self.exchange.as_ref().filter(|_| self.found.is_none());
        let Some(asked) = asked.filter(|asked| asked.name().is_prefix_of(data.name())) else {
            return false;
        };
        if asked.name().last() == Some(component::METADATA) {
            let next = self.newest(data.content());
            let Some(next) = next.and_then(|name| packet_exchange(name.as_ref())) else {
                return false;
            };
            self.exchange = Some(next);
            return true;
        }
        // A Data that is no profile may come from any program: wait for that of the CA.
        let Ok(profile) = CaProfile::decode(wire) else { return false };
        self.found = Some(Ok(profile));
        true
    }

    /// The profile, or the error, once the lookup has ended.
    pub fn take(&mut self) -> Option<Result<CaProfile, RequestError>> {
        self.found.take().inspect(|_| self.exchange = None)
    }

    /// The name of the segment that a metadata packet points to.
    fn newest(&self, content: &[u8]) -> Option<Name> {
        let first = TlvReader::new(content).next_element().ok()??;
        let name = NameRef::from_value(first.value).ok().filter(|_| first.typ == types::NAME)?;
        let info = info_name(self.prefix.as_ref());
        let version = name.strip_prefix(info.as_ref()).filter(|rest| rest.len() == 1)?.get(0)?;
        version.as_number_of(types::VERSION_COMPONENT)?;
        Some(name.child(Component::segment(0)))
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lookup({})", self.prefix)
    }
}
