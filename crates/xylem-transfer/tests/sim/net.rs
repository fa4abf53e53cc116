//! A path to one peer and back.

use std::time::Duration;

/// SplitMix64.
#[derive(Clone)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn chance(&mut self, p: f64) -> bool {
        ((self.next() >> 11) as f64) < p * (1u64 << 53) as f64
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

/// Both directions lose and delay alike; the rate and the queue are on the way of the Data.
#[derive(Clone)]
pub struct Net {
    /// Round trip without queueing.
    pub rtt: Duration,
    pub loss: f64,
    pub duplicate: f64,
    /// Share of packets that take up to one more `reorder_by`.
    pub reorder: f64,
    pub reorder_by: Duration,
    /// Bytes a second and bytes of queue on the way back.
    pub rate: Option<f64>,
    pub queue: f64,
    /// What waits in the queue when a packet comes from which on it is marked; and how many were, and
    /// the most that ever waited.
    pub mark_from: f64,
    pub marked: u64,
    pub most_waiting: f64,
    busy_until: Duration,
    pub tail_drops: u64,
    pub last_first: Option<Duration>,
    pub last_marked: bool,
}

impl Net {
    pub fn new(rtt_ms: u64, loss: f64) -> Self {
        Self {
            rtt: Duration::from_millis(rtt_ms),
            loss,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_by: Duration::ZERO,
            rate: None,
            queue: f64::INFINITY,
            mark_from: f64::INFINITY,
            marked: 0,
            most_waiting: 0.0,
            busy_until: Duration::ZERO,
            tail_drops: 0,
            last_first: None,
            last_marked: false,
        }
    }

    /// Bits a second, and the queue in bytes.
    pub fn rate(mut self, mbit: f64, queue: usize) -> Self {
        self.rate = Some(mbit * 125_000.0);
        self.queue = queue as f64;
        self
    }

    /// Marks what comes when this much waits already.
    pub fn mark_from(mut self, bytes: usize) -> Self {
        self.mark_from = bytes as f64;
        self
    }

    pub fn reorder(mut self, share: f64, by: Duration) -> Self {
        (self.reorder, self.reorder_by) = (share, by);
        self
    }

    pub fn duplicate(mut self, share: f64) -> Self {
        self.duplicate = share;
        self
    }

    fn travel(&mut self, leaves: Duration, rng: &mut Rng) -> Duration {
        let mut at = leaves + self.rtt / 2;
        if rng.chance(self.reorder) {
            at += Duration::from_nanos(rng.below(self.reorder_by.as_nanos() as u64));
        }
        at
    }

    /// When a packet sent to the peer arrives there: never, once, or twice.
    pub fn up(&mut self, now: Duration, _len: usize, rng: &mut Rng) -> Vec<Duration> {
        if rng.chance(self.loss) {
            return Vec::new();
        }
        let mut times = vec![self.travel(now, rng)];
        if rng.chance(self.duplicate) {
            times.push(self.travel(now, rng));
        }
        times
    }

    /// When a packet from the peer arrives here; the first time also stands in `last_first`, and
    /// whether it is marked in `last_marked`.
    pub fn down(&mut self, now: Duration, len: usize, rng: &mut Rng) -> Vec<Duration> {
        self.last_first = None;
        self.last_marked = false;
        let mut leaves = now;
        if let Some(rate) = self.rate {
            let waiting = self.busy_until.saturating_sub(now).as_secs_f64() * rate;
            if waiting + len as f64 > self.queue {
                self.tail_drops += 1;
                return Vec::new();
            }
            self.last_marked = waiting >= self.mark_from;
            self.marked += u64::from(self.last_marked);
            self.most_waiting = self.most_waiting.max(waiting);
            leaves = now.max(self.busy_until) + Duration::from_secs_f64(len as f64 / rate);
            self.busy_until = leaves;
        }
        if rng.chance(self.loss) {
            return Vec::new();
        }
        let mut times = vec![self.travel(leaves, rng)];
        if rng.chance(self.duplicate) {
            times.push(self.travel(leaves, rng));
        }
        self.last_first = times.first().copied();
        times
    }
}
