//! The tree under the names of the `blake3` crate, for code that was written for that crate.
//!
//! Values and keys are bare arrays here. Only the caller's care keeps a chaining value from being used as a hash, or a
//! subtree from standing at an impossible position. New code should use [`crate::tree`], which computes the same with
//! distinct types.
//!
//! ```
//! use xylem_hash::hazmat::{HasherExt, Mode, left_subtree_len, merge_subtrees_root};
//! use xylem_hash::{Hasher, hash};
//! let message = vec![1; 12_000];
//! let (left, right) = message.split_at(left_subtree_len(12_000) as usize);
//! let left_cv = Hasher::new().update(left).finalize_non_root();
//! let right_cv =
//!     Hasher::new().set_input_offset(left.len() as u64).update(right).finalize_non_root();
//! assert_eq!(merge_subtrees_root(&left_cv, &right_cv, Mode::Hash), hash(&message));
//! ```

use core::fmt;

use crate::backend::Backend;
use crate::constants::{CHUNK_LEN, KEY_LEN, OUT_LEN, ROOT};
use crate::digest::Hash;
use crate::hasher::Hasher;
use crate::output::OutputReader;
use crate::subtree::{Mode as Keys, assert_fits, context_key, max_len, parent_output};

/// The value of an inner node, as bytes. [`crate::tree::ChainingValue`] is the typed one.
pub type ChainingValue = [u8; OUT_LEN];

/// The result of [`hash_derive_key_context`] for a context string.
pub type ContextKey = [u8; KEY_LEN];

/// Parts of a message, and contexts hashed beforehand, for [`Hasher`].
pub trait HasherExt {
    /// As [`Hasher::new_derive_key`], with the context hashed before by [`hash_derive_key_context`]; other bytes must
    /// not be used.
    fn new_from_context_key(context_key: &ContextKey) -> Self;

    /// Sets the offset in the message at which the input begins. [`Hasher::reset`] sets it back to 0.
    ///
    /// # Panics
    /// If the hasher has input already, or `offset` is not a multiple of [`CHUNK_LEN`].
    fn set_input_offset(&mut self, offset: u64) -> &mut Self;

    /// The chaining value of the input, a chunk or subtree.
    ///
    /// # Panics
    /// If there is no input, or more than [`max_subtree_len`].
    fn finalize_non_root(&self) -> ChainingValue;
}

impl HasherExt for Hasher {
    #[inline]
    fn new_from_context_key(context_key: &ContextKey) -> Self {
        Self::with_backend(Backend::detect(), Keys::context(context_key))
    }

    #[inline]
    fn set_input_offset(&mut self, offset: u64) -> &mut Self {
        assert!(self.count() == 0, "hasher has already accepted input");
        self.parts_mut().0.set_first_chunk(chunk_at(offset));
        self
    }

    #[inline]
    fn finalize_non_root(&self) -> ChainingValue {
        assert_fits(self.parts().0.first_chunk(), self.count());
        self.value()
    }
}

/// The number of the chunk that begins at `offset`.
#[inline]
fn chunk_at(offset: u64) -> u64 {
    assert!(
        offset.is_multiple_of(CHUNK_LEN as u64),
        "offset ({offset}) must be a chunk boundary (divisible by {CHUNK_LEN})"
    );
    offset / CHUNK_LEN as u64
}

/// Most bytes of a subtree that begins `input_offset` bytes into the message: the largest power-of-two factor of the
/// offset in chunks. `None`, for no limit, at 0.
///
/// # Panics
/// If `input_offset` is not a multiple of [`CHUNK_LEN`].
#[inline]
#[must_use]
pub fn max_subtree_len(input_offset: u64) -> Option<u64> {
    max_len(chunk_at(input_offset))
}

/// Number of bytes on the left of the top node over `input_len` bytes (more than [`CHUNK_LEN`]): the largest power of
/// two below it.
#[inline]
#[must_use]
pub fn left_subtree_len(input_len: u64) -> u64 {
    debug_assert!(input_len > CHUNK_LEN as u64);
    input_len.div_ceil(2).next_power_of_two()
}

/// The hash mode of the values that are merged.
#[derive(Clone, Copy)]
pub enum Mode<'a> {
    /// [`crate::hash`].
    Hash,
    /// [`crate::keyed_hash`] under this key.
    KeyedHash(&'a [u8; KEY_LEN]),
    /// [`crate::derive_key`] under this context.
    DeriveKeyMaterial(&'a ContextKey),
}

impl fmt::Debug for Mode<'_> {
    /// Shows no key.
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hash => "Hash",
            Self::KeyedHash(_) => "KeyedHash(..)",
            Self::DeriveKeyMaterial(_) => "DeriveKeyMaterial(..)",
        })
    }
}

/// The value of the node over two others; not the root.
#[inline]
#[must_use]
pub fn merge_subtrees_non_root(
    left_child: &ChainingValue,
    right_child: &ChainingValue,
    mode: Mode<'_>,
) -> ChainingValue {
    merged(left_child, right_child, mode, 0).value()
}

/// The hash of a message, from the two children of its root.
#[inline]
#[must_use]
pub fn merge_subtrees_root(
    left_child: &ChainingValue,
    right_child: &ChainingValue,
    mode: Mode<'_>,
) -> Hash {
    Hash::from_bytes(merged(left_child, right_child, mode, ROOT).value())
}

/// The extendable output of a message, from the two children of its root.
#[inline]
#[must_use]
pub fn merge_subtrees_root_xof(
    left_child: &ChainingValue,
    right_child: &ChainingValue,
    mode: Mode<'_>,
) -> OutputReader {
    merged(left_child, right_child, mode, ROOT)
}

#[inline]
fn merged(left: &ChainingValue, right: &ChainingValue, mode: Mode<'_>, top: u32) -> OutputReader {
    let keys = match mode {
        Mode::Hash => Keys::plain(),
        Mode::KeyedHash(key) => Keys::keyed(key),
        Mode::DeriveKeyMaterial(key) => Keys::context(key),
    };
    parent_output(Backend::detect(), &keys, left, right, top)
}

/// Hashes a context string of [`crate::derive_key`] once, for many keys.
///
/// Use the result for [`HasherExt::new_from_context_key`] and [`Mode::DeriveKeyMaterial`] only.
#[inline]
#[must_use]
pub fn hash_derive_key_context(context: &str) -> ContextKey {
    hash_derive_key_context_raw(context.as_bytes())
}

/// As [`hash_derive_key_context`], for a context of any bytes, as C interfaces have.
#[inline]
#[must_use]
pub fn hash_derive_key_context_raw(context: &[u8]) -> ContextKey {
    context_key(Backend::detect(), context)
}
