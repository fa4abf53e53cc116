//! [`Hasher`]: a message that arrives in pieces.

use core::fmt;

use crate::backend::{Backend, Cv};
use crate::constants::{KEY_LEN, KEYED_HASH, ROOT};
use crate::digest::Hash;
use crate::output::OutputReader;
use crate::stock::Stock;
use crate::subtree::{BATCH_LEN, Mode, Subtree, is_secret};
use crate::wipe::wipe;

/// Incremental BLAKE3.
///
/// Call order: [`Hasher::new`] (or `new_keyed`, `new_derive_key`), [`Hasher::update`] any number of times with slices
/// of any length, then [`Hasher::finalize`], which reads the state and may be called repeatedly. The struct has some 22
/// KiB, of which `new` writes a few words.
///
/// More ways to feed it: [`std::io::Write`], [`Hasher::update_reader`] (feature `std`), `update_rayon` (feature
/// `rayon`: all cores), `update_mmap` and `update_mmap_rayon` (feature `mmap`). To stop here and continue elsewhere:
/// `snapshot` (feature of that name).
///
/// ```
/// use xylem_hash::{Hasher, hash};
/// let bytes = vec![7; 100_000];
/// let mut hasher = Hasher::new();
/// for piece in bytes.chunks(1_400) {
///     hasher.update(piece);
/// }
/// assert_eq!(hasher.finalize(), hash(&bytes));
/// assert_eq!(hasher.count(), 100_000);
/// ```
#[derive(Clone)]
pub struct Hasher {
    subtree: Subtree,
    /// The bytes after those that `subtree` absorbed. It is absorbed only when it is full and more follows, as the last
    /// bytes of a message are treated differently.
    buffer: Stock<u8, BATCH_LEN>,
}

impl Hasher {
    /// A hasher for plain hashes.
    #[inline]
    #[must_use]
    pub fn new() -> Self {
        Self::with_backend(Backend::detect(), Mode::plain())
    }

    /// A hasher for keyed hashes (a MAC) under a uniformly random `key`.
    #[inline]
    #[must_use]
    pub fn new_keyed(key: &[u8; KEY_LEN]) -> Self {
        Self::with_backend(Backend::detect(), Mode::keyed(key))
    }

    /// A hasher that derives keys from key material, which is its message. See [`crate::derive_key`] about `context`.
    #[inline]
    #[must_use]
    pub fn new_derive_key(context: &str) -> Self {
        let backend = Backend::detect();
        Self::with_backend(backend, Mode::derive_key(backend, context))
    }

    #[inline]
    pub(crate) fn with_backend(backend: Backend, mode: Mode) -> Self {
        Self { subtree: Subtree::new(backend, mode, 0), buffer: Stock::new() }
    }

    /// Adds `input` to the message.
    #[inline]
    pub fn update(&mut self, input: &[u8]) -> &mut Self {
        if input.len() <= self.buffer.room() {
            self.buffer.extend(input);
        } else {
            self.update_through(input);
        }
        self
    }

    /// `update` with more bytes than fit into the buffer.
    #[inline]
    fn update_through(&mut self, mut input: &[u8]) {
        if !self.buffer.is_empty() {
            let (fill, rest) = input.split_at(self.buffer.room());
            self.buffer.extend(fill);
            self.subtree.absorb_batch(self.buffer.as_slice());
            self.buffer.truncate(0);
            input = rest;
        }
        let tail = self.subtree.absorb(input);
        self.buffer.extend(tail);
    }

    /// The hash of the message so far.
    ///
    /// # Panics
    /// After `hazmat::HasherExt::set_input_offset` (feature `hazmat`) with an offset other than 0: a part of a message
    /// has no hash.
    #[inline]
    #[must_use]
    pub fn finalize(&self) -> Hash {
        Hash::from_bytes(self.whole_message().value())
    }

    /// The extendable output of the message so far.
    ///
    /// # Panics
    /// As [`Hasher::finalize`].
    #[inline]
    #[must_use]
    pub fn finalize_xof(&self) -> OutputReader {
        self.whole_message()
    }

    #[inline]
    fn whole_message(&self) -> OutputReader {
        assert!(self.subtree.first_chunk() == 0, "only finalize_non_root after set_input_offset");
        self.subtree.finish(self.buffer.as_slice(), ROOT)
    }

    /// The value of the bytes so far as a part of a message.
    #[inline]
    pub(crate) fn value(&self) -> Cv {
        self.subtree.finish(self.buffer.as_slice(), 0).value()
    }

    /// Starts a new message under the same key.
    #[inline]
    pub fn reset(&mut self) -> &mut Self {
        self.wipe_buffer_if_secret();
        self.subtree.reset();
        self.buffer.truncate(0);
        self
    }

    /// Bytes in the message so far.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.subtree.absorbed().wrapping_add(self.buffer.len() as u64)
    }

    /// The state: the absorbed chunks, and the bytes after them (none only if the message is empty).
    #[inline]
    pub(crate) fn parts(&self) -> (&Subtree, &[u8]) {
        (&self.subtree, self.buffer.as_slice())
    }

    /// The state for changes. After absorbed chunks there must be a byte in the buffer.
    #[inline]
    pub(crate) fn parts_mut(&mut self) -> (&mut Subtree, &mut Stock<u8, BATCH_LEN>) {
        (&mut self.subtree, &mut self.buffer)
    }

    #[inline]
    fn wipe_buffer_if_secret(&mut self) {
        if !is_secret(self.subtree.mode().flags()) {
        } else if self.subtree.absorbed() == 0 {
            wipe(self.buffer.as_mut_slice());
        } else {
            // The buffer may have been full before.
            self.buffer.wipe();
        }
    }
}

impl Default for Hasher {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Hasher {
    #[inline]
    fn drop(&mut self) {
        self.wipe_buffer_if_secret();
    }
}

impl fmt::Debug for Hasher {
    /// Shows how it was made and the number of bytes; never a key or a byte of the message.
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.subtree.mode().flags() {
            0 => "plain",
            KEYED_HASH => "keyed",
            _ => "derive_key",
        };
        f.debug_struct("Hasher")
            .field("mode", &mode)
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

/// Overwrites the whole state and leaves it as [`Hasher::new`] makes it.
///
/// Keyed and key-deriving hashers do so when they are dropped. Call it for plain hashes of secrets.
#[cfg(feature = "zeroize")]
impl zeroize::Zeroize for Hasher {
    #[inline]
    fn zeroize(&mut self) {
        self.subtree.wipe();
        self.buffer.wipe();
    }
}
