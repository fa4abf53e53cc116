//! [`DiskAttributes`]: the attributes of files on disk at the time when they had the recorded content.
//!
//! A listing contains the attributes that files should have. A disk may keep other times and modes (whole seconds, no
//! modes). It also has what no listing contains: the inode, and the time of the last change, which no program can set.
//! These distinguish a file that was written to from one that decayed and from one that is unchanged, even if size and
//! modification time are the same.
//!
//! There is one file for each record, `seen/<BLAKE3 of the path>`: first the attributes of the path itself, then, for a
//! directory, of each entry of its listing in order. It vouches for nothing: if it is missing, damaged or of another
//! root, files are read again. Layout: docs/spec/store.md, "How files looked".
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::io;
use std::path::{Path, PathBuf};

use xylem_hash::{Hash, Hasher};

use crate::catalog::path_key;
use crate::error::StoreError;
use crate::file::FileRef;
use crate::layout::SEEN;
use crate::medium::{FileTime, Meta, OpenHow};
use crate::store::{NewFile, Store};

const MAGIC: &[u8; 8] = b"xyseen01";
/// Magic, checksum, root.
const HEAD: usize = 8 + 32 + 32;
/// Mode, modification time, change time (seconds, nanoseconds each), inode number.
const RECORD: usize = 4 + 12 + 12 + 8;
/// Records that are read or written at a time.
const RECORDS_AT_A_TIME: usize = 2048;

/// The attributes of one file on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskAttributes {
    /// Permission bits (0o7777).
    pub mode: u32,
    /// Modification time.
    pub mtime: FileTime,
    /// Change time; zero where the platform has none.
    pub ctime: FileTime,
    /// Inode number; 0 where the platform has none.
    pub ino: u64,
}

impl DiskAttributes {
    /// The relevant part of `meta`.
    #[must_use]
    pub fn of(meta: &Meta) -> Self {
        let Meta { mode, mtime, ctime, ino, .. } = *meta;
        Self { mode, mtime, ctime, ino }
    }

    /// Whether the file is unchanged, as far as the file system shows. Its size is not compared.
    #[must_use]
    pub fn is_unchanged(&self, now: &Meta) -> bool {
        (self.mtime, self.ctime, self.ino) == (now.mtime, now.ctime, now.ino)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.mode.to_le_bytes());
        for time in [self.mtime, self.ctime] {
            out.extend_from_slice(&time.secs.to_le_bytes());
            out.extend_from_slice(&time.nanos.to_le_bytes());
        }
        out.extend_from_slice(&self.ino.to_le_bytes());
    }

    fn decode(bytes: &[u8; RECORD]) -> Option<Self> {
        let (mode, rest) = bytes.split_first_chunk::<4>()?;
        let (mtime, rest) = time(rest)?;
        let (ctime, rest) = time(rest)?;
        let ino = u64::from_le_bytes(*rest.first_chunk()?);
        Some(Self { mode: u32::from_le_bytes(*mode), mtime, ctime, ino })
    }
}

fn time(bytes: &[u8]) -> Option<(FileTime, &[u8])> {
    let (secs, rest) = bytes.split_first_chunk::<8>()?;
    let (nanos, rest) = rest.split_first_chunk::<4>()?;
    let (secs, nanos) = (i64::from_le_bytes(*secs), u32::from_le_bytes(*nanos));
    Some((FileTime { secs, nanos }, rest))
}

fn name_of(canonical_path: &[u8]) -> (Hash, PathBuf) {
    let key = path_key(canonical_path);
    (key, Path::new(SEEN).join(key.to_hex()))
}

fn checksum(mut records: Hasher, root: &Hash, key: &Hash) -> Hash {
    records.update(root.as_bytes());
    records.update(key.as_bytes());
    records.finalize()
}

/// Attributes of files while they are being collected.
pub struct DiskAttributesWriter {
    new: NewFile,
    hasher: Hasher,
    buffer: Vec<u8>,
    written: u64,
}

impl DiskAttributesWriter {
    /// Starts a collection.
    ///
    /// # Errors
    /// As [`Store::new_file`].
    pub fn new(store: &Store) -> Result<Self, StoreError> {
        let (new, hasher) = (store.new_file()?, Hasher::new());
        Ok(Self { new, hasher, buffer: Vec::new(), written: HEAD as u64 })
    }

    /// Adds the next file's attributes.
    ///
    /// # Errors
    /// The medium's.
    pub fn push(&mut self, seen: &DiskAttributes) -> Result<(), StoreError> {
        seen.encode(&mut self.buffer);
        if self.buffer.len() >= RECORD.saturating_mul(RECORDS_AT_A_TIME) {
            self.write()
        } else {
            Ok(())
        }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        self.hasher.update(&self.buffer);
        self.new.file().write_all(&self.buffer, self.written)?;
        self.written = self.written.saturating_add(self.buffer.len() as u64);
        self.buffer.clear();
        Ok(())
    }

    /// Stores them as the attributes of `canonical_path`'s files when that had this root.
    ///
    /// # Errors
    /// The medium's.
    pub fn keep(mut self, canonical_path: &[u8], root: &Hash) -> Result<(), StoreError> {
        self.write()?;
        let (key, name) = name_of(canonical_path);
        let sum = checksum(self.hasher, root, &key);
        let head = [&MAGIC[..], sum.as_bytes(), root.as_bytes()].concat();
        self.new.file().write_all(&head, 0)?;
        let durability = self.new.durability();
        self.new.keep_as(&name, durability)
    }
}

/// The stored attributes of files, one after the other.
pub struct DiskAttributesReader {
    file: FileRef,
    written: FileTime,
    at: u64,
    buffer: Vec<u8>,
    next: usize,
}

impl DiskAttributesReader {
    /// When they were written. A file changed at about that time may have been changed after its attributes were read.
    #[must_use]
    pub fn written(&self) -> FileTime {
        self.written
    }

    fn fill(&mut self) -> Result<(), StoreError> {
        self.buffer.resize(RECORD.saturating_mul(RECORDS_AT_A_TIME), 0);
        let got = self.file.read_full(&mut self.buffer, self.at)?;
        self.buffer.truncate(got);
        self.at = self.at.saturating_add(got as u64);
        self.next = 0;
        Ok(())
    }
}

impl Iterator for DiskAttributesReader {
    type Item = DiskAttributes;

    /// The next; `None` at the end, or once reading fails.
    fn next(&mut self) -> Option<DiskAttributes> {
        if self.next >= self.buffer.len() {
            self.fill().ok()?;
        }
        let record = self.buffer.get(self.next..)?.first_chunk::<RECORD>()?;
        self.next = self.next.saturating_add(RECORD);
        DiskAttributes::decode(record)
    }
}

impl Store {
    /// The attributes of `canonical_path`'s files when that had this root; `None` if there is no intact file of them.
    ///
    /// # Errors
    /// The medium's, except "not found".
    pub fn seen(
        &self,
        canonical_path: &[u8],
        root: &Hash,
    ) -> Result<Option<DiskAttributesReader>, StoreError> {
        let (key, name) = name_of(canonical_path);
        let file = match self.open_named(&name, OpenHow::ReadNoFollow) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(None),
            // A directory or a link instead of the file.
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::InvalidInput => {
                return Ok(None);
            }
            Err(StoreError::Unsafe { .. }) => return Ok(None),
            Err(e) => return Err(e),
        };
        let intact = match is_intact(&file, &key, root) {
            // A directory can be opened, but not read.
            Err(StoreError::Unsafe { .. }) => false,
            other => other?,
        };
        let written = file.metadata()?.mtime;
        let (at, buffer) = (HEAD as u64, Vec::new());
        Ok(intact.then_some(DiskAttributesReader { file, written, at, buffer, next: 0 }))
    }

    /// Removes the stored attributes of a path's files.
    ///
    /// # Errors
    /// The medium's.
    pub(crate) fn forget_seen(&self, canonical_path: &[u8]) -> Result<(), StoreError> {
        self.remove_named(&name_of(canonical_path).1)
    }
}

fn is_intact(file: &FileRef, key: &Hash, root: &Hash) -> Result<bool, StoreError> {
    let mut head = [0; HEAD];
    if file.read_full(&mut head, 0)? < HEAD {
        return Ok(false);
    }
    let says_so = head.strip_prefix(MAGIC).and_then(|rest| rest.strip_suffix(root.as_bytes()));
    let Some(sum) = says_so else { return Ok(false) };
    let (mut hasher, mut at) = (Hasher::new(), HEAD as u64);
    let mut piece = vec![0; RECORD.saturating_mul(RECORDS_AT_A_TIME)];
    loop {
        let got = file.read_full(&mut piece, at)?;
        hasher.update(&piece[..got]);
        at = at.saturating_add(got as u64);
        if got < piece.len() {
            return Ok(checksum(hasher, root, key).as_bytes() == sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::disk::DiskMedium;

    fn number(n: u64) -> DiskAttributes {
        let time = |n: i64| FileTime { secs: -n, nanos: 7 };
        DiskAttributes { mode: 0o640, mtime: time(n as i64), ctime: time(3), ino: n << 40 }
    }

    /// Attributes are read back in order, for that path and root only, and never from a damaged or truncated file.
    #[test]
    fn attributes_are_read_back_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(Arc::new(DiskMedium::new()), dir.path()).unwrap();
        let (root, other) = (xylem_hash::hash(b"root"), xylem_hash::hash(b"other"));
        for count in [0, 1, RECORDS_AT_A_TIME as u64, 5_000] {
            let mut new = DiskAttributesWriter::new(&store).unwrap();
            (0..count).for_each(|n| new.push(&number(n)).unwrap());
            new.keep(b"/a", &root).unwrap();
            let seen = store.seen(b"/a", &root).unwrap().unwrap();
            assert!(seen.eq((0..count).map(number)));
        }
        assert!(store.seen(b"/a", &other).unwrap().is_none());
        assert!(store.seen(b"/b", &root).unwrap().is_none());
        let place = dir.path().join(name_of(b"/a").1);
        let bytes = std::fs::read(&place).unwrap();
        let is_there = |bytes: &[u8]| {
            std::fs::write(&place, bytes).unwrap();
            store.seen(b"/a", &root).unwrap().is_some()
        };
        for at in [0, 8, 40, HEAD, bytes.len() / 2, bytes.len() - 1] {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(!is_there(&bad), "byte {at}");
            assert!(!is_there(&bytes[..at]), "cut at {at}");
        }
        assert!(is_there(&bytes));
        std::fs::rename(&place, dir.path().join(name_of(b"/b").1)).unwrap();
        assert!(store.seen(b"/b", &root).unwrap().is_none());
        std::fs::create_dir(&place).unwrap();
        assert!(store.seen(b"/a", &root).unwrap().is_none());
    }
}
