//! The one routine by which a file that was written gets its name: whole, or not at all.
//!
//! The steps and their order: the content is written under another name; on the device
//! ([`Durability::Device`]) before anything else happens; then the rename, which is one step; then
//! the directory is flushed, so that the name is on the device when the call returns. A rename that
//! overtakes its content would leave a whole name on an empty file after a loss of power; a rename
//! that nobody waits for would bring the older file back. Under [`Durability::Cached`] neither flush
//! is made, and the file survives the end of the process only.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::file::{FileRef, Owner, open_locked};
use crate::long_names::name_around;
use crate::medium::{Clobber, Medium};

/// Temporary names that are tried while others write the same file.
const MAX_WRITERS: u32 = 16;

/// What stands between a file's name and the number in its temporary name, `.NAME.new-N`.
const INFIX: &str = ".new-";

/// What a file has outlived when it has its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The end of the process: content and name are the operating system's.
    #[default]
    Cached,
    /// A loss of power: content is on the device before the name, and the name before the call
    /// returns.
    Device,
}

/// Gives `file`, which was written as `temporary`, the name `path`, in the order that the module
/// says. Both names are of one file system.
///
/// # Errors
/// [`StoreError::Exists`] under [`Clobber::Never`]; the medium's. The file keeps its temporary name
/// then, unless only the last flush failed.
pub fn install(
    medium: &dyn Medium,
    file: &FileRef,
    temporary: &Path,
    path: &Path,
    clobber: Clobber,
    durability: Durability,
) -> Result<(), StoreError> {
    install_as(medium, file, temporary, path, path, clobber, durability)
}

/// As [`install`], where `path` is relative to an opened directory: `shown` is the whole of it, for
/// errors.
pub(crate) fn install_as(
    medium: &dyn Medium,
    file: &FileRef,
    temporary: &Path,
    path: &Path,
    shown: &Path,
    clobber: Clobber,
    durability: Durability,
) -> Result<(), StoreError> {
    if durability == Durability::Device {
        file.sync()?;
    }
    rename(medium, temporary, path, shown, clobber, durability)
}

/// Renames what needs no flush of its own, or had it (a directory, whose files were flushed one by
/// one). `shown` is the new name as errors have it.
pub(crate) fn rename(
    medium: &dyn Medium,
    from: &Path,
    to: &Path,
    shown: &Path,
    clobber: Clobber,
    durability: Durability,
) -> Result<(), StoreError> {
    medium
        .rename(from, to, clobber)
        .map_err(|e| StoreError::from_io("rename to this name", shown, None, e))?;
    if durability == Durability::Device { sync_above(medium, to, shown) } else { Ok(()) }
}

/// Waits until the name `path` is on the device: flushes the directory that it stands in.
pub(crate) fn sync_above(medium: &dyn Medium, path: &Path, shown: &Path) -> Result<(), StoreError> {
    let synced = medium.sync_dir(above(path));
    synced.map_err(|e| StoreError::from_io("flush to the device", above(shown), None, e))
}

fn above(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes a small file whole: under a temporary name beside `path`, with the permission bits `mode`
/// from its first byte on (0o600 for secrets), then [`install`]s it with [`Durability::Device`].
///
/// Any number of threads and processes may write one path at once; the last of them wins. What a
/// killed process left under a temporary name is taken over by the next writer.
///
/// # Errors
/// [`StoreError::Exists`] under [`Clobber::Never`]; [`StoreError::Busy`] while 16 others write it;
/// the medium's. What was there before stays then, unless only the last flush failed.
pub fn write_atomically(
    medium: &dyn Medium,
    path: &Path,
    bytes: &[u8],
    mode: u32,
    clobber: Clobber,
) -> Result<(), StoreError> {
    write_whole(medium, path, bytes, mode, clobber, Durability::Device)
}

/// As [`write_atomically`], where less than a loss of power may have to be outlived.
///
/// # Errors
/// As there.
pub fn write_whole(
    medium: &dyn Medium,
    path: &Path,
    bytes: &[u8],
    mode: u32,
    clobber: Clobber,
    durability: Durability,
) -> Result<(), StoreError> {
    let (file, temporary) = temporary(medium, path, mode)?;
    let written = file
        .set_len(0)
        .and_then(|()| restrict(&file, mode))
        .and_then(|()| file.write_all(bytes, 0))
        .and_then(|()| install(medium, &file, &temporary, path, clobber, durability));
    if written.is_err() {
        // It may have its name already; a leftover is taken over by the next writer.
        let _ = medium.remove_file(&temporary);
    }
    written
}

/// Whether `path` is a temporary name of [`write_atomically`]. If a killed process left it, it is
/// removed; one that is being written is left alone.
pub fn remove_unfinished(medium: &dyn Medium, path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let number = name.strip_prefix('.').and_then(|name| name.rsplit_once(INFIX));
    if number.is_none_or(|(_, number)| number.parse::<u32>().is_err()) {
        return false;
    }
    if open_locked(medium, path, path.to_path_buf(), 0o600, Owner::Us).is_ok() {
        // Who could not remove it leaves it to the next.
        let _ = medium.remove_file(path);
    }
    true
}

/// A locked file that nobody else writes, beside `path`.
fn temporary(
    medium: &dyn Medium,
    path: &Path,
    mode: u32,
) -> Result<(FileRef, PathBuf), StoreError> {
    let Some(name) = path.file_name() else {
        return Err(StoreError::from_io("write", path, None, io::ErrorKind::InvalidInput.into()));
    };
    for n in 0..MAX_WRITERS {
        let temporary = path.with_file_name(name_around(".", name, &format!("{INFIX}{n}")));
        match open_locked(medium, &temporary, temporary.clone(), mode, Owner::Us) {
            // Somebody else's, whatever it is, is left alone.
            Err(StoreError::Busy { .. } | StoreError::Unsafe { .. }) => {}
            other => return other.map(|file| (file, temporary)),
        }
    }
    Err(StoreError::Busy { path: path.to_path_buf() })
}

/// A leftover may have been made with more permission bits than this file is to have.
fn restrict(file: &FileRef, mode: u32) -> Result<(), StoreError> {
    let has = file.metadata()?.mode;
    if has & 0o777 & !mode == 0 { Ok(()) } else { file.set_mode(mode) }
}
