//! The only access to files: everything that the store does on a disk goes through [`Medium`].
//!
//! A medium is a *place* from which relative paths are resolved. [`Medium::open_dir`] gives the medium of a directory,
//! held open. Staging trees are walked that way one component at a time. So no symbolic link planted in between leads
//! out of them, and creating ten thousand files costs no path look-ups.
//!
//! It does not buffer, retry or order anything: callers do.

use std::any::Any;
use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A point in time as file systems keep it: seconds since 1970-01-01 UTC and nanoseconds
/// (0..1,000,000,000) after that second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileTime {
    /// Seconds since the Unix epoch; negative before it.
    pub secs: i64,
    /// Nanoseconds into that second.
    pub nanos: u32,
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link (never followed by [`Medium::metadata`]).
    Symlink,
    /// A device, a pipe, a socket.
    Other,
}

/// Metadata of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// The file's kind.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits (0o7777).
    pub mode: u32,
    /// Time of the last change of content.
    pub mtime: FileTime,
    /// Time of the last change of content or of any attribute (mode, names, times). No program can set it. Zero if the
    /// platform has none.
    pub ctime: FileTime,
    /// Inode number; 0 if the platform has none.
    pub ino: u64,
    /// Device number; 0 if the platform has none.
    pub dev: u64,
    /// Number of names that the file has; 1 if the platform does not report it.
    pub links: u64,
    /// Number of the owning user; 0 if the platform has none.
    pub owner: u32,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirItem {
    /// The name, one component.
    pub name: OsString,
    /// The entry's kind; links are not followed.
    pub kind: FileKind,
}

/// How to open a file. Every way but [`OpenHow::Read`] refuses a symbolic link as the last
/// component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenHow {
    /// Existing, for reading, links followed (paths from the user).
    Read,
    /// Existing, for reading.
    ReadNoFollow,
    /// Existing, for reading and writing.
    ReadWrite,
    /// Existing or new, for reading and writing.
    Create {
        /// Permission bits of a new file, before the umask.
        mode: u32,
    },
    /// New, for reading and writing; fails with `AlreadyExists`.
    CreateNew {
        /// Permission bits, before the umask.
        mode: u32,
    },
}

/// Whether a rename may replace an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clobber {
    /// Fail with `AlreadyExists`.
    Never,
    /// Replace a file (directories are never replaced by a rename).
    Replace,
}

/// A place with files in it. Paths are relative to the place, or absolute if the place is the whole file system
/// ([`DiskMedium::new`](crate::DiskMedium::new)).
pub trait Medium: Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn MediumFile>>;
    /// As [`Medium::open`] for reading, without waiting: [`io::ErrorKind::WouldBlock`] if a device may have to be read
    /// to find the file. A medium that cannot tell waits.
    fn open_no_wait(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn MediumFile>> {
        self.open(path, how)
    }
    /// The medium of a directory, held open; refuses a link as the last component.
    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn Medium>>;
    /// Metadata, links not followed.
    fn metadata(&self, path: &Path) -> io::Result<Meta>;
    /// Whether the file with this metadata belongs to the user of this process. Without such users, every file does.
    fn owns(&self, meta: &Meta) -> bool {
        let _ = meta;
        true
    }
    /// Permission bits that new files do not get unless requested (umask).
    fn umask(&self) -> u32 {
        0
    }
    /// Makes one directory; `AlreadyExists` if the name is taken.
    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// The names in a directory, without `.` and `..`, in no particular order.
    fn list_dir(&self, path: &Path) -> io::Result<Vec<DirItem>> {
        let mut items = Vec::new();
        self.for_each_name(path, &mut |name, kind| {
            items.push(DirItem { name: name.to_os_string(), kind });
        })?;
        Ok(items)
    }
    /// As [`Medium::list_dir`], one name at a time: a large directory takes no memory.
    fn for_each_name(&self, path: &Path, take: &mut dyn FnMut(&OsStr, FileKind)) -> io::Result<()>;
    /// Entries that [`Medium::for_each_name`] skipped in the last listing of this directory, as they can have no name
    /// here (an object of a bucket with a key that is no path), each with the reason. Returned once.
    fn take_skipped(&self, _path: &Path) -> Vec<(PathBuf, String)> {
        Vec::new()
    }
    /// Renames within the place.
    fn rename(&self, from: &Path, to: &Path, clobber: Clobber) -> io::Result<()>;
    /// Exchanges the names of two files in one step. [`io::ErrorKind::Unsupported`] if the file system has no such step.
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        let _ = (one, other);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Copies the content and the permission bits of the file `from` to `to`, which is replaced byte by byte if it
    /// exists. A link at `from` is followed.
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        copy_by_reads(self, from, to)
    }
    /// Removes a file or a link.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes a symbolic link at `link` to `target`.
    fn symlink(&self, target: &Path, link: &Path) -> io::Result<()>;
    /// Gives the file `name` of this place a second name, `new` in the place `to`, which must be of the same type.
    /// Links are not followed. [`io::ErrorKind::Unsupported`] if there are no hard links.
    fn hard_link(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        let _ = (name, to, new);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Renames `name` of this place to `new` in the place `to`, which must be of the same type and on the same file
    /// system. A file of that name is replaced, in one step.
    fn move_to(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        let _ = (name, to, new);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// The medium itself, for [`Medium::hard_link`] and [`Medium::move_to`] of another place.
    fn as_any(&self) -> &dyn Any;
    /// The canonical path of an existing file: absolute, without links.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        path.canonicalize()
    }
    /// The target of a symbolic link.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf>;
    /// Whether reads come from another machine: bytes may be wrong once, and right when read again.
    fn is_remote(&self, path: &Path) -> bool {
        let _ = path;
        false
    }
    /// Whether opening and reading may take long, because the file lies on another machine or another program supplies
    /// it. A server of several peers leaves such reads to threads.
    fn is_slow(&self, path: &Path) -> bool {
        self.is_remote(path)
    }
    /// Sets permission bits of a file or directory, links refused.
    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Sets the modification time, of the link itself where it is one.
    fn set_mtime(&self, path: &Path, mtime: FileTime) -> io::Result<()>;
    /// Bytes that can still be written to the file system of `path`, which must exist; `None` if that is not reported.
    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        let _ = path;
        Ok(None)
    }
    /// Bytes that the file system of `path` can hold, taken ones included; `None` if that is not reported.
    fn total_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        let _ = path;
        Ok(None)
    }
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes everything on the file system of `path` durable: all content, attributes and names.
    /// [`io::ErrorKind::Unsupported`] if the system has no such call.
    fn sync_all(&self, path: &Path) -> io::Result<()> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Notices other programs' access to a file.
pub trait FileWatch: std::fmt::Debug + Send + Sync {
    /// Whether another program has opened the file since the watch began, or has closed it after writing.
    fn was_accessed(&self) -> bool;
}

/// An open file. Positional and shared: any thread, no cursor.
pub trait MediumFile: Send + Sync {
    /// Reads at a byte offset; may be short; 0 at the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// As [`MediumFile::read_at`], without waiting: [`io::ErrorKind::WouldBlock`] if a device would have to be read. A
    /// medium that cannot tell waits.
    fn read_at_no_wait(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(buf, offset)
    }
    /// As [`MediumFile::read_at`], to read wrong bytes again: bypasses what is cached in memory.
    fn reread_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(buf, offset)
    }
    /// A separate handle for a thread that reads the file in order, if that is of use.
    fn in_order(&self) -> Option<Arc<dyn MediumFile>> {
        None
    }
    /// Writes at a byte offset; may be short.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;
    /// As [`MediumFile::write_at`], from several buffers in order.
    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let first = bufs.iter().find(|buf| !buf.is_empty());
        first.map_or(Ok(0), |buf| self.write_at(buf, offset))
    }
    /// Truncates or extends (with zeros; sparse if possible).
    fn set_len(&self, size: u64) -> io::Result<()>;
    /// The first range at or after `offset` that may hold nonzero bytes; `None` if there is none up to the end. A
    /// medium that cannot tell returns all bytes as such a range.
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        Ok(Some(offset..u64::MAX))
    }
    /// Metadata of the open file, whatever its present name.
    fn metadata(&self) -> io::Result<Meta>;
    /// Sets permission bits.
    fn set_mode(&self, mode: u32) -> io::Result<()>;
    /// Sets the modification time.
    fn set_mtime(&self, mtime: FileTime) -> io::Result<()>;
    /// Makes content durable.
    fn sync(&self) -> io::Result<()>;
    /// Watches it from now on; `None` if the medium cannot.
    fn watch(&self) -> Option<Box<dyn FileWatch>> {
        None
    }
    /// Takes the exclusive advisory lock, held until the file is closed: `false` if another open
    /// file holds it.
    fn try_lock(&self) -> io::Result<bool>;
    /// Whether another open file holds the lock. Asking takes a lock that excludes no other question, for a moment.
    fn is_locked(&self) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// As [`MediumFile::try_lock`], but waits for the lock. [`io::ErrorKind::Unsupported`] if there are no locks.
    fn lock(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Bytes that [`copy_by_reads`] holds in memory.
const COPY_PIECE: usize = 256 * 1024;

/// Does [`Medium::copy`] by reads and writes.
pub(crate) fn copy_by_reads(
    medium: &(impl Medium + ?Sized),
    from: &Path,
    to: &Path,
) -> io::Result<()> {
    let source = medium.open(from, OpenHow::Read)?;
    let mode = source.metadata()?.mode;
    let copy = medium.open(to, OpenHow::Create { mode })?;
    copy.set_len(0)?;
    let (mut piece, mut at) = (vec![0; COPY_PIECE], 0);
    loop {
        let got = read_full_by(|buf, at| source.read_at(buf, at), &mut piece, at)?;
        write_all_at(&*copy, &piece[..got], at)?;
        at += got as u64;
        if got < COPY_PIECE {
            return copy.set_mode(mode);
        }
    }
}

/// Reads by `read` until `buf` is full or the file ends; returns the bytes read.
///
/// # Errors
/// The medium's, unchanged; interrupted calls are repeated.
pub(crate) fn read_full_by(
    read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
    buf: &mut [u8],
    offset: u64,
) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match read(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Writes all of `buf`, continuing after short writes.
///
/// # Errors
/// The medium's; `WriteZero` if the medium accepts nothing and reports no error. Some prefix may have been written.
pub(crate) fn write_all_at(file: &dyn MediumFile, buf: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match file.write_at(&buf[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Writes all of `bufs`, one after the other.
pub(crate) fn write_all_vectored_at(
    file: &dyn MediumFile,
    mut bufs: &mut [IoSlice<'_>],
    mut offset: u64,
) -> io::Result<()> {
    IoSlice::advance_slices(&mut bufs, 0); // removes empty ones
    while !bufs.is_empty() {
        match file.write_vectored_at(bufs, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                offset += n as u64;
                IoSlice::advance_slices(&mut bufs, n);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
