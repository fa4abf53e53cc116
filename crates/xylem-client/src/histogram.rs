//! A histogram of durations, precise to one part in 64 from a nanosecond to centuries.
//!
//! There are 64 buckets to each power of two. So a million samples take no more memory than ten, and their percentiles
//! need no sorting.

use std::time::Duration;

/// Base-2 logarithm of the number of buckets to each power of two.
const SHIFT: u32 = 6;
const PER_POWER: usize = 1 << SHIFT;
const BUCKETS: usize = (64 - SHIFT as usize + 1) * PER_POWER;

/// Counts of durations.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn add(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
        self.sum += u128::from(nanos);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
    }

    /// Number of durations counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The shortest duration; zero if there is none.
    pub fn min(&self) -> Duration {
        Duration::from_nanos(if self.total == 0 { 0 } else { self.min })
    }

    /// The longest duration.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The mean; zero if there is none.
    pub fn mean(&self) -> Duration {
        let mean = self.sum.checked_div(u128::from(self.total)).unwrap_or(0);
        Duration::from_nanos(mean as u64)
    }

    /// The duration that `share` (0 to 1) of the samples do not exceed. It is too large by less than one part in 64.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = ((share.clamp(0.0, 1.0) * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (i, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(highest(i).clamp(self.min, self.max));
            }
        }
        self.max()
    }
}

/// The bucket of a value. Below 128 a bucket holds one value; above, each power of two has 64 buckets.
fn bucket(nanos: u64) -> usize {
    let power = (63 - (nanos | 1).leading_zeros()).saturating_sub(SHIFT);
    power as usize * PER_POWER + (nanos >> power) as usize
}

/// The largest value of a bucket.
fn highest(bucket: usize) -> u64 {
    if bucket < 2 * PER_POWER {
        return bucket as u64;
    }
    let power = bucket / PER_POWER - 1;
    let first = ((bucket - power * PER_POWER) as u64) << power;
    first + ((1 << power) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_precise() {
        let mut last = 0;
        for exponent in 0..64 {
            for nanos in [1_u64 << exponent, (1 << exponent) + (1 << exponent) / 3] {
                let i = bucket(nanos);
                assert!(i >= last && i < BUCKETS, "{nanos}");
                last = i;
                let top = highest(i);
                assert!(top >= nanos && top - nanos <= nanos / 64, "{nanos} {top}");
                assert_eq!(bucket(top), i);
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_of_known_samples() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), Duration::ZERO);
        for micros in 1..=1000 {
            histogram.add(Duration::from_micros(micros));
        }
        for (share, micros) in [(0.0, 1), (0.5, 500), (0.9, 900), (0.99, 990), (1.0, 1000)] {
            let found = histogram.quantile(share).as_nanos() as f64;
            let exact = f64::from(micros) * 1000.0;
            assert!((found - exact) / exact < 1.0 / 64.0 && found >= exact, "{share} {found}");
        }
        assert_eq!(histogram.mean(), Duration::from_nanos(500_500));
        assert_eq!(
            (histogram.min(), histogram.max()),
            (Duration::from_micros(1), Duration::from_millis(1))
        );
    }
}
