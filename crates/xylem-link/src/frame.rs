//! Frames: the content of an opened datagram. This module defines every byte of them.
//!
//! | type | frame | after the type byte |
//! |---|---|---|
//! | 0x00 | padding | nothing: the rest of the datagram is padding |
//! | 0x01 | ping | token (8) |
//! | 0x02 | pong | token (8) of the ping |
//! | 0x03 | packet | length (2), bytes |
//! | 0x04 | fragment | message id (4), offset (4), total (4), length (2), bytes |
//! | 0x05 | close | code (1) |
//! | 0x06 | probe | the datagram's size (4) |
//! | 0x07 | probe ack | size (4) of the probe |
//! | 0x08 | path challenge | token (8) |
//! | 0x09 | path response | token (8) of the challenge |
//! | 0x0a | epoch | number (8), commitment (32) |
//! | 0x0b | epoch ack | number (8) |
//! | 0x0c | ack | largest (8), delay in µs (4), marked (4), count (1), count × (gap (4), length (4)) |
//! | 0x0d | stream open | stream (4), purpose (2) |
//! | 0x0e | stream data | stream (4), offset (8), length (2), bytes |
//! | 0x0f | stream close | stream (4), size (8) |
//! | 0x10 | stream reset | stream (4), code (4), size (8) |
//! | 0x11 | stream stop | stream (4), code (4) |
//! | 0x12 | window update | stream (4), or 2^32 - 1 for the link; limit (8) |
//! | 0x13 | go away | last stream that is still taken (4) |
//! | 0x14 | rekey | round (4), stage (1: 0 offer, 1 answer), X25519 key (32) |
//! | 0x15 | reset token | epoch (8), token (16) |
//! | 0x16 | observed | address (18) |
//! | 0x17 | candidates | number (4), flags (1), count (1), count × address (18) |
//! | 0x18 | candidates ack | number (4) |
//!
//! Numbers are big-endian and of fixed width: a datagram has at most 65,507 bytes, so two bytes hold any length in it,
//! and there is one way to write each frame.

use thiserror::Error;

mod ack;
mod candidates;
mod parse;

pub use ack::{Ack, AckRanges};
pub use candidates::{ADDRESS_LEN, Candidates, MAX_CANDIDATES, SYMMETRIC, to_address};
pub use parse::Frames;

mod wire {
    pub const PADDING: u8 = 0x00;
    pub const PING: u8 = 0x01;
    pub const PONG: u8 = 0x02;
    pub const PACKET: u8 = 0x03;
    pub const FRAGMENT: u8 = 0x04;
    pub const CLOSE: u8 = 0x05;
    pub const PROBE: u8 = 0x06;
    pub const PROBE_ACK: u8 = 0x07;
    pub const PATH_CHALLENGE: u8 = 0x08;
    pub const PATH_RESPONSE: u8 = 0x09;
    pub const EPOCH: u8 = 0x0a;
    pub const EPOCH_ACK: u8 = 0x0b;
    pub const ACK: u8 = 0x0c;
    pub const STREAM_OPEN: u8 = 0x0d;
    pub const STREAM_DATA: u8 = 0x0e;
    pub const STREAM_CLOSE: u8 = 0x0f;
    pub const STREAM_RESET: u8 = 0x10;
    pub const STREAM_STOP: u8 = 0x11;
    pub const WINDOW_UPDATE: u8 = 0x12;
    pub const GO_AWAY: u8 = 0x13;
    pub const REKEY: u8 = 0x14;
    pub const RESET_TOKEN: u8 = 0x15;
    pub const OBSERVED: u8 = 0x16;
    pub const CANDIDATES: u8 = 0x17;
    pub const CANDIDATES_ACK: u8 = 0x18;
}

/// Largest packet that [`crate::Endpoint::send`] takes, in bytes.
pub const MAX_PACKET: usize = 65_536;

/// Bytes of a packet frame beside the packet.
pub const PACKET_OVERHEAD: usize = 3;
/// Bytes of a fragment frame beside its piece.
pub const FRAGMENT_OVERHEAD: usize = 15;
/// Bytes of a stream data frame beside its piece.
pub const STREAM_OVERHEAD: usize = 15;
/// Stream number of a window update for the whole link.
pub const WHOLE_LINK: u32 = u32::MAX;
/// Close code: no error.
pub const CLOSE_NORMAL: u8 = 0;
/// Close code: the receiver of the close broke the protocol.
pub const CLOSE_PROTOCOL: u8 = 1;

/// One frame; packets and fragments borrow from the datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// Asks for a pong.
    Ping(u64),
    /// Answers the ping with this token.
    Pong(u64),
    /// A whole packet.
    Packet(&'a [u8]),
    /// A piece of a packet that did not fit into one datagram.
    Fragment(Fragment<'a>),
    /// Ends the link, with a code for the reason.
    Close(u8),
    /// Asks for a probe ack; the datagram is padded to this size, in bytes.
    Probe(u32),
    /// A probe of this size arrived.
    ProbeAck(u32),
    /// Asks the program at this address for a path response.
    PathChallenge(u64),
    /// Answers the challenge with this token.
    PathResponse(u64),
    /// The sender's current epoch, with its commitment to the epoch's secret.
    Epoch {
        /// Its number.
        number: u64,
        /// Derived from the epoch's secret; the receiver compares it.
        commitment: [u8; 32],
    },
    /// The receiver has the keys of this epoch.
    EpochAck(u64),
    /// Datagrams that arrived.
    Ack(Ack<'a>),
    /// The sender opens a stream.
    StreamOpen {
        /// Its number: even from the dialer, odd from the responder.
        stream: u32,
        /// Its purpose, which the receiver's program knows.
        purpose: u16,
    },
    /// Bytes of a stream.
    StreamData {
        /// The stream's number.
        stream: u32,
        /// Where in the stream they belong.
        offset: u64,
        /// The bytes, at least one.
        piece: &'a [u8],
    },
    /// The sender's half of the stream ends at this size.
    StreamClose {
        /// The stream's number.
        stream: u32,
        /// Length of the half, in bytes.
        size: u64,
    },
    /// The sender's half of the stream ends at once; what has not arrived is not sent again.
    StreamReset {
        /// The stream's number.
        stream: u32,
        /// The reason, which the programs agree on.
        code: u32,
        /// Bytes sent until then, which flow control counts.
        size: u64,
    },
    /// The sender will read no more of the stream; the receiver answers with a reset.
    StreamStop {
        /// The stream's number.
        stream: u32,
        /// The reason, which the programs agree on.
        code: u32,
    },
    /// The receiver of this frame may send up to `limit` bytes, counted from the stream's beginning.
    WindowUpdate {
        /// The stream's number, or [`WHOLE_LINK`].
        stream: u32,
        /// Bytes.
        limit: u64,
    },
    /// The sender takes no more streams of the receiver's numbered above this; those below go on.
    GoAway(u32),
    /// A key for the next Diffie-Hellman ratchet.
    Rekey {
        /// Counts the ratchets of the link from 1.
        round: u32,
        /// Whether it answers an offer of that round.
        answer: bool,
        /// An X25519 public key.
        key: &'a [u8; 32],
    },
    /// The token that ends a stateless reset of the sender: by it the receiver learns that the sender has lost its
    /// state.
    ResetToken {
        /// The receiver's epoch; the token belongs to its datagrams.
        epoch: u64,
        /// The last bytes of a stateless reset.
        token: [u8; 16],
    },
    /// The receiver's datagrams come from this address.
    Observed(&'a [u8; ADDRESS_LEN]),
    /// Further addresses at which the sender may be reached.
    Candidates(Candidates<'a>),
    /// Acknowledges the candidates of this number.
    CandidatesAck(u32),
}

/// A piece of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment<'a> {
    /// Number of the packet that it is a piece of.
    pub message: u32,
    /// Where in the packet it begins.
    pub offset: u32,
    /// The packet's length.
    pub total: u32,
    /// Its bytes.
    pub piece: &'a [u8],
}

/// The peer sealed bytes that are no sequence of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FrameError {
    /// No such frame type.
    #[error("unknown frame type {typ:#04x} at byte {at}")]
    UnknownType {
        /// The type byte.
        typ: u8,
        /// Its position in the datagram, in bytes.
        at: usize,
    },
    /// The datagram ends within the frame.
    #[error("frame at byte {at} is cut off")]
    Truncated {
        /// Where the frame begins.
        at: usize,
    },
    /// A length or offset that no sender writes.
    #[error("frame at byte {at} has an impossible length")]
    Length {
        /// Where the frame begins.
        at: usize,
    },
}

/// The head of a stream data frame with a piece of `len` bytes, at most 65,535.
#[inline]
pub(crate) fn stream_data_head(stream: u32, offset: u64, len: usize) -> [u8; STREAM_OVERHEAD] {
    let mut head = [wire::STREAM_DATA; STREAM_OVERHEAD];
    let len = u16::try_from(len).expect("fits a datagram");
    head[1..5].copy_from_slice(&stream.to_be_bytes());
    head[5..13].copy_from_slice(&offset.to_be_bytes());
    head[13..].copy_from_slice(&len.to_be_bytes());
    head
}

impl Frame<'_> {
    /// Returns whether a datagram with this frame is acknowledged.
    #[must_use]
    pub fn asks_for_ack(&self) -> bool {
        matches!(
            self,
            Frame::StreamOpen { .. }
                | Frame::StreamData { .. }
                | Frame::StreamClose { .. }
                | Frame::StreamReset { .. }
                | Frame::StreamStop { .. }
                | Frame::WindowUpdate { .. }
                | Frame::GoAway(_)
        )
    }

    /// Appends the frame to `out`.
    ///
    /// # Panics
    /// If a packet or piece is longer than 65,535 bytes.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        if let Frame::Packet(packet) = self {
            out.reserve(PACKET_OVERHEAD + packet.len());
            out.extend_from_slice(&packet_head(packet));
            out.extend_from_slice(packet);
            return;
        }
        let (head, body) = self.parts();
        out.reserve(head.len + body.len());
        out.extend_from_slice(head.bytes());
        out.extend_from_slice(body);
    }

    /// Writes the frame to the start of `out`. Returns its length in bytes, or `None` if it does not fit; then nothing
    /// is written.
    ///
    /// # Panics
    /// If a packet or piece is longer than 65,535 bytes.
    #[cfg(any(test, internals))]
    #[inline]
    pub fn write_to(&self, out: &mut [u8]) -> Option<usize> {
        // Nearly every frame is a whole packet.
        if let Frame::Packet(packet) = self {
            let len = PACKET_OVERHEAD + packet.len();
            let (head, rest) = out.get_mut(..len)?.split_first_chunk_mut()?;
            *head = packet_head(packet);
            rest.copy_from_slice(packet);
            return Some(len);
        }
        let (head, body) = self.parts();
        let len = head.len + body.len();
        let (start, rest) = out.get_mut(..len)?.split_at_mut(head.len);
        start.copy_from_slice(head.bytes());
        rest.copy_from_slice(body);
        Some(len)
    }

    /// The fixed fields, and the bytes that follow them.
    fn parts(&self) -> (FrameHead, &[u8]) {
        use wire::*;
        let number = |typ, number: u64| FrameHead::new(typ, &[&number.to_be_bytes()]);
        let of_stream = |typ, stream: u32, number: u64| {
            FrameHead::new(typ, &[&stream.to_be_bytes(), &number.to_be_bytes()])
        };
        match self {
            Frame::Ping(token) => (number(PING, *token), &[]),
            Frame::Pong(token) => (number(PONG, *token), &[]),
            Frame::Packet(packet) => (FrameHead::new(PACKET, &[&packet_head(packet)[1..]]), packet),
            Frame::Fragment(f) => {
                let len = u16::try_from(f.piece.len()).expect("fits a datagram");
                let numbers = [f.message, f.offset, f.total].map(u32::to_be_bytes);
                let [message, offset, total] = &numbers;
                (FrameHead::new(FRAGMENT, &[message, offset, total, &len.to_be_bytes()]), f.piece)
            }
            Frame::Close(code) => (FrameHead::new(CLOSE, &[&[*code]]), &[]),
            Frame::Probe(size) => (FrameHead::new(PROBE, &[&size.to_be_bytes()]), &[]),
            Frame::ProbeAck(size) => (FrameHead::new(PROBE_ACK, &[&size.to_be_bytes()]), &[]),
            Frame::PathChallenge(token) => (number(PATH_CHALLENGE, *token), &[]),
            Frame::PathResponse(token) => (number(PATH_RESPONSE, *token), &[]),
            Frame::Epoch { number: n, commitment } => (number(EPOCH, *n), commitment),
            Frame::EpochAck(n) => (number(EPOCH_ACK, *n), &[]),
            Frame::Ack(ack) => {
                let count = [u8::try_from(ack.ranges.len()).expect("32 at most")];
                let (delay, marked) = (ack.delay.to_be_bytes(), ack.marked.to_be_bytes());
                let fields = [&ack.largest.to_be_bytes()[..], &delay, &marked, &count];
                (FrameHead::new(ACK, &fields), ack.ranges.as_flattened())
            }
            Frame::StreamOpen { stream, purpose } => {
                let fields = [&stream.to_be_bytes()[..], &purpose.to_be_bytes()];
                (FrameHead::new(STREAM_OPEN, &fields), &[])
            }
            Frame::StreamData { stream, offset, piece } => {
                let head = stream_data_head(*stream, *offset, piece.len());
                (FrameHead::new(STREAM_DATA, &[&head[1..]]), piece)
            }
            Frame::StreamClose { stream, size } => (of_stream(STREAM_CLOSE, *stream, *size), &[]),
            Frame::StreamReset { stream, code, size } => {
                let (stream, code) = (stream.to_be_bytes(), code.to_be_bytes());
                (FrameHead::new(STREAM_RESET, &[&stream, &code, &size.to_be_bytes()]), &[])
            }
            Frame::StreamStop { stream, code } => {
                (FrameHead::new(STREAM_STOP, &[&stream.to_be_bytes(), &code.to_be_bytes()]), &[])
            }
            Frame::WindowUpdate { stream, limit } => {
                (of_stream(WINDOW_UPDATE, *stream, *limit), &[])
            }
            Frame::GoAway(last) => (FrameHead::new(GO_AWAY, &[&last.to_be_bytes()]), &[]),
            Frame::Rekey { round, answer, key } => {
                let stage = [u8::from(*answer)];
                (FrameHead::new(REKEY, &[&round.to_be_bytes(), &stage]), &key[..])
            }
            Frame::ResetToken { epoch, token } => (number(RESET_TOKEN, *epoch), token),
            Frame::Observed(address) => (FrameHead::new(OBSERVED, &[]), &address[..]),
            Frame::Candidates(of) => {
                let counts = [of.flags, u8::try_from(of.addresses.len()).expect("16 at most")];
                (
                    FrameHead::new(CANDIDATES, &[&of.number.to_be_bytes(), &counts]),
                    of.addresses.as_flattened(),
                )
            }
            Frame::CandidatesAck(of) => (FrameHead::new(CANDIDATES_ACK, &[&of.to_be_bytes()]), &[]),
        }
    }
}

#[inline]
fn packet_head(packet: &[u8]) -> [u8; PACKET_OVERHEAD] {
    let [a, b] = u16::try_from(packet.len()).expect("fits a datagram").to_be_bytes();
    [wire::PACKET, a, b]
}

/// Length of the longest head, an ack's, in bytes.
const MAX_HEAD: usize = 18;

/// The type and the fixed fields of a frame.
struct FrameHead {
    bytes: [u8; MAX_HEAD],
    len: usize,
}

impl FrameHead {
    #[inline]
    fn new(typ: u8, fields: &[&[u8]]) -> Self {
        let mut head = Self { bytes: [typ; MAX_HEAD], len: 1 };
        for field in fields {
            head.bytes[head.len..head.len + field.len()].copy_from_slice(field);
            head.len += field.len();
        }
        head
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 numbers from the top, and 20 below a gap of 3.
    const RANGE: [u8; 8] = [0, 0, 0, 0, 0, 0, 0, 10];
    const LATER: [u8; 8] = [0, 0, 0, 3, 0, 0, 0, 20];

    fn all() -> Vec<Frame<'static>> {
        vec![
            Frame::Ping(1),
            Frame::Pong(u64::MAX),
            Frame::Packet(b"p"),
            Frame::Fragment(Fragment { message: 7, offset: 3, total: 8, piece: b"piece" }),
            Frame::Close(CLOSE_PROTOCOL),
            Frame::Probe(65_507),
            Frame::ProbeAck(1_452),
            Frame::PathChallenge(5),
            Frame::PathResponse(6),
            Frame::Epoch { number: 9, commitment: [4; 32] },
            Frame::EpochAck(9),
            Frame::Ack(Ack::new(1_000, 5, 7, &[RANGE, LATER]).unwrap()),
            Frame::StreamOpen { stream: 2, purpose: 0x0102 },
            Frame::StreamData { stream: 2, offset: 1 << 40, piece: b"piece" },
            Frame::StreamClose { stream: 3, size: 1 << 41 },
            Frame::StreamReset { stream: 3, code: 4, size: 5 },
            Frame::StreamStop { stream: 6, code: 7 },
            Frame::WindowUpdate { stream: WHOLE_LINK, limit: u64::MAX },
            Frame::GoAway(8),
            Frame::Rekey { round: 1, answer: true, key: &[9; 32] },
            Frame::ResetToken { epoch: 10, token: [11; 16] },
            Frame::Observed(&[12; ADDRESS_LEN]),
            Frame::Candidates(Candidates::new(13, SYMMETRIC, &[[14; ADDRESS_LEN]; 2]).unwrap()),
            Frame::CandidatesAck(15),
        ]
    }

    /// WRAITH: padding appended after the tag with no length. Here padding is a frame inside the seal, and the peer
    /// knows where it begins.
    #[test]
    fn every_frame_round_trips_and_padding_ends_them() {
        let mut out = Vec::new();
        all().iter().for_each(|f| f.write(&mut out));
        out.extend_from_slice(&[0, 0xff, 3]);
        let back: Result<Vec<_>, _> = Frames::new(&out).collect();
        assert_eq!(back.unwrap(), all());
    }

    #[test]
    fn both_write_functions_agree_and_refuse_what_does_not_fit() {
        for frame in all() {
            let mut appended = Vec::new();
            frame.write(&mut appended);
            let mut buffer = vec![0xaa; appended.len() + 1];
            assert_eq!(frame.write_to(&mut buffer), Some(appended.len()));
            assert_eq!((&buffer[..appended.len()], buffer[appended.len()]), (&appended[..], 0xaa));
            let mut small = vec![0xaa; appended.len() - 1];
            assert_eq!(frame.write_to(&mut small), None);
            assert!(small.iter().all(|b| *b == 0xaa), "untouched");
        }
    }

    #[test]
    fn every_cut_is_an_error_at_its_frame() {
        for frame in all() {
            let mut out = Vec::new();
            frame.write(&mut out);
            for len in 1..out.len() {
                let mut frames = Frames::new(&out[..len]);
                assert_eq!(frames.next(), Some(Err(FrameError::Truncated { at: 0 })), "{frame:?}");
                assert_eq!(frames.next(), None, "ends after an error");
            }
        }
    }

    #[test]
    fn impossible_lengths_are_refused() {
        let refused = |bytes: &[u8]| Frames::new(bytes).next().unwrap().unwrap_err();
        assert_eq!(refused(&[3, 0, 0]), FrameError::Length { at: 0 });
        assert_eq!(refused(&[0x19]), FrameError::UnknownType { typ: 0x19, at: 0 });
        let seventeen = [&[0x17, 0, 0, 0, 1, 0, 17][..], &[0; 17 * ADDRESS_LEN]].concat();
        assert_eq!(refused(&seventeen), FrameError::Length { at: 0 });
        let fragment = |offset: u32, total: u32, piece: &'static [u8]| {
            let mut out = Vec::new();
            Frame::Fragment(Fragment { message: 0, offset, total, piece }).write(&mut out);
            Frames::new(&out).next().unwrap().err()
        };
        assert_eq!(fragment(0, 1, b"x"), None);
        let end = MAX_PACKET as u32;
        assert_eq!(fragment(end - 1, end, b"x"), None);
        for (offset, total, piece) in [
            (0, 1, &b""[..]),
            (1, 1, b"x"),
            (0, 0, b"x"),
            (u32::MAX, u32::MAX, b"x"),
            (u32::MAX, 1, b"x"),
            (0, end + 1, b"x"),
        ] {
            assert_eq!(fragment(offset, total, piece), Some(FrameError::Length { at: 0 }));
        }
    }
}
