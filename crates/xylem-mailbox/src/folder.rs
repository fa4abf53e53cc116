//! [`MailFiles`]: the files of the mail store. Each is written atomically and is on the device before the call returns;
//! only its owner can read it.
//!
//! Nothing is cached: several programs may share a store, and take turns by a file lock.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use xylem_store::{
    Clobber, FileRef, Medium, OpenHow, StoreError, create_dirs, keep_private, remove_unfinished,
    write_atomically,
};
use zeroize::Zeroizing;

/// Pause before a lock that another program holds is tried again; it is held for some milliseconds.
const LOCK_RETRY: Duration = Duration::from_millis(2);

/// A directory of such files, named by their paths in it.
pub(super) struct MailFiles {
    medium: Arc<dyn Medium>,
    root: PathBuf,
}

/// While this value lives, no other program changes the folder.
pub(super) struct MailLock(#[expect(dead_code, reason = "the lock ends with the file")] FileRef);

impl MailFiles {
    /// Opens the directory; makes it, and these subdirectories, if they are missing.
    pub(super) fn open(
        medium: Arc<dyn Medium>,
        root: PathBuf,
        directories: &[&str],
    ) -> Result<Self, StoreError> {
        let folder = Self { medium, root };
        create_dirs(&*folder.medium, &folder.root)?;
        keep_private(&*folder.medium, &folder.root)?;
        for directory in directories {
            folder.make_directory(directory)?;
        }
        Ok(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Waits for the lock.
    pub(super) fn lock(&self) -> Result<MailLock, StoreError> {
        let file = self.open_file("lock", OpenHow::Create { mode: 0o600 })?;
        loop {
            match file.lock() {
                Err(StoreError::Busy { .. }) => thread::sleep(LOCK_RETRY),
                other => return other.map(|()| MailLock(file)),
            }
        }
    }

    fn open_file(&self, name: &str, how: OpenHow) -> Result<FileRef, StoreError> {
        FileRef::open(&*self.medium, &self.path(name), how)
    }

    /// Reads a file of at most `limit` bytes; `None` if it is missing. A longer file is cut, and no parser accepts the
    /// rest.
    pub(super) fn read(
        &self,
        name: &str,
        limit: usize,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, StoreError> {
        let file = match self.open_file(name, OpenHow::ReadNoFollow) {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            other => other?,
        };
        let size = usize::try_from(file.metadata()?.size).unwrap_or(limit).min(limit);
        // Full size from the start: a growing vector would leave copies of secrets in freed memory.
        let mut bytes = Zeroizing::new(vec![0; size]);
        let got = file.read_full(&mut bytes, 0)?;
        bytes.truncate(got);
        Ok(Some(bytes))
    }

    /// Writes a file, and replaces an earlier one.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        write_atomically(&*self.medium, &self.path(name), bytes, 0o600, Clobber::Replace)
    }

    /// Renames a file within its directory.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        let (from, to) = (self.path(from), self.path(to));
        self.medium
            .rename(&from, &to, Clobber::Replace)
            .map_err(|e| StoreError::from_io("rename to this name", &to, None, e))?;
        self.sync_above(&to)
    }

    /// Removes a file; a missing file is no error.
    pub(super) fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path(name);
        match self.medium.remove_file(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(StoreError::from_io("remove", &path, None, e)),
            Ok(()) => self.sync_above(&path),
        }
    }

    /// Flushes the parent directory: a name is on the device once its directory is.
    fn sync_above(&self, path: &Path) -> Result<(), StoreError> {
        let directory = path.parent().unwrap_or(&self.root);
        let synced = self.medium.sync_dir(directory);
        synced.map_err(|e| StoreError::from_io("flush to the device", directory, None, e))
    }

    /// Lists the names in a directory, in order, and removes unfinished files of a crash. A missing directory is empty.
    pub(super) fn list(&self, directory: &str) -> Result<Vec<String>, StoreError> {
        let path = self.path(directory);
        let items = match self.medium.list_dir(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|e| StoreError::from_io("list", &path, None, e))?,
        };
        let mut names = Vec::new();
        for item in items {
            let Ok(name) = item.name.into_string() else { continue };
            if !remove_unfinished(&*self.medium, &path.join(&name)) {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the bytes of a file, and its modification time in seconds since 1970; `None` if it is missing.
    pub(super) fn size_and_time(&self, name: &str) -> Option<(u64, i64)> {
        let meta = self.medium.metadata(&self.path(name)).ok()?;
        Some((meta.size, meta.mtime.secs))
    }

    /// Makes a subdirectory.
    pub(super) fn make_directory(&self, name: &str) -> Result<(), StoreError> {
        create_dirs(&*self.medium, &self.path(name))
    }

    /// Removes a directory if it is empty.
    pub(super) fn remove_directory(&self, name: &str) {
        let _ = self.medium.remove_dir(&self.path(name));
    }
}
