//! Where secrets lie: [`Secret`], 32 bytes that never move, and [`leaving_nothing`], which wipes the
//! stack after whatever computes with secrets.
//!
//! A value that Rust moves is copied, and the place it was in stays as it is. So what a thief of memory
//! would open recordings with is filled in on the heap, where it stays until it is wiped; and
//! libraries, which keep keys on the stack and do not wipe it, are called where it is wiped after them.

use core::fmt;
use core::hint::black_box;
use core::ops::{Deref, DerefMut};

use zeroize::Zeroize;

/// Deeper than anything writes that is called under [`leaving_nothing`]. The most have a hasher, with 22 KiB,
/// and ML-KEM-768.
const STACK: usize = 32 * 1_024;

/// 32 secret bytes on the heap. Wiped when dropped; a clone is a copy, wiped by itself.
#[cfg_attr(test, derive(PartialEq, Eq))]
pub(crate) struct Secret(Box<[u8; 32]>);

impl Secret {
    /// Made in place by `fill`.
    pub(crate) fn filled(fill: impl FnOnce(&mut [u8; 32])) -> Self {
        let mut secret = Self(Box::new([0; 32]));
        fill(&mut secret.0);
        secret
    }

    pub(crate) fn copy_of(bytes: &[u8; 32]) -> Self {
        Self::filled(|secret| secret.copy_from_slice(bytes))
    }
}

impl Deref for Secret {
    type Target = [u8; 32];

    fn deref(&self) -> &[u8; 32] {
        &self.0
    }
}

impl DerefMut for Secret {
    fn deref_mut(&mut self) -> &mut [u8; 32] {
        &mut self.0
    }
}

impl Clone for Secret {
    fn clone(&self) -> Self {
        Self::copy_of(self)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Runs what computes with secrets, and wipes the stack that it has used. What it gives back is
/// moved, and may therefore hold secrets on the heap only.
pub(crate) fn leaving_nothing<T>(compute: impl FnOnce() -> T) -> T {
    leaving_nothing_within::<STACK, T>(compute)
}

/// The same for what writes less deep than `DEEP` bytes.
pub(crate) fn leaving_nothing_within<const DEEP: usize, T>(compute: impl FnOnce() -> T) -> T {
    let done = below(compute);
    wipe_stack::<DEEP>();
    done
}

/// A frame of its own, which lies where [`wipe_stack`]'s does.
#[inline(never)]
fn below<T>(compute: impl FnOnce() -> T) -> T {
    compute()
}

#[inline(never)]
fn wipe_stack<const DEEP: usize>() {
    let mut zeros = [0u8; DEEP];
    // Somebody might look at them, as far as the compiler knows.
    black_box(&mut zeros);
}
