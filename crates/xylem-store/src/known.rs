//! [`Known`]: what the store remembers of one file or directory, and its form on disk.
//!
//! A record says where something lies, which root it had and how it looked then. It vouches for
//! nothing: whoever uses it compares [`Known::state`] with the file and hashes where that matters.
//! Layout in docs/spec/store.md ("Record"); numbers are little-endian.
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
/// It is a directory.
const DIRECTORY: u8 = 1;
/// It was fetched, not shared.
const FETCHED: u8 = 2;
/// Longest path of a record, bytes: our own limit, above what systems allow.
pub const MAX_KNOWN_PATH: usize = 128 * 1024;
/// Longest note of a record, bytes: our own limit.
pub const MAX_NOTE: usize = 64 * 1024;
/// Longest record.
pub(crate) const MAX_RECORD: usize = HEAD + FIXED + MAX_KNOWN_PATH + MAX_NOTE;

/// How something came to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// It was published from here.
    Shared,
    /// It was fetched to here.
    Fetched,
}

/// What is known of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Canonical path, raw bytes, at most [`MAX_KNOWN_PATH`].
    pub path: Vec<u8>,
    /// BLAKE3 root of the file, or of the directory's listing.
    pub root: Hash,
    /// Whether it is a directory.
    pub directory: bool,
    /// How it came to be known.
    pub origin: Origin,
    /// Bytes of content: of the file, or of all files of the directory.
    pub size: u64,
    /// The file, or the directory itself, as it was when its content had that root.
    pub state: FileState,
    /// Whether its path or its root is pinned. Told by [`Store::known`](crate::Store::known);
    /// [`Store::remember`](crate::Store::remember) neither sets nor removes a pin.
    pub pinned: bool,
    /// When it was last shared or fetched, seconds since 1970, as the caller told.
    pub used_s: u64,
    /// The caller's own, at most [`MAX_NOTE`].
    pub note: Vec<u8>,
}

/// Why bytes are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// They start otherwise.
    Magic,
    /// The checksum is another, or they are cut short.
    Checksum,
    /// They are whole and say something that this program does not know.
    Content,
    /// They are longer than any record.
    TooLong,
}

impl Known {
    /// The bytes of the record; `None` where path or note are too long.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        if self.path.len() > MAX_KNOWN_PATH || self.note.len() > MAX_NOTE {
            return None;
        }
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[0; 32]);
        out.extend_from_slice(self.root.as_bytes());
        let fetched = if self.origin == Origin::Fetched { FETCHED } else { 0 };
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

    /// Reads a record; `pinned` is false.
    ///
    /// # Errors
    /// [`RecordError`], for any bytes that [`Known::encode`] does not make.
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
            origin: if flags & FETCHED != 0 { Origin::Fetched } else { Origin::Shared },
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
    /// In words, as [`StoreError::Corrupt`](crate::StoreError::Corrupt) has it.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Self::Magic => "not a record",
            Self::Checksum => "a record whose checksum is wrong",
            Self::Content => "a record that says what this program does not know",
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
