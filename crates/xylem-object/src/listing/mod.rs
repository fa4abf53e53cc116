//! The listing of a shared folder: one byte string that lists a tree of files.
//!
//! The program that walks a folder writes the listing through [`ListingWriter`]. It is published as an object of its own; the
//! directory's manifest holds its root. The getter verifies its bytes like any others and reads them through
//! [`ListingReader`]. The form is canonical, so that the same folder has the same root on every machine: entries ascend by
//! path bytes, each folder precedes its contents, and each value has one encoding. This module does not access a file
//! system. Each file's root, not the listing, proves the file's content. Layout: docs/spec/object.md, "Listing".
//!
//! ```
//! use xylem_object::listing::{Entry, EntryKind, ListingReader, ListingWriter, entries};
//!
//! let folder = Entry { path: b"docs".to_vec(), kind: EntryKind::Directory, mode: 0o755, mtime_s: 0, mtime_ns: 0 };
//! let file = Entry {
//!     path: b"docs/empty".to_vec(),
//!     kind: EntryKind::File { size: 0, root: xylem_hash::hash(b"") },
//!     mode: 0o644, mtime_s: 1_700_000_000, mtime_ns: 5,
//! };
//! let mut bytes = Vec::new();
//! let mut writer = ListingWriter::new(|piece: &[u8]| bytes.extend_from_slice(piece));
//! writer.push(&folder)?;
//! writer.push(&file)?;
//! assert_eq!(writer.finish().files, 1);
//!
//! let read: Result<Vec<Entry>, _> = entries(&bytes).collect();
//! assert_eq!(read?, [folder, file]);
//! # Ok::<(), xylem_object::listing::ListingError>(())
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

mod path;
mod reader;
mod writer;

pub use path::{
    MAX_COMPONENT, MAX_DEPTH, MAX_PATH, MAX_TARGET, PathError, SymlinkEscapes, check_component,
    check_hard_link, check_path, check_path_on_windows, check_target, is_reserved, symlink_escapes,
};
pub use reader::{ListingEntries, ListingReader, entries, leading_path, next_entry};
pub use writer::ListingWriter;

use xylem_hash::Hash;

/// First bytes of every listing.
pub const MAGIC: [u8; 8] = *b"xylemdir";
/// The version of the layout, the byte after [`MAGIC`].
pub const VERSION: u8 = 1;
/// Bytes before the first entry.
pub const HEADER_LEN: usize = MAGIC.len() + 1;

// An entry, in wire order; all integers big-endian.
const KIND_AT: usize = 0; //      u8: 0 file, 1 directory, 2 symbolic link, 3 hard link
const MODE_AT: usize = 1; //      u16: permission bits
const MTIME_S_AT: usize = 3; //   i64: seconds since 1970
const MTIME_NS_AT: usize = 11; // u32: nanoseconds, below 10^9
const PATH_LEN_AT: usize = 15; // u16
const PATH_AT: usize = 17; //     the path; then
//   a file:          size u64, root 32 bytes
//   a directory:     nothing
//   a symbolic link: target length u16, target
//   a hard link:     target length u16, path of an earlier regular file
const FILE_TAIL: usize = 8 + 32;
const LINK_HEAD: usize = 2;

const KIND_FILE: u8 = 0;
const KIND_DIRECTORY: u8 = 1;
const KIND_SYMLINK: u8 = 2;
const KIND_HARD_LINK: u8 = 3;

/// Permission bits that a listing carries. Set-id and sticky bits are dropped.
pub const MODE_MASK: u32 = 0o777;
const NANOS_PER_SECOND: u32 = 1_000_000_000;

/// Bytes of the longest possible entry.
pub const MAX_ENTRY: usize = PATH_AT + MAX_PATH + LINK_HEAD + MAX_TARGET;

/// One entry of a shared folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path relative to the shared folder: raw bytes, components separated by `/`.
    pub path: Vec<u8>,
    /// The kind of entry, with what is specific to it.
    pub kind: EntryKind,
    /// Permission bits; [`ListingWriter`] keeps those of [`MODE_MASK`]. A symbolic link is always written with `0o777` and a
    /// time of zero, as not every system can set a link's mode and time. So is a hard link, which has the mode and time
    /// of its file.
    pub mode: u32,
    /// Time of the last change, seconds since 1970 (may be negative).
    pub mtime_s: i64,
    /// Nanoseconds on top of `mtime_s`, below 1,000,000,000.
    pub mtime_ns: u32,
}

/// The kind of an [`Entry`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File {
        /// Its length in bytes, at most [`crate::MAX_SIZE`].
        size: u64,
        /// Its BLAKE3 hash.
        root: Hash,
    },
    /// A folder.
    Directory,
    /// A symbolic link.
    Symlink {
        /// The target as it was read; see [`symlink_escapes`].
        target: Vec<u8>,
    },
    /// A further name of a regular file that is listed under an earlier path. It has no content and no file number.
    HardLink {
        /// Path of that file in the same listing. The reader checks that it is a valid and earlier path. Only the
        /// caller with the whole listing can check that a file is listed there.
        target: Vec<u8>,
    },
}

impl Entry {
    /// How this entry may lead out of the shared folder; `None` for all entries but some links.
    pub fn escapes(&self) -> Option<SymlinkEscapes> {
        match &self.kind {
            EntryKind::Symlink { target } => symlink_escapes(&self.path, target),
            _ => None,
        }
    }

    /// Bytes of its encoding in a listing, at most [`MAX_ENTRY`].
    pub fn encoded_len(&self) -> usize {
        let tail = match &self.kind {
            EntryKind::File { .. } => FILE_TAIL,
            EntryKind::Directory => 0,
            EntryKind::Symlink { target } | EntryKind::HardLink { target } => {
                LINK_HEAD.saturating_add(target.len())
            }
        };
        PATH_AT.saturating_add(self.path.len()).saturating_add(tail)
    }
}

/// Totals of a listing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Entries of every kind.
    pub entries: u64,
    /// Regular files: the next file's number in [`crate::ObjectId::File`].
    pub files: u64,
    /// Sum of the files' sizes in bytes.
    pub bytes: u64,
}

impl Totals {
    fn add(&mut self, kind: &EntryKind) -> Result<(), ListingFault> {
        if let EntryKind::File { size, .. } = kind {
            if *size > crate::MAX_SIZE {
                return Err(ListingFault::FileTooLarge(*size));
            }
            self.bytes = self.bytes.checked_add(*size).ok_or(ListingFault::TotalTooLarge)?;
            self.files = self.files.saturating_add(1);
        }
        self.entries = self.entries.saturating_add(1);
        Ok(())
    }
}

/// Why an entry cannot be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("listing entry {entry} (\"{}\"): {fault}", path.escape_ascii())]
pub struct ListingError {
    /// The entry's number, from 0.
    pub entry: u64,
    /// Its path, or the part that is known.
    pub path: Vec<u8>,
    /// The fault.
    pub fault: ListingFault,
}

/// Faults of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ListingFault {
    /// The first bytes are not [`MAGIC`].
    #[error("this is not a listing")]
    NotAListing,
    /// A version that this program does not know.
    #[error("the listing has version {0}; this xylem knows version {VERSION}: update it")]
    UnknownVersion(u8),
    /// The bytes end inside the header or an entry.
    #[error("the listing is truncated")]
    CutOff,
    /// A kind byte that is not assigned.
    #[error("unknown kind {0}: update xylem")]
    UnknownKind(u8),
    /// Permission bits outside [`MODE_MASK`], or a link of either kind with bits other than `0o777`.
    #[error("mode {0:o} is not allowed")]
    Mode(u32),
    /// Nanoseconds not below 1,000,000,000.
    #[error("{0} nanoseconds is a second or more")]
    Nanos(u32),
    /// A symbolic or hard link with a time other than zero.
    #[error("a link must not have a time")]
    LinkTime,
    /// A file larger than [`crate::MAX_SIZE`].
    #[error("{0} bytes is more than a file may have (16 TiB)")]
    FileTooLarge(u64),
    /// The sum of the sizes does not fit in 64 bits.
    #[error("the total size of the files is too large")]
    TotalTooLarge,
    /// The path or the link target is invalid.
    #[error(transparent)]
    Path(#[from] PathError),
}
