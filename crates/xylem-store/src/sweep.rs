//! Removal of trees without following links, and components of paths.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::error::StoreError;
use crate::medium::{FileKind, Medium, Meta};
use crate::names::{FolderNames, FolderVisit};

/// Deepest directory that is entered; one handle is held open for each level.
pub const MAX_DEPTH: usize = 512;

/// A path component without special meaning: not empty, no `.`, `..`, separator or NUL.
pub(crate) fn component(name: &[u8]) -> Option<&Path> {
    let plain = !name.is_empty()
        && name != b"."
        && name != b".."
        && !name
            .iter()
            .any(|b| matches!(b, b'/' | 0) || (cfg!(windows) && matches!(b, b'\\' | b':')));
    if plain { os_path(name) } else { None }
}

#[cfg(unix)]
pub(crate) fn os_path(bytes: &[u8]) -> Option<&Path> {
    use std::os::unix::ffi::OsStrExt;
    Some(Path::new(OsStr::from_bytes(bytes)))
}

#[cfg(not(unix))]
pub(crate) fn os_path(bytes: &[u8]) -> Option<&Path> {
    std::str::from_utf8(bytes).ok().map(OsStr::new).map(Path::new)
}

#[cfg(unix)]
pub(crate) fn os_bytes(name: &OsStr) -> &[u8] {
    use std::os::unix::ffi::OsStrExt;
    name.as_bytes()
}

#[cfg(not(unix))]
pub(crate) fn os_bytes(name: &OsStr) -> &[u8] {
    name.to_str().unwrap_or_default().as_bytes()
}

/// Returns what kind a listing has under a path.
pub(crate) type KindLookup<'a> = dyn FnMut(&[u8]) -> Result<Option<FileKind>, StoreError> + 'a;

/// Called with each path that stays.
pub(crate) type OnKept<'a> = dyn FnMut(&[u8], &Meta) + 'a;

/// Removes from a staging directory all that the listing does not have. Asks for paths in the order of a listing.
pub(crate) fn sweep(
    dir: &dyn Medium,
    shown: &Path,
    path: &mut Vec<u8>,
    depth: usize,
    listed: &mut KindLookup<'_>,
    stays: &mut OnKept<'_>,
) -> Result<(), StoreError> {
    let names = open_to_us(dir, shown)?;
    for visit in (0..names.len()).filter_map(|i| names.get(i)) {
        let (name, found) = match visit {
            FolderVisit::Name(name, kind) => (name, Some(kind)),
            FolderVisit::Inside(name) => (name, None),
        };
        let bad = || StoreError::Unsafe {
            path: shown.to_path_buf(),
            what: "holds a name that this system cannot use",
        };
        let (at, len) = (os_path(name).ok_or_else(bad)?, path.len());
        let shown = shown.join(at);
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        match found {
            // A directory that was removed just before is not entered.
            None => match enter(dir, at, &shown) {
                Ok(below) => sweep(&*below, &shown, path, depth + 1, listed, stays)?,
                Err(StoreError::NotFound { .. }) => {}
                Err(e) => return Err(e),
            },
            Some(kind) => match (listed(path)? == Some(kind), kind) {
                (true, FileKind::File | FileKind::Directory)
                    if depth < MAX_DEPTH && is_ours(dir, at, &shown, path, stays)? => {}
                (_, FileKind::Directory) => remove_tree_at(dir, at, &shown, depth)?,
                _ => dir
                    .remove_file(at)
                    .map_err(|e| StoreError::from_io("remove", &shown, None, e))?,
            },
        }
        path.truncate(len);
    }
    Ok(())
}

/// Whether a file or directory belongs to us and, if it is a file, has no second name. Only then may it be written to.
fn is_ours(
    dir: &dyn Medium,
    name: &Path,
    shown: &Path,
    path: &[u8],
    stays: &mut OnKept<'_>,
) -> Result<bool, StoreError> {
    let meta =
        dir.metadata(name).map_err(|e| StoreError::from_io("read the metadata", shown, None, e))?;
    let ours = dir.owns(&meta) && (meta.kind == FileKind::Directory || meta.links <= 1);
    if ours {
        stays(path, &meta);
    }
    Ok(ours)
}

/// The names in a directory. An earlier run may have set a final mode that denies us access.
fn open_to_us(dir: &dyn Medium, shown: &Path) -> Result<FolderNames, StoreError> {
    let here = Path::new(".");
    let error = |doing, e| StoreError::from_io(doing, shown, None, e);
    match dir.set_mode(here, 0o700) {
        // A file system without modes denies no access.
        Err(e) if !cannot_be_set(e.kind()) => return Err(error("set the mode", e)),
        _ => {}
    }
    FolderNames::read(dir, here, &mut |_, _| true).map_err(|e| error("list", e))
}

/// Whether the error concerns an attribute, not the file.
pub(crate) fn cannot_be_set(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(kind, PermissionDenied | Unsupported | InvalidInput)
}

/// Opens a directory below `dir`, first giving ourselves permission if need be.
fn enter(dir: &dyn Medium, name: &Path, shown: &Path) -> Result<Arc<dyn Medium>, StoreError> {
    let opened = match dir.open_dir(name) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            dir.set_mode(name, 0o700).and_then(|()| dir.open_dir(name))
        }
        opened => opened,
    };
    opened.map_err(|e| StoreError::from_io("open the directory", shown, None, e))
}

/// Removes a file, or a directory of ours with everything in it, without following links; directories may deny us access.
/// No error if there is none.
///
/// # Errors
/// The medium's; [`StoreError::Unsafe`] if directories are nested too deep.
pub fn remove_tree(medium: &dyn Medium, path: &Path) -> Result<(), StoreError> {
    match medium.metadata(path) {
        Ok(meta) if meta.kind == FileKind::Directory => remove_tree_at(medium, path, path, 0),
        Ok(_) => medium.remove_file(path).map_err(|e| StoreError::from_io("remove", path, None, e)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(StoreError::from_io("read the metadata", path, None, e)),
    }
}

fn remove_tree_at(
    above: &dyn Medium,
    name: &Path,
    shown: &Path,
    depth: usize,
) -> Result<(), StoreError> {
    if depth > MAX_DEPTH {
        return Err(StoreError::Unsafe { path: shown.to_path_buf(), what: "nested too deep" });
    }
    let dir = enter(above, name, shown)?;
    let names = open_to_us(&*dir, shown)?;
    for visit in (0..names.len()).filter_map(|i| names.get(i)) {
        let FolderVisit::Name(name, kind) = visit else { continue };
        let Some(name) = os_path(name) else { continue };
        let shown = shown.join(name);
        if kind == FileKind::Directory {
            remove_tree_at(&*dir, name, &shown, depth + 1)?;
        } else {
            dir.remove_file(name).map_err(|e| StoreError::from_io("remove", &shown, None, e))?;
        }
    }
    above.remove_dir(name).map_err(|e| StoreError::from_io("remove the directory", shown, None, e))
}
