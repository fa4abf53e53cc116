//! PROBE: asks which names a client may have.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv::{self, types};
use xylem_packet::{Name, NameRef};

use super::fields::{self, FormatError};
use super::parameters::{ChallengeParameters, ParameterReader};
use crate::numbers::typ;

/// ApplicationParameters of PROBE.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeRequest {
    /// Values for the profile's `probe_keys`.
    pub parameters: ChallengeParameters,
}

impl ProbeRequest {
    /// Parses the ApplicationParameters.
    ///
    /// # Errors
    /// See [`FormatError`].
    pub fn decode(parameters: &[u8]) -> Result<Self, FormatError> {
        let mut pairs = ParameterReader::default();
        fields::each(parameters, |found, value| pairs.element(found, value))?;
        Ok(ProbeRequest { parameters: pairs.finish()? })
    }

    /// The ApplicationParameters.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.parameters.encode(&mut out);
        out
    }
}

/// Content of the answer to PROBE.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeResponse {
    /// Names, and how many components a certificate's identity may have beyond each.
    pub names: Vec<(Name, Option<u64>)>,
    /// Other CAs to ask: the full names of their certificates, digest included.
    pub redirects: Vec<Name>,
}

impl ProbeResponse {
    /// Parses the content.
    ///
    /// # Errors
    /// See [`FormatError`].
    pub fn decode(content: &[u8]) -> Result<Self, FormatError> {
        let mut response = ProbeResponse::default();
        fields::each(content, |found, value| match found {
            typ::PROBE_RESPONSE => fields::more(&mut response.names, found, entry(value)?),
            typ::PROBE_REDIRECT => {
                fields::more(&mut response.redirects, found, fields::name(value)?)
            }
            _ => Ok(false),
        })?;
        Ok(response)
    }

    /// The content.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, suffix) in &self.names {
            let mut value = Vec::new();
            name.encode(&mut value);
            if let Some(suffix) = suffix {
                tlv::write_number_element(&mut value, typ::MAX_SUFFIX_LENGTH, *suffix);
            }
            tlv::write_element(&mut out, typ::PROBE_RESPONSE, &value);
        }
        for name in &self.redirects {
            fields::write_name(&mut out, typ::PROBE_REDIRECT, name.as_ref());
        }
        out
    }
}

fn entry(value: &[u8]) -> Result<(Name, Option<u64>), FormatError> {
    let (mut name, mut suffix) = (None, None);
    fields::each(value, |found, value| match found {
        types::NAME => fields::once(&mut name, found, NameRef::from_value(value)?.to_name()),
        typ::MAX_SUFFIX_LENGTH => fields::once(&mut suffix, found, fields::number(found, value)?),
        _ => Ok(false),
    })?;
    Ok((fields::needed(name, types::NAME)?, suffix))
}
