//! A four-way associative cache of fixed size. A full row drops its oldest entry.
//!
//! Keys are 64-bit keyed hashes: two different keys are confused with a probability of about 2^-62 per lookup.

use crate::memory::Flat;

const WAYS: usize = 4;

#[derive(Debug, Clone, Copy, Default)]
struct RecentWay<V> {
    key: u64,
    /// In microseconds; 0 means empty, so time 0 is stored as 1.
    at: u64,
    value: V,
}

/// A row of four ways.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecentRow<V>([RecentWay<V>; WAYS]);

#[derive(Debug)]
pub(crate) struct RecentCache<V, R> {
    rows: R,
    /// In microseconds.
    lifetime: u64,
    values: core::marker::PhantomData<V>,
}

impl<V: Copy + Default, R: Flat<RecentRow<V>>> RecentCache<V, R> {
    /// A cache with room for `capacity` values, or as many as there is memory for. Entries older than `lifetime`
    /// microseconds are ignored.
    pub(crate) fn new(capacity: usize, lifetime: u64) -> Self {
        let mut rows = R::default();
        let wanted = capacity.clamp(WAYS, 1 << 26) / WAYS;
        while rows.as_slice().len() < wanted && rows.push(RecentRow::default()) {}
        RecentCache { rows, lifetime, values: core::marker::PhantomData }
    }

    #[inline]
    fn row(&self, key: u64) -> usize {
        (((key >> 32) * self.rows.as_slice().len() as u64) >> 32) as usize
    }

    #[inline]
    fn is_current(&self, now: u64, way: &RecentWay<V>, key: u64) -> bool {
        way.key == key && way.at != 0 && now <= way.at.saturating_add(self.lifetime)
    }

    /// The value of `key`, if it has one that is not too old.
    #[inline]
    pub(crate) fn get(&self, now: u64, key: u64) -> Option<V> {
        let row = self.rows.as_slice().get(self.row(key))?;
        row.0.iter().find(|way| self.is_current(now, way, key)).map(|way| way.value)
    }

    /// Sets the value of `key`, dated now.
    #[inline]
    pub(crate) fn set(&mut self, now: u64, key: u64, value: V) {
        let row = self.row(key);
        let Some(row) = self.rows.as_mut_slice().get_mut(row) else { return };
        let known = row.0.iter().position(|way| way.key == key);
        let oldest = || (0..WAYS).min_by_key(|i| row.0[*i].at).unwrap_or(0);
        let way = known.unwrap_or_else(oldest);
        row.0[way] = RecentWay { key, at: now.max(1), value };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_for_their_lifetime() {
        let mut list: RecentCache<u8, Vec<RecentRow<u8>>> = RecentCache::new(64, 6);
        assert_eq!(list.get(0, 0), None);
        list.set(0, 42, 7);
        assert_eq!((list.get(0, 42), list.get(7, 42)), (Some(7), Some(7)));
        assert_eq!((list.get(8, 42), list.get(1, 43)), (None, None));
        list.set(9, 42, 8);
        assert_eq!(list.get(10, 42), Some(8));
    }

    #[test]
    fn a_full_row_drops_its_oldest_entry() {
        let mut list: RecentCache<(), Vec<RecentRow<()>>> = RecentCache::new(4, 600);
        for key in 0..5 {
            list.set(key + 1, key, ());
        }
        assert_eq!(list.get(6, 0), None);
        assert!((1..5).all(|key| list.get(6, key).is_some()));
    }
}
