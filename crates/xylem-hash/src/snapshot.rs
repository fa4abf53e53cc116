//! [`Snapshot`]: the state of a [`Hasher`] as bytes, to continue later or elsewhere.
//!
//! The bytes (docs/spec/hash-snapshot.md) depend only on the message so far, not on how it was split or on the
//! processor. Reading accepts every snapshot that this module makes, on any machine, and refuses all other bytes. It
//! cannot detect a snapshot made by an attacker, so snapshots need the same protection as the hash itself. This module
//! accesses no files.

use core::fmt;

use crate::backend::Backend;
use crate::constants::{CHUNK_LEN, DERIVE_KEY_MATERIAL, KEY_LEN, KEYED_HASH, OUT_LEN};
use crate::hasher::Hasher;
use crate::stock::Stock;
use crate::subtree::{Mode, PENDING, STACK, is_secret};

/// First bytes: the kind of data, and the version of the format.
const MAGIC: &[u8; 8] = b"xyBLAKE\x01";

// The next byte: the kind of the key words, if any follow.
const PLAIN: u8 = 0;
const KEYED: u8 = 1;
const DERIVE_KEY: u8 = 2;

/// Length of the checksum at the end: the first bytes of the hash of all others.
const CHECK_LEN: usize = 8;

/// Bytes of the longest snapshot.
const MAX_LEN: usize = MAGIC.len()
    + 1
    + KEY_LEN
    + size_of::<u64>()
    + (STACK + PENDING - 1) * OUT_LEN
    + CHUNK_LEN
    + CHECK_LEN;

/// The state of a [`Hasher`] as bytes, made by [`Hasher::snapshot`]. At most about 7 KiB.
#[derive(Clone)]
pub struct Snapshot {
    bytes: Stock<u8, MAX_LEN>,
    secret: bool,
}

impl Snapshot {
    /// The bytes, to be stored and passed to [`Hasher::from_snapshot`].
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }
}

impl AsRef<[u8]> for Snapshot {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for Snapshot {
    /// Shows the size only: the bytes hold the end of the message, and possibly a key.
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("len", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl Drop for Snapshot {
    #[inline]
    fn drop(&mut self) {
        if self.secret {
            self.bytes.wipe();
        }
    }
}

/// The bytes are no snapshot of the requested kind: damaged, truncated, of another version, or of a hasher with a key
/// when one without was expected, or the reverse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotError;

impl fmt::Display for SnapshotError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a snapshot of this kind of hasher, or damaged")
    }
}

impl core::error::Error for SnapshotError {}

impl Hasher {
    /// The state as bytes, from which [`Hasher::from_snapshot`] continues.
    ///
    /// `None` for a hasher with a key, as the bytes would reveal it (see [`Hasher::snapshot_exposing_key`]), and for a
    /// part of a message (after [`set_input_offset`](crate::hazmat::HasherExt::set_input_offset)). The bytes contain up
    /// to [`CHUNK_LEN`] bytes of the message unchanged.
    ///
    /// ```
    /// use xylem_hash::{Hasher, hash};
    /// let kept = Hasher::new().update(&[7; 5_000]).snapshot().unwrap();
    /// let mut resumed = Hasher::from_snapshot(kept.as_bytes())?;
    /// assert_eq!(resumed.update(&[7; 5_000]).finalize(), hash(&[7; 10_000]));
    /// # Ok::<(), xylem_hash::SnapshotError>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        let (subtree, _) = self.parts();
        if is_secret(subtree.mode().flags()) { None } else { self.snapshot_exposing_key() }
    }

    /// The state of any hasher as bytes, **including its key**: a reader of the bytes can compute every hash under it,
    /// or derive every key that it derives.
    ///
    /// `None` for a part of a message only.
    #[inline]
    #[must_use]
    pub fn snapshot_exposing_key(&self) -> Option<Snapshot> {
        let (subtree, buffer) = self.parts();
        if subtree.first_chunk() != 0 {
            return None;
        }
        let flags = subtree.mode().flags();
        let mut snapshot = Snapshot { bytes: Stock::new(), secret: is_secret(flags) };
        let bytes = &mut snapshot.bytes;
        bytes.extend(MAGIC);
        bytes.push(match flags {
            KEYED_HASH => KEYED,
            DERIVE_KEY_MATERIAL => DERIVE_KEY,
            _ => PLAIN,
        });
        if snapshot.secret {
            for word in subtree.mode().key() {
                bytes.extend(&word.to_le_bytes());
            }
        }
        bytes.extend(&self.count().to_le_bytes());
        // Hashes the chunks that only wait for others to fill the lanes; at least a byte stays behind them.
        let (chunks, tail) =
            buffer.split_at(buffer.len().saturating_sub(1) / CHUNK_LEN * CHUNK_LEN);
        let mut exact = subtree.clone();
        if !chunks.is_empty() {
            exact.absorb_batch(chunks);
        }
        let (groups, pending) = exact.values();
        bytes.extend(groups.as_flattened());
        bytes.extend(pending.as_flattened());
        bytes.extend(tail);
        let check = check(bytes.as_slice());
        bytes.extend(&check);
        Some(snapshot)
    }

    /// Continues from a [`Hasher::snapshot`].
    ///
    /// # Errors
    /// [`SnapshotError`] for bytes that are no snapshot, and for one of a hasher with a key: a plain hash and a keyed
    /// one must not be mistaken for each other.
    #[inline]
    pub fn from_snapshot(bytes: &[u8]) -> Result<Self, SnapshotError> {
        read(bytes, false).ok_or(SnapshotError)
    }

    /// Continues from a [`Hasher::snapshot_exposing_key`] of a keyed or key-deriving hasher.
    ///
    /// # Errors
    /// [`SnapshotError`] for bytes that are no snapshot, and for one of a plain hasher.
    #[inline]
    pub fn from_snapshot_with_key(bytes: &[u8]) -> Result<Self, SnapshotError> {
        read(bytes, true).ok_or(SnapshotError)
    }
}

#[inline]
fn check(bytes: &[u8]) -> [u8; CHECK_LEN] {
    let mut check = [0; CHECK_LEN];
    check.copy_from_slice(&crate::hash(bytes).as_bytes()[..CHECK_LEN]);
    check
}

/// The hasher of this snapshot, if the bytes are one with (or without) a key.
#[inline]
fn read(bytes: &[u8], with_key: bool) -> Option<Hasher> {
    let (bytes, sum) = bytes.split_last_chunk::<CHECK_LEN>()?;
    if bytes.len() + CHECK_LEN > MAX_LEN || check(bytes) != *sum {
        return None;
    }
    let rest = bytes.strip_prefix(MAGIC)?;
    let (kind, rest) = rest.split_first()?;
    let (mode, rest) = match (*kind, with_key) {
        (PLAIN, false) => (Mode::plain(), rest),
        (KEYED, true) => rest.split_first_chunk().map(|(key, rest)| (Mode::keyed(key), rest))?,
        (DERIVE_KEY, true) => {
            rest.split_first_chunk().map(|(key, rest)| (Mode::context(key), rest))?
        }
        _ => return None,
    };
    let (count, rest) = rest.split_first_chunk()?;
    let count = u64::from_le_bytes(*count);
    // The last chunk, whole or not, is stored as bytes.
    let chunks = count.saturating_sub(1) / CHUNK_LEN as u64;
    let groups = (chunks / PENDING as u64).count_ones() as usize;
    let pending = (chunks % PENDING as u64) as usize;
    let (values, tail) = rest.split_at_checked((groups + pending) * OUT_LEN)?;
    if tail.len() as u64 != count - chunks * CHUNK_LEN as u64 {
        return None;
    }
    let (groups, pending) = values.as_chunks::<OUT_LEN>().0.split_at(groups);
    let mut hasher = Hasher::with_backend(Backend::detect(), mode);
    let (subtree, buffer) = hasher.parts_mut();
    subtree.resume(chunks, groups, pending);
    buffer.extend(tail);
    Some(hasher)
}
