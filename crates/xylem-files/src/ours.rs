//! Recognises xylem's own data, which is never part of a publication: stores, folders of keys or mail outside of a
//! store, and what `xylem sync` keeps in a folder in step. The first are recognised by their content, whatever they are
//! called and wherever they are mounted or copied. The last is recognised by its name, because its content looks like
//! any other file. A single key that was copied or linked elsewhere also looks like any other file.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use unicode_normalization::UnicodeNormalization;
use xylem_base::{Blame, Failure, advised, blame_of, os_bytes};
use xylem_keys::SECRET_LEN;
use xylem_store::{FileKind, Medium, OpenHow, StoreError, is_store, name_around};

use crate::event::SkipReason;

/// Folder of xylem's files in a folder in step: transfers under way, and the index that members fetch. Never shared.
pub const OWN: &str = ".xylem-sync";
/// File of rules, as in .gitignore, that exclude paths from a folder in step, and that name further files of rules.
pub const IGNORE_FILE: &str = ".xylemignore";

/// Each recognised folder contains at least one of these names.
const IDENTIFYING_NAMES: [&str; 5] = ["format", "objects", "publisher", "link", "sessions"];
/// Beginning of a publisher's key that a passphrase encrypts.
const SEALED: &[u8] = b"-----BEGIN NDN SAFEBAG-----";
/// Folders that a mail folder contains.
const MAIL: [&str; 4] = ["sessions", "people", "inbox", "outbox"];
/// Where named keys lie below a folder of keys, and the extension of their files.
const NAMED: (&str, &str) = ("keys/ndn", ".key");

/// Why a path is not published.
#[derive(Debug, thiserror::Error)]
pub enum OwnError {
    /// It cannot be determined whether the path is xylem's own.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// The path is a store, or lies in one.
    #[error(
        "{}: {}: nothing in it is shared or replaced; {}",
        path.display(), whose(path, store), instead(store)
    )]
    InStore {
        /// The path that was to be published.
        path: PathBuf,
        /// The store, the folder of keys or mail, or the folder of `xylem sync`.
        store: PathBuf,
    },
}

fn whose(path: &Path, store: &Path) -> String {
    match (path == store, is_of_sync(store)) {
        (true, false) => "this is a xylem store, which holds keys".to_owned(),
        (false, false) => format!("lies in the xylem store {}, which holds keys", store.display()),
        (true, true) => "this is private data of `xylem sync`".to_owned(),
        (false, true) => format!("lies in {}, the private data of `xylem sync`", store.display()),
    }
}

fn instead(store: &Path) -> &'static str {
    match is_of_sync(store) {
        true => "copy what you need to another folder",
        false => "name another folder",
    }
}

/// Returns whether a directory's name is that of `xylem sync`'s folder, on any file system.
fn is_of_sync(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| folds_to(&os_bytes(name), OWN))
}

/// Returns whether a path below a folder in step is private to its member: neither shared nor taken over. The folder of
/// `xylem sync` is private at every level, and the member's rules are private at the top.
#[must_use]
pub fn is_members_own(path: &[u8], is_directory: bool) -> bool {
    let mut components = path.split(|byte| *byte == b'/').enumerate().peekable();
    while let Some((depth, name)) = components.next() {
        let is_directory = is_directory || components.peek().is_some();
        if (folds_to(name, OWN) && (is_directory || depth == 0))
            || (depth == 0 && folds_to(name, IGNORE_FILE))
        {
            return true;
        }
    }
    false
}

/// Returns whether some file system identifies a name with `to`, which is lowercase ASCII. File systems may ignore
/// case, normalise (HFS+, APFS, ext4 with casefold), drop invisible characters, or cut what Windows cuts.
#[must_use]
pub fn folds_to(name: &[u8], to: &str) -> bool {
    if name.is_ascii() {
        let name = name.split(|byte| *byte == b':').next().unwrap_or_default();
        let Some((name, rest)) = name.split_at_checked(to.len()) else { return false };
        return name.eq_ignore_ascii_case(to.as_bytes()) && rest.iter().all(|b| b". ".contains(b));
    }
    let Ok(name) = str::from_utf8(name) else { return false };
    let seen = name.nfd().filter(|c| !is_ignorable(*c));
    // Converts to uppercase and back: some letters share one capital (U+017F and s).
    let folded: String = seen.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect();
    folded.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']) == to
}

/// Unicode's Default_Ignorable_Code_Point, from DerivedCoreProperties.txt.
fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Returns why a directory that [is xylem's own](is_ours) is left out.
pub(crate) fn why_left_out(dir: &Path) -> SkipReason {
    if is_of_sync(dir) { SkipReason::KeptInStep } else { SkipReason::Ours }
}

impl Failure for OwnError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store(e) => blame_of(e),
            Self::InStore { .. } => Blame::Usage,
        }
    }
}

/// Returns whether a directory with an entry of this name needs a check.
pub(crate) fn may_identify(directory: &Path, name: &str) -> bool {
    IDENTIFYING_NAMES.contains(&name) || (directory.ends_with(NAMED.0) && name.ends_with(NAMED.1))
}

/// Returns whether the directory is a store, a folder of keys or mail, or the folder of `xylem sync`.
///
/// # Errors
/// The directory cannot be checked.
pub fn is_ours(medium: &dyn Medium, dir: &Path) -> Result<bool, StoreError> {
    look(medium, dir).map_err(|e| StoreError::from_io("look at", dir, None, e))
}

fn look(medium: &dyn Medium, dir: &Path) -> io::Result<bool> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    if is_of_sync(dir) && medium.metadata(dir)?.kind == FileKind::Directory {
        return Ok(true);
    }
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

/// Refuses a canonical path that is a store or the folder of `xylem sync`, or lies in one.
///
/// # Errors
/// See [`OwnError`].
pub fn require_outside(medium: &dyn Medium, path: &Path) -> Result<(), OwnError> {
    require_outside_but(medium, path, false)
}

/// Like [`require_outside`]. With `for_members`, accepts a file directly in the folder of `xylem sync`: members fetch the index
/// there.
///
/// # Errors
/// See [`OwnError`].
pub fn require_outside_but(
    medium: &dyn Medium,
    path: &Path,
    for_members: bool,
) -> Result<(), OwnError> {
    let may_be = |dir: &Path| for_members && is_of_sync(dir) && path.parent() == Some(dir);
    for above in path.ancestors() {
        if !may_be(above) && is_ours(medium, above)? {
            let (path, store) = (path.to_path_buf(), above.to_path_buf());
            return Err(OwnError::InStore { path, store });
        }
    }
    Ok(())
}

/// Returns the name of a fetched file or folder `name` until it is complete. It is valid however long `name` is.
pub fn part_name(name: &OsStr) -> OsString {
    name_around(".", name, ".xylem-part")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use xylem_store::{DiskMedium, Store};

    use super::*;

    #[test]
    fn xylems_own_folders_are_recognised_by_content() {
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
        folders(&["photos/.xylem-sync/trash"]);
        fs::write(at("photos/.xylem-sync/index-0"), "").unwrap();
        fs::write(at(".xylem-sync"), "no folder").unwrap();
        assert!(ours("photos/.xylem-sync") && !ours("photos") && !ours(".xylem-sync"));
        folders(&["fat/.XYLEM-Sync"]);
        assert!(ours("fat/.XYLEM-Sync"), "as a file system names it that keeps cases not apart");

        folders(&["odd/.xylem-\u{17f}ync"]);
        assert!(ours("odd/.xylem-\u{17f}ync"), "as a file system names it that folds cases");

        // Folders that only resemble xylem's are the user's.
        folders(&["git/objects", "b/keys/ndn", "c/keys", "d", "e/sessions"]);
        fs::write(at("git/format"), "xylem stored").unwrap();
        fs::write(at("c/keys/publisher"), "Penguin\n").unwrap();
        secret("d/publisher");
        for name in ["", "git", "b/keys/ndn", "c/keys", "d", "e", "d/publisher"] {
            assert!(!ours(name), "{name}");
        }
        let refused = |name: &str| require_outside(&medium, &at(name)).is_err();
        assert!(refused("store/keys/publisher") && refused("copy/link") && refused("store"));
        assert!(!refused("d/publisher"));
        assert!(refused("photos/.xylem-sync/index-0") && refused("photos/.xylem-sync/trash"));
        let for_members = |name: &str| require_outside_but(&medium, &at(name), true).is_ok();
        assert!(for_members("photos/.xylem-sync/index-0"));
        assert!(!for_members("store/format") && !for_members("photos/.xylem-sync/trash/x"));
    }

    #[test]
    fn names_equal_to_ours_on_some_file_system_are_recognised() {
        for name in [
            ".xylem-sync",
            ".XYLEM-Sync",
            ".xylem-\u{17f}ync",
            ".xylem\u{200d}-sync",
            "\u{feff}.xylem-sync",
            ".xylem-sync\u{fe0f}",
            ".xylem-sync. .",
            ".xylem-sync::$INDEX_ALLOCATION",
            ".xylem-sync.\u{ad}",
        ] {
            assert!(folds_to(name.as_bytes(), OWN), "{name:?}");
            assert!(is_members_own(name.as_bytes(), false), "{name:?} at the top");
            let below = format!("a/{name}");
            assert!(
                is_members_own(below.as_bytes(), true) && !is_members_own(below.as_bytes(), false)
            );
            assert!(is_members_own(format!("{below}/x").as_bytes(), false), "{name:?} in a folder");
        }
        for name in [".xylem-syncs", "xylem-sync", ".xylem_sync", ".xylem-s\u{301}ync", "", ":"] {
            assert!(!folds_to(name.as_bytes(), OWN), "{name:?}");
        }
        assert!(!folds_to(b".xylem-\xffsync", OWN));
        assert!(
            is_members_own(b".XylemIgnore", false) && !is_members_own(b"a/.xylemignore", false)
        );
    }
}
