//! Reads shared files in their places, with few open files, and a clear error for a file that was edited.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::error::{Difference, StoreError};
use crate::file::{FileRef, FileState, require_regular};
use crate::medium::{FileTime, Medium, OpenHow};

/// A file that was hashed and is served from its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedFile {
    /// Its path.
    pub path: PathBuf,
    /// Its state when it was hashed.
    pub state: FileState,
    /// Its change time then, as [`Meta::ctime`](crate::Meta::ctime).
    pub ctime: FileTime,
}

/// Whether the bytes read are those that were hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedRead {
    /// The file is unchanged.
    Untouched,
    /// The file was touched, although size and time are the same: its mode or links were changed, or its content.
    Touched,
}

/// Number of files that all caches of this process hold open. [`MOST_HELD`]: the limit. A process has a limit, however
/// many files it shares.
static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST_HELD: AtomicUsize = AtomicUsize::new(1_024);

/// Sets the number of files that all [`FileCache`]s of this process together may hold open.
pub fn limit_open_files(files: usize) {
    MOST_HELD.store(files, Relaxed);
}

/// Open handles of shared files. The least recently used is closed for a new one.
pub struct FileCache {
    medium: Arc<dyn Medium>,
    limit: usize,
    open: HashMap<u64, SharedFileHandle>,
    clock: u64,
}

struct SharedFileHandle {
    file: FileRef,
    used: u64,
}

impl SharedFileHandle {
    fn new(file: FileRef) -> Self {
        HELD.fetch_add(1, Relaxed);
        Self { file, used: 0 }
    }
}

impl Drop for SharedFileHandle {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Relaxed);
    }
}

impl FileCache {
    /// At most `limit` (at least 1) files open at once.
    #[must_use]
    pub fn new(medium: Arc<dyn Medium>, limit: usize) -> Self {
        Self { medium, limit: limit.max(1), open: HashMap::new(), clock: 0 }
    }

    /// Fills `out` from byte `offset` of a file. `id` is the caller's number for the file; the same number must always
    /// mean the same [`SharedFile`].
    ///
    /// The check for a change comes after the read, so bytes of an edited file are not handed out. An edit within the
    /// clock tick of the file system goes unnoticed here, and verification by the receiver catches it. If the file was
    /// touched but has the same size and time, the caller has to prove the bytes. A file that was replaced under its
    /// name while open is served unchanged.
    ///
    /// # Errors
    /// [`StoreError::Changed`], [`StoreError::NotFound`], [`StoreError::OutOfRange`] for bytes
    /// beyond the size that was hashed, and the medium's.
    pub fn read_at(
        &mut self,
        id: u64,
        shared: &SharedFile,
        offset: u64,
        out: &mut [u8],
    ) -> Result<SharedRead, StoreError> {
        self.read(id, shared, offset, out, FileRef::read_full)
    }

    /// As [`FileCache::read_at`], to read wrong bytes again from their place.
    ///
    /// # Errors
    /// As [`FileCache::read_at`].
    pub fn reread(
        &mut self,
        id: u64,
        shared: &SharedFile,
        offset: u64,
        out: &mut [u8],
    ) -> Result<SharedRead, StoreError> {
        self.read(id, shared, offset, out, FileRef::reread)
    }

    fn read(
        &mut self,
        id: u64,
        shared: &SharedFile,
        offset: u64,
        out: &mut [u8],
        read: fn(&FileRef, &mut [u8], u64) -> Result<usize, StoreError>,
    ) -> Result<SharedRead, StoreError> {
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > shared.state.size) {
            return Err(StoreError::OutOfRange { path: shared.path.clone(), offset });
        }
        let file = self.handle(id, shared)?;
        let got = read(file, out, offset)?;
        let now = file.metadata()?;
        if let Some(what) = shared.state.difference(&FileState::of(&now)) {
            // The next call opens the name again: the file may have been corrected by then.
            self.open.remove(&id);
            return Err(StoreError::Changed { path: shared.path.clone(), what });
        }
        if got < out.len() {
            let what = Difference::Size { was: shared.state.size, is: offset + got as u64 };
            return Err(StoreError::Changed { path: shared.path.clone(), what });
        }
        Ok(if now.ctime == shared.ctime { SharedRead::Untouched } else { SharedRead::Touched })
    }

    /// Closes a file that is no longer served.
    pub fn close(&mut self, id: u64) {
        self.open.remove(&id);
    }

    fn handle(&mut self, id: u64, shared: &SharedFile) -> Result<&FileRef, StoreError> {
        self.clock += 1;
        if !self.open.contains_key(&id) {
            // Beyond the common limit each cache keeps one: the file that is being read.
            let is_full = |open: &HashMap<_, _>| {
                open.len() >= self.limit || HELD.load(Relaxed) >= MOST_HELD.load(Relaxed)
            };
            while !self.open.is_empty() && is_full(&self.open) {
                let oldest = self.open.iter().min_by_key(|(_, h)| h.used).map(|(id, _)| *id);
                oldest.map(|id| self.open.remove(&id));
            }
            let file = FileRef::open(&*self.medium, &shared.path, OpenHow::Read)?;
            require_regular(&shared.path, &file.metadata()?)?;
            self.open.insert(id, SharedFileHandle::new(file));
        }
        let handle = self.open.get_mut(&id).expect("inserted just above if it was missing");
        handle.used = self.clock;
        Ok(&handle.file)
    }
}
