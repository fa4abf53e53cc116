//! [`Folder`]: files of the mail store. Each is there as a whole or not at all, on the device before
//! the call returns, and only its owner reads it.
//!
//! Nothing is cached: several programs may have one store, and take turns by a lock on a file.

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

/// A lock that another program has is tried again after this long; it has it for some milliseconds.
const LOCK_RETRY: Duration = Duration::from_millis(2);

/// A directory of such files, named by their paths in it.
pub(super) struct Folder {
    medium: Arc<dyn Medium>,
    root: PathBuf,
}

/// While this is kept, no other program changes the folder.
pub(super) struct Locked(#[expect(dead_code, reason = "the lock ends with the file")] FileRef);

impl Folder {
    /// Makes the directory, and these in it, if they are not there.
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
    pub(super) fn lock(&self) -> Result<Locked, StoreError> {
        let file = self.open_file("lock", OpenHow::Create { mode: 0o600 })?;
        loop {
            match file.lock() {
                Err(StoreError::Busy { .. }) => thread::sleep(LOCK_RETRY),
                other => return other.map(|()| Locked(file)),
            }
        }
    }

    fn open_file(&self, name: &str, how: OpenHow) -> Result<FileRef, StoreError> {
        FileRef::open(&*self.medium, &self.path(name), how)
    }

    /// A file of at most `limit` bytes; `None` if it is not there. A longer one is cut, which no
    /// reader takes for whole.
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
        // Enough room from the start: a vector that grows leaves copies of secrets behind.
        let mut bytes = Zeroizing::new(vec![0; size]);
        let got = file.read_full(&mut bytes, 0)?;
        bytes.truncate(got);
        Ok(Some(bytes))
    }

    /// Writes a file, whatever was there before.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        write_atomically(&*self.medium, &self.path(name), bytes, 0o600, Clobber::Replace)
    }

    /// Gives a file another name, of the same directory.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        let (from, to) = (self.path(from), self.path(to));
        self.medium
            .rename(&from, &to, Clobber::Replace)
            .map_err(|e| StoreError::from_io("rename to this name", &to, None, e))?;
        self.sync_above(&to)
    }

    /// Removes a file; none is as good.
    pub(super) fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path(name);
        match self.medium.remove_file(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(StoreError::from_io("remove", &path, None, e)),
            Ok(()) => self.sync_above(&path),
        }
    }

    /// A name is on the device when its directory is.
    fn sync_above(&self, path: &Path) -> Result<(), StoreError> {
        let directory = path.parent().unwrap_or(&self.root);
        let synced = self.medium.sync_dir(directory);
        synced.map_err(|e| StoreError::from_io("flush to the device", directory, None, e))
    }

    /// The names in a directory, in order; what a crash left unfinished is removed. None for a
    /// directory that is not there.
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

    /// Bytes of a file and when it was written, seconds since 1970; `None` if it is not there.
    pub(super) fn size_and_time(&self, name: &str) -> Option<(u64, i64)> {
        let meta = self.medium.metadata(&self.path(name)).ok()?;
        Some((meta.size, meta.mtime.secs))
    }

    /// Makes a directory below one that is there.
    pub(super) fn make_directory(&self, name: &str) -> Result<(), StoreError> {
        create_dirs(&*self.medium, &self.path(name))
    }

    /// Removes a directory if nothing is in it.
    pub(super) fn remove_directory(&self, name: &str) {
        let _ = self.medium.remove_dir(&self.path(name));
    }
}
