//! [`NodeFile`]: a small file in a node's store, which is read and written as a whole.

use std::path::{Path, PathBuf};

use xylem_base::disk;
use xylem_hash::hash;
use xylem_store::{Clobber, Durability, OpenHow, StoreError, read_small, write_whole};

/// Length of the hash at the end of a file with a checksum, bytes.
const HASH_LEN: usize = 32;

/// A small file in a node's store.
pub(crate) struct NodeFile {
    /// The file's name below the store.
    pub(crate) name: &'static str,
    /// Largest size, bytes. A larger file is damaged.
    pub(crate) max: u64,
}

impl NodeFile {
    pub(crate) fn path(&self, store: &Path) -> PathBuf {
        store.join(self.name)
    }

    /// The error that the file holds what no node writes.
    pub(crate) fn damaged(&self, store: &Path, what: &'static str) -> StoreError {
        StoreError::Corrupt { path: self.path(store), offset: 0, what }
    }

    /// Reads the file; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, is larger than permitted, or is no regular file.
    pub(crate) fn read(&self, store: &Path) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.path(store);
        match read_small(&*disk(), &path, OpenHow::ReadNoFollow, self.max) {
            Err(StoreError::Corrupt { .. } | StoreError::Unsafe { .. }) => {
                Err(self.damaged(store, "it is not a file that xylem writes"))
            }
            read => read,
        }
    }

    /// Writes the file, readable by its owner alone.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(
        &self,
        store: &Path,
        content: &[u8],
        durability: Durability,
    ) -> Result<(), StoreError> {
        write_whole(&*disk(), &self.path(store), content, 0o600, Clobber::Replace, durability)
    }

    /// As [`Self::write`], with the content's hash at the end.
    pub(crate) fn write_hashed(
        &self,
        store: &Path,
        content: &[u8],
        durability: Durability,
    ) -> Result<(), StoreError> {
        self.write(store, &[content, hash(content).as_bytes()].concat(), durability)
    }
}

/// The content of a file with its hash at the end; `None` if the hash is wrong.
pub(crate) fn hashed_content(file: &[u8]) -> Option<&[u8]> {
    let (content, kept) = file.split_last_chunk::<HASH_LEN>()?;
    (hash(content).as_bytes() == kept).then_some(content)
}
