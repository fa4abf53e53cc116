//! The round-trip time of one path, and the timers that follow from it.

use core::time::Duration;

/// Shorter timers fire for scheduling jitter, not for loss (RFC 9002 section 6.1.2).
const GRANULARITY: u64 = 1_000_000;
/// The timeout before the first sample (RFC 6298 section 2.1).
const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// The widest reordering window: four round trips.
const MAX_QUARTERS: u32 = 16;
/// Longest sample, so that sums and products of stored values stay far below 2^64 nanoseconds.
const MAX_SAMPLE: u64 = 86_400 * 1_000_000_000;

/// One step of RFC 6298 section 2.3: the mean and the mean deviation after one more sample, all in one unit and below
/// 2^60. Round trips are averaged nowhere else.
#[inline]
pub const fn smoothed(mean: u64, deviation: u64, sample: u64) -> (u64, u64) {
    ((mean * 7 + sample) / 8, (deviation * 3 + mean.abs_diff(sample)) / 4)
}

/// Limits of one protocol's probe and retransmission timeouts.
#[derive(Clone, Copy, Debug)]
pub struct TimeoutLimits {
    /// Shortest timeout, however regular the path: 2 ms absorb the jitter of two timers.
    pub least: Duration,
    /// Longest timeout, however often doubled.
    pub most: Duration,
    /// Most doublings in a row.
    pub doublings: u32,
    /// Longest time for which the other side may delay an answer.
    pub ack_delay: Duration,
}

impl TimeoutLimits {
    /// RFC 9002 section 6.2 for a path of any length, without delayed answers.
    pub const PROBE: Self = Self {
        least: Duration::from_millis(2),
        most: Duration::from_secs(60),
        doublings: 6,
        ack_delay: Duration::ZERO,
    };
}

/// Smoothed mean and deviation (RFC 6298, RFC 9002 section 5), the latest sample and the smallest one.
#[derive(Clone, Debug, Default)]
pub struct Rtt {
    /// All four in nanoseconds; `None` before the first sample.
    mean: Option<u64>,
    deviation: u64,
    min: u64,
    latest: u64,
}

impl Rtt {
    /// Adds one unambiguous sample (Karn: never one of a packet sent twice).
    ///
    /// - `rtt`: time from sending to the acknowledgement's arrival.
    /// - `ack_delay`: how long the other side reports that it delayed the acknowledgement; zero without a report. The
    ///   caller limits it to the delay that the other side may use.
    pub fn sample(&mut self, rtt: Duration, ack_delay: Duration) {
        let (rtt, ack_delay) = (nanos(rtt), nanos(ack_delay));
        self.latest = rtt;
        let Some(mean) = self.mean else {
            (self.mean, self.min, self.deviation) = (Some(rtt), rtt, rtt / 2);
            return;
        };
        self.min = self.min.min(rtt);
        // RFC 9002 section 5.3: a delay that would bring the sample below the smallest is ignored.
        let adjusted = if rtt >= self.min + ack_delay { rtt - ack_delay } else { rtt };
        let (mean, deviation) = smoothed(mean, self.deviation, adjusted);
        (self.mean, self.deviation) = (Some(mean), deviation);
    }

    /// The smoothed mean, once there is a sample.
    pub fn smoothed(&self) -> Option<Duration> {
        self.mean.map(Duration::from_nanos)
    }

    /// The smallest sample, once there is one.
    pub fn min(&self) -> Option<Duration> {
        self.mean.map(|_| Duration::from_nanos(self.min))
    }

    /// The latest sample as measured, including the other side's delay; zero before the first one.
    pub fn latest(&self) -> Duration {
        Duration::from_nanos(self.latest)
    }

    /// Time after which an unanswered packet is probed or retransmitted (RFC 6298 section 2, RFC 9002 section 6.2.1):
    /// mean, four deviations, and the longest delay of an answer; doubled per `backoff`. 1 s before the first sample.
    pub fn timeout(&self, limits: &TimeoutLimits, backoff: u32) -> Duration {
        let base = match self.mean {
            Some(mean) => {
                let wait = Duration::from_nanos(mean + (self.deviation * 4).max(GRANULARITY));
                wait.saturating_add(limits.ack_delay)
            }
            None => INITIAL_TIMEOUT,
        };
        let doubled = 1_u32 << backoff.min(limits.doublings).min(31);
        base.max(limits.least).saturating_mul(doubled).min(limits.most)
    }

    /// Number of quarter round trips, rounded up, by which `took` exceeds the mean.
    pub(crate) fn quarters_beyond(&self, took: Duration) -> u32 {
        let mean = self.mean.unwrap_or(nanos(INITIAL_TIMEOUT));
        let quarter = (mean / 4).max(1);
        u32::try_from(nanos(took).saturating_sub(mean).div_ceil(quarter)).unwrap_or(u32::MAX)
    }

    /// Time after sending at which a packet counts as lost once a later one has arrived (RACK, RFC 8985): a round trip
    /// and a reordering window of `quarters` (1 to 16) quarter round trips, at least 1 ms.
    pub fn loss_delay(&self, quarters: u32) -> Duration {
        let mean = self.mean.unwrap_or(nanos(INITIAL_TIMEOUT));
        let window = (mean * u64::from(quarters.clamp(1, MAX_QUARTERS)) / 4).max(GRANULARITY);
        Duration::from_nanos(mean.max(self.latest) + window)
    }
}

/// The timer by which unanswered packets at the tail are probed (RFC 9002 section 6.2), and the number of probes in a
/// row.
#[derive(Clone, Debug)]
pub struct ProbeTimer {
    limits: TimeoutLimits,
    /// Time of the last sending, or of the last restart.
    since: Duration,
    backoff: u32,
}

impl ProbeTimer {
    /// A timer without probes that runs from `now`.
    pub const fn new(limits: TimeoutLimits, now: Duration) -> Self {
        Self { limits, since: now, backoff: 0 }
    }

    /// Restarts the timer, after a sending or another event.
    pub fn restart(&mut self, now: Duration) {
        self.since = self.since.max(now);
    }

    /// Ends the backoff, after an arrival.
    pub fn forget_backoff(&mut self) {
        self.backoff = 0;
    }

    /// Doubles the next timeout, after the timer has fired.
    pub fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// Number of timeouts in a row.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }

    /// The current timeout, doubled for each timeout in a row.
    pub fn timeout(&self, rtt: &Rtt) -> Duration {
        rtt.timeout(&self.limits, self.backoff)
    }

    /// The timeout without backoff.
    pub fn first_timeout(&self, rtt: &Rtt) -> Duration {
        rtt.timeout(&self.limits, 0)
    }

    /// Time at which the timer fires.
    pub fn due(&self, rtt: &Rtt) -> Duration {
        self.since.saturating_add(self.timeout(rtt))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).map_or(MAX_SAMPLE, |nanos| nanos.min(MAX_SAMPLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    const AT_ONCE: TimeoutLimits = TimeoutLimits::PROBE;
    const LINK: TimeoutLimits = TimeoutLimits { ack_delay: ms(25), ..AT_ONCE };

    #[test]
    fn follows_rfc_6298_and_9002() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout(&LINK, 0), INITIAL_TIMEOUT);
        assert_eq!((rtt.smoothed(), rtt.min()), (None, None));
        rtt.sample(ms(100), ms(0));
        assert_eq!(rtt.timeout(&LINK, 0), ms(325)); // 100 + 4 * 50 + 25
        rtt.sample(ms(180), ms(0));
        assert_eq!((rtt.smoothed(), rtt.min()), (Some(ms(110)), Some(ms(100))));
        assert_eq!(rtt.deviation, 57_500_000); // 3/4 * 50 + 1/4 * 80
        assert_eq!(rtt.timeout(&AT_ONCE, 1), (ms(110) + ms(230)) * 2);
        rtt.sample(ms(120), ms(10)); // including an ack delay of 10 ms
        assert_eq!((rtt.smoothed(), rtt.latest()), (Some(ms(110)), ms(120)));
        rtt.sample(ms(104), ms(30)); // below the smallest sample, so the delay is ignored
        assert_eq!(rtt.smoothed(), Some((ms(110) * 7 + ms(104)) / 8));
    }

    #[test]
    fn timeouts_are_bounded_below_and_above() {
        let mut rtt = Rtt::default();
        rtt.sample(Duration::from_micros(20), ms(0));
        assert!(rtt.timeout(&AT_ONCE, 0) >= ms(2));
        assert!(rtt.loss_delay(1) >= ms(1));
        assert_eq!(rtt.timeout(&AT_ONCE, 60), ms(128));
        let mut slow = Rtt::default();
        slow.sample(Duration::from_secs(3), ms(0));
        assert_eq!(slow.timeout(&AT_ONCE, 9), ms(60_000));
    }

    #[test]
    fn retransmission_timeouts_follow_the_measurements() {
        const NDNLP: TimeoutLimits =
            TimeoutLimits { least: ms(200), most: ms(20_000), doublings: 7, ack_delay: ms(0) };
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout(&NDNLP, 0), ms(1000));
        rtt.sample(ms(400), ms(0)); // mean 400, deviation 200
        assert_eq!(rtt.timeout(&NDNLP, 0), ms(1200));
        rtt.sample(ms(480), ms(0)); // deviation 3/4 200 + 1/4 80 = 170, mean 7/8 400 + 1/8 480 = 410
        assert_eq!(rtt.timeout(&NDNLP, 0), ms(410 + 4 * 170));
        assert_eq!(rtt.timeout(&NDNLP, 1), ms(2 * 1090));
        assert_eq!(rtt.timeout(&NDNLP, 11), ms(20_000));
        for _ in 0..100 {
            rtt.sample(ms(1), ms(0));
        }
        assert_eq!(rtt.timeout(&NDNLP, 0), ms(200));
        assert_eq!(rtt.timeout(&NDNLP, 99), ms(20_000));
        rtt.sample(Duration::MAX, Duration::MAX);
        assert_eq!(rtt.timeout(&NDNLP, 0), ms(20_000));
        assert!(rtt.loss_delay(9) > Duration::from_secs(86_400));
    }
}
