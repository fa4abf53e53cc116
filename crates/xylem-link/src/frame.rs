//! Frames: what a datagram holds once it is open. One definition of every byte of them.
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
//!
//! Numbers are big-endian and of fixed width: a datagram has at most 65,507 bytes, so two bytes
//! hold any length in it, and there is one way to write each frame.

use thiserror::Error;

use crate::config::MAX_PACKET;

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
}

/// Bytes of a packet frame beside the packet.
pub const PACKET_OVERHEAD: usize = 3;
/// Bytes of a fragment frame beside its piece.
pub const FRAGMENT_OVERHEAD: usize = 15;
/// Close code: nothing is wrong.
pub const CLOSE_NORMAL: u8 = 0;
/// Close code: the receiver of the close broke the protocol.
pub const CLOSE_PROTOCOL: u8 = 1;

/// One frame; packets and fragments point into the datagram.
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
    /// The link ends. The code says why.
    Close(u8),
    /// Asks for a probe ack; the datagram is padded to this size.
    Probe(u32),
    /// A probe of this size arrived.
    ProbeAck(u32),
    /// Asks whoever is at this address for a path response.
    PathChallenge(u64),
    /// Answers the challenge with this token.
    PathResponse(u64),
    /// The sender's current epoch, with its commitment to the epoch's secret.
    Epoch {
        /// Its number.
        number: u64,
        /// Derived from its secret; compared by the receiver.
        commitment: [u8; 32],
    },
    /// The receiver has the keys of this epoch.
    EpochAck(u64),
}

/// A piece of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment<'a> {
    /// Which packet it is a piece of.
    pub message: u32,
    /// Where in the packet it begins.
    pub offset: u32,
    /// The packet's length.
    pub total: u32,
    /// Its bytes.
    pub piece: &'a [u8],
}

/// The peer sealed something that is no sequence of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FrameError {
    /// No such frame type.
    #[error("unknown frame type {typ:#04x} at byte {at}")]
    UnknownType {
        /// The type byte.
        typ: u8,
        /// Where it is.
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

/// The frames of an opened datagram, in order. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Frames<'a> {
    /// Frames of the opened part of a datagram.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn take(&mut self, len: usize, start: usize) -> Result<&'a [u8], FrameError> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or(FrameError::Truncated { at: start })?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, start: usize) -> Result<[u8; N], FrameError> {
        let taken = self.take(N, start)?;
        Ok(taken.try_into().expect("take gives what was asked for"))
    }

    fn u64(&mut self, start: usize) -> Result<u64, FrameError> {
        Ok(u64::from_be_bytes(self.array(start)?))
    }

    fn u32(&mut self, start: usize) -> Result<u32, FrameError> {
        Ok(u32::from_be_bytes(self.array(start)?))
    }

    fn u16(&mut self, start: usize) -> Result<usize, FrameError> {
        Ok(usize::from(u16::from_be_bytes(self.array(start)?)))
    }

    fn frame(&mut self, typ: u8, start: usize) -> Result<Frame<'a>, FrameError> {
        Ok(match typ {
            wire::PING => Frame::Ping(self.u64(start)?),
            wire::PONG => Frame::Pong(self.u64(start)?),
            wire::PACKET => {
                let len = self.u16(start)?;
                if len == 0 {
                    return Err(FrameError::Length { at: start });
                }
                Frame::Packet(self.take(len, start)?)
            }
            wire::FRAGMENT => {
                let (message, offset) = (self.u32(start)?, self.u32(start)?);
                let (total, len) = (self.u32(start)?, self.u16(start)?);
                let end = u64::from(offset) + len as u64;
                if len == 0 || total as usize > MAX_PACKET || end > u64::from(total) {
                    return Err(FrameError::Length { at: start });
                }
                let piece = self.take(len, start)?;
                Frame::Fragment(Fragment { message, offset, total, piece })
            }
            wire::CLOSE => Frame::Close(self.array::<1>(start)?[0]),
            wire::PROBE => Frame::Probe(self.u32(start)?),
            wire::PROBE_ACK => Frame::ProbeAck(self.u32(start)?),
            wire::PATH_CHALLENGE => Frame::PathChallenge(self.u64(start)?),
            wire::PATH_RESPONSE => Frame::PathResponse(self.u64(start)?),
            wire::EPOCH => {
                Frame::Epoch { number: self.u64(start)?, commitment: self.array(start)? }
            }
            wire::EPOCH_ACK => Frame::EpochAck(self.u64(start)?),
            _ => return Err(FrameError::UnknownType { typ, at: start }),
        })
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, FrameError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // Nearly every frame is a whole packet.
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        if let [wire::PACKET, a, b, rest @ ..] = rest {
            let len = usize::from(u16::from_be_bytes([*a, *b]));
            if let Some(packet) = rest.get(..len).filter(|packet| !packet.is_empty()) {
                self.at += PACKET_OVERHEAD + len;
                return Some(Ok(Frame::Packet(packet)));
            }
        }
        self.next_of_any_type()
    }
}

impl<'a> Frames<'a> {
    fn next_of_any_type(&mut self) -> Option<Result<Frame<'a>, FrameError>> {
        let start = self.at;
        let typ = *self.bytes.get(start)?;
        if typ == wire::PADDING {
            self.at = self.bytes.len();
            return None;
        }
        self.at += 1;
        let frame = self.frame(typ, start);
        if frame.is_err() {
            self.at = self.bytes.len();
        }
        Some(frame)
    }
}

impl Frame<'_> {
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

    /// Writes the frame to the start of `out`; how many bytes it took, or `None` if it does not
    /// fit, and then nothing is written.
    ///
    /// # Panics
    /// If a packet or piece is longer than 65,535 bytes.
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

    /// What is written: the fixed fields, and the bytes that follow them.
    fn parts(&self) -> (Head, &[u8]) {
        use wire::*;
        let number = |typ, number: u64| Head::new(typ, &[&number.to_be_bytes()]);
        match self {
            Frame::Ping(token) => (number(PING, *token), &[]),
            Frame::Pong(token) => (number(PONG, *token), &[]),
            Frame::Packet(packet) => (Head::new(PACKET, &[&packet_head(packet)[1..]]), packet),
            Frame::Fragment(f) => {
                let len = u16::try_from(f.piece.len()).expect("fits a datagram");
                let numbers = [f.message, f.offset, f.total].map(u32::to_be_bytes);
                let [message, offset, total] = &numbers;
                (Head::new(FRAGMENT, &[message, offset, total, &len.to_be_bytes()]), f.piece)
            }
            Frame::Close(code) => (Head::new(CLOSE, &[&[*code]]), &[]),
            Frame::Probe(size) => (Head::new(PROBE, &[&size.to_be_bytes()]), &[]),
            Frame::ProbeAck(size) => (Head::new(PROBE_ACK, &[&size.to_be_bytes()]), &[]),
            Frame::PathChallenge(token) => (number(PATH_CHALLENGE, *token), &[]),
            Frame::PathResponse(token) => (number(PATH_RESPONSE, *token), &[]),
            Frame::Epoch { number: n, commitment } => (number(EPOCH, *n), commitment),
            Frame::EpochAck(n) => (number(EPOCH_ACK, *n), &[]),
        }
    }
}

#[inline]
fn packet_head(packet: &[u8]) -> [u8; PACKET_OVERHEAD] {
    let [a, b] = u16::try_from(packet.len()).expect("fits a datagram").to_be_bytes();
    [wire::PACKET, a, b]
}

/// The type and the fixed fields of a frame.
struct Head {
    bytes: [u8; FRAGMENT_OVERHEAD],
    len: usize,
}

impl Head {
    #[inline]
    fn new(typ: u8, fields: &[&[u8]]) -> Self {
        let mut head = Self { bytes: [typ; FRAGMENT_OVERHEAD], len: 1 };
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
        ]
    }

    /// WRAITH: padding appended after the tag with no length. Here it is a frame among the others,
    /// inside the seal, and the peer knows where it begins.
    #[test]
    fn every_frame_comes_back_and_padding_ends_them() {
        let mut out = Vec::new();
        all().iter().for_each(|f| f.write(&mut out));
        out.extend_from_slice(&[0, 0xff, 3]);
        let back: Result<Vec<_>, _> = Frames::new(&out).collect();
        assert_eq!(back.unwrap(), all());
    }

    #[test]
    fn both_ways_of_writing_write_the_same_and_nothing_too_long() {
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
        assert_eq!(refused(&[0x0c]), FrameError::UnknownType { typ: 0x0c, at: 0 });
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
