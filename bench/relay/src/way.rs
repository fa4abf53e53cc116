//! One direction of the network: packets in, the same packets out, later, if at all.
//!
//! A simulated path decides on each packet; this holds the packets until they are due. Time comes in as `now`; nothing
//! here sleeps.

use core::time::Duration;

use xylem_sim::{Conditions, EventQueue, Path};

use crate::ip;

/// Maximum bytes of packets under way; more are dropped as if the queue were full.
const MOST_HELD: usize = 512 << 20;

/// One direction.
pub(crate) struct NetworkDirection {
    /// The path that decides on packets, with its counters.
    pub path: Path,
    /// Packets sent on, duplicates included.
    pub delivered: u64,
    /// The largest delay of a packet beyond its due time, in microseconds.
    pub late_us: u64,
    flying: EventQueue<Vec<u8>>,
    held: usize,
}

impl NetworkDirection {
    /// An empty direction; its random numbers follow from `seed`.
    pub(crate) fn new(conditions: Conditions, seed: u64) -> Self {
        let (path, flying) = (Path::new(conditions, seed), EventQueue::new());
        Self { path, delivered: 0, late_us: 0, flying, held: 0 }
    }

    /// Takes a packet.
    pub(crate) fn offer(&mut self, now: Duration, packet: &[u8]) {
        if self.held + packet.len() > MOST_HELD {
            self.path.counts.sent += 1;
            self.path.counts.bytes += packet.len() as u64;
            self.path.counts.overflowed += 1;
            return;
        }
        for delivery in self.path.send(now, packet.len(), ip::knows_ecn(packet)) {
            let mut packet = delivery.packet(packet);
            if delivery.marked {
                ip::mark(&mut packet);
            }
            self.held += packet.len();
            self.flying.schedule(delivery.at, packet);
        }
    }

    /// When the next packet arrives.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.flying.next_at()
    }

    /// The next packet that has arrived by `now`.
    pub(crate) fn arrived(&mut self, now: Duration) -> Option<Vec<u8>> {
        let late = now.checked_sub(self.due()?)?;
        self.flying.advance(now);
        let packet = self.flying.pop_due()?;
        self.held -= packet.len();
        self.delivered += 1;
        self.late_us = self.late_us.max(late.as_micros() as u64);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    const FAIR: Conditions =
        Conditions { delay: Duration::from_millis(10), mtu: 1_500, ..Conditions::PERFECT };

    /// An IPv4 packet of a sender with ECN, with a number at its end.
    fn packet(n: u16, len: usize) -> Vec<u8> {
        let mut packet = vec![0; len];
        packet[0] = 0x45;
        packet[1] = 2;
        packet[len - 2..].copy_from_slice(&n.to_be_bytes());
        packet
    }

    fn drain(way: &mut NetworkDirection) -> Vec<(Duration, u16)> {
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
        let mut way = NetworkDirection::new(FAIR, 1);
        for n in 0..5 {
            way.offer(MS * u32::from(n), &packet(n, 100));
        }
        let expected: Vec<_> = (0..5u16).map(|n| (MS * u32::from(n + 10), n)).collect();
        assert_eq!(drain(&mut way), expected);
    }

    #[test]
    fn a_rate_spaces_packets_and_a_full_queue_drops_them() {
        // 8 Mbit/s: a byte a microsecond.
        let mut way = NetworkDirection::new(FAIR.bottleneck(8.0, 10_000), 1);
        for n in 0..20 {
            way.offer(Duration::ZERO, &packet(n, 1_000));
        }
        let expected: Vec<_> = (0..10u16).map(|n| (MS * u32::from(n + 11), n)).collect();
        assert_eq!(drain(&mut way), expected);
        assert_eq!(way.path.counts.overflowed, 10);
        way.offer(MS * 10, &packet(1, 1_000));
        assert_eq!(drain(&mut way), [(MS * 21, 1)], "the queue is empty again");
    }

    #[test]
    fn packets_that_wait_long_are_marked() {
        let narrow = Conditions { mark_above: 4_000, ..FAIR.bottleneck(8.0, 10_000) };
        let mut way = NetworkDirection::new(narrow, 1);
        for n in 0..10 {
            way.offer(Duration::ZERO, &packet(n, 1_000));
        }
        assert_eq!((way.path.counts.marked, way.path.counts.overflowed), (5, 0));
        let marks: Vec<_> = core::iter::from_fn(|| way.arrived(MS * 99)).map(|p| p[1]).collect();
        assert_eq!(marks, [2, 2, 2, 2, 2, 3, 3, 3, 3, 3]);
    }

    #[test]
    fn shares_are_as_stated_and_follow_from_the_seed() {
        let half = 5 * MS;
        let bad = Conditions { loss: 0.2, duplicate: 0.1, ..FAIR.late(0.2, half) };
        let run = |seed| {
            let mut way = NetworkDirection::new(bad, seed);
            for n in 0..10_000u16 {
                way.offer(MS.mul_f64(f64::from(n) / 10.0), &packet(n, 100));
            }
            let counts = way.path.counts;
            (counts, drain(&mut way))
        };
        let (counts, out) = run(7);
        assert!(counts.lost.abs_diff(2_000) < 160, "{counts:?}");
        assert!(counts.duplicated.abs_diff(800) < 120, "{counts:?}");
        let overtaken = out.windows(2).filter(|pair| pair[0].1 > pair[1].1).count();
        assert!(overtaken > 500, "{overtaken}");
        assert!(run(7).1 == out && run(8).1 != out);
    }

    #[test]
    fn cuts_and_large_packets() {
        let mut way = NetworkDirection::new(FAIR, 1);
        way.offer(Duration::ZERO, &packet(1, 1_501));
        way.path.conditions.cut = true;
        way.offer(Duration::ZERO, &packet(2, 100));
        way.path.conditions.cut = false;
        way.offer(Duration::ZERO, &packet(3, 1_500));
        assert_eq!(drain(&mut way), [(10 * MS, 3)]);
        assert_eq!((way.path.counts.too_large, way.path.counts.cut), (1, 1));
    }
}
