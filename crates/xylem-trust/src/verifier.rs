//! Verifying signatures: algorithm and key are chosen first, the packet is read afterwards.

use xylem_packet::{Data, Interest, KeyLocator, SignatureInfo, SignatureType};

#[cfg(feature = "std")]
use crate::{KeyError, PublicKey};
use crate::{TrustError, digest};

/// One algorithm with one key. A packet with another signature type is refused before its signature is read, so no
/// attacker can replace a signature that needs a key by one that needs none.
///
/// The signature value is checked last. Digests and MACs are compared in a time that does not depend on where they
/// differ.
pub struct Verifier {
    key: VerifierKey,
    #[cfg(feature = "std")]
    named: Option<xylem_packet::Name>,
}

enum VerifierKey {
    DigestSha256,
    DigestBlake3,
    Blake3Keyed([u8; 32]),
    #[cfg(feature = "ring")]
    Hmac(ring::hmac::Key),
    #[cfg(feature = "std")]
    Ed25519(Box<ed25519_dalek::VerifyingKey>),
    #[cfg(feature = "ring")]
    EcdsaP256([u8; 65]),
    #[cfg(feature = "ring")]
    Rsa(Vec<u8>),
}

impl Verifier {
    const fn with(key: VerifierKey) -> Self {
        Verifier {
            key,
            #[cfg(feature = "std")]
            named: None,
        }
    }

    /// Type 0. It shows that a packet is undamaged, not which key made it. A KeyLocator is ignored.
    pub const fn digest_sha256() -> Self {
        Self::with(VerifierKey::DigestSha256)
    }

    /// Type 6. It shows that a packet is undamaged, not which key made it. A KeyLocator is ignored.
    pub const fn digest_blake3() -> Self {
        Self::with(VerifierKey::DigestBlake3)
    }

    /// Type 7 with this key of exactly 32 octets. A packet without KeyLocator is refused.
    pub const fn blake3_keyed(key: [u8; 32]) -> Self {
        Self::with(VerifierKey::Blake3Keyed(key))
    }

    /// Type 4 with this key.
    #[cfg(feature = "ring")]
    pub fn hmac(key: &[u8]) -> Self {
        Self::with(VerifierKey::Hmac(ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key)))
    }

    /// Type 1, 3 or 5, according to the key.
    ///
    /// # Errors
    /// `Invalid` if the 32 octets are no Ed25519 key, or one of small order, for which a signature of anything can be
    /// forged. Other invalid keys are detected only when they are used. Without the feature `ring` they are
    /// `Unsupported`.
    #[cfg(feature = "std")]
    pub fn of(key: &PublicKey) -> Result<Self, KeyError> {
        Ok(Self::with(match key {
            PublicKey::Ed25519(key) => {
                let key = ed25519_dalek::VerifyingKey::from_bytes(key)
                    .ok()
                    .filter(|key| !key.is_weak())
                    .ok_or(KeyError::Invalid)?;
                VerifierKey::Ed25519(Box::new(key))
            }
            #[cfg(feature = "ring")]
            PublicKey::EcdsaP256(point) => VerifierKey::EcdsaP256(*point),
            #[cfg(feature = "ring")]
            PublicKey::Rsa(key) => VerifierKey::Rsa(key.clone()),
            #[cfg(not(feature = "ring"))]
            PublicKey::EcdsaP256(_) | PublicKey::Rsa(_) => return Err(KeyError::Unsupported),
        }))
    }

    /// Refuses packets unless their KeyLocator is a name that begins with this one: a key's name, with which its
    /// certificates' names begin. Not for the digests, which ignore KeyLocators.
    #[cfg(feature = "std")]
    pub fn named(mut self, key_name: xylem_packet::Name) -> Self {
        self.named = Some(key_name);
        self
    }

    /// The signature type that packets have to have.
    pub const fn typ(&self) -> SignatureType {
        match self.key {
            VerifierKey::DigestSha256 => SignatureType::DIGEST_SHA256,
            VerifierKey::DigestBlake3 => SignatureType::DIGEST_BLAKE3,
            VerifierKey::Blake3Keyed(_) => SignatureType::BLAKE3_KEYED,
            #[cfg(feature = "ring")]
            VerifierKey::Hmac(_) => SignatureType::HMAC,
            #[cfg(feature = "std")]
            VerifierKey::Ed25519(_) => SignatureType::ED25519,
            #[cfg(feature = "ring")]
            VerifierKey::EcdsaP256(_) => SignatureType::ECDSA,
            #[cfg(feature = "ring")]
            VerifierKey::Rsa(_) => SignatureType::RSA,
        }
    }

    /// Whether this key signed the Data.
    ///
    /// # Errors
    /// `WrongType`, `NoKeyLocator`, `OtherKey`, `BadSignature`.
    pub fn data(&self, data: &Data<'_>) -> Result<(), TrustError> {
        self.parts(&data.signature_info(), &[data.signed_portion()], data.signature_value())
    }

    /// Whether this key signed the Interest. [`crate::ReplayGuard`] checks whether it was received before.
    ///
    /// # Errors
    /// Those of [`Self::data`], and `Unsigned`.
    pub fn interest(&self, interest: &Interest<'_>) -> Result<(), TrustError> {
        let signature = interest.signature().ok_or(TrustError::Unsigned)?;
        self.parts(&signature.info, &signature.signed_portions, signature.value)
    }

    /// As [`Self::data`], for a signature that was decoded elsewhere: its info, the signed portions, and its value.
    ///
    /// # Errors
    /// Those of [`Self::data`].
    pub fn parts(
        &self,
        info: &SignatureInfo<'_>,
        portions: &[&[u8]],
        value: &[u8],
    ) -> Result<(), TrustError> {
        if info.typ != self.typ() {
            return Err(TrustError::WrongType { expected: self.typ(), found: info.typ });
        }
        self.check_locator(info.key_locator.as_ref())?;
        if self.value(portions, value) { Ok(()) } else { Err(TrustError::BadSignature) }
    }

    fn check_locator(&self, locator: Option<&KeyLocator<'_>>) -> Result<(), TrustError> {
        if matches!(self.key, VerifierKey::DigestSha256 | VerifierKey::DigestBlake3) {
            return Ok(());
        }
        if locator.is_none() && matches!(self.key, VerifierKey::Blake3Keyed(_)) {
            return Err(TrustError::NoKeyLocator);
        }
        #[cfg(feature = "std")]
        if let Some(named) = &self.named {
            match locator {
                None => return Err(TrustError::NoKeyLocator),
                Some(KeyLocator::Name(name)) if named.as_ref().is_prefix_of(*name) => {}
                Some(_) => return Err(TrustError::OtherKey),
            }
        }
        Ok(())
    }

    fn value(&self, portions: &[&[u8]], value: &[u8]) -> bool {
        match &self.key {
            VerifierKey::DigestSha256 => digest::equal(digest::sha256(portions), value),
            VerifierKey::DigestBlake3 => digest::equal(digest::blake3(portions), value),
            VerifierKey::Blake3Keyed(key) => {
                digest::equal(digest::blake3_keyed(key, portions), value)
            }
            #[cfg(feature = "ring")]
            VerifierKey::Hmac(key) => {
                let mut context = ring::hmac::Context::with_key(key);
                portions.iter().for_each(|portion| context.update(portion));
                <[u8; 32]>::try_from(context.sign().as_ref())
                    .is_ok_and(|tag| digest::equal(tag, value))
            }
            #[cfg(feature = "std")]
            VerifierKey::Ed25519(key) => {
                let Ok(signature) = ed25519_dalek::Signature::from_slice(value) else {
                    return false;
                };
                crate::signer::in_one_piece(portions, |message| {
                    key.verify_strict(message, &signature).is_ok()
                })
            }
            #[cfg(feature = "ring")]
            VerifierKey::EcdsaP256(point) => {
                by_ring(&ring::signature::ECDSA_P256_SHA256_ASN1, point, portions, value)
            }
            #[cfg(feature = "ring")]
            VerifierKey::Rsa(key) => {
                by_ring(&ring::signature::RSA_PKCS1_2048_8192_SHA256, key, portions, value)
            }
        }
    }
}

#[cfg(feature = "ring")]
fn by_ring(
    algorithm: &'static dyn ring::signature::VerificationAlgorithm,
    key: &[u8],
    portions: &[&[u8]],
    value: &[u8],
) -> bool {
    let key = ring::signature::UnparsedPublicKey::new(algorithm, key);
    crate::signer::in_one_piece(portions, |message| key.verify(message, value).is_ok())
}

impl core::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Verifier(type {}, key hidden)", self.typ().0)
    }
}
