//! [`Folder`]: one member's folder on disk, and what is known of it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Read};
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use xylem_hash::Hash;
use xylem_object::listing::{Entry, EntryKind};
use xylem_store::{Part, Store, StoreError};
use xylem_tree::SegmentSize;

use super::index::{Index, IndexError, Item, ItemKind, Names};
use super::merge::{Plan, merge};
use super::obstacles::Obstacles;
use super::stored::{Entries, Paths, Stored, Writer, newest};
use super::trash::Trash;
use super::vector::{MemberId, Vector};
use crate::error::{Blame, Failure, advised, blame_of};
use crate::exclude::{ExcludeError, Exclusion, RulesError, read_rules};
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
/// Indexes that others may be at.
const TOLD: u64 = 3;
/// Rules that were understood last.
const RULES: &str = "rules";
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
    /// The log of what this member has said is not what was written.
    #[error("{}: the log of what this member has said is damaged, or an older one; nothing is said, since others would take it for \
             another history. Bring the file back, or remove its folder and join again", .0.display())]
    BadLog(PathBuf),
    /// A line of the rules is none.
    #[error("{}, {why}", path.display())]
    Rules {
        /// Which file.
        path: PathBuf,
        /// Which line, and what is wrong with it.
        why: RulesError,
    },
    /// A directory or a pipe stands where the rules would, or a link to one.
    #[error("{}: rules have to be in a file, and this is none", .0.display())]
    NoRulesFile(PathBuf),
    /// Of the rules all together.
    #[error("{IGNORE_FILE}: {0}")]
    Exclude(#[from] ExcludeError),
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
            Self::Io { .. } | Self::NotThere(_) | Self::Index { .. } | Self::BadLog(_) => {
                Blame::Local
            }
            Self::Rules { .. } | Self::NoRulesFile(_) | Self::Exclude(_) | Self::TooManyRules => {
                Blame::Usage
            }
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
    pub(super) names: Names,
    /// What is known of it, in order on disk,
    pub(super) stored: Stored,
    /// and what is not written there yet.
    pub(super) changes: BTreeMap<Vec<u8>, Item>,
    /// What an earlier run was about to put in its place when it ended: found there, it is not a change of ours.
    pending: Index,
    rules: Exclusion,
    /// What others replaced or removed.
    pub(super) trash: Trash,
    /// How often the index was written for others.
    told: u64,
    /// Single files that can't be brought in step now; all else goes on.
    pub obstacles: Obstacles,
}

impl Folder {
    /// The folder at `root`; what is known of it is kept in the directory `kept`. `me` is the member whose it is, and
    /// `name` what that is called.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn open(root: &Path, kept: &Path, me: MemberId, name: &str) -> Result<Self, FolderError> {
        let stored = known(root, kept)?;
        let pending = fs::read(kept.join(PENDING)).ok();
        let pending = pending.and_then(|bytes| Some(Index::decode(&bytes).ok()?.0));
        let pending = pending.unwrap_or_default();
        let own = root.join(OWN);
        if stored.is_empty() {
            fs::create_dir_all(&own).map_err(at(&own))?;
        }
        let mut names = stored.names().clone();
        names.insert(me, name.to_owned());
        let (rules, changes) = (Exclusion::none(), BTreeMap::new());
        let (root, kept) = (root.to_path_buf(), kept.to_path_buf());
        let trash = Trash::none(&own);
        let folder = Self {
            root,
            kept,
            me,
            names,
            stored,
            changes,
            pending,
            rules,
            trash,
            told: 0,
            obstacles: Obstacles::default(),
        };
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

    /// A hash of what it holds in which versions; see [`Index::state`].
    pub fn state(&self) -> Hash {
        self.stored.state()
    }

    /// A name of our own in it.
    pub fn own(&self, name: &str) -> PathBuf {
        self.root.join(OWN).join(name)
    }

    /// Reads the rules anew: the lines that say what of the folder is not shared. What is [ours](OWN) in it, or in one
    /// below, never is, and needs no line.
    ///
    /// # Errors
    /// They can't be read, or are none; those before stay in force.
    pub fn read_rules(&mut self) -> Result<Vec<String>, FolderError> {
        self.check_there()?;
        let path = self.root.join(IGNORE_FILE);
        let lines = match rules_file(&path)? {
            Some(text) => read_rules(&text).map_err(|why| FolderError::Rules { path, why })?,
            None => Vec::new(),
        };
        self.rules = exclusion(&lines)?;
        let (kept, text) = (self.kept.join(RULES), lines.join("\n"));
        if fs::read(&kept).ok().is_none_or(|before| before != text.as_bytes()) {
            replace(&kept, text.as_bytes())?;
        }
        Ok(lines)
    }

    /// Goes on with the rules that were read last, in an earlier run, so that others can bring better ones; `None`: none were.
    ///
    /// # Errors
    /// [`FolderError::Exclude`].
    pub fn rules_before(&mut self) -> Result<Option<Vec<String>>, FolderError> {
        let text = fs::read(self.kept.join(RULES)).ok();
        let Some(lines) = text.and_then(|text| read_rules(&text).ok()) else { return Ok(None) };
        self.rules = exclusion(&lines)?;
        Ok(Some(lines))
    }

    /// Takes what was shared just now from `store`, under this root, as what the folder holds; `about` is what others are told
    /// of where it is.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn take_stock(
        &mut self,
        store: &Path,
        root: &Hash,
        about: &[u8],
        now_ms: u64,
    ) -> Result<(), FolderError> {
        self.check_there()?;
        if !self.changes.is_empty() {
            // The disk was full, say, when they were to be written.
            self.write_changes()?;
        }
        let store = Store::open(crate::disk(), store)?;
        let mut writer = Writer::new(&self.kept.join(INDEX), about, &self.names)?;
        let mut known = self.stored.entries()?.peekable();
        if let Some(file) = store.object(root, Part::Listing)? {
            let size = file.metadata()?.size;
            let listed = ListedFiles::open(file, size, root, SegmentSize::DEFAULT)?;
            let mut files = listed.clone();
            for found in listed.entries() {
                let mut entry = found?.entry;
                let path = std::mem::take(&mut entry.path);
                if let EntryKind::HardLink { target } = &entry.kind {
                    // The file stands before its other names.
                    let Some(first) = files.find(target)? else { continue };
                    entry.clone_from(&first.entry);
                }
                let Some(kind) = kind(entry) else { continue };
                self.pass_to(&mut known, Some(&path), &mut writer, now_ms)?;
                let then = known.next_if(|next| matches!(next, Ok((then, _)) if *then == path));
                let then = then.transpose()?.map(|(_, item)| item);
                writer.push(&path, &self.now(&path, then, kind, now_ms))?;
            }
        }
        self.pass_to(&mut known, None, &mut writer, now_ms)?;
        drop(known);
        self.stored = writer.finish()?;
        self.nothing_under_way()
    }

    /// Passes over what is known and not there up to a path.
    fn pass_to(
        &self,
        known: &mut Peekable<Entries<'_>>,
        path: Option<&[u8]>,
        writer: &mut Writer,
        now_ms: u64,
    ) -> Result<(), FolderError> {
        let before = |next: &Result<(Vec<u8>, Item), FolderError>| {
            next.as_ref().map_or(true, |(then, _)| path.is_none_or(|path| then.as_slice() < path))
        };
        while let Some(next) = known.next_if(before) {
            let (path, item) = next?;
            let item = if item.kind.is_gone() { item } else { self.missing(&path, item, now_ms) };
            writer.push(&path, &item)?;
        }
        Ok(())
    }

    /// What is known of a path at which there is this now.
    fn now(&self, path: &[u8], then: Option<Item>, kind: ItemKind, now_ms: u64) -> Item {
        let none = || Item {
            kind: ItemKind::Gone,
            version: Vector::default(),
            by: self.me,
            absent: false,
        };
        let mut item = then.unwrap_or_else(none);
        let pending = self.pending.items.get(path).filter(|then| then.kind.is_same(&kind));
        if item.kind.is_same(&kind) {
        } else if let Some(then) = pending {
            item.clone_from(then);
        } else {
            item.version.changed(self.me, now_ms);
            item.by = self.me;
        }
        Item { kind, absent: false, ..item }
    }

    /// What was there and is no more has been removed; unless it is left out, or can't be read.
    fn missing(&self, path: &[u8], mut item: Item, now_ms: u64) -> Item {
        let on_disk = self.root.join(os_path(path)).symlink_metadata();
        let removed = on_disk.as_ref().is_err_and(|e| {
            matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        });
        if !removed || self.rules.matches(path, item.kind.is_directory()) {
            return Item { absent: true, ..item };
        }
        if let Some(then) = self.pending.items.get(path).filter(|then| then.kind.is_gone()) {
            return then.clone();
        }
        item.version.changed(self.me, now_ms);
        Item { kind: ItemKind::Gone, by: self.me, absent: false, ..item }
    }

    /// What is to be done for another member's index.
    ///
    /// # Errors
    /// It, or what is known here, can't be read.
    pub fn plan(&mut self, theirs: &dyn Paths) -> Result<Plan, FolderError> {
        for (member, name) in theirs.names() {
            if *member != self.me {
                self.names.entry(*member).or_insert_with(|| name.clone());
            }
        }
        let rules = &self.rules;
        merge(&self.stored, theirs, &|path, is_directory| rules.matches(path, is_directory))
    }

    /// Where files with contents that are `wanted` lie in it already, as far as known.
    ///
    /// # Errors
    /// What is known can't be read.
    pub fn copies(
        &self,
        wanted: &HashMap<Hash, Vec<u8>>,
    ) -> Result<HashMap<Hash, PathBuf>, FolderError> {
        let mut copies = HashMap::new();
        for entry in self.stored.entries()? {
            let (path, item) = entry?;
            if let ItemKind::File { root, .. } = item.kind
                && !item.absent
                && wanted.contains_key(&root)
            {
                copies.entry(root).or_insert_with(|| self.root.join(os_path(&path)));
            }
        }
        Ok(copies)
    }

    /// Notes what is about to be put in its place.
    pub(super) fn begin<'a>(
        &self,
        all: impl Iterator<Item = (&'a Vec<u8>, &'a Item)>,
    ) -> Result<(), FolderError> {
        let items = all.map(|(path, item)| (path.clone(), item.clone())).collect();
        let pending = Index { items, names: Names::new() };
        replace(&self.kept.join(PENDING), &pending.encode(b""))
    }

    /// Writes down what is known; nothing is under way any more.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn settle(&mut self) -> Result<(), FolderError> {
        self.write_changes()?;
        self.nothing_under_way()
    }

    fn write_changes(&mut self) -> Result<(), FolderError> {
        let mut writer = Writer::new(&self.kept.join(INDEX), &self.stored.about, &self.names)?;
        let mut changes = self.changes.iter().peekable();
        for entry in self.stored.entries()? {
            let (path, item) = entry?;
            while let Some((new, item)) = changes.next_if(|(new, _)| **new < path) {
                writer.push(new, item)?;
            }
            let changed = changes.next_if(|(new, _)| **new == path);
            writer.push(&path, changed.map_or(&item, |(_, item)| item))?;
        }
        for (path, item) in changes {
            writer.push(path, item)?;
        }
        self.stored = writer.finish()?;
        self.changes.clear();
        Ok(())
    }

    fn nothing_under_way(&mut self) -> Result<(), FolderError> {
        self.pending = Index::default();
        match fs::remove_file(self.kept.join(PENDING)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(at(&self.kept)(e)),
            _ => Ok(()),
        }
    }

    /// Copies the index to where others fetch it; gives its path. The two that were told before stay, since others may be
    /// at them.
    ///
    /// # Errors
    /// The system's.
    pub fn tell(&mut self) -> Result<PathBuf, FolderError> {
        let path = self.own(&told(self.told));
        self.told += 1;
        self.stored.copy(&path)?;
        Ok(path)
    }
}

/// What these lines leave out, and what is ours in whatever case: there are file systems to which that is the same, and it is not
/// taken over from anybody.
fn exclusion(lines: &[String]) -> Result<Exclusion, ExcludeError> {
    let either = |c: char| match c.to_ascii_uppercase() {
        upper if upper == c => c.to_string(),
        upper => format!("[{c}{upper}]"),
    };
    let own: String = OWN.chars().map(either).collect();
    let own = [format!("{own}/"), format!("/{own}")];
    Exclusion::new(&[lines, &own].concat())
}

/// What stands in the file of rules; `None`: there is none. What is there and is no file, or can't be read, is not taken for none:
/// what the rules leave out would go to everybody.
fn rules_file(path: &Path) -> Result<Option<Vec<u8>>, FolderError> {
    match path.symlink_metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        _ => {}
    }
    // A link to a file is read, as whoever made it expects; one to nowhere is an error.
    if !fs::metadata(path).map_err(at(path))?.is_file() {
        return Err(FolderError::NoRulesFile(path.to_path_buf()));
    }
    let mut text = Vec::new();
    let file = fs::File::open(path).map_err(at(path))?;
    file.take(MAX_RULES + 1).read_to_end(&mut text).map_err(at(path))?;
    if text.len() as u64 > MAX_RULES {
        return Err(FolderError::TooManyRules);
    }
    Ok(Some(text))
}

/// The name of an index that others fetch.
fn told(number: u64) -> String {
    format!("{INDEX}-{}", number % TOLD)
}

/// What is known of the folder `root`. Where that was damaged it is taken from the newest copy that others were told: it has the
/// same versions, and without them whatever anybody changes next would be a conflict.
fn known(root: &Path, kept: &Path) -> Result<Stored, FolderError> {
    let path = kept.join(INDEX);
    match Stored::open(&path) {
        Err(FolderError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Writer::new(&path, b"", &Names::new())?.finish()
        }
        Err(e @ FolderError::Index { why: IndexError::Old, .. }) => Err(e),
        Err(e @ FolderError::Index { .. }) => {
            let copies = (0..TOLD).map(|number| root.join(OWN).join(told(number)));
            newest(copies).ok_or(e)?.copy(&path)?;
            Stored::open(&path)
        }
        known => known,
    }
}

/// What an entry of a listing that is no hard link is.
fn kind(entry: Entry) -> Option<ItemKind> {
    let mode = entry.mode;
    Some(match entry.kind {
        EntryKind::File { size, root } => {
            ItemKind::File { root, size, mode, mtime: (entry.mtime_s, entry.mtime_ns) }
        }
        EntryKind::Directory => ItemKind::Directory { mode },
        EntryKind::Symlink { target } => ItemKind::Symlink { target },
        EntryKind::HardLink { .. } => return None,
    })
}

/// A file that is the old or the new one at every moment.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    let new = path.with_extension("new");
    fs::write(&new, bytes).map_err(at(&new))?;
    fs::rename(&new, path).map_err(at(path))
}
