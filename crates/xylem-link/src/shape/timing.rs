//! Timing: datagrams leave at moments with drawn gaps between them, not when there is something to send.

use core::f64::consts::TAU;
use core::time::Duration;

use crate::kdf::LinkRng;

/// Limits of gaps, whatever a profile states.
const MIN_GAP: Duration = Duration::from_micros(1);
const MAX_GAP: Duration = Duration::from_secs(10);
/// Most draws for a gap that comes out negative.
const MAX_DRAWS: usize = 16;
/// An exponential gap is cut off at this multiple of its mean: e^-16 is one in nine million.
const MAX_MEANS: f64 = 16.0;
/// A caller that is later than this has missed the moments in between.
pub(super) const MAX_BEHIND: Duration = Duration::from_millis(50);

/// The gaps between the moments at which datagrams may leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendTiming {
    /// Datagrams leave at once.
    #[default]
    None,
    /// A constant gap.
    Fixed(Duration),
    /// Uniformly distributed between two bounds.
    Uniform {
        /// Shortest gap.
        min: Duration,
        /// Longest gap.
        max: Duration,
    },
    /// Normally distributed; a negative gap is drawn again.
    Normal {
        /// Mean gap.
        mean: Duration,
        /// Standard deviation.
        deviation: Duration,
    },
    /// Exponentially distributed: a Poisson process.
    Exponential {
        /// Mean gap.
        mean: Duration,
    },
}

impl SendTiming {
    /// The same timing with gaps within the supported limits.
    pub(crate) fn bounded(self) -> Self {
        let gap = |d: Duration| d.clamp(MIN_GAP, MAX_GAP);
        match self {
            Self::None => self,
            Self::Fixed(d) => Self::Fixed(gap(d)),
            Self::Uniform { min, max } => {
                let max = gap(max);
                Self::Uniform { min: gap(min).min(max), max }
            }
            Self::Normal { mean, deviation } => {
                Self::Normal { mean: gap(mean), deviation: deviation.min(MAX_GAP) }
            }
            Self::Exponential { mean } => Self::Exponential { mean: gap(mean) },
        }
    }

    /// The mean gap; zero for [`SendTiming::None`].
    #[must_use]
    pub fn mean(self) -> Duration {
        match self.bounded() {
            Self::None => Duration::ZERO,
            Self::Fixed(gap) => gap,
            Self::Uniform { min, max } => (min + max) / 2,
            Self::Normal { mean, .. } | Self::Exponential { mean } => mean,
        }
    }

    /// Draws a gap; the bounds are already checked. None of the sums can be NaN: logarithms are of (0, 1], and values
    /// too large or negative saturate in the cast.
    pub(crate) fn gap(self, rng: &mut LinkRng) -> Duration {
        let nanos = |d: Duration| d.as_nanos() as f64;
        let drawn = match self {
            Self::None => 0.0,
            Self::Fixed(gap) => nanos(gap),
            Self::Uniform { min, max } => nanos(min) + (nanos(max) - nanos(min)) * unit(rng),
            Self::Normal { mean, deviation } => {
                let drawn = (0..MAX_DRAWS).map(|_| nanos(mean) + nanos(deviation) * normal(rng));
                drawn.into_iter().find(|gap| *gap >= 0.0).unwrap_or(nanos(mean))
            }
            Self::Exponential { mean } => nanos(mean) * exponential(rng),
        };
        Duration::from_nanos(drawn as u64).clamp(MIN_GAP, MAX_GAP)
    }
}

/// Uniform in [0, 1), a multiple of 2^-53.
fn unit(rng: &mut LinkRng) -> f64 {
    (rng.u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Exponential with mean 1, in [0, 16].
fn exponential(rng: &mut LinkRng) -> f64 {
    (-(1.0 - unit(rng)).ln()).clamp(0.0, MAX_MEANS)
}

/// Standard normal (Box, Muller 1958), within 8.6 of zero.
fn normal(rng: &mut LinkRng) -> f64 {
    (-2.0 * (1.0 - unit(rng)).ln()).max(0.0).sqrt() * (TAU * unit(rng)).cos()
}

/// A gate that datagrams wait behind. At each moment at most `burst` of them leave; later ones wait for the next
/// moment.
#[derive(Debug)]
pub(crate) struct TimingGate {
    timing: SendTiming,
    burst: u16,
    /// The next moment.
    next: Duration,
    /// Datagrams that may still leave at the moment that has come.
    left: u16,
    /// Something may be waiting, so that the next moment must not be missed.
    wanted: bool,
}

impl TimingGate {
    /// `None` without moments. `timing` is bounded.
    pub(crate) fn new(
        timing: SendTiming,
        burst: u16,
        now: Duration,
        rng: &mut LinkRng,
    ) -> Option<Self> {
        if timing == SendTiming::None {
            return None;
        }
        let next = now + timing.gap(rng);
        Some(Self { timing, burst: burst.max(1), next, left: 0, wanted: true })
    }

    /// Bytes a second that can pass, in datagrams of this size.
    pub(crate) fn rate(&self, datagram: usize) -> u64 {
        let bytes = datagram as f64 * f64::from(self.burst);
        (bytes / self.timing.mean().as_secs_f64()) as u64
    }

    /// Returns whether a datagram may leave now. `every`: no moment may pass unused.
    pub(crate) fn is_open(&mut self, now: Duration, every: bool, rng: &mut LinkRng) -> bool {
        if self.left > 0 {
            return true;
        }
        self.wanted |= every;
        if now > self.next && !self.wanted {
            self.restart(now, rng);
        }
        if now < self.next {
            self.wanted = true;
            return false;
        }
        let gap = self.timing.gap(rng);
        let from = if now - self.next > MAX_BEHIND { now } else { self.next };
        self.next = from + gap;
        self.left = self.burst;
        self.wanted = every;
        true
    }

    /// Begins again after moments passed with nothing waiting. A fixed rhythm goes on; drawn gaps begin anew, so that
    /// the first datagram after a silence waits for one too.
    fn restart(&mut self, now: Duration, rng: &mut LinkRng) {
        if let SendTiming::Fixed(gap) = self.timing {
            let missed = (now - self.next).as_nanos().div_ceil(gap.as_nanos());
            let ahead = gap.as_nanos().saturating_mul(missed);
            self.next += Duration::from_nanos(u64::try_from(ahead).unwrap_or(u64::MAX));
        } else {
            self.next = now + self.timing.gap(rng);
        }
    }

    /// Records that one datagram has left.
    pub(crate) fn spend(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Closes the gate for this moment, because nothing is there to leave.
    pub(crate) fn close_moment(&mut self) {
        self.left = 0;
    }

    /// When the link is due, given that it is `due` then apart from the gate.
    pub(crate) fn timeout(&self, due: Option<Duration>) -> Option<Duration> {
        if self.wanted { Some(self.next) } else { due.map(|due| due.max(self.next)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The largest distance between the drawn gaps' distribution and `cdf` of milliseconds.
    fn distance(timing: SendTiming, n: usize, cdf: impl Fn(f64) -> f64) -> f64 {
        let mut rng = LinkRng::new(&[6; 32]);
        let mut gaps: Vec<f64> =
            (0..n).map(|_| timing.bounded().gap(&mut rng).as_secs_f64() * 1_000.0).collect();
        gaps.sort_by(f64::total_cmp);
        gaps.iter()
            .enumerate()
            .map(|(i, gap)| {
                let (low, high) = (i as f64 / n as f64, (i + 1) as f64 / n as f64);
                (cdf(*gap) - low).abs().max((cdf(*gap) - high).abs())
            })
            .fold(0.0, f64::max)
    }

    /// Kolmogorov-Smirnov: above 2.0 / √n once in 1,500 times, and these seeds are fixed.
    #[test]
    fn gaps_follow_their_distributions() {
        let n = 20_000;
        let most = 2.0 / (n as f64).sqrt();
        let uniform = SendTiming::Uniform { min: 2 * MS, max: 6 * MS };
        assert!(distance(uniform, n, |t| ((t - 2.0) / 4.0).clamp(0.0, 1.0)) < most);
        let exponential = SendTiming::Exponential { mean: 3 * MS };
        assert!(distance(exponential, n, |t| 1.0 - (-t / 3.0).exp()) < most);
        let normal = SendTiming::Normal { mean: 10 * MS, deviation: 2 * MS };
        assert!(distance(normal, n, |t| phi((t - 10.0) / 2.0)) < most);
        // Control: the test notices another distribution.
        assert!(distance(normal, n, |t| ((t - 2.0) / 16.0).clamp(0.0, 1.0)) > 10.0 * most);
        assert!(distance(exponential, n, |t| 1.0 - (-t / 3.1).exp()) > most / 2.0);
    }

    /// The normal distribution (Abramowitz, Stegun 26.2.17; off by less than 1e-7).
    fn phi(x: f64) -> f64 {
        let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
        let poly = t
            * (0.319_381_530
                + t * (-0.356_563_782
                    + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
        let tail = (-x * x / 2.0).exp() / TAU.sqrt() * poly;
        if x > 0.0 { 1.0 - tail } else { tail }
    }

    #[test]
    fn nonsense_is_bounded() {
        let (zero, huge) = (Duration::ZERO, Duration::MAX);
        let mut rng = LinkRng::new(&[7; 32]);
        for timing in [
            SendTiming::Fixed(zero),
            SendTiming::Fixed(huge),
            SendTiming::Uniform { min: huge, max: zero },
            SendTiming::Uniform { min: zero, max: huge },
            SendTiming::Normal { mean: zero, deviation: huge },
            SendTiming::Normal { mean: huge, deviation: huge },
            SendTiming::Exponential { mean: huge },
            SendTiming::Exponential { mean: zero },
        ] {
            for _ in 0..1_000 {
                let gap = timing.bounded().gap(&mut rng);
                assert!((MIN_GAP..=MAX_GAP).contains(&gap), "{timing:?}: {gap:?}");
            }
        }
    }

    #[test]
    fn a_gate_passes_its_burst_at_each_moment() {
        let mut rng = LinkRng::new(&[8; 32]);
        let mut gate =
            TimingGate::new(SendTiming::Fixed(10 * MS), 2, Duration::ZERO, &mut rng).unwrap();
        let mut left = Vec::new();
        for t in (0..100).map(|t| t * MS) {
            while gate.is_open(t, false, &mut rng) {
                gate.spend();
                left.push(t.as_millis());
            }
        }
        assert_eq!(left, [10, 10, 20, 20, 30, 30, 40, 40, 50, 50, 60, 60, 70, 70, 80, 80, 90, 90]);
        assert_eq!(gate.rate(1_000), 200_000);
    }

    /// After a silence a fixed rhythm is unchanged, and a drawn gap is waited for.
    #[test]
    fn a_silence_does_not_open_the_gate() {
        let mut rng = LinkRng::new(&[8; 32]);
        let mut gate =
            TimingGate::new(SendTiming::Fixed(10 * MS), 1, Duration::ZERO, &mut rng).unwrap();
        assert!(gate.is_open(10 * MS, false, &mut rng));
        gate.close_moment();
        assert_eq!(gate.timeout(None), None, "nothing to wake up for");
        assert!(!gate.is_open(1_234_567 * MS, false, &mut rng));
        assert_eq!(gate.timeout(None), Some(1_234_570 * MS));
        let uniform = SendTiming::Uniform { min: 5 * MS, max: 6 * MS };
        let mut gate = TimingGate::new(uniform, 1, Duration::ZERO, &mut rng).unwrap();
        assert!(gate.is_open(6 * MS, false, &mut rng));
        gate.close_moment();
        assert!(!gate.is_open(100 * MS, false, &mut rng));
        let next = gate.timeout(None).unwrap();
        assert!((105 * MS..=106 * MS).contains(&next), "{next:?}");
    }

    /// A caller that sleeps too long may catch up with a few moments, not with an hour of them.
    #[test]
    fn a_late_caller_catches_up_with_few_moments() {
        let mut rng = LinkRng::new(&[8; 32]);
        let mut gate = TimingGate::new(SendTiming::Fixed(MS), 1, Duration::ZERO, &mut rng).unwrap();
        let mut open = |gate: &mut TimingGate, now: Duration| {
            let mut count = 0;
            while gate.is_open(now, true, &mut rng) {
                gate.spend();
                count += 1;
            }
            count
        };
        assert_eq!(open(&mut gate, 10 * MS), 10);
        assert_eq!(open(&mut gate, 3_600_000 * MS), 1);
        assert_eq!(open(&mut gate, 3_600_002 * MS), 2);
    }
}
