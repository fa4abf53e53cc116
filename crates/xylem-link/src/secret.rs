//! Secrets in memory: [`HeapSecret`], 32 bytes that never move, and [`leaving_nothing`], which wipes the stack after a
//! computation with secrets.
//!
//! When Rust moves a value it copies it and leaves the old place as it is. So secrets with which an attacker could open
//! recordings are written directly to the heap, where they stay until they are wiped. Libraries keep keys on the stack
//! and do not wipe it, so they are called where it is wiped after them.

use core::fmt;
use core::hint::black_box;
use core::ops::{Deref, DerefMut};

use zeroize::Zeroize;

/// Bytes of stack to wipe: more than any code uses that is called under [`leaving_nothing`]. A hasher, with 22 KiB, and
/// ML-KEM-768 use the most.
const STACK: usize = 32 * 1_024;

/// 32 secret bytes on the heap. Wiped when dropped; a clone is a copy with a wipe of its own.
#[cfg_attr(test, derive(PartialEq, Eq))]
pub(crate) struct HeapSecret(Box<[u8; 32]>);

impl HeapSecret {
    /// Makes a secret that `fill` writes in place.
    pub(crate) fn filled(fill: impl FnOnce(&mut [u8; 32])) -> Self {
        let mut secret = Self(Box::new([0; 32]));
        fill(&mut secret.0);
        secret
    }

    pub(crate) fn copy_of(bytes: &[u8; 32]) -> Self {
        Self::filled(|secret| secret.copy_from_slice(bytes))
    }
}

impl Deref for HeapSecret {
    type Target = [u8; 32];

    fn deref(&self) -> &[u8; 32] {
        &self.0
    }
}

impl DerefMut for HeapSecret {
    fn deref_mut(&mut self) -> &mut [u8; 32] {
        &mut self.0
    }
}

impl Clone for HeapSecret {
    fn clone(&self) -> Self {
        Self::copy_of(self)
    }
}

impl fmt::Debug for HeapSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Drop for HeapSecret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Runs a computation with secrets, and wipes the stack that it used. Its result is moved, and may therefore hold
/// secrets on the heap only.
pub(crate) fn leaving_nothing<T>(compute: impl FnOnce() -> T) -> T {
    leaving_nothing_within::<STACK, T>(compute)
}

/// Like [`leaving_nothing`], for a computation that uses less than `DEEP` bytes of stack.
pub(crate) fn leaving_nothing_within<const DEEP: usize, T>(compute: impl FnOnce() -> T) -> T {
    let done = below(compute);
    wipe_stack::<DEEP>();
    done
}

/// Gives `compute` a stack frame of its own, at the place where [`wipe_stack`]'s lies.
#[inline(never)]
fn below<T>(compute: impl FnOnce() -> T) -> T {
    compute()
}

#[inline(never)]
fn wipe_stack<const DEEP: usize>() {
    let mut zeros = [0u8; DEEP];
    // Keeps the compiler from removing the write as dead.
    black_box(&mut zeros);
}
