//! Paths as bytes, as in listings, tickets and the store's catalog.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use xylem_store::{Medium, StoreError};

use crate::disk::disk;

/// Returns the bytes of a path, a path component or a link's target.
pub fn os_bytes(text: &OsStr) -> Vec<u8> {
    #[cfg(unix)]
    {
        std::os::unix::ffi::OsStrExt::as_bytes(text).to_vec()
    }
    #[cfg(not(unix))]
    {
        text.to_string_lossy().into_owned().into_bytes()
    }
}

/// Makes a path from bytes of [`os_bytes`] or a listing.
pub fn os_path(bytes: &[u8]) -> PathBuf {
    #[cfg(unix)]
    {
        let text: &OsStr = std::os::unix::ffi::OsStrExt::from_bytes(bytes);
        PathBuf::from(text)
    }
    #[cfg(not(unix))]
    {
        PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Returns the absolute path, without links, of something that exists.
///
/// # Errors
/// The system's, such as [`StoreError::NotFound`].
pub fn canonical(path: &Path) -> Result<PathBuf, StoreError> {
    canonical_in(&*disk(), path)
}

/// The same on a medium.
///
/// # Errors
/// As [`canonical`].
pub fn canonical_in(medium: &dyn Medium, path: &Path) -> Result<PathBuf, StoreError> {
    medium.canonical(path).map_err(|e| StoreError::from_io("find", path, None, e))
}
