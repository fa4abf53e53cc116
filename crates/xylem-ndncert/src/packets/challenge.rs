//! CHALLENGE: the plaintext of its packets.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv::{self, types};
use xylem_packet::{Name, NameRef};

use super::fields::{self, FormatError};
use super::parameters::{ChallengeParameters, ParameterReader};
use crate::numbers::{RequestStatus, typ};

/// Plaintext of a CHALLENGE Interest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChallengeRequest {
    /// The challenge: the same in all Interests of a request.
    pub challenge: String,
    /// Parameters of the challenge.
    pub parameters: ChallengeParameters,
}

impl ChallengeRequest {
    /// Parses the plaintext.
    ///
    /// # Errors
    /// See [`FormatError`].
    pub fn decode(plaintext: &[u8]) -> Result<Self, FormatError> {
        let mut challenge = None;
        let mut pairs = ParameterReader::default();
        fields::each(plaintext, |found, value| match found {
            typ::SELECTED_CHALLENGE => {
                fields::once(&mut challenge, found, fields::text(found, value)?)
            }
            _ => pairs.element(found, value),
        })?;
        Ok(ChallengeRequest {
            challenge: fields::needed(challenge, typ::SELECTED_CHALLENGE)?,
            parameters: pairs.finish()?,
        })
    }

    /// The plaintext.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        tlv::write_element(&mut out, typ::SELECTED_CHALLENGE, self.challenge.as_bytes());
        self.parameters.encode(&mut out);
        out
    }
}

/// The state of a challenge that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChallengeProgress {
    /// The challenge's own status text.
    pub word: String,
    /// Tries left.
    pub tries: u64,
    /// Time left, in seconds.
    pub time_s: u64,
}

/// Plaintext of the answer to a CHALLENGE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChallengeResponse {
    /// The status of the request.
    pub status: RequestStatus,
    /// The state of the challenge, while it goes on.
    pub progress: Option<ChallengeProgress>,
    /// Further parameters of the challenge.
    pub parameters: ChallengeParameters,
    /// The name of the issued certificate; NDNts and we write it with the digest.
    pub issued: Option<Name>,
    /// Where it can be fetched, best first.
    pub forwarding_hint: Vec<Name>,
}

impl ChallengeResponse {
    /// Parses the plaintext.
    ///
    /// # Errors
    /// See [`FormatError`].
    pub fn decode(plaintext: &[u8]) -> Result<Self, FormatError> {
        let (mut status, mut word, mut tries, mut time_s) = (None, None, None, None);
        let (mut issued, mut hint) = (None, None);
        let mut pairs = ParameterReader::default();
        fields::each(plaintext, |found, value| match found {
            typ::STATUS => {
                let known = RequestStatus::of(fields::number(found, value)?);
                fields::once(&mut status, found, known.ok_or(FormatError::Value(found))?)
            }
            typ::CHALLENGE_STATUS => fields::once(&mut word, found, fields::text(found, value)?),
            typ::REMAINING_TRIES => fields::once(&mut tries, found, fields::number(found, value)?),
            typ::REMAINING_TIME => fields::once(&mut time_s, found, fields::number(found, value)?),
            typ::ISSUED_CERT_NAME => fields::once(&mut issued, found, fields::name(value)?),
            types::FORWARDING_HINT => fields::once(&mut hint, found, names(value)?),
            _ => pairs.element(found, value),
        })?;
        let progress = match (word, tries, time_s) {
            (Some(word), Some(tries), Some(time_s)) => {
                Some(ChallengeProgress { word, tries, time_s })
            }
            _ => None,
        };
        Ok(ChallengeResponse {
            status: fields::needed(status, typ::STATUS)?,
            progress,
            parameters: pairs.finish()?,
            issued,
            forwarding_hint: hint.unwrap_or_default(),
        })
    }

    /// The plaintext.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        tlv::write_number_element(&mut out, typ::STATUS, self.status.number());
        if let Some(progress) = &self.progress {
            tlv::write_element(&mut out, typ::CHALLENGE_STATUS, progress.word.as_bytes());
            tlv::write_number_element(&mut out, typ::REMAINING_TRIES, progress.tries);
            tlv::write_number_element(&mut out, typ::REMAINING_TIME, progress.time_s);
        }
        self.parameters.encode(&mut out);
        if let Some(issued) = &self.issued {
            fields::write_name(&mut out, typ::ISSUED_CERT_NAME, issued.as_ref());
        }
        if !self.forwarding_hint.is_empty() {
            let mut value = Vec::new();
            self.forwarding_hint.iter().for_each(|name| name.encode(&mut value));
            tlv::write_element(&mut out, types::FORWARDING_HINT, &value);
        }
        out
    }
}

/// A sequence of names. The C++ CA writes an empty name for none.
fn names(value: &[u8]) -> Result<Vec<Name>, FormatError> {
    let mut names = Vec::new();
    fields::each(value, |found, value| {
        if found != types::NAME {
            return Ok(false);
        }
        let name = NameRef::from_value(value)?;
        if name.is_empty() { Ok(true) } else { fields::more(&mut names, found, name.to_name()) }
    })?;
    Ok(names)
}
