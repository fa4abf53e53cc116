//! Overwrites secrets with writes that the optimizer keeps.

use core::sync::atomic::{Ordering, compiler_fence};

/// Types without padding for which all bits zero is a value.
///
/// # Safety
/// The type must have no padding, and all bits zero must be a value of it.
pub(crate) unsafe trait Zeroable: Copy {}

// SAFETY: an integer has no padding, and zero is one.
unsafe impl Zeroable for u8 {}
// SAFETY: as above.
unsafe impl Zeroable for u32 {}
// SAFETY: an array has the layout of its items.
unsafe impl<T: Zeroable, const N: usize> Zeroable for [T; N] {}

/// Sets every byte of `secret` to zero with writes that are not optimized away.
#[inline]
pub(crate) fn wipe<T: Zeroable>(secret: &mut [T]) {
    let len = size_of_val(secret);
    // SAFETY: the slice is `len` bytes, borrowed exclusively, and zeros are a value of `T`.
    unsafe { wipe_raw(secret.as_mut_ptr().cast(), len) }
}

/// As [`wipe`], for memory that need not be initialized.
///
/// # Safety
/// `start` must be valid for writing `len` bytes, and zeros must be a value of the type there.
// Cold: called wherever something may be secret, which it seldom is.
#[cold]
#[inline(never)]
pub(crate) unsafe fn wipe_raw(start: *mut u8, len: usize) {
    // Keys and values have this length, and most other types a multiple of it; bytes need no alignment.
    const PART: usize = 32;
    let mut done = 0;
    while len - done >= PART {
        // SAFETY: the part is inside the memory that the caller guarantees.
        unsafe { core::ptr::write_volatile(start.add(done).cast::<[u8; PART]>(), [0; PART]) };
        done += PART;
    }
    while done < len {
        // SAFETY: one byte, inside.
        unsafe { core::ptr::write_volatile(start.add(done), 0) };
        done += 1;
    }
    compiler_fence(Ordering::SeqCst);
}
