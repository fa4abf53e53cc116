//! [`SafeBag`]: an encrypted private key with its certificate, as `ndnsec export` of ndn-cxx writes it.
//!
//! ```text
//! SafeBag      := 128 (Data EncryptedKey)      the certificate
//! EncryptedKey := 129 EncryptedPrivateKeyInfo
//! ```
//! The certificate states the owner and the public key of the encrypted key. Nothing else in a received bag is proven:
//! a self-signed certificate proves only what its own key signed.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv::{self, TlvReader, types};

use crate::{Certificate, CertificateError, KeyError, PrivateKey, Verifier, key_name_of};

const SAFE_BAG: u32 = 128;
const ENCRYPTED_KEY: u32 = 129;

/// An encrypted private key and its certificate.
#[derive(Debug, Clone)]
pub struct SafeBag<'a> {
    certificate: Certificate<'a>,
    key: &'a [u8],
}

/// Why bytes are no usable SafeBag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SafeBagError {
    /// The bytes are no SafeBag.
    #[error("not a SafeBag")]
    Form,
    /// The certificate is invalid.
    #[error("the SafeBag's certificate: {0}")]
    Certificate(#[from] CertificateError),
    /// The encrypted key is invalid.
    #[error("the SafeBag's key: {0}")]
    Key(#[from] KeyError),
    /// The certificate names its own key as signer, but that key did not sign it.
    #[error("the SafeBag's certificate is not signed by the key that it names")]
    Signature,
    /// The private key does not belong to the certificate.
    #[error("the SafeBag's key is not that of its certificate")]
    OtherKey,
}

impl<'a> SafeBag<'a> {
    /// Reads one SafeBag and nothing after it. No passphrase is tried.
    ///
    /// # Errors
    /// See [`SafeBagError`].
    pub fn decode(wire: &'a [u8]) -> Result<Self, SafeBagError> {
        let mut outer = TlvReader::new(wire);
        let bag = match outer.next_element() {
            Ok(Some(bag)) if bag.typ == SAFE_BAG && outer.position() == wire.len() => bag.value,
            _ => return Err(SafeBagError::Form),
        };
        let mut reader = TlvReader::new(bag);
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

    /// Whether bytes begin like a SafeBag.
    pub fn begins(wire: &[u8]) -> bool {
        wire.first().is_some_and(|first| u32::from(*first) == SAFE_BAG)
    }

    /// Makes a SafeBag from a certificate and the result of [`PrivateKey::to_encrypted`].
    pub fn encode(certificate: &Certificate<'_>, encrypted: &[u8]) -> Vec<u8> {
        let (mut bag, mut out) = (certificate.data().wire().to_vec(), Vec::new());
        tlv::write_element(&mut bag, ENCRYPTED_KEY, encrypted);
        tlv::write_element(&mut out, SAFE_BAG, &bag);
        out
    }

    /// The certificate. It is proven only if it is signed by its own key.
    pub fn certificate(&self) -> &Certificate<'a> {
        &self.certificate
    }

    /// The EncryptedPrivateKeyInfo.
    pub fn encrypted(&self) -> &'a [u8] {
        self.key
    }

    /// Decrypts the key and checks that it is the certificate's.
    ///
    /// # Errors
    /// A wrong passphrase, an unsupported kind of key, or a key of another certificate.
    pub fn open(&self, passphrase: &[u8]) -> Result<PrivateKey, SafeBagError> {
        let key = PrivateKey::from_encrypted(self.key, passphrase)?;
        if key.public() == *self.certificate.public_key() {
            Ok(key)
        } else {
            Err(SafeBagError::OtherKey)
        }
    }
}
