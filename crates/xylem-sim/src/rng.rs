//! Random numbers that follow from a seed.

use core::time::Duration;

/// SplitMix64 (Steele, Lea, Flood 2014). Every seed is good, and neighbouring seeds give unrelated sequences. Not for
/// secrets.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator seeded with `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        ((self.next_u64() as u128 * end as u128) >> 64) as u64
    }

    /// An index below `len`, which must be at least 1.
    pub const fn index(&mut self, len: usize) -> usize {
        assert!(len > 0, "nothing to choose from");
        self.below(len as u64) as usize
    }

    /// A number from 0 to below 1, evenly distributed.
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns true with probability `share`, 0 to 1. A share of 0 draws no number, so a path with a fault switched off
    /// behaves exactly as a path without that fault.
    pub fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && self.fraction() < share
    }

    /// A duration from zero to below `limit`, evenly distributed; draws no number if `limit` is zero.
    pub fn time_below(&mut self, limit: Duration) -> Duration {
        if limit.is_zero() { limit } else { limit.mul_f64(self.fraction()) }
    }

    /// Fills `bytes` at random. For one state of the generator, a shorter fill is a prefix of a longer one.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    /// `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }

    /// Shuffles the elements (Fisher and Yates).
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        for i in (1..elements.len()).rev() {
            elements.swap(i, self.index(i + 1));
        }
    }
}

/// `len` random bytes, the same for the same seed. A shorter result is a prefix of a longer one.
#[must_use]
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    Rng::new(seed).bytes(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_reference() {
        let mut rng = Rng::new(1_234_567);
        let numbers = [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        let reference =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(numbers, reference);
    }

    #[test]
    fn limits_are_kept_and_every_value_occurs() {
        let mut rng = Rng::new(1);
        let mut seen = [0_u32; 7];
        (0..7_000).for_each(|_| seen[rng.index(7)] += 1);
        assert!(seen.iter().all(|n| n.abs_diff(1_000) < 150), "{seen:?}");
        assert_eq!(rng.below(0), 0);
        assert!((0..1_000).all(|_| (0.0..1.0).contains(&rng.fraction())));
        assert!((0..1_000).all(|_| rng.time_below(Duration::from_nanos(9)).as_nanos() < 10));
    }

    #[test]
    fn shares_are_as_stated_and_zero_draws_no_number() {
        let mut rng = Rng::new(2);
        for share in [0.01, 0.3, 1.0] {
            let hits = (0..10_000).filter(|_| rng.chance(share)).count() as f64;
            assert!((hits - share * 1e4).abs() <= 200.0, "{hits} of {share}");
        }
        let before = rng.clone();
        assert!(!rng.chance(0.0) && rng.time_below(Duration::ZERO).is_zero());
        assert_eq!(rng.0, before.0);
    }

    #[test]
    fn lengths_are_exact_and_prefixes_agree() {
        let long = noise(2_000, 3);
        for len in [0, 1, 7, 8, 9, 1_500] {
            assert_eq!(noise(len, 3), long[..len]);
        }
        assert_ne!(noise(16, 3), noise(16, 4));
    }

    #[test]
    fn a_shuffle_loses_nothing() {
        let mut order: Vec<u32> = (0..100).collect();
        Rng::new(4).shuffle(&mut order);
        assert!(!order.is_sorted());
        order.sort_unstable();
        assert!(order.into_iter().eq(0..100));
    }
}
