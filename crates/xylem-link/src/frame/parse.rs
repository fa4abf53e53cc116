//! [`Frames`]: splits an opened datagram into its frames, checks every field, copies nothing.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use super::{ADDRESS_LEN, Ack, Candidates, Fragment, Frame, FrameError, MAX_PACKET, wire};

/// The frames of an opened datagram, in order. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    /// The bytes that are not parsed yet.
    rest: &'a [u8],
    /// Length of the whole, in bytes.
    len: usize,
}

impl<'a> Frames<'a> {
    /// Makes the iterator over the opened part of a datagram.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, len: bytes.len() }
    }

    /// Returns whether there is nothing but padding.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.first().is_none_or(|typ| *typ == wire::PADDING)
    }

    #[cold]
    fn fail(&mut self, typ: u8, fault: FrameFault) -> FrameError {
        let at = self.len.saturating_sub(self.rest.len());
        self.rest = &[];
        match fault {
            FrameFault::UnknownType => FrameError::UnknownType { typ, at },
            FrameFault::Truncated => FrameError::Truncated { at },
            FrameFault::Length => FrameError::Length { at },
        }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, FrameError>;

    // Inlined into its few callers: passing a frame through memory costs more than all its checks.
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let (typ, rest) = self.rest.split_first()?;
        if *typ == wire::PADDING {
            self.rest = &[];
            return None;
        }
        let mut fields = FrameFields(rest);
        Some(match fields.frame(*typ) {
            Ok(frame) => {
                self.rest = fields.0;
                Ok(frame)
            }
            Err(fault) => Err(self.fail(*typ, fault)),
        })
    }
}

/// Why a frame is invalid.
enum FrameFault {
    UnknownType,
    Truncated,
    Length,
}

/// The bytes after a frame's type; fields are taken from the front.
struct FrameFields<'a>(&'a [u8]);

impl<'a> FrameFields<'a> {
    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], FrameFault> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(FrameFault::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline(always)]
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], FrameFault> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(FrameFault::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline(always)]
    fn u64(&mut self) -> Result<u64, FrameFault> {
        Ok(u64::from_be_bytes(*self.array()?))
    }

    #[inline(always)]
    fn u32(&mut self) -> Result<u32, FrameFault> {
        Ok(u32::from_be_bytes(*self.array()?))
    }

    #[inline(always)]
    fn u16(&mut self) -> Result<u16, FrameFault> {
        Ok(u16::from_be_bytes(*self.array()?))
    }

    #[inline(always)]
    fn u8(&mut self) -> Result<u8, FrameFault> {
        Ok(self.array::<1>()?[0])
    }

    #[inline(always)]
    fn frame(&mut self, typ: u8) -> Result<Frame<'a>, FrameFault> {
        Ok(match typ {
            wire::PING => Frame::Ping(self.u64()?),
            wire::PONG => Frame::Pong(self.u64()?),
            wire::PACKET => {
                let len = usize::from(self.u16()?);
                if len == 0 {
                    return Err(FrameFault::Length);
                }
                Frame::Packet(self.bytes(len)?)
            }
            wire::FRAGMENT => self.fragment()?,
            wire::CLOSE => Frame::Close(self.u8()?),
            wire::PROBE => Frame::Probe(self.u32()?),
            wire::PROBE_ACK => Frame::ProbeAck(self.u32()?),
            wire::PATH_CHALLENGE => Frame::PathChallenge(self.u64()?),
            wire::PATH_RESPONSE => Frame::PathResponse(self.u64()?),
            wire::EPOCH => Frame::Epoch { number: self.u64()?, commitment: *self.array()? },
            wire::EPOCH_ACK => Frame::EpochAck(self.u64()?),
            wire::ACK => self.ack()?,
            wire::STREAM_OPEN => Frame::StreamOpen { stream: self.u32()?, purpose: self.u16()? },
            wire::STREAM_DATA => {
                let (stream, offset, len) = (self.u32()?, self.u64()?, usize::from(self.u16()?));
                if len == 0 || offset.checked_add(len as u64).is_none() {
                    return Err(FrameFault::Length);
                }
                Frame::StreamData { stream, offset, piece: self.bytes(len)? }
            }
            wire::STREAM_CLOSE => Frame::StreamClose { stream: self.u32()?, size: self.u64()? },
            wire::STREAM_RESET => {
                let (stream, code) = (self.u32()?, self.u32()?);
                Frame::StreamReset { stream, code, size: self.u64()? }
            }
            wire::STREAM_STOP => Frame::StreamStop { stream: self.u32()?, code: self.u32()? },
            wire::WINDOW_UPDATE => Frame::WindowUpdate { stream: self.u32()?, limit: self.u64()? },
            wire::GO_AWAY => Frame::GoAway(self.u32()?),
            wire::REKEY => {
                let (round, stage) = (self.u32()?, self.u8()?);
                if stage > 1 {
                    return Err(FrameFault::Length);
                }
                Frame::Rekey { round, answer: stage == 1, key: self.array()? }
            }
            wire::RESET_TOKEN => Frame::ResetToken { epoch: self.u64()?, token: *self.array()? },
            wire::OBSERVED => Frame::Observed(self.array()?),
            wire::CANDIDATES => self.candidates()?,
            wire::CANDIDATES_ACK => Frame::CandidatesAck(self.u32()?),
            _ => return Err(FrameFault::UnknownType),
        })
    }

    fn fragment(&mut self) -> Result<Frame<'a>, FrameFault> {
        let (message, offset) = (self.u32()?, self.u32()?);
        let (total, len) = (self.u32()?, usize::from(self.u16()?));
        let fits = u32::try_from(len).ok().and_then(|len| offset.checked_add(len));
        if len == 0 || total as usize > MAX_PACKET || fits.is_none_or(|end| end > total) {
            return Err(FrameFault::Length);
        }
        let piece = self.bytes(len)?;
        Ok(Frame::Fragment(Fragment { message, offset, total, piece }))
    }

    fn candidates(&mut self) -> Result<Frame<'a>, FrameFault> {
        let (number, flags, count) = (self.u32()?, self.u8()?, usize::from(self.u8()?));
        let (addresses, _) = self.bytes(count.saturating_mul(ADDRESS_LEN))?.as_chunks();
        Candidates::new(number, flags, addresses).map(Frame::Candidates).ok_or(FrameFault::Length)
    }

    #[inline(always)]
    fn ack(&mut self) -> Result<Frame<'a>, FrameFault> {
        // All fixed fields at once: one check of the length instead of four.
        let mut fixed = FrameFields(self.array::<17>()?);
        let (largest, delay, marked) = (fixed.u64()?, fixed.u32()?, fixed.u32()?);
        let (ranges, _) = self.bytes(usize::from(fixed.u8()?).saturating_mul(8))?.as_chunks();
        Ack::new(largest, delay, marked, ranges).map(Frame::Ack).ok_or(FrameFault::Length)
    }
}
