//! [`DhSampler`]: chooses which of many datagrams get a Diffie-Hellman, where only that can tell genuine from forged.
//!
//! An attacker that knows one of our ids and the envelope can make us compute as often as the line carries. A limit in
//! order of arrival would exclude the genuine message, because forgeries may come just before it. So beyond a number
//! each datagram is taken at random, at a rate that follows from how many come. The genuine message is sent more than
//! once, so it gets its share.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::time::Duration;

use crate::kdf::LinkRng;

/// Interval in which datagrams are counted.
const COUNTED: Duration = Duration::from_millis(50);
/// Datagrams that are always taken in an interval, whatever their sender.
const TAKEN: usize = 250;

/// Recent datagrams, counted.
pub(super) struct DhSampler {
    rng: LinkRng,
    /// Index of the current interval.
    time: u128,
    count: usize,
    before: usize,
}

impl DhSampler {
    pub(super) fn new(seed: &[u8; 32]) -> Self {
        Self { rng: LinkRng::new(seed), time: 0, count: 0, before: 0 }
    }

    /// Counts one datagram; returns whether to process it.
    pub(super) fn samples(&mut self, now: Duration) -> bool {
        let time = now.as_millis().checked_div(COUNTED.as_millis()).unwrap_or(0);
        if time != self.time {
            self.before = if time == self.time.saturating_add(1) { self.count } else { 0 };
            (self.time, self.count) = (time, 0);
        }
        self.count = self.count.saturating_add(1);
        let many = self.before.max(self.count);
        many <= TAKEN || self.rng.below(many) < TAKEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_datagrams_are_all_taken_and_many_at_random() {
        let mut share = DhSampler::new(&[1; 32]);
        let at = |ms: u64| Duration::from_millis(ms);
        assert!((0..TAKEN).all(|_| share.samples(at(1))));
        // 50,000 a second, for two seconds: all are taken in the first interval, and a tenth later.
        let taken = (50..2_050).map(|ms| (0..50).filter(|_| share.samples(at(ms))).count());
        let taken: usize = taken.sum();
        assert!((9_000..13_000).contains(&taken), "{taken}");
        // The share is the same wherever in an interval a datagram comes.
        let last = (2_050..12_050).filter(|ms| {
            for _ in 0..49 {
                share.samples(at(*ms));
            }
            share.samples(at(*ms))
        });
        let last = last.count();
        assert!((800..1_200).contains(&last), "{last}");
        assert!(share.samples(at(20_000)), "it is over");
    }
}
