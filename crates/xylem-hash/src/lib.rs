//! [`Hasher`]: BLAKE3 in pure Rust, many lanes wide, with its tree laid open.
//!
//! What it is: the BLAKE3 hash function (plain, keyed, key derivation, extendable output) and the
//! inner values of its tree. Bytes come in as slices, from the first byte of a message on; out go
//! a [`Hash`](struct@Hash) (the root of the tree), `tree::ChainingValue`s (its inner nodes; feature `tree`), or an
//! [`OutputReader`] (as many bytes as wanted).
//!
//! What it does not do: it starts no thread, opens no file, keeps no tree (see `xylem-tree`), and
//! is no password hash. It has no build script, no C and no dependency.
//!
//! Where the speed comes from: a processor compresses eight independent blocks ("lanes") in the
//! time of little more than one. Chunks of one message are independent, and so are the parents of
//! one level of its tree, and so are unrelated messages (`hash_many`, feature `batch`). [`Hasher`] therefore
//! gathers up to sixteen chunks before it compresses any, and keeps up to 128 chunk values before it
//! merges any; neither needs the caller's slices to be aligned or large.
//!
//! ```
//! let whole = xylem_hash::hash(b"publish once, sign once");
//! let mut hasher = xylem_hash::Hasher::new();
//! hasher.update(b"publish once, ").update(b"sign once");
//! assert_eq!(hasher.finalize(), whole);
//! assert_eq!(whole.to_hex().len(), 64);
//! ```
//!
//! Source: "BLAKE3: one function, fast everywhere" (O'Connor, Aumasson, Neves, Wilcox-O'Hearn),
//! section 2; called *the paper* in comments.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
// Loops over indices where iterators would do: the code that every user compiles is kept free of
// generic adapters, which cost more time to compile than the kernels.
#![allow(clippy::needless_range_loop)]
// What only an interface that is not asked for would use.
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
/// The key should be uniformly random; comparing the result with `==` takes constant time.
#[inline]
#[must_use]
pub fn keyed_hash(key: &[u8; KEY_LEN], input: &[u8]) -> Hash {
    Hash::from_bytes(root_hash_of(Backend::detect(), &Mode::keyed(key), input))
}

/// 32 bytes of key derived from `key_material` for the purpose that `context` names.
///
/// `context` should be a hard-coded string, unique in the world, such as
/// `"example.org 2026-01-01 session tokens v1"`; it is no place for input of any kind (the paper,
/// section 6.2). Key material may have any length, but must not be a password.
#[inline]
#[must_use]
pub fn derive_key(context: &str, key_material: &[u8]) -> [u8; OUT_LEN] {
    let backend = Backend::detect();
    root_hash_of(backend, &Mode::derive_key(backend, context), key_material)
}

/// The name of the code that this process hashes with: `"avx512"`, `"avx2"`, `"sse4.1"`, `"neon"`,
/// `"simd128"` or `"portable"`.
#[inline]
#[must_use]
pub fn platform() -> &'static str {
    Backend::detect().name()
}

/// For benchmarks: hash with the named code from now on, in the whole process.
///
/// Returns false, and changes nothing, if this processor has no such code. Results do not depend
/// on the choice.
#[inline]
#[doc(hidden)]
pub fn set_platform(name: &str) -> bool {
    Backend::set(name)
}
