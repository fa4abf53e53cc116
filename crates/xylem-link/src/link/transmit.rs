//! Datagrams out: owed frames first, then the send queue. Every datagram is sealed in place.

use core::net::SocketAddr;
use core::time::Duration;

use super::Link;
use super::keys::KeyTime;
use crate::aead::TAG_LEN;
use crate::event::{CloseReason, Transmit};
use crate::frame::Frame;
use crate::header::HEADER_LEN;
use crate::reset::MIN_PROVOKING;
use crate::seal::OVERHEAD;

impl Link {
    /// Writes the next datagrams to `buf`, replacing its content.
    pub(crate) fn poll_transmit(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        if self.ending.is_closing() {
            return self.transmit_close(now, buf);
        }
        if self.keys.advance_if_due(now, &mut self.stats).is_err() {
            self.ending.end(CloseReason::RekeyStalled);
            return None;
        }
        self.transmit_finish(now, buf)
            .or_else(|| self.transmit_challenge(now, buf))
            .or_else(|| self.transmit_elsewhere(now, buf))
            .or_else(|| self.transmit_owed(now, buf))
            .or_else(|| self.transmit_probe(now, buf))
            .or_else(|| self.transmit_repair(now, buf))
            .or_else(|| self.transmit_data(now, buf))
    }

    fn transmit_close(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        let code = self.ending.poll(now)?;
        Some(self.datagram(buf, self.remote, 0, |out| Frame::Close(code).write(out)))
    }

    pub(super) fn transmit_finish(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        let finish = self.finish.as_mut().filter(|finish| now >= finish.next)?;
        finish.next = now + finish.wait;
        finish.wait *= 2;
        buf.clear();
        buf.extend_from_slice(&finish.datagram);
        Some(self.sent(self.remote, buf.len(), None))
    }

    /// Writes owed frames. They go in the next data datagram if it has room and nothing waits before it, and otherwise
    /// ahead of the data.
    fn transmit_owed(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        let mut frames = core::mem::take(&mut self.scratch);
        frames.clear();
        let probing = self.owed.ping && self.ecn.wants_probe();
        // Long enough that a peer which has lost its state answers even a keep-alive.
        let least = if self.owed.ping { MIN_PROVOKING } else { 0 };
        self.write_owed(now, &mut frames);
        let transmit = if frames.is_empty() || (!probing && self.queue.append_small(&frames)) {
            None
        } else {
            let sent = self.datagram(buf, self.remote, 0, |out| {
                out.extend_from_slice(&frames);
                out.resize(out.len().max(least.saturating_sub(TAG_LEN)), 0);
            });
            Some(Transmit { ecn: sent.ecn || probing, ..sent })
        };
        self.scratch = frames;
        transmit
    }

    fn write_owed(&mut self, now: Duration, out: &mut Vec<u8>) {
        let (wait, carried, remote) = (self.liveness.wait(), self.carried(), self.remote);
        let time = KeyTime { now, wait, carried, remote };
        self.owed.observed |= self.keys.write(time, &mut self.rng, out);
        self.repair.write_ack(now, self.keys.window(), self.ecn.marked(), out);
        self.owed.observed |= !self.owed.pongs.is_empty();
        self.write_candidates(now, out);
        self.owed.pongs.drain(..).for_each(|token| Frame::Pong(token).write(out));
        self.owed.responses.drain(..).for_each(|token| Frame::PathResponse(token).write(out));
        self.owed.probe_acks.drain(..).for_each(|size| Frame::ProbeAck(size).write(out));
        if core::mem::take(&mut self.owed.ping) {
            let token = self.rng.u64();
            self.liveness.on_ping(now, token);
            self.ecn.on_ping(token);
            Frame::Ping(token).write(out);
        }
    }

    fn transmit_probe(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        let size = self.mtu.poll(now, self.liveness.wait())?;
        let probe = Frame::Probe(size as u32);
        Some(self.datagram(buf, self.remote, size, |out| probe.write(out)))
    }

    /// Lost fragments, in a datagram of their own.
    fn transmit_repair(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        let room = self.mtu.current() - OVERHEAD;
        let kept = self.repair.next_lost(now, room)?;
        let number = self.keys.next_number();
        let len = kept.frames.len() + OVERHEAD;
        let size = if self.shaping.has_sizes() { self.padded(len) } else { len };
        let transmit =
            self.datagram(buf, self.remote, size, |out| out.extend_from_slice(&kept.frames));
        self.repair.on_sent_again(now, number, kept);
        self.stats.datagrams_repeated += 1;
        Some(transmit)
    }

    /// Takes back a buffer of the caller's that a batch was exchanged for.
    pub(crate) fn take_used_buffer(&mut self) -> Vec<u8> {
        self.queue.take_used_buffer()
    }

    pub(super) fn transmit_queue(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        match self.queue.pop(core::mem::take(buf)) {
            Err(unused) => {
                *buf = unused;
                None
            }
            Ok(mut ready) => {
                for datagram in ready.buf.chunks_mut(ready.segment) {
                    if ready.pieces {
                        let content = &datagram[HEADER_LEN..datagram.len() - TAG_LEN];
                        self.repair.on_sent(now, self.keys.next_number(), content);
                    }
                    self.keys.seal(datagram);
                }
                *buf = ready.buf;
                // MTU probes are not counted: they must not cause further probes.
                self.mtu.on_sent(ready.segment);
                self.stats.padding_sent += ready.padding as u64;
                let several = buf.len() > ready.segment;
                Some(self.sent(self.remote, buf.len(), several.then_some(ready.segment)))
            }
        }
    }

    /// Writes one datagram of these frames, padded to `size`; 0: to the size of a datagram of the link's own frames.
    pub(super) fn datagram(
        &mut self,
        buf: &mut Vec<u8>,
        to: SocketAddr,
        size: usize,
        frames: impl FnOnce(&mut Vec<u8>),
    ) -> Transmit {
        buf.clear();
        buf.extend_from_slice(&[0; HEADER_LEN]);
        frames(buf);
        debug_assert!(buf.len() + TAG_LEN >= OVERHEAD);
        let len = buf.len() + TAG_LEN;
        let size = if size == 0 { self.padded(len) } else { size };
        buf.resize(len.max(size), 0);
        self.keys.seal(buf);
        self.sent(to, buf.len(), None)
    }

    pub(super) fn sent(
        &mut self,
        to: SocketAddr,
        len: usize,
        segment_size: Option<usize>,
    ) -> Transmit {
        let segment = segment_size.unwrap_or(len);
        self.stats.datagrams_sent += len.div_ceil(segment) as u64;
        self.stats.bytes_sent += len as u64;
        Transmit { to, len, segment_size, ecn: self.ecn.is_on() }
    }
}
