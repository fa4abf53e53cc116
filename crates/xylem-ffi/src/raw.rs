//! Pointers and lengths of C, as slices.

use core::{ptr, slice};

/// The bytes at `bytes`, which is not looked at if `len` is 0.
///
/// # Safety
/// Unless `len` is 0, `bytes` must be valid for reading `len` bytes, which nobody changes for the
/// lifetime chosen.
pub(crate) unsafe fn input<'a, T>(bytes: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for the pointer; no object of C is larger than `isize::MAX`.
    unsafe { slice::from_raw_parts(bytes, len) }
}

/// The bytes at `bytes`, all set to zero; not looked at if `len` is 0.
///
/// What a caller of C hands over as output was often never written, and a slice of such bytes
/// must not exist.
///
/// # Safety
/// Unless `len` is 0, `bytes` must be valid for writing `len` bytes, which nobody else uses for
/// the lifetime chosen.
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
