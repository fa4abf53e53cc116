//! Certificates, read in place (NDN certificate format v2).
//!
//! ```text
//! /<identity>/KEY/<key id>/<issuer>/<version>     Data, ContentType KEY
//! Content        := SubjectPublicKeyInfo
//! SignatureInfo  := SignatureType KeyLocator ValidityPeriod AdditionalDescription?
//! ```
//! Reading a certificate proves nothing about it; [`crate::TrustStore`] does.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::{Component, ContentType, Data, KeyLocator, NameRef};

use crate::{CertificateError, PublicKey, ValidityPeriod};

const KEY: Component<'static> = Component::generic(b"KEY");

/// A Data packet in the form of a certificate. Not verified.
#[derive(Debug, Clone)]
pub struct Certificate<'a> {
    data: Data<'a>,
    public_key: PublicKey,
    validity: ValidityPeriod,
}

impl<'a> Certificate<'a> {
    /// Reads one whole Data packet as a certificate.
    ///
    /// # Errors
    /// See [`CertificateError`].
    pub fn decode(wire: &'a [u8]) -> Result<Self, CertificateError> {
        let data = Data::decode(wire)?;
        let name = data.name();
        let at_key = name.len().checked_sub(4).ok_or(CertificateError::Name)?;
        if name.get(at_key) != Some(KEY) {
            return Err(CertificateError::Name);
        }
        if data.meta().content_type != ContentType::KEY {
            return Err(CertificateError::ContentType(data.meta().content_type.0));
        }
        let period = data.signature_info().validity_period.ok_or(CertificateError::Validity)?;
        Ok(Certificate {
            public_key: PublicKey::from_spki(data.content())?,
            validity: ValidityPeriod::from_value(period)?,
            data,
        })
    }

    /// The packet.
    pub fn data(&self) -> &Data<'a> {
        &self.data
    }

    /// The certificate's name.
    pub fn name(&self) -> NameRef<'a> {
        self.data.name()
    }

    /// `/<identity>/KEY/<key id>`.
    pub fn key_name(&self) -> NameRef<'a> {
        self.name().prefix(self.name().len().saturating_sub(2))
    }

    /// The owner of the key.
    pub fn identity(&self) -> NameRef<'a> {
        self.name().prefix(self.name().len().saturating_sub(4))
    }

    /// The public key in the certificate.
    pub fn public_key(&self) -> &PublicKey {
        &self.public_key
    }

    /// When the certificate is valid.
    pub fn validity(&self) -> ValidityPeriod {
        self.validity
    }

    /// The name of the key that signed the certificate, or of that key's certificate.
    pub fn signer(&self) -> Option<NameRef<'a>> {
        match self.data.signature_info().key_locator {
            Some(KeyLocator::Name(name)) => Some(name),
            _ => None,
        }
    }
}

/// The key's name within a KeyLocator's name, which may name the key or a certificate of it, with or without version
/// and digest. It ends with the component after the last `KEY`.
pub fn key_name_of(locator: NameRef<'_>) -> Option<NameRef<'_>> {
    let is_key = |(at, component)| (component == KEY).then_some(at);
    let at_key = locator.parent().iter().enumerate().filter_map(is_key).last()?;
    Some(locator.prefix(at_key.saturating_add(2)))
}
