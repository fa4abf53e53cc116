//! [`TrustStore`]: which keys are believed, and for which names.
//!
//! Anchors are believed because whoever runs the program says so. Other certificates are believed
//! when a key that is believed has signed them. A key may sign names under its own identity and
//! nothing else (the hierarchical model): `/org/KEY/1` may sign `/org/alice/KEY/7/…`, and that key
//! what begins with `/org/alice`. Trust schemas with other rules are not here.

use std::collections::HashMap;

use xylem_packet::{Data, Interest, KeyLocator, Name, SignatureInfo};

use crate::{Certificate, CertificateError, TrustError, ValidityPeriod, Verifier, key_name_of};

/// Certificates that a store holds, anchors included.
pub const MAX_CERTIFICATES: usize = 1024;

/// Believed keys, by name.
#[derive(Debug, Default)]
pub struct TrustStore {
    keys: HashMap<Name, Believed>,
    names_by_digest: HashMap<[u8; 32], Name>,
}

#[derive(Debug)]
struct Believed {
    identity: Name,
    verifier: Verifier,
    /// The certificate's and those of all above it.
    validity: ValidityPeriod,
}

impl TrustStore {
    /// A store that believes nobody.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of believed keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if nobody is believed.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Believes this certificate's key because the caller does. Its signature is not looked at.
    ///
    /// # Errors
    /// `Key` if its key can verify nothing.
    pub fn add_anchor(&mut self, certificate: &Certificate<'_>) -> Result<(), CertificateError> {
        self.insert(certificate, certificate.validity())
            .map_err(|_| CertificateError::Key(crate::KeyError::Invalid))
    }

    /// Believes this certificate's key if one that is believed has signed it and may.
    ///
    /// # Errors
    /// See [`TrustError`]; the store is then as it was.
    pub fn add(&mut self, certificate: &Certificate<'_>, now_ms: u64) -> Result<(), TrustError> {
        let data = certificate.data();
        let info = data.signature_info();
        let key = self.key_for(&info, now_ms)?;
        // The identity is compared, not the name: a key must not certify others of its own
        // identity's parents, and `/a/KEY/1` is no identity under `/a/KEY`.
        if !key.identity.as_ref().is_prefix_of(certificate.identity()) {
            return Err(TrustError::NotAllowed);
        }
        key.verifier.data(data)?;
        if !certificate.validity().contains(now_ms) {
            return Err(TrustError::Expired);
        }
        let own = certificate.validity();
        let validity = ValidityPeriod {
            not_before_ms: own.not_before_ms.max(key.validity.not_before_ms),
            not_after_ms: own.not_after_ms.min(key.validity.not_after_ms),
        };
        self.insert(certificate, validity)
    }

    fn insert(
        &mut self,
        certificate: &Certificate<'_>,
        validity: ValidityPeriod,
    ) -> Result<(), TrustError> {
        let name = certificate.key_name().to_name();
        if self.keys.len() >= MAX_CERTIFICATES && !self.keys.contains_key(&name) {
            return Err(TrustError::Limit);
        }
        let verifier =
            Verifier::of(certificate.public_key()).map_err(|_| TrustError::UnknownKey)?;
        self.names_by_digest.retain(|_, known| *known != name);
        self.names_by_digest.insert(certificate.public_key().digest(), name.clone());
        let identity = certificate.identity().to_name();
        self.keys.insert(name, Believed { identity, verifier, validity });
        Ok(())
    }

    /// Whether a believed key that may sign this name signed the Data as it is.
    ///
    /// # Errors
    /// See [`TrustError`].
    pub fn data(&self, data: &Data<'_>, now_ms: u64) -> Result<(), TrustError> {
        let key = self.key_for(&data.signature_info(), now_ms)?;
        if !key.identity.as_ref().is_prefix_of(data.name()) {
            return Err(TrustError::NotAllowed);
        }
        key.verifier.data(data)
    }

    /// Whether a believed key signed the Interest as it is. What a key may ask for is the caller's
    /// business: the name of a command is not under the identity of who gives it.
    ///
    /// # Errors
    /// See [`TrustError`].
    pub fn interest(&self, interest: &Interest<'_>, now_ms: u64) -> Result<(), TrustError> {
        let signature = interest.signature().ok_or(TrustError::Unsigned)?;
        self.parts(&signature.info, &signature.signed_portions, signature.value, now_ms)
    }

    /// As [`Self::interest`], for a signature that was taken apart elsewhere.
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
        self.key_for(info, now_ms)?.verifier.parts(info, portions, value)
    }

    fn key_for(&self, info: &SignatureInfo<'_>, now_ms: u64) -> Result<&Believed, TrustError> {
        let key = self.find(info)?;
        if key.validity.contains(now_ms) { Ok(key) } else { Err(TrustError::Expired) }
    }

    fn find(&self, info: &SignatureInfo<'_>) -> Result<&Believed, TrustError> {
        let name = match info.key_locator {
            None => return Err(TrustError::NoKeyLocator),
            Some(KeyLocator::Name(name)) => {
                key_name_of(name).ok_or(TrustError::UnknownKey)?.to_name()
            }
            Some(KeyLocator::Digest(digest)) => {
                let digest: [u8; 32] = digest.try_into().map_err(|_| TrustError::UnknownKey)?;
                self.names_by_digest.get(&digest).ok_or(TrustError::UnknownKey)?.clone()
            }
        };
        self.keys.get(&name).ok_or(TrustError::UnknownKey)
    }
}
