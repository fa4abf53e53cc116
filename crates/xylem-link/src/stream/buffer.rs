//! Bytes written to a stream and not acknowledged yet.
//!
//! A write is copied once, into a chunk. Sending copies from the chunks to where the datagram is sealed, the first time
//! and at each repetition.

use std::collections::VecDeque;

use super::ranges::RangeSet;

/// Bytes of a chunk that small writes share.
const CHUNK: usize = 64 << 10;
/// Emptied chunks that are kept for further writes while others are in use.
const MAX_SPARE: usize = 64;

/// One stream's bytes from the first that is not acknowledged to the last that was written.
#[derive(Debug, Default)]
pub(super) struct SendBuffer {
    /// Each with its offset in the stream; they adjoin.
    chunks: VecDeque<(u64, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    /// Bytes written.
    end: u64,
    /// Bytes sent at least once.
    sent: u64,
    /// Everything below is acknowledged.
    acked: u64,
    /// Ranges above `acked` that are acknowledged.
    acked_above: RangeSet,
    /// Ranges that were sent and lost.
    resend: RangeSet,
}

impl SendBuffer {
    /// Bytes written so far.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes that were sent at least once.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes that wait to be sent for the first time.
    pub(super) fn unsent(&self) -> u64 {
        self.end - self.sent
    }

    /// Bytes that are held.
    pub(super) fn held(&self) -> u64 {
        self.end - self.acked
    }

    /// Returns whether something was lost and has to be sent again.
    pub(super) fn has_lost(&self) -> bool {
        !self.resend.is_empty()
    }

    /// Appends a copy of `data`.
    pub(super) fn write(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let room = self.chunks.back().map_or(0, |(_, chunk)| CHUNK - chunk.len());
            if room == 0 {
                // A chunk that follows others will be filled; growing it would copy its content.
                let first = self.chunks.is_empty();
                let chunk = self.spare.pop().unwrap_or_else(|| {
                    Vec::with_capacity(if first { data.len().min(CHUNK) } else { CHUNK })
                });
                self.chunks.push_back((self.end, chunk));
                continue;
            }
            let (now, later) = data.split_at(room.min(data.len()));
            if let Some((_, chunk)) = self.chunks.back_mut() {
                chunk.extend_from_slice(now);
            }
            self.end += now.len() as u64;
            data = later;
        }
    }

    /// The next piece to send, of at most `max` bytes: of lost data first, else of new data below `limit`. It is not
    /// recorded as sent yet.
    pub(super) fn next_piece(&self, max: usize, limit: u64) -> Option<(u64, usize)> {
        if let Some((start, end)) = self.resend.first() {
            return Some((start, (end - start).min(max as u64) as usize));
        }
        let len = self.end.min(limit).saturating_sub(self.sent).min(max as u64);
        (len > 0).then_some((self.sent, len as usize))
    }

    /// Records that the piece is being sent.
    pub(super) fn on_sent(&mut self, start: u64, len: usize) {
        let end = start + len as u64;
        if start < self.sent {
            self.resend.remove(start, end);
        }
        self.sent = self.sent.max(end);
    }

    /// Appends the bytes of the piece, which must be held, to `out`.
    pub(super) fn copy(&self, start: u64, len: usize, out: &mut Vec<u8>) {
        let end = start + len as u64;
        let first = self.chunks.partition_point(|(at, chunk)| at + chunk.len() as u64 <= start);
        for (at, chunk) in self.chunks.range(first..) {
            if *at >= end {
                break;
            }
            let from = start.saturating_sub(*at) as usize;
            let to = ((end - at) as usize).min(chunk.len());
            out.extend_from_slice(&chunk[from..to]);
        }
    }

    /// Records that `start..end` has arrived.
    pub(super) fn on_acked(&mut self, start: u64, end: u64) {
        if !self.resend.is_empty() {
            self.resend.remove(start, end);
        }
        if start > self.acked {
            self.acked_above.insert(start, end);
            return;
        }
        self.acked = self.acked.max(end);
        while let Some((s, e)) = self.acked_above.first().filter(|(s, _)| *s <= self.acked) {
            self.acked_above.remove(s, e);
            self.acked = self.acked.max(e);
        }
        while let Some((at, chunk)) = self.chunks.front() {
            if at + chunk.len() as u64 > self.acked {
                break;
            }
            if let Some((_, mut chunk)) = self.chunks.pop_front()
                && self.spare.len() < MAX_SPARE
            {
                chunk.clear();
                self.spare.push(chunk);
            }
        }
        // An idle stream holds no memory.
        if self.chunks.is_empty() {
            (self.chunks, self.spare) = (VecDeque::new(), Vec::new());
        }
    }

    /// Records that `start..end` was lost, or is to be sent once more.
    pub(super) fn on_lost(&mut self, start: u64, end: u64) {
        self.resend.insert(start.max(self.acked), end);
        self.resend.remove_all(&self.acked_above);
    }

    /// Returns whether everything written has arrived.
    pub(super) fn is_acked(&self) -> bool {
        self.acked == self.end
    }

    /// Discards everything but the count of sent bytes.
    pub(super) fn discard(&mut self) {
        let sent = self.sent;
        *self = Self { sent, end: sent, acked: sent, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kdf::LinkRng;

    /// Random writes, transmissions, losses and acknowledgements: every sent byte is the one that was written there,
    /// and everything arrives.
    #[test]
    fn sent_bytes_are_those_written() {
        let mut rng = LinkRng::new(&[2; 32]);
        for _ in 0..50 {
            let mut buffer = SendBuffer::default();
            let mut written: Vec<u8> = Vec::new();
            let mut arrived: Vec<Option<u8>> = Vec::new();
            let mut flying: Vec<(u64, u64)> = Vec::new();
            for step in 0..1_000 {
                match rng.below(5) {
                    0 if written.len() < 1 << 18 && step < 500 => {
                        let max = [10, 3_000, 100_000][rng.below(3)];
                        let len = 1 + rng.below(max);
                        let mut data = vec![0; len];
                        rng.fill(&mut data);
                        written.extend_from_slice(&data);
                        buffer.write(&data);
                        arrived.resize(written.len(), None);
                    }
                    1 | 2 => {
                        let limit = written.len() as u64;
                        let Some((at, len)) = buffer.next_piece(1 + rng.below(9_000), limit) else {
                            continue;
                        };
                        let mut out = Vec::new();
                        buffer.copy(at, len, &mut out);
                        buffer.on_sent(at, len);
                        assert!(out[..] == written[at as usize..][..len]);
                        flying.push((at, at + len as u64));
                    }
                    _ if !flying.is_empty() => {
                        let (start, end) = flying.swap_remove(rng.below(flying.len()));
                        if rng.below(3) == 0 {
                            buffer.on_lost(start, end);
                        } else {
                            buffer.on_acked(start, end);
                            let range = start as usize..end as usize;
                            arrived[range].fill(Some(1));
                        }
                    }
                    _ => {}
                }
                if step % 50 == 0 {
                    assert_eq!(buffer.is_acked(), arrived.iter().all(Option::is_some));
                }
            }
            while let Some((at, len)) = buffer.next_piece(50_000, u64::MAX) {
                buffer.on_sent(at, len);
                buffer.on_acked(at, at + len as u64);
            }
            flying.drain(..).for_each(|(start, end)| buffer.on_acked(start, end));
            assert!(buffer.is_acked() && buffer.chunks.is_empty() && buffer.held() == 0);
            assert!(buffer.spare.capacity() == 0 && buffer.chunks.capacity() == 0);
        }
    }
}
