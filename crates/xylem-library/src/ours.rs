//! What of xylem's own is never part of a publication: stores, and folders of keys or mail that stand
//! without one. They are known by what is in them, whatever they are called and wherever they are
//! mounted or were copied to. A key that somebody copied or linked elsewhere is a file like any other.

use std::io;
use std::path::{Path, PathBuf};

use xylem_store::{FileKind, Medium, OpenHow, StoreError, is_store};

use crate::error::{Blame, Failure, advised, blame_of};
use crate::keys::SECRET_LEN;

/// Names of which every folder of ours has one.
const MARKS: [&str; 5] = ["format", "objects", "publisher", "link", "sessions"];
/// How a publisher's key under a passphrase begins.
const SEALED: &[u8] = b"-----BEGIN NDN SAFEBAG-----";
/// Folders that mail has.
const MAIL: [&str; 4] = ["sessions", "people", "inbox", "outbox"];
/// Where named keys are, below a folder of keys, and how their files end.
const NAMED: (&str, &str) = ("keys/ndn", ".key");

/// Why a path is not published.
#[derive(Debug, thiserror::Error)]
pub enum OwnError {
    /// It can't be told what it is.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// It is a store, or lies in one.
    #[error(
        "{}: {}, which holds keys: nothing in it is shared or replaced; name a folder of your own",
        path.display(), whose(path, store)
    )]
    InStore {
        /// What was to be published.
        path: PathBuf,
        /// The store, or the folder of keys or mail.
        store: PathBuf,
    },
}

fn whose(path: &Path, store: &Path) -> String {
    if path == store {
        "this is a xylem store".to_owned()
    } else {
        format!("lies in the xylem store {}", store.display())
    }
}

impl Failure for OwnError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store(e) => blame_of(e),
            Self::InStore { .. } => Blame::Usage,
        }
    }
}

/// Whether a directory with a file or folder of this name needs to be looked at.
pub(crate) fn may_mark(directory: &Path, name: &str) -> bool {
    MARKS.contains(&name) || (directory.ends_with(NAMED.0) && name.ends_with(NAMED.1))
}

/// Whether the directory is a store, or a folder of keys or mail.
///
/// # Errors
/// It can't be told.
pub(crate) fn is_ours(medium: &dyn Medium, dir: &Path) -> Result<bool, StoreError> {
    look(medium, dir).map_err(|e| StoreError::from_io("look at", dir, None, e))
}

fn look(medium: &dyn Medium, dir: &Path) -> io::Result<bool> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    if is_store(medium, dir)? {
        return Ok(true);
    }
    let meta = |name: &str| match medium.metadata(&dir.join(name)) {
        Ok(meta) => Ok(Some(meta)),
        Err(e) if matches!(e.kind(), NotFound | NotADirectory | PermissionDenied) => Ok(None),
        Err(e) => Err(e),
    };
    let secret = |name| -> io::Result<bool> {
        let meta = meta(name)?;
        Ok(meta.is_some_and(|m| m.kind == FileKind::File && m.size == SECRET_LEN as u64))
    };
    let sealed = |name: &str| -> io::Result<bool> {
        let is_file = meta(name)?.is_some_and(|meta| meta.kind == FileKind::File);
        if !is_file {
            return Ok(false);
        }
        let mut head = [0; SEALED.len()];
        let read = medium.open(&dir.join(name), OpenHow::Read)?.read_at(&mut head, 0)?;
        Ok(head[..read] == *SEALED)
    };
    let publisher = secret("publisher")? || sealed("publisher")?;
    let link = secret("link")?;
    if (publisher && link) || ((publisher || link) && dir.ends_with("keys")) {
        return Ok(true);
    }
    if dir.ends_with(NAMED.0) && medium.metadata(dir)?.kind == FileKind::Directory {
        let mut found = false;
        medium.for_each_name(dir, &mut |name, _| {
            found |= name.as_encoded_bytes().ends_with(NAMED.1.as_bytes());
        })?;
        return Ok(found);
    }
    for name in MAIL {
        if !meta(name)?.is_some_and(|meta| meta.kind == FileKind::Directory) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Refuses a path, which is canonical, that is a store or lies in one.
///
/// # Errors
/// See [`OwnError`].
pub(crate) fn outside(medium: &dyn Medium, path: &Path) -> Result<(), OwnError> {
    for above in path.ancestors() {
        if is_ours(medium, above)? {
            let (path, store) = (path.to_path_buf(), above.to_path_buf());
            return Err(OwnError::InStore { path, store });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use xylem_store::{DiskMedium, Store};

    use super::*;

    #[test]
    fn what_is_ours_is_known_by_what_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let medium = DiskMedium::new();
        let at = |name: &str| dir.path().join(name);
        let ours = |name: &str| is_ours(&medium, &at(name)).unwrap();
        let folders =
            |names: &[&str]| names.iter().for_each(|n| fs::create_dir_all(at(n)).unwrap());
        let secret = |name: &str| fs::write(at(name), [7; SECRET_LEN]).unwrap();

        Store::open(Arc::new(DiskMedium::new()), &at("store")).unwrap();
        folders(&["old/objects", "old/partial", "old/shares", "old/keys", "copy", "a/keys/ndn"]);
        folders(&["letters/sessions", "letters/people", "letters/inbox", "letters/outbox"]);
        ["old/keys/publisher", "copy/publisher", "copy/link"].iter().for_each(|name| secret(name));
        fs::write(at("a/keys/ndn/%08.key"), "-----BEGIN").unwrap();
        folders(&["f/keys"]);
        fs::write(at("f/keys/publisher"), "-----BEGIN NDN SAFEBAG-----\n").unwrap();
        for name in ["store", "old", "old/keys", "copy", "a/keys/ndn", "letters", "f/keys"] {
            assert!(ours(name), "{name}");
        }
        fs::create_dir(at("newer")).unwrap();
        fs::write(at("newer/format"), "xylem store 99\n").unwrap();
        assert!(ours("newer"), "one of a newer program");

        // What only looks a little like one is the user's.
        folders(&["git/objects", "b/keys/ndn", "c/keys", "d", "e/sessions"]);
        fs::write(at("git/format"), "xylem stored").unwrap();
        fs::write(at("c/keys/publisher"), "Penguin\n").unwrap();
        secret("d/publisher");
        for name in ["", "git", "b/keys/ndn", "c/keys", "d", "e", "d/publisher"] {
            assert!(!ours(name), "{name}");
        }
        let refused = |name: &str| outside(&medium, &at(name)).is_err();
        assert!(refused("store/keys/publisher") && refused("copy/link") && refused("store"));
        assert!(!refused("d/publisher"));
    }
}
