//! Messages on the stream: `type (1) | length (2) | payload`. Each type has one length or a few.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use super::error::{CodeEnd, TakeError};
use super::exchange::PROOF_LEN;

/// Maximum length of the text that is handed over, in bytes.
pub const MAX_TEXT: usize = 8_192;
/// Length of a SPAKE2 message in bytes.
pub(super) const ELEMENT_LEN: usize = 33;
/// Bytes that sealing adds to a text.
pub(super) const TAG_LEN: usize = 16;

const HEAD_LEN: usize = 3;
const HELLO: u8 = 1;
const ANSWER: u8 = 2;
const PROOF: u8 = 3;
const HANDED: u8 = 4;
const REFUSED: u8 = 5;

/// A message. The taker sends hello and proof; the offerer answers each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum CodeMessage {
    Hello([u8; ELEMENT_LEN]),
    Answer([u8; ELEMENT_LEN]),
    Proof([u8; PROOF_LEN]),
    /// The offerer's proof and the encrypted text.
    Handed([u8; PROOF_LEN], Vec<u8>),
    Refused(CodeRefusal),
}

/// Why the offerer ends a try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum CodeRefusal {
    Wrong = 1,
    Busy = 2,
    Used = 3,
    Guessed = 4,
    Expired = 5,
}

impl CodeRefusal {
    const ALL: [Self; 5] = [Self::Wrong, Self::Busy, Self::Used, Self::Guessed, Self::Expired];
}

impl From<CodeEnd> for CodeRefusal {
    fn from(over: CodeEnd) -> Self {
        match over {
            CodeEnd::Used => Self::Used,
            CodeEnd::Guessed => Self::Guessed,
            CodeEnd::Expired => Self::Expired,
        }
    }
}

impl From<CodeRefusal> for TakeError {
    fn from(why: CodeRefusal) -> Self {
        match why {
            CodeRefusal::Wrong => Self::Wrong,
            CodeRefusal::Busy => Self::Busy,
            CodeRefusal::Used => Self::Over(CodeEnd::Used),
            CodeRefusal::Guessed => Self::Over(CodeEnd::Guessed),
            CodeRefusal::Expired => Self::Over(CodeEnd::Expired),
        }
    }
}

impl CodeMessage {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, first, rest): (u8, &[u8], &[u8]) = match self {
            Self::Hello(element) => (HELLO, element, &[]),
            Self::Answer(element) => (ANSWER, element, &[]),
            Self::Proof(proof) => (PROOF, proof, &[]),
            Self::Handed(proof, sealed) => (HANDED, proof, sealed),
            Self::Refused(why) => (REFUSED, &[*why as u8], &[]),
        };
        let length = u16::try_from(first.len().saturating_add(rest.len())).unwrap_or(u16::MAX);
        [&[kind][..], &length.to_be_bytes(), first, rest].concat()
    }

    fn decode(kind: u8, payload: &[u8]) -> Option<Self> {
        match kind {
            HELLO => payload.try_into().ok().map(Self::Hello),
            ANSWER => payload.try_into().ok().map(Self::Answer),
            PROOF => payload.try_into().ok().map(Self::Proof),
            HANDED => {
                let (proof, sealed) = payload.split_first_chunk()?;
                Some(Self::Handed(*proof, sealed.to_vec()))
            }
            REFUSED => {
                let [why] = payload else { return None };
                CodeRefusal::ALL.into_iter().find(|known| *known as u8 == *why).map(Self::Refused)
            }
            _ => None,
        }
    }

    /// The longest payload of a message type.
    fn longest(kind: u8) -> Option<usize> {
        match kind {
            HELLO | ANSWER => Some(ELEMENT_LEN),
            PROOF => Some(PROOF_LEN),
            HANDED => PROOF_LEN.checked_add(MAX_TEXT)?.checked_add(TAG_LEN),
            REFUSED => Some(1),
            _ => None,
        }
    }
}

/// The stream's bytes are invalid; it cannot be used any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct InvalidStream;

/// Decodes messages from a stream's bytes, cut anywhere. Buffers no more than one message.
#[derive(Default)]
pub(super) struct CodeMessageReader {
    waiting: Vec<u8>,
}

impl CodeMessageReader {
    /// Takes bytes and returns the first whole message. Bytes after it are an error, because neither side sends two
    /// messages in a row.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Option<CodeMessage>, InvalidStream> {
        for byte in bytes {
            self.waiting.push(*byte);
            // Checked after each byte, so that an overlong message is never buffered.
            let Some(([kind, high, low], payload)) = self.waiting.split_first_chunk::<HEAD_LEN>()
            else {
                if let Some(kind) = self.waiting.first() {
                    CodeMessage::longest(*kind).ok_or(InvalidStream)?;
                }
                continue;
            };
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if CodeMessage::longest(*kind).is_none_or(|longest| length > longest) {
                return Err(InvalidStream);
            }
            if payload.len() > length {
                return Err(InvalidStream);
            }
        }
        let Some(([kind, high, low], payload)) = self.waiting.split_first_chunk::<HEAD_LEN>()
        else {
            return Ok(None);
        };
        if payload.len() < usize::from(u16::from_be_bytes([*high, *low])) {
            return Ok(None);
        }
        let message = CodeMessage::decode(*kind, payload).ok_or(InvalidStream)?;
        self.waiting.clear();
        Ok(Some(message))
    }
}
