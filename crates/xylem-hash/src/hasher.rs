//! [`Hasher`]: a message that arrives in pieces.

use core::fmt;

use crate::backend::Backend;
use crate::constants::{KEY_LEN, KEYED_HASH};
use crate::digest::Hash;
use crate::output::OutputReader;
use crate::stock::Stock;
use crate::subtree::{BATCH_LEN, Mode, Subtree, is_secret};
use crate::wipe::wipe;

/// Incremental BLAKE3.
///
/// Call order: [`Hasher::new`] (or `new_keyed`, `new_derive_key`), [`Hasher::update`] any number
/// of times with slices of any length, then [`Hasher::finalize`] as often as wanted; it reads the
/// state and does not end it. About 14 KiB in size, of which `new` touches a few words.
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
    /// The bytes after those that `subtree` absorbed; full before it is absorbed, because the
    /// last bytes of a message are treated apart.
    buffer: Stock<u8, BATCH_LEN>,
}

impl Hasher {
    /// For a plain hash.
    #[must_use]
    pub fn new() -> Self {
        Self::with_backend(Backend::detect(), Mode::plain())
    }

    /// For a keyed hash (a MAC) under a uniformly random `key`.
    #[must_use]
    pub fn new_keyed(key: &[u8; KEY_LEN]) -> Self {
        Self::with_backend(Backend::detect(), Mode::keyed(key))
    }

    /// For deriving keys from key material, which is what is then hashed. See
    /// [`crate::derive_key`] about `context`.
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

    /// `update` with more than fits into the buffer.
    fn update_through(&mut self, mut input: &[u8]) {
        if !self.buffer.is_empty() {
            let (fill, rest) = input.split_at(self.buffer.room());
            self.buffer.extend(fill);
            self.subtree.absorb_batch(self.buffer.as_slice());
            self.empty_buffer();
            input = rest;
        }
        let tail = self.subtree.absorb(input);
        self.buffer.extend(tail);
    }

    /// Adds everything that `reader` gives until its end.
    ///
    /// # Errors
    /// Those of `reader`, except `Interrupted`, after which it is asked again. What was read
    /// before the error has been added.
    #[cfg(feature = "std")]
    pub fn update_reader(&mut self, mut reader: impl std::io::Read) -> std::io::Result<&mut Self> {
        let mut bytes = alloc::vec![0; 16 * BATCH_LEN];
        loop {
            match reader.read(&mut bytes) {
                Ok(0) => return Ok(self),
                Ok(len) => self.update(&bytes[..len]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
        }
    }

    /// The hash of the message so far.
    #[must_use]
    pub fn finalize(&self) -> Hash {
        Hash::from_bytes(self.subtree.finish(self.buffer.as_slice()).root_hash())
    }

    /// The extendable output of the message so far.
    #[must_use]
    pub fn finalize_xof(&self) -> OutputReader {
        OutputReader::new(self.subtree.finish(self.buffer.as_slice()))
    }

    /// Starts a new message under the same key.
    pub fn reset(&mut self) -> &mut Self {
        self.subtree.reset();
        self.empty_buffer();
        self
    }

    /// Bytes in the message so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.subtree.absorbed() + self.buffer.len() as u64
    }

    fn empty_buffer(&mut self) {
        if is_secret(self.subtree.mode().flags()) {
            wipe(self.buffer.as_mut_slice());
        }
        self.buffer.truncate(0);
    }
}

impl Default for Hasher {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Hasher {
    fn drop(&mut self) {
        self.empty_buffer();
    }
}

impl fmt::Debug for Hasher {
    /// Shows how it was made and how much it has seen; never a key or a byte of the message.
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

#[cfg(feature = "std")]
impl std::io::Write for Hasher {
    /// Takes all of `input`; never fails.
    fn write(&mut self, input: &[u8]) -> std::io::Result<usize> {
        self.update(input);
        Ok(input.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
