//! [`ChallengeParameters`] of a PROBE or a challenge.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv;

use super::fields::{self, FormatError};
use crate::numbers::typ;

/// Keys and values in order, each key once, at most 16.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChallengeParameters(Vec<(String, Vec<u8>)>);

impl ChallengeParameters {
    /// No parameters.
    pub const fn new() -> Self {
        ChallengeParameters(Vec::new())
    }

    /// Parameters of one pair.
    pub fn of(key: &str, value: &[u8]) -> Self {
        ChallengeParameters(vec![(key.to_owned(), value.to_vec())])
    }

    /// Appends a pair, or gives a key another value.
    pub fn set(&mut self, key: &str, value: &[u8]) {
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value.to_vec(),
            None => self.0.push((key.to_owned(), value.to_vec())),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_slice())
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_slice()))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for (key, value) in self.iter() {
            tlv::write_element(out, typ::PARAMETER_KEY, key.as_bytes());
            tlv::write_element(out, typ::PARAMETER_VALUE, value);
        }
    }
}

/// Pairs that are being parsed: a key waits for its value.
#[derive(Default)]
pub(crate) struct ParameterReader {
    list: Vec<(String, Vec<u8>)>,
    key: Option<String>,
}

impl ParameterReader {
    /// Takes an element of a pair; returns false for any other. No element may stand between a key and its value.
    pub(crate) fn element(&mut self, found: u32, value: &[u8]) -> Result<bool, FormatError> {
        match (found, self.key.take()) {
            (typ::PARAMETER_KEY, None) => {
                let key = fields::text(found, value)?;
                if self.list.iter().any(|(known, _)| *known == key) {
                    return Err(FormatError::Repeated(found));
                }
                self.key = Some(key);
                Ok(true)
            }
            (typ::PARAMETER_VALUE, Some(key)) => {
                fields::more(&mut self.list, found, (key, value.to_vec()))
            }
            (typ::PARAMETER_VALUE, None) => Err(FormatError::Missing(typ::PARAMETER_KEY)),
            (_, Some(_)) => Err(FormatError::Missing(typ::PARAMETER_VALUE)),
            (_, None) => Ok(false),
        }
    }

    pub(crate) fn finish(self) -> Result<ChallengeParameters, FormatError> {
        match self.key {
            Some(_) => Err(FormatError::Missing(typ::PARAMETER_VALUE)),
            None => Ok(ChallengeParameters(self.list)),
        }
    }
}
