//! Handshake messages inside their envelopes: every field, its place and its length.
//!
//! | kind | message | after version (1) and kind (1) |
//! |---|---|---|
//! | 1 | initial, dialer → responder | cookie (24, zeros if none), head of Noise message 1 (41); with a KEM key: check of the rest (16), its first part (1,093) |
//! | 2 | retry, responder → dialer | cookie (24) |
//! | 3 | response, responder → dialer | Noise message 2 (115) |
//! | 4 | finish, dialer → responder | Noise message 3 (73) |
//! | 5 | rest, dialer → responder | the rest of Noise message 1 (91) |
//! | 6 | hybrid response, responder → dialer | Noise message 2 (1,203) |
//!
//! Padding follows. All lengths are fixed within a version. A KEM key does not fit into an initial that every path
//! carries, so 91 bytes of it follow in a datagram of their own; the check keeps attackers from substituting theirs.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::time::Duration;

use crate::aead::Cipher;
use crate::header::{CID_LEN, ConnectionId};
use crate::kdf::{derive, label};
use crate::kem;
use crate::noise::{MESSAGE_1_OVERHEAD, MESSAGE_2_OVERHEAD, MESSAGE_3_OVERHEAD};

const VERSION: u8 = 5;
const INITIAL: u8 = 1;
const RETRY: u8 = 2;
const RESPONSE: u8 = 3;
const FINISH: u8 = 4;
const REST: u8 = 5;
const HYBRID_RESPONSE: u8 = 6;

/// Reads the first 64 bytes of an envelope: returns whether they bring a cookie if this may be an initial, else `None`.
pub(crate) fn peek_initial(first: &[u8; 64]) -> Option<CookiePresence> {
    let (cookie, _) = first.strip_prefix(&[VERSION, INITIAL])?.split_first_chunk()?;
    Some(if *cookie == [0; COOKIE_LEN] { CookiePresence::None } else { CookiePresence::Some })
}

/// Returns whether a body that begins like this may be a response; see [`peek_initial`].
pub(crate) fn peek_response(first: &[u8; 64]) -> bool {
    first.starts_with(&[VERSION, RESPONSE]) || first.starts_with(&[VERSION, HYBRID_RESPONSE])
}

/// Whether an initial brings a cookie, valid or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CookiePresence {
    None,
    Some,
}

/// Shortest initial, in bytes. No answer to it is longer, and it shows that the path carries the link's first datagram
/// size.
pub(crate) const MIN_INITIAL: usize = 1_200;
pub(crate) const COOKIE_LEN: usize = 24;
pub(crate) const CHECK_LEN: usize = 16;
pub(crate) const OFFER_LEN: usize = CID_LEN + 1;
const ANSWER_LEN: usize = CID_LEN + 2 + PARAMETERS_LEN;
const PARAMETERS_LEN: usize = 8;
/// Length of Noise message 1 up to the KEM key: all of it where none is offered.
pub(crate) const NOISE_1_LEN: usize = MESSAGE_1_OVERHEAD + OFFER_LEN;
pub(crate) const NOISE_2_LEN: usize = MESSAGE_2_OVERHEAD + ANSWER_LEN;
pub(crate) const HYBRID_2_LEN: usize = NOISE_2_LEN + kem::CIPHERTEXT_LEN;
pub(crate) const NOISE_3_LEN: usize = MESSAGE_3_OVERHEAD + PARAMETERS_LEN;
/// Bytes of a KEM key that go with the initial, so that it has [`MIN_INITIAL`] bytes.
pub(crate) const PART_LEN: usize = 1_093;
/// Bytes of a KEM key that follow in the rest.
pub(crate) const REST_LEN: usize = kem::KEY_LEN - PART_LEN;

/// A handshake message without its padding.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum HandshakeMessage<'a> {
    Initial { cookie: &'a [u8; COOKIE_LEN], head: NoiseOneHead<'a> },
    Retry { cookie: &'a [u8; COOKIE_LEN] },
    Response { noise: &'a [u8; NOISE_2_LEN] },
    HybridResponse { noise: &'a [u8; HYBRID_2_LEN] },
    Finish { noise: &'a [u8; NOISE_3_LEN] },
    Rest { rest: &'a [u8; REST_LEN] },
}

/// The part of a KEM key in an initial.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct KemKeyPart<'a> {
    /// [`check`] of the rest.
    pub check: &'a [u8; CHECK_LEN],
    pub part: &'a [u8; PART_LEN],
}

/// Noise message 1, as far as an initial has it.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct NoiseOneHead<'a> {
    pub noise: &'a [u8; NOISE_1_LEN],
    pub part: Option<KemKeyPart<'a>>,
}

impl<'a> NoiseOneHead<'a> {
    /// All of it, in pieces; their lengths follow from the first.
    pub(crate) fn parts(&self) -> [&'a [u8]; 3] {
        let (check, part): (&[u8], &[u8]) = match self.part {
            None => (&[], &[]),
            Some(KemKeyPart { check, part }) => (check, part),
        };
        [self.noise, check, part]
    }

    /// A digest that copies of this first message share, and other first messages do not.
    pub(crate) fn content(&self) -> [u8; 16] {
        let mut content = [0; 16];
        content.copy_from_slice(&derive(label::FIRST, &self.parts())[..16]);
        content
    }
}

/// The check of the rest that an initial carries.
pub(crate) fn check(rest: &[u8; REST_LEN]) -> [u8; CHECK_LEN] {
    let hash = derive(label::REST, &[rest]);
    let mut check = [0; CHECK_LEN];
    check.copy_from_slice(&hash[..CHECK_LEN]);
    check
}

impl<'a> HandshakeMessage<'a> {
    pub(crate) fn parse(body: &'a [u8]) -> Option<Self> {
        let (head, rest) = body.split_first_chunk::<2>()?;
        if head[0] != VERSION {
            return None;
        }
        Some(match head[1] {
            INITIAL => {
                let (cookie, rest) = rest.split_first_chunk()?;
                let (noise, rest) = rest.split_first_chunk::<NOISE_1_LEN>()?;
                let offer = OfferPayload::decode(noise.last_chunk()?)?;
                let part = if offer.hybrid {
                    let (check, rest) = rest.split_first_chunk()?;
                    Some(KemKeyPart { check, part: rest.first_chunk()? })
                } else {
                    None
                };
                Self::Initial { cookie, head: NoiseOneHead { noise, part } }
            }
            RETRY => Self::Retry { cookie: rest.first_chunk()? },
            RESPONSE => Self::Response { noise: rest.first_chunk()? },
            HYBRID_RESPONSE => Self::HybridResponse { noise: rest.first_chunk()? },
            FINISH => Self::Finish { noise: rest.first_chunk()? },
            REST => Self::Rest { rest: rest.first_chunk()? },
            _ => return None,
        })
    }

    pub(crate) fn to_vec(self) -> Vec<u8> {
        let parts: (u8, [&[u8]; 4]) = match self {
            Self::Initial { cookie, head } => {
                let [noise, check, part] = head.parts();
                (INITIAL, [cookie, noise, check, part])
            }
            Self::Retry { cookie } => (RETRY, [cookie, &[], &[], &[]]),
            Self::Response { noise } => (RESPONSE, [noise, &[], &[], &[]]),
            Self::HybridResponse { noise } => (HYBRID_RESPONSE, [noise, &[], &[], &[]]),
            Self::Finish { noise } => (FINISH, [noise, &[], &[], &[]]),
            Self::Rest { rest } => (REST, [rest, &[], &[], &[]]),
        };
        [&[VERSION, parts.0][..], &parts.1.concat()].concat()
    }
}

/// Payload of Noise message 1. Not secret, but part of the transcript.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct OfferPayload {
    /// The id under which the dialer expects the answer.
    pub cid: ConnectionId,
    /// Whether AES-256-GCM is fast for the dialer.
    pub aes: bool,
    /// Whether a KEM key follows.
    pub hybrid: bool,
    /// Whether XChaCha20-Poly1305 is asked for.
    pub xchacha: bool,
}

const AES: u8 = 1;
const HYBRID: u8 = 2;
const XCHACHA: u8 = 4;

impl OfferPayload {
    /// The cipher that a responder chooses for this offer. `aes`: the responder would use AES.
    pub(crate) fn cipher(self, aes: bool) -> Cipher {
        if self.xchacha {
            Cipher::XChaCha20Poly1305
        } else if self.aes && aes {
            Cipher::Aes256Gcm
        } else {
            Cipher::ChaCha20Poly1305
        }
    }

    pub(crate) fn encode(self) -> [u8; OFFER_LEN] {
        let mut out = [0; OFFER_LEN];
        out[..CID_LEN].copy_from_slice(&self.cid.0);
        let flags = [(self.aes, AES), (self.hybrid, HYBRID), (self.xchacha, XCHACHA)];
        out[CID_LEN] = flags.iter().map(|(on, flag)| if *on { *flag } else { 0 }).sum();
        out
    }

    pub(crate) fn decode(bytes: &[u8; OFFER_LEN]) -> Option<Self> {
        let (cid, rest) = bytes.split_first_chunk()?;
        let flags = rest[0];
        (flags & !(AES | HYBRID | XCHACHA) == 0).then_some(Self {
            cid: ConnectionId(*cid),
            aes: flags & AES != 0,
            hybrid: flags & HYBRID != 0,
            xchacha: flags & XCHACHA != 0,
        })
    }
}

/// Payload of Noise message 2.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct ResponsePayload {
    /// The id under which the responder expects message 3.
    pub cid: ConnectionId,
    /// The transport's cipher.
    pub cipher: Cipher,
    /// Whether a KEM ciphertext follows.
    pub hybrid: bool,
    pub parameters: LinkParameters,
}

impl ResponsePayload {
    pub(crate) fn encode(self) -> [u8; ANSWER_LEN] {
        let mut out = [0; ANSWER_LEN];
        out[..CID_LEN].copy_from_slice(&self.cid.0);
        out[CID_LEN] = self.cipher as u8;
        out[CID_LEN + 1] = u8::from(self.hybrid);
        out[CID_LEN + 2..].copy_from_slice(&self.parameters.encode());
        out
    }

    /// Also returns the ciphertext, if one is announced; nothing may follow.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, Option<&[u8; kem::CIPHERTEXT_LEN]>)> {
        let (cid, rest) = bytes.split_first_chunk()?;
        let ([cipher, hybrid], rest) = rest.split_first_chunk()?;
        let (parameters, ciphertext) = rest.split_first_chunk()?;
        let answer = Self {
            cid: ConnectionId(*cid),
            cipher: Cipher::from_wire(*cipher)?,
            hybrid: flag(*hybrid)?,
            parameters: LinkParameters::decode(parameters)?,
        };
        match (answer.hybrid, ciphertext) {
            (false, []) => Some((answer, None)),
            (true, ciphertext) => Some((answer, Some(ciphertext.try_into().ok()?))),
            _ => None,
        }
    }
}

/// The limits and wishes of one side, exchanged in the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LinkParameters {
    /// Largest datagram that the side can receive, in bytes of UDP payload.
    pub max_datagram: usize,
    /// Its idle timeout.
    pub idle_timeout: Duration,
    /// The shaping level that it wants, 0 for none.
    pub shaping: u8,
    /// The highest shaping level that it agrees to.
    pub shaping_limit: u8,
}

impl LinkParameters {
    /// Largest datagram (2), idle timeout in milliseconds (4), shaping level that this side wants (1) and the highest
    /// that it agrees to (1). Payload of Noise message 3.
    pub(crate) fn encode(self) -> [u8; PARAMETERS_LEN] {
        let size = u16::try_from(self.max_datagram).unwrap_or(u16::MAX);
        let idle = u32::try_from(self.idle_timeout.as_millis()).unwrap_or(u32::MAX);
        let mut out = [0; PARAMETERS_LEN];
        out[..2].copy_from_slice(&size.to_be_bytes());
        out[2..6].copy_from_slice(&idle.to_be_bytes());
        out[6..].copy_from_slice(&[self.shaping, self.shaping_limit]);
        out
    }

    /// `None` if the peer claims to receive less than every path carries.
    pub(crate) fn decode(bytes: &[u8; PARAMETERS_LEN]) -> Option<Self> {
        let [a, b, idle @ .., shaping, shaping_limit] = *bytes;
        let max_datagram = usize::from(u16::from_be_bytes([a, b]));
        let idle_timeout = Duration::from_millis(u64::from(u32::from_be_bytes(idle)));
        (max_datagram >= MIN_INITIAL).then_some(Self {
            max_datagram,
            idle_timeout,
            shaping,
            shaping_limit,
        })
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
    fn messages_round_trip_and_truncated_ones_do_not() {
        let offer = |hybrid| {
            let mut noise = [2; NOISE_1_LEN];
            let offer =
                OfferPayload { cid: ConnectionId([1; 8]), aes: true, hybrid, xchacha: hybrid };
            noise[MESSAGE_1_OVERHEAD..].copy_from_slice(&offer.encode());
            noise
        };
        let (plain, hybrid) = (offer(false), offer(true));
        let part = Some(KemKeyPart { check: &[7; CHECK_LEN], part: &[8; PART_LEN] });
        let messages = [
            HandshakeMessage::Initial {
                cookie: &[1; COOKIE_LEN],
                head: NoiseOneHead { noise: &plain, part: None },
            },
            HandshakeMessage::Initial {
                cookie: &[1; COOKIE_LEN],
                head: NoiseOneHead { noise: &hybrid, part },
            },
            HandshakeMessage::Retry { cookie: &[3; COOKIE_LEN] },
            HandshakeMessage::Response { noise: &[4; NOISE_2_LEN] },
            HandshakeMessage::HybridResponse { noise: &[4; HYBRID_2_LEN] },
            HandshakeMessage::Finish { noise: &[5; NOISE_3_LEN] },
            HandshakeMessage::Rest { rest: &[6; REST_LEN] },
        ];
        for message in messages {
            let mut body = message.to_vec();
            for len in 0..body.len() {
                assert_eq!(HandshakeMessage::parse(&body[..len]), None);
            }
            assert_eq!(HandshakeMessage::parse(&body), Some(message));
            body.extend_from_slice(&[9; 50]);
            assert_eq!(HandshakeMessage::parse(&body), Some(message), "padding is not looked at");
            for (at, value) in [(0, 0), (0, 4), (0, 6), (1, 0), (1, 7)] {
                let mut other = body.clone();
                other[at] = value;
                assert_eq!(HandshakeMessage::parse(&other), None);
            }
        }
    }

    #[test]
    fn payloads_round_trip_and_invalid_ones_are_refused() {
        for flags in 0..8 {
            let [aes, hybrid, xchacha] = [1, 2, 4].map(|flag| flags & flag != 0);
            let offer = OfferPayload { cid: ConnectionId([1; 8]), aes, hybrid, xchacha };
            assert_eq!(offer.encode()[8], flags);
            assert_eq!(OfferPayload::decode(&offer.encode()), Some(offer));
            let mut bad = offer.encode();
            bad[8] |= 8;
            assert_eq!(OfferPayload::decode(&bad), None);
        }
        let idle_timeout = Duration::from_millis(12_345);
        let parameters = LinkParameters {
            max_datagram: MIN_INITIAL,
            idle_timeout,
            shaping: 1,
            shaping_limit: 2,
        };
        let (cid, cipher) = (ConnectionId([2; 8]), Cipher::Aes256Gcm);
        let answer = ResponsePayload { cid, cipher, hybrid: false, parameters };
        assert_eq!(ResponsePayload::decode(&answer.encode()), Some((answer, None)));
        for (at, value) in [(8, 0), (8, 4), (9, 1), (9, 2)] {
            let mut bad = answer.encode();
            bad[at] = value;
            assert_eq!(ResponsePayload::decode(&bad), None);
        }
        let ciphertext = [5; kem::CIPHERTEXT_LEN];
        let hybrid = ResponsePayload { hybrid: true, ..answer };
        let with = |answer: ResponsePayload, more: &[u8]| [&answer.encode()[..], more].concat();
        let both = with(hybrid, &ciphertext);
        assert_eq!(ResponsePayload::decode(&both), Some((hybrid, Some(&ciphertext))));
        assert_eq!(ResponsePayload::decode(&with(hybrid, &ciphertext[1..])), None);
        assert_eq!(ResponsePayload::decode(&with(answer, &ciphertext)), None);
        let small = LinkParameters { max_datagram: MIN_INITIAL - 1, ..parameters };
        assert_eq!(LinkParameters::decode(&small.encode()), None);
    }

    /// A hybrid initial has the minimum length of an initial, and a response fits where an initial and its rest came
    /// from.
    #[test]
    fn hybrid_messages_fit_every_path() {
        let head = crate::envelope::ENVELOPE_HEADER + 2;
        assert_eq!(head + COOKIE_LEN + NOISE_1_LEN + CHECK_LEN + PART_LEN, MIN_INITIAL);
        assert!(head + HYBRID_2_LEN <= crate::mtu::BASE_DATAGRAM);
    }
}
