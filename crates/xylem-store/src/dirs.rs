//! Directories: opened so that no link stands in their place, made where they are missing, and kept
//! from others.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::atomic::sync_above;
use crate::error::StoreError;
use crate::medium::{FileKind, Medium, Meta};
use crate::sweep::cannot_be_set;

/// Opens a directory, refusing a link or anything else in its place.
pub(crate) fn open_dir(medium: &dyn Medium, dir: &Path) -> Result<Arc<dyn Medium>, StoreError> {
    medium.open_dir(dir).map_err(|e| match e.kind() {
        // A link is reported as either of these, depending on the system.
        io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput => {
            StoreError::Unsafe { path: dir.to_path_buf(), what: "is not a directory" }
        }
        _ => StoreError::from_io("open", dir, None, e),
    })
}

/// Makes a directory (mode 0700) and those above it, where they are missing. Their names are on the
/// device afterwards: what is stored durably must not be lost with the directory around it.
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

/// Makes one directory (mode 0700), unless it is there.
pub(crate) fn make_dir(medium: &dyn Medium, dir: &Path, shown: &Path) -> Result<(), StoreError> {
    match medium.create_dir(dir, 0o700) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            Err(StoreError::from_io("create the directory", shown, None, e))
        }
        _ => Ok(()),
    }
}

/// Sees to it that nobody but its owner can open a file (`mode` 0o600) or directory (0o700): one that
/// others can open is given this mode. No error if it is not there. A link is left alone: whoever asks
/// names what it leads to.
///
/// Elsewhere than on Unix nothing is done.
///
/// # Errors
/// [`StoreError::Exposed`] if that is not ours to do, or the file system does not do it; the medium's.
pub fn keep_private(medium: &dyn Medium, path: &Path, mode: u32) -> Result<(), StoreError> {
    if !cfg!(unix) {
        return Ok(());
    }
    let error = |e| StoreError::from_io("read the metadata", path, None, e);
    let looked = |meta: Meta| (meta.kind != FileKind::Symlink).then_some(meta.mode & 0o777 & !mode);
    let others = match medium.metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(error)?,
    };
    if looked(others).is_none_or(|more| more == 0) {
        return Ok(());
    }
    let exposed = || StoreError::Exposed { path: path.to_path_buf(), mode };
    match medium.set_mode(path, mode) {
        Err(e) if cannot_be_set(e.kind()) => return Err(exposed()),
        Err(e) => return Err(StoreError::from_io("set the mode", path, None, e)),
        Ok(()) => {}
    }
    let now = medium.metadata(path).map_err(error)?;
    if looked(now).is_none_or(|more| more == 0) { Ok(()) } else { Err(exposed()) }
}
