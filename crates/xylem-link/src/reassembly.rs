//! Packets that came in pieces. Bounded in number, bytes and time: whatever a peer sends, the
//! oldest incomplete packets go first.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::time::Duration;
use std::collections::VecDeque;

use bytes::Bytes;

use crate::frame::{Fragment, MAX_PACKET};

/// Incomplete packets of one link.
const MAX_PACKETS: usize = 64;
/// Bytes that they may hold.
const MAX_BYTES: usize = 1 << 20;
/// Age at which one is forgotten.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Separate runs of bytes that an incomplete packet may consist of.
const MAX_RUNS: usize = 128;
/// Bookkeeping that counts against the byte limit for each incomplete packet.
const COST: usize = 64;
const _: () = assert!(MAX_PACKET + COST <= MAX_BYTES, "every packet fits alone");

/// The peer's pieces contradict each other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contradiction;

#[derive(Debug)]
struct Partial {
    message: u32,
    since: Duration,
    bytes: Vec<u8>,
    received: usize,
    /// Sorted, disjoint, not adjacent: `start..end` of what is there.
    runs: Vec<(u32, u32)>,
}

/// The incomplete packets of one link, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    partial: VecDeque<Partial>,
    bytes: usize,
}

impl Reassembly {
    /// Takes a piece; gives the packet when it is whole.
    pub(crate) fn insert(
        &mut self,
        now: Duration,
        fragment: Fragment<'_>,
    ) -> Result<Option<Bytes>, Contradiction> {
        let total = fragment.total as usize;
        if total > MAX_PACKET {
            return Err(Contradiction);
        }
        let cost = total.saturating_add(COST);
        let found = self.partial.iter().position(|p| p.message == fragment.message);
        let index = match found {
            Some(index) => index,
            None => {
                while self.partial.len() >= MAX_PACKETS
                    || self.bytes.saturating_add(cost) > MAX_BYTES
                {
                    self.remove(0);
                }
                self.bytes = self.bytes.saturating_add(cost);
                let index = self.partial.len();
                self.partial.push_back(Partial {
                    message: fragment.message,
                    since: now,
                    bytes: vec![0; total],
                    received: 0,
                    runs: Vec::new(),
                });
                index
            }
        };
        let partial = &mut self.partial[index];
        if partial.bytes.len() != total {
            return Err(Contradiction);
        }
        partial.add(&fragment)?;
        if partial.runs.len() > MAX_RUNS {
            self.remove(index);
            return Ok(None);
        }
        if partial.received < total {
            return Ok(None);
        }
        Ok(self.remove(index).map(|p| Bytes::from(p.bytes)))
    }

    /// When [`Reassembly::expire`] has something to do.
    pub(crate) fn expires_at(&self) -> Option<Duration> {
        self.partial.front().map(|p| p.since.saturating_add(TIMEOUT))
    }

    /// Forgets what is too old.
    pub(crate) fn expire(&mut self, now: Duration) {
        while self.expires_at().is_some_and(|at| now >= at) {
            self.remove(0);
        }
    }

    fn remove(&mut self, index: usize) -> Option<Partial> {
        let partial = self.partial.remove(index)?;
        self.bytes = self.bytes.saturating_sub(partial.bytes.len().saturating_add(COST));
        Some(partial)
    }
}

impl Partial {
    fn add(&mut self, fragment: &Fragment<'_>) -> Result<(), Contradiction> {
        let start = fragment.offset;
        // The frame parser has checked that the piece lies within the total; so no sum is too large.
        let len = u32::try_from(fragment.piece.len()).map_err(|_| Contradiction)?;
        let end =
            start.checked_add(len).filter(|end| *end <= fragment.total).ok_or(Contradiction)?;
        let at = self.runs.partition_point(|run| run.0 < start);
        let before = at.checked_sub(1);
        let after = self.runs.get(at).copied();
        // Datagrams are delivered once and senders cut packets without overlap.
        if before.is_some_and(|i| self.runs[i].1 > start) || after.is_some_and(|run| run.0 < end) {
            return Err(Contradiction);
        }
        self.bytes[start as usize..end as usize].copy_from_slice(fragment.piece);
        self.received = self.received.saturating_add(fragment.piece.len());
        let adjoins_after = after.is_some_and(|run| run.0 == end);
        match (before.filter(|i| self.runs[*i].1 == start), adjoins_after) {
            (Some(before), true) => {
                self.runs[before].1 = self.runs[at].1;
                self.runs.remove(at);
            }
            (Some(before), false) => self.runs[before].1 = end,
            (None, true) => self.runs[at].0 = start,
            (None, false) => self.runs.insert(at, (start, end)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kdf::Rng;

    const S: Duration = Duration::from_secs(1);

    fn piece(message: u32, offset: u32, total: u32, piece: &[u8]) -> Fragment<'_> {
        Fragment { message, offset, total, piece }
    }

    #[test]
    fn any_cut_in_any_order_gives_the_packet() {
        let mut rng = Rng::new(&[1; 32]);
        for round in 0..300u32 {
            let mut packet = vec![0; 1 + rng.below(5_000)];
            rng.fill(&mut packet);
            let mut cuts: Vec<usize> =
                (0..rng.below(40)).map(|_| rng.below(packet.len())).collect();
            cuts.extend([0, packet.len()]);
            cuts.sort_unstable();
            cuts.dedup();
            let mut pieces: Vec<(usize, usize)> = cuts.windows(2).map(|w| (w[0], w[1])).collect();
            for i in (1..pieces.len()).rev() {
                pieces.swap(i, rng.below(i + 1));
            }
            let mut reassembly = Reassembly::default();
            for (i, &(a, b)) in pieces.iter().enumerate() {
                let fragment = piece(round, a as u32, packet.len() as u32, &packet[a..b]);
                let whole = reassembly.insert(Duration::ZERO, fragment).unwrap();
                assert_eq!(whole.is_some(), i + 1 == pieces.len());
                if let Some(whole) = whole {
                    assert_eq!(whole, packet);
                }
            }
            assert_eq!((reassembly.bytes, reassembly.partial.len()), (0, 0));
        }
    }

    #[test]
    fn contradictions_are_the_peers_fault() {
        let mut r = Reassembly::default();
        assert_eq!(r.insert(S, piece(1, 10, 100, &[0; 10])), Ok(None));
        for (offset, total, len) in
            [(10, 100, 10), (5, 100, 6), (19, 100, 2), (0, 100, 50), (30, 99, 1)]
        {
            assert_eq!(r.insert(S, piece(1, offset, total, &vec![0; len])), Err(Contradiction));
        }
    }

    #[test]
    fn count_bytes_runs_and_time_are_bounded() {
        let mut r = Reassembly::default();
        for message in 0..1_000 {
            assert_eq!(r.insert(S, piece(message, 0, 4_000, b"x")), Ok(None));
            assert!(r.partial.len() <= MAX_PACKETS && r.bytes <= MAX_BYTES);
        }
        assert_eq!(r.partial.len(), MAX_PACKETS);
        for message in 1_000..2_000 {
            assert_eq!(r.insert(S, piece(message, 0, MAX_PACKET as u32, b"x")), Ok(None));
            assert!(r.partial.len() <= MAX_PACKETS && r.bytes <= MAX_BYTES);
        }
        assert_eq!(r.partial.len(), MAX_BYTES / (MAX_PACKET + COST));
        let too_long = piece(2_000, 0, MAX_PACKET as u32 + 1, b"x");
        assert_eq!(r.insert(S, too_long), Err(Contradiction));
        r.expire(S + TIMEOUT / 2);
        assert_eq!(r.partial.len(), MAX_BYTES / (MAX_PACKET + COST));
        r.expire(S + TIMEOUT);
        assert_eq!((r.partial.len(), r.bytes), (0, 0));
        for i in 0..MAX_RUNS as u32 {
            r.insert(S, piece(1, i * 2, 1_000, b"x")).unwrap();
        }
        assert_eq!(r.partial.len(), 1);
        r.insert(S, piece(1, 900, 1_000, b"x")).unwrap();
        assert_eq!(r.partial.len(), 0, "crumbs are given up");
    }
}
