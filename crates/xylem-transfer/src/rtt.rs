//! Round-trip time of one peer: RFC 6298's smoothed mean and deviation, and the smallest seen.

use core::time::Duration;

/// RFC 6298 section 2.1: the timeout before the first sample.
const INITIAL_RTO: Duration = Duration::from_secs(1);
/// Timers below this fire for scheduling jitter, not for loss (RFC 9002 section 6.1.2).
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);
/// A retransmission should come within the Interest's lifetime, so no wait is longer than this.
pub(crate) const MAX_RTO: Duration = Duration::from_secs(4);

#[derive(Clone, Debug, Default)]
pub(crate) struct Rtt {
    srtt: Option<Duration>,
    var: Duration,
    min: Option<Duration>,
    latest: Duration,
}

impl Rtt {
    /// Takes one unambiguous sample (Karn: never one of a request that was asked twice).
    pub(crate) fn sample(&mut self, rtt: Duration) {
        self.latest = rtt;
        self.min = Some(self.min.map_or(rtt, |m| m.min(rtt)));
        match self.srtt {
            None => {
                self.srtt = Some(rtt);
                self.var = rtt / 2;
            }
            Some(srtt) => {
                self.var = (self.var * 3 + srtt.abs_diff(rtt)) / 4;
                self.srtt = Some((srtt * 7 + rtt) / 8);
            }
        }
    }

    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.srtt
    }

    pub(crate) fn min(&self) -> Option<Duration> {
        self.min
    }

    /// The wait after which an unanswered tail is probed: SRTT + 4 deviations, doubled per `backoff`.
    pub(crate) fn probe_timeout(&self, backoff: u32) -> Duration {
        let base = match self.srtt {
            Some(srtt) => srtt + (self.var * 4).max(GRANULARITY),
            None => INITIAL_RTO,
        };
        // A doubled wait for jitter on links of a few microseconds: two granules at least.
        (base.max(GRANULARITY * 2) * (1 << backoff.min(6))).min(MAX_RTO)
    }

    /// How long after its sending a request counts as lost once a later one was answered (RACK, RFC 8985):
    /// a round trip and a reordering window of `quarters` quarter round trips, 1 ms at least.
    pub(crate) fn loss_delay(&self, quarters: u32) -> Duration {
        let srtt = self.srtt.unwrap_or(INITIAL_RTO);
        let window = (srtt * quarters.clamp(1, 4) / 4).max(GRANULARITY);
        srtt.max(self.latest) + window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn follows_rfc_6298() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.probe_timeout(0), INITIAL_RTO);
        rtt.sample(ms(100));
        assert_eq!(rtt.probe_timeout(0), ms(300)); // 100 + 4 * 50
        rtt.sample(ms(180));
        assert_eq!((rtt.smoothed(), rtt.min()), (Some(ms(110)), Some(ms(100))));
        assert_eq!(rtt.var, Duration::from_micros(57_500)); // 3/4 * 50 + 1/4 * 80
        assert_eq!(rtt.probe_timeout(1), (ms(110) + ms(230)) * 2);
    }

    #[test]
    fn waits_are_bounded_below_and_above() {
        let mut rtt = Rtt::default();
        rtt.sample(Duration::from_micros(20));
        assert!(rtt.probe_timeout(0) >= ms(2));
        assert!(rtt.loss_delay(1) >= GRANULARITY);
        assert_eq!(
            rtt.probe_timeout(60),
            Rtt { srtt: Some(ms(70)), ..rtt }.probe_timeout(60).min(ms(128))
        );
        let mut slow = Rtt::default();
        slow.sample(Duration::from_secs(3));
        assert_eq!(slow.probe_timeout(9), MAX_RTO);
    }
}
