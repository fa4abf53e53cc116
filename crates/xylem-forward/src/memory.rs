//! Memory for tables: the heap, which grows up to the configured limits, or arrays with sizes fixed at compile time,
//! for machines without an allocator. The code of the tables is the same.

#[cfg(feature = "alloc")]
pub(crate) use heap::Chunks;

/// Values that do not move once they are pushed.
pub trait Slots<T>: Default {
    /// Maximum number of values.
    const MAX: usize;
    /// Number of values pushed.
    fn len(&self) -> usize;
    /// The value at `i`, which is below [`Self::len`].
    fn at(&self, i: usize) -> &T;
    /// The value at `i`, mutable.
    fn at_mut(&mut self, i: usize) -> &mut T;
    /// Appends a value. Returns false, and drops the value, if there is no room.
    fn push(&mut self, value: T) -> bool;
    /// Bytes of memory held.
    fn memory(&self) -> usize;
}

/// Values side by side.
pub trait Flat<T>: Default {
    /// All values.
    fn as_slice(&self) -> &[T];
    /// All values, mutable.
    fn as_mut_slice(&mut self) -> &mut [T];
    /// Appends a value. Returns false if there is no room.
    fn push(&mut self, value: T) -> bool;
    /// Appends values. Returns false, and appends nothing, if there is no room for all.
    fn extend(&mut self, values: &[T]) -> bool
    where
        T: Copy;
    /// Keeps the first `len` values.
    fn truncate(&mut self, len: usize);
    /// Removes value `i`. Later values move up.
    fn remove(&mut self, i: usize);
    /// Releases memory if much more than `len` values' worth is held.
    fn release_excess(&mut self, len: usize);
}

#[cfg(feature = "alloc")]
mod heap {
    use super::{Flat, Slots};
    use alloc::vec::Vec;

    /// Values in one allocation per 1024, so that growing neither moves them nor allocates more than needed.
    #[derive(Debug)]
    pub struct Chunks<T>(Vec<Vec<T>>);

    const CHUNK: usize = 1024;

    impl<T> Default for Chunks<T> {
        fn default() -> Self {
            Chunks(Vec::new())
        }
    }

    impl<T> Slots<T> for Chunks<T> {
        const MAX: usize = usize::MAX;

        fn len(&self) -> usize {
            self.0.last().map_or(0, |last| (self.0.len() - 1) * CHUNK + last.len())
        }

        #[inline]
        fn at(&self, i: usize) -> &T {
            &self.0[i / CHUNK][i % CHUNK]
        }

        #[inline]
        fn at_mut(&mut self, i: usize) -> &mut T {
            &mut self.0[i / CHUNK][i % CHUNK]
        }

        fn memory(&self) -> usize {
            self.0.iter().map(|chunk| chunk.capacity() * size_of::<T>()).sum()
        }

        fn push(&mut self, value: T) -> bool {
            if self.0.last().is_none_or(|last| last.len() == CHUNK) {
                // The first chunk grows by itself, because most tables stay small.
                let capacity = if self.0.is_empty() { 0 } else { CHUNK };
                self.0.push(Vec::with_capacity(capacity));
            }
            if let Some(last) = self.0.last_mut() {
                last.push(value);
            }
            true
        }
    }

    impl<T> Flat<T> for Vec<T> {
        #[inline]
        fn as_slice(&self) -> &[T] {
            self
        }

        #[inline]
        fn as_mut_slice(&mut self) -> &mut [T] {
            self
        }

        fn push(&mut self, value: T) -> bool {
            Vec::push(self, value);
            true
        }

        #[inline]
        fn extend(&mut self, values: &[T]) -> bool
        where
            T: Copy,
        {
            self.reserve_exact(values.len());
            self.extend_from_slice(values);
            true
        }

        fn truncate(&mut self, len: usize) {
            Vec::truncate(self, len);
        }

        fn remove(&mut self, i: usize) {
            Vec::remove(self, i);
        }

        fn release_excess(&mut self, len: usize) {
            if self.capacity() > len + len / 4 + 64 {
                self.shrink_to(len);
            }
        }
    }
}

/// Up to `N` values, stored inline.
#[derive(Debug)]
pub struct Array<T, const N: usize> {
    values: [T; N],
    len: usize,
}

impl<T: Default, const N: usize> Default for Array<T, N> {
    fn default() -> Self {
        Array { values: core::array::from_fn(|_| T::default()), len: 0 }
    }
}

impl<T: Default, const N: usize> Slots<T> for Array<T, N> {
    const MAX: usize = N;

    fn len(&self) -> usize {
        self.len
    }

    fn at(&self, i: usize) -> &T {
        &self.values[i]
    }

    fn at_mut(&mut self, i: usize) -> &mut T {
        &mut self.values[i]
    }

    fn push(&mut self, value: T) -> bool {
        <Self as Flat<T>>::push(self, value)
    }

    fn memory(&self) -> usize {
        size_of::<Self>()
    }
}

impl<T: Default, const N: usize> Flat<T> for Array<T, N> {
    fn as_slice(&self) -> &[T] {
        &self.values[..self.len]
    }

    fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.values[..self.len]
    }

    fn push(&mut self, value: T) -> bool {
        let Some(place) = self.values.get_mut(self.len) else { return false };
        *place = value;
        self.len += 1;
        true
    }

    fn extend(&mut self, values: &[T]) -> bool
    where
        T: Copy,
    {
        let Some(places) = self.values.get_mut(self.len..self.len + values.len()) else {
            return false;
        };
        places.copy_from_slice(values);
        self.len += values.len();
        true
    }

    fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    fn remove(&mut self, i: usize) {
        self.values[i..self.len].rotate_left(1);
        self.len -= 1;
    }

    fn release_excess(&mut self, _len: usize) {}
}
