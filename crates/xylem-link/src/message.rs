//! Handshake messages inside their envelopes: every field, its place and its length.
//!
//! | kind | message | after version (1) and kind (1) |
//! |---|---|---|
//! | 1 | initial, dialer → responder | cookie (24, zeros if none), Noise message 1 (41) |
//! | 2 | retry, responder → dialer | cookie (24) |
//! | 3 | response, responder → dialer | Noise message 2 (113) |
//! | 4 | finish, dialer → responder | Noise message 3 (72) |
//!
//! What follows is padding. All lengths are fixed within a version.

use core::time::Duration;

use crate::link::Parameters;
use crate::noise::{MESSAGE_1_OVERHEAD, MESSAGE_2_OVERHEAD, MESSAGE_3_OVERHEAD};
use crate::seal::{CID_LEN, Cipher, ConnectionId};

const VERSION: u8 = 1;
const INITIAL: u8 = 1;
const RETRY: u8 = 2;
const RESPONSE: u8 = 3;
const FINISH: u8 = 4;

/// An initial is at least this long: what it may provoke is never longer, and it shows that the
/// path carries what the link starts with.
pub(crate) const MIN_INITIAL: usize = 1_200;
pub(crate) const COOKIE_LEN: usize = 24;
const OFFER_LEN: usize = CID_LEN + 1;
const ANSWER_LEN: usize = CID_LEN + 1 + PARAMETERS_LEN;
const PARAMETERS_LEN: usize = 8;
pub(crate) const NOISE_1_LEN: usize = MESSAGE_1_OVERHEAD + OFFER_LEN;
pub(crate) const NOISE_2_LEN: usize = MESSAGE_2_OVERHEAD + ANSWER_LEN;
pub(crate) const NOISE_3_LEN: usize = MESSAGE_3_OVERHEAD + PARAMETERS_LEN;

/// A handshake message without its padding.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Message<'a> {
    Initial { cookie: &'a [u8; COOKIE_LEN], noise: &'a [u8; NOISE_1_LEN] },
    Retry { cookie: &'a [u8; COOKIE_LEN] },
    Response { noise: &'a [u8; NOISE_2_LEN] },
    Finish { noise: &'a [u8; NOISE_3_LEN] },
}

impl<'a> Message<'a> {
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let (head, rest) = body.split_first_chunk::<2>()?;
        if head[0] != VERSION {
            return None;
        }
        Some(match head[1] {
            INITIAL => {
                let (cookie, rest) = rest.split_first_chunk()?;
                Self::Initial { cookie, noise: rest.first_chunk()? }
            }
            RETRY => Self::Retry { cookie: rest.first_chunk()? },
            RESPONSE => Self::Response { noise: rest.first_chunk()? },
            FINISH => Self::Finish { noise: rest.first_chunk()? },
            _ => return None,
        })
    }

    pub fn to_vec(self) -> Vec<u8> {
        let parts: (u8, &[u8], &[u8]) = match self {
            Self::Initial { cookie, noise } => (INITIAL, cookie, noise),
            Self::Retry { cookie } => (RETRY, cookie, &[]),
            Self::Response { noise } => (RESPONSE, noise, &[]),
            Self::Finish { noise } => (FINISH, noise, &[]),
        };
        [&[VERSION, parts.0], parts.1, parts.2].concat()
    }
}

/// Payload of Noise message 1. Not secret, but part of the transcript.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct Offer {
    /// Where the dialer expects the answer.
    pub cid: ConnectionId,
    /// Whether AES-256-GCM is fast for the dialer.
    pub aes: bool,
}

impl Offer {
    pub fn encode(self) -> [u8; OFFER_LEN] {
        let mut out = [0; OFFER_LEN];
        out[..CID_LEN].copy_from_slice(&self.cid.0);
        out[CID_LEN] = u8::from(self.aes);
        out
    }

    pub fn decode(bytes: &[u8; OFFER_LEN]) -> Option<Self> {
        let (cid, rest) = bytes.split_first_chunk()?;
        Some(Self { cid: ConnectionId(*cid), aes: flag(rest[0])? })
    }
}

/// Payload of Noise message 2.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct Answer {
    /// Where the responder expects message 3.
    pub cid: ConnectionId,
    /// The transport's cipher.
    pub cipher: Cipher,
    pub parameters: Parameters,
}

impl Answer {
    pub fn encode(self) -> [u8; ANSWER_LEN] {
        let mut out = [0; ANSWER_LEN];
        out[..CID_LEN].copy_from_slice(&self.cid.0);
        out[CID_LEN] = self.cipher as u8;
        out[CID_LEN + 1..].copy_from_slice(&self.parameters.encode());
        out
    }

    pub fn decode(bytes: &[u8; ANSWER_LEN]) -> Option<Self> {
        let (cid, rest) = bytes.split_first_chunk()?;
        let (cipher, rest) = rest.split_first()?;
        Some(Self {
            cid: ConnectionId(*cid),
            cipher: Cipher::from_wire(*cipher)?,
            parameters: Parameters::decode(rest.first_chunk()?)?,
        })
    }
}

impl Parameters {
    /// Largest datagram (4), idle timeout in milliseconds (4). Payload of Noise message 3.
    pub fn encode(self) -> [u8; PARAMETERS_LEN] {
        let size = u32::try_from(self.max_datagram).unwrap_or(u32::MAX);
        let idle = u32::try_from(self.idle_timeout.as_millis()).unwrap_or(u32::MAX);
        let mut out = [0; PARAMETERS_LEN];
        out[..4].copy_from_slice(&size.to_be_bytes());
        out[4..].copy_from_slice(&idle.to_be_bytes());
        out
    }

    /// `None` if the peer claims to take less than what every path carries.
    pub fn decode(bytes: &[u8; PARAMETERS_LEN]) -> Option<Self> {
        let (size, idle) = bytes.split_first_chunk::<4>()?;
        let max_datagram = u32::from_be_bytes(*size) as usize;
        let idle = u32::from_be_bytes(*idle.first_chunk()?);
        (max_datagram >= MIN_INITIAL)
            .then(|| Self { max_datagram, idle_timeout: Duration::from_millis(u64::from(idle)) })
    }
}

fn flag(byte: u8) -> Option<bool> {
    match byte {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_and_cuts_do_not() {
        let messages = [
            Message::Initial { cookie: &[1; COOKIE_LEN], noise: &[2; NOISE_1_LEN] },
            Message::Retry { cookie: &[3; COOKIE_LEN] },
            Message::Response { noise: &[4; NOISE_2_LEN] },
            Message::Finish { noise: &[5; NOISE_3_LEN] },
        ];
        for message in messages {
            let mut body = message.to_vec();
            for len in 0..body.len() {
                assert_eq!(Message::parse(&body[..len]), None);
            }
            assert_eq!(Message::parse(&body), Some(message));
            body.extend_from_slice(&[9; 50]);
            assert_eq!(Message::parse(&body), Some(message), "padding is not looked at");
            for (at, value) in [(0, 0), (0, 2), (1, 0), (1, 5)] {
                let mut other = body.clone();
                other[at] = value;
                assert_eq!(Message::parse(&other), None);
            }
        }
    }

    #[test]
    fn payloads_come_back_and_nonsense_is_refused() {
        let offer = Offer { cid: ConnectionId([1; 8]), aes: true };
        assert_eq!(Offer::decode(&offer.encode()), Some(offer));
        let mut bad = offer.encode();
        bad[8] = 2;
        assert_eq!(Offer::decode(&bad), None);
        let idle_timeout = Duration::from_millis(12_345);
        let parameters = Parameters { max_datagram: MIN_INITIAL, idle_timeout };
        let answer = Answer { cid: ConnectionId([2; 8]), cipher: Cipher::Aes256Gcm, parameters };
        assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        let mut bad = answer.encode();
        bad[8] = 3;
        assert_eq!(Answer::decode(&bad), None);
        let small = Parameters { max_datagram: MIN_INITIAL - 1, idle_timeout };
        assert_eq!(Parameters::decode(&small.encode()), None);
    }
}
