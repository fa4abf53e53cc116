//! Overwriting secrets so that the optimizer keeps the write.

use core::sync::atomic::{Ordering, compiler_fence};

/// Sets every item to its default (zero) with writes that are not optimized away.
pub(crate) fn wipe<T: Copy + Default>(secret: &mut [T]) {
    for item in secret.iter_mut() {
        // SAFETY: `item` is a valid, aligned, exclusive reference, and `T: Copy` has no destructor
        // that the overwrite would skip.
        unsafe { core::ptr::write_volatile(item, T::default()) };
    }
    compiler_fence(Ordering::SeqCst);
}
