//! [`View`]: a medium with files that are read without blocking.

use std::any::Any;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use xylem_store::{Clobber, FileKind, FileRef, FileTime, Medium, MediumFile, Meta, OpenHow};

use xylem_tree::NODE_LEN;

use super::{OPEN_FILES, ReadsShared};

/// The medium of the serving loop; see the module's documentation. Calls other than reads go to the medium below.
pub(super) struct View {
    shared: Arc<ReadsShared>,
}

impl View {
    pub(super) fn new(shared: Arc<ReadsShared>) -> Self {
        Self { shared }
    }
}

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ReadKind {
    /// Content of any medium, which may change.
    Content,
    /// Bytes of which none changes once it is read. There may be more later, see [`GrowingRead::grew`].
    Fixed,
    /// Nodes of a growing tree: zeros where none is written yet.
    GrowingNodes,
}

/// An open file to which more is written while it is read.
pub struct GrowingRead {
    /// The file as the loop reads it.
    pub file: FileRef,
    open: Arc<OpenFile>,
}

impl GrowingRead {
    pub(super) fn new(open: Arc<OpenFile>) -> Self {
        let file = FileRef::new(Arc::new(LoopFile(open.clone())), open.path.as_path());
        Self { file, open }
    }

    /// To be called when more was written: forgets where the file ended, and nodes that were not written then.
    pub fn grew(&self) {
        let OpenFile { shared, number, .. } = &*self.open;
        let mut state = shared.state();
        state.growths += 1;
        if self.open.kind == ReadKind::GrowingNodes {
            state.keep(|held| held.file != *number || are_all_written(&held.bytes));
        }
        drop(state);
        // After the count: a thread that read before compares it, and forgets the end that it has found.
        self.open.forget_end();
    }
}

/// Whether each of these nodes is written.
pub(super) fn are_all_written(nodes: &[u8]) -> bool {
    nodes.chunks(NODE_LEN).all(|node| node.iter().any(|byte| *byte != 0))
}

/// One file, which may not be opened yet.
pub(super) struct OpenFile {
    shared: Arc<ReadsShared>,
    own: Weak<OpenFile>,
    number: u64,
    path: PathBuf,
    how: OpenHow,
    kind: ReadKind,
    /// Whether all reads are left to threads.
    is_slow: bool,
    /// The open file, if it is not slow.
    near: OnceLock<Arc<dyn MediumFile>>,
    there: Mutex<ThreadResults>,
}

/// Results of the threads for one file.
#[derive(Default)]
struct ThreadResults {
    file: Option<Arc<dyn MediumFile>>,
    meta: Option<Meta>,
    /// Why it could not be opened or read; reported once.
    failed: Option<io::Error>,
}

impl OpenFile {
    fn new(
        shared: &Arc<ReadsShared>,
        number: u64,
        path: &Path,
        how: OpenHow,
        near: Option<Arc<dyn MediumFile>>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            shared: shared.clone(),
            own: own.clone(),
            number,
            path: path.to_path_buf(),
            how,
            kind: ReadKind::Content,
            is_slow: shared.is_slow,
            near: near.map(OnceLock::from).unwrap_or_default(),
            there: Mutex::default(),
        })
    }

    /// Wraps an open file.
    pub(super) fn opened(
        shared: &Arc<ReadsShared>,
        number: u64,
        file: &FileRef,
        kind: ReadKind,
    ) -> Arc<Self> {
        let is_slow = shared.below.is_slow(file.path());
        let near = if is_slow { OnceLock::new() } else { OnceLock::from(file.handle()) };
        let there = ThreadResults { file: Some(file.handle()), ..ThreadResults::default() };
        Arc::new_cyclic(|own| Self {
            shared: shared.clone(),
            own: own.clone(),
            number,
            path: file.path().to_path_buf(),
            how: OpenHow::Read,
            kind,
            is_slow,
            near,
            there: there.into(),
        })
    }

    /// Returns what it holds.
    pub(super) fn kind(&self) -> ReadKind {
        self.kind
    }

    /// Returns whether each byte may have a price.
    pub(super) fn is_priced(&self) -> bool {
        self.is_slow && self.kind == ReadKind::Content
    }

    /// Returns whether a thread has opened it, or has failed to.
    fn is_settled(&self) -> bool {
        self.near.get().is_some() || self.there().failed.is_some()
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    fn there(&self) -> MutexGuard<'_, ThreadResults> {
        // A poisoned lock is safe to use: nothing panics half-way through a change.
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets where the file ended.
    pub(super) fn forget_end(&self) {
        self.there().meta = None;
    }

    /// Reads on a thread of its own, and blocks as long as that takes. Returns fewer bytes at the end of the file.
    pub(super) fn read_there(
        &self,
        below: &dyn Medium,
        offset: u64,
        len: u64,
    ) -> io::Result<Vec<u8>> {
        let known = self.near.get().cloned().or_else(|| self.there().file.clone());
        let read = || {
            let file = match known {
                Some(file) => file,
                None => below.open(&self.path, self.how)?,
            };
            let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
            let mut filled = 0;
            while filled < bytes.len() {
                match file.read_at(&mut bytes[filled..], offset + filled as u64) {
                    Ok(0) => break,
                    Ok(n) => filled += n,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
            bytes.truncate(filled);
            // Requested after the bytes, so that a change during the read shows in the metadata.
            let meta = file.metadata()?;
            Ok((bytes, file, meta))
        };
        match read() {
            Ok((bytes, file, meta)) => {
                let mut there = self.there();
                if !self.is_slow {
                    self.near.get_or_init(|| file.clone());
                }
                (there.file, there.meta) = (Some(file), Some(meta));
                // No bytes arrived within the file's size.
                if bytes.is_empty() && len > 0 && offset < meta.size {
                    there.failed = Some(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(bytes)
            }
            Err(e) => {
                let mut there = self.there();
                // Content is opened anew when it is wanted again.
                let kept = there.file.take().filter(|_| self.kind != ReadKind::Content);
                *there = ThreadResults { file: kept, ..ThreadResults::default() };
                // `WouldBlock` has a meaning for the loop, so it is not passed on from below.
                there.failed = Some(match e.kind() {
                    io::ErrorKind::WouldBlock => io::Error::other(e),
                    _ => e,
                });
                Err(io::ErrorKind::Other.into())
            }
        }
    }

    fn waits(&self, offset: u64, len: usize) -> io::Error {
        if let Some(own) = self.own.upgrade() {
            self.shared.state().want(&own, offset, len as u64);
        }
        io::ErrorKind::WouldBlock.into()
    }
}

/// One file as the loop reads it.
pub(super) struct LoopFile(pub(super) Arc<OpenFile>);

impl MediumFile for LoopFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let file = &self.0;
        if let Some(near) = file.near.get() {
            match near.read_at_no_wait(buf, offset) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
        if buf.is_empty() {
            return Ok(0);
        }
        let mut there = file.there();
        if let Some(e) = there.failed.take() {
            return Err(e);
        }
        if there.meta.is_some_and(|meta| offset >= meta.size) {
            return Ok(0);
        }
        drop(there);
        file.shared.at_hand(file, buf, offset).ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn reread_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let end = offset.saturating_add(buf.len() as u64);
        self.0.shared.forget(self.0.number, &(offset..end));
        self.read_at(buf, offset)
    }

    fn metadata(&self) -> io::Result<Meta> {
        let file = &self.0;
        if let Some(near) = file.near.get() {
            return near.metadata();
        }
        let mut there = file.there();
        if let Some(e) = there.failed.take() {
            return Err(e);
        }
        let meta = there.meta;
        drop(there);
        meta.ok_or_else(|| file.waits(0, 0))
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_mode(&self, _: u32) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_mtime(&self, _: FileTime) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Medium for View {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn MediumFile>> {
        let shared = &self.shared;
        if !matches!(how, OpenHow::Read | OpenHow::ReadNoFollow) {
            return shared.below.open(path, how);
        }
        let mut state = shared.state();
        let known = state.open.iter().position(|(at, file)| at == path && file.how == how);
        if let Some((path, file)) = known.and_then(|at| state.open.remove(at)) {
            // From now on the caller keeps a file open that can be read without waiting.
            if shared.is_slow || !file.is_settled() {
                state.open.push_back((path, file.clone()));
            }
            return Ok(Arc::new(LoopFile(file)));
        }
        state.files += 1;
        let number = state.files;
        if !shared.is_slow {
            drop(state);
            match shared.below.open_no_wait(path, how) {
                Ok(near) => {
                    let file = OpenFile::new(shared, number, path, how, Some(near));
                    return Ok(Arc::new(LoopFile(file)));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
            state = shared.state();
        }
        let file = OpenFile::new(shared, number, path, how, None);
        let closed = if state.open.len() == OPEN_FILES { state.open.pop_front() } else { None };
        state.open.push_back((path.to_path_buf(), file.clone()));
        drop(state);
        drop(closed);
        Ok(Arc::new(LoopFile(file)))
    }

    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn Medium>> {
        self.shared.below.open_dir(path)
    }

    fn metadata(&self, path: &Path) -> io::Result<Meta> {
        self.shared.below.metadata(path)
    }

    fn owns(&self, meta: &Meta) -> bool {
        self.shared.below.owns(meta)
    }

    fn umask(&self) -> u32 {
        self.shared.below.umask()
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.shared.below.create_dir(path, mode)
    }

    fn for_each_name(&self, path: &Path, take: &mut dyn FnMut(&OsStr, FileKind)) -> io::Result<()> {
        self.shared.below.for_each_name(path, take)
    }

    fn rename(&self, from: &Path, to: &Path, clobber: Clobber) -> io::Result<()> {
        self.shared.below.rename(from, to, clobber)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.shared.below.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.shared.below.remove_dir(path)
    }

    fn symlink(&self, target: &Path, link: &Path) -> io::Result<()> {
        self.shared.below.symlink(target, link)
    }

    fn hard_link(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        self.shared.below.hard_link(name, to, new)
    }

    fn move_to(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        self.shared.below.move_to(name, to, new)
    }

    fn as_any(&self) -> &dyn Any {
        self.shared.below.as_any()
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.shared.below.canonical(path)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.shared.below.read_link(path)
    }

    fn is_remote(&self, path: &Path) -> bool {
        self.shared.below.is_remote(path)
    }

    fn is_slow(&self, path: &Path) -> bool {
        self.shared.below.is_slow(path)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.shared.below.set_mode(path, mode)
    }

    fn set_mtime(&self, path: &Path, mtime: FileTime) -> io::Result<()> {
        self.shared.below.set_mtime(path, mtime)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.shared.below.sync_dir(path)
    }
}
