//! [`Stock`]: a fixed-capacity list with an unused part that is never initialized.
//!
//! A hasher holds 21 KiB of buffers; zeroing them would cost more than hashing a short message.

use core::mem::MaybeUninit;

use crate::wipe::{Zeroable, wipe_raw};

/// A list of up to `N` items, stored in place.
pub(crate) struct Stock<T, const N: usize> {
    items: [MaybeUninit<T>; N],
    /// Invariant: `items[..len]` is initialized, and `len <= N`.
    len: usize,
}

impl<T: Copy, const N: usize> Stock<T, N> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { items: [const { MaybeUninit::uninit() }; N], len: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of items that still fit.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        N - self.len
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[T] {
        // SAFETY: the first `len` items are initialised (invariant), `MaybeUninit<T>` has the
        // layout of `T`, and the borrow of `self` keeps them in place.
        unsafe { core::slice::from_raw_parts(self.items.as_ptr().cast::<T>(), self.len) }
    }

    #[inline]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as in `as_slice`, and the borrow is exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.items.as_mut_ptr().cast::<T>(), self.len) }
    }

    /// Appends `more`, which must fit into [`Stock::room`].
    #[inline]
    pub(crate) fn extend(&mut self, more: &[T]) {
        assert!(more.len() <= self.room(), "the caller checked the room");
        // SAFETY: `len + more.len() <= N` was just asserted, so the destination lies inside
        // `items`; `more` is borrowed shared while `self` is borrowed exclusively, so they do not
        // overlap; and `T: Copy`.
        unsafe {
            let end = self.items.as_mut_ptr().add(self.len).cast::<T>();
            core::ptr::copy_nonoverlapping(more.as_ptr(), end, more.len());
        }
        self.len += more.len();
    }

    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        self.extend(core::slice::from_ref(&item));
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let last = self.as_slice().last().copied()?;
        self.len -= 1;
        Some(last)
    }

    #[inline]
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl<T: Zeroable, const N: usize> Stock<T, N> {
    /// Appends `count` zeros, which must fit into [`Stock::room`], and returns them.
    #[inline]
    pub(crate) fn grow(&mut self, count: usize) -> &mut [T] {
        assert!(count <= N - self.len, "the caller checked the room");
        // SAFETY: `len + count <= N` was just asserted, so the places lie inside `items`; zeros
        // are a value of `T` (`Zeroable`), and the borrow is exclusive.
        let new = unsafe {
            let end = self.items.as_mut_ptr().add(self.len).cast::<T>();
            end.write_bytes(0, count);
            core::slice::from_raw_parts_mut(end, count)
        };
        self.len += count;
        new
    }

    /// Empties the list and zeroes all of its memory, including former items.
    #[inline]
    pub(crate) fn wipe(&mut self) {
        self.len = 0;
        // SAFETY: `items` has this many bytes, borrowed exclusively; zeros are a value of `T` (`Zeroable`), and any
        // bytes are a value of `MaybeUninit<T>`.
        unsafe { wipe_raw(self.items.as_mut_ptr().cast(), size_of_val(&self.items)) };
    }
}

impl<T: Copy, const N: usize> Clone for Stock<T, N> {
    /// Copies the items in use only.
    #[inline]
    fn clone(&self) -> Self {
        let mut copy = Self::new();
        copy.extend(self.as_slice());
        copy
    }
}
