//! Converts pointers and lengths of C to slices.

use core::{ptr, slice};

/// The bytes at `bytes`. The pointer is ignored if `len` is 0.
///
/// # Safety
/// Unless `len` is 0, `bytes` must be valid for reading `len` bytes, which must not change during the chosen lifetime.
pub(crate) unsafe fn input<'a, T>(bytes: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for the pointer; no object of C is larger than `isize::MAX`.
    unsafe { slice::from_raw_parts(bytes, len) }
}

/// The bytes at `bytes`, all set to zero. The pointer is ignored if `len` is 0.
///
/// The output memory of a C caller is often uninitialized, and a slice of such bytes must not exist.
///
/// # Safety
/// Unless `len` is 0, `bytes` must be valid for writing `len` bytes, which must not be used otherwise during the chosen lifetime.
pub(crate) unsafe fn output<'a>(bytes: *mut u8, len: usize) -> &'a mut [u8] {
    if len == 0 {
        return &mut [];
    }
    // SAFETY: the caller vouches for the pointer, and that it is the only one in use; the bytes
    // are initialised before the slice is made; no object of C is larger than `isize::MAX`.
    unsafe {
        ptr::write_bytes(bytes, 0, len);
        slice::from_raw_parts_mut(bytes, len)
    }
}
