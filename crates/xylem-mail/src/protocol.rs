//! What two programs say to each other over a reliable stream of purpose `MAIL`: [`Frame`]s, and
//! [`Frames`], which finds them in what arrives.
//!
//! `type (1) | length (4) | payload`. The side that opened the stream asks, the other answers each
//! request in turn; either may end the stream between frames.
//!
//! | type | frame | payload | answered by |
//! |---|---|---|---|
//! | 1 | deliver | an envelope | receipt |
//! | 2 | fetch | nothing: the link's peer is whose mailbox it is | envelopes, then end |
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

/// What became of an envelope that was handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// It is stored here and need not be sent again; it may have been before.
    Stored = 0,
    /// There is no room; later there may be.
    Full = 1,
    /// Nobody here takes mail for that mailbox.
    NotHere = 2,
    /// It was written with a card that is too old.
    Stale = 3,
    /// It does not authenticate, or is no envelope.
    Refused = 4,
    /// Its receiver can read nothing of that session any more: another has to begin.
    Ended = 5,
}

impl Status {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Stored, Self::Full, Self::NotHere, Self::Stale, Self::Refused, Self::Ended]
            .into_iter()
            .find(|status| *status as u8 == byte)
    }
}

/// One request or answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// An envelope for whoever it is for.
    Deliver(Vec<u8>),
    /// Whatever waits for the one who asks.
    Fetch,
    /// This one is stored at its receiver's and can go.
    Taken(EnvelopeId),
    /// Answer to [`Frame::Deliver`], with how many messages of its session the receiver has lost, all
    /// in all.
    Receipt(EnvelopeId, Status, u32),
    /// One of the answers to [`Frame::Fetch`].
    Envelope(Vec<u8>),
    /// The last answer to [`Frame::Fetch`].
    End,
}

/// Bytes that are no frame: the stream is of no more use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the peer does not speak the mail protocol")]
pub struct FrameError;

impl Frame {
    /// Appends it as bytes.
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
                // One receipt has one form.
                (lost > 0 || payload.len() == 17).then_some(())?;
                Self::Receipt(EnvelopeId(*id), Status::from_byte(*status)?, lost)
            }
            (ENVELOPE, 1..) => Self::Envelope(payload.to_vec()),
            (END, 0) => Self::End,
            _ => return None,
        })
    }
}

/// What arrived and is not a whole frame yet; never more than one frame and one read.
#[derive(Debug, Default)]
pub struct Frames(Vec<u8>);

impl Frames {
    /// Nothing has arrived.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes of the stream. Take out every frame before the next.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Whether the stream may end here.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.0.is_empty()
    }

    /// The next whole frame; `None` if more has to arrive first.
    ///
    /// # Errors
    /// [`FrameError`], as soon as it shows.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some((head, rest)) = self.0.split_first_chunk::<HEAD_LEN>() else { return Ok(None) };
        let [kind, length @ ..] = *head;
        let len = usize::try_from(u32::from_be_bytes(length)).map_err(|_| FrameError)?;
        if len > MAX_ENVELOPE {
            return Err(FrameError);
        }
        let Some(payload) = rest.get(..len) else { return Ok(None) };
        let frame = Frame::decode(kind, payload).ok_or(FrameError)?;
        self.0.drain(..HEAD_LEN.saturating_add(len));
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_however_they_arrive() {
        let id = EnvelopeId([7; 16]);
        let frames = [
            Frame::Deliver(vec![1; 300]),
            Frame::Fetch,
            Frame::Taken(id),
            Frame::Receipt(id, Status::Stored, 0),
            Frame::Receipt(id, Status::Ended, 70_000),
            Frame::Envelope(vec![2; MAX_ENVELOPE]),
            Frame::End,
        ];
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        for step in [1, 7, 4_096, bytes.len()] {
            let (mut reader, mut out) = (Frames::new(), Vec::new());
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
    fn what_is_no_frame_is_noticed() {
        for bad in [
            &[0, 0, 0, 0, 0][..],
            &[FETCH, 0, 0, 0, 1, 0],
            &[TAKEN, 0, 0, 0, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[DELIVER, 0, 0, 0, 0],
            &[DELIVER, 0xff, 0xff, 0xff, 0xff],
            &[0x84, 0, 0, 0, 0],
            &[&[RECEIPT, 0, 0, 0, 21][..], &[0; 21]].concat(),
        ] {
            let mut reader = Frames::new();
            reader.push(bad);
            assert_eq!(reader.next_frame(), Err(FrameError), "{bad:?}");
        }
        let mut receipt = vec![RECEIPT, 0, 0, 0, 17];
        receipt.extend_from_slice(&[6; 17]);
        let mut reader = Frames::new();
        reader.push(&receipt);
        assert_eq!(reader.next_frame(), Err(FrameError), "an unknown status");
    }
}
