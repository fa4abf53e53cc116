//! [`CatalogRecord`]: the record of one file or directory, and its form on disk.
//!
//! A record contains a path, the root it had, and its state at that time. It vouches for nothing: a user of the record
//! compares [`CatalogRecord::state`] with the file, and hashes it if that matters. Layout in docs/spec/store.md ("Record");
//! numbers are little-endian.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::fmt;

use xylem_hash::Hash;

use crate::file::FileState;
use crate::medium::FileTime;

/// First bytes of a record.
const MAGIC: &[u8; 8] = b"xyknown1";
/// Magic and checksum.
const HEAD: usize = 8 + 32;
/// Root, flags, size, state (size, seconds, nanoseconds, inode), used, length of the path.
const FIXED: usize = 32 + 1 + 8 + (8 + 8 + 4 + 8) + 8 + 4;
/// Flag: a directory.
const DIRECTORY: u8 = 1;
/// Flag: fetched, not shared.
const FETCHED: u8 = 2;
/// Longest path of a record, bytes: a limit of this program, above those of systems.
pub const MAX_KNOWN_PATH: usize = 128 * 1024;
/// Longest note of a record, bytes: a limit of this program.
pub const MAX_NOTE: usize = 64 * 1024;
/// Longest record, bytes.
pub(crate) const MAX_RECORD: usize = HEAD + FIXED + MAX_KNOWN_PATH + MAX_NOTE;

/// How a path came to be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordOrigin {
    /// It was published from here.
    Shared,
    /// It was fetched to here.
    Fetched,
}

/// The record of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogRecord {
    /// Canonical path, raw bytes, at most [`MAX_KNOWN_PATH`].
    pub path: Vec<u8>,
    /// BLAKE3 root of the file, or of the directory's listing.
    pub root: Hash,
    /// Whether it is a directory.
    pub directory: bool,
    /// How it came to be recorded.
    pub origin: RecordOrigin,
    /// Bytes of content: of the file, or of all files of the directory.
    pub size: u64,
    /// The state of the file, or of the directory itself, when its content had that root.
    pub state: FileState,
    /// Whether its path or its root is pinned. [`Store::known`](crate::Store::known) sets this;
    /// [`Store::remember`](crate::Store::remember) neither sets nor removes a pin.
    pub pinned: bool,
    /// When it was last shared or fetched, seconds since 1970, according to the caller.
    pub used_s: u64,
    /// Data of the caller's, at most [`MAX_NOTE`].
    pub note: Vec<u8>,
}

/// Why bytes are not a valid record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// They begin with other bytes.
    Magic,
    /// The checksum is wrong, or they are truncated.
    Checksum,
    /// They are intact and contain values unknown to this program.
    Content,
    /// They are longer than any record.
    TooLong,
}

impl CatalogRecord {
    /// Encodes the record; `None` if path or note are too long.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        if self.path.len() > MAX_KNOWN_PATH || self.note.len() > MAX_NOTE {
            return None;
        }
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[0; 32]);
        out.extend_from_slice(self.root.as_bytes());
        let fetched = if self.origin == RecordOrigin::Fetched { FETCHED } else { 0 };
        out.push(fetched | if self.directory { DIRECTORY } else { 0 });
        out.extend_from_slice(&self.size.to_le_bytes());
        out.extend_from_slice(&self.state.size.to_le_bytes());
        out.extend_from_slice(&self.state.mtime.secs.to_le_bytes());
        out.extend_from_slice(&self.state.mtime.nanos.to_le_bytes());
        out.extend_from_slice(&self.state.ino.to_le_bytes());
        out.extend_from_slice(&self.used_s.to_le_bytes());
        out.extend_from_slice(&u32::try_from(self.path.len()).ok()?.to_le_bytes());
        out.extend_from_slice(&self.path);
        out.extend_from_slice(&self.note);
        let sum = xylem_hash::hash(&out[HEAD..]);
        out[MAGIC.len()..HEAD].copy_from_slice(sum.as_bytes());
        Some(out)
    }

    /// Decodes a record; `pinned` is false.
    ///
    /// # Errors
    /// [`RecordError`], for any bytes that [`CatalogRecord::encode`] does not produce.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        if bytes.len() > MAX_RECORD {
            return Err(RecordError::TooLong);
        }
        let rest = bytes.strip_prefix(MAGIC).ok_or(RecordError::Magic)?;
        let (sum, body) = rest.split_first_chunk::<32>().ok_or(RecordError::Checksum)?;
        if xylem_hash::hash(body).as_bytes() != sum {
            return Err(RecordError::Checksum);
        }
        Self::body(body).ok_or(RecordError::Content)
    }

    fn body(bytes: &[u8]) -> Option<Self> {
        let (root, rest) = bytes.split_first_chunk::<32>()?;
        let ([flags], rest) = rest.split_first_chunk::<1>()?;
        let (size, rest) = rest.split_first_chunk::<8>()?;
        let (state_size, rest) = rest.split_first_chunk::<8>()?;
        let (secs, rest) = rest.split_first_chunk::<8>()?;
        let (nanos, rest) = rest.split_first_chunk::<4>()?;
        let (ino, rest) = rest.split_first_chunk::<8>()?;
        let (used, rest) = rest.split_first_chunk::<8>()?;
        let (path_len, rest) = rest.split_first_chunk::<4>()?;
        let path_len = usize::try_from(u32::from_le_bytes(*path_len)).ok()?;
        let (path, note) = rest.split_at_checked(path_len)?;
        let nanos = u32::from_le_bytes(*nanos);
        let sane = flags & !(DIRECTORY | FETCHED) == 0
            && nanos < 1_000_000_000
            && path.len() <= MAX_KNOWN_PATH
            && note.len() <= MAX_NOTE;
        sane.then(|| Self {
            path: path.to_vec(),
            root: Hash::from_bytes(*root),
            directory: flags & DIRECTORY != 0,
            origin: if flags & FETCHED != 0 { RecordOrigin::Fetched } else { RecordOrigin::Shared },
            size: u64::from_le_bytes(*size),
            state: FileState {
                size: u64::from_le_bytes(*state_size),
                mtime: FileTime { secs: i64::from_le_bytes(*secs), nanos },
                ino: u64::from_le_bytes(*ino),
            },
            pinned: false,
            used_s: u64::from_le_bytes(*used),
            note: note.to_vec(),
        })
    }
}

impl RecordError {
    /// A description, as used in [`StoreError::Corrupt`](crate::StoreError::Corrupt).
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Self::Magic => "not a record",
            Self::Checksum => "a record whose checksum is wrong",
            Self::Content => "a record with unknown content",
            Self::TooLong => "too long for a record",
        }
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what())
    }
}

impl std::error::Error for RecordError {}
