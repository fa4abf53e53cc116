//! [`CertificateAuthority`]: the CA's side.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

mod challenge;
mod code;
mod config;
mod given;
mod issue;
mod policy;
mod shelf;
mod table;

use core::fmt;
use xylem_packet::{Component, DataBuilder, Interest, Name, NameRef};
use xylem_trust::{Certificate, Signer, ValidityPeriod, Verifier};

pub use self::config::{AuthorityError, CaConfig, CaLimits};
use self::given::SentCodes;
pub use self::policy::{IssuePolicy, StandardPolicy};
use self::shelf::IssuedCertificates;
use self::table::{OpenRequest, RequestStage, RequestTable};
use crate::chance::SeededOctets;
use crate::numbers::{ChallengeKind, ErrorCode, component};
use crate::packets::{CaInfo, ErrorMessage, NewRequest, NewResponse, ProbeRequest};
use crate::proof::Proof;
use crate::session::{Agreement, Derivation, RequestId};

/// Freshness of answers in milliseconds. The profile changes only with the CA's certificate.
const FRESHNESS_MS: u64 = 1000;
const PROFILE_FRESHNESS_MS: u64 = 3_600_000;
const METADATA_FRESHNESS_MS: u64 = 10;
/// Tolerated difference of a client's clock, in milliseconds.
const CLIENT_CLOCK_TOLERANCE_MS: u64 = 120_000;
/// Milliseconds for which a request waits for the choice of a challenge, and for which its end is remembered.
const CHOICE_TIMEOUT_MS: u64 = 300_000;
const ENDED_REQUEST_MS: u64 = 60_000;
/// Limit of an encoded key name, in octets: each request holds a few copies.
const MAX_KEY_NAME: usize = 1024;

/// The result of an Interest.
#[derive(Debug, Default)]
pub struct CaAnswer {
    /// The Data to send back.
    pub data: Option<Vec<u8>>,
    /// A task for the caller.
    pub event: Option<CaEvent>,
}

/// A task for the program that runs the CA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaEvent {
    /// Show this code to the operator, to be passed on to the rightful owner of the name.
    Pin {
        /// The request.
        id: RequestId,
        /// The key that is to be certified.
        key_name: Name,
        /// The code.
        code: String,
    },
    /// Send this code by email.
    Email {
        /// The request.
        id: RequestId,
        /// The key that is to be certified.
        key_name: Name,
        /// The recipient: one checked address.
        address: String,
        /// The code.
        code: String,
    },
    /// A certificate was issued: store it where it can be fetched.
    Issued {
        /// The request.
        id: RequestId,
        /// The challenge that the client passed.
        by: ChallengeKind,
        /// The certificate, a Data packet.
        certificate: Vec<u8>,
    },
}

/// A refusal: the content of an ERROR.
struct CertificateRefusal(ErrorCode, String);

fn refuse<T>(code: ErrorCode, why: impl Into<String>) -> Result<T, CertificateRefusal> {
    Err(CertificateRefusal(code, why.into()))
}

/// A certificate authority: takes Interests, returns Data and tasks.
pub struct CertificateAuthority {
    config: CaConfig,
    signer: Signer,
    /// Name and validity of the CA's certificate.
    certificate: (Name, ValidityPeriod),
    policy: Box<dyn IssuePolicy>,
    /// Name and wire format of the profile, `/<prefix>/CA/INFO/v=…/seg=0`.
    profile: (Name, Vec<u8>),
    requests: RequestTable,
    given: SentCodes,
    issued: IssuedCertificates,
    last_version: u64,
}

impl CertificateAuthority {
    /// Makes a CA that signs with `signer`; `certificate` is its certificate. `now_ms` becomes the version of its
    /// profile.
    ///
    /// # Errors
    /// See [`AuthorityError`].
    pub fn new(
        config: CaConfig,
        signer: Signer,
        certificate: &[u8],
        policy: Box<dyn IssuePolicy>,
        now_ms: u64,
    ) -> Result<Self, AuthorityError> {
        let own = Certificate::decode(certificate)?;
        if signer.public().as_ref() != Some(own.public_key()) {
            return Err(AuthorityError::OtherKey);
        }
        if !own.identity().is_prefix_of(config.prefix.as_ref()) {
            return Err(AuthorityError::OtherName(own.identity().to_name()));
        }
        if config.challenges.is_empty() {
            return Err(AuthorityError::NoChallenge);
        }
        let info = CaInfo {
            prefix: config.prefix.clone(),
            text: config.info.clone(),
            probe_keys: config.probe_keys.clone(),
            max_validity_s: config.max_validity_ms / 1000,
            certificate: certificate.to_vec(),
        };
        let content = info.encode();
        if CaInfo::decode(&content).as_ref() != Ok(&info) {
            return Err(AuthorityError::TooLong);
        }
        let name = config.prefix.child(component::CA).child(component::INFO);
        let name = name.child(Component::version(now_ms)).child(Component::segment(0));
        let mut wire = Vec::new();
        let builder = DataBuilder::new(name.as_ref())
            .freshness_ms(PROFILE_FRESHNESS_MS)
            .final_block_id(Component::segment(0));
        signer.data(builder, &content, &mut wire).map_err(|_| AuthorityError::TooLong)?;
        Ok(CertificateAuthority {
            certificate: (own.name().to_name(), own.validity()),
            config,
            signer,
            policy,
            profile: (name, wire),
            requests: RequestTable::default(),
            given: SentCodes::default(),
            issued: IssuedCertificates::default(),
            last_version: 0,
        })
    }

    /// The prefix of requests, to be registered with a forwarder. Certificates have names below the prefix of the CA
    /// itself.
    pub fn requests_prefix(&self) -> Name {
        self.config.prefix.child(component::CA)
    }

    /// The signed profile packet.
    pub fn profile(&self) -> &[u8] {
        &self.profile.1
    }

    /// Takes a certificate of an earlier run for fetching; call it in the order of issue. The caller ensures that it
    /// was signed by this CA's key.
    pub fn add_issued(&mut self, certificate: &Certificate<'_>) {
        self.issued.put(certificate.data(), self.config.limits.issued);
    }

    /// Number of open requests.
    pub fn open_requests(&self) -> usize {
        self.requests.len()
    }

    /// Octets that open requests hold, about.
    pub fn memory(&self) -> usize {
        self.requests.memory()
    }

    /// Takes an Interest. `seed` has to be random and new for each call. An Interest for another program, or one that
    /// can't be parsed, gets no answer.
    pub fn interest(&mut self, wire: &[u8], now_ms: u64, seed: [u8; 32]) -> CaAnswer {
        let nothing = CaAnswer::default();
        let Ok(interest) = Interest::decode(wire) else { return nothing };
        let mut chance = SeededOctets::new(seed);
        self.requests.expire(now_ms);
        let name = interest.name();
        let Some(rest) = name.strip_prefix(self.requests_prefix().as_ref()) else {
            let found = self.issued.find(&interest).map(<[u8]>::to_vec);
            return CaAnswer { data: found, event: None };
        };
        let is = |part: Component<'_>, len| rest.get(0) == Some(part) && rest.len() == len;
        let result = if rest.get(0) == Some(component::INFO) {
            return CaAnswer { data: self.info(&interest, now_ms), event: None };
        } else if is(component::PROBE, 2) {
            self.probe(&interest).map(of_data)
        } else if is(component::NEW, 2) {
            self.open_request(&interest, now_ms, &mut chance).map(of_data)
        } else if is(component::CHALLENGE, 3) {
            self.challenge(&interest, now_ms, &mut chance)
        } else {
            refuse(ErrorCode::BAD_INTEREST_FORMAT, "unknown kind of request")
        };
        result.unwrap_or_else(|CertificateRefusal(code, info)| {
            let content = ErrorMessage { code, info }.encode();
            CaAnswer { data: self.data(name, &content), event: None }
        })
    }

    /// A signed answer; `None` if it does not fit into a packet.
    fn data(&self, name: NameRef<'_>, content: &[u8]) -> Option<Vec<u8>> {
        let mut wire = Vec::new();
        let builder = DataBuilder::new(name).freshness_ms(FRESHNESS_MS);
        self.signer.data(builder, content, &mut wire).ok()?;
        Some(wire)
    }

    fn answer(&self, name: NameRef<'_>, content: &[u8]) -> Result<Vec<u8>, CertificateRefusal> {
        let too_long =
            || CertificateRefusal(ErrorCode::INVALID_PARAMETER, "the answer is too long".into());
        self.data(name, content).ok_or_else(too_long)
    }

    /// Answers with the profile, or with metadata that name its newest version (docs/spec/rdr.md).
    fn info(&self, interest: &Interest<'_>, now_ms: u64) -> Option<Vec<u8>> {
        if satisfies(interest, self.profile.0.as_ref()) {
            return Some(self.profile.1.clone());
        }
        let name = self.requests_prefix().child(component::INFO).child(component::METADATA);
        let name = name.child(Component::version(now_ms)).child(Component::segment(0));
        if !satisfies(interest, name.as_ref()) {
            return None;
        }
        let mut content = Vec::new();
        self.profile.0.as_ref().parent().encode(&mut content);
        let builder = DataBuilder::new(name.as_ref())
            .freshness_ms(METADATA_FRESHNESS_MS)
            .final_block_id(Component::segment(0));
        let mut wire = Vec::new();
        self.signer.data(builder, &content, &mut wire).ok()?;
        Some(wire)
    }

    fn probe(&self, interest: &Interest<'_>) -> Result<Vec<u8>, CertificateRefusal> {
        let request = parameters(interest, ProbeRequest::decode)?;
        let response = self.policy.probe(self.config.prefix.as_ref(), &request.parameters);
        if response.names.is_empty() && response.redirects.is_empty() {
            return refuse(
                ErrorCode::NO_AVAILABLE_NAMES,
                "no name is available for these parameters",
            );
        }
        self.answer(interest.name(), &response.encode())
    }

    /// Handles NEW.
    fn open_request(
        &mut self,
        interest: &Interest<'_>,
        now_ms: u64,
        chance: &mut SeededOctets,
    ) -> Result<Vec<u8>, CertificateRefusal> {
        let digest = digest_of(interest)?;
        if let Some(answer) = self.requests.opened_by(&digest) {
            return Ok(answer.to_vec());
        }
        let request = parameters(interest, NewRequest::decode)?;
        let asked = Certificate::decode(&request.certificate);
        let asked = asked
            .map_err(|why| CertificateRefusal(ErrorCode::BAD_PARAMETER_FORMAT, why.to_string()))?;
        self.check_name(&asked)?;
        self.check_validity(asked.validity(), now_ms)?;
        let verifier = check_signatures(interest, &asked, now_ms)?;
        let theirs = &request.ecdh_pub;
        let blake3 =
            self.config.blake3 && request.derivations.iter().any(|d| d == Derivation::BLAKE3);
        let derivation = if blake3 { Derivation::Blake3 } else { Derivation::HkdfSha256 };
        let mut id = RequestId(chance.take());
        while self.requests.contains(id) {
            id = RequestId(chance.take());
        }
        let invalid = |why: crate::SessionError| {
            CertificateRefusal(ErrorCode::INVALID_PARAMETER, why.to_string())
        };
        let (agreement, salt) = (Agreement::new().map_err(invalid)?, chance.take());
        let ecdh_pub = agreement.public();
        let session =
            agreement.agree(theirs, derivation, &salt, id, chance.take()).map_err(invalid)?;
        let proof = Proof::strongest_of(&request.bindings);
        let bare = proof == Proof::Bare && !self.config.bare_proofs;
        let challenges = self.config.challenges.iter();
        let challenges = challenges.filter(|kind| !bare || **kind != ChallengeKind::Possession);
        let challenges = challenges.map(|kind| kind.name().to_owned()).collect();
        let binding = (proof == Proof::Bound).then(|| Proof::BOUND.to_owned());
        let derivation = blake3.then(|| Derivation::BLAKE3.to_owned());
        let response = NewResponse { ecdh_pub, salt, id, challenges, derivation, binding };
        let answer = self.answer(interest.name(), &response.encode())?;
        let open = OpenRequest {
            key_name: asked.key_name().to_name(),
            key: asked.public_key().clone(),
            key_digest: asked.public_key().digest(),
            verifier,
            validity: asked.validity(),
            session,
            stage: RequestStage::Before(0),
            proof,
            opening_exchange: (digest, answer.clone()),
            last_challenge: None,
            expires_ms: now_ms.saturating_add(CHOICE_TIMEOUT_MS),
            serial_number: 0,
        };
        self.requests.insert(id, open, &self.config.limits);
        Ok(answer)
    }

    /// Checks that a certificate of this name may be issued.
    fn check_name(&self, asked: &Certificate<'_>) -> Result<(), CertificateRefusal> {
        let prefix = self.config.prefix.as_ref();
        let not_allowed = |why: String| {
            CertificateRefusal(ErrorCode::NAME_NOT_ALLOWED, format!("{}: {why}", asked.identity()))
        };
        let suffix = asked.identity().strip_prefix(prefix).filter(|suffix| !suffix.is_empty());
        let suffix = suffix.ok_or_else(|| not_allowed(format!("not below {prefix}")))?;
        if self.config.max_suffix.is_some_and(|most| suffix.len() > most) {
            return Err(not_allowed(
                "the name has too many components below the CA's prefix".into(),
            ));
        }
        if asked.key_name().encoded_len() > MAX_KEY_NAME {
            return refuse(ErrorCode::NAME_NOT_ALLOWED, "the name is too long");
        }
        let name = self.certificate_name(asked.key_name(), 0);
        self.policy
            .allows(name.as_ref(), self.certificate.0.as_ref())
            .map_err(|why| not_allowed(why.to_string()))
    }

    fn check_validity(&self, asked: ValidityPeriod, now_ms: u64) -> Result<(), CertificateRefusal> {
        let code = ErrorCode::BAD_VALIDITY_PERIOD;
        if !self.certificate.1.contains(now_ms) {
            return refuse(code, "the CA's own certificate is not valid now");
        }
        let latest = now_ms
            .saturating_add(self.config.max_validity_ms)
            .saturating_add(CLIENT_CLOCK_TOLERANCE_MS);
        if asked.not_before_ms.saturating_add(CLIENT_CLOCK_TOLERANCE_MS) < now_ms
            || asked.not_after_ms > latest
        {
            return refuse(
                code,
                "the validity period begins too early, or ends later than this CA allows",
            );
        }
        if asked.not_after_ms <= now_ms {
            return refuse(code, "the validity period is over already");
        }
        Ok(())
    }
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({}, {} open)", self.config.prefix, self.open_requests())
    }
}

fn of_data(data: Vec<u8>) -> CaAnswer {
    CaAnswer { data: Some(data), event: None }
}

/// Whether a Data of this name, or of this name and any digest, satisfies the Interest.
fn satisfies(interest: &Interest<'_>, data: NameRef<'_>) -> bool {
    let asked = interest.name();
    asked == data || (interest.can_be_prefix() && asked.is_prefix_of(data))
}

/// The digest of the parameters at the end of the name, which identifies an Interest.
fn digest_of(interest: &Interest<'_>) -> Result<[u8; 32], CertificateRefusal> {
    let last = interest.name().last().filter(|_| interest.app_parameters().is_some());
    let digest = last.and_then(|component| component.value().try_into().ok());
    digest.ok_or_else(|| {
        CertificateRefusal(ErrorCode::BAD_INTEREST_FORMAT, "the Interest has no parameters".into())
    })
}

fn parameters<T>(
    interest: &Interest<'_>,
    decode: impl FnOnce(&[u8]) -> Result<T, crate::packets::FormatError>,
) -> Result<T, CertificateRefusal> {
    digest_of(interest)?;
    decode(interest.app_parameters().unwrap_or_default())
        .map_err(|why| CertificateRefusal(ErrorCode::BAD_PARAMETER_FORMAT, why.to_string()))
}

/// Checks that the key to be certified has signed both the certificate request and the Interest.
fn check_signatures(
    interest: &Interest<'_>,
    asked: &Certificate<'_>,
    now_ms: u64,
) -> Result<Verifier, CertificateRefusal> {
    let bad = |why: String| CertificateRefusal(ErrorCode::BAD_SIGNATURE, why);
    let verifier = Verifier::of(asked.public_key()).map_err(|why| bad(why.to_string()))?;
    let verifier = verifier.named(asked.key_name().to_name());
    let signature = interest.signature().ok_or_else(|| bad("the Interest is not signed".into()))?;
    // Some clients sign without a time. With a time that is far off, the Interest is a replay.
    if signature.info.time_ms.is_some_and(|time| time.abs_diff(now_ms) > CLIENT_CLOCK_TOLERANCE_MS)
    {
        return Err(bad("the signature's time is too far from this CA's clock".into()));
    }
    verifier.interest(interest).map_err(|why| bad(format!("the Interest: {why}")))?;
    verifier.data(asked.data()).map_err(|why| bad(format!("the certificate request: {why}")))?;
    Ok(verifier)
}
