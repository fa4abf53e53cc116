//! Reassembly of packets from fragments. Number, bytes and time are bounded: the oldest incomplete packets give way.
//! Fragments may come again, in other bounds, also of packets that are complete (`crate::repair`): each packet comes
//! out once.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::time::Duration;
use std::collections::VecDeque;

use bytes::Bytes;

use crate::frame::{Fragment, MAX_PACKET};
use crate::replay::ReplayWindow;
use crate::seal::expand;

/// Most incomplete packets of one link: those of some long round trips, in which lost fragments are repeated.
const MAX_PACKETS: usize = 1_024;
/// Most bytes that they may hold.
const MAX_BYTES: usize = 8 << 20;
/// Bytes beyond which a quarter of them must have arrived: memory that a peer makes this side hold costs it traffic in
/// proportion.
const MAX_HOLLOW: usize = 1 << 20;
/// Age at which an incomplete packet is dropped.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Most separate runs of bytes in an incomplete packet.
const MAX_RUNS: usize = 128;
/// Bookkeeping bytes that count against the limit for each incomplete packet.
const COST: usize = 64;
const _: () = assert!(MAX_PACKET + COST <= MAX_HOLLOW, "every packet fits alone");

/// The peer's fragments contradict each other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contradiction;

#[derive(Debug)]
struct IncompletePacket {
    message: u32,
    since: Duration,
    bytes: Vec<u8>,
    received: usize,
    /// Sorted, disjoint, not adjacent: `start..end` of the bytes that have arrived.
    runs: Vec<(u32, u32)>,
}

/// The incomplete packets of one link, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    partial: VecDeque<IncompletePacket>,
    bytes: usize,
    /// Bytes of them that have arrived.
    received: usize,
    /// Packets that were complete, by their full numbers.
    whole: ReplayWindow,
}

impl Reassembly {
    /// Takes a fragment; returns the packet when it is complete.
    pub(crate) fn insert(
        &mut self,
        now: Duration,
        fragment: Fragment<'_>,
    ) -> Result<Option<Bytes>, Contradiction> {
        let total = fragment.total as usize;
        if total > MAX_PACKET {
            return Err(Contradiction);
        }
        let number = expand(fragment.message, self.whole.end());
        if !self.whole.is_fresh(number) {
            return Ok(None);
        }
        // The packet begun last is the most likely.
        let found = self.partial.iter().rposition(|p| p.message == fragment.message);
        if found.is_none() && fragment.piece.len() == total {
            self.whole.insert(number);
            return Ok(Some(Bytes::copy_from_slice(fragment.piece)));
        }
        let index = found.unwrap_or_else(|| self.begin(now, fragment.message, total));
        let partial = &mut self.partial[index];
        if partial.bytes.len() != total {
            return Err(Contradiction);
        }
        let before = partial.received;
        partial.add(&fragment)?;
        self.received = self.received.saturating_add(partial.received.saturating_sub(before));
        if partial.runs.len() > MAX_RUNS {
            self.remove(index);
            return Ok(None);
        }
        if partial.received < total {
            return Ok(None);
        }
        self.whole.insert(number);
        Ok(self.remove(index).map(|p| Bytes::from(p.bytes)))
    }

    /// Makes room for a packet of `total` bytes; returns its index.
    fn begin(&mut self, now: Duration, message: u32, total: usize) -> usize {
        let cost = total.saturating_add(COST);
        while self.partial.len() >= MAX_PACKETS || self.bytes.saturating_add(cost) > self.most() {
            if self.remove(0).is_none() {
                break;
            }
        }
        self.bytes = self.bytes.saturating_add(cost);
        self.partial.push_back(IncompletePacket {
            message,
            since: now,
            bytes: vec![0; total],
            received: 0,
            runs: Vec::new(),
        });
        self.partial.len().saturating_sub(1)
    }

    /// Bytes that may be held, given the bytes that have arrived.
    fn most(&self) -> usize {
        self.received.saturating_mul(4).clamp(MAX_HOLLOW, MAX_BYTES)
    }

    /// When [`Reassembly::expire`] is due.
    pub(crate) fn expires_at(&self) -> Option<Duration> {
        self.partial.front().map(|p| p.since.saturating_add(TIMEOUT))
    }

    /// Drops packets that are too old.
    pub(crate) fn expire(&mut self, now: Duration) {
        while self.expires_at().is_some_and(|at| now >= at) {
            self.remove(0);
        }
    }

    fn remove(&mut self, index: usize) -> Option<IncompletePacket> {
        let partial = self.partial.remove(index)?;
        self.bytes = self.bytes.saturating_sub(partial.bytes.len().saturating_add(COST));
        self.received = self.received.saturating_sub(partial.received);
        Some(partial)
    }
}

impl IncompletePacket {
    fn add(&mut self, fragment: &Fragment<'_>) -> Result<(), Contradiction> {
        let start = fragment.offset;
        // The frame parser has checked that the fragment lies within the total, so no sum overflows.
        let len = u32::try_from(fragment.piece.len()).map_err(|_| Contradiction)?;
        let end =
            start.checked_add(len).filter(|end| *end <= fragment.total).ok_or(Contradiction)?;
        // Merges the runs that it touches: a repeated fragment may have other bounds.
        let from = self.runs.partition_point(|run| run.1 < start);
        let to = self.runs.partition_point(|run| run.0 <= end);
        let touched = self.runs.get(from..to).ok_or(Contradiction)?;
        let known: usize =
            touched.iter().map(|(start, end)| end.saturating_sub(*start) as usize).sum();
        let (first, last) = (touched.first(), touched.last());
        let run =
            (first.map_or(start, |run| run.0.min(start)), last.map_or(end, |run| run.1.max(end)));
        self.bytes[start as usize..end as usize].copy_from_slice(fragment.piece);
        let all = run.1.saturating_sub(run.0) as usize;
        self.received = self.received.saturating_add(all.saturating_sub(known));
        // Most often a fragment follows the one before.
        if to == from.saturating_add(1) {
            self.runs[from] = run;
        } else {
            self.runs.splice(from..to, [run]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kdf::LinkRng;

    const S: Duration = Duration::from_secs(1);

    fn piece(message: u32, offset: u32, total: u32, piece: &[u8]) -> Fragment<'_> {
        Fragment { message, offset, total, piece }
    }

    #[test]
    fn any_fragments_in_any_order_give_the_packet() {
        let mut rng = LinkRng::new(&[1; 32]);
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

    /// Any fragment may come twice, in any bounds, before and after the packet is complete.
    #[test]
    fn repeated_fragments_deliver_the_packet_once() {
        let mut rng = LinkRng::new(&[2; 32]);
        let mut reassembly = Reassembly::default();
        for round in 0..300u32 {
            let mut packet = vec![0; 1 + rng.below(5_000)];
            rng.fill(&mut packet);
            let (mut whole, mut after) = (0, 0);
            let mut there = vec![false; packet.len()];
            while after < 20 {
                let start = rng.below(packet.len());
                let end = packet.len().min(start + 1 + rng.below(1_500));
                let fragment = piece(round, start as u32, packet.len() as u32, &packet[start..end]);
                let out = reassembly.insert(S, fragment).unwrap();
                there[start..end].fill(true);
                let complete = there.iter().all(|byte| *byte);
                assert_eq!(out.is_some(), complete && whole == 0, "round {round}");
                if let Some(out) = out {
                    assert_eq!(out, packet);
                    whole += 1;
                }
                after += usize::from(complete);
            }
            assert_eq!((reassembly.bytes, reassembly.received), (0, 0));
        }
    }

    #[test]
    fn different_totals_are_a_protocol_error() {
        let mut r = Reassembly::default();
        assert_eq!(r.insert(S, piece(1, 10, 100, &[0; 10])), Ok(None));
        assert_eq!(r.insert(S, piece(1, 30, 99, &[0; 1])), Err(Contradiction));
    }

    /// Numbers begin anew after 2^32 packets.
    #[test]
    fn message_numbers_wrap_around() {
        let mut r = Reassembly::default();
        let start = u32::MAX - 3_000;
        for step in (0..start).step_by(1 << 30).chain(start..=u32::MAX).chain(0..3_000) {
            assert!(r.insert(S, piece(step, 0, 3, b"abc")).unwrap().is_some(), "{step}");
            assert!(r.insert(S, piece(step, 0, 3, b"abc")).unwrap().is_none(), "{step}");
        }
    }

    #[test]
    fn count_bytes_runs_and_time_are_bounded() {
        let mut r = Reassembly::default();
        for message in 0..3_000 {
            assert_eq!(r.insert(S, piece(message, 0, 4_000, b"x")), Ok(None));
            assert!(r.partial.len() <= MAX_PACKETS && r.bytes <= MAX_HOLLOW);
        }
        for message in 3_000..6_000 {
            assert_eq!(r.insert(S, piece(message, 0, 9_000, &[0; 6_000])), Ok(None));
            assert!(r.partial.len() <= MAX_PACKETS && r.bytes <= MAX_BYTES);
        }
        assert!(r.bytes > MAX_BYTES - 10_000, "{} bytes", r.bytes);
        for message in 6_000..7_000 {
            assert_eq!(r.insert(S, piece(message, 0, MAX_PACKET as u32, b"x")), Ok(None));
            assert!(r.partial.len() <= MAX_PACKETS && r.bytes <= r.most());
        }
        assert_eq!(r.partial.len(), MAX_HOLLOW / (MAX_PACKET + COST));
        let too_long = piece(8_000, 0, MAX_PACKET as u32 + 1, b"x");
        assert_eq!(r.insert(S, too_long), Err(Contradiction));
        r.expire(S + TIMEOUT / 2);
        assert_eq!(r.partial.len(), MAX_HOLLOW / (MAX_PACKET + COST));
        r.expire(S + TIMEOUT);
        assert_eq!((r.partial.len(), r.bytes), (0, 0));
        for i in 0..MAX_RUNS as u32 {
            r.insert(S, piece(9_000, i * 2, 1_000, b"x")).unwrap();
        }
        assert_eq!(r.partial.len(), 1);
        r.insert(S, piece(9_000, 900, 1_000, b"x")).unwrap();
        assert_eq!(r.partial.len(), 0, "crumbs are given up");
    }
}
