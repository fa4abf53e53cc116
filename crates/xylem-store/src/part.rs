//! [`PartFile`]: a file beside its final name, which it gets when it is whole.
//!
//! It may be in a folder that other users can write to. So it is private from its first byte on (mode 0600). An
//! existing file is reused only if the open handle shows a plain file of ours without a second name; otherwise it is
//! left alone, and another name is used. When the file is whole, its name must lead to the open file both before and
//! after the rename: no other user's file is passed off as ours.

use std::path::{Path, PathBuf};

use crate::atomic::{Durability, install};
use crate::error::{Difference, StoreError};
use crate::file::{FileRef, Owner, open_locked};
use crate::long_names::name_around;
use crate::medium::{Clobber, Medium, Meta};
use crate::sweep::{os_bytes, os_path};

/// Most names that are tried if other users have the first ones.
const MAX_NAMES: u32 = 16;
/// Suffix of part files.
const SUFFIX: &str = ".xylem-part";

/// A part file. It is locked until the last clone of its file is dropped.
#[derive(Debug)]
pub struct PartFile {
    file: FileRef,
    path: PathBuf,
}

impl PartFile {
    /// Opens or creates `path`. If other users have that name, uses `.NAME.1.xylem-part`, `.NAME.2.xylem-part`, …
    ///
    /// # Errors
    /// [`StoreError::Busy`] if another fetch has it; [`StoreError::Unsafe`] if other users have all names; the
    /// medium's.
    pub fn open(medium: &dyn Medium, path: &Path) -> Result<Self, StoreError> {
        first_of_ours(path, |path| Self::at(medium, path, Owner::Us))
    }

    /// As [`PartFile::open`] in a folder that no other user can write to, under this name alone.
    pub(crate) fn open_inside(medium: &dyn Medium, path: &Path) -> Result<Self, StoreError> {
        Self::at(medium, path, Owner::Whoever)
    }

    /// Opens again the file that was [opened](PartFile::open) as `path` with metadata `was`.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if the name leads to another file; as [`PartFile::open`].
    pub fn again(medium: &dyn Medium, path: &Path, was: &Meta) -> Result<Self, StoreError> {
        require_same(medium, path, was)?;
        let part = Self::at(medium, path, Owner::Us)?;
        require_same(medium, path, &part.file.metadata()?)?;
        Ok(part)
    }

    fn at(medium: &dyn Medium, path: &Path, owner: Owner) -> Result<Self, StoreError> {
        let file = open_locked(medium, path, path.to_path_buf(), 0o600, owner)?;
        Ok(Self { file, path: path.to_path_buf() })
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &FileRef {
        &self.file
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its final name, as [`install`] does.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if one of the names leads to another file; those of [`install`].
    pub fn finish_as(
        &self,
        medium: &dyn Medium,
        path: &Path,
        clobber: Clobber,
        durability: Durability,
    ) -> Result<(), StoreError> {
        let held = self.file.metadata()?;
        require_same(medium, &self.path, &held)?;
        install(medium, &self.file, &self.path, path, clobber, durability)?;
        require_same(medium, path, &held)
    }
}

/// Calls `open` for `path` and further names, until one is not another user's. Returns the result for that name.
pub(crate) fn first_of_ours<T>(
    path: &Path,
    mut open: impl FnMut(&Path) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut refused = match open(path) {
        Err(refused @ StoreError::Unsafe { .. }) => refused,
        other => return other,
    };
    for n in 1..MAX_NAMES {
        match open(&other_name(path, n)) {
            Err(e @ StoreError::Unsafe { .. }) => refused = e,
            other => return other,
        }
    }
    Err(refused)
}

/// Fails unless `path` leads to the file with this metadata.
pub(crate) fn require_same(
    medium: &dyn Medium,
    path: &Path,
    held: &Meta,
) -> Result<(), StoreError> {
    let named = medium.metadata(path);
    let named = named.map_err(|e| StoreError::from_io("read the metadata", path, None, e))?;
    if (named.ino, named.dev) == (held.ino, held.dev) {
        return Ok(());
    }
    Err(StoreError::Changed { path: path.to_path_buf(), what: Difference::Identity })
}

/// The `n`th further name for a part.
pub(crate) fn other_name(path: &Path, n: u32) -> PathBuf {
    let name = os_bytes(path.file_name().unwrap_or_default());
    let stem = os_path(name.strip_suffix(SUFFIX.as_bytes()).unwrap_or(name));
    let stem = stem.unwrap_or(Path::new(""));
    path.with_file_name(name_around("", stem.as_os_str(), &format!(".{n}{SUFFIX}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_names_are_names_of_parts() {
        let other = |name: &str, n| other_name(Path::new(name), n);
        assert_eq!(other("d/.a.xylem-part", 3), Path::new("d/.a.3.xylem-part"));
        let long = format!("d/.{}.xylem-part", "x".repeat(243));
        let long: Vec<PathBuf> = (1..MAX_NAMES).map(|n| other(&long, n)).collect();
        assert!(long.iter().all(|name| name.as_os_str().len() <= 2 + 255));
        assert!(long.windows(2).all(|two| two[0] != two[1]));
    }
}
