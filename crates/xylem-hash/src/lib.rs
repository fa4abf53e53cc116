//! [`Hasher`]: BLAKE3 in pure Rust, hashed in many lanes, with access to the values of its tree.
//!
//! This crate is the BLAKE3 hash function (plain, keyed, key derivation, extendable output) and the inner values of its
//! tree. Bytes come in as slices, from the first byte of a message on. The result is a [`Hash`](struct@Hash) (the root
//! of the tree), `tree::ChainingValue`s (its inner nodes; feature `tree`), or an [`OutputReader`] (any number of
//! bytes).
//!
//! It starts no thread, opens no file and keeps no tree (see `xylem-tree`), and is no password hash. It has no build
//! script, no C and no dependency.
//!
//! It is fast because a processor compresses eight independent blocks ("lanes") in little more time than one. The
//! chunks of one message are independent, and so are the parents of one level of its tree, and unrelated messages
//! (`hash_many`, feature `batch`). So [`Hasher`] gathers up to sixteen chunks before it compresses any, and keeps up to
//! 128 chunk values before it merges any. The caller's slices need not be aligned or large for that.
//!
//! ```
//! let whole = xylem_hash::hash(b"publish once, sign once");
//! let mut hasher = xylem_hash::Hasher::new();
//! hasher.update(b"publish once, ").update(b"sign once");
//! assert_eq!(hasher.finalize(), whole);
//! assert_eq!(whole.to_hex().len(), 64);
//! ```
//!
//! Source: "BLAKE3: one function, fast everywhere" (O'Connor, Aumasson, Neves, Wilcox-O'Hearn), section 2; called *the
//! paper* in comments.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
// Index loops instead of iterators: the code that every user compiles avoids generic adapters, which take more time to
// compile than the kernels.
#![allow(clippy::needless_range_loop)]
// Code that only interfaces of disabled features use.
#![cfg_attr(
    not(all(feature = "tree", feature = "hazmat", feature = "snapshot")),
    allow(dead_code, unused_imports)
)]

mod constants;
mod wipe;

mod kernels;

mod backend;
mod batch;
mod mode;
mod output;
mod stock;
mod subtree;

mod digest;
mod hex;

mod hasher;
#[cfg(feature = "std")]
mod io;
#[cfg(feature = "rayon")]
mod parallel;
#[cfg(any(test, feature = "snapshot"))]
mod snapshot;

#[cfg(any(test, feature = "batch"))]
mod blocks;
#[cfg(any(test, feature = "batch"))]
mod many;
#[cfg(feature = "sha256")]
mod sha256;

#[cfg(any(test, feature = "hazmat"))]
pub mod hazmat;
#[cfg(feature = "traits-preview")]
pub mod traits;
#[cfg(any(test, feature = "tree"))]
pub mod tree;

#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "batch"))]
pub use blocks::{hash_blocks, keyed_hash_blocks};
pub use constants::{BLOCK_LEN, CHUNK_LEN, KEY_LEN, OUT_LEN};
pub use digest::Hash;
pub use hasher::Hasher;
pub use hex::{HexError, HexString};
#[cfg(any(test, feature = "batch"))]
pub use many::{hash_many, keyed_hash_many};
pub use output::OutputReader;
#[cfg(feature = "sha256")]
pub use sha256::{SHA256_LANES, has_sha256_many, sha256_many};
#[cfg(any(test, feature = "snapshot"))]
pub use snapshot::{Snapshot, SnapshotError};

use backend::Backend;
use subtree::{Mode, root_hash_of};

/// The BLAKE3 hash of `input`.
#[must_use]
pub fn hash(input: &[u8]) -> Hash {
    Hash::from_bytes(root_hash_of(Backend::detect(), Mode::PLAIN, input))
}

/// The keyed hash (a MAC) of `input` under a 32-byte `key`.
///
/// The key should be uniformly random. Comparing the result with `==` takes constant time.
#[inline]
#[must_use]
pub fn keyed_hash(key: &[u8; KEY_LEN], input: &[u8]) -> Hash {
    Hash::from_bytes(root_hash_of(Backend::detect(), &Mode::keyed(key), input))
}

/// Derives a 32-byte key from `key_material` for the purpose that `context` names.
///
/// `context` should be a hard-coded, globally unique string, such as `"example.org 2026-01-01 session tokens v1"`. It
/// must not contain input of any kind (the paper, section 6.2). Key material may have any length, but must not be a
/// password.
#[inline]
#[must_use]
pub fn derive_key(context: &str, key_material: &[u8]) -> [u8; OUT_LEN] {
    let backend = Backend::detect();
    root_hash_of(backend, &Mode::derive_key(backend, context), key_material)
}

/// The name of the code with which this process hashes: `"avx512"`, `"avx2"`, `"sse4.1"`, `"neon"`, `"simd128"` or
/// `"portable"`.
#[inline]
#[must_use]
pub fn platform() -> &'static str {
    Backend::detect().name()
}

/// For benchmarks: makes the whole process hash with the named code from now on.
///
/// Returns false and changes nothing if this processor has no such code. Results do not depend on the choice.
#[inline]
#[doc(hidden)]
pub fn set_platform(name: &str) -> bool {
    Backend::set(name)
}
