//! How long answers took, by prefix and face: what the ASF strategy ranks next hops by.
//!
//! There is one entry for each prefix and face, so that it keeps two numbers of 32 bits where
//! `xylem_congestion::Rtt` has four of 64; the averaging is the same.

/// Round trips over one face for names under one prefix (RFC 6298), or, under the number 0 instead
/// of a face's, when that prefix is probed next.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measurement {
    /// Microseconds; 0 before the first answer.
    srtt: u32,
    variation: u32,
    /// Questions in a row without an answer.
    silent: u8,
    /// It has said that it has no answer.
    refused: bool,
    /// Microseconds of the forwarder's clock.
    pub(crate) next_probe: u64,
}

const INITIAL_RTO: u64 = 1_000_000;
const MIN_RTO: u64 = 200_000;

/// A way's rank; the least is tried first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Measured(u32),
    Unknown,
    TimedOut,
}

impl Measurement {
    /// `max_silent`: questions in a row without an answer that make a way the last to be tried.
    pub(crate) fn rank(&self, max_silent: u8) -> Rank {
        match (self.refused || self.silent >= max_silent, self.srtt) {
            (true, _) => Rank::TimedOut,
            (false, 0) => Rank::Unknown,
            (false, srtt) => Rank::Measured(srtt),
        }
    }

    /// An answer came after so many microseconds.
    pub(crate) fn answered(&mut self, rtt: u64) {
        let rtt = u32::try_from(rtt).unwrap_or(u32::MAX).max(1);
        if self.srtt == 0 {
            (self.srtt, self.variation) = (rtt, rtt / 2);
        } else {
            let (mean, variation) =
                xylem_congestion::smoothed(self.srtt.into(), self.variation.into(), rtt.into());
            // Means of numbers of 32 bits.
            self.srtt = u32::try_from(mean).unwrap_or(u32::MAX).max(1);
            self.variation = u32::try_from(variation).unwrap_or(u32::MAX);
        }
        (self.silent, self.refused) = (0, false);
    }

    /// No answer came in time.
    pub(crate) fn unanswered(&mut self) {
        self.silent = self.silent.saturating_add(1);
    }

    /// A refusal came.
    pub(crate) fn refused(&mut self) {
        self.refused = true;
    }

    /// Microseconds after which no answer is one.
    pub(crate) fn timeout(&self) -> u64 {
        match self.srtt {
            0 => INITIAL_RTO,
            srtt => (u64::from(srtt) + 4 * u64::from(self.variation)).max(MIN_RTO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_ranked_by_what_they_did() {
        let mut fast = Measurement::default();
        assert_eq!((fast.rank(3), fast.timeout()), (Rank::Unknown, INITIAL_RTO));
        fast.answered(80_000);
        assert_eq!((fast.rank(3), fast.timeout()), (Rank::Measured(80_000), 240_000));
        let mut slow = fast;
        slow.answered(800_000);
        assert!(fast.rank(3) < slow.rank(3) && slow.rank(3) < Rank::Unknown);
        slow.unanswered();
        slow.unanswered();
        assert!(slow.rank(3) < Rank::TimedOut && slow.rank(2) == Rank::TimedOut);
        slow.unanswered();
        assert_eq!(slow.rank(3), Rank::TimedOut);
        slow.answered(80_000);
        assert!(slow.rank(3) < Rank::Unknown);
        slow.answered(u64::MAX);
        slow.refused();
        assert_eq!(slow.rank(3), Rank::TimedOut);
    }
}
