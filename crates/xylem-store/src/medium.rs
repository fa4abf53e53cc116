//! The one door to files: everything the store does to a disk goes through [`Medium`].
//!
//! A medium is a *place* from which relative paths are resolved; [`Medium::open_dir`] gives the
//! medium of a directory, held open. Staging trees are walked one component at a time that way, so
//! that no symbolic link planted in between can lead out of them, and so that creating ten
//! thousand files costs no path look-ups.
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

/// What stands under a name.
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
    /// What it is.
    pub kind: FileKind,
    /// Bytes.
    pub size: u64,
    /// Permission bits (0o7777).
    pub mode: u32,
    /// Time of the last change of content.
    pub mtime: FileTime,
    /// Time of the last change of content or of anything about it (mode, names, times), which no program sets; zero
    /// where the platform has none.
    pub ctime: FileTime,
    /// Inode number; 0 where the platform has none.
    pub ino: u64,
    /// Device number; 0 where the platform has none.
    pub dev: u64,
    /// Names that the file has; 1 where the platform does not say.
    pub links: u64,
    /// Number of the user that it belongs to; 0 where the platform has none.
    pub owner: u32,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirItem {
    /// The name, one component.
    pub name: OsString,
    /// What it is, links not followed.
    pub kind: FileKind,
}

/// How to open a file. Every way but [`OpenHow::Read`] refuses a symbolic link as the last
/// component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenHow {
    /// Existing, for reading, links followed (paths that the user typed).
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

/// What a rename may do to something that already has the new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clobber {
    /// Fail with `AlreadyExists`.
    Never,
    /// Replace a file (directories are never replaced by a rename).
    Replace,
}

/// A place with files in it. Paths are relative to the place, or absolute where the place is the
/// whole file system ([`DiskMedium::new`](crate::DiskMedium::new)).
pub trait Medium: Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn MediumFile>>;
    /// The medium of a directory, held open; refuses a link as the last component.
    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn Medium>>;
    /// Metadata, links not followed.
    fn metadata(&self, path: &Path) -> io::Result<Meta>;
    /// Whether what has this metadata belongs to the user as whom this process works. Where there are no
    /// such users, everything does.
    fn owns(&self, meta: &Meta) -> bool {
        let _ = meta;
        true
    }
    /// Permission bits that new files are not to have (umask), unless their user says so.
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
    /// As [`Medium::list_dir`], one name after the other: a large directory takes no memory.
    fn for_each_name(&self, path: &Path, take: &mut dyn FnMut(&OsStr, FileKind)) -> io::Result<()>;
    /// What [`Medium::for_each_name`] has passed over in this directory when it was listed last, as it can have no name here (an
    /// object of a bucket whose key is no path), each with why. It is told once.
    fn passed_over(&self, _path: &Path) -> Vec<(PathBuf, String)> {
        Vec::new()
    }
    /// Renames within the place.
    fn rename(&self, from: &Path, to: &Path, clobber: Clobber) -> io::Result<()>;
    /// Removes a file or a link.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes a symbolic link at `link` that says `target`.
    fn symlink(&self, target: &Path, link: &Path) -> io::Result<()>;
    /// Gives the file `name` of this place one more name, `new` in the place `to`, which is of the same
    /// type. Links are not followed. Where there are no such links, [`io::ErrorKind::Unsupported`].
    fn hard_link(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        let _ = (name, to, new);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Renames `name` of this place to `new` in the place `to`, which is of the same type and on the same
    /// file system; a file that has that name is replaced, in one step.
    fn move_to(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        let _ = (name, to, new);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Itself, for [`Medium::hard_link`] and [`Medium::move_to`] of another place.
    fn as_any(&self) -> &dyn Any;
    /// The one path of something that is there: absolute, without links.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        path.canonicalize()
    }
    /// What a symbolic link says.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf>;
    /// Whether what is read there comes from another machine: it may be wrong once, and right when it is read anew.
    fn is_far(&self, path: &Path) -> bool {
        let _ = path;
        false
    }
    /// Whether opening and reading what is there may take long: it lies on another machine, or another program gives
    /// it. Who serves several at once leaves that to threads.
    fn is_slow(&self, path: &Path) -> bool {
        self.is_far(path)
    }
    /// Sets permission bits of a file or directory, links refused.
    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Sets the modification time, of the link itself where it is one.
    fn set_mtime(&self, path: &Path, mtime: FileTime) -> io::Result<()>;
    /// Bytes that can still be written to the file system on which `path` lies, which is there; `None` where it does
    /// not say.
    fn room(&self, path: &Path) -> io::Result<Option<u64>> {
        let _ = path;
        Ok(None)
    }
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// Notices what others do with a file.
pub trait Watch: std::fmt::Debug + Send + Sync {
    /// Whether anybody has opened the file since it is watched, or has closed it after writing.
    fn noticed(&self) -> bool;
}

/// An open file. Positional and shared: any thread, no cursor.
pub trait MediumFile: Send + Sync {
    /// Reads at a byte offset; may be short; 0 at the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// As [`MediumFile::read_at`] for what needs no waiting: [`io::ErrorKind::WouldBlock`] where a device would have to be
    /// asked first. Where the medium cannot tell, it waits.
    fn read_at_hand(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(buf, offset)
    }
    /// As [`MediumFile::read_at`] for what was read already and is wrong: nothing that is kept in memory is taken for it.
    fn read_anew_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(buf, offset)
    }
    /// A handle of its own for a thread that reads the file in order, where that serves anything.
    fn in_order(&self) -> Option<Arc<dyn MediumFile>> {
        None
    }
    /// Writes at a byte offset; may be short.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;
    /// As [`MediumFile::write_at`] for bytes that lie in several places, in order.
    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let first = bufs.iter().find(|buf| !buf.is_empty());
        first.map_or(Ok(0), |buf| self.write_at(buf, offset))
    }
    /// Cuts or extends (with zeros, sparse where the medium can).
    fn set_len(&self, size: u64) -> io::Result<()>;
    /// The first range at or after `offset` that may hold anything but zeros; `None` if there is none up
    /// to the end. Where the medium cannot tell, all is such a range.
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        Ok(Some(offset..u64::MAX))
    }
    /// Metadata of the open file, whatever its name is by now.
    fn metadata(&self) -> io::Result<Meta>;
    /// Sets permission bits.
    fn set_mode(&self, mode: u32) -> io::Result<()>;
    /// Sets the modification time.
    fn set_mtime(&self, mtime: FileTime) -> io::Result<()>;
    /// Makes content durable.
    fn sync(&self) -> io::Result<()>;
    /// Watches it from now on; `None` where the medium does not tell.
    fn watch(&self) -> Option<Box<dyn Watch>> {
        None
    }
    /// Takes the exclusive advisory lock, held until the file is closed: `false` if another open
    /// file holds it.
    fn try_lock(&self) -> io::Result<bool>;
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

/// Writes all of `buf`, going on after short writes.
///
/// # Errors
/// The medium's; `WriteZero` if the medium takes nothing and says nothing. Some prefix may have
/// been written.
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
    IoSlice::advance_slices(&mut bufs, 0); // leaves empty ones away
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
