//! What a directory tree holds, in the canonical order of a listing (raw path bytes).

use std::path::{Path, PathBuf};

use xylem_object::listing;
use xylem_store::{FileKind, FileState, Medium, Meta, StoreError};

use crate::api::{Error, Event};
use crate::failure;

/// One thing found under a shared directory.
#[derive(Debug)]
pub(crate) struct Found {
    /// Path below the root, `/` between components.
    pub(crate) path: Vec<u8>,
    /// What it is.
    pub(crate) kind: FoundKind,
    /// Metadata as they were during the walk.
    pub(crate) meta: Meta,
}

/// Kinds of entries that can be shared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FoundKind {
    /// A regular file in this state.
    File(FileState),
    /// A directory, possibly empty.
    Directory,
    /// A symbolic link and where it points, as it is written.
    Symlink { target: Vec<u8> },
}

/// Bytes of a path component or link target.
pub(crate) fn os_bytes(text: &std::ffi::OsStr) -> Vec<u8> {
    #[cfg(unix)]
    {
        std::os::unix::ffi::OsStrExt::as_bytes(text).to_vec()
    }
    #[cfg(not(unix))]
    {
        text.to_string_lossy().into_owned().into_bytes()
    }
}

/// A path from bytes that came from [`os_bytes`] or a listing.
pub(crate) fn os_path(bytes: &[u8]) -> PathBuf {
    #[cfg(unix)]
    {
        let text: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(bytes);
        PathBuf::from(text)
    }
    #[cfg(not(unix))]
    {
        PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Walks `root` without following links. Sockets, pipes and devices are reported and left out.
///
/// # Errors
/// A directory or file that can't be read ends the walk: half a tree must not be published.
pub(crate) fn walk(
    medium: &dyn Medium,
    root: &Path,
    on_event: &mut dyn FnMut(Event),
) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    let mut directories = vec![(root.to_path_buf(), Vec::new())];
    while let Some((directory, prefix)) = directories.pop() {
        let at = |e| failure::store(&StoreError::from_io("list", &directory, None, e));
        for item in medium.list_dir(&directory).map_err(at)? {
            let path = directory.join(&item.name);
            if listing::is_reserved(&os_bytes(&item.name)) {
                let why = "an unfinished fetch of xylem".to_owned();
                on_event(Event::Skipped { path, why });
                continue;
            }
            let at = |e| failure::store(&StoreError::from_io("look at", &path, None, e));
            let meta = medium.metadata(&path).map_err(at)?;
            let mut listed = prefix.clone();
            if !listed.is_empty() {
                listed.push(b'/');
            }
            listed.extend_from_slice(&os_bytes(&item.name));
            let kind = match meta.kind {
                FileKind::File => FoundKind::File(FileState::of(&meta)),
                FileKind::Directory => {
                    directories.push((path, listed.clone()));
                    FoundKind::Directory
                }
                FileKind::Symlink => {
                    let target = medium.read_link(&path).map_err(at)?;
                    FoundKind::Symlink { target: os_bytes(target.as_os_str()) }
                }
                FileKind::Other => {
                    let why = "not a file, directory or link".to_owned();
                    on_event(Event::Skipped { path, why });
                    continue;
                }
            };
            found.push(Found { path: listed, kind, meta });
        }
    }
    found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use xylem_store::DiskMedium;

    use super::*;

    #[test]
    fn parents_come_before_children_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b/empty")).unwrap();
        fs::write(dir.path().join("a/b/file"), b"12345").unwrap();
        fs::write(dir.path().join("a-file"), b"").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
        let found = walk(&DiskMedium::new(), dir.path(), &mut |_| {}).unwrap();
        let paths: Vec<_> =
            found.iter().map(|f| String::from_utf8(f.path.clone()).unwrap()).collect();
        assert_eq!(paths[..5], ["a", "a-file", "a/b", "a/b/empty", "a/b/file"]);
        assert!(matches!(found[4].kind, FoundKind::File(state) if state.size == 5));
        #[cfg(unix)]
        assert_eq!(found[5].kind, FoundKind::Symlink { target: b"a".to_vec() });
    }
}
