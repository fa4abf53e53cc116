//! One direction of a bad network.

use core::time::Duration;

use crate::Rng;

/// What a path does to packets. Shares are of all packets, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// What every packet takes, without waiting.
    pub delay: Duration,
    /// Each packet takes up to so much longer, evenly spread: neighbours overtake each other.
    pub jitter: Duration,
    /// Share of packets that are late, by up to `late_by`: many others overtake them.
    pub late: f64,
    /// How late, at most, evenly spread.
    pub late_by: Duration,
    /// Share of packets lost by chance.
    pub loss: f64,
    /// Share of packets that arrive twice.
    pub duplicate: f64,
    /// Share of packets that arrive with one bit the other way round.
    pub damage: f64,
    /// Largest packet that passes, in bytes; larger ones vanish.
    pub mtu: usize,
    /// Bytes a second that pass the bottleneck; infinite if there is none.
    pub rate: f64,
    /// Bytes that wait for the rate before more are dropped.
    pub queue: u64,
    /// Bytes that wait above which ECN-capable packets are marked.
    pub mark_above: u64,
    /// Packets that are ECN-capable vanish.
    pub drops_ecn: bool,
    /// Nothing passes.
    pub cut: bool,
}

impl Conditions {
    /// Everything arrives at once.
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

    /// With a bottleneck of so many megabits a second, before which so many bytes wait at most.
    #[must_use]
    pub const fn bottleneck(self, mbit: f64, queue: u64) -> Self {
        Self { rate: mbit * 125_000.0, queue, ..self }
    }

    /// With a share of packets that is late, by up to `late_by`.
    #[must_use]
    pub const fn late(self, late: f64, late_by: Duration) -> Self {
        Self { late, late_by, ..self }
    }
}

/// What became of the packets of one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that were sent.
    pub sent: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Vanished in a cut.
    pub cut: u64,
    /// Vanished because they were too large.
    pub too_large: u64,
    /// Vanished because they were ECN-capable.
    pub ecn_dropped: u64,
    /// Dropped because the queue was full.
    pub overflowed: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Given the mark of congestion.
    pub marked: u64,
    /// Sent on twice.
    pub duplicated: u64,
    /// Sent on with a wrong bit; each copy counts.
    pub damaged: u64,
    /// Bytes that each packet found waiting, summed up.
    pub waiting: u64,
    /// The most bytes that a packet found waiting.
    pub most_waiting: u64,
}

/// One copy of a packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When.
    pub at: Duration,
    /// With the mark of congestion.
    pub marked: bool,
    /// The bit that is the other way round.
    pub flipped: Option<u64>,
}

impl Delivery {
    /// The packet as it arrives.
    #[must_use]
    pub fn packet(&self, sent: &[u8]) -> Vec<u8> {
        let mut packet = sent.to_vec();
        if let Some(bit) = self.flipped {
            packet[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        packet
    }
}

/// One direction of a network. A packet meets, in this order: a cut, the largest size, the queue
/// before the bottleneck (where it waits, is marked or dropped), loss, duplication, delay.
///
/// A path knows lengths and times only: whoever [sends](Self::send) puts what arrives, and when,
/// into an [`EventQueue`](crate::EventQueue).
#[derive(Clone, Debug)]
pub struct Path {
    /// What it does to packets; may change at any time.
    pub conditions: Conditions,
    /// What happened so far.
    pub counts: Counts,
    rng: Rng,
    /// When the bottleneck has sent everything that waits for it.
    idle_at: Duration,
}

impl Path {
    /// An empty path whose chances follow from `seed`.
    #[must_use]
    pub fn new(conditions: Conditions, seed: u64) -> Self {
        let (counts, idle_at) = (Counts::default(), Duration::ZERO);
        Self { conditions, counts, rng: Rng::new(seed), idle_at }
    }

    /// Bytes that wait before the bottleneck, at its rate of now.
    #[must_use]
    pub fn waiting(&self, now: Duration) -> f64 {
        match self.conditions.rate {
            f64::INFINITY => 0.0,
            rate => self.idle_at.saturating_sub(now).as_secs_f64() * rate,
        }
    }

    /// Takes a packet of `len` bytes in; `ecn` if it may be marked. Gives its copies that arrive:
    /// none, one or two.
    pub fn send(
        &mut self,
        now: Duration,
        len: usize,
        ecn: bool,
    ) -> impl Iterator<Item = Delivery> + use<> {
        let mut copies = [None; 2];
        if let Some((leaves, marked)) = self.admit(now, len, ecn) {
            let twice = self.rng.chance(self.conditions.duplicate);
            self.counts.duplicated += u64::from(twice);
            copies[0] = Some(self.travel(leaves, len, marked));
            copies[1] = twice.then(|| self.travel(leaves, len, marked));
        }
        copies.into_iter().flatten()
    }

    /// When a packet leaves the bottleneck, and whether marked, if nothing becomes of it before.
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

    /// When the bottleneck has let a packet go, and whether marked; nothing if the queue is full.
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

    fn travel(&mut self, leaves: Duration, len: usize, marked: bool) -> Delivery {
        let Conditions { delay, jitter, late, late_by, damage, .. } = self.conditions;
        let mut at = leaves + delay + self.rng.time_below(jitter);
        if self.rng.chance(late) {
            at += self.rng.time_below(late_by);
        }
        let flipped = (len > 0 && self.rng.chance(damage)).then(|| self.rng.below(8 * len as u64));
        self.counts.damaged += u64::from(flipped.is_some());
        Delivery { at, marked, flipped }
    }
}

#[cfg(test)]
mod tests;
