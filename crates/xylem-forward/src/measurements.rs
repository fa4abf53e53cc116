//! Round trips by prefix and face, by which the ASF and access strategies rank next hops.
//!
//! There is one entry for each prefix and face, so each holds two numbers of 32 bits, where `xylem_congestion::Rtt` has
//! four of 64. The averaging is the same.

/// Round trips over one face for names under one prefix (RFC 6298). Under face number 0 it holds the time of the
/// prefix's next probe instead.
#[derive(Debug, Clone, Copy, Default)]
pub struct NextHopMeasurement {
    /// In microseconds; 0 before the first answer.
    srtt: u32,
    variation: u32,
    /// Number of unanswered Interests in a row.
    silent: u8,
    /// The last answer was a Nack.
    refused: bool,
    /// In microseconds of the forwarder's clock.
    pub(crate) next_probe: u64,
}

const INITIAL_RTO: u64 = 1_000_000;
const MIN_RTO: u64 = 200_000;

/// A next hop's rank; the lowest is tried first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NextHopRank {
    Measured(u32),
    Unknown,
    TimedOut,
}

impl NextHopMeasurement {
    /// `max_silent`: number of unanswered Interests in a row that makes a next hop the last to be tried.
    pub(crate) fn rank(&self, max_silent: u8) -> NextHopRank {
        match (self.refused || self.silent >= max_silent, self.srtt) {
            (true, _) => NextHopRank::TimedOut,
            (false, 0) => NextHopRank::Unknown,
            (false, srtt) => NextHopRank::Measured(srtt),
        }
    }

    /// Records an answer after `rtt` microseconds.
    pub(crate) fn answered(&mut self, rtt: u64) {
        let rtt = u32::try_from(rtt).unwrap_or(u32::MAX).max(1);
        if self.srtt == 0 {
            (self.srtt, self.variation) = (rtt, rtt / 2);
        } else {
            let (mean, variation) =
                xylem_congestion::smoothed(self.srtt.into(), self.variation.into(), rtt.into());
            // Means of 32-bit numbers fit into 32 bits.
            self.srtt = u32::try_from(mean).unwrap_or(u32::MAX).max(1);
            self.variation = u32::try_from(variation).unwrap_or(u32::MAX);
        }
        (self.silent, self.refused) = (0, false);
    }

    /// Records a missing answer.
    pub(crate) fn unanswered(&mut self) {
        self.silent = self.silent.saturating_add(1);
    }

    /// Records a Nack.
    pub(crate) fn refused(&mut self) {
        self.refused = true;
    }

    /// Microseconds after which an answer counts as missing.
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
    fn next_hops_are_ranked_by_their_answers() {
        let mut fast = NextHopMeasurement::default();
        assert_eq!((fast.rank(3), fast.timeout()), (NextHopRank::Unknown, INITIAL_RTO));
        fast.answered(80_000);
        assert_eq!((fast.rank(3), fast.timeout()), (NextHopRank::Measured(80_000), 240_000));
        let mut slow = fast;
        slow.answered(800_000);
        assert!(fast.rank(3) < slow.rank(3) && slow.rank(3) < NextHopRank::Unknown);
        slow.unanswered();
        slow.unanswered();
        assert!(slow.rank(3) < NextHopRank::TimedOut && slow.rank(2) == NextHopRank::TimedOut);
        slow.unanswered();
        assert_eq!(slow.rank(3), NextHopRank::TimedOut);
        slow.answered(80_000);
        assert!(slow.rank(3) < NextHopRank::Unknown);
        slow.answered(u64::MAX);
        slow.refused();
        assert_eq!(slow.rank(3), NextHopRank::TimedOut);
    }
}
