//! [`PartFile`]: a file beside the name that it gets when it is whole.
//!
//! It may stand in a folder into which others can write too. So it is nobody else's from its first byte on
//! (mode 0600); what is there already is taken up only if it is a plain file of ours without a second
//! name, as the open handle says, and left alone otherwise: another name is used then. When it is whole, the
//! name must still lead to what is held open, before the rename and after it: nobody's file is
//! passed off as ours.

use std::path::{Path, PathBuf};

use crate::atomic::{Durability, install};
use crate::error::{Difference, StoreError};
use crate::file::{FileRef, Owner, open_locked};
use crate::long_names::name_around;
use crate::medium::{Clobber, Medium, Meta};
use crate::sweep::{os_bytes, os_path};

/// Names that are tried where others have the first ones.
const MAX_NAMES: u32 = 16;
/// What names of parts end with.
const SUFFIX: &str = ".xylem-part";

/// See the module's text. It is locked until the last clone of its file is dropped.
#[derive(Debug)]
pub struct PartFile {
    file: FileRef,
    path: PathBuf,
}

impl PartFile {
    /// Opens or creates `path`, or where others have that, `.NAME.1.xylem-part`, `.NAME.2.xylem-part`, …
    ///
    /// # Errors
    /// [`StoreError::Busy`] if another fetch has it; [`StoreError::Unsafe`] if others have all names; the
    /// medium's.
    pub fn open(medium: &dyn Medium, path: &Path) -> Result<Self, StoreError> {
        first_of_ours(path, |path| Self::at(medium, path, Owner::Us))
    }

    /// As [`PartFile::open`] where nobody else can write anyway, under this name alone.
    pub(crate) fn open_inside(medium: &dyn Medium, path: &Path) -> Result<Self, StoreError> {
        Self::at(medium, path, Owner::Whoever)
    }

    /// Opens once more what was [opened](PartFile::open) as `path` and `was` then.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if something else stands there; as [`PartFile::open`].
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

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name, as [`install`] does.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if one of the names leads to something else; those of [`install`].
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

/// What `open` gives for the first of the names for `path` that nobody else has.
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

/// An error unless `path` leads to what has this metadata.
pub(crate) fn require_same(
    medium: &dyn Medium,
    path: &Path,
    held: &Meta,
) -> Result<(), StoreError> {
    let named = medium.metadata(path);
    let named = named.map_err(|e| StoreError::from_io("look at", path, None, e))?;
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
