//! [`CertificateRequest`]: the client's side.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

mod exchange;
mod profile;

use core::fmt;

use xylem_packet::tlv::types;
use xylem_packet::{Component, Data, Name, NameRef};
use xylem_trust::{Certificate, CommandStamp, PublicKey, Signer, ValidityPeriod};

use self::exchange::{InterestExchange, builder};
use self::profile::check_refusal;
pub use self::profile::{CaProfile, Lookup, ProfileTrust};
use crate::chance::SeededOctets;
use crate::numbers::{ChallengeKind, ErrorCode, RequestStatus, component, status_text};
use crate::packets::{
    ChallengeParameters, ChallengeRequest, ChallengeResponse, Encrypted, FormatError, NewRequest,
    NewResponse,
};
use crate::proof::Proof;
use crate::session::{Agreement, Derivation, RequestSession, SessionError};

/// Tolerated difference of the CA's clock, in milliseconds.
const CA_CLOCK_TOLERANCE_MS: u64 = 120_000;

/// Reasons for which there is no certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// No answer came after all tries.
    #[error("no answer from the CA to the {0} request")]
    Silent(&'static str),
    /// The answer is no profile.
    #[error("the CA's profile: {0}")]
    Profile(String),
    /// The CA's certificate is not the trusted one.
    #[error("the CA's certificate is not trusted, or not valid now")]
    NotBelieved,
    /// The CA has not signed the packet.
    #[error("the answer is not signed by the CA")]
    NotGenuine,
    /// The CA has refused.
    #[error("the CA refused the request: {info} (error {})", code.0)]
    Refused {
        /// The reason as a code.
        code: ErrorCode,
        /// The reason in the CA's words.
        info: String,
    },
    /// The CA's answer can't be read.
    #[error("the CA's answer can't be read: {0}")]
    Format(#[from] FormatError),
    /// The session failed to make a key, or to seal or open a message.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The signer has no public key, or no key's name.
    #[error("only a key with a name can be certified")]
    NoKey,
    /// The name is not below the CA's prefix.
    #[error("{0} is not below the CA's {1}")]
    Name(Name, Name),
    /// The request does not fit into a packet.
    #[error("the request does not fit into a packet")]
    TooLong,
    /// The call does not fit the state of the request.
    #[error("the CA did not ask for this step")]
    NotNow,
    /// The CA uses a challenge, or a step of one, that is not supported.
    #[error("the CA's challenge is not supported: {0}")]
    Challenge(String),
    /// The issued certificate is not the requested one.
    #[error("the issued certificate is not the requested one: {0}")]
    OtherCertificate(&'static str),
}

/// How the client proves itself.
#[derive(Debug)]
pub enum ChallengeChoice {
    /// With a code that the CA's operator passes on.
    Pin,
    /// With a code that comes to this address.
    Email(String),
    /// With a certificate, and its key.
    Possession {
        /// The certificate, a Data packet.
        certificate: Vec<u8>,
        /// Its key.
        signer: Box<Signer>,
    },
}

impl ChallengeChoice {
    fn kind(&self) -> ChallengeKind {
        match self {
            Self::Pin => ChallengeKind::Pin,
            Self::Email(_) => ChallengeKind::Email,
            Self::Possession { .. } => ChallengeKind::Possession,
        }
    }
}

/// The state of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum RequestState<'a> {
    /// It waits for an answer.
    Waiting,
    /// One of these challenges is to be chosen: [`CertificateRequest::choose`].
    Choose(&'a [String]),
    /// A code is to be given: [`CertificateRequest::code`].
    Code {
        /// Whether the code before was wrong.
        wrong: bool,
        /// Tries left.
        tries: u64,
        /// Time limit, in milliseconds of the caller's clock.
        until_ms: u64,
    },
    /// The certificate, a Data packet: it has our key and name, and is signed by the CA.
    Done(&'a [u8]),
    /// The request has failed.
    Failed(&'a RequestError),
}

enum ClientStage {
    New(Option<Agreement>),
    Choose,
    Challenge,
    Code { wrong: bool, tries: u64, until_ms: u64 },
    Fetch,
    Done(Vec<u8>),
    Failed(RequestError),
}

/// One request for one certificate: takes Data and the choices and codes of people, returns Interests.
pub struct CertificateRequest {
    profile: CaProfile,
    signer: Signer,
    key: PublicKey,
    key_name: Name,
    stage: ClientStage,
    exchange: Option<InterestExchange>,
    challenges: Vec<String>,
    derivation: Derivation,
    proof: Proof,
    session: Option<RequestSession>,
    choice: Option<ChallengeChoice>,
}

impl CertificateRequest {
    /// Requests a certificate for `signer`'s key, which is named by its locator. It is valid until `not_after_ms` or
    /// for the CA's maximum, whichever is earlier. `seed` has to be random.
    ///
    /// # Errors
    /// `NotBelieved`, `NoKey`, `Name`, `TooLong`, `Session`.
    pub fn new(
        profile: CaProfile,
        believe: ProfileTrust<'_>,
        signer: Signer,
        not_after_ms: u64,
        now_ms: u64,
        seed: [u8; 32],
    ) -> Result<Self, RequestError> {
        if !profile.is_believed(believe, now_ms) {
            return Err(RequestError::NotBelieved);
        }
        let key = signer.public().ok_or(RequestError::NoKey)?;
        let key_name = signer.key_locator().and_then(xylem_trust::key_name_of);
        let key_name = key_name.ok_or(RequestError::NoKey)?.to_name();
        let identity = key_name.prefix(key_name.len().saturating_sub(2));
        let prefix = profile.info().prefix.as_ref();
        if !prefix.is_prefix_of(identity) || prefix.len() == identity.len() {
            return Err(RequestError::Name(identity.to_name(), prefix.to_name()));
        }
        let longest = profile.info().max_validity_s.saturating_mul(1000);
        let now_s = now_ms.saturating_sub(now_ms % 1000);
        let asked = ValidityPeriod {
            not_before_ms: now_s,
            not_after_ms: not_after_ms
                .min(now_s.saturating_add(longest))
                .min(profile.validity().not_after_ms),
        };
        let certificate = xylem_trust::self_signed(&signer, now_ms, asked);
        let certificate = certificate.ok_or(RequestError::TooLong)?;
        let agreement = Agreement::new()?;
        let new = NewRequest {
            ecdh_pub: agreement.public(),
            certificate,
            derivations: vec![Derivation::BLAKE3.to_owned()],
            bindings: vec![Proof::BOUND.to_owned()],
        };
        let name = profile.info().prefix.child(component::CA).child(component::NEW);
        let exchange = signed(&signer, name.as_ref(), &new.encode(), now_ms, seed)?;
        Ok(CertificateRequest {
            stage: ClientStage::New(Some(agreement)),
            exchange: Some(exchange),
            challenges: Vec::new(),
            derivation: Derivation::HkdfSha256,
            proof: Proof::Bare,
            session: None,
            choice: None,
            profile,
            signer,
            key,
            key_name,
        })
    }

    /// The state of the request.
    pub fn state(&self) -> RequestState<'_> {
        match &self.stage {
            ClientStage::New(_) | ClientStage::Challenge | ClientStage::Fetch => {
                RequestState::Waiting
            }
            ClientStage::Choose => RequestState::Choose(&self.challenges),
            ClientStage::Code { wrong, tries, until_ms } => {
                RequestState::Code { wrong: *wrong, tries: *tries, until_ms: *until_ms }
            }
            ClientStage::Done(certificate) => RequestState::Done(certificate),
            ClientStage::Failed(why) => RequestState::Failed(why),
        }
    }

    /// The key derivation in use; HKDF until the CA has answered.
    pub fn derivation(&self) -> Derivation {
        self.derivation
    }

    /// The form of a proof of possession; bare until the CA has answered. A CA can reuse a bare proof at another CA
    /// that accepts bare ones.
    pub fn proof(&self) -> Proof {
        self.proof
    }

    /// The Interest to send now, if any. `nonce` has to be random.
    pub fn poll_transmit(&mut self, now_ms: u64, nonce: [u8; 4]) -> Option<Vec<u8>> {
        let exchange = self.exchange.as_mut()?;
        if exchange.is_over(now_ms) {
            let step = match self.stage {
                ClientStage::New(_) => "NEW",
                ClientStage::Fetch => "certificate",
                _ => "CHALLENGE",
            };
            self.fail(RequestError::Silent(step));
            return None;
        }
        exchange.poll(now_ms, nonce)
    }

    /// When to call [`Self::poll_transmit`] again; `None` while the request waits for a person, and at its end.
    pub fn next_timer(&self) -> Option<u64> {
        self.exchange.as_ref().map(InterestExchange::next_ms)
    }

    /// Chooses a challenge in state [`RequestState::Choose`]. `seed` has to be random.
    ///
    /// # Errors
    /// `NotNow`, also if the CA does not offer it; `TooLong`, `Session`.
    pub fn choose(
        &mut self,
        choice: ChallengeChoice,
        now_ms: u64,
        seed: [u8; 32],
    ) -> Result<(), RequestError> {
        let offered =
            self.challenges.iter().any(|name| ChallengeKind::of(name) == Some(choice.kind()));
        if !matches!(self.stage, ClientStage::Choose) || !offered {
            return Err(RequestError::NotNow);
        }
        let parameters = match &choice {
            ChallengeChoice::Pin => ChallengeParameters::new(),
            ChallengeChoice::Email(address) => {
                ChallengeParameters::of(status_text::EMAIL, address.as_bytes())
            }
            ChallengeChoice::Possession { certificate, .. } => {
                ChallengeParameters::of(status_text::ISSUED_CERT, certificate)
            }
        };
        self.choice = Some(choice);
        self.send(parameters, now_ms, seed)
    }

    /// Gives a code in state [`RequestState::Code`]. `seed` has to be random.
    ///
    /// # Errors
    /// `NotNow`, `TooLong`, `Session`.
    pub fn code(&mut self, code: &str, now_ms: u64, seed: [u8; 32]) -> Result<(), RequestError> {
        if !matches!(self.stage, ClientStage::Code { .. }) {
            return Err(RequestError::NotNow);
        }
        self.send(ChallengeParameters::of(status_text::CODE, code.trim().as_bytes()), now_ms, seed)
    }

    /// Takes a Data; returns whether it was an answer. A Data that the CA has not signed is no answer, so that no other
    /// program can end a request. `seed` has to be random.
    pub fn receive(&mut self, wire: &[u8], now_ms: u64, seed: [u8; 32]) -> bool {
        let Ok(data) = Data::decode(wire) else { return false };
        let Some(exchange) = &self.exchange else { return false };
        if !is_named(&data, exchange.name()) || self.profile.verifier().data(&data).is_err() {
            return false;
        }
        if let Err(why) = self.advance(&data, now_ms, seed) {
            self.fail(why);
        }
        true
    }

    fn advance(
        &mut self,
        data: &Data<'_>,
        now_ms: u64,
        seed: [u8; 32],
    ) -> Result<(), RequestError> {
        if let ClientStage::Fetch = self.stage {
            self.check(data, now_ms)?;
            self.exchange = None;
            self.stage = ClientStage::Done(data.wire().to_vec());
            return Ok(());
        }
        check_refusal(data)?;
        match &mut self.stage {
            ClientStage::New(agreement) => {
                let agreement = agreement.take().ok_or(RequestError::NotNow)?;
                self.agree(agreement, data.content(), seed)
            }
            ClientStage::Challenge => {
                let session = self.session.as_mut().ok_or(RequestError::NotNow)?;
                let plaintext = session.open(&Encrypted::decode(data.content())?)?;
                self.go_on(ChallengeResponse::decode(&plaintext)?, now_ms, seed)
            }
            _ => Err(RequestError::NotNow),
        }
    }

    fn agree(
        &mut self,
        agreement: Agreement,
        content: &[u8],
        seed: [u8; 32],
    ) -> Result<(), RequestError> {
        let new = NewResponse::decode(content)?;
        self.derivation = match new.derivation.as_deref() {
            None => Derivation::HkdfSha256,
            Some(Derivation::BLAKE3) => Derivation::Blake3,
            Some(other) => return Err(RequestError::Challenge(format!("key by {other}"))),
        };
        self.proof = Proof::strongest_of(&new.binding);
        let random = SeededOctets::new(seed).take();
        let session = agreement.agree(&new.ecdh_pub, self.derivation, &new.salt, new.id, random)?;
        self.session = Some(session);
        self.challenges = new.challenges;
        self.exchange = None;
        self.stage = ClientStage::Choose;
        Ok(())
    }

    fn go_on(
        &mut self,
        response: ChallengeResponse,
        now_ms: u64,
        seed: [u8; 32],
    ) -> Result<(), RequestError> {
        match (response.status, response.progress, response.issued) {
            (RequestStatus::Success, _, Some(issued)) => {
                self.fetch(issued, &response.forwarding_hint)
            }
            (RequestStatus::Challenge, Some(progress), _) => {
                match (progress.word.as_str(), &self.choice) {
                    (status_text::NEED_PROOF, Some(ChallengeChoice::Possession { signer, .. })) => {
                        let nonce = response.parameters.get(status_text::NONCE);
                        let nonce = nonce.and_then(|nonce| nonce.try_into().ok());
                        let nonce =
                            nonce.ok_or(RequestError::Challenge("it has no nonce".into()))?;
                        let id = self.session.as_ref().ok_or(RequestError::NotNow)?.id();
                        let ca = &self.profile.info().prefix;
                        let signed = self.proof.message(nonce, id, ca, &self.key);
                        let proof = signer.sign(&[&signed]);
                        self.send(
                            ChallengeParameters::of(status_text::PROOF, proof.as_ref()),
                            now_ms,
                            seed,
                        )
                    }
                    (
                        word @ (status_text::NEED_CODE | status_text::WRONG_CODE),
                        Some(ChallengeChoice::Pin | ChallengeChoice::Email(_)),
                    ) => {
                        let until_ms = now_ms.saturating_add(progress.time_s.saturating_mul(1000));
                        let wrong = word == status_text::WRONG_CODE;
                        self.exchange = None;
                        self.stage = ClientStage::Code { wrong, tries: progress.tries, until_ms };
                        Ok(())
                    }
                    (other, _) => Err(RequestError::Challenge(other.to_owned())),
                }
            }
            (status, ..) => Err(RequestError::Challenge(format!("status {}", status.number()))),
        }
    }

    /// Prepares the Interest for a step of the challenge.
    fn send(
        &mut self,
        parameters: ChallengeParameters,
        now_ms: u64,
        seed: [u8; 32],
    ) -> Result<(), RequestError> {
        let session = self.session.as_mut().ok_or(RequestError::NotNow)?;
        let kind = self.choice.as_ref().map(ChallengeChoice::kind).ok_or(RequestError::NotNow)?;
        // The CA's spelling of the challenge's name.
        let called = self.challenges.iter().find(|name| ChallengeKind::of(name) == Some(kind));
        let challenge = called.cloned().ok_or(RequestError::NotNow)?;
        let request = ChallengeRequest { challenge, parameters };
        let sealed = session.seal(&request.encode())?;
        let name = self.profile.info().prefix.child(component::CA).child(component::CHALLENGE);
        let name = name.child(Component::generic(&session.id().0));
        self.exchange = Some(signed(&self.signer, name.as_ref(), &sealed.encode(), now_ms, seed)?);
        self.stage = ClientStage::Challenge;
        Ok(())
    }

    fn fetch(&mut self, issued: Name, hint: &[Name]) -> Result<(), RequestError> {
        let hint: Vec<NameRef<'_>> = hint.iter().map(Name::as_ref).collect();
        let mut wire = Vec::new();
        let encoded = builder(issued.as_ref()).forwarding_hint(&hint).encode(&mut wire);
        encoded.map_err(|_| RequestError::TooLong)?;
        self.exchange = Some(InterestExchange::new(wire).ok_or(RequestError::TooLong)?);
        self.stage = ClientStage::Fetch;
        Ok(())
    }

    /// Checks that a Data of the CA is a certificate of our key and name that is valid now.
    fn check(&self, data: &Data<'_>, now_ms: u64) -> Result<(), RequestError> {
        let no = |why| Err(RequestError::OtherCertificate(why));
        let Ok(issued) = Certificate::decode(data.wire()) else {
            return no("it is not a certificate");
        };
        if issued.key_name() != self.key_name.as_ref() {
            return no("it has another name");
        }
        if issued.public_key() != &self.key {
            return no("it is of another key");
        }
        // The CA's clock may be a little ahead of ours.
        let ahead = now_ms.saturating_add(CA_CLOCK_TOLERANCE_MS);
        if !issued.validity().contains(now_ms) && !issued.validity().contains(ahead) {
            return no("it is not valid now");
        }
        Ok(())
    }

    fn fail(&mut self, why: RequestError) {
        self.exchange = None;
        self.stage = ClientStage::Failed(why);
    }
}

impl fmt::Debug for CertificateRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({}, {:?})", self.key_name, self.state())
    }
}

/// Whether a Data has this name, with or without its digest.
fn is_named(data: &Data<'_>, name: NameRef<'_>) -> bool {
    let digest = name.last().filter(|last| last.typ() == types::IMPLICIT_SHA256_DIGEST);
    match digest {
        Some(digest) => data.name() == name.parent() && digest.value() == data.implicit_digest(),
        None => data.name() == name,
    }
}

/// An exchange with a signed Interest.
fn signed(
    signer: &Signer,
    name: NameRef<'_>,
    parameters: &[u8],
    now_ms: u64,
    seed: [u8; 32],
) -> Result<InterestExchange, RequestError> {
    let mut chance = SeededOctets::new(seed);
    // The first 8 octets are those of an IV, where this seed begins a session.
    let (_, nonce) = (chance.take::<8>(), chance.take());
    let mut wire = Vec::new();
    let stamp = CommandStamp::new(nonce, now_ms);
    let builder = builder(name).must_be_fresh(true);
    signer.interest(builder, parameters, stamp, &mut wire).map_err(|_| RequestError::TooLong)?;
    InterestExchange::new(wire).ok_or(RequestError::TooLong)
}
