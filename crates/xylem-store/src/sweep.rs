//! Removing trees without following a link, and the components that paths are made of.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::error::StoreError;
use crate::medium::{FileKind, Medium};

/// Deepest directory that is entered: our own limit, above what path lengths allow in practice.
pub(crate) const MAX_DEPTH: usize = 512;

/// One component of a path that stays where it is: not empty, no `.`, `..`, separator or NUL.
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

/// Removes from a staging directory what the listing does not have.
pub(crate) fn sweep(
    dir: &dyn Medium,
    shown: &Path,
    path: &mut Vec<u8>,
    depth: usize,
    listed: &mut dyn FnMut(&[u8]) -> Option<FileKind>,
) -> Result<(), StoreError> {
    let here = Path::new(".");
    let error = |doing, e| StoreError::from_io(doing, shown, None, e);
    // An earlier run may have finished it with a mode that keeps us out.
    dir.set_mode(here, 0o700).map_err(|e| error("set the mode", e))?;
    for item in dir.list_dir(here).map_err(|e| error("list", e))? {
        let (name, len) = (Path::new(&item.name), path.len());
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(os_bytes(&item.name));
        let wanted = listed(path) == Some(item.kind);
        let shown = shown.join(name);
        match item.kind {
            FileKind::Directory if wanted && depth < MAX_DEPTH => {
                sweep(&*enter(dir, name, &shown)?, &shown, path, depth + 1, listed)?;
            }
            FileKind::File if wanted => {}
            FileKind::Directory => remove_tree_at(dir, name, &shown, depth)?,
            _ => {
                dir.remove_file(name)
                    .map_err(|e| StoreError::from_io("remove", &shown, None, e))?;
            }
        }
        path.truncate(len);
    }
    Ok(())
}

/// Opens a directory below `dir`, giving ourselves permission first if need be.
fn enter(dir: &dyn Medium, name: &Path, shown: &Path) -> Result<Arc<dyn Medium>, StoreError> {
    dir.open_dir(name).map_err(|e| StoreError::from_io("open the directory", shown, None, e))
}

/// Removes a tree without following a link; nothing there is no error.
pub(crate) fn remove_tree(medium: &dyn Medium, path: &Path) -> Result<(), StoreError> {
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
    let here = Path::new(".");
    let error = |doing, e| StoreError::from_io(doing, shown, None, e);
    dir.set_mode(here, 0o700).map_err(|e| error("set the mode", e))?;
    for item in dir.list_dir(here).map_err(|e| error("list", e))? {
        let (name, shown) = (Path::new(&item.name), shown.join(&item.name));
        if item.kind == FileKind::Directory {
            remove_tree_at(&*dir, name, &shown, depth + 1)?;
        } else {
            dir.remove_file(name).map_err(|e| StoreError::from_io("remove", &shown, None, e))?;
        }
    }
    above.remove_dir(name).map_err(|e| error("remove the directory", e))
}
