//! Ends startup when it has found the bandwidth (draft section 5.3.1): when it no longer grows, or when a queue stays.
//!
//! The second condition is not in the draft, which waits for losses or for three rounds; packets that overflow until
//! then are wasted. As in HyStart++ (RFC 9406), caution begins with a round in which the smallest round trip is longer
//! than that of the path without a queue. From then on the flow sends no faster than packets arrive. If the queue stays
//! all the same, the delivery rate is the path's bandwidth. If it goes, it was another flow's, and startup continues.

use core::time::Duration;

use crate::delivery::Sample;

/// Section 5.3.1.2: startup ends after this many rounds in which the bandwidth grew by less than a quarter.
const FULL_BW_ROUNDS: u32 = 3;
/// Or after this many rounds without a queue: then random loss kept the bandwidth from growing.
const FULL_BW_ROUNDS_CLEAR: u32 = 10;
const FULL_BW_GROWTH: f64 = 1.25;
/// RFC 9406 section 4.3: number of round trips from which the smallest of a round counts. There is a queue if it is
/// longer by an eighth, within bounds.
pub(super) const SAMPLES: u32 = 8;
const LONGER_BY: u32 = 8;
const LONGER_LEAST: Duration = Duration::from_millis(4);
const LONGER_MOST: Duration = Duration::from_millis(16);
/// Rounds of caution after which a queue is taken to stay.
const CAUTIOUS_ROUNDS: u32 = 2;

/// Whether the bandwidth has stopped growing (section 5.3.1.2), in startup and in each probe.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullBw {
    pub(super) bw: f64,
    rounds: u32,
    pub(super) now: bool,
    pub(super) reached: bool,
}

impl FullBw {
    pub(super) fn reset(&mut self) {
        (self.bw, self.rounds, self.now) = (0.0, 0, false);
    }

    /// Returns whether the bandwidth has not grown for a round or more.
    pub(super) fn has_stopped(&self) -> bool {
        self.rounds > 0
    }

    /// Ends a round. `clear` means that there is no queue, on a path that loses at random.
    pub(super) fn end_round(&mut self, sample: &Sample, clear: bool) {
        let Some(rate) = sample.rate else { return };
        if self.now || sample.app_limited {
            return;
        }
        if rate >= self.bw * FULL_BW_GROWTH {
            self.reset();
            self.bw = rate;
            return;
        }
        self.rounds += 1;
        self.now = self.rounds >= if clear { FULL_BW_ROUNDS_CLEAR } else { FULL_BW_ROUNDS };
        self.reached |= self.now;
    }
}

/// The smallest round trip of a round of startup, and the number of rounds with a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StartupCaution {
    least: Option<Duration>,
    samples: u32,
    /// `None` without a queue.
    rounds: Option<u32>,
}

impl StartupCaution {
    /// Returns whether the flow must not send faster than packets arrive.
    pub(super) fn is_on(&self) -> bool {
        self.rounds.is_some()
    }

    /// Adds a round trip, the first of a round if `new_round`; `min` is the one without a queue, and `enough` round
    /// trips suffice for a decision. Returns whether a queue stays.
    pub(super) fn on_round_trip(
        &mut self,
        rtt: Duration,
        min: Duration,
        new_round: bool,
        enough: u32,
    ) -> bool {
        if new_round {
            self.rounds = self.rounds.map(|rounds| rounds + 1);
        }
        if new_round && self.samples >= enough {
            (self.least, self.samples) = (None, 0);
        }
        let least = self.least.map_or(rtt, |least| least.min(rtt));
        (self.least, self.samples) = (Some(least), self.samples + 1);
        if least < min + (min / LONGER_BY).clamp(LONGER_LEAST, LONGER_MOST) {
            self.rounds = None;
        } else if self.samples >= enough {
            return *self.rounds.get_or_insert(0) >= CAUTIOUS_ROUNDS;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A round of twenty answers, of which every fifth takes `least` ms and the others longer. Returns whether startup
    /// ends.
    fn round(caution: &mut StartupCaution, least: u64) -> bool {
        (0..20).fold(false, |ends, i| {
            let rtt = if i % 5 == 4 { least } else { 500 };
            caution.on_round_trip(ms(rtt), ms(100), i == 0, SAMPLES) || ends
        })
    }

    #[test]
    fn a_queue_that_stays_ends_startup() {
        let mut caution = StartupCaution::default();
        assert!(!round(&mut caution, 105) && !caution.is_on(), "an eighth is 12.5 ms");
        assert!(!round(&mut caution, 120) && caution.is_on());
        assert!(!round(&mut caution, 120) && round(&mut caution, 120));
    }

    #[test]
    fn a_queue_that_drains_does_not_end_startup() {
        let mut caution = StartupCaution::default();
        for _ in 0..20 {
            assert!(!round(&mut caution, 150) && !round(&mut caution, 140) && caution.is_on());
            assert!(!round(&mut caution, 110) && !caution.is_on());
        }
        assert!((0..7).all(|_| !caution.on_round_trip(ms(200), ms(100), false, SAMPLES)));
        assert!(!caution.is_on(), "few of a round say little");
    }
}
