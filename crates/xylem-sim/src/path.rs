//! One direction of a bad network.

use core::time::Duration;

use crate::Rng;

/// Conditions of a path: its effects on packets. Shares are fractions of all packets, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Delay of every packet, without queueing.
    pub delay: Duration,
    /// Each packet takes up to this much longer, evenly distributed, so neighbouring packets may overtake each other.
    pub jitter: Duration,
    /// Share of packets that are late by up to `late_by`, so that many others overtake them.
    pub late: f64,
    /// The longest lateness; lateness is evenly distributed.
    pub late_by: Duration,
    /// Share of packets lost at random.
    pub loss: f64,
    /// Share of packets that arrive twice.
    pub duplicate: f64,
    /// Share of packets that arrive with one bit flipped.
    pub damage: f64,
    /// Largest packet that passes, in bytes; larger ones are dropped.
    pub mtu: usize,
    /// Rate of the bottleneck, in bytes a second; infinite if there is no bottleneck.
    pub rate: f64,
    /// Capacity of the bottleneck's queue, in bytes. Packets that exceed it are dropped.
    pub queue: u64,
    /// Bytes in the queue above which ECN-capable packets are marked.
    pub mark_above: u64,
    /// Whether ECN-capable packets are dropped.
    pub drops_ecn: bool,
    /// Whether all packets are dropped.
    pub cut: bool,
}

impl Conditions {
    /// Delivers every packet at once.
    pub const PERFECT: Self = Self {
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        late: 0.0,
        late_by: Duration::ZERO,
        loss: 0.0,
        duplicate: 0.0,
        damage: 0.0,
        mtu: usize::MAX,
        rate: f64::INFINITY,
        queue: u64::MAX,
        mark_above: u64::MAX,
        drops_ecn: false,
        cut: false,
    };

    /// Adds a bottleneck of `mbit` megabits a second with a queue of `queue` bytes.
    #[must_use]
    pub const fn bottleneck(self, mbit: f64, queue: u64) -> Self {
        Self { rate: mbit * 125_000.0, queue, ..self }
    }

    /// Adds a share of packets that are late by up to `late_by`.
    #[must_use]
    pub const fn late(self, late: f64, late_by: Duration) -> Self {
        Self { late, late_by, ..self }
    }
}

/// Counters of the packets of one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// Packets that were sent.
    pub sent: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Dropped while the path was cut.
    pub cut: u64,
    /// Dropped because they were too large.
    pub too_large: u64,
    /// Dropped because they were ECN-capable.
    pub ecn_dropped: u64,
    /// Dropped because the queue was full.
    pub overflowed: u64,
    /// Lost at random.
    pub lost: u64,
    /// Given the congestion mark (ECN).
    pub marked: u64,
    /// Forwarded twice.
    pub duplicated: u64,
    /// Forwarded with a flipped bit; each copy counts.
    pub damaged: u64,
    /// Sum, over all packets, of the bytes in the queue when the packet came.
    pub waiting: u64,
    /// Most bytes in the queue when a packet came.
    pub most_waiting: u64,
}

/// One copy of a packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathDelivery {
    /// Time of arrival.
    pub at: Duration,
    /// Whether it carries the congestion mark (ECN).
    pub marked: bool,
    /// Index of the bit that is flipped.
    pub flipped: Option<u64>,
}

impl PathDelivery {
    /// The packet as it arrives, from the packet as sent.
    #[must_use]
    pub fn packet(&self, sent: &[u8]) -> Vec<u8> {
        let mut packet = sent.to_vec();
        if let Some(bit) = self.flipped {
            packet[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        packet
    }
}

/// One direction of a network. A packet passes these stages in order: a cut, the largest size, the bottleneck's queue
/// (where it waits, is marked or dropped), loss, duplication, delay.
///
/// A path handles lengths and times only. The caller of [`send`](Self::send) puts the arrivals into an
/// [`EventQueue`](crate::EventQueue).
#[derive(Clone, Debug)]
pub struct Path {
    /// The path's effects on packets; may change at any time.
    pub conditions: Conditions,
    /// Counters since the path was made.
    pub counts: PathCounts,
    rng: Rng,
    /// Time at which the bottleneck has sent everything in its queue.
    idle_at: Duration,
}

impl Path {
    /// An idle path with random choices that follow from `seed`.
    #[must_use]
    pub fn new(conditions: Conditions, seed: u64) -> Self {
        let (counts, idle_at) = (PathCounts::default(), Duration::ZERO);
        Self { conditions, counts, rng: Rng::new(seed), idle_at }
    }

    /// Bytes in the bottleneck's queue, at its current rate.
    #[must_use]
    pub fn waiting(&self, now: Duration) -> f64 {
        match self.conditions.rate {
            f64::INFINITY => 0.0,
            rate => self.idle_at.saturating_sub(now).as_secs_f64() * rate,
        }
    }

    /// Sends a packet of `len` bytes; `ecn` if it is ECN-capable. Returns the copies that arrive: none, one or two.
    pub fn send(
        &mut self,
        now: Duration,
        len: usize,
        ecn: bool,
    ) -> impl Iterator<Item = PathDelivery> + use<> {
        let mut copies = [None; 2];
        if let Some((leaves, marked)) = self.admit(now, len, ecn) {
            let twice = self.rng.chance(self.conditions.duplicate);
            self.counts.duplicated += u64::from(twice);
            copies[0] = Some(self.travel(leaves, len, marked));
            copies[1] = twice.then(|| self.travel(leaves, len, marked));
        }
        copies.into_iter().flatten()
    }

    /// Returns when a packet leaves the bottleneck and whether it is marked, or `None` if it is dropped.
    fn admit(&mut self, now: Duration, len: usize, ecn: bool) -> Option<(Duration, bool)> {
        self.counts.sent += 1;
        self.counts.bytes += len as u64;
        let vanishes = if self.conditions.cut {
            &mut self.counts.cut
        } else if len > self.conditions.mtu {
            &mut self.counts.too_large
        } else if ecn && self.conditions.drops_ecn {
            &mut self.counts.ecn_dropped
        } else {
            let passed = self.queue(now, len, ecn)?;
            if !self.rng.chance(self.conditions.loss) {
                return Some(passed);
            }
            &mut self.counts.lost
        };
        *vanishes += 1;
        None
    }

    /// Passes a packet through the bottleneck. Returns when it leaves and whether it is marked, or `None` if the queue
    /// is full.
    fn queue(&mut self, now: Duration, len: usize, ecn: bool) -> Option<(Duration, bool)> {
        let Conditions { rate, queue, mark_above, .. } = self.conditions;
        if rate == f64::INFINITY {
            return Some((now, false));
        }
        let waiting = self.waiting(now) as u64;
        self.counts.waiting += waiting;
        self.counts.most_waiting = self.counts.most_waiting.max(waiting);
        if waiting + len as u64 > queue {
            self.counts.overflowed += 1;
            return None;
        }
        let marked = ecn && waiting > mark_above;
        self.counts.marked += u64::from(marked);
        self.idle_at = now.max(self.idle_at) + Duration::from_secs_f64(len as f64 / rate);
        Some((self.idle_at, marked))
    }

    fn travel(&mut self, leaves: Duration, len: usize, marked: bool) -> PathDelivery {
        let Conditions { delay, jitter, late, late_by, damage, .. } = self.conditions;
        let mut at = leaves + delay + self.rng.time_below(jitter);
        if self.rng.chance(late) {
            at += self.rng.time_below(late_by);
        }
        let flipped = (len > 0 && self.rng.chance(damage)).then(|| self.rng.below(8 * len as u64));
        self.counts.damaged += u64::from(flipped.is_some());
        PathDelivery { at, marked, flipped }
    }
}

#[cfg(test)]
mod tests;
