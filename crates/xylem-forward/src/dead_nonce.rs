//! Nonces of Interests that are no longer pending: an Interest that comes back after its PIT entry
//! is gone has looped.
//!
//! A cache of fixed size, four ways wide. A full row forgets its oldest nonce, so under load the
//! list holds fewer seconds; it never grows. Keys are 64-bit keyed hashes of (name, nonce): two
//! different ones are taken for the same with probability 2^-62 or so a look.

use core::time::Duration;

const WAYS: usize = 4;

#[derive(Debug, Clone, Copy, Default)]
struct Way {
    key: u64,
    /// Milliseconds; 0 means empty, so a nonce of time 0 is dated 1.
    at_ms: u64,
}

#[derive(Debug)]
pub(crate) struct DeadNonces {
    rows: Vec<[Way; WAYS]>,
    lifetime_ms: u64,
}

fn ms(now: Duration) -> u64 {
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX).max(1)
}

impl DeadNonces {
    pub(crate) fn new(capacity: usize, lifetime: Duration) -> Self {
        let rows = capacity.clamp(WAYS, 1 << 26).next_power_of_two() / WAYS;
        DeadNonces { rows: vec![[Way::default(); WAYS]; rows], lifetime_ms: ms(lifetime) }
    }

    #[inline]
    fn row(&self, key: u64) -> usize {
        key as usize & (self.rows.len() - 1)
    }

    #[inline]
    pub(crate) fn insert(&mut self, now: Duration, key: u64) {
        let row = self.row(key);
        let way = match self.rows[row].iter().position(|way| way.key == key) {
            Some(same) => same,
            None => (0..WAYS).min_by_key(|i| self.rows[row][*i].at_ms).unwrap_or(0),
        };
        self.rows[row][way] = Way { key, at_ms: ms(now) };
    }

    #[inline]
    pub(crate) fn contains(&self, now: Duration, key: u64) -> bool {
        self.rows[self.row(key)].iter().any(|way| {
            way.key == key
                && way.at_ms != 0
                && ms(now) <= way.at_ms.saturating_add(self.lifetime_ms)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_are_known_for_their_lifetime() {
        let second = Duration::from_secs(1);
        let mut list = DeadNonces::new(64, 6 * second);
        assert!(!list.contains(Duration::ZERO, 0));
        list.insert(Duration::ZERO, 42);
        assert!(list.contains(Duration::ZERO, 42));
        assert!(list.contains(6 * second, 42));
        assert!(!list.contains(7 * second, 42));
        assert!(!list.contains(second, 43));
    }

    #[test]
    fn a_full_row_forgets_its_oldest() {
        let mut list = DeadNonces::new(4, Duration::from_secs(600));
        for key in 0..5 {
            list.insert(Duration::from_secs(key + 1), key);
        }
        let now = Duration::from_secs(6);
        assert!(!list.contains(now, 0));
        assert!((1..5).all(|key| list.contains(now, key)));
    }
}
