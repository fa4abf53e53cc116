//! [`FileRef`]: an open file that knows its path, so that every error names the place.

use std::fmt;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::attributes::RefusedAttributes;
use crate::dirs::open_dir;
use crate::error::{Difference, StoreError};
use crate::medium::{FileKind, FileTime, FileWatch, Medium, MediumFile, Meta, OpenHow};
use crate::medium::{read_full_by, write_all_at, write_all_vectored_at};

/// Most attempts to lock a file while its name keeps changing to another file.
const MAX_LOCK_ATTEMPTS: u32 = 16;

/// An open file and its path for errors. Cheap to clone; the handle is shared.
#[derive(Clone)]
pub struct FileRef {
    file: Arc<dyn MediumFile>,
    path: Arc<Path>,
}

impl FileRef {
    /// Wraps an open file; `path` is for messages only.
    pub fn new(file: Arc<dyn MediumFile>, path: impl Into<PathBuf>) -> Self {
        Self { file, path: path.into().into() }
    }

    /// Opens a path of `medium`.
    ///
    /// # Errors
    /// The medium's, as [`StoreError`].
    pub fn open(medium: &dyn Medium, path: &Path, how: OpenHow) -> Result<Self, StoreError> {
        let file =
            medium.open(path, how).map_err(|e| StoreError::from_io("open", path, None, e))?;
        Ok(Self::new(file, path))
    }

    /// Opens a file for writing, or creates it, in a folder that other users may write to. Accepts only a plain file of
    /// ours without a second name.
    ///
    /// # Errors
    /// [`StoreError::Unsafe`] for anything else of this name; the medium's, as [`StoreError`].
    pub fn open_own(medium: &dyn Medium, path: &Path, mode: u32) -> Result<Self, StoreError> {
        let file = Self::open(medium, path, OpenHow::Create { mode })?;
        require_ours(medium, path, &file.metadata()?, Owner::Us)?;
        Ok(file)
    }

    /// As [`FileRef::open`] for a file below `top`; no link on the way from there is followed.
    ///
    /// # Errors
    /// [`StoreError::Unsafe`] if a component on the way is no directory; the medium's, as [`StoreError`].
    pub fn open_below(
        medium: &dyn Medium,
        top: &Path,
        path: &Path,
        how: OpenHow,
    ) -> Result<Self, StoreError> {
        let above = path.strip_prefix(top).ok().and_then(Path::parent);
        let above = above.filter(|above| !above.as_os_str().is_empty());
        let (Some(above), Some(name)) = (above, path.file_name()) else {
            return Self::open(medium, path, how);
        };
        let mut dir = open_dir(medium, top)?;
        let mut shown = top.to_path_buf();
        for component in above {
            shown.push(component);
            dir = open_dir(&*dir, Path::new(component)).map_err(|e| e.of(&shown))?;
        }
        let opened = dir.open(Path::new(name), how);
        Ok(Self::new(opened.map_err(|e| StoreError::from_io("open", path, None, e))?, path))
    }

    /// The open file.
    #[must_use]
    pub fn handle(&self) -> Arc<dyn MediumFile> {
        self.file.clone()
    }

    /// The path that errors name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads until `buf` is full or the file ends; returns the bytes read.
    ///
    /// # Errors
    /// The medium's, with the offset.
    pub fn read_full(&self, buf: &mut [u8], offset: u64) -> Result<usize, StoreError> {
        read_full_by(|buf, at| self.file.read_at(buf, at), buf, offset)
            .map_err(|e| StoreError::from_io("read", &self.path, Some(offset), e))
    }

    /// As [`FileRef::read_full`], without waiting: see [`MediumFile::read_at_no_wait`].
    ///
    /// # Errors
    /// As [`FileRef::read_full`]; one that [`StoreError::is_waiting`].
    pub fn read_full_no_wait(&self, buf: &mut [u8], offset: u64) -> Result<usize, StoreError> {
        read_full_by(|buf, at| self.file.read_at_no_wait(buf, at), buf, offset)
            .map_err(|e| StoreError::from_io("read", &self.path, Some(offset), e))
    }

    /// A handle of the same file for one thread that reads it in order, in pieces.
    pub(crate) fn in_order(&self) -> Self {
        let file = self.file.in_order().unwrap_or_else(|| self.file.clone());
        Self { file, path: self.path.clone() }
    }

    /// As [`FileRef::read_full`], to read wrong bytes again; see [`MediumFile::reread_at`].
    ///
    /// # Errors
    /// As [`FileRef::read_full`].
    pub fn reread(&self, buf: &mut [u8], offset: u64) -> Result<usize, StoreError> {
        read_full_by(|buf, at| self.file.reread_at(buf, at), buf, offset)
            .map_err(|e| StoreError::from_io("read", &self.path, Some(offset), e))
    }

    /// Writes all of `buf`.
    ///
    /// # Errors
    /// The medium's, with the offset; [`StoreError::NoSpace`] when it is full.
    pub fn write_all(&self, buf: &[u8], offset: u64) -> Result<(), StoreError> {
        write_all_at(&*self.file, buf, offset)
            .map_err(|e| StoreError::from_io("write", &self.path, Some(offset), e))
    }

    /// Writes all of `bufs`, one after the other. Their values are unspecified afterwards.
    ///
    /// # Errors
    /// As [`FileRef::write_all`].
    pub(crate) fn write_all_vectored(
        &self,
        bufs: &mut [IoSlice<'_>],
        offset: u64,
    ) -> Result<(), StoreError> {
        write_all_vectored_at(&*self.file, bufs, offset)
            .map_err(|e| StoreError::from_io("write", &self.path, Some(offset), e))
    }

    /// The first range at or after `offset` that may hold nonzero bytes.
    ///
    /// # Errors
    /// The medium's.
    pub fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, StoreError> {
        self.file.next_data(offset).map_err(|e| self.io("look for holes", e))
    }

    /// Truncates or extends the file.
    ///
    /// # Errors
    /// The medium's.
    pub fn set_len(&self, size: u64) -> Result<(), StoreError> {
        self.file.set_len(size).map_err(|e| self.io("set the size", e))
    }

    /// Metadata of the open file.
    ///
    /// # Errors
    /// The medium's.
    pub fn metadata(&self) -> Result<Meta, StoreError> {
        self.file.metadata().map_err(|e| self.io("read the metadata", e))
    }

    /// Sets permission bits. Only 0o777 is used, never set-uid, set-gid or sticky.
    ///
    /// # Errors
    /// The medium's.
    pub fn set_mode(&self, mode: u32) -> Result<(), StoreError> {
        self.file.set_mode(mode & 0o777).map_err(|e| self.io("set the mode", e))
    }

    /// Sets the modification time.
    ///
    /// # Errors
    /// The medium's.
    pub fn set_mtime(&self, mtime: FileTime) -> Result<(), StoreError> {
        self.file.set_mtime(mtime).map_err(|e| self.io("set the time", e))
    }

    /// Makes the content durable.
    ///
    /// # Errors
    /// The medium's.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.file.sync().map_err(|e| self.io("flush to the device", e))
    }

    /// Watches from now on whether others open the file; `None` if the medium cannot.
    #[must_use]
    pub fn watch(&self) -> Option<Box<dyn FileWatch>> {
        self.file.watch()
    }

    /// Takes the exclusive lock or reports [`StoreError::Busy`].
    ///
    /// # Errors
    /// Busy, or the medium's.
    pub fn lock(&self) -> Result<(), StoreError> {
        match self.file.try_lock() {
            Ok(true) => Ok(()),
            Ok(false) => Err(StoreError::Busy { path: self.path.to_path_buf() }),
            Err(e) => Err(self.io("lock", e)),
        }
    }

    fn io(&self, doing: &'static str, e: io::Error) -> StoreError {
        StoreError::from_io(doing, &self.path, None, e)
    }
}

impl fmt::Debug for FileRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileRef").field(&self.path).finish()
    }
}

/// Identifies a file as the one that was hashed.
///
/// The device number is left out: a reboot may change it although the file is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileState {
    /// Size in bytes.
    pub size: u64,
    /// Modification time.
    pub mtime: FileTime,
    /// Inode number; 0 where the platform has none.
    pub ino: u64,
}

impl FileState {
    /// The relevant part of `meta`.
    #[must_use]
    pub fn of(meta: &Meta) -> Self {
        Self { size: meta.size, mtime: meta.mtime, ino: meta.ino }
    }

    /// How `now` differs from `self`, if it does.
    #[must_use]
    pub fn difference(&self, now: &Self) -> Option<Difference> {
        if self.ino != now.ino {
            Some(Difference::Identity)
        } else if self.size != now.size {
            Some(Difference::Size { was: self.size, is: now.size })
        } else if self.mtime != now.mtime {
            Some(Difference::Mtime)
        } else {
            None
        }
    }

    /// Fails unless `file` is still in this state.
    ///
    /// # Errors
    /// [`StoreError::Changed`], or the medium's.
    pub fn check(&self, file: &FileRef) -> Result<(), StoreError> {
        match self.difference(&Self::of(&file.metadata()?)) {
            None => Ok(()),
            Some(what) => Err(StoreError::Changed { path: file.path().to_path_buf(), what }),
        }
    }
}

/// Fails unless `meta` is that of a regular file.
pub(crate) fn require_regular(path: &Path, meta: &Meta) -> Result<(), StoreError> {
    let what = match meta.kind {
        FileKind::File => return Ok(()),
        FileKind::Directory => "is a directory",
        FileKind::Symlink => "is a symbolic link",
        FileKind::Other => "is not a regular file",
    };
    Err(StoreError::Unsafe { path: path.to_path_buf(), what })
}

/// Which user may own a file that is resumed or reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Our user: others can write into the folder.
    Us,
    /// Any user: only trusted users can write into the folder.
    Whoever,
}

/// Fails unless the file with this metadata may be written to: a plain file without a second name, which could be that
/// of a file that is not ours to change.
fn require_ours(
    medium: &dyn Medium,
    path: &Path,
    meta: &Meta,
    owner: Owner,
) -> Result<(), StoreError> {
    require_regular(path, meta)?;
    let what = if meta.links > 1 {
        "has a second name (hard link)"
    } else if owner == Owner::Us && !medium.owns(meta) {
        "belongs to another user"
    } else {
        return Ok(());
    };
    Err(StoreError::Unsafe { path: path.to_path_buf(), what })
}

/// Opens an existing file for writing if it is ours; `None` if there is none.
fn open_ours(
    medium: &dyn Medium,
    name: &Path,
    shown: &Path,
    mode: u32,
    owner: Owner,
) -> Result<Option<FileRef>, StoreError> {
    let error = |e| StoreError::from_io("open", shown, None, e);
    let named = |file| FileRef::new(file, shown);
    let mut opened = medium.open(name, OpenHow::ReadWrite);
    if let Err(e) = &opened {
        if e.kind() == io::ErrorKind::NotFound {
            return Ok(None);
        }
        // The reason of the failure matters only for a file that is ours.
        let there = medium.metadata(name);
        there.map_or(Ok(()), |meta| require_ours(medium, shown, &meta, owner))?;
        // A file that has its final mode but not its name, as its writer was killed.
        if e.kind() == io::ErrorKind::PermissionDenied
            && let Ok(file) = medium.open(name, OpenHow::ReadNoFollow)
        {
            let file = named(file);
            require_ours(medium, shown, &file.metadata()?, owner)?;
            file.set_mode(mode)?;
            opened = medium.open(name, OpenHow::ReadWrite);
        }
    }
    let file = named(opened.map_err(error)?);
    let meta = file.metadata()?;
    require_ours(medium, shown, &meta, owner)?;
    if meta.mode & 0o777 & !mode != 0 {
        // A file system without modes gives every user access anyway.
        RefusedAttributes::default().record_refused(file.set_mode(mode))?;
    }
    Ok(Some(file))
}

/// Opens or creates `name`, locks it, and checks that the name still leads to the locked file. Between opening and
/// locking, the former owner may have renamed or removed it; writing would then spoil a finished file.
///
/// [`StoreError::Unsafe`] if there is a file that may not be reused.
pub(crate) fn open_locked(
    medium: &dyn Medium,
    name: &Path,
    shown: PathBuf,
    mode: u32,
    owner: Owner,
) -> Result<FileRef, StoreError> {
    let error = |doing, e| StoreError::from_io(doing, &shown, None, e);
    for _ in 0..MAX_LOCK_ATTEMPTS {
        let file = match open_ours(medium, name, &shown, mode, owner)? {
            Some(file) => file,
            None => match medium.open(name, OpenHow::CreateNew { mode }) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                made => FileRef::new(made.map_err(|e| error("open", e))?, shown.clone()),
            },
        };
        file.lock()?;
        let held = file.metadata()?;
        match medium.metadata(name) {
            Ok(named) if (named.ino, named.dev) == (held.ino, held.dev) => return Ok(file),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(error("read the metadata", e)),
        }
    }
    Err(StoreError::Busy { path: shown })
}

/// Reads a whole small file.
pub(crate) fn read_whole(file: &FileRef, limit: u64) -> Result<Vec<u8>, StoreError> {
    let size = FileState::of(&file.metadata()?).size;
    let too_large =
        || StoreError::Corrupt { path: file.path().into(), offset: limit, what: "too large" };
    if size > limit {
        return Err(too_large());
    }
    let mut bytes = vec![0; usize::try_from(size).map_err(|_| too_large())?];
    let got = file.read_full(&mut bytes, 0)?;
    bytes.truncate(got);
    Ok(bytes)
}
