//! Systems other than Unix: std's path calls. Links are checked for before opening, which leaves a moment in between.
//! Permission bits are not kept: every file is 0644 and every directory 0755, so that a tree published here and fetched
//! here has one root.

use std::any::Any;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::medium::{Clobber, FileKind, FileTime, Medium, MediumFile, Meta, OpenHow};

/// The operating system's files, relative to the working directory or to a directory.
#[derive(Debug, Default)]
pub struct DiskMedium {
    base: PathBuf,
}

impl DiskMedium {
    /// The whole file system; relative paths start at the working directory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn path(&self, path: &Path) -> PathBuf {
        if path == Path::new(".") { self.base.clone() } else { self.base.join(path) }
    }

    fn refuse_link(path: &Path) -> io::Result<()> {
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.file_type().is_symlink() => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "is a symbolic link"))
            }
            _ => Ok(()),
        }
    }
}

impl Medium for DiskMedium {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn MediumFile>> {
        let path = self.path(path);
        if how != OpenHow::Read {
            Self::refuse_link(&path)?;
        }
        let mut options = OpenOptions::new();
        options.read(true);
        match how {
            OpenHow::Read | OpenHow::ReadNoFollow => {}
            OpenHow::ReadWrite => drop(options.write(true)),
            OpenHow::Create { .. } => drop(options.write(true).create(true)),
            OpenHow::CreateNew { .. } => drop(options.write(true).create_new(true)),
        }
        Ok(Arc::new(DiskFile(Mutex::new(options.open(path)?))))
    }

    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn Medium>> {
        let base = self.path(path);
        Self::refuse_link(&base)?;
        if !fs::metadata(&base)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Arc::new(Self { base }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Meta> {
        to_meta(&fs::symlink_metadata(self.path(path))?)
    }

    fn create_dir(&self, path: &Path, _mode: u32) -> io::Result<()> {
        fs::create_dir(self.path(path))
    }

    fn for_each_name(&self, path: &Path, take: &mut dyn FnMut(&OsStr, FileKind)) -> io::Result<()> {
        for entry in fs::read_dir(self.path(path))? {
            let entry = entry?;
            take(&entry.file_name(), to_kind(entry.file_type()?));
        }
        Ok(())
    }

    fn hard_link(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        let to: &Self = to.as_any().downcast_ref().ok_or(io::ErrorKind::Unsupported)?;
        fs::hard_link(self.path(name), to.path(new))
    }

    fn move_to(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        let to: &Self = to.as_any().downcast_ref().ok_or(io::ErrorKind::Unsupported)?;
        fs::rename(self.path(name), to.path(new))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn rename(&self, from: &Path, to: &Path, clobber: Clobber) -> io::Result<()> {
        let to = self.path(to);
        if clobber == Clobber::Never && fs::symlink_metadata(&to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        fs::rename(self.path(from), to)
    }

    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::copy(self.path(from), self.path(to)).map(drop)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(self.path(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(self.path(path))
    }

    fn symlink(&self, _target: &Path, _link: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        fs::read_link(self.path(path))
    }

    fn set_mode(&self, _path: &Path, _mode: u32) -> io::Result<()> {
        Ok(())
    }

    fn set_mtime(&self, path: &Path, mtime: FileTime) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true);
        #[cfg(windows)]
        {
            use std::os::windows::fs::OpenOptionsExt;
            // FILE_WRITE_ATTRIBUTES; FILE_FLAG_BACKUP_SEMANTICS, which opens directories too.
            options.access_mode(0x0100).custom_flags(0x0200_0000);
        }
        set_mtime(&options.open(self.path(path))?, mtime)
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct DiskFile(Mutex<File>);

impl DiskFile {
    fn file(&self) -> MutexGuard<'_, File> {
        // After a panic elsewhere at most the cursor has moved, and every use seeks first.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MediumFile for DiskFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut file = self.file();
        file.seek(SeekFrom::Start(offset))?;
        file.read(buf)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let mut file = self.file();
        file.seek(SeekFrom::Start(offset))?;
        file.write(buf)
    }

    fn set_len(&self, size: u64) -> io::Result<()> {
        self.file().set_len(size)
    }

    fn metadata(&self) -> io::Result<Meta> {
        to_meta(&self.file().metadata()?)
    }

    fn set_mode(&self, _mode: u32) -> io::Result<()> {
        Ok(())
    }

    fn set_mtime(&self, mtime: FileTime) -> io::Result<()> {
        set_mtime(&self.file(), mtime)
    }

    fn sync(&self) -> io::Result<()> {
        self.file().sync_all()
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.file().try_lock() {
            Ok(()) => Ok(true),
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(e)) => Err(e),
        }
    }

    fn is_locked(&self) -> io::Result<bool> {
        match self.file().try_lock_shared() {
            Ok(()) => self.file().unlock().map(|()| false),
            Err(fs::TryLockError::WouldBlock) => Ok(true),
            Err(fs::TryLockError::Error(e)) => Err(e),
        }
    }

    fn lock(&self) -> io::Result<()> {
        self.file().lock()
    }
}

fn set_mtime(file: &File, mtime: FileTime) -> io::Result<()> {
    let nanos = Duration::from_nanos(u64::from(mtime.nanos));
    let whole = Duration::from_secs(mtime.secs.unsigned_abs());
    let time = if mtime.secs >= 0 {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    };
    let time = time.and_then(|t| t.checked_add(nanos));
    file.set_modified(time.ok_or(io::ErrorKind::InvalidInput)?)
}

fn to_meta(meta: &fs::Metadata) -> io::Result<Meta> {
    let mtime = match meta.modified()?.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => FileTime { secs: after.as_secs() as i64, nanos: after.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            let short = u32::from(before.subsec_nanos() > 0);
            FileTime {
                secs: -(before.as_secs() as i64) - i64::from(short),
                nanos: (1_000_000_000 * short) - before.subsec_nanos(),
            }
        }
    };
    let mode = if meta.is_dir() { 0o755 } else { 0o644 };
    Ok(Meta {
        kind: to_kind(meta.file_type()),
        size: meta.len(),
        mode,
        mtime,
        ctime: FileTime::default(),
        ino: 0,
        dev: 0,
        links: 1,
        owner: 0,
    })
}

fn to_kind(kind: fs::FileType) -> FileKind {
    if kind.is_symlink() {
        FileKind::Symlink
    } else if kind.is_dir() {
        FileKind::Directory
    } else if kind.is_file() {
        FileKind::File
    } else {
        FileKind::Other
    }
}
