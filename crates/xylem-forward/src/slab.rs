//! A slab: values in numbered places with a free list. Places can be chained by number.

use core::marker::PhantomData;

use crate::memory::Slots;

/// Not a place.
pub(crate) const NONE: u32 = u32::MAX;

/// A value, and the number of the next place of its chain or of the free list.
#[derive(Debug)]
pub struct SlabPlace<T> {
    next: u32,
    value: T,
}

impl<T: Default> Default for SlabPlace<T> {
    fn default() -> Self {
        SlabPlace { next: NONE, value: T::default() }
    }
}

/// A slab with a limited number of places.
#[derive(Debug)]
pub(crate) struct Slab<T, S> {
    places: S,
    free: u32,
    used: usize,
    limit: usize,
    values: PhantomData<T>,
}

impl<T: Default, S: Slots<SlabPlace<T>>> Slab<T, S> {
    pub(crate) fn new(limit: usize) -> Self {
        // One number is reserved for [`NONE`].
        let limit = limit.min(S::MAX).min(NONE as usize);
        Slab { places: S::default(), free: NONE, used: 0, limit, values: PhantomData }
    }

    pub(crate) fn len(&self) -> usize {
        self.used
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn memory(&self) -> usize {
        self.places.memory()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.used >= self.limit
    }

    /// Appends `value` to the chain that starts at `first`. Returns the chain's first place, or `None` if there is no
    /// room.
    pub(crate) fn append(&mut self, first: u32, value: T) -> Option<u32> {
        if first == NONE {
            return self.insert(value, NONE);
        }
        let mut last = first;
        while self.next(last) != NONE {
            last = self.next(last);
        }
        let id = self.insert(value, NONE)?;
        self.set_next(last, id);
        Some(first)
    }

    /// Stores `value` in front of `next` in a chain. Returns its place, or `None` if there is no room.
    #[inline]
    pub(crate) fn insert(&mut self, value: T, next: u32) -> Option<u32> {
        if self.used >= self.limit {
            return None;
        }
        let id = if self.free != NONE {
            let id = self.free;
            let place = self.places.at_mut(id as usize);
            self.free = place.next;
            *place = SlabPlace { next, value };
            id
        } else {
            let id = self.places.len() as u32;
            if !self.places.push(SlabPlace { next, value }) {
                return None;
            }
            id
        };
        self.used += 1;
        Some(id)
    }

    /// Frees a place. Its value stays, out of reach, until the place is used again.
    #[inline]
    pub(crate) fn release(&mut self, id: u32) {
        self.places.at_mut(id as usize).next = self.free;
        self.free = id;
        self.used -= 1;
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> &T {
        &self.places.at(id as usize).value
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut T {
        &mut self.places.at_mut(id as usize).value
    }

    #[inline]
    pub(crate) fn next(&self, id: u32) -> u32 {
        self.places.at(id as usize).next
    }

    /// Makes `next` follow `id` in its chain.
    #[inline]
    pub(crate) fn set_next(&mut self, id: u32, next: u32) {
        self.places.at_mut(id as usize).next = next;
    }

    /// Takes a free place with its old value, so that its memory can be reused.
    pub(crate) fn reuse(&mut self) -> Option<u32> {
        if self.free == NONE || self.used >= self.limit {
            return None;
        }
        let id = self.free;
        self.free = core::mem::replace(&mut self.places.at_mut(id as usize).next, NONE);
        self.used += 1;
        Some(id)
    }

    /// The places of a chain.
    #[inline]
    pub(crate) fn chain(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let mut id = first;
        core::iter::from_fn(move || {
            let this = (id != NONE).then_some(id)?;
            id = self.next(this);
            Some(this)
        })
    }
}
