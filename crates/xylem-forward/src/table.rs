//! A hash table. Entries keep their number while they live.
//!
//! Entries lie in numbered slots, chained from an array of buckets. If the array can grow, there are at least as many
//! buckets as entries. The array doubles at once: with a million entries that takes about as long as a thousand
//! packets, once.

use core::marker::PhantomData;

use crate::memory::{Flat, Slots};
use crate::slab::NONE;

/// An entry, its hash, and its chain.
#[derive(Debug)]
pub struct TableSlot<E> {
    hash: u64,
    next: u32,
    live: bool,
    entry: E,
}

impl<E: Default> Default for TableSlot<E> {
    fn default() -> Self {
        TableSlot { hash: 0, next: NONE, live: false, entry: E::default() }
    }
}

/// A table of at most `limit` entries.
#[derive(Debug)]
pub(crate) struct SlotTable<E, S, B> {
    slots: S,
    buckets: B,
    free: u32,
    used: usize,
    limit: usize,
    entries: PhantomData<E>,
}

impl<E: Default, S: Slots<TableSlot<E>>, B: Flat<u32>> SlotTable<E, S, B> {
    pub(crate) fn new(limit: usize) -> Self {
        let mut buckets = B::default();
        // An array is filled completely; a vector gets its first buckets.
        while buckets.as_slice().len() < 16 && buckets.push(NONE) {}
        let limit = limit.min(S::MAX).min(NONE as usize);
        SlotTable { slots: S::default(), buckets, free: NONE, used: 0, limit, entries: PhantomData }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    pub(crate) fn memory(&self) -> usize {
        self.slots.memory() + size_of_val(self.buckets.as_slice())
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.used >= self.limit
    }

    /// The bucket of a hash: its lower half, scaled to the number of buckets.
    #[inline]
    fn bucket(&self, hash: u64) -> usize {
        let buckets = self.buckets.as_slice().len() as u64;
        (((hash & 0xFFFF_FFFF) * buckets) >> 32) as usize
    }

    /// The numbers of all entries with this hash.
    #[inline]
    pub(crate) fn with_hash(&self, hash: u64) -> impl Iterator<Item = u32> + '_ {
        let mut id = self.buckets.as_slice().get(self.bucket(hash)).copied().unwrap_or(NONE);
        core::iter::from_fn(move || {
            while id != NONE {
                let slot = self.slots.at(id as usize);
                let this = core::mem::replace(&mut id, slot.next);
                if slot.hash == hash {
                    return Some(this);
                }
            }
            None
        })
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<u32> {
        self.with_hash(hash).find(|id| is_it(self.get(*id)))
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> &E {
        &self.slots.at(id as usize).entry
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut E {
        &mut self.slots.at_mut(id as usize).entry
    }

    #[inline]
    pub(crate) fn hash_of(&self, id: u32) -> u64 {
        self.slots.at(id as usize).hash
    }

    /// Adds an entry. The caller has checked that there is none like it. `None` if the table is full.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u64, entry: E) -> Option<u32> {
        if self.used >= self.limit {
            return None;
        }
        if self.used >= self.buckets.as_slice().len() {
            self.grow();
        }
        let bucket = self.bucket(hash);
        let next = *self.buckets.as_slice().get(bucket)?;
        let slot = TableSlot { hash, next, live: true, entry };
        let id = if self.free != NONE {
            let id = self.free;
            let place = self.slots.at_mut(id as usize);
            self.free = place.next;
            *place = slot;
            id
        } else {
            let id = self.slots.len() as u32;
            if !self.slots.push(slot) {
                return None;
            }
            id
        };
        self.buckets.as_mut_slice()[bucket] = id;
        self.used += 1;
        Some(id)
    }

    /// Removes a live entry.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        let TableSlot { hash, next, .. } = *self.slots.at(id as usize);
        let bucket = self.bucket(hash);
        let first = self.buckets.as_slice()[bucket];
        if first == id {
            self.buckets.as_mut_slice()[bucket] = next;
        } else {
            let mut before = first;
            while self.slots.at(before as usize).next != id {
                before = self.slots.at(before as usize).next;
            }
            self.slots.at_mut(before as usize).next = next;
        }
        let slot = self.slots.at_mut(id as usize);
        slot.live = false;
        slot.next = self.free;
        self.free = id;
        self.used -= 1;
    }

    /// The numbers of all entries.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.slots.len() as u32).filter(|id| self.slots.at(*id as usize).live)
    }

    /// The lowest number of an entry that is `from` or higher.
    pub(crate) fn first_from(&self, from: u32) -> Option<u32> {
        (from..self.slots.len() as u32).find(|id| self.slots.at(*id as usize).live)
    }

    /// Doubles the buckets, if there is memory for them.
    #[cold]
    fn grow(&mut self) {
        let before = self.buckets.as_slice().len();
        while self.buckets.as_slice().len() < 2 * before.max(8) && self.buckets.push(NONE) {}
        if self.buckets.as_slice().len() == before {
            return;
        }
        self.buckets.as_mut_slice().fill(NONE);
        for id in 0..self.slots.len() {
            if self.slots.at(id).live {
                let bucket = self.bucket(self.slots.at(id).hash);
                let first = core::mem::replace(&mut self.buckets.as_mut_slice()[bucket], id as u32);
                self.slots.at_mut(id).next = first;
            }
        }
    }
}
