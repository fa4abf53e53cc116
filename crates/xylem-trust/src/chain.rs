//! [`CertificateChain`]: the certificates between a packet and a trusted key.
//!
//! It asks for one certificate name after the other and takes the answers, without socket or clock; the caller fetches.
//! On the way up from the packet no signature is verified. Names, validity, length and loops are checked. Once a
//! trusted key is reached, everything is verified on the way down, with one signature per certificate. A chain
//! therefore costs at most [`MAX_CHAIN`] verifications, and a forged one costs one. What was proven stays in the
//! [`TrustStore`].
//!
//! ```text
//! let mut chain = CertificateChain::of(&data)?;
//! while let ChainAction::Ask(query) = chain.step(&mut store, now_ms)? {
//!     chain.answer(&fetch(query)?, now_ms)?;
//! }
//! store.data(&data, now_ms)?;
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::{Data, Interest, KeyLocator, Name, NameRef, SignatureInfo};

use crate::store::{KeyLookupError, SigningUse};
use crate::{
    Certificate, CertificateError, RuleRefusal, TrustError, TrustStore, ValidityPeriod, key_name_of,
};

/// Maximum number of certificates between a packet and a trusted key. Each is asked for once.
pub const MAX_CHAIN: usize = 8;

/// The chain from one packet up to a trusted key.
#[derive(Debug)]
pub struct CertificateChain {
    /// The name of the packet to be proven; `None` if its name does not determine which key may sign it.
    packet: Option<Name>,
    /// The key that signed the topmost certificate found, or the packet.
    locator: OwnedKeyLocator,
    /// Certificates found, from the packet upwards.
    found: Vec<FetchedCertificate>,
    asked: Vec<Name>,
    /// The error to report if the last question is not answered: the key is known, but none of its certificates in the
    /// store may be used.
    error_if_missing: Option<ChainError>,
}

/// A certificate that was fetched.
#[derive(Debug)]
struct FetchedCertificate {
    wire: Vec<u8>,
    name: Name,
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
            asked: Vec::new(),
            error_if_missing: None,
        })
    }

    /// The next step, given what is in the store. After [`ChainAction::Known`] the store holds the certificates of this chain.
    ///
    /// # Errors
    /// The flaw, and the certificate that has it.
    pub fn step(&mut self, store: &mut TrustStore, now_ms: u64) -> Result<ChainAction, ChainError> {
        let locator = self.locator.as_ref();
        store.forget_expired(&locator, now_ms);
        let top = self.top();
        let why = match store.knows(&locator, SigningUse::packet(top.as_ref()), now_ms) {
            Ok(()) => return self.verify_downwards(store, now_ms).map(|()| ChainAction::Known),
            Err(why) => why,
        };
        let at = |flaw| Err(ChainError { name: top.clone().unwrap_or_default(), flaw });
        self.error_if_missing = None;
        let question = match (self.question(), why) {
            (_, KeyLookupError::NotNow(name, validity)) => {
                return Err(ChainError { name, flaw: out_of_time(validity, now_ms) });
            }
            // Another certificate of the key may have other rules, unless it is in the store already.
            (Ok(other), KeyLookupError::Refused(refused))
                if !other.can_be_prefix && !store.has(other.name.as_ref()) =>
            {
                self.error_if_missing = at(ChainFlaw::Refused(refused)).err();
                other
            }
            (_, KeyLookupError::Refused(refused)) => return at(ChainFlaw::Refused(refused)),
            (Err(flaw), KeyLookupError::Unknown) => return at(flaw),
            (Ok(question), KeyLookupError::Unknown) => question,
        };
        if self.asked.contains(&question.name) {
            return at(ChainFlaw::Loop(question.name));
        }
        if self.asked.len() >= MAX_CHAIN {
            return at(ChainFlaw::TooLong);
        }
        self.asked.push(question.name.clone());
        Ok(ChainAction::Ask(question))
    }

    /// Takes the packet that answered the last question.
    ///
    /// # Errors
    /// The packet is no certificate of that name, or the chain cannot continue with it.
    pub fn answer(&mut self, wire: &[u8], now_ms: u64) -> Result<(), ChainError> {
        let asked = self.asked.last().cloned().unwrap_or_default();
        let certificate = Certificate::decode(wire)
            .map_err(|e| ChainError { name: asked.clone(), flaw: ChainFlaw::NoCertificate(e) })?;
        let name = certificate.name();
        if !asked.as_ref().is_prefix_of(name) {
            return Err(flawed(name, ChainFlaw::OtherName(asked)));
        }
        if !certificate.validity().contains(now_ms) {
            return Err(flawed(name, out_of_time(certificate.validity(), now_ms)));
        }
        let locator = OwnedKeyLocator::of(&certificate.data().signature_info())
            .ok_or_else(|| flawed(name, ChainFlaw::NoKeyLocator))?;
        if let Some(by) = locator.key_name() {
            if by == certificate.key_name() {
                return Err(flawed(name, ChainFlaw::Untrusted));
            }
            for lower in &self.found {
                if key_name_of(lower.name.as_ref()) == Some(by) {
                    return Err(flawed(name, ChainFlaw::Loop(by.to_name())));
                }
            }
        }
        self.locator = locator;
        self.found.push(FetchedCertificate { wire: wire.to_vec(), name: name.to_name() });
        Ok(())
    }

    /// The error to report if the last question was not answered.
    pub fn missing(&self) -> ChainError {
        if let Some(otherwise) = &self.error_if_missing {
            return otherwise.clone();
        }
        let name = self.asked.last().cloned().unwrap_or_default();
        ChainError { name, flaw: ChainFlaw::Missing }
    }

    /// Verifies from the trusted key down to the packet: rules first, then one signature per certificate.
    fn verify_downwards(&mut self, store: &mut TrustStore, now_ms: u64) -> Result<(), ChainError> {
        while let Some(FetchedCertificate { wire, name }) = self.found.pop() {
            let certificate = Certificate::decode(&wire).map_err(|e| ChainError {
                name: name.clone(),
                flaw: ChainFlaw::NoCertificate(e),
            })?;
            let added = store.add(&certificate, now_ms);
            added.map_err(|e| flawed(certificate.name(), ChainFlaw::Trust(e)))?;
            self.locator = OwnedKeyLocator::Name(name);
            let below = self.top();
            let locator = self.locator.as_ref();
            if let Err(why) = store.knows(&locator, SigningUse::packet(below.as_ref()), now_ms) {
                let flaw = match why {
                    KeyLookupError::Refused(refused) => ChainFlaw::Refused(refused),
                    KeyLookupError::Unknown => ChainFlaw::Trust(TrustError::UnknownKey),
                    KeyLookupError::NotNow(_, validity) => out_of_time(validity, now_ms),
                };
                return Err(ChainError { name: below.unwrap_or_default(), flaw });
            }
        }
        Ok(())
    }

    /// The name of the topmost certificate found, or else of the packet.
    fn top(&self) -> Option<Name> {
        self.found.last().map(|found| &found.name).or(self.packet.as_ref()).cloned()
    }

    /// The next question, if the locator is a name.
    fn question(&self) -> Result<CertificateQuery, ChainFlaw> {
        let name = match &self.locator {
            OwnedKeyLocator::Name(name) => name,
            OwnedKeyLocator::Digest(_) => return Err(ChainFlaw::Digest),
        };
        let key = key_name_of(name.as_ref()).ok_or_else(|| ChainFlaw::NoKeyName(name.clone()))?;
        // The name of a key, or of a certificate with anything after its version cut off.
        let whole = key.len().saturating_add(2);
        let name = name.prefix(whole);
        Ok(CertificateQuery { name: name.to_name(), can_be_prefix: name.len() < whole })
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
