//! NEW: begins a request, and agrees on a key.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv;

use super::fields::{self, FormatError};
use crate::numbers::typ;
use crate::session::{POINT_LEN, RequestId, SALT_LEN};

/// ApplicationParameters of NEW.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRequest {
    /// The client's P-256 point, uncompressed.
    pub ecdh_pub: [u8; POINT_LEN],
    /// The requested certificate, signed by its own key: a Data packet.
    pub certificate: Vec<u8>,
    /// Key derivations other than HKDF that the client supports (docs/spec/kdf.md).
    pub derivations: Vec<String>,
    /// Forms of a proof of possession that the client makes, besides the bare one.
    pub bindings: Vec<String>,
}

impl NewRequest {
    /// Parses the ApplicationParameters.
    ///
    /// # Errors
    /// See [`FormatError`].
    pub fn decode(parameters: &[u8]) -> Result<Self, FormatError> {
        let (mut ecdh_pub, mut certificate) = (None, None);
        let (mut derivations, mut bindings) = (Vec::new(), Vec::new());
        fields::each(parameters, |found, value| match found {
            typ::ECDH_PUB => fields::once(&mut ecdh_pub, found, fields::fixed(found, value)?),
            typ::CERT_REQUEST => fields::once(&mut certificate, found, value.to_vec()),
            typ::KEY_DERIVATION => {
                fields::more(&mut derivations, found, fields::text(found, value)?)
            }
            typ::PROOF_BINDING => fields::more(&mut bindings, found, fields::text(found, value)?),
            _ => Ok(false),
        })?;
        Ok(NewRequest {
            ecdh_pub: fields::needed(ecdh_pub, typ::ECDH_PUB)?,
            certificate: fields::needed(certificate, typ::CERT_REQUEST)?,
            derivations,
            bindings,
        })
    }

    /// The ApplicationParameters.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        tlv::write_element(&mut out, typ::ECDH_PUB, &self.ecdh_pub);
        tlv::write_element(&mut out, typ::CERT_REQUEST, &self.certificate);
        for derivation in &self.derivations {
            tlv::write_element(&mut out, typ::KEY_DERIVATION, derivation.as_bytes());
        }
        for binding in &self.bindings {
            tlv::write_element(&mut out, typ::PROOF_BINDING, binding.as_bytes());
        }
        out
    }
}

/// Content of the answer to NEW.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewResponse {
    /// The CA's P-256 point, uncompressed.
    pub ecdh_pub: [u8; POINT_LEN],
    /// Salt of the key derivation.
    pub salt: [u8; SALT_LEN],
    /// The id of the request from now on.
    pub id: RequestId,
    /// Challenges on offer, of which the client chooses one.
    pub challenges: Vec<String>,
    /// The chosen key derivation, one that the request named; `None` for HKDF.
    pub derivation: Option<String>,
    /// The required form of a proof of possession, one that the request named; `None` for the bare one.
    pub binding: Option<String>,
}

impl NewResponse {
    /// Parses the content.
    ///
    /// # Errors
    /// See [`FormatError`].
    pub fn decode(content: &[u8]) -> Result<Self, FormatError> {
        let (mut ecdh_pub, mut salt, mut id) = (None, None, None);
        let (mut derivation, mut binding) = (None, None);
        let mut challenges = Vec::new();
        fields::each(content, |found, value| match found {
            typ::ECDH_PUB => fields::once(&mut ecdh_pub, found, fields::fixed(found, value)?),
            typ::SALT => fields::once(&mut salt, found, fields::fixed(found, value)?),
            typ::REQUEST_ID => {
                fields::once(&mut id, found, RequestId(fields::fixed(found, value)?))
            }
            typ::CHALLENGE => fields::more(&mut challenges, found, fields::text(found, value)?),
            typ::KEY_DERIVATION => {
                fields::once(&mut derivation, found, fields::text(found, value)?)
            }
            typ::PROOF_BINDING => fields::once(&mut binding, found, fields::text(found, value)?),
            _ => Ok(false),
        })?;
        Ok(NewResponse {
            ecdh_pub: fields::needed(ecdh_pub, typ::ECDH_PUB)?,
            salt: fields::needed(salt, typ::SALT)?,
            id: fields::needed(id, typ::REQUEST_ID)?,
            challenges,
            derivation,
            binding,
        })
    }

    /// The content.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        tlv::write_element(&mut out, typ::ECDH_PUB, &self.ecdh_pub);
        tlv::write_element(&mut out, typ::SALT, &self.salt);
        tlv::write_element(&mut out, typ::REQUEST_ID, &self.id.0);
        for challenge in &self.challenges {
            tlv::write_element(&mut out, typ::CHALLENGE, challenge.as_bytes());
        }
        if let Some(derivation) = &self.derivation {
            tlv::write_element(&mut out, typ::KEY_DERIVATION, derivation.as_bytes());
        }
        if let Some(binding) = &self.binding {
            tlv::write_element(&mut out, typ::PROOF_BINDING, binding.as_bytes());
        }
        out
    }
}
