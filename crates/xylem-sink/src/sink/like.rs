//! Old copies of a file: the one that it replaces, and those that the caller named.

use std::path::PathBuf;

use xylem_base::os_path;
use xylem_object::Manifest;
use xylem_store::{FileKind, FileRef, OpenHow, OverwritePolicy, Store, StoreError};

use super::destination::Destination;
use super::error::SaveError;

/// Opens the old copies of a single file. A named folder stands for the file of the publication's name in it.
///
/// # Errors
/// A named copy does not exist or cannot be opened.
pub(super) fn old_copies(
    manifest: &Manifest,
    to: &Destination,
    like: &[PathBuf],
    store: &Store,
) -> Result<Vec<FileRef>, SaveError> {
    let medium = &**store.medium();
    let open = |path: &PathBuf| -> Result<Option<FileRef>, StoreError> {
        let meta = medium.metadata(path);
        let meta = meta.map_err(|e| StoreError::from_io("open", path, None, e))?;
        match meta.kind {
            FileKind::File => FileRef::open(medium, path, OpenHow::Read).map(Some),
            _ => Ok(None),
        }
    };
    let mut copies = Vec::new();
    if to.policy == OverwritePolicy::Replace {
        // An unreadable file is still replaced.
        copies.extend(open(&to.path).ok().flatten());
    }
    for path in like {
        copies.extend(match open(path)? {
            Some(file) => Some(file),
            None => open(&path.join(os_path(&manifest.file_name))).ok().flatten(),
        });
    }
    Ok(copies)
}
