//! Values in numbered places, with a list of the free ones, and chained to each other by number.

use core::marker::PhantomData;

use crate::memory::Slots;

/// No place.
pub(crate) const NONE: u32 = u32::MAX;

/// A value and the number of the next one of its chain, or of the next free place.
#[derive(Debug)]
pub struct Place<T> {
    next: u32,
    value: T,
}

impl<T: Default> Default for Place<T> {
    fn default() -> Self {
        Place { next: NONE, value: T::default() }
    }
}

/// Places for values, up to a limit.
#[derive(Debug)]
pub(crate) struct Slab<T, S> {
    places: S,
    free: u32,
    used: usize,
    limit: usize,
    values: PhantomData<T>,
}

impl<T: Default, S: Slots<Place<T>>> Slab<T, S> {
    pub(crate) fn new(limit: usize) -> Self {
        // One number means "none".
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

    /// Adds `value` behind the first of a chain; gives the chain's first, or `None` if there is no
    /// place left.
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

    /// A place for `value`, which comes before `next` in a chain; `None` if there is none left.
    #[inline]
    pub(crate) fn insert(&mut self, value: T, next: u32) -> Option<u32> {
        if self.used >= self.limit {
            return None;
        }
        let id = if self.free != NONE {
            let id = self.free;
            let place = self.places.at_mut(id as usize);
            self.free = place.next;
            *place = Place { next, value };
            id
        } else {
            let id = self.places.len() as u32;
            if !self.places.push(Place { next, value }) {
                return None;
            }
            id
        };
        self.used += 1;
        Some(id)
    }

    /// Frees a place; what it held stays there, out of reach, until the place is used again.
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

    /// Lets `next` follow `id` in its chain.
    #[inline]
    pub(crate) fn set_next(&mut self, id: u32, next: u32) {
        self.places.at_mut(id as usize).next = next;
    }

    /// A place that was used before, with what it holds, so that its memory can be used again.
    pub(crate) fn reuse(&mut self) -> Option<u32> {
        if self.free == NONE || self.used >= self.limit {
            return None;
        }
        let id = self.free;
        self.free = core::mem::replace(&mut self.places.at_mut(id as usize).next, NONE);
        self.used += 1;
        Some(id)
    }

    /// The numbers of a chain.
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
