//! [`Members`]: the files of a shared directory.

use std::path::{Path, PathBuf};

use xylem_hash::Hash;
use xylem_object::listing::{Entry, EntryKind};
use xylem_store::{FileState, FileTime, SharedFile, StoreError};

use crate::listed::ListedFiles;
use crate::path::os_path;

/// A file that is served.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) file: SharedFile,
    pub(super) root: Hash,
    pub(super) slot: u64,
}

/// The files of a shared directory, found through its listing.
pub(super) struct Members {
    root: PathBuf,
    pub(super) listed: ListedFiles,
    /// Inode numbers by file number.
    inodes: Vec<u64>,
}

impl Members {
    pub(super) fn new(root: &Path, listed: ListedFiles, inodes: Vec<u64>) -> Self {
        Self { root: root.to_path_buf(), listed, inodes }
    }

    /// The directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// A file by its number.
    ///
    /// # Errors
    /// Those of reading the listing.
    pub(super) fn get(&mut self, number: u64) -> Result<Option<Served>, StoreError> {
        let inode = usize::try_from(number).ok().and_then(|n| self.inodes.get(n).copied());
        let (Some(ino), Some(listed)) = (inode, self.listed.file(number)?) else { return Ok(None) };
        let Entry { path, kind, mtime_s, mtime_ns, .. } = &listed.entry;
        let EntryKind::File { size, root } = *kind else { return Ok(None) };
        let mtime = FileTime { secs: *mtime_s, nanos: *mtime_ns };
        let state = FileState { size, mtime, ino };
        let file = SharedFile { path: self.root.join(os_path(path)), state };
        Ok(Some(Served { file, root, slot: listed.slot }))
    }
}
