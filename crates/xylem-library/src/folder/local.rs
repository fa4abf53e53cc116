//! [`Folder`]: one member's folder on disk, and what is known of it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use xylem_hash::Hash;
use xylem_object::listing::EntryKind;
use xylem_store::{Part, Store, StoreError};
use xylem_tree::SegmentSize;

use super::index::{Index, IndexError, Item, ItemKind};
use super::merge::{Plan, merge};
use super::vector::{MemberId, Vector};
use crate::error::{Blame, Failure, advised, blame_of};
use crate::exclude::{ExcludeError, Exclusion};
use crate::listed::{ListedError, ListedFiles};
use crate::path::os_path;

/// What is ours in a folder: what is on its way, and the index as others fetch it. Never part of what is shared.
pub const OWN: &str = ".xylem-sync";
/// Lines that say what stays out of it, with the rules of .gitignore.
pub const IGNORE_FILE: &str = ".xylemignore";
/// Bytes of these lines at most.
const MAX_RULES: u64 = 32 * 1024;
/// What is known of the folder, among what is kept of the group.
const INDEX: &str = "index";
/// What is being put in its place.
const PENDING: &str = "pending";

/// Why a folder can't be kept in step.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The system's.
    #[error("{}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
    /// Its mark is gone: most likely another file system is, or is not, mounted there.
    #[error("{}: it has no {OWN} any more, and is not believed to be the same folder; mount it, or make {OWN} if it is", .0.display())]
    NotThere(PathBuf),
    /// What is known of it can't be read.
    #[error("{}: {why}", path.display())]
    Index {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: IndexError,
    },
    /// A line of the rules.
    #[error("{IGNORE_FILE}: {0}")]
    Rules(#[from] ExcludeError),
    /// More lines than are read.
    #[error("{IGNORE_FILE} has more than {MAX_RULES} bytes")]
    TooManyRules,
    /// Of the store.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// Of the listing of what was shared.
    #[error(transparent)]
    Listed(#[from] ListedError),
}

impl Failure for FolderError {
    fn blame(&self) -> Blame {
        match self {
            Self::Io { .. } | Self::NotThere(_) | Self::Index { .. } => Blame::Local,
            Self::Rules(_) | Self::TooManyRules => Blame::Usage,
            Self::Store(e) => blame_of(e),
            Self::Listed(e) => e.blame(),
        }
    }
}

/// The error of a path.
pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    move |source| FolderError::Io { path: path.to_path_buf(), source }
}

/// See the module's text.
pub struct Folder {
    pub(super) root: PathBuf,
    kept: PathBuf,
    pub(super) me: MemberId,
    pub(super) index: Index,
    /// What an earlier run was about to put in its place when it ended: found there, it is not a change of ours.
    pending: Index,
    rules: Exclusion,
}

impl Folder {
    /// The folder at `root`; what is known of it is kept in the directory `kept`. `me` is the member whose it is, and
    /// `name` what that is called.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn open(root: &Path, kept: &Path, me: MemberId, name: &str) -> Result<Self, FolderError> {
        let path = kept.join(INDEX);
        let mut index = match fs::read(&path) {
            Ok(bytes) => {
                let why = |why| FolderError::Index { path: path.clone(), why };
                Index::decode(&bytes).map_err(why)?.0
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Index::default(),
            Err(e) => return Err(at(&path)(e)),
        };
        let pending = fs::read(kept.join(PENDING)).ok();
        let pending = pending.and_then(|bytes| Some(Index::decode(&bytes).ok()?.0));
        let pending = pending.unwrap_or_default();
        let own = root.join(OWN);
        if index.items.is_empty() {
            fs::create_dir_all(&own).map_err(at(&own))?;
        }
        index.names.insert(me, name.to_owned());
        let rules = Exclusion::none();
        let (root, kept) = (root.to_path_buf(), kept.to_path_buf());
        let folder = Self { root, kept, me, index, pending, rules };
        folder.check_there()?;
        Ok(folder)
    }

    /// What was there when the index was made is not removed because something else is there now.
    ///
    /// # Errors
    /// [`FolderError::NotThere`].
    pub fn check_there(&self) -> Result<(), FolderError> {
        let own = self.root.join(OWN);
        match own.symlink_metadata() {
            Ok(meta) if meta.is_dir() => Ok(()),
            _ => Err(FolderError::NotThere(self.root.clone())),
        }
    }

    /// What is known of it.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// A name of our own in it.
    pub fn own(&self, name: &str) -> PathBuf {
        self.root.join(OWN).join(name)
    }

    /// Reads the rules anew: the lines that say what of the folder is not shared.
    ///
    /// # Errors
    /// They can't be read, or are none; those before stay in force.
    pub fn read_rules(&mut self) -> Result<Vec<String>, FolderError> {
        self.check_there()?;
        let path = self.root.join(IGNORE_FILE);
        let mut lines = Vec::new();
        match path.symlink_metadata() {
            Ok(meta) if meta.len() > MAX_RULES => return Err(FolderError::TooManyRules),
            Ok(meta) if meta.is_file() => {
                let text = fs::read_to_string(&path).map_err(at(&path))?;
                let is_rule = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
                lines.extend(text.lines().filter(is_rule).map(str::to_owned));
            }
            _ => {}
        }
        lines.push(format!("/{OWN}"));
        self.rules = Exclusion::new(&lines)?;
        Ok(lines)
    }

    /// Takes what was shared just now from `store`, under this root, as what the folder holds. Whether that is news to others.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn take_stock(
        &mut self,
        store: &Path,
        root: &Hash,
        now_ms: u64,
    ) -> Result<bool, FolderError> {
        self.check_there()?;
        let before = self.index.state();
        let store = Store::open(crate::disk(), store)?;
        let listing = store.object(root, Part::Listing)?;
        let mut there = BTreeMap::new();
        if let Some(file) = listing {
            let size = file.metadata()?.size;
            let listed = ListedFiles::open(file, size, root, SegmentSize::DEFAULT)?;
            for found in listed.entries() {
                let entry = found?.entry;
                let mode = entry.mode;
                let kind = match entry.kind {
                    EntryKind::File { size, root } => {
                        ItemKind::File { root, size, mode, mtime: (entry.mtime_s, entry.mtime_ns) }
                    }
                    EntryKind::Directory => ItemKind::Directory { mode },
                    EntryKind::Symlink { target } => ItemKind::Symlink { target },
                    // It stands before its other names.
                    EntryKind::HardLink { target } => match there.get(&target) {
                        Some(kind) => ItemKind::clone(kind),
                        None => continue,
                    },
                };
                there.insert(entry.path, kind);
            }
        }
        self.note_removed(&there, now_ms);
        for (path, kind) in there {
            let none = || Item {
                kind: ItemKind::Gone,
                version: Vector::default(),
                by: self.me,
                absent: false,
            };
            let pending = self.pending.items.get(&path).filter(|then| then.kind.is_same(&kind));
            let item = self.index.items.entry(path).or_insert_with(none);
            if item.kind.is_same(&kind) {
            } else if let Some(then) = pending {
                item.clone_from(then);
            } else {
                item.version.changed(self.me, now_ms);
                item.by = self.me;
            }
            (item.kind, item.absent) = (kind, false);
        }
        self.settle()?;
        Ok(self.index.state() != before)
    }

    /// What was there and is no more has been removed; unless it is left out, or can't be read.
    fn note_removed(&mut self, there: &BTreeMap<Vec<u8>, ItemKind>, now_ms: u64) {
        let missing = |(path, item): &(&Vec<u8>, &mut Item)| {
            !item.kind.is_gone() && !there.contains_key(path.as_slice())
        };
        for (path, item) in self.index.items.iter_mut().filter(missing) {
            let on_disk = self.root.join(os_path(path)).symlink_metadata();
            let removed = on_disk.as_ref().is_err_and(|e| {
                matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            });
            if !removed || self.rules.matches(path, item.kind.is_directory()) {
                item.absent = true;
            } else if let Some(then) = self.pending.items.get(path).filter(|p| p.kind.is_gone()) {
                item.clone_from(then);
            } else {
                item.version.changed(self.me, now_ms);
                (item.kind, item.by, item.absent) = (ItemKind::Gone, self.me, false);
            }
        }
    }

    /// What is to be done for another member's index.
    pub fn plan(&mut self, theirs: &Index) -> Plan {
        for (member, name) in &theirs.names {
            if *member != self.me {
                self.index.names.entry(*member).or_insert_with(|| name.clone());
            }
        }
        let rules = &self.rules;
        merge(&self.index, theirs, &|path, is_directory| rules.matches(path, is_directory))
    }

    fn save(&self) -> Result<(), FolderError> {
        replace(&self.kept.join(INDEX), &self.index.encode(b"", true))
    }

    /// Notes what is about to be put in its place.
    pub(super) fn begin<'a>(
        &self,
        all: impl Iterator<Item = (&'a Vec<u8>, &'a Item)>,
    ) -> Result<(), FolderError> {
        let items = all.map(|(path, item)| (path.clone(), item.clone())).collect();
        let pending = Index { items, names: BTreeMap::new() };
        replace(&self.kept.join(PENDING), &pending.encode(b"", true))
    }

    /// Writes down what is known; nothing is under way any more.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn settle(&mut self) -> Result<(), FolderError> {
        self.save()?;
        self.pending = Index::default();
        match fs::remove_file(self.kept.join(PENDING)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(at(&self.kept)(e)),
            _ => Ok(()),
        }
    }

    /// Writes the index for others, who are told where the content is; gives its path.
    ///
    /// # Errors
    /// The system's.
    pub fn tell(&self, content: &[u8]) -> Result<PathBuf, FolderError> {
        let path = self.own(INDEX);
        replace(&path, &self.index.encode(content, false))?;
        Ok(path)
    }
}

/// A file that is the old or the new one at every moment.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    let new = path.with_extension("new");
    fs::write(&new, bytes).map_err(at(&new))?;
    fs::rename(&new, path).map_err(at(path))
}
