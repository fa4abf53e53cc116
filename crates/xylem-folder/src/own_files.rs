//! [`OwnFiles`]: the small files that a store keeps for a folder in step. Each begins with the hash of its content, so
//! that a damaged file is not taken for a missing one. All access goes through one
//! [medium](xylem_base::FileMedium).
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use xylem_base::{FileMedium, disk};
use xylem_store::{Clobber, FileRef, Medium, OpenHow, write_atomically};

use super::error::{FolderError, at};

/// Directory among these files that is watched for changes: it decides which keys are members and what is shared.
pub(super) const ROLES: &str = "roles";
/// First bytes of a file, before the hash of the rest.
const MAGIC: &[u8; 18] = b"xylem sync kept 1\n";
/// Permission bits of a lock file, before the umask.
const LOCK_MODE: u32 = 0o666;
/// Most bytes of a file: more than the statements of all members take.
const MAX_FILE: u64 = 32 << 20;

/// State of a file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OwnFile<T> {
    /// The file does not exist.
    Missing,
    /// The hash does not match. Holds the bytes after the hash.
    Damaged(Vec<u8>),
    /// The file is as it was written.
    Whole(T),
}

impl OwnFile<Vec<u8>> {
    fn read(bytes: Vec<u8>) -> Self {
        let hashed = bytes.strip_prefix(MAGIC).and_then(|rest| rest.split_first_chunk::<32>());
        match hashed {
            Some((hash, body)) if xylem_hash::hash(body).as_bytes() == hash => {
                Self::Whole(body.to_vec())
            }
            _ => Self::Damaged(bytes.get(MAGIC.len().saturating_add(32)..).unwrap_or(&[]).to_vec()),
        }
    }
}

impl<T> OwnFile<T> {
    /// Parses a whole file with `read`; a file that `read` does not understand counts as damaged.
    pub(super) fn and_then<U>(self, read: impl FnOnce(&T) -> Option<U>) -> OwnFile<U> {
        match self {
            Self::Missing => OwnFile::Missing,
            Self::Damaged(rest) => OwnFile::Damaged(rest),
            Self::Whole(whole) => read(&whole).map_or(OwnFile::Damaged(Vec::new()), OwnFile::Whole),
        }
    }
}

/// Access to these files through one medium.
#[derive(Clone)]
pub(super) struct OwnFiles(Arc<dyn Medium>);

impl fmt::Debug for OwnFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnFiles")
    }
}

impl OwnFiles {
    /// Uses this machine's disk.
    pub(super) fn on_disk() -> Self {
        Self(disk())
    }

    /// Uses the medium of a folder.
    pub(super) fn of(medium: &FileMedium) -> Self {
        Self(medium.shared())
    }

    #[cfg(test)]
    pub(super) fn on(medium: impl Medium + 'static) -> Self {
        Self(Arc::new(medium))
    }

    pub(super) fn medium(&self) -> &dyn Medium {
        &*self.0
    }

    /// Opens a file for reading; `None` if it does not exist.
    pub(super) fn open(&self, path: &Path) -> Result<Option<FileRef>, FolderError> {
        match self.0.open(path, OpenHow::Read) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => Ok(Some(FileRef::new(opened.map_err(at(path))?, path))),
        }
    }

    /// Reads a file, up to `most` bytes; `None` if it does not exist.
    pub(super) fn bytes(&self, path: &Path, most: u64) -> Result<Option<Vec<u8>>, FolderError> {
        let Some(file) = self.open(path)? else { return Ok(None) };
        let too_large = |_| at(path)(io::ErrorKind::FileTooLarge.into());
        let mut bytes =
            vec![0; usize::try_from(file.metadata()?.size.min(most)).map_err(too_large)?];
        let got = file.read_full(&mut bytes, 0)?;
        bytes.truncate(got);
        Ok(Some(bytes))
    }

    /// Takes the lock of a file, which is made if it does not exist: until the returned file is dropped. `None` if
    /// another process holds it.
    pub(super) fn try_lock(&self, path: &Path) -> Result<Option<FileRef>, io::Error> {
        let file = self.0.open(path, OpenHow::Create { mode: LOCK_MODE })?;
        Ok(file.try_lock()?.then(|| FileRef::new(file, path)))
    }

    /// As [`Self::try_lock`], but waits for the lock. On a file system without locks, concurrent writers are not
    /// expected.
    pub(super) fn lock(&self, path: &Path) -> Result<FileRef, FolderError> {
        let file = self.0.open(path, OpenHow::Create { mode: LOCK_MODE }).map_err(at(path))?;
        match file.lock() {
            Err(e) if e.kind() != io::ErrorKind::Unsupported => Err(at(path)(e)),
            _ => Ok(FileRef::new(file, path)),
        }
    }

    pub(super) fn is_there(&self, path: &Path) -> Result<bool, FolderError> {
        match self.0.metadata(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            found => found.map_err(at(path)).map(|_| true),
        }
    }

    /// Replaces the whole content of a file with `bytes`, atomically and durably: the new content is on the disk when
    /// this returns.
    pub(super) fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
        Ok(write_atomically(&*self.0, path, bytes, 0o600, Clobber::Replace)?)
    }

    /// Reads a file that [`Self::keep`] wrote, and checks its hash.
    pub(super) fn load(&self, path: &Path) -> Result<OwnFile<Vec<u8>>, FolderError> {
        Ok(self.bytes(path, MAX_FILE)?.map_or(OwnFile::Missing, OwnFile::read))
    }

    /// Writes a file as [`Self::replace`] does, with the magic and the hash in front.
    pub(super) fn keep(&self, path: &Path, body: &[u8]) -> Result<(), FolderError> {
        let whole = [&MAGIC[..], xylem_hash::hash(body).as_bytes(), body].concat();
        self.replace(path, &whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_faults::FaultMedium;

    #[test]
    fn a_damaged_file_is_not_taken_for_missing() {
        let medium = FaultMedium::new();
        let (files, path) = (OwnFiles::on(medium.clone()), Path::new("/file"));
        assert_eq!(files.load(path).unwrap(), OwnFile::Missing);
        files.keep(path, b"what was kept").unwrap();
        assert_eq!(files.load(path).unwrap(), OwnFile::Whole(b"what was kept".to_vec()));
        let whole = medium.read(path).unwrap();
        for at in 0..whole.len() {
            let mut bad = whole.clone();
            bad[at] ^= 1;
            for bad in [&bad[..], &whole[..at]] {
                medium.write(path, bad).unwrap();
                assert!(matches!(files.load(path), Ok(OwnFile::Damaged(_))), "byte {at}");
            }
        }
        medium.write(path, &whole).unwrap();
        medium.fail_read_after(0);
        assert!(files.load(path).is_err(), "what can't be read is neither");
    }
}
