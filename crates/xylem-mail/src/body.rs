//! [`MailBody`]: the content of a message.
//!
//! `kind (1) | sent, in ms since 1970 (8) | size (8) | name's length (2) | name | content's length (4) | content |
//! zeros`, up to the next of the lengths 512, 1,024, …, 65,536. Kind 1: a ticket, as bytes; 2: a note, UTF-8; 3:
//! fetched, the envelope's id (16).

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_object::Ticket;
use zeroize::Zeroizing;

use crate::envelope::EnvelopeId;
use crate::fields::{FieldReader, put_u16_prefixed, put_u32_prefixed};

/// Greatest length of a padded body, in bytes.
pub const MAX_BODY: usize = 65_536;
/// Greatest length of a name, in bytes.
pub const MAX_NAME: usize = 255;
/// Greatest length of a note, in bytes.
pub const MAX_NOTE: usize = MAX_BODY - HEAD - MAX_NAME;

pub(crate) const SHORTEST: usize = 512;
/// Bytes beside name and content.
const HEAD: usize = 1 + 8 + 8 + 2 + 4;
const TICKET: u8 = 1;
const NOTE: u8 = 2;
const FETCHED: u8 = 3;

/// Content of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MailContent {
    /// A ticket of something to fetch.
    Ticket(Box<Ticket>),
    /// Text.
    Note(String),
    /// Notice that the content named by the envelope with this id was fetched.
    Fetched(EnvelopeId),
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MailBody {
    /// Its content.
    pub content: MailContent,
    /// The sender's title; for display only, it may be any text.
    pub name: String,
    /// Bytes that there are to fetch, according to the sender.
    pub size: u64,
    /// When it was written, in milliseconds since 1970, according to the sender.
    pub sent_ms: u64,
}

/// Why a body was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BodyError {
    /// It does not fit into a message.
    #[error(
        "the message is too long: at most {MAX_NAME} bytes of name and {MAX_NOTE} bytes of note"
    )]
    TooLong,
    /// The bytes are no body.
    #[error("the message is malformed")]
    Malformed,
}

impl MailBody {
    /// Encodes the body, with padding.
    ///
    /// # Errors
    /// [`BodyError::TooLong`].
    pub fn encode(&self) -> Result<Zeroizing<Vec<u8>>, BodyError> {
        let ticket;
        let (kind, content) = match &self.content {
            MailContent::Ticket(it) => {
                ticket = it.to_bytes();
                (TICKET, &ticket[..])
            }
            MailContent::Note(text) => (NOTE, text.as_bytes()),
            MailContent::Fetched(id) => (FETCHED, &id.0[..]),
        };
        let len = HEAD.saturating_add(self.name.len()).saturating_add(content.len());
        if self.name.len() > MAX_NAME || content.len() > MAX_NOTE || len > MAX_BODY {
            return Err(BodyError::TooLong);
        }
        let padded = padded(len);
        let mut out = Zeroizing::new(Vec::with_capacity(padded));
        out.push(kind);
        out.extend_from_slice(&self.sent_ms.to_be_bytes());
        out.extend_from_slice(&self.size.to_be_bytes());
        put_u16_prefixed(&mut out, self.name.as_bytes());
        put_u32_prefixed(&mut out, content);
        out.resize(padded, 0);
        Ok(out)
    }

    /// Parses what [`MailBody::encode`] made.
    ///
    /// # Errors
    /// [`BodyError::Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<Self, BodyError> {
        Self::fields(bytes).ok_or(BodyError::Malformed)
    }

    fn fields(bytes: &[u8]) -> Option<Self> {
        let mut fields = FieldReader(bytes);
        let kind = fields.byte()?;
        let (sent_ms, size) = (fields.u64()?, fields.u64()?);
        let name = fields.text(MAX_NAME)?.to_owned();
        let len = usize::try_from(fields.u32()?).ok()?;
        let content = fields.bytes(len).filter(|_| len <= MAX_NOTE)?;
        let used = bytes.len().saturating_sub(fields.0.len());
        let is_padding = fields.0.iter().all(|byte| *byte == 0);
        if bytes.len() > MAX_BODY || bytes.len() != padded(used) || !is_padding {
            return None;
        }
        let content = match kind {
            TICKET => MailContent::Ticket(Box::new(Ticket::from_bytes(content).ok()?)),
            NOTE => MailContent::Note(core::str::from_utf8(content).ok()?.to_owned()),
            FETCHED => MailContent::Fetched(EnvelopeId(content.try_into().ok()?)),
            _ => return None,
        };
        Some(Self { content, name, size, sent_ms })
    }
}

fn padded(len: usize) -> usize {
    len.next_power_of_two().max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(len: usize) -> MailBody {
        let content = MailContent::Note("x".repeat(len));
        MailBody { content, name: "n".into(), size: 3, sent_ms: 4 }
    }

    #[test]
    fn bodies_have_eight_lengths() {
        for (len, padded) in [
            (0, 512),
            (488, 512),
            (489, 1_024),
            (1_000, 1_024),
            (1_001, 2_048),
            (MAX_NOTE, MAX_BODY),
        ] {
            let bytes = note(len).encode().unwrap();
            assert_eq!(bytes.len(), padded, "{len}");
            assert_eq!(MailBody::decode(&bytes), Ok(note(len)));
        }
        assert_eq!(note(MAX_NOTE + 1).encode().err(), Some(BodyError::TooLong));
        let long = MailBody { name: "n".repeat(256), ..note(0) };
        assert_eq!(long.encode().err(), Some(BodyError::TooLong));
    }

    #[test]
    fn a_body_has_exactly_one_encoding() {
        let bytes = note(20).encode().unwrap();
        for len in 0..bytes.len() {
            assert!(MailBody::decode(&bytes[..len]).is_err());
        }
        assert!(MailBody::decode(&[&bytes[..], &[0; 512]].concat()).is_err(), "too much padding");
        for (at, value) in [(0, 0), (0, 1), (0, 3), (0, 4), (17, 0xff), (20, 0xff), (511, 1)] {
            let mut wrong = bytes.to_vec();
            wrong[at] = value;
            assert!(MailBody::decode(&wrong).is_err(), "byte {at}");
        }
    }
}
