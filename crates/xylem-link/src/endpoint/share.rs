//! [`Share`]: which of many datagrams are worth a Diffie-Hellman, when only that would tell.
//!
//! Somebody who knows an id of ours and the envelope can have us compute as often as the line carries.
//! A limit that is used up by whoever comes first would shut out the genuine message, which they may
//! come just before. So beyond a number each is taken by chance, at a rate that follows from how many
//! come: the genuine one, which is sent more than once, has its share.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::time::Duration;

use crate::kdf::Rng;

/// A time in which they are counted.
const COUNTED: Duration = Duration::from_millis(50);
/// As many are taken in such a time, whoever sends them.
const TAKEN: usize = 250;

/// How many came, lately.
pub(super) struct Share {
    rng: Rng,
    /// Which of the counted times it is.
    time: u128,
    count: usize,
    before: usize,
}

impl Share {
    pub(super) fn new(seed: &[u8; 32]) -> Self {
        Self { rng: Rng::new(seed), time: 0, count: 0, before: 0 }
    }

    /// Counts one; whether it is to be looked at.
    pub(super) fn takes(&mut self, now: Duration) -> bool {
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
    fn few_are_all_taken_and_of_many_each_has_its_share() {
        let mut share = Share::new(&[1; 32]);
        let at = |ms: u64| Duration::from_millis(ms);
        assert!((0..TAKEN).all(|_| share.takes(at(1))));
        // 50,000 a second, for two seconds: those of the first time, and a tenth of the rest.
        let taken = (50..2_050).map(|ms| (0..50).filter(|_| share.takes(at(ms))).count());
        let taken: usize = taken.sum();
        assert!((9_000..13_000).contains(&taken), "{taken}");
        // Wherever in such a time one comes, its share is the same.
        let last = (2_050..12_050).filter(|ms| {
            for _ in 0..49 {
                share.takes(at(*ms));
            }
            share.takes(at(*ms))
        });
        let last = last.count();
        assert!((800..1_200).contains(&last), "{last}");
        assert!(share.takes(at(20_000)), "it is over");
    }
}
