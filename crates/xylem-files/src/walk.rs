//! [`DirectoryWalk`]: walks a directory tree in the canonical order of a listing (raw path bytes).

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xylem_base::{Blame, Failure, advised, blame_of, os_bytes, os_path};
use xylem_hash::Hash;
use xylem_object::listing::{self, Entry, EntryKind, PathError};
use xylem_store::{
    FileKind, FileState, FileTime, FolderNames, FolderVisit, Medium, Meta, OpenHow, StoreError,
};

use crate::event::{LibraryEvent, SkipReason};
use crate::exclude::{ExcludeError, Exclusion};
use crate::ours::{self, OwnError};
use crate::portable::{NameCheck, NotPortable};

/// One entry found under a shared directory.
#[derive(Debug)]
pub struct WalkEntry {
    /// Path below the root, `/` between components.
    pub path: Vec<u8>,
    /// Its kind.
    pub kind: FoundKind,
    /// Metadata at the time of the walk.
    pub meta: Meta,
    /// Permission bits and time as they will be listed: those on disk, or those published that the disk could not
    /// store.
    pub listed: (u32, FileTime),
}

/// Kinds of entries that can be shared.
#[derive(Debug, PartialEq, Eq)]
pub enum FoundKind {
    /// A regular file in this state.
    File(FileState),
    /// A directory, possibly empty.
    Directory,
    /// A symbolic link with its target as written.
    Symlink {
        /// The target's bytes.
        target: Vec<u8>,
    },
    /// A further name of the file that was found under this path.
    HardLink {
        /// That path, below the directory that is walked.
        target: Vec<u8>,
    },
}

impl WalkEntry {
    /// Makes the listing entry; `root` is that of a file.
    pub fn entry(&self, root: Option<Hash>) -> Entry {
        let kind = match (&self.kind, root) {
            (FoundKind::File(state), Some(root)) => EntryKind::File { size: state.size, root },
            (FoundKind::Symlink { target }, _) => EntryKind::Symlink { target: target.clone() },
            (FoundKind::HardLink { target }, _) => EntryKind::HardLink { target: target.clone() },
            _ => EntryKind::Directory,
        };
        let (mode, FileTime { secs, nanos }) = self.listed;
        let (mode, mtime_s, mtime_ns) = match kind {
            // Links carry neither.
            EntryKind::Symlink { .. } | EntryKind::HardLink { .. } => (0o777, 0, 0),
            _ => (mode, secs, nanos),
        };
        Entry { path: self.path.clone(), kind, mode, mtime_s, mtime_ns }
    }
}

/// Why a directory tree was not walked to its end. An incomplete tree must not be published.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// A part of it cannot be read.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// It is a store, or lies in one.
    #[error(transparent)]
    Own(#[from] OwnError),
    /// Directories are nested deeper than a listing allows.
    #[error("{}: nested too deep: at most {} directories inside one another are published", .0.display(), listing::MAX_DEPTH - 1)]
    TooDeep(PathBuf),
    /// Only portable names are allowed, and one is not.
    #[error("{0}; rename it, or share without --portable")]
    NotPortable(#[from] NotPortable),
}

impl Failure for WalkError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store(e) => blame_of(e),
            Self::Own(e) => e.blame(),
            Self::TooDeep(_) | Self::NotPortable(_) => Blame::Usage,
        }
    }
}

/// Which parts of a directory are to be published, as requested.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Whether names that some system cannot store are an error; otherwise a warning.
    pub portable: bool,
    /// Whether unreadable files are an error; otherwise they are reported and left out.
    pub strict: bool,
    /// Excluded patterns, as lines of a `.gitignore`; `None`: those of the last share.
    pub exclude: Option<Vec<String>>,
    /// A change since the last share is known: changed files are read at once, without first checking whether there are
    /// any.
    pub changed: bool,
    /// Whether the path may be a file of `xylem sync`, shared for members to fetch.
    pub for_members: bool,
    /// The directory is a folder in step. Files that cannot be read, listed or named, or change while they are read,
    /// are reported and left out, and all others are published. The private files of `xylem sync` are left out too.
    pub in_step: bool,
    /// Paths below it that are left out this time without a report.
    pub omitted: Arc<BTreeSet<Vec<u8>>>,
}

/// Which parts of a tree are published.
#[derive(Clone)]
pub struct WalkRules {
    /// Policy about names that some system cannot store.
    pub names: NameCheck,
    /// Excluded paths.
    pub exclude: Exclusion,
    /// Whether an unreadable file ends the walk instead of being left out.
    pub strict: bool,
    /// Whether a name that cannot be listed ends the walk too.
    pub all_named: bool,
    /// A change since the last share is known.
    pub changed: bool,
    /// See [`Selection::in_step`].
    pub in_step: bool,
}

impl WalkRules {
    /// Rules that include all, and fail if a part cannot be read.
    pub fn all() -> Self {
        let (names, exclude) = (NameCheck::off(), Exclusion::none());
        Self { names, exclude, strict: true, all_named: false, changed: false, in_step: false }
    }

    /// Makes the rules of `asked`, with the excluded patterns `exclude`.
    ///
    /// # Errors
    /// An invalid pattern.
    pub fn new(asked: &Selection, exclude: &[String]) -> Result<Self, ExcludeError> {
        let (names, strict) = (NameCheck::new(asked.portable), asked.strict);
        let (mut exclude, changed, in_step) =
            (Exclusion::new(exclude)?, asked.changed, asked.in_step);
        if in_step {
            exclude = exclude.in_step();
        }
        exclude.without(asked.omitted.clone());
        Ok(Self { names, exclude, strict, all_named: strict, changed, in_step })
    }
}

/// Most unreadable paths reported one by one.
const MAX_NAMED: u64 = 10;
/// Most bytes held for paths of files with several names; beyond that, a further name is published as a file of its
/// own.
const MAX_FIRST_NAMES: usize = 16 << 20;
/// Approximate overhead of one of them beside its path, bytes.
const FIRST_NAME: usize = 64;
// All paths that can be listed can be made, merged and removed.
const _: () = assert!(listing::MAX_DEPTH <= xylem_store::MAX_DEPTH);

/// Walks a directory tree in the order of a listing, without following links. Memory holds the names in the directories
/// on the current path. Sockets, pipes, devices, and what is [ours] are reported and left out.
pub struct DirectoryWalk<'a> {
    medium: &'a dyn Medium,
    root: PathBuf,
    /// The directories on the current path, the root first.
    frames: Vec<WalkFrame>,
    /// Files of which some names were not found yet.
    first_names: HashMap<(u64, u64), FirstName>,
    first_bytes: usize,
    rules: WalkRules,
    /// Number of paths excluded by rules, and of unreadable ones.
    excluded: u64,
    unreadable: u64,
    /// Excluded directories of which the contents are still to be skipped.
    left_out: HashSet<Vec<u8>>,
}

struct WalkFrame {
    names: FolderNames,
    next: usize,
    /// The directory's own path below the root.
    path: Vec<u8>,
}

struct FirstName {
    path: Vec<u8>,
    /// Names that were not found yet.
    left: u64,
}

impl<'a> DirectoryWalk<'a> {
    /// Starts a walk; reads only the root's names.
    ///
    /// # Errors
    /// The root cannot be read, or lies in a store.
    pub fn new(
        medium: &'a dyn Medium,
        root: &Path,
        rules: WalkRules,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<Self, WalkError> {
        let mut walk = Self {
            medium,
            root: root.to_path_buf(),
            frames: Vec::new(),
            first_names: HashMap::new(),
            first_bytes: 0,
            rules,
            excluded: 0,
            unreadable: 0,
            left_out: HashSet::new(),
        };
        ours::require_outside(medium, root)?;
        walk.enter(Vec::new(), on_event)?;
        Ok(walk)
    }

    /// Returns the next entry; `None` after the last.
    ///
    /// # Errors
    /// An unreadable directory or file ends the walk: an incomplete tree must not be published.
    pub fn next(
        &mut self,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<Option<WalkEntry>, WalkError> {
        while let Some(frame) = self.frames.last_mut() {
            let Some(visit) = frame.names.get(frame.next) else {
                self.frames.pop();
                continue;
            };
            frame.next += 1;
            let mut path = frame.path.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            match visit {
                FolderVisit::Inside(name) => {
                    path.extend_from_slice(name);
                    if !self.left_out.remove(&path) {
                        let entered = self.enter(path, on_event);
                        self.tolerate(entered, on_event)?;
                    }
                }
                FolderVisit::Name(name, _) => {
                    path.extend_from_slice(name);
                    let found = self.found(path, on_event);
                    if let Some(Some(found)) = self.tolerate(found, on_event)? {
                        return Ok(Some(found));
                    }
                }
            }
        }
        // Names beyond the first few are counted in one warning.
        self.rules.names.warn_of_rest(on_event);
        let (excluded, unreadable) = (self.excluded, self.unreadable);
        if excluded > 0 || unreadable > 0 {
            (self.excluded, self.unreadable) = (0, 0);
            on_event(LibraryEvent::LeftOut { excluded, unreadable });
        }
        Ok(None)
    }

    /// The medium that is walked.
    pub fn medium(&self) -> &'a dyn Medium {
        self.medium
    }

    /// See [`Selection::in_step`].
    pub fn is_in_step(&self) -> bool {
        self.rules.in_step
    }

    /// Returns `None` for an unreadable path that may be left out.
    fn tolerate<T>(
        &mut self,
        outcome: Result<T, WalkError>,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<Option<T>, WalkError> {
        match outcome {
            // A path that vanished since its name was read is not reported.
            Err(WalkError::Store(StoreError::NotFound { .. })) if self.rules.in_step => Ok(None),
            Err(WalkError::Store(e)) if !self.rules.strict => {
                self.unreadable += 1;
                if self.unreadable <= MAX_NAMED || self.rules.in_step {
                    let (path, why) = (e.path().to_path_buf(), e.to_string());
                    on_event(LibraryEvent::Skipped { path, why: SkipReason::CannotRead(why) });
                }
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// Returns where an entry lies.
    pub fn place(&self, path: &[u8]) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(os_path(path)) }
    }

    fn enter(
        &mut self,
        path: Vec<u8>,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), WalkError> {
        let directory = self.place(&path);
        let at = |e| StoreError::from_io("list", &directory, None, e);
        // The root is the first frame.
        if self.frames.len() >= listing::MAX_DEPTH {
            let too_deep = WalkError::TooDeep(directory.clone());
            if self.rules.in_step {
                let why = SkipReason::NotListed(too_deep.to_string());
                on_event(LibraryEvent::Skipped { path: directory, why });
                return Ok(());
            }
            return Err(too_deep);
        }
        let mut may_be_ours = false;
        let mut keep = |name: &OsStr, _| {
            may_be_ours |= name.to_str().is_some_and(|name| ours::may_identify(&directory, name));
            let unfinished = listing::is_reserved(&os_bytes(name));
            if unfinished {
                let (path, why) = (directory.join(name), SkipReason::UnfinishedFetch);
                on_event(LibraryEvent::Skipped { path, why });
            }
            !unfinished
        };
        let names = FolderNames::read(self.medium, &directory, &mut keep).map_err(at)?;
        for (path, why) in self.medium.take_skipped(&directory) {
            if self.rules.all_named {
                let why = std::io::Error::new(std::io::ErrorKind::InvalidData, why);
                return Err(StoreError::from_io("share", &path, None, why).into());
            }
            self.unreadable += 1;
            if self.unreadable <= MAX_NAMED {
                on_event(LibraryEvent::Skipped { path, why: SkipReason::CannotRead(why) });
            }
        }
        // It may have become one since it was found.
        if may_be_ours && ours::is_ours(self.medium, &directory)? {
            let why = ours::why_left_out(&directory);
            on_event(LibraryEvent::Skipped { path: directory, why });
            return Ok(());
        }
        self.rules.names.folder(&path, &names, on_event)?;
        self.frames.push(WalkFrame { names, next: 0, path });
        Ok(())
    }

    fn found(
        &mut self,
        listed: Vec<u8>,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<Option<WalkEntry>, WalkError> {
        let path = self.place(&listed);
        let at = |e| StoreError::from_io("look at", &path, None, e);
        let meta = self.medium.metadata(&path).map_err(at)?;
        if self.rules.exclude.matches(&listed, meta.kind == FileKind::Directory) {
            self.excluded += 1;
            if meta.kind == FileKind::Directory {
                self.left_out.insert(listed);
            }
            return Ok(None);
        }
        // An unreadable file is reported before it is hashed with others. The mode shows that most files need no
        // attempt.
        if !self.rules.strict && meta.kind == FileKind::File && meta.mode & 0o444 != 0o444 {
            self.medium
                .open(&path, OpenHow::ReadNoFollow)
                .map_err(|e| StoreError::from_io("open", &path, None, e))?;
        }
        let kind = match meta.kind {
            FileKind::File => match self.first_name(&meta, &listed) {
                Some(target) => FoundKind::HardLink { target },
                None => FoundKind::File(FileState::of(&meta)),
            },
            FileKind::Directory if ours::is_ours(self.medium, &path)? => {
                self.left_out.insert(listed);
                let why = ours::why_left_out(&path);
                on_event(LibraryEvent::Skipped { path, why });
                return Ok(None);
            }
            FileKind::Directory => FoundKind::Directory,
            FileKind::Symlink => {
                let target = self.medium.read_link(&path).map_err(at)?;
                FoundKind::Symlink { target: os_bytes(target.as_os_str()) }
            }
            FileKind::Other => {
                on_event(LibraryEvent::Skipped { path, why: SkipReason::NotAFile });
                return Ok(None);
            }
        };
        if self.rules.in_step
            && let Err(e) = listable(&listed, &kind)
        {
            let why = SkipReason::NotListed(format!("{}: {e}", path.display()));
            if kind == FoundKind::Directory {
                self.left_out.insert(listed);
            }
            on_event(LibraryEvent::Skipped { path, why });
            return Ok(None);
        }
        let as_it_is = (meta.mode & 0o777, meta.mtime);
        Ok(Some(WalkEntry { path: listed, kind, meta, listed: as_it_is }))
    }

    /// Returns the path under which a file with several names was found before.
    fn first_name(&mut self, meta: &Meta, listed: &[u8]) -> Option<Vec<u8>> {
        if meta.links < 2 || meta.ino == 0 {
            return None;
        }
        let room = self.first_bytes + listed.len() + FIRST_NAME <= MAX_FIRST_NAMES;
        match self.first_names.entry((meta.dev, meta.ino)) {
            MapEntry::Occupied(mut known) => {
                known.get_mut().left -= 1;
                if known.get().left > 0 {
                    return Some(known.get().path.clone());
                }
                let path = known.remove().path;
                self.first_bytes -= path.len() + FIRST_NAME;
                Some(path)
            }
            MapEntry::Vacant(place) if room => {
                self.first_bytes += listed.len() + FIRST_NAME;
                place.insert(FirstName { path: listed.to_vec(), left: meta.links - 1 });
                None
            }
            MapEntry::Vacant(_) => None,
        }
    }
}

/// Checks that a listing can contain the entry.
fn listable(path: &[u8], kind: &FoundKind) -> Result<(), PathError> {
    listing::check_path(path)?;
    match kind {
        FoundKind::Symlink { target } => listing::check_target(target),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use xylem_store::DiskMedium;

    use super::*;

    fn walk(root: &Path, on_event: &mut dyn FnMut(LibraryEvent)) -> Vec<WalkEntry> {
        let medium = DiskMedium::new();
        let mut walk = DirectoryWalk::new(&medium, root, WalkRules::all(), on_event).unwrap();
        std::iter::from_fn(|| walk.next(on_event).unwrap()).collect()
    }

    #[test]
    fn parents_come_before_children_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b/empty")).unwrap();
        fs::write(dir.path().join("a/b/file"), b"12345").unwrap();
        fs::write(dir.path().join("a-file"), b"").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
        let found = walk(dir.path(), &mut |_| {});
        let paths: Vec<_> =
            found.iter().map(|f| String::from_utf8(f.path.clone()).unwrap()).collect();
        assert_eq!(paths[..5], ["a", "a-file", "a/b", "a/b/empty", "a/b/file"]);
        assert!(matches!(found[4].kind, FoundKind::File(state) if state.size == 5));
        #[cfg(unix)]
        assert_eq!(found[5].kind, FoundKind::Symlink { target: b"a".to_vec() });
    }

    /// Names with bytes around the slash, which is part of the order of paths.
    #[test]
    fn paths_ascend_by_their_bytes() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["a", "a-", "a.d", "a/x", "a/x-", "a0", "b/c/d"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
            for name in ["+", "-", "0", "x-x", "~"] {
                fs::write(dir.path().join(folder).join(name), b"").unwrap();
            }
        }
        fs::write(dir.path().join(".y.xylem-part"), b"").unwrap();
        let mut skipped = 0;
        let found = walk(dir.path(), &mut |_| skipped += 1);
        assert_eq!((found.len(), skipped), (7 * 5 + 9, 1));
        assert!(found.is_sorted_by(|a, b| a.path < b.path));
    }

    #[cfg(unix)]
    #[test]
    fn further_names_of_a_file_become_hard_links() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("a")).unwrap();
        fs::write(at("a/file"), b"1").unwrap();
        fs::hard_link(at("a/file"), at("a/again")).unwrap();
        fs::hard_link(at("a/file"), at("b")).unwrap();
        // A file with its other name outside.
        let outside = tempfile::tempdir_in(dir.path().parent().unwrap()).unwrap();
        fs::write(at("c"), b"2").unwrap();
        fs::hard_link(at("c"), outside.path().join("c")).unwrap();
        let found = walk(dir.path(), &mut |_| {});
        let kinds: Vec<_> = found.iter().map(|f| (&f.path[..], &f.kind)).collect();
        let link = FoundKind::HardLink { target: b"a/again".to_vec() };
        assert!(matches!(kinds[1], (b"a/again", FoundKind::File(_))));
        assert_eq!(kinds[2], (&b"a/file"[..], &link));
        assert_eq!(kinds[3], (&b"b"[..], &link));
        assert!(matches!(kinds[4], (b"c", FoundKind::File(_))));
    }
}
