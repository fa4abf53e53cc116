//! [`TrustStore`]: which keys are trusted, and for which names.
//!
//! Anchors are trusted because the user chose them, under rules of the user's choice ([`TrustRules`]; by default
//! [`HierarchyRules`]). Another certificate is trusted if a trusted key has signed it and that key's rules permit it; it
//! inherits the rules. [`crate::CertificateChain`] determines which certificates are missing. What was proven once is
//! not verified again.

use std::collections::HashMap;
use std::sync::Arc;

use xylem_packet::{Data, Interest, KeyLocator, Name, NameRef, SignatureInfo};

use crate::{
    Certificate, CertificateError, HierarchyRules, PublicKey, RuleRefusal, TrustError, TrustRules,
    ValidityPeriod, Verifier, key_name_of,
};

/// Maximum number of certificates in a store, anchors included.
pub const MAX_CERTIFICATES: usize = 1024;
/// Maximum number of certificates of one key: by several issuers, or of an anchor under several rules.
const MAX_OF_A_KEY: usize = 8;

/// Trusted keys, by name.
#[derive(Debug, Default)]
pub struct TrustStore {
    keys: HashMap<Name, Vec<TrustedCertificate>>,
    len: usize,
    /// Counts insertions, so that the oldest certificate can be found.
    insertions: u64,
    verifications: u64,
    names_by_digest: HashMap<[u8; 32], Name>,
}

#[derive(Debug)]
struct TrustedCertificate {
    certificate: Name,
    public_key: PublicKey,
    verifier: Verifier,
    digest: [u8; 32],
    /// The intersection of the validity periods of the certificate and all above it.
    validity: ValidityPeriod,
    /// `None`: [`HierarchyRules`].
    rules: Option<Arc<dyn TrustRules>>,
    anchor: bool,
    inserted: u64,
}

/// The intended use of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SigningUse<'a> {
    /// Signing a Data packet, which may be a certificate.
    Packet(NameRef<'a>),
    /// Signing a command.
    Command(NameRef<'a>),
    /// Signing something with a name that does not determine which key may sign it.
    Anything,
}

impl<'a> SigningUse<'a> {
    /// Signing a packet with this name, if there is one.
    pub(crate) fn packet(name: Option<&'a Name>) -> Self {
        name.map_or(SigningUse::Anything, |name| SigningUse::Packet(name.as_ref()))
    }
}

impl TrustedCertificate {
    fn allows(&self, what: SigningUse<'_>) -> Result<(), RuleRefusal> {
        let certificate = self.certificate.as_ref();
        let rules: &dyn TrustRules = self.rules.as_deref().unwrap_or(&HierarchyRules);
        match what {
            SigningUse::Packet(name) => rules.allows(name, certificate),
            SigningUse::Command(name) => rules.allows_command(name, certificate),
            SigningUse::Anything => Ok(()),
        }
    }
}

/// Why no trusted key can be used. It is no error yet if certificates can be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyLookupError {
    /// No key is known under this name.
    Unknown,
    /// The key's certificate with this name is not valid at this time.
    NotNow(Name, ValidityPeriod),
    /// The key's rules refuse.
    Refused(RuleRefusal),
}

impl From<KeyLookupError> for TrustError {
    fn from(why: KeyLookupError) -> Self {
        match why {
            KeyLookupError::Unknown => TrustError::UnknownKey,
            KeyLookupError::NotNow(..) => TrustError::Expired,
            KeyLookupError::Refused(_) => TrustError::NotAllowed,
        }
    }
}

impl TrustStore {
    /// A store that trusts no key.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of trusted certificates.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no key is trusted.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of certificate signatures verified so far, valid or not: the work that other parties can cause.
    /// Signatures of packets are not counted.
    pub fn verifications(&self) -> u64 {
        self.verifications
    }

    /// Trusts this certificate's key, by decision of the caller, for names under its identity. Its signature is not
    /// verified.
    ///
    /// # Errors
    /// `Key` if its key cannot be used for verification.
    pub fn add_anchor(&mut self, certificate: &Certificate<'_>) -> Result<(), CertificateError> {
        self.insert_anchor(certificate, None)
    }

    /// Trusts this certificate's key, by decision of the caller, and the keys below it, for the names that `rules`
    /// allow. With other rules it is added to what the key is trusted for already.
    ///
    /// # Errors
    /// `Key` if its key cannot be used for verification.
    pub fn add_anchor_under(
        &mut self,
        certificate: &Certificate<'_>,
        rules: Arc<dyn TrustRules>,
    ) -> Result<(), CertificateError> {
        self.insert_anchor(certificate, Some(rules))
    }

    fn insert_anchor(
        &mut self,
        certificate: &Certificate<'_>,
        rules: Option<Arc<dyn TrustRules>>,
    ) -> Result<(), CertificateError> {
        self.insert(certificate, certificate.validity(), rules, true)
            .map_err(|_| CertificateError::Key(crate::KeyError::Invalid))
    }

    /// Trusts this certificate's key if a trusted key has signed it and may do so. At most one signature is verified.
    ///
    /// # Errors
    /// See [`TrustError`]; the store is then unchanged.
    pub fn add(&mut self, certificate: &Certificate<'_>, now_ms: u64) -> Result<(), TrustError> {
        let data = certificate.data();
        let info = data.signature_info();
        let key = self.find(&info, SigningUse::Packet(certificate.name()), now_ms)?;
        if !certificate.validity().contains(now_ms) {
            return Err(TrustError::Expired);
        }
        let (verdict, own) = (key.verifier.data(data), certificate.validity());
        let validity = ValidityPeriod {
            not_before_ms: own.not_before_ms.max(key.validity.not_before_ms),
            not_after_ms: own.not_after_ms.min(key.validity.not_after_ms),
        };
        let rules = key.rules.clone();
        self.verifications += 1;
        verdict?;
        self.insert(certificate, validity, rules, false)
    }

    fn insert(
        &mut self,
        certificate: &Certificate<'_>,
        validity: ValidityPeriod,
        rules: Option<Arc<dyn TrustRules>>,
        anchor: bool,
    ) -> Result<(), TrustError> {
        let verifier =
            Verifier::of(certificate.public_key()).map_err(|_| TrustError::UnknownKey)?;
        let key = certificate.key_name().to_name();
        // The same certificate is replaced, unless it is an anchor with its own rules.
        let again =
            |b: &TrustedCertificate| !b.anchor || (anchor && b.rules.is_none() && rules.is_none());
        self.remove(&key, |b| b.certificate.as_ref() == certificate.name() && again(b));
        let full = self.keys.get(&key).is_some_and(|of_key| of_key.len() >= MAX_OF_A_KEY);
        if full || self.len >= MAX_CERTIFICATES {
            self.make_room(full.then_some(&key))?;
        }
        let digest = certificate.public_key().digest();
        self.names_by_digest.insert(digest, key.clone());
        self.insertions += 1;
        self.len += 1;
        self.keys.entry(key).or_default().push(TrustedCertificate {
            certificate: certificate.name().to_name(),
            public_key: certificate.public_key().clone(),
            verifier,
            digest,
            validity,
            rules,
            anchor,
            inserted: self.insertions,
        });
        Ok(())
    }

    /// Removes the oldest certificate that is no anchor, of this key or of any.
    fn make_room(&mut self, of: Option<&Name>) -> Result<(), TrustError> {
        let of_keys = self.keys.iter().filter(|(name, _)| of.is_none_or(|of| *name == of));
        let all = of_keys.flat_map(|(name, of_key)| of_key.iter().map(move |b| (name, b)));
        let oldest = all.filter(|(_, b)| !b.anchor).min_by_key(|(_, b)| b.inserted);
        let (name, put) =
            oldest.map(|(name, b)| (name.clone(), b.inserted)).ok_or(TrustError::Limit)?;
        self.remove(&name, |b| b.inserted == put);
        Ok(())
    }

    fn remove(&mut self, name: &Name, which: impl Fn(&TrustedCertificate) -> bool) {
        let Some(of_key) = self.keys.get_mut(name) else { return };
        let before = of_key.len();
        let gone: Vec<_> = of_key.iter().filter(|b| which(b)).map(|b| b.digest).collect();
        of_key.retain(|b| !which(b));
        self.len -= before - of_key.len();
        let left: Vec<_> = of_key.iter().map(|b| b.digest).collect();
        if of_key.is_empty() {
            self.keys.remove(name);
        }
        for digest in gone {
            if !left.contains(&digest) && self.names_by_digest.get(&digest) == Some(name) {
                self.names_by_digest.remove(&digest);
            }
        }
    }

    /// Removes proven certificates that have expired, because another certificate of the key may be available.
    pub(crate) fn forget_expired(&mut self, locator: &KeyLocator<'_>, now_ms: u64) {
        if let Some(name) = self.key_name(locator) {
            self.remove(&name, |b| !b.anchor && !b.validity.contains(now_ms));
        }
    }

    /// Whether the Data is signed by a trusted key that may sign this name.
    ///
    /// # Errors
    /// See [`TrustError`].
    pub fn data(&self, data: &Data<'_>, now_ms: u64) -> Result<(), TrustError> {
        let key = self.find(&data.signature_info(), SigningUse::Packet(data.name()), now_ms)?;
        key.verifier.data(data)
    }

    /// Whether the Data is signed by a trusted key that may sign packets of `name`, whatever the name of this one: a
    /// request that concerns packets of that name.
    ///
    /// # Errors
    /// See [`TrustError`].
    pub fn data_about(
        &self,
        data: &Data<'_>,
        name: NameRef<'_>,
        now_ms: u64,
    ) -> Result<(), TrustError> {
        self.find(&data.signature_info(), SigningUse::Packet(name), now_ms)?.verifier.data(data)
    }

    /// The key by which [`Self::data`] accepts a packet.
    pub fn key_of(&self, data: &Data<'_>, now_ms: u64) -> Option<&PublicKey> {
        let key = self.find(&data.signature_info(), SigningUse::Packet(data.name()), now_ms);
        key.ok().map(|key| &key.public_key)
    }

    /// Whether the Interest is signed by a trusted key. The caller decides what the key may ask for: a command's name
    /// is not under the identity of its sender.
    ///
    /// # Errors
    /// See [`TrustError`].
    pub fn interest(&self, interest: &Interest<'_>, now_ms: u64) -> Result<(), TrustError> {
        let signature = interest.signature().ok_or(TrustError::Unsigned)?;
        self.parts(&signature.info, &signature.signed_portions, signature.value, now_ms)
    }

    /// As [`Self::interest`], for a signature that was decoded elsewhere.
    ///
    /// # Errors
    /// See [`TrustError`].
    pub fn parts(
        &self,
        info: &SignatureInfo<'_>,
        portions: &[&[u8]],
        value: &[u8],
        now_ms: u64,
    ) -> Result<(), TrustError> {
        self.find(info, SigningUse::Anything, now_ms)?.verifier.parts(info, portions, value)
    }

    /// As [`Self::parts`], for a command with this name, which the key's rules may refuse ([`TrustRules::allows_command`]).
    ///
    /// # Errors
    /// See [`TrustError`].
    pub fn command(
        &self,
        command: NameRef<'_>,
        info: &SignatureInfo<'_>,
        portions: &[&[u8]],
        value: &[u8],
        now_ms: u64,
    ) -> Result<(), TrustError> {
        let key = self.find(info, SigningUse::Command(command), now_ms)?;
        key.verifier.parts(info, portions, value)
    }

    /// The rule that refuses a packet, after [`Self::data`] returned [`TrustError::NotAllowed`].
    pub fn refusal_of(&self, data: &Data<'_>, now_ms: u64) -> Option<RuleRefusal> {
        self.refusal(&data.signature_info(), SigningUse::Packet(data.name()), now_ms)
    }

    /// The rule that refuses a command, after [`Self::command`] returned [`TrustError::NotAllowed`].
    pub fn refusal_of_command(
        &self,
        command: NameRef<'_>,
        info: &SignatureInfo<'_>,
        now_ms: u64,
    ) -> Option<RuleRefusal> {
        self.refusal(info, SigningUse::Command(command), now_ms)
    }

    fn refusal(
        &self,
        info: &SignatureInfo<'_>,
        signs: SigningUse<'_>,
        now_ms: u64,
    ) -> Option<RuleRefusal> {
        match self.look_up(info.key_locator.as_ref()?, signs, now_ms) {
            Err(KeyLookupError::Refused(refused)) => Some(refused),
            _ => None,
        }
    }

    fn find(
        &self,
        info: &SignatureInfo<'_>,
        signs: SigningUse<'_>,
        now_ms: u64,
    ) -> Result<&TrustedCertificate, TrustError> {
        let locator = info.key_locator.as_ref().ok_or(TrustError::NoKeyLocator)?;
        Ok(self.look_up(locator, signs, now_ms)?)
    }

    /// Whether a key may be used for a name, apart from its signature.
    pub(crate) fn knows(
        &self,
        locator: &KeyLocator<'_>,
        signs: SigningUse<'_>,
        now_ms: u64,
    ) -> Result<(), KeyLookupError> {
        self.look_up(locator, signs, now_ms).map(drop)
    }

    /// The key that a locator names, by one of its certificates that permits this name now.
    fn look_up(
        &self,
        locator: &KeyLocator<'_>,
        signs: SigningUse<'_>,
        now_ms: u64,
    ) -> Result<&TrustedCertificate, KeyLookupError> {
        let of_key = match locator {
            KeyLocator::Name(name) => {
                let name = key_name_of(*name).ok_or(KeyLookupError::Unknown)?;
                self.keys.get(name.value())
            }
            KeyLocator::Digest(digest) => {
                let digest: &[u8; 32] =
                    (*digest).try_into().map_err(|_| KeyLookupError::Unknown)?;
                self.names_by_digest.get(digest).and_then(|name| self.keys.get(name))
            }
        };
        let mut why = KeyLookupError::Unknown;
        let is_named = |b: &&TrustedCertificate| match locator {
            KeyLocator::Name(_) => true,
            KeyLocator::Digest(digest) => b.digest == *digest,
        };
        let names_it = |b: &&TrustedCertificate| match locator {
            KeyLocator::Name(name) => b.certificate.as_ref() == *name,
            KeyLocator::Digest(_) => false,
        };
        let of_key = || of_key.into_iter().flatten().rev().filter(is_named);
        // The one that the locator names, then the newest first: another owner may have reused the key's name.
        let (named, others) = (of_key().filter(names_it), of_key().filter(|b| !names_it(b)));
        for believed in named.chain(others) {
            if !believed.validity.contains(now_ms) {
                why = KeyLookupError::NotNow(believed.certificate.clone(), believed.validity);
                continue;
            }
            match believed.allows(signs) {
                Ok(()) => return Ok(believed),
                Err(refused) => why = KeyLookupError::Refused(refused),
            }
        }
        Err(why)
    }

    /// Whether the certificate with exactly this name is trusted.
    pub(crate) fn has(&self, certificate: NameRef<'_>) -> bool {
        let of_key = key_name_of(certificate).and_then(|key| self.keys.get(key.value()));
        of_key.into_iter().flatten().any(|b| b.certificate.as_ref() == certificate)
    }

    fn key_name(&self, locator: &KeyLocator<'_>) -> Option<Name> {
        match locator {
            KeyLocator::Name(name) => key_name_of(*name).map(|name| name.to_name()),
            KeyLocator::Digest(digest) => {
                let digest: &[u8; 32] = (*digest).try_into().ok()?;
                self.names_by_digest.get(digest).cloned()
            }
        }
    }
}
