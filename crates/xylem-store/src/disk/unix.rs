//! Unix: handle-relative system calls.

use std::any::Any;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use rustix::fs::{self as sys, AtFlags, FileType, Mode, OFlags, RawMode, Timespec, Timestamps};

#[cfg(target_os = "linux")]
use crate::medium::FileWatch;
use crate::medium::{
    Clobber, FileKind, FileTime, Medium, MediumFile, Meta, OpenHow, copy_by_reads,
};

/// The operating system's files, relative to the working directory or to a held directory.
#[derive(Debug, Default)]
pub struct DiskMedium {
    dir: Option<OwnedFd>,
}

impl DiskMedium {
    /// The whole file system; relative paths start at the working directory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn at(&self) -> BorrowedFd<'_> {
        self.dir.as_ref().map_or(sys::CWD, |fd| fd.as_fd())
    }
}

/// File systems backed by another machine or program (linux/magic.h): NFS, SMB in three versions, FUSE, Ceph, 9P, AFS
/// in two, Coda, Lustre, and automounts.
#[cfg(target_os = "linux")]
const SLOW: [u64; 12] = [
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x6573_5546,
    0x00c3_6400,
    0x0102_1997,
    0x5346_414f,
    0x6b41_4653,
    0x7375_7245,
    0x0bd0_0bd0,
    0x0187,
];

/// Magic number of file systems in memory.
#[cfg(target_os = "linux")]
const TMPFS: u64 = 0x0102_1994;
#[cfg(target_os = "linux")]
const RAMFS: u64 = 0x8584_58f6;

/// The magic number of a file system.
#[cfg(target_os = "linux")]
fn kind(told: rustix::io::Result<sys::StatFs>) -> Option<u64> {
    told.ok().and_then(|told| u64::try_from(told.f_type).ok())
}

/// The umask that is assumed if the system does not report it.
const USUAL_UMASK: u32 = 0o022;

impl Medium for DiskMedium {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn MediumFile>> {
        // NONBLOCK: opening a pipe under this name must not hang. It changes nothing for regular files.
        let base = OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let (flags, mode) = match how {
            OpenHow::Read => (OFlags::RDONLY, 0),
            OpenHow::ReadNoFollow => (OFlags::RDONLY | OFlags::NOFOLLOW, 0),
            OpenHow::ReadWrite => (OFlags::RDWR | OFlags::NOFOLLOW, 0),
            OpenHow::Create { mode } => (OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CREATE, mode),
            OpenHow::CreateNew { mode } => {
                (OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CREATE | OFlags::EXCL, mode)
            }
        };
        let fd = sys::openat(self.at(), path, base | flags, to_mode(mode)).map_err(name_link)?;
        Ok(Arc::new(DiskFile::from(File::from(fd))))
    }

    #[cfg(target_os = "linux")]
    fn open_no_wait(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn MediumFile>> {
        use rustix::io::Errno;
        let follow = match how {
            OpenHow::Read => OFlags::empty(),
            OpenHow::ReadNoFollow => OFlags::NOFOLLOW,
            _ => return self.open(path, how),
        };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK | follow;
        match sys::openat2(self.at(), path, flags, Mode::empty(), sys::ResolveFlags::CACHED) {
            Ok(fd) => Ok(Arc::new(DiskFile::from(File::from(fd)))),
            // A part of the path is not in memory, or the system (before Linux 5.12, or under a filter of system calls)
            // has no such call.
            Err(Errno::AGAIN | Errno::NOSYS | Errno::INVAL | Errno::PERM) => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(e) => Err(name_link(e)),
        }
    }

    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn Medium>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = sys::openat(self.at(), path, flags, Mode::empty()).map_err(name_link)?;
        Ok(Arc::new(Self { dir: Some(fd) }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Meta> {
        Ok(to_meta(&sys::statat(self.at(), path, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    fn owns(&self, meta: &Meta) -> bool {
        // Read once: it does not change while a program runs, and is needed for every file of a directory.
        static OURS: OnceLock<u32> = OnceLock::new();
        meta.owner == *OURS.get_or_init(|| rustix::process::geteuid().as_raw())
    }

    #[cfg(target_os = "linux")]
    fn is_slow(&self, path: &Path) -> bool {
        kind(sys::statfs(path)).is_some_and(|kind| SLOW.contains(&kind))
    }

    fn umask(&self) -> u32 {
        // POSIX offers only to set it and back, which would affect other threads.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let said = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        said.and_then(|bits| u32::from_str_radix(bits.trim(), 8).ok()).unwrap_or(USUAL_UMASK)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        Ok(sys::mkdirat(self.at(), path, to_mode(mode))?)
    }

    fn for_each_name(&self, path: &Path, take: &mut dyn FnMut(&OsStr, FileKind)) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = sys::openat(self.at(), path, flags, Mode::empty())?;
        for entry in sys::Dir::read_from(&fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems leave the type out of the listing.
                FileType::Unknown => {
                    to_meta(&sys::statat(&fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?).kind
                }
                known => to_kind(known),
            };
            take(OsStr::from_bytes(name), kind);
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path, clobber: Clobber) -> io::Result<()> {
        let at = self.at();
        if clobber == Clobber::Replace {
            return Ok(sys::renameat(at, from, at, to)?);
        }
        #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
        match sys::renameat_with(at, from, at, to, sys::RenameFlags::NOREPLACE) {
            // Some file systems (and old kernels) lack the flag: check first instead.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
            other => return Ok(other?),
        }
        match sys::statat(at, to, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(rustix::io::Errno::NOENT) => Ok(sys::renameat(at, from, at, to)?),
            Err(e) => Err(e.into()),
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        use rustix::io::Errno;
        match sys::renameat_with(self.at(), one, self.at(), other, sys::RenameFlags::EXCHANGE) {
            Err(Errno::INVAL | Errno::NOSYS) => Err(io::ErrorKind::Unsupported.into()),
            done => Ok(done?),
        }
    }

    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self.dir {
            // The system copies within a file system without passing the bytes through this process.
            None => std::fs::copy(from, to).map(drop),
            Some(_) => copy_by_reads(self, from, to),
        }
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        Ok(sys::unlinkat(self.at(), path, AtFlags::empty())?)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        Ok(sys::unlinkat(self.at(), path, AtFlags::REMOVEDIR)?)
    }

    fn symlink(&self, target: &Path, link: &Path) -> io::Result<()> {
        Ok(sys::symlinkat(target, self.at(), link)?)
    }

    fn hard_link(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        let to: &Self = to.as_any().downcast_ref().ok_or(io::ErrorKind::Unsupported)?;
        Ok(sys::linkat(self.at(), name, to.at(), new, AtFlags::empty())?)
    }

    fn move_to(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        let to: &Self = to.as_any().downcast_ref().ok_or(io::ErrorKind::Unsupported)?;
        Ok(sys::renameat(self.at(), name, to.at(), new)?)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let target = sys::readlinkat(self.at(), path, Vec::new())?;
        Ok(PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes())))
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        // Through a handle: fchmodat cannot refuse links on every kernel.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match sys::openat(self.at(), path, flags, Mode::empty()) {
            // Its owner may set the mode of a file that it may not read.
            Err(rustix::io::Errno::ACCESS) => set_mode_unread(self.at(), path, to_mode(mode)),
            fd => Ok(sys::fchmod(fd?, to_mode(mode))?),
        }
    }

    fn set_mtime(&self, path: &Path, mtime: FileTime) -> io::Result<()> {
        Ok(sys::utimensat(self.at(), path, &to_times(mtime), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        let disk = match &self.dir {
            Some(dir) if path == Path::new(".") => sys::fstatvfs(dir)?,
            _ => sys::statvfs(path)?,
        };
        // Some report no blocks at all.
        Ok((disk.f_blocks > 0).then(|| disk.f_bavail.saturating_mul(disk.f_frsize)))
    }

    fn total_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        let disk = match &self.dir {
            Some(dir) if path == Path::new(".") => sys::fstatvfs(dir)?,
            _ => sys::statvfs(path)?,
        };
        Ok((disk.f_blocks > 0).then(|| disk.f_blocks.saturating_mul(disk.f_frsize)))
    }

    #[cfg(target_os = "linux")]
    fn sync_all(&self, path: &Path) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(sys::syncfs(sys::openat(self.at(), path, flags, Mode::empty())?)?)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // The held directory may have a mode by now that prevents us from opening it again.
        if let (Some(dir), true) = (&self.dir, path == Path::new(".")) {
            return Ok(sys::fsync(dir)?);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = sys::openat(self.at(), path, flags, Mode::empty())?;
        Ok(sys::fsync(fd)?)
    }
}

#[derive(Debug)]
struct DiskFile {
    file: File,
    /// Whether a read without waiting has shown that the file system keeps its files in memory: no read waits there.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    in_memory: AtomicBool,
}

impl From<File> for DiskFile {
    fn from(file: File) -> Self {
        Self { file, in_memory: AtomicBool::new(false) }
    }
}

/// After this many bytes of data, look for a hole again.
const FIND_HOLE_EVERY: u64 = 1 << 20;

impl MediumFile for DiskFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    #[cfg(target_os = "linux")]
    fn read_at_no_wait(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        use rustix::io::{Errno, ReadWriteFlags, preadv2};
        use std::sync::atomic::Ordering;
        if self.in_memory.load(Ordering::Relaxed) {
            return self.file.read_at(buf, offset);
        }
        let whole = &mut [io::IoSliceMut::new(buf)];
        match preadv2(&self.file, whole, offset, ReadWriteFlags::NOWAIT) {
            // File systems without such reads may have to wait: over a network, FUSE, FAT. File systems in memory never
            // wait.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => match kind(sys::fstatfs(&self.file)) {
                Some(TMPFS | RAMFS) => {
                    self.in_memory.store(true, Ordering::Relaxed);
                    self.file.read_at(buf, offset)
                }
                _ => Err(io::ErrorKind::WouldBlock.into()),
            },
            done => Ok(done?),
        }
    }

    fn in_order(&self) -> Option<Arc<dyn MediumFile>> {
        super::in_order(&self.file).map(|own| Arc::new(Self::from(own)) as _)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(buf, offset)
    }

    #[cfg(target_os = "linux")]
    fn write_vectored_at(&self, bufs: &[io::IoSlice<'_>], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pwritev(&self.file, bufs, offset)?)
    }

    fn set_len(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size)
    }

    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        use rustix::io::Errno;
        // These calls move the handle's cursor, which nothing here uses.
        let start = match sys::seek(&self.file, sys::SeekFrom::Data(offset)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            // The file system does not report holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(offset..u64::MAX)),
            Err(e) => return Err(e.into()),
        };
        // Do not query the end of the data: some file systems look at every page up to the next hole, in each call.
        Ok(Some(start..start.saturating_add(FIND_HOLE_EVERY)))
    }

    fn metadata(&self) -> io::Result<Meta> {
        Ok(to_meta(&sys::fstat(&self.file)?))
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(sys::fchmod(&self.file, to_mode(mode))?)
    }

    fn set_mtime(&self, mtime: FileTime) -> io::Result<()> {
        Ok(sys::futimens(&self.file, &to_times(mtime))?)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    #[cfg(target_os = "linux")]
    fn watch(&self) -> Option<Box<dyn FileWatch>> {
        let opened = super::opened::InotifyWatch::of(&self.file)?;
        Some(Box::new(opened))
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(std::fs::TryLockError::WouldBlock) => Ok(false),
            Err(std::fs::TryLockError::Error(e)) => Err(e),
        }
    }

    fn is_locked(&self) -> io::Result<bool> {
        match self.file.try_lock_shared() {
            Ok(()) => self.file.unlock().map(|()| false),
            Err(std::fs::TryLockError::WouldBlock) => Ok(true),
            Err(std::fs::TryLockError::Error(e)) => Err(e),
        }
    }

    fn lock(&self) -> io::Result<()> {
        self.file.lock()
    }
}

/// Sets the mode of a file that cannot be opened for reading; links are refused.
fn set_mode_unread(dir: BorrowedFd<'_>, path: &Path, mode: Mode) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        // A handle that only names the file. Linux sets a mode through such a handle by this path alone.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = sys::openat(dir, path, flags, Mode::empty())?;
        if to_meta(&sys::fstat(&fd)?).kind == FileKind::Symlink {
            return Err(name_link(rustix::io::Errno::LOOP));
        }
        let named = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
        Ok(sys::chmod(named, mode)?)
    }
    #[cfg(not(target_os = "linux"))]
    Ok(sys::chmodat(dir, path, mode, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Gives the error of `O_NOFOLLOW` a message; `ELOOP` has no stable error kind.
fn name_link(e: rustix::io::Errno) -> io::Error {
    match e {
        rustix::io::Errno::LOOP => {
            io::Error::new(io::ErrorKind::InvalidInput, "is a symbolic link")
        }
        other => other.into(),
    }
}

// The field types of `stat` and the width of `mode_t` differ between Unix systems.
#[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
fn to_meta(stat: &sys::Stat) -> Meta {
    Meta {
        kind: to_kind(FileType::from_raw_mode(stat.st_mode as RawMode)),
        size: stat.st_size as u64,
        mode: stat.st_mode as u32 & 0o7777,
        mtime: FileTime { secs: stat.st_mtime as i64, nanos: stat.st_mtime_nsec as u32 },
        ctime: FileTime { secs: stat.st_ctime as i64, nanos: stat.st_ctime_nsec as u32 },
        ino: stat.st_ino as u64,
        dev: stat.st_dev as u64,
        links: stat.st_nlink as u64,
        owner: stat.st_uid as u32,
    }
}

fn to_kind(kind: FileType) -> FileKind {
    match kind {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}

#[allow(clippy::unnecessary_cast)]
fn to_mode(mode: u32) -> Mode {
    Mode::from_raw_mode((mode & 0o7777) as RawMode)
}

#[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
fn to_times(mtime: FileTime) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: sys::UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: mtime.secs as _,
            // A wrong value can come only from a listing; the kernel would refuse it.
            tv_nsec: mtime.nanos.min(999_999_999) as _,
        },
    }
}
