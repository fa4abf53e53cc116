//! When startup has found the bandwidth (draft section 5.3.1): where it no longer grows, or where a queue stays.
//!
//! The queue is not in the draft, which waits for losses or for three rounds: what overflows until then is sent in
//! vain. As in HyStart++ (RFC 9406) a round whose smallest round trip is longer than that of the path without a queue is
//! a reason for caution. From then on no more is sent than arrives; where a queue stays nevertheless, what arrives is what
//! the path carries. If it goes, it was another flow's, and startup goes on.

use core::time::Duration;

use crate::delivery::Sample;

/// Section 5.3.1.2: startup ends after so many rounds with less than a quarter more bandwidth.
const FULL_BW_ROUNDS: u32 = 3;
/// Or after so many without a queue: then what kept the bandwidth from growing was chance.
const FULL_BW_ROUNDS_CLEAR: u32 = 10;
const FULL_BW_GROWTH: f64 = 1.25;
/// RFC 9406 section 4.3: so many round trips make the smallest of a round count. There is a queue where it is longer by
/// an eighth, within bounds.
pub(super) const SAMPLES: u32 = 8;
const LONGER_BY: u32 = 8;
const LONGER_LEAST: Duration = Duration::from_millis(4);
const LONGER_MOST: Duration = Duration::from_millis(16);
/// Rounds of caution after which a queue is there to stay.
const CAUTIOUS_ROUNDS: u32 = 2;

/// Whether the bandwidth has stopped growing (section 5.3.1.2): in startup, and in each probe.
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

    /// The bandwidth has not grown for a round or more.
    pub(super) fn has_stopped(&self) -> bool {
        self.rounds > 0
    }

    /// A round has ended; `clear`: without a queue, on a path that loses by chance.
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

/// The smallest round trip of a round of startup, and for how many rounds there has been a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Caution {
    least: Option<Duration>,
    samples: u32,
    /// `None`: there is none.
    rounds: Option<u32>,
}

impl Caution {
    /// No more is to be sent than arrives.
    pub(super) fn is_on(&self) -> bool {
        self.rounds.is_some()
    }

    /// A round trip, `min` without a queue, as the first of a round or not. Returns whether a queue is there to stay.
    /// `enough`: how many of them tell.
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

    /// A round of twenty answers, of which every fifth took so long and the others longer; whether it was the last.
    fn round(caution: &mut Caution, least: u64) -> bool {
        (0..20).fold(false, |ends, i| {
            let rtt = if i % 5 == 4 { least } else { 500 };
            caution.on_round_trip(ms(rtt), ms(100), i == 0, SAMPLES) || ends
        })
    }

    #[test]
    fn a_queue_that_stays_ends_startup() {
        let mut caution = Caution::default();
        assert!(!round(&mut caution, 105) && !caution.is_on(), "an eighth is 12.5 ms");
        assert!(!round(&mut caution, 120) && caution.is_on());
        assert!(!round(&mut caution, 120) && round(&mut caution, 120));
    }

    #[test]
    fn a_queue_that_goes_does_not() {
        let mut caution = Caution::default();
        for _ in 0..20 {
            assert!(!round(&mut caution, 150) && !round(&mut caution, 140) && caution.is_on());
            assert!(!round(&mut caution, 110) && !caution.is_on());
        }
        assert!((0..7).all(|_| !caution.on_round_trip(ms(200), ms(100), false, SAMPLES)));
        assert!(!caution.is_on(), "few of a round say little");
    }
}
