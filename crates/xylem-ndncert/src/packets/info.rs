//! The CA's profile, which INFO gives.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::{Name, tlv};

use super::fields::{self, FormatError};
use crate::numbers::typ;

/// Content of the profile packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaInfo {
    /// The CA certifies names below this prefix; requests go below `/CA` of it.
    pub prefix: Name,
    /// Description for people.
    pub text: String,
    /// Keys of the parameters that PROBE takes.
    pub probe_keys: Vec<String>,
    /// Maximum validity of its certificates, in seconds.
    pub max_validity_s: u64,
    /// Its own certificate, a Data packet.
    pub certificate: Vec<u8>,
}

impl CaInfo {
    /// Parses the content.
    ///
    /// # Errors
    /// See [`FormatError`].
    pub fn decode(content: &[u8]) -> Result<Self, FormatError> {
        let (mut prefix, mut text, mut validity, mut certificate) = (None, None, None, None);
        let mut probe_keys = Vec::new();
        fields::each(content, |found, value| match found {
            typ::CA_PREFIX => fields::once(&mut prefix, found, fields::name(value)?),
            typ::CA_INFO => fields::once(&mut text, found, fields::text(found, value)?),
            typ::PARAMETER_KEY => fields::more(&mut probe_keys, found, fields::text(found, value)?),
            typ::MAX_VALIDITY_PERIOD => {
                fields::once(&mut validity, found, fields::number(found, value)?)
            }
            typ::CA_CERTIFICATE => fields::once(&mut certificate, found, value.to_vec()),
            _ => Ok(false),
        })?;
        Ok(CaInfo {
            prefix: fields::needed(prefix, typ::CA_PREFIX)?,
            text: fields::needed(text, typ::CA_INFO)?,
            probe_keys,
            max_validity_s: fields::needed(validity, typ::MAX_VALIDITY_PERIOD)?,
            certificate: fields::needed(certificate, typ::CA_CERTIFICATE)?,
        })
    }

    /// The content.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        fields::write_name(&mut out, typ::CA_PREFIX, self.prefix.as_ref());
        tlv::write_element(&mut out, typ::CA_INFO, self.text.as_bytes());
        for key in &self.probe_keys {
            tlv::write_element(&mut out, typ::PARAMETER_KEY, key.as_bytes());
        }
        tlv::write_number_element(&mut out, typ::MAX_VALIDITY_PERIOD, self.max_validity_s);
        tlv::write_element(&mut out, typ::CA_CERTIFICATE, &self.certificate);
        out
    }
}
