//! [`SafeBag`]: a key under a passphrase with its certificate, as `ndnsec export` of ndn-cxx writes it.
//!
//! ```text
//! SafeBag      := 128 (Data EncryptedKey)      the certificate
//! EncryptedKey := 129 EncryptedPrivateKeyInfo
//! ```
//! The certificate says whose key it is, and which key has to come out. Nothing else in a bag that
//! somebody sent is proven: a certificate signed by itself says only what its key says.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv::{self, Reader, types};

use crate::{Certificate, CertificateError, KeyError, PrivateKey, Verifier, key_name_of};

const SAFE_BAG: u32 = 128;
const ENCRYPTED_KEY: u32 = 129;

/// A key under a passphrase and its certificate.
#[derive(Debug, Clone)]
pub struct SafeBag<'a> {
    certificate: Certificate<'a>,
    key: &'a [u8],
}

/// Why bytes are no SafeBag that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SafeBagError {
    /// Not a SafeBag at all.
    #[error("no SafeBag")]
    Form,
    /// What should be its certificate.
    #[error("the SafeBag's certificate: {0}")]
    Certificate(#[from] CertificateError),
    /// What should be its key.
    #[error("the SafeBag's key: {0}")]
    Key(#[from] KeyError),
    /// The certificate is said to be signed by its own key, and is not.
    #[error("the SafeBag's certificate is not signed by the key it says")]
    Signature,
    /// The key is not the one that the certificate is about.
    #[error("the SafeBag's key is not that of its certificate")]
    OtherKey,
}

impl<'a> SafeBag<'a> {
    /// Reads one SafeBag and nothing after it. No passphrase is tried.
    ///
    /// # Errors
    /// See [`SafeBagError`].
    pub fn decode(wire: &'a [u8]) -> Result<Self, SafeBagError> {
        let mut outer = Reader::new(wire);
        let bag = match outer.next_element() {
            Ok(Some(bag)) if bag.typ == SAFE_BAG && outer.position() == wire.len() => bag.value,
            _ => return Err(SafeBagError::Form),
        };
        let mut reader = Reader::new(bag);
        match reader.next_element() {
            Ok(Some(data)) if data.typ == types::DATA => {}
            _ => return Err(SafeBagError::Form),
        }
        let end = reader.position();
        let certificate = Certificate::decode(bag.get(..end).unwrap_or_default())?;
        let key = match reader.next_element() {
            Ok(Some(key)) if key.typ == ENCRYPTED_KEY => key.value,
            _ => return Err(SafeBagError::Form),
        };
        if reader.position() != bag.len() {
            return Err(SafeBagError::Form);
        }
        PrivateKey::check_encrypted(key)?;
        let own = certificate.signer().and_then(key_name_of) == Some(certificate.key_name());
        if own && Verifier::of(certificate.public_key())?.data(certificate.data()).is_err() {
            return Err(SafeBagError::Signature);
        }
        Ok(SafeBag { certificate, key })
    }

    /// Whether bytes begin as a SafeBag does.
    pub fn begins(wire: &[u8]) -> bool {
        wire.first().is_some_and(|first| u32::from(*first) == SAFE_BAG)
    }

    /// A SafeBag of a certificate and [`PrivateKey::to_encrypted`].
    pub fn encode(certificate: &Certificate<'_>, encrypted: &[u8]) -> Vec<u8> {
        let (mut bag, mut out) = (certificate.data().wire().to_vec(), Vec::new());
        tlv::write_element(&mut bag, ENCRYPTED_KEY, encrypted);
        tlv::write_element(&mut out, SAFE_BAG, &bag);
        out
    }

    /// The certificate; proven only if it is signed by its own key.
    pub fn certificate(&self) -> &Certificate<'a> {
        &self.certificate
    }

    /// EncryptedPrivateKeyInfo.
    pub fn encrypted(&self) -> &'a [u8] {
        self.key
    }

    /// The key, which is the certificate's.
    ///
    /// # Errors
    /// A wrong passphrase, a key of another kind, or of another certificate.
    pub fn open(&self, passphrase: &[u8]) -> Result<PrivateKey, SafeBagError> {
        let key = PrivateKey::from_encrypted(self.key, passphrase)?;
        if key.public() == *self.certificate.public_key() {
            Ok(key)
        } else {
            Err(SafeBagError::OtherKey)
        }
    }
}
