//! How two programs exchange envelopes over a reliable stream of purpose `MAIL`: [`MailFrame`]s, and [`MailFrames`], which
//! parses them from a stream.
//!
//! `type (1) | length (4) | payload`. The side that opened the stream sends requests; the other side answers them in
//! order. Either may end the stream between frames.
//!
//! | type | frame | payload | answered by |
//! |---|---|---|---|
//! | 1 | deliver | an envelope | receipt |
//! | 2 | fetch | nothing: the mailbox is that of the link's peer | envelopes, then end |
//! | 3 | taken | envelope's id (16) | nothing |
//! | 0x81 | receipt | envelope's id (16), status (1); if messages before it are lost, how many in all (4) | |
//! | 0x82 | envelope | an envelope | |
//! | 0x83 | end | nothing | |

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use crate::envelope::{EnvelopeId, MAX_ENVELOPE};
use crate::fields::put_u32_prefixed;

const HEAD_LEN: usize = 5;
const DELIVER: u8 = 1;
const FETCH: u8 = 2;
const TAKEN: u8 = 3;
const RECEIPT: u8 = 0x81;
const ENVELOPE: u8 = 0x82;
const END: u8 = 0x83;

/// Result of an envelope's delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryStatus {
    /// It is stored here, perhaps since an earlier delivery, and need not be sent again.
    Stored = 0,
    /// There is no room now; a later attempt may succeed.
    Full = 1,
    /// No inbox or node here accepts mail for that mailbox.
    NotHere = 2,
    /// It was written with a card that is too old.
    Stale = 3,
    /// It does not authenticate, or is no envelope.
    Refused = 4,
    /// Its receiver can no longer read that session: the sender has to begin another one.
    Ended = 5,
}

impl DeliveryStatus {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Stored, Self::Full, Self::NotHere, Self::Stale, Self::Refused, Self::Ended]
            .into_iter()
            .find(|status| *status as u8 == byte)
    }
}

/// One request or answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MailFrame {
    /// Delivers an envelope.
    Deliver(Vec<u8>),
    /// Requests all envelopes in the requester's mailbox.
    Fetch,
    /// The receiver has stored this envelope; the node can remove it.
    Taken(EnvelopeId),
    /// Answer to [`MailFrame::Deliver`], with the total number of messages of its session that the receiver has lost.
    Receipt(EnvelopeId, DeliveryStatus, u32),
    /// One of the answers to [`MailFrame::Fetch`].
    Envelope(Vec<u8>),
    /// The last answer to [`MailFrame::Fetch`].
    End,
}

/// The bytes are no frame: the stream cannot be used any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the peer does not speak the mail protocol")]
pub struct MailFrameError;

impl MailFrame {
    /// Appends the encoded frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut receipt = [0; 21];
        let (kind, payload): (u8, &[u8]) = match self {
            Self::Deliver(envelope) => (DELIVER, envelope),
            Self::Fetch => (FETCH, &[]),
            Self::Taken(id) => (TAKEN, &id.0),
            Self::Receipt(id, status, lost) => {
                receipt[..16].copy_from_slice(&id.0);
                receipt[16] = *status as u8;
                receipt[17..].copy_from_slice(&lost.to_be_bytes());
                (RECEIPT, if *lost == 0 { &receipt[..17] } else { &receipt })
            }
            Self::Envelope(envelope) => (ENVELOPE, envelope),
            Self::End => (END, &[]),
        };
        out.push(kind);
        put_u32_prefixed(out, payload);
    }

    fn decode(kind: u8, payload: &[u8]) -> Option<Self> {
        Some(match (kind, payload.len()) {
            (DELIVER, 1..) => Self::Deliver(payload.to_vec()),
            (FETCH, 0) => Self::Fetch,
            (TAKEN, 16) => Self::Taken(EnvelopeId(payload.try_into().ok()?)),
            (RECEIPT, 17 | 21) => {
                let (id, rest) = payload.split_first_chunk()?;
                let (status, lost) = rest.split_first()?;
                let lost = lost.first_chunk().map_or(0, |lost| u32::from_be_bytes(*lost));
                // Each receipt has one encoding.
                (lost > 0 || payload.len() == 17).then_some(())?;
                Self::Receipt(EnvelopeId(*id), DeliveryStatus::from_byte(*status)?, lost)
            }
            (ENVELOPE, 1..) => Self::Envelope(payload.to_vec()),
            (END, 0) => Self::End,
            _ => return None,
        })
    }
}

/// Received bytes without a whole frame: at most one frame and one read.
#[derive(Debug, Default)]
pub struct MailFrames(Vec<u8>);

impl MailFrames {
    /// Starts without bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes of the stream. Take out every frame before the next call.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Returns whether the stream may end here.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next whole frame; `None` if more bytes have to arrive first.
    ///
    /// # Errors
    /// [`MailFrameError`], as early as it can be detected.
    pub fn next_frame(&mut self) -> Result<Option<MailFrame>, MailFrameError> {
        let Some((head, rest)) = self.0.split_first_chunk::<HEAD_LEN>() else { return Ok(None) };
        let [kind, length @ ..] = *head;
        let len = usize::try_from(u32::from_be_bytes(length)).map_err(|_| MailFrameError)?;
        if len > MAX_ENVELOPE {
            return Err(MailFrameError);
        }
        let Some(payload) = rest.get(..len) else { return Ok(None) };
        let frame = MailFrame::decode(kind, payload).ok_or(MailFrameError)?;
        self.0.drain(..HEAD_LEN.saturating_add(len));
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_parsed_from_pieces_of_any_size() {
        let id = EnvelopeId([7; 16]);
        let frames = [
            MailFrame::Deliver(vec![1; 300]),
            MailFrame::Fetch,
            MailFrame::Taken(id),
            MailFrame::Receipt(id, DeliveryStatus::Stored, 0),
            MailFrame::Receipt(id, DeliveryStatus::Ended, 70_000),
            MailFrame::Envelope(vec![2; MAX_ENVELOPE]),
            MailFrame::End,
        ];
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        for step in [1, 7, 4_096, bytes.len()] {
            let (mut reader, mut out) = (MailFrames::new(), Vec::new());
            for piece in bytes.chunks(step) {
                reader.push(piece);
                while let Some(frame) = reader.next_frame().unwrap() {
                    out.push(frame);
                }
            }
            assert!(out == frames && reader.is_between(), "in pieces of {step}");
        }
    }

    #[test]
    fn invalid_frames_are_refused() {
        for bad in [
            &[0, 0, 0, 0, 0][..],
            &[FETCH, 0, 0, 0, 1, 0],
            &[TAKEN, 0, 0, 0, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[DELIVER, 0, 0, 0, 0],
            &[DELIVER, 0xff, 0xff, 0xff, 0xff],
            &[0x84, 0, 0, 0, 0],
            &[&[RECEIPT, 0, 0, 0, 21][..], &[0; 21]].concat(),
        ] {
            let mut reader = MailFrames::new();
            reader.push(bad);
            assert_eq!(reader.next_frame(), Err(MailFrameError), "{bad:?}");
        }
        let mut receipt = vec![RECEIPT, 0, 0, 0, 17];
        receipt.extend_from_slice(&[6; 17]);
        let mut reader = MailFrames::new();
        reader.push(&receipt);
        assert_eq!(reader.next_frame(), Err(MailFrameError), "an unknown status");
    }
}
