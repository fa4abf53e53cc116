//! One direction of the network: packets in, the same packets out, later, if at all.
//!
//! A packet meets, in this order: a cut, the largest size, the queue before the bottleneck (where it
//! waits, is marked or dropped), random loss, delay. Time comes in as `now`; nothing here sleeps.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::BinaryHeap;

use crate::conditions::Conditions;
use crate::ip;

/// Bytes of packets under way; more are dropped as if the queue were full.
const MOST_HELD: usize = 512 << 20;

/// What became of the packets of one direction.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Came in.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Dropped because the queue was full.
    pub overflowed: u64,
    /// Lost at random.
    pub lost: u64,
    /// Lost to a cut.
    pub cut: u64,
    /// Larger than what passes.
    pub too_large: u64,
    /// Given the mark of congestion.
    pub marked: u64,
    /// Sent on twice.
    pub doubled: u64,
    /// Sent on, doubles included.
    pub delivered: u64,
    /// The most microseconds by which one left too late.
    pub late_us: u64,
}

/// A packet under way; ordered by the time at which it arrives, then by when it came in.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Flying {
    due: Duration,
    number: u64,
    packet: Vec<u8>,
}

/// One direction.
pub struct Way {
    flying: BinaryHeap<Reverse<Flying>>,
    held: usize,
    number: u64,
    /// When the bottleneck has sent everything that waits for it.
    idle_at: Duration,
    dice: Dice,
    /// What happened so far.
    pub counts: Counts,
}

impl Way {
    /// An empty direction whose chances follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            flying: BinaryHeap::new(),
            held: 0,
            number: 0,
            idle_at: Duration::ZERO,
            dice: Dice(seed),
            counts: Counts::default(),
        }
    }

    /// Takes a packet in.
    pub fn offer(&mut self, now: Duration, at: &Conditions, mut packet: Vec<u8>) {
        self.counts.packets += 1;
        self.counts.bytes += packet.len() as u64;
        if at.cut {
            self.counts.cut += 1;
            return;
        }
        if packet.len() > at.mtu {
            self.counts.too_large += 1;
            return;
        }
        let Some(sent) = self.through_the_queue(now, at, &mut packet) else {
            self.counts.overflowed += 1;
            return;
        };
        if self.dice.chance(at.loss) {
            self.counts.lost += 1;
            return;
        }
        if self.dice.chance(at.duplicate) {
            self.counts.doubled += 1;
            let due = sent + self.travel(at);
            self.launch(due, packet.clone());
        }
        let due = sent + self.travel(at);
        self.launch(due, packet);
    }

    /// When the packet has left the bottleneck; nothing if the queue is full.
    fn through_the_queue(
        &mut self,
        now: Duration,
        at: &Conditions,
        packet: &mut [u8],
    ) -> Option<Duration> {
        if self.held + packet.len() > MOST_HELD {
            return None;
        }
        if at.rate == 0 {
            return Some(now);
        }
        let wait = self.idle_at.saturating_sub(now);
        let waiting = (wait.as_secs_f64() * at.rate as f64 / 8.0) as u64;
        if waiting + packet.len() as u64 > at.queue {
            return None;
        }
        if at.mark > 0 && waiting > at.mark && ip::mark(packet) {
            self.counts.marked += 1;
        }
        let takes = Duration::from_secs_f64(packet.len() as f64 * 8.0 / at.rate as f64);
        self.idle_at = now + wait + takes;
        Some(self.idle_at)
    }

    fn travel(&mut self, at: &Conditions) -> Duration {
        match self.dice.chance(at.late) {
            true => at.delay + at.late_by.mul_f64(self.dice.fraction()),
            false => at.delay,
        }
    }

    fn launch(&mut self, due: Duration, packet: Vec<u8>) {
        self.held += packet.len();
        self.number += 1;
        self.flying.push(Reverse(Flying { due, number: self.number, packet }));
    }

    /// When the next packet arrives.
    pub fn due(&self) -> Option<Duration> {
        self.flying.peek().map(|Reverse(first)| first.due)
    }

    /// A packet that has arrived by `now`.
    pub fn arrived(&mut self, now: Duration) -> Option<Vec<u8>> {
        let late = now.checked_sub(self.due()?)?;
        let Reverse(first) = self.flying.pop()?;
        self.held -= first.packet.len();
        self.counts.delivered += 1;
        self.counts.late_us = self.counts.late_us.max(late.as_micros() as u64);
        Some(first.packet)
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Dice(u64);

impl Dice {
    /// 0 to below 1.
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && self.fraction() < share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn fair() -> Conditions {
        Conditions {
            delay: 10 * MS,
            late: 0.0,
            late_by: Duration::ZERO,
            loss: 0.0,
            duplicate: 0.0,
            rate: 0,
            queue: 10_000,
            mark: 0,
            mtu: 1_500,
            cut: false,
        }
    }

    /// An IPv4 packet whose sender knows ECN, with a number at its end.
    fn packet(n: u16, len: usize) -> Vec<u8> {
        let mut packet = vec![0; len];
        packet[0] = 0x45;
        packet[1] = 2;
        packet[len - 2..].copy_from_slice(&n.to_be_bytes());
        packet
    }

    fn drain(way: &mut Way) -> Vec<(Duration, u16)> {
        let mut out = Vec::new();
        while let Some(due) = way.due() {
            assert!(way.arrived(due.saturating_sub(Duration::from_nanos(1))).is_none(), "early");
            let packet = way.arrived(due).unwrap();
            out.push((due, u16::from_be_bytes(*packet.last_chunk().unwrap())));
        }
        assert_eq!(way.held, 0);
        out
    }

    #[test]
    fn packets_keep_their_order_and_take_the_delay() {
        let mut way = Way::new(1);
        for n in 0..5 {
            way.offer(MS * u32::from(n), &fair(), packet(n, 100));
        }
        let expected: Vec<_> = (0..5u16).map(|n| (MS * u32::from(n + 10), n)).collect();
        assert_eq!(drain(&mut way), expected);
    }

    #[test]
    fn a_rate_spaces_packets_and_a_full_queue_drops_them() {
        // 8 Mbit/s: a byte a microsecond.
        let at = Conditions { rate: 8_000_000, ..fair() };
        let mut way = Way::new(1);
        for n in 0..20 {
            way.offer(Duration::ZERO, &at, packet(n, 1_000));
        }
        let expected: Vec<_> = (0..10u16).map(|n| (MS * u32::from(n + 11), n)).collect();
        assert_eq!(drain(&mut way), expected);
        assert_eq!(way.counts.overflowed, 10);
        way.offer(MS * 10, &at, packet(1, 1_000));
        assert_eq!(drain(&mut way), [(MS * 21, 1)], "the queue is empty again");
    }

    #[test]
    fn what_waits_long_is_marked() {
        let at = Conditions { rate: 8_000_000, mark: 4_000, ..fair() };
        let mut way = Way::new(1);
        for n in 0..10 {
            way.offer(Duration::ZERO, &at, packet(n, 1_000));
        }
        assert_eq!((way.counts.marked, way.counts.overflowed), (5, 0));
        let marks: Vec<_> = core::iter::from_fn(|| way.arrived(MS * 99)).map(|p| p[1]).collect();
        assert_eq!(marks, [2, 2, 2, 2, 2, 3, 3, 3, 3, 3]);
    }

    #[test]
    fn shares_are_as_stated_and_follow_from_the_seed() {
        let half = 5 * MS;
        let at = Conditions { loss: 0.2, duplicate: 0.1, late: 0.2, late_by: half, ..fair() };
        let run = |seed| {
            let mut way = Way::new(seed);
            for n in 0..10_000u16 {
                way.offer(MS.mul_f64(f64::from(n) / 10.0), &at, packet(n, 100));
            }
            let counts = way.counts;
            (counts, drain(&mut way))
        };
        let (counts, out) = run(7);
        assert!(counts.lost.abs_diff(2_000) < 160, "{counts:?}");
        assert!(counts.doubled.abs_diff(800) < 120, "{counts:?}");
        let overtaken = out.windows(2).filter(|pair| pair[0].1 > pair[1].1).count();
        assert!(overtaken > 500, "{overtaken}");
        assert!(run(7).1 == out && run(8).1 != out);
    }

    #[test]
    fn cuts_and_large_packets() {
        let mut way = Way::new(1);
        way.offer(Duration::ZERO, &fair(), packet(1, 1_501));
        way.offer(Duration::ZERO, &Conditions { cut: true, ..fair() }, packet(2, 100));
        way.offer(Duration::ZERO, &fair(), packet(3, 1_500));
        assert_eq!(drain(&mut way), [(10 * MS, 3)]);
        assert_eq!((way.counts.too_large, way.counts.cut), (1, 1));
    }
}
