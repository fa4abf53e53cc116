//! Directories: opened without following links, created if missing, and closed to other users.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::atomic::sync_above;
use crate::error::StoreError;
use crate::medium::{FileKind, Medium};
use crate::sweep::cannot_be_set;

/// User number of the superuser.
const ROOT: u32 = 0;

/// Opens a directory, refusing a link or any other file.
pub(crate) fn open_dir(medium: &dyn Medium, dir: &Path) -> Result<Arc<dyn Medium>, StoreError> {
    medium.open_dir(dir).map_err(|e| match e.kind() {
        // A link gives either of these errors, depending on the system.
        io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput => {
            StoreError::Unsafe { path: dir.to_path_buf(), what: "is not a directory" }
        }
        _ => StoreError::from_io("open", dir, None, e),
    })
}

/// Makes a directory (mode 0700) and its missing parents. Afterwards their names are on the device: durable files must
/// not be lost with their directory.
///
/// # Errors
/// The medium's.
pub fn create_dirs(medium: &dyn Medium, dir: &Path) -> Result<(), StoreError> {
    match medium.create_dir(dir, 0o700) {
        Ok(()) => sync_above(medium, dir, dir),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let parent = dir.parent().filter(|p| !p.as_os_str().is_empty());
            let Some(parent) = parent else {
                return Err(StoreError::from_io("create the directory", dir, None, e));
            };
            create_dirs(medium, parent)?;
            make_dir(medium, dir, dir)?;
            sync_above(medium, dir, dir)
        }
        Err(e) => Err(StoreError::from_io("create the directory", dir, None, e)),
    }
}

/// Makes one directory (mode 0700), unless it exists.
pub(crate) fn make_dir(medium: &dyn Medium, dir: &Path, shown: &Path) -> Result<(), StoreError> {
    match medium.create_dir(dir, 0o700) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            Err(StoreError::from_io("create the directory", shown, None, e))
        }
        _ => Ok(()),
    }
}

/// Ensures that only its owner can open a directory. One that others can read gets mode 0700, and so does an empty one.
/// If others can write to a directory with content, they may have added or removed anything: that is an error. No error
/// if it does not exist. A link is left alone, as the user chose its target.
///
/// Does nothing except on Unix.
///
/// # Errors
/// [`StoreError::Foreign`], [`StoreError::Writable`]; [`StoreError::Exposed`] if the mode is not ours to
/// set, or the file system does not keep it; the medium's.
pub fn keep_private(medium: &dyn Medium, dir: &Path) -> Result<(), StoreError> {
    keep_private_as(medium, dir, dir, ReadablePolicy::Close)
}

/// How to handle a directory that others can read but not write to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadablePolicy {
    /// Close it.
    Close,
    /// Leave it: it holds other things, too.
    Leave,
}

/// As [`keep_private`]. `shown` is the path for errors.
pub(crate) fn keep_private_as(
    medium: &dyn Medium,
    dir: &Path,
    shown: &Path,
    readable: ReadablePolicy,
) -> Result<(), StoreError> {
    let error = |doing| move |e| StoreError::from_io(doing, shown, None, e);
    let Some(mode) = require_our_own(medium, dir, shown)? else { return Ok(()) };
    if mode & 0o077 == 0 || mode & 0o022 == 0 && readable == ReadablePolicy::Leave {
        return Ok(());
    }
    if mode & 0o022 != 0 {
        let mut is_empty = true;
        let listed = medium.for_each_name(dir, &mut |_, _| is_empty = false);
        listed.map_err(error("list"))?;
        if !is_empty {
            return Err(StoreError::Writable { path: shown.to_path_buf(), mode: mode & 0o777 });
        }
    }
    let exposed = || StoreError::Exposed { path: shown.to_path_buf(), mode: 0o700 };
    match medium.set_mode(dir, 0o700) {
        Err(e) if cannot_be_set(e.kind()) => return Err(exposed()),
        Err(e) => return Err(error("set the mode")(e)),
        Ok(()) => {}
    }
    let now = medium.metadata(dir).map_err(error("read the metadata"))?;
    if now.mode & 0o077 == 0 { Ok(()) } else { Err(exposed()) }
}

/// Refuses a secret that others can read or change, or that another user owns. It has to count as disclosed, which no
/// change of mode undoes. No error if it does not exist.
///
/// Does nothing except on Unix.
///
/// # Errors
/// [`StoreError::Foreign`], [`StoreError::Revealed`]; the medium's.
pub fn require_private(medium: &dyn Medium, file: &Path) -> Result<(), StoreError> {
    match require_our_own(medium, file, file)? {
        Some(mode) if mode & 0o077 != 0 => {
            Err(StoreError::Revealed { path: file.to_path_buf(), mode: mode & 0o777 })
        }
        _ => Ok(()),
    }
}

/// The mode of a file that belongs to us or to root, which has all rights anyway. `None` for a link, for a missing
/// file, and without modes.
fn require_our_own(
    medium: &dyn Medium,
    path: &Path,
    shown: &Path,
) -> Result<Option<u32>, StoreError> {
    let meta = match medium.metadata(path) {
        _ if !cfg!(unix) => return Ok(None),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|e| StoreError::from_io("read the metadata", shown, None, e))?,
    };
    match meta.kind {
        FileKind::Symlink => Ok(None),
        _ if medium.owns(&meta) || meta.owner == ROOT => Ok(Some(meta.mode)),
        _ => Err(StoreError::Foreign { path: shown.to_path_buf(), owner: meta.owner }),
    }
}
