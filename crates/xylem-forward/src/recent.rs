//! A small memory of fixed size, four ways wide: a full row forgets what is oldest in it.
//!
//! Keys are 64-bit keyed hashes: two different things are taken for the same with probability
//! 2^-62 or so a look.

use crate::memory::Flat;

const WAYS: usize = 4;

#[derive(Debug, Clone, Copy, Default)]
struct Way<V> {
    key: u64,
    /// Microseconds; 0 means empty, so what is of time 0 is dated 1.
    at: u64,
    value: V,
}

/// Four of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Row<V>([Way<V>; WAYS]);

#[derive(Debug)]
pub(crate) struct Recent<V, R> {
    rows: R,
    /// Microseconds.
    lifetime: u64,
    values: core::marker::PhantomData<V>,
}

impl<V: Copy + Default, R: Flat<Row<V>>> Recent<V, R> {
    /// Room for `capacity` values, or as much as there is memory for. What is older than
    /// `lifetime` microseconds is not known any more.
    pub(crate) fn new(capacity: usize, lifetime: u64) -> Self {
        let mut rows = R::default();
        let wanted = capacity.clamp(WAYS, 1 << 26) / WAYS;
        while rows.as_slice().len() < wanted && rows.push(Row::default()) {}
        Recent { rows, lifetime, values: core::marker::PhantomData }
    }

    #[inline]
    fn row(&self, key: u64) -> usize {
        (((key >> 32) * self.rows.as_slice().len() as u64) >> 32) as usize
    }

    #[inline]
    fn knows(&self, now: u64, way: &Way<V>, key: u64) -> bool {
        way.key == key && way.at != 0 && now <= way.at.saturating_add(self.lifetime)
    }

    /// What is known of `key`.
    #[inline]
    pub(crate) fn get(&self, now: u64, key: u64) -> Option<V> {
        let row = self.rows.as_slice().get(self.row(key))?;
        row.0.iter().find(|way| self.knows(now, way, key)).map(|way| way.value)
    }

    /// Sets what is known of `key`, and that it is of now.
    #[inline]
    pub(crate) fn set(&mut self, now: u64, key: u64, value: V) {
        let row = self.row(key);
        let Some(row) = self.rows.as_mut_slice().get_mut(row) else { return };
        let known = row.0.iter().position(|way| way.key == key);
        let oldest = || (0..WAYS).min_by_key(|i| row.0[*i].at).unwrap_or(0);
        let way = known.unwrap_or_else(oldest);
        row.0[way] = Way { key, at: now.max(1), value };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_known_for_their_lifetime() {
        let mut list: Recent<u8, Vec<Row<u8>>> = Recent::new(64, 6);
        assert_eq!(list.get(0, 0), None);
        list.set(0, 42, 7);
        assert_eq!((list.get(0, 42), list.get(7, 42)), (Some(7), Some(7)));
        assert_eq!((list.get(8, 42), list.get(1, 43)), (None, None));
        list.set(9, 42, 8);
        assert_eq!(list.get(10, 42), Some(8));
    }

    #[test]
    fn a_full_row_forgets_its_oldest() {
        let mut list: Recent<(), Vec<Row<()>>> = Recent::new(4, 600);
        for key in 0..5 {
            list.set(key + 1, key, ());
        }
        assert_eq!(list.get(6, 0), None);
        assert!((1..5).all(|key| list.get(6, key).is_some()));
    }
}
