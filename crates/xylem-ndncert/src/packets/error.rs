//! ERROR: a CA refuses.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv;

use super::fields::{self, FormatError};
use crate::numbers::{ErrorCode, typ};

/// Content of an ERROR.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorMessage {
    /// The reason as a code.
    pub code: ErrorCode,
    /// The reason for people.
    pub info: String,
}

impl ErrorMessage {
    /// Parses the content.
    ///
    /// # Errors
    /// See [`FormatError`]; `Missing` of the code if the content is something else.
    pub fn decode(content: &[u8]) -> Result<Self, FormatError> {
        let (mut code, mut info) = (None, None);
        fields::each(content, |found, value| match found {
            typ::ERROR_CODE => {
                fields::once(&mut code, found, ErrorCode(fields::number(found, value)?))
            }
            typ::ERROR_INFO => fields::once(&mut info, found, fields::text(found, value)?),
            _ => Ok(false),
        })?;
        Ok(ErrorMessage {
            code: fields::needed(code, typ::ERROR_CODE)?,
            info: fields::needed(info, typ::ERROR_INFO)?,
        })
    }

    /// The content.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        tlv::write_number_element(&mut out, typ::ERROR_CODE, self.code.0);
        tlv::write_element(&mut out, typ::ERROR_INFO, self.info.as_bytes());
        out
    }
}
