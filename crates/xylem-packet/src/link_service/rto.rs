//! How long to wait for an acknowledgement: RFC 6298, with limits for a single link.

use core::time::Duration;

/// Before the first measurement (RFC 6298, 2.1).
const INITIAL: Duration = Duration::from_secs(1);
/// No link's delay is measured so exactly that less would be safe; NFD's limit too.
const LEAST: Duration = Duration::from_millis(200);
/// An Interest has been given up long before.
const MOST: Duration = Duration::from_secs(20);
/// Clock granularity (RFC 6298, 2.3).
const GRANULARITY: Duration = Duration::from_millis(1);

/// The retransmission timeout of one link.
#[derive(Debug, Clone)]
pub(super) struct Rto {
    /// SRTT and RTTVAR, once there is a measurement.
    measured: Option<(Duration, Duration)>,
    rto: Duration,
}

impl Default for Rto {
    fn default() -> Self {
        Rto { measured: None, rto: INITIAL }
    }
}

impl Rto {
    pub(super) fn get(&self) -> Duration {
        self.rto
    }

    /// A transmission was acknowledged after `rtt`. Every transmission has a number of its own, so
    /// it is known which one was (what Karn's rule in section 3 is for).
    pub(super) fn measure(&mut self, rtt: Duration) {
        // A day is longer than anything here; without a bound the sums below could overflow.
        let rtt = rtt.min(Duration::from_secs(86_400));
        let (srtt, var) = match self.measured {
            None => (rtt, rtt / 2),
            // alpha = 1/8, beta = 1/4.
            Some((srtt, var)) => ((srtt * 7 + rtt) / 8, (var * 3 + srtt.abs_diff(rtt)) / 4),
        };
        self.measured = Some((srtt, var));
        self.rto = (srtt + (var * 4).max(GRANULARITY)).clamp(LEAST, MOST);
    }

    /// A timeout has passed (section 5.5).
    pub(super) fn back_off(&mut self) {
        self.rto = (self.rto * 2).min(MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn timeouts_follow_the_measurements() {
        let mut rto = Rto::default();
        assert_eq!(rto.get(), ms(1000));
        rto.measure(ms(400)); // SRTT 400, RTTVAR 200
        assert_eq!(rto.get(), ms(1200));
        rto.measure(ms(480)); // RTTVAR 3/4 200 + 1/4 80 = 170, SRTT 7/8 400 + 1/8 480 = 410
        assert_eq!(rto.get(), ms(410 + 4 * 170));
        rto.back_off();
        assert_eq!(rto.get(), ms(2 * 1090));
        for _ in 0..10 {
            rto.back_off();
        }
        assert_eq!(rto.get(), MOST);
        for _ in 0..100 {
            rto.measure(ms(1));
        }
        assert_eq!(rto.get(), LEAST);
        rto.measure(Duration::MAX);
        assert_eq!(rto.get(), MOST);
    }
}
