//! A token bucket that spreads sending over the round trip.

use core::time::Duration;

/// A bucket of bytes, full at the start. Rate and burst are passed with each call, as they change.
#[derive(Clone, Debug, Default)]
pub struct Pacer {
    /// Bytes taken from a full bucket and not refilled.
    debt: f64,
    at: Duration,
}

impl Pacer {
    fn refill(&mut self, now: Duration, rate: u64) {
        let elapsed = now.saturating_sub(self.at).as_secs_f64();
        self.debt =
            if rate == u64::MAX { 0.0 } else { (self.debt - elapsed * rate as f64).max(0.0) };
        self.at = self.at.max(now);
    }

    /// Returns whether a packet may be sent now, at `rate` bytes a second (`u64::MAX`: unlimited) and at most `burst`
    /// bytes at once. The last packet of a burst may exceed it.
    pub fn ready(&mut self, now: Duration, rate: u64, burst: u64) -> bool {
        self.refill(now, rate);
        self.debt < burst as f64
    }

    /// Takes `bytes`.
    pub fn spend(&mut self, bytes: u64) {
        self.debt += bytes as f64;
    }

    /// Charges bytes that another layer sends, such as a link's repairs.
    ///
    /// - `bytes`: bytes that it sends; negative for bytes that were charged and are not sent after all.
    /// - `most`: the charge raises the debt to this many bytes at most.
    pub fn charge(&mut self, bytes: i64, most: u64) {
        self.debt = (self.debt + bytes as f64).clamp(0.0, self.debt.max(most as f64));
    }

    /// Time until `ready` returns true, at most a second; `None` if it returned true last and nothing was spent since.
    pub fn next(&self, rate: u64, burst: u64) -> Option<Duration> {
        if self.debt < burst as f64 {
            return None;
        }
        let wait = ((self.debt - burst as f64) / rate as f64).min(1.0);
        // Rounded up: a wait that is too short would only be repeated.
        Some(self.at + Duration::from_nanos((wait * 1e9) as u64 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let mut pacer = Pacer::default();
        let mut sent = 0;
        let mut now = Duration::ZERO;
        while now < Duration::from_secs(1) {
            if pacer.ready(now, 100_000, 10_000) {
                pacer.spend(1_000);
                sent += 1;
            } else {
                let next = pacer.next(100_000, 10_000).expect("not ready");
                assert!(next > now);
                now = next;
                assert!(pacer.ready(now, 100_000, 10_000));
                assert!(pacer.next(100_000, 10_000).is_none());
            }
        }
        assert!((109..=111).contains(&sent), "{sent}");
    }

    #[test]
    fn bytes_sent_elsewhere_delay_sending() {
        let second = Duration::from_secs(1);
        let mut pacer = Pacer::default();
        assert!(pacer.ready(second, 1_000, 100));
        pacer.charge(600, 5_000);
        assert!(!pacer.ready(second + second / 4, 1_000, 100));
        pacer.charge(-300, 5_000);
        assert!(pacer.ready(second + second / 4, 1_000, 100), "50 are left");
        pacer.charge(i64::MAX, 5_000);
        assert!(pacer.ready(second * 7, 1_000, 100), "a bounded debt");
        pacer.charge(i64::MIN, 5_000);
        assert!(pacer.ready(second * 7, 1_000, 1), "no credit");
        pacer.spend(100);
        assert!(!pacer.ready(second * 7, 1_000, 100));
    }

    #[test]
    fn an_unlimited_rate_never_delays() {
        let mut pacer = Pacer::default();
        for _ in 0..1_000 {
            assert!(pacer.ready(Duration::ZERO, u64::MAX, 1));
            pacer.spend(1 << 40);
        }
    }
}
