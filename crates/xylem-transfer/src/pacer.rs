//! A token bucket: spreads Interests, and so the Data they call for, over the round trip.

use core::time::Duration;

/// Full at the start; `rate` and `burst` are given anew with each question, as they move.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pacer {
    /// Tokens taken from a full bucket and not refilled.
    debt: f64,
    at: Duration,
}

impl Pacer {
    fn refill(&mut self, now: Duration, rate: f64) {
        let elapsed = now.saturating_sub(self.at).as_secs_f64();
        self.debt = (self.debt - elapsed * rate).max(0.0);
        self.at = self.at.max(now);
    }

    /// Whether something may be sent now, at `rate` tokens a second and `burst` at most at once.
    pub(crate) fn ready(&mut self, now: Duration, rate: f64, burst: f64) -> bool {
        self.refill(now, rate);
        self.debt < burst
    }

    /// Takes `tokens`.
    pub(crate) fn spend(&mut self, tokens: f64) {
        self.debt += tokens;
    }

    /// When `ready` holds next; `None` if it held when it was last asked and nothing was spent since.
    pub(crate) fn next(&self, rate: f64, burst: f64) -> Option<Duration> {
        if self.debt < burst {
            return None;
        }
        let wait = ((self.debt - burst) / rate).min(3_600.0);
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
            if pacer.ready(now, 100.0, 10.0) {
                pacer.spend(1.0);
                sent += 1;
            } else {
                let next = pacer.next(100.0, 10.0).expect("not ready");
                assert!(next > now);
                now = next;
                assert!(pacer.ready(now, 100.0, 10.0) && pacer.next(100.0, 10.0).is_none());
            }
        }
        assert!((109..=111).contains(&sent), "{sent}");
    }
}
