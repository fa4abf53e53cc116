//! The single routine by which a written file gets its final name: whole, or not at all.
//!
//! The steps, in order: the content is written under another name, and under [`Durability::Device`] flushed to the
//! device before anything else; then the rename, which is one step; then the directory is flushed, so that the name is
//! on the device when the call returns. If the rename reached the device before the content, a loss of power would
//! leave the name on an empty file. If nothing waited for the rename, the older file could come back. Under
//! [`Durability::Cached`] neither flush is made, and the file survives only the end of the process.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::file::{FileRef, Owner, open_locked, read_whole, require_regular};
use crate::long_names::name_around;
use crate::medium::{Clobber, Medium, OpenHow};

/// Most temporary names that are tried while others write the same file.
const MAX_WRITERS: u32 = 16;

/// Text between a file's name and the number in its temporary name, `.NAME.new-N`.
const INFIX: &str = ".new-";

/// The events that a file is certain to survive once it has its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The end of the process: content and name are with the operating system.
    #[default]
    Cached,
    /// A loss of power: content is on the device before the name, and the name before the call returns.
    Device,
}

/// Gives `file`, which was written as `temporary`, the name `path`, by the steps in the module's documentation. Both
/// names are on one file system.
///
/// # Errors
/// [`StoreError::Exists`] under [`Clobber::Never`]; the medium's. The file keeps its temporary name then, unless only
/// the last flush failed.
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

/// As [`install`], for a `path` relative to an opened directory. `shown` is the whole path, for errors.
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

/// Renames a file that needs no flush, or was flushed already. (The files of a directory were flushed one by one.)
/// `shown` is the new path, for errors.
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

/// Waits until the name `path` is on the device: flushes its directory.
pub(crate) fn sync_above(medium: &dyn Medium, path: &Path, shown: &Path) -> Result<(), StoreError> {
    let synced = medium.sync_dir(above(path));
    synced.map_err(|e| StoreError::from_io("flush to the device", above(shown), None, e))
}

fn above(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes a small file whole: under a temporary name beside `path`, with the permission bits `mode` from its first byte
/// on (0o600 for secrets). Then it [`install`]s it with [`Durability::Device`].
///
/// Any number of threads and processes may write one path at once; the last of them wins. The next writer reuses a
/// temporary file that a killed process left.
///
/// # Errors
/// [`StoreError::Exists`] under [`Clobber::Never`]; [`StoreError::Busy`] while 16 others write it;
/// the medium's. The older file stays then, unless only the last flush failed.
pub fn write_atomically(
    medium: &dyn Medium,
    path: &Path,
    bytes: &[u8],
    mode: u32,
    clobber: Clobber,
) -> Result<(), StoreError> {
    write_whole(medium, path, bytes, mode, clobber, Durability::Device)
}

/// As [`write_atomically`], with a choice of durability.
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
        // It may have its final name already. The next writer reuses a leftover.
        let _ = medium.remove_file(&temporary);
    }
    written
}

/// Reads a small file whole; `None` if there is none. The counterpart of [`write_atomically`].
///
/// # Errors
/// [`StoreError::Unsafe`] if it is no regular file, or a link that `how` refuses; [`StoreError::Corrupt`] if it has more
/// than `most` bytes; the medium's.
pub fn read_small(
    medium: &dyn Medium,
    path: &Path,
    how: OpenHow,
    most: u64,
) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match medium.open(path, how) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|e| StoreError::from_io("read", path, None, e))?,
    };
    let file = FileRef::new(file, path);
    require_regular(path, &file.metadata()?)?;
    read_whole(&file, most).map(Some)
}

/// Whether `path` is a temporary name of [`write_atomically`]. Removes it if a killed process left it; leaves it alone
/// if it is being written.
pub fn remove_unfinished(medium: &dyn Medium, path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let number = name.strip_prefix('.').and_then(|name| name.rsplit_once(INFIX));
    if number.is_none_or(|(_, number)| number.parse::<u32>().is_err()) {
        return false;
    }
    if open_locked(medium, path, path.to_path_buf(), 0o600, Owner::Us).is_ok() {
        // If the removal fails, the next run tries it.
        let _ = medium.remove_file(path);
    }
    true
}

/// A locked file beside `path` that no other process writes.
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
            // Another writer's file, or another user's, is left alone.
            Err(StoreError::Busy { .. } | StoreError::Unsafe { .. }) => {}
            other => return other.map(|file| (file, temporary)),
        }
    }
    Err(StoreError::Busy { path: path.to_path_buf() })
}

/// A leftover may have more permission bits than this file should.
fn restrict(file: &FileRef, mode: u32) -> Result<(), StoreError> {
    let has = file.metadata()?.mode;
    if has & 0o777 & !mode == 0 { Ok(()) } else { file.set_mode(mode) }
}
