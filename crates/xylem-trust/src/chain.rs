//! [`CertificateChain`]: the certificates between a packet and a trusted key.
//!
//! It asks for one certificate name after the other and takes the answers, without socket or clock; the caller fetches.
//! On the way up from the packet no signature is verified. Names, validity, length and loops are checked. Once a
//! trusted key is reached, everything is verified on the way down, with one signature per certificate. What was proven
//! stays in the [`TrustStore`].
//!
//! The first certificate that answers may be an old one from a cache, or none has the name that a packet states. If one
//! is missing or of no use, the chain therefore asks for others of the same key that are fresh: those of the same
//! issuer, then those of any. The first certificate's error is reported if no other one helps. A good chain costs
//! at most [`MAX_CHAIN`] verifications, and any chain at most [`MAX_QUERIES`] questions. Each question costs at most one
//! verification.
//!
//! ```text
//! let mut chain = CertificateChain::of(&data)?;
//! loop {
//!     while let ChainAction::Ask(query) = chain.step(&mut store, now_ms)? {
//!         match fetch(query) {
//!             Some(wire) => chain.answer(&wire, now_ms)?,
//!             None => chain.missing()?,
//!         }
//!     }
//!     match store.data(&data, now_ms) {
//!         Ok(()) => break,
//!         Err(flaw) => chain.refuse_packet(flaw)?,
//!     }
//! }
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::{Data, Interest, KeyLocator, Name, NameRef, SignatureInfo};

use crate::issue::SELF;
use crate::store::{KeyLookupError, SigningUse};
use crate::{
    Certificate, CertificateError, RuleRefusal, TrustError, TrustStore, ValidityPeriod, key_name_of,
};

/// Maximum number of certificates between a packet and a trusted key.
pub const MAX_CHAIN: usize = 8;
/// Maximum number of questions of one chain: one for each certificate, and as many for others in place of bad ones.
pub const MAX_QUERIES: usize = 2 * MAX_CHAIN;

/// The chain from one packet up to a trusted key.
#[derive(Debug)]
pub struct CertificateChain {
    /// The name of the packet to be proven; `None` if its name does not determine which key may sign it.
    packet: Option<Name>,
    /// The key that signed the packet.
    locator: OwnedKeyLocator,
    /// Certificates found, from the packet upwards.
    found: Vec<FetchedCertificate>,
    /// How many questions for the next certificate have brought nothing of use.
    attempt: usize,
    /// Number of questions so far.
    queries: usize,
    asked: Option<CertificateQuery>,
    /// Certificates that were of no use. A cache may answer with one of them again.
    refused: Vec<Vec<u8>>,
    /// The error to report if the next question is not answered: the key is known, but none of its certificates in the
    /// store may be used.
    error_if_missing: Option<ChainError>,
    /// The error to report if no other certificate helps.
    error: Option<ChainError>,
}

/// A certificate that was fetched.
#[derive(Debug)]
struct FetchedCertificate {
    wire: Vec<u8>,
    name: Name,
    /// The key that signed it.
    signer: OwnedKeyLocator,
    /// Which of the questions brought it.
    attempt: usize,
}

#[derive(Debug)]
enum OwnedKeyLocator {
    Name(Name),
    Digest(Vec<u8>),
}

/// The next step of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainAction {
    /// The packet's key is in the store. It remains to verify the packet's own signature: [`TrustStore::data`],
    /// [`TrustStore::interest`] or [`TrustStore::parts`].
    Known,
    /// A certificate is needed.
    Ask(CertificateQuery),
}

/// A certificate to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateQuery {
    /// The name to ask for.
    pub name: Name,
    /// Whether it is the name of a key, so that its certificates have longer names.
    pub can_be_prefix: bool,
    /// Whether a cache must not answer with a stale one: an earlier answer was of no use.
    pub must_be_fresh: bool,
}

/// Why a packet's key is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} {flaw}")]
pub struct ChainError {
    /// The certificate with the flaw, or the packet itself.
    pub name: Name,
    /// The flaw.
    pub flaw: ChainFlaw,
}

/// A flaw of a certificate of a chain. The text continues a sentence that begins with the certificate's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainFlaw {
    /// It names no key, so none can be asked for.
    #[error("does not name the key that signed it")]
    NoKeyLocator,
    /// It names its key by a digest, by which no certificate can be asked for.
    #[error("names the key that signed it by a digest, and no trusted key has this one")]
    Digest,
    /// It names something that is no key's name.
    #[error("is signed by {0}, which is not the name of a key")]
    NoKeyName(Name),
    /// No answer came.
    #[error("could not be fetched")]
    Missing,
    /// The answer is no certificate.
    #[error("is not a certificate: {0}")]
    NoCertificate(CertificateError),
    /// The answer is a certificate of another name.
    #[error("was received instead of {0}")]
    OtherName(Name),
    /// It is not valid yet.
    #[error("is not valid before {0}")]
    NotYet(Moment),
    /// It has expired, or a certificate above it has.
    #[error("expired at {0}")]
    Expired(Moment),
    /// It is self-signed and not trusted.
    #[error("is self-signed and not trusted; trust it with `--trust` or `xylem key trust`")]
    Untrusted,
    /// It is signed by a key further down the chain.
    #[error("is signed by {0}, a key that it certifies itself")]
    Loop(Name),
    /// The chain has more certificates than [`MAX_CHAIN`].
    #[error("is not trusted, and its chain has more than {MAX_CHAIN} certificates")]
    TooLong,
    /// A rule forbids it.
    #[error("{0}")]
    Refused(#[from] RuleRefusal),
    /// Its signature is not that of the key that it names.
    #[error("is not trusted: {0}")]
    Trust(TrustError),
}

/// A time in milliseconds since 1970, displayed as `2026-11-23 12:00:00 UTC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(pub u64);

impl core::fmt::Display for Moment {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let text = crate::validity::print(self.0);
        let part = |from: usize, to: usize| core::str::from_utf8(&text[from..to]).unwrap_or("");
        write!(f, "{}-{}-{} ", part(0, 4), part(4, 6), part(6, 8))?;
        write!(f, "{}:{}:{} UTC", part(9, 11), part(11, 13), part(13, 15))
    }
}

impl CertificateChain {
    /// The chain of a Data packet.
    ///
    /// # Errors
    /// The packet does not state which key signed it.
    pub fn of(data: &Data<'_>) -> Result<Self, ChainError> {
        Self::new(Some(data.name()), &data.signature_info())
    }

    /// The chain of a signed Interest. Its name does not determine which key may sign it.
    ///
    /// # Errors
    /// The Interest does not state which key signed it.
    pub fn of_interest(interest: &Interest<'_>) -> Result<Self, ChainError> {
        match interest.signature() {
            Some(signature) => Self::new(None, &signature.info),
            None => Err(flawed(interest.name(), ChainFlaw::NoKeyLocator)),
        }
    }

    /// The chain of something decoded elsewhere: its name, if that determines which key may sign it, and its
    /// SignatureInfo.
    ///
    /// # Errors
    /// The SignatureInfo does not state which key signed it.
    pub fn new(packet: Option<NameRef<'_>>, info: &SignatureInfo<'_>) -> Result<Self, ChainError> {
        let packet = packet.map(|name| name.to_name());
        let name = packet.clone().unwrap_or_default();
        let locator =
            OwnedKeyLocator::of(info).ok_or(ChainError { name, flaw: ChainFlaw::NoKeyLocator })?;
        Ok(CertificateChain {
            packet,
            locator,
            found: Vec::new(),
            attempt: 0,
            queries: 0,
            asked: None,
            refused: Vec::new(),
            error_if_missing: None,
            error: None,
        })
    }

    /// The next step, given what is in the store. After [`ChainAction::Known`] the store holds the certificates of this
    /// chain.
    ///
    /// # Errors
    /// The flaw, and the certificate that has it.
    pub fn step(&mut self, store: &mut TrustStore, now_ms: u64) -> Result<ChainAction, ChainError> {
        loop {
            // After a failure the store has no certificate of use, and another one has to be asked for.
            let asked = match self.attempt {
                0 => self.first_question(store, now_ms),
                _ => self.question().map(Some).map_err(|flaw| self.at_top(flaw)),
            };
            match asked {
                // Answers that alternate between useless and useful ones come to an end, too.
                Ok(Some(_)) if self.queries >= MAX_QUERIES => {
                    let error = self.at_top(ChainFlaw::Missing);
                    return Err(self.worse(error));
                }
                Ok(Some(query)) if self.found.len() < MAX_CHAIN => {
                    self.queries = self.queries.saturating_add(1);
                    self.asked = Some(query.clone());
                    return Ok(ChainAction::Ask(query));
                }
                // Certificates of other issuers would make the chain no shorter.
                Ok(Some(_)) => {
                    let error = self.at_top(ChainFlaw::TooLong);
                    return Err(self.worse(error));
                }
                Ok(None) => match self.verify_downwards(store, now_ms) {
                    Ok(()) => return Ok(ChainAction::Known),
                    Err((at, error)) => self.fall_back(at, error)?,
                },
                Err(error) => match self.found.len().checked_sub(1) {
                    Some(top) => self.fall_back(top, error)?,
                    None => return Err(error),
                },
            }
        }
    }

    /// The first question for the certificate of a key; `None` if the key is in the store.
    fn first_question(
        &mut self,
        store: &mut TrustStore,
        now_ms: u64,
    ) -> Result<Option<CertificateQuery>, ChainError> {
        let locator = self.top_locator().as_ref();
        store.forget_expired(&locator, now_ms);
        let why = match store.knows(&locator, SigningUse::packet(self.top()), now_ms) {
            Ok(()) => return Ok(None),
            Err(why) => why,
        };
        let mut error_if_missing = None;
        let question = match (self.question(), why) {
            (_, KeyLookupError::NotNow(name, validity)) => {
                return Err(ChainError { name, flaw: out_of_time(validity, now_ms) });
            }
            // Another certificate of the key may have other rules, unless it is in the store already.
            (Ok(other), KeyLookupError::Refused(refused))
                if !other.can_be_prefix && !store.has(other.name.as_ref()) =>
            {
                error_if_missing = Some(self.at_top(ChainFlaw::Refused(refused)));
                other
            }
            (_, KeyLookupError::Refused(refused)) => {
                return Err(self.at_top(ChainFlaw::Refused(refused)));
            }
            (Err(flaw), KeyLookupError::Unknown) => return Err(self.at_top(flaw)),
            (Ok(question), KeyLookupError::Unknown) => question,
        };
        self.error_if_missing = error_if_missing;
        Ok(Some(question))
    }

    /// Takes the packet that answered the last question. If it is of no use, [`Self::step`] asks for another one.
    ///
    /// # Errors
    /// The packet is no certificate of that name, or the chain cannot continue with it, and there is no other question.
    pub fn answer(&mut self, wire: &[u8], now_ms: u64) -> Result<(), ChainError> {
        match self.read_answer(wire, now_ms) {
            Ok(certificate) => {
                self.found.push(certificate);
                self.attempt = 0;
                Ok(())
            }
            Err(error) => {
                self.refused.push(wire.to_vec());
                self.try_next(error)
            }
        }
    }

    fn read_answer(&self, wire: &[u8], now_ms: u64) -> Result<FetchedCertificate, ChainError> {
        let asked = self.asked.as_ref().map(|asked| asked.name.clone()).unwrap_or_default();
        let certificate = Certificate::decode(wire)
            .map_err(|e| ChainError { name: asked.clone(), flaw: ChainFlaw::NoCertificate(e) })?;
        let name = certificate.name();
        if !asked.as_ref().is_prefix_of(name) {
            return Err(flawed(name, ChainFlaw::OtherName(asked)));
        }
        if self.has_refused(wire) {
            return Err(self.nothing_new());
        }
        if !certificate.validity().contains(now_ms) {
            return Err(flawed(name, out_of_time(certificate.validity(), now_ms)));
        }
        let signer = OwnedKeyLocator::of(&certificate.data().signature_info())
            .ok_or_else(|| flawed(name, ChainFlaw::NoKeyLocator))?;
        if let Some(by) = signer.key_name() {
            if by == certificate.key_name() {
                return Err(flawed(name, ChainFlaw::Untrusted));
            }
            for lower in &self.found {
                if key_name_of(lower.name.as_ref()) == Some(by) {
                    return Err(flawed(name, ChainFlaw::Loop(by.to_name())));
                }
            }
        }
        let (wire, name, attempt) = (wire.to_vec(), name.to_name(), self.attempt);
        Ok(FetchedCertificate { wire, name, signer, attempt })
    }

    /// Continues without an answer to the last question.
    ///
    /// # Errors
    /// There is no other question.
    pub fn missing(&mut self) -> Result<(), ChainError> {
        let error = self.error_if_missing.take().unwrap_or_else(|| self.nothing_new());
        self.try_next(error)
    }

    /// Continues after the packet's own signature has turned out to be wrong: the name of a key may have been given to
    /// another key since.
    ///
    /// # Errors
    /// There is no other question, or the key was in the store before.
    pub fn refuse_packet(&mut self, flaw: TrustError) -> Result<(), ChainError> {
        let name = self.packet.clone().unwrap_or_default();
        let error = ChainError { name, flaw: ChainFlaw::Trust(flaw) };
        if self.found.is_empty() { Err(error) } else { self.fall_back(0, error) }
    }

    /// Whether this certificate has turned out to be of no use.
    #[must_use]
    pub fn has_refused(&self, wire: &[u8]) -> bool {
        self.refused.iter().any(|refused| refused == wire)
    }

    fn nothing_new(&self) -> ChainError {
        let name = self.asked.as_ref().map(|asked| asked.name.clone()).unwrap_or_default();
        ChainError { name, flaw: ChainFlaw::Missing }
    }

    /// Removes the certificate at this place, and those above it. [`Self::step`] then asks for another one there.
    fn fall_back(&mut self, at: usize, error: ChainError) -> Result<(), ChainError> {
        self.found.truncate(at.saturating_add(1));
        let Some(bad) = self.found.pop() else { return Err(self.worse(error)) };
        self.attempt = bad.attempt;
        self.refused.push(bad.wire);
        self.try_next(error)
    }

    /// Proceeds to the next question for the topmost certificate, or else for the one below it.
    fn try_next(&mut self, error: ChainError) -> Result<(), ChainError> {
        let error = self.worse(error);
        self.attempt = self.attempt.saturating_add(1);
        while self.question().is_err() || self.queries >= MAX_QUERIES {
            let below = self.found.pop().filter(|_| self.queries < MAX_QUERIES);
            let Some(below) = below else { return Err(error) };
            self.attempt = below.attempt.saturating_add(1);
            self.refused.push(below.wire);
        }
        Ok(())
    }

    /// Of this error and the one to report so far, the one that states more; of two alike, the first.
    fn worse(&mut self, error: ChainError) -> ChainError {
        let reported = self.error.take();
        let states_less = |than: &ChainError| reported.as_ref().map(weight) < Some(weight(than));
        let kept = if states_less(&error) { error } else { reported.unwrap_or(error) };
        self.error.insert(kept).clone()
    }

    /// Verifies from the trusted key down to the packet: rules first, then one signature per certificate. An error
    /// states the place of the certificate to replace.
    fn verify_downwards(
        &self,
        store: &mut TrustStore,
        now_ms: u64,
    ) -> Result<(), (usize, ChainError)> {
        for (at, FetchedCertificate { wire, name, .. }) in self.found.iter().enumerate().rev() {
            let failed = |flaw| (at, ChainError { name: name.clone(), flaw });
            let certificate =
                Certificate::decode(wire).map_err(|e| failed(ChainFlaw::NoCertificate(e)))?;
            store.add(&certificate, now_ms).map_err(|e| failed(ChainFlaw::Trust(e)))?;
            let below = match at.checked_sub(1) {
                Some(below) => self.found.get(below).map(|found| &found.name),
                None => self.packet.as_ref(),
            };
            let locator = KeyLocator::Name(name.as_ref());
            if let Err(why) = store.knows(&locator, SigningUse::packet(below), now_ms) {
                let flaw = match why {
                    KeyLookupError::Refused(refused) => ChainFlaw::Refused(refused),
                    KeyLookupError::Unknown => ChainFlaw::Trust(TrustError::UnknownKey),
                    KeyLookupError::NotNow(_, validity) => out_of_time(validity, now_ms),
                };
                return Err((at, ChainError { name: below.cloned().unwrap_or_default(), flaw }));
            }
        }
        Ok(())
    }

    /// The name of the topmost certificate found, or else of the packet.
    fn top(&self) -> Option<&Name> {
        self.found.last().map(|found| &found.name).or(self.packet.as_ref())
    }

    /// The key that signed the topmost certificate found, or else the packet.
    fn top_locator(&self) -> &OwnedKeyLocator {
        self.found.last().map_or(&self.locator, |found| &found.signer)
    }

    fn at_top(&self, flaw: ChainFlaw) -> ChainError {
        ChainError { name: self.top().cloned().unwrap_or_default(), flaw }
    }

    /// The next question for the topmost certificate: first by the locator's name, then for fresh ones of the same
    /// issuer, if the locator has one, then for fresh ones of the key.
    fn question(&self) -> Result<CertificateQuery, ChainFlaw> {
        let name = match self.top_locator() {
            OwnedKeyLocator::Name(name) => name,
            OwnedKeyLocator::Digest(_) => return Err(ChainFlaw::Digest),
        };
        let key = key_name_of(name.as_ref()).ok_or_else(|| ChainFlaw::NoKeyName(name.clone()))?;
        // The name of a key, or of a certificate with anything after its version cut off.
        let whole = key.len().saturating_add(2);
        let name = name.prefix(whole);
        let of_issuer = name.prefix(key.len().saturating_add(1));
        // Another self-signed certificate would be trusted no more than this one.
        let issued = of_issuer.get(key.len()).is_some_and(|issuer| issuer != SELF);
        let (name, must_be_fresh) = match (self.attempt, issued) {
            (0, _) => (name, false),
            (1, true) => (of_issuer, true),
            (1, false) | (2, true) => (key, true),
            _ => return Err(ChainFlaw::Missing),
        };
        let (name, can_be_prefix) = (name.to_name(), name.len() < whole);
        Ok(CertificateQuery { name, can_be_prefix, must_be_fresh })
    }
}

impl OwnedKeyLocator {
    fn of(info: &SignatureInfo<'_>) -> Option<Self> {
        Some(match info.key_locator? {
            KeyLocator::Name(name) => OwnedKeyLocator::Name(name.to_name()),
            KeyLocator::Digest(digest) => OwnedKeyLocator::Digest(digest.to_vec()),
        })
    }

    fn as_ref(&self) -> KeyLocator<'_> {
        match self {
            OwnedKeyLocator::Name(name) => KeyLocator::Name(name.as_ref()),
            OwnedKeyLocator::Digest(digest) => KeyLocator::Digest(digest),
        }
    }

    fn key_name(&self) -> Option<NameRef<'_>> {
        match self {
            OwnedKeyLocator::Name(name) => key_name_of(name.as_ref()),
            OwnedKeyLocator::Digest(_) => None,
        }
    }
}

/// How much an error states: a certificate that is missing, or that only its own key vouches for, may be one for which
/// the owner never meant others to ask.
fn weight(error: &ChainError) -> u8 {
    match error.flaw {
        ChainFlaw::Missing => 0,
        ChainFlaw::Untrusted => 1,
        _ => 2,
    }
}

fn flawed(name: NameRef<'_>, flaw: ChainFlaw) -> ChainError {
    ChainError { name: name.to_name(), flaw }
}

fn out_of_time(validity: ValidityPeriod, now_ms: u64) -> ChainFlaw {
    if now_ms < validity.not_before_ms {
        ChainFlaw::NotYet(Moment(validity.not_before_ms))
    } else {
        ChainFlaw::Expired(Moment(validity.not_after_ms))
    }
}
