//! Round-trip time of one path, and the timers that follow from it.

use core::time::Duration;

/// RFC 6298 section 2.1: the timeout before the first sample.
const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Timers below this fire for scheduling jitter, not for loss (RFC 9002 section 6.1.2).
pub const GRANULARITY: Duration = Duration::from_millis(1);
/// Doubling a timeout ends here; a path that is slower by itself waits longer.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// Smoothed mean and deviation (RFC 6298, RFC 9002 section 5), the latest sample and the smallest.
#[derive(Clone, Debug, Default)]
pub struct Rtt {
    smoothed: Option<Duration>,
    var: Duration,
    min: Duration,
    latest: Duration,
}

impl Rtt {
    /// Takes one unambiguous sample (Karn: never one of what was sent twice), and how long the other
    /// side says that it held the answer back: zero where it does not say, and no more than it may.
    pub fn sample(&mut self, rtt: Duration, ack_delay: Duration) {
        self.latest = rtt;
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.min, self.var) = (Some(rtt), rtt, rtt / 2);
            return;
        };
        self.min = self.min.min(rtt);
        // RFC 9002 section 5.3: a delay that would bring the sample below the smallest is not believed.
        let adjusted = if rtt >= self.min + ack_delay { rtt - ack_delay } else { rtt };
        self.var = (self.var * 3 + smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = Some((smoothed * 7 + adjusted) / 8);
    }

    /// The mean, once there is a sample.
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// The smallest sample, once there is one.
    pub fn min(&self) -> Option<Duration> {
        self.smoothed.map(|_| self.min)
    }

    /// The latest sample as it was taken, the other side's delay included; zero before there is one.
    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// The mean deviation.
    pub fn var(&self) -> Duration {
        self.var
    }

    /// The wait after which an unanswered tail is probed (RFC 9002 section 6.2.1): mean and four
    /// deviations, and how long the other side may hold back an answer; doubled per `backoff`, up to a
    /// minute.
    pub fn probe_timeout(&self, max_ack_delay: Duration, backoff: u32) -> Duration {
        let base = match self.smoothed {
            Some(smoothed) => smoothed + (self.var * 4).max(GRANULARITY) + max_ack_delay,
            None => INITIAL_TIMEOUT,
        };
        // Jitter on links of a few microseconds asks for two granules at least.
        let base = base.max(GRANULARITY * 2);
        (base * (1 << backoff.min(6))).min(MAX_TIMEOUT.max(base))
    }

    /// How long after its sending a packet counts as lost once a later one has arrived (RACK,
    /// RFC 8985): a round trip and a reordering window of `quarters` (1 to 4) quarter round trips, 1 ms
    /// at least.
    pub fn loss_delay(&self, quarters: u32) -> Duration {
        let smoothed = self.smoothed.unwrap_or(INITIAL_TIMEOUT);
        let window = (smoothed * quarters.clamp(1, 4) / 4).max(GRANULARITY);
        smoothed.max(self.latest) + window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn follows_rfc_6298_and_9002() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.probe_timeout(ms(25), 0), INITIAL_TIMEOUT);
        assert_eq!((rtt.smoothed(), rtt.min()), (None, None));
        rtt.sample(ms(100), ms(0));
        assert_eq!(rtt.probe_timeout(ms(25), 0), ms(325)); // 100 + 4 * 50 + 25
        rtt.sample(ms(180), ms(0));
        assert_eq!((rtt.smoothed(), rtt.min()), (Some(ms(110)), Some(ms(100))));
        assert_eq!(rtt.var(), Duration::from_micros(57_500)); // 3/4 * 50 + 1/4 * 80
        assert_eq!(rtt.probe_timeout(ms(0), 1), (ms(110) + ms(230)) * 2);
        rtt.sample(ms(120), ms(10)); // 110 ms of it on the way
        assert_eq!((rtt.smoothed(), rtt.latest()), (Some(ms(110)), ms(120)));
        rtt.sample(ms(104), ms(30)); // nobody was ever that fast: not believed
        assert_eq!(rtt.smoothed(), Some((ms(110) * 7 + ms(104)) / 8));
    }

    #[test]
    fn waits_are_bounded_below_and_above() {
        let mut rtt = Rtt::default();
        rtt.sample(Duration::from_micros(20), ms(0));
        assert!(rtt.probe_timeout(ms(0), 0) >= ms(2));
        assert!(rtt.loss_delay(1) >= GRANULARITY);
        assert_eq!(rtt.probe_timeout(ms(0), 60), ms(128));
        let mut slow = Rtt::default();
        slow.sample(Duration::from_secs(3), ms(0));
        assert_eq!(slow.probe_timeout(ms(0), 9), MAX_TIMEOUT);
    }
}
