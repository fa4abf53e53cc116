//! Where a path lies below a directory: nothing is ever done through a link.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::path::os_path;

/// The path below `root`; with `make` the directories that lead there are made.
///
/// # Errors
/// Something else than a directory is on the way, a link to one included.
pub(super) fn within(root: &Path, path: &[u8], make: bool) -> io::Result<PathBuf> {
    let whole = os_path(path);
    let mut at = root.to_path_buf();
    let mut components = whole.components().peekable();
    while let Some(component) = components.next() {
        at.push(component);
        if components.peek().is_none() {
            break;
        }
        match at.symlink_metadata() {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            Err(e) if e.kind() == io::ErrorKind::NotFound && make => fs::create_dir(&at)?,
            Err(e) => return Err(e),
        }
    }
    Ok(at)
}
