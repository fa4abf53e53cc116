//! Cover: datagrams that leave when there is nothing to send.

use core::time::Duration;

use super::timing::{MAX_BEHIND, SendTiming};
use crate::kdf::LinkRng;

/// Cover never exceeds its rate by more than this factor for long, nor by more than `MAX_AHEAD` datagrams at once.
const MAX_FACTOR: u32 = 2;
const MAX_AHEAD: u32 = 16;

/// Cover traffic: datagrams of padding, which no observer can tell from others.
///
/// Cover is no sign of life: it neither keeps a link up nor puts off its idle timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cover {
    /// No cover.
    #[default]
    None,
    /// A constant rate: at each interval as many datagrams leave as the profile's `burst` states, real ones as far as
    /// there are any. Real datagrams wait for the interval; it replaces the profile's timing.
    Constant {
        /// Time between two moments.
        interval: Duration,
        /// Stops this long after the last packet; `None`: never.
        rest: Option<Duration>,
    },
    /// A Poisson process beside the real datagrams: at each of its moments a datagram leaves, a real one if one waits
    /// for its own moment.
    Poisson {
        /// Mean time between two moments.
        mean: Duration,
        /// Stops this long after the last packet; `None`: never.
        rest: Option<Duration>,
    },
}

impl Cover {
    /// The same cover with times limited to the supported range.
    pub(crate) fn bounded(self) -> Self {
        match self {
            Self::None => self,
            Self::Constant { interval, rest } => {
                Self::Constant { interval: SendTiming::Fixed(interval).mean(), rest }
            }
            Self::Poisson { mean, rest } => {
                Self::Poisson { mean: SendTiming::Exponential { mean }.mean(), rest }
            }
        }
    }

    /// Mean time between two moments; `None` without cover.
    #[must_use]
    pub fn gap(self) -> Option<Duration> {
        match self.bounded() {
            Self::None => None,
            Self::Constant { interval, .. } => Some(interval),
            Self::Poisson { mean, .. } => Some(mean),
        }
    }
}

/// The moments of Poisson cover.
#[derive(Debug)]
pub(super) struct Moments {
    timing: SendTiming,
    /// `None` while it rests.
    next: Option<Duration>,
    /// When the next datagram would be due at the highest allowed rate (RFC 2697's bucket, kept as a time).
    earliest: Duration,
}

impl Moments {
    pub(super) fn new(mean: Duration, now: Duration, rng: &mut LinkRng) -> Self {
        let timing = SendTiming::Exponential { mean };
        Self { timing, next: Some(now + timing.gap(rng)), earliest: now }
    }

    pub(super) fn next(&self) -> Option<Duration> {
        self.next
    }

    /// Records that a packet was sent or has arrived.
    pub(super) fn wake(&mut self, now: Duration, rng: &mut LinkRng) {
        self.next.get_or_insert_with(|| now + self.timing.gap(rng));
    }

    /// Returns whether a datagram is due. `rests`: there was no packet for long enough.
    pub(super) fn is_due(&mut self, now: Duration, rests: bool, rng: &mut LinkRng) -> bool {
        let Some(next) = self.next.filter(|next| now >= *next) else { return false };
        if rests {
            self.next = None;
            return false;
        }
        let from = if now - next > MAX_BEHIND { now } else { next };
        self.next = Some(from + self.timing.gap(rng));
        let step = self.timing.mean() / MAX_FACTOR;
        if self.earliest > now + step * MAX_AHEAD {
            return false;
        }
        self.earliest = self.earliest.max(now) + step;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The gaps are exponential (Kolmogorov-Smirnov, as in `timing`), so the rate limit does not distort them.
    #[test]
    fn cover_is_a_poisson_process() {
        let mut rng = LinkRng::new(&[5; 32]);
        let mut moments = Moments::new(20 * MS, Duration::ZERO, &mut rng);
        let (mut gaps, mut last) = (Vec::new(), Duration::ZERO);
        while gaps.len() < 10_000 {
            let now = moments.next().unwrap();
            assert!(moments.is_due(now, false, &mut rng));
            gaps.push((now - last).as_secs_f64() / 0.02);
            last = now;
        }
        gaps.sort_by(f64::total_cmp);
        let n = gaps.len() as f64;
        let distance = gaps.iter().enumerate().map(|(i, gap)| {
            let wanted = 1.0 - (-gap).exp();
            (wanted - i as f64 / n).abs().max((wanted - (i + 1) as f64 / n).abs())
        });
        assert!(distance.fold(0.0, f64::max) < 2.0 / n.sqrt());
    }

    /// A caller that polls all the time, or after a long sleep, gets no more than the rate.
    #[test]
    fn the_rate_has_a_limit() {
        let mut rng = LinkRng::new(&[5; 32]);
        let mut moments = Moments::new(MS, Duration::ZERO, &mut rng);
        let mut ask = |now: Duration| {
            let mut sent = 0;
            while moments.next().unwrap() <= now {
                sent += u32::from(moments.is_due(now, false, &mut rng));
            }
            sent
        };
        let sent: u32 = (0..10_000).map(|t| ask(t * MS)).sum();
        assert!((5_000..20_000 + 16).contains(&sent), "{sent}");
        assert!(ask(3_600_000 * MS) <= 16, "an hour is not made up for");
    }
}
