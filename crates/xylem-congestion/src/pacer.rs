//! A token bucket: spreads what is sent over the round trip.

use core::time::Duration;

/// A bucket of bytes, full at the start; rate and burst are given anew with each question, as they
/// move.
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

    /// Whether something may be sent now, at `rate` bytes a second (`u64::MAX`: any) and `burst` bytes
    /// at most at once; the last packet of a burst may go past it.
    pub fn ready(&mut self, now: Duration, rate: u64, burst: u64) -> bool {
        self.refill(now, rate);
        self.debt < burst as f64
    }

    /// Takes `bytes`.
    pub fn spend(&mut self, bytes: u64) {
        self.debt += bytes as f64;
    }

    /// So many bytes leave beside what is spent here; negative: so many of those do not. They make a debt of `most` bytes
    /// at most.
    pub fn charge(&mut self, bytes: i64, most: u64) {
        self.debt = (self.debt + bytes as f64).clamp(0.0, self.debt.max(most as f64));
    }

    /// When `ready` holds next, a second away at most; `None` if it held when it was last asked and
    /// nothing was spent since.
    pub fn next(&self, rate: u64, burst: u64) -> Option<Duration> {
        if self.debt < burst as f64 {
            return None;
        }
        let wait = ((self.debt - burst as f64) / rate as f64).min(1.0);
        // Rounded up: a wait cut short would only be asked for again.
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
    fn what_leaves_elsewhere_is_waited_for() {
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
    fn no_rate_is_no_limit() {
        let mut pacer = Pacer::default();
        for _ in 0..1_000 {
            assert!(pacer.ready(Duration::ZERO, u64::MAX, 1));
            pacer.spend(1 << 40);
        }
    }
}
