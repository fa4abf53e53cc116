//! [`Folder`]: one member's folder on disk, and what is known of it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use xylem_hash::Hash;
use xylem_object::listing::{Entry, EntryKind};
use xylem_store::{Part, Seen, Store};
use xylem_tree::SegmentSize;

use super::error::{FolderError, at};
use super::heard::MAX_MEMBERS;
use super::index::{Index, IndexError, Item, ItemKind, Names, State};
use super::merge::{Plan, merge};
use super::obstacles::{ObstacleKind, Obstacles};
use super::own_files::replace;
use super::pacing::{Looks, MAX_FOLLOWED, Pacing, looks};
use super::place::{Habits, within};
use super::rules::{FolderRules, RulesNews};
use super::stored::{Entries, Paths, Stored, Writer, newest};
use super::trash::Trash;
use super::vector::MemberId;
use crate::keys;
use crate::listed::ListedFiles;
use crate::ours::OWN;
use crate::path::os_path;

/// What is known of the folder, among what is kept of the group.
const INDEX: &str = "index";
/// Indexes that others may be at.
const TOLD: u64 = 3;
/// Which folder it is: the same bytes among what is ours in it and among what is kept of the group. Of a folder without them what is
/// missing was not removed.
const MARKER: &str = "id";
/// Paths that are remembered as changed for others at most: what changes more is looked at first.
const MAX_TOUCHED: usize = 10_000;
/// Members whose names are known at most: twice as many as a group has, of those who have ever changed something.
const MAX_NAMES: usize = 2 * MAX_MEMBERS;
/// What is being put in its place.
const PENDING: &str = "pending";

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
    rules: FolderRules,
    pacing: Pacing,
    /// What is missing is fetched again: it is not known that somebody removed it.
    again: bool,
    /// Something that others have was passed over until now.
    uncovered: bool,
    /// As [`Folder::state`], where what is held is as it was.
    state_as_held: Hash,
    /// What others replaced or removed.
    pub(super) trash: Trash,
    /// How often the index was written for others.
    told: u64,
    /// Single files that can't be brought in step now; all else goes on.
    pub obstacles: Obstacles,
    /// What its disk does with names and permissions.
    pub(super) habits: Habits,
    /// Paths at which something else was found than what was to be there, when they were last tried.
    pub(super) unsettled: HashSet<Vec<u8>>,
    /// What the last look found.
    pub(super) looked: Looked,
}

/// The last look at a folder: how its files looked then, their change times too, is noted beside what was shared of it.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// The store, and the root of the folder; `None`: nothing is known of how files looked.
    of: Option<(PathBuf, Hash)>,
    /// Paths that were changed since for other members.
    touched: HashSet<Vec<u8>>,
    /// How the files of a plan looked, while that is done.
    plan: HashMap<Vec<u8>, Seen>,
}

impl Looked {
    fn begin(&mut self, store: &Path, root: &Hash) {
        self.of = Some((store.to_path_buf(), *root));
        self.touched.clear();
    }

    /// This path was changed for another member.
    pub(super) fn touch(&mut self, path: &[u8]) {
        if self.of.is_none() {
            return;
        }
        if self.touched.len() >= MAX_TOUCHED {
            self.of = None;
            self.touched.clear();
            return;
        }
        self.touched.insert(path.to_vec());
    }

    /// Finds out how the files at these paths looked.
    pub(super) fn plan<'a>(&mut self, folder: &Path, files: impl Iterator<Item = &'a Vec<u8>>) {
        self.plan.clear();
        let Some((store, root)) = &self.of else { return };
        let untouched = files.filter(|path| !self.touched.contains(*path));
        let wanted: BTreeSet<&[u8]> = untouched.map(Vec::as_slice).collect();
        if let (false, Ok(store)) = (wanted.is_empty(), Store::open(crate::disk(), store)) {
            self.plan = crate::publish::before::looks(&store, folder, root, &wanted);
        }
    }

    /// Whether a file has the change time that the look noted. Size and modification time may be the same after a write; no program can set
    /// the change time.
    pub(super) fn is_untouched(&self, path: &[u8], at: &Path) -> bool {
        let seen = self.plan.get(path).filter(|_| !self.touched.contains(path));
        seen.is_none_or(|seen| {
            crate::disk().metadata(at).map_or(true, |meta| meta.ctime == seen.ctime)
        })
    }
}

impl Folder {
    /// The folder at `root`; what is known of it is kept in the directory `kept`. `me` is the member whose it is, and
    /// `name` what that is called.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn open(root: &Path, kept: &Path, me: MemberId, name: &str) -> Result<Self, FolderError> {
        let stored = known(root, kept)?;
        let pending = pending(&kept.join(PENDING))?;
        let own = root.join(OWN);
        if stored.is_empty() {
            fs::create_dir_all(&own).map_err(at(&own))?;
            mark(&own, kept)?;
        }
        let mut names = stored.names().clone();
        names.insert(me, name.to_owned());
        let (rules, changes) = (FolderRules::of(root, kept), BTreeMap::new());
        let state_as_held = stored.state();
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
            pacing: Pacing::default(),
            again: false,
            uncovered: false,
            state_as_held,
            trash,
            told: 0,
            obstacles: Obstacles::default(),
            habits: Habits::default(),
            unsettled: HashSet::new(),
            looked: Looked::default(),
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

    /// Reads the rules anew: what of the folder is not shared. What is [ours](OWN) in it, or in one below, never is, and needs no
    /// line; nor are the rules.
    ///
    /// # Errors
    /// The folder is not there; or they are not right, and none were ever in force.
    pub fn read_rules(&mut self) -> Result<RulesNews, FolderError> {
        self.check_there()?;
        let (pending, changes, stored) = (&self.pending.items, &self.changes, &self.stored);
        let known = |path: &[u8]| -> Result<Option<Item>, FolderError> {
            if let Some(item) = pending.get(path).or_else(|| changes.get(path)) {
                return Ok(Some(item.clone()));
            }
            for entry in stored.entries()? {
                let (at, item) = entry?;
                if at.as_slice() >= path {
                    return Ok((at == path).then_some(item));
                }
            }
            Ok(None)
        };
        let news = self.rules.read(&known, &self.me)?;
        self.uncovered |= news.changed;
        Ok(news)
    }

    /// The lines of the rules in force; `None`: none were read.
    pub fn rules(&self) -> Option<&[String]> {
        self.rules.lines()
    }

    /// Whether what stands at a path below the folder is none of it, or is not to be sent before [`Folder::held_until`]: a change
    /// there needs no look.
    pub fn passes_over(&self, path: &[u8]) -> bool {
        let is_directory = || self.root.join(os_path(path)).is_dir();
        !self.rules.are_in(path)
            && (self.pacing.is_held(path) || self.rules.leaves_out(path, is_directory()))
    }

    /// Files that keep changing and are not to be sent now; each is noted as an obstacle. It stays noted until the next look is over.
    pub fn hold(&mut self, now_ms: u64) -> Arc<BTreeSet<Vec<u8>>> {
        let root = &self.root;
        let before = self.pacing.held().clone();
        let held = self.pacing.hold(&|path| look(&root.join(os_path(path))), now_ms);
        for path in held.difference(&before) {
            let why = "it keeps changing, and is sent from time to time";
            self.obstacles.note(path, ObstacleKind::Busy, why.to_owned(), now_ms);
        }
        held
    }

    /// When the first file that is held is to be looked at again, in milliseconds since 1970.
    pub fn held_until(&self) -> Option<u64> {
        self.pacing.due_ms()
    }

    /// A file was changed while it was read: it is held as one that was sent again and again.
    pub fn is_unstable(&mut self, path: &[u8], why: String, now_ms: u64) {
        if let Some(looks) = look(&self.root.join(os_path(path))) {
            self.pacing.unstable(path, looks, now_ms);
            self.obstacles.note(path, ObstacleKind::Busy, why, now_ms);
        }
    }

    /// Whether something that others have, and that was passed over until now, is to be taken over; asked once it is not any more.
    pub fn takes_uncovered(&mut self) -> bool {
        std::mem::take(&mut self.uncovered)
    }

    /// As [`Folder::state`] after the last look, where files that are [held](Folder::hold) are as they were: what others have to hear of has
    /// another one.
    pub fn state_as_held(&self) -> Hash {
        self.state_as_held
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
        self.looked.begin(store, root);
        self.habits.forget();
        if !self.changes.is_empty() {
            // The disk was full, say, when they were to be written.
            self.write_changes()?;
        }
        self.again = !is_marked(&self.root.join(OWN), &self.kept);
        let store = Store::open(crate::disk(), store)?;
        let mut stock = Stock::begin(&self.kept.join(INDEX), about, self)?;
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
                self.pass_to(&mut known, Some(&path), &mut stock, now_ms)?;
                let then = known.next_if(|next| matches!(next, Ok((then, _)) if *then == path));
                let then = then.transpose()?.map(|(_, item)| item);
                stock.uncovered |= then.as_ref().is_some_and(|then| then.absent);
                let (item, is_new) = self.now(&path, then, kind, now_ms);
                stock.push(&path, &item)?;
                if is_new && stock.sent.len() < MAX_FOLLOWED {
                    stock.sent.push(path);
                }
            }
        }
        self.pass_to(&mut known, None, &mut stock, now_ms)?;
        drop(known);
        self.uncovered |= stock.uncovered;
        self.state_as_held = stock.state.finish();
        self.stored = stock.writer.finish_after(Some(&self.stored))?;
        for path in stock.sent {
            if let Some(looks) = look(&self.root.join(os_path(&path))) {
                self.pacing.sent(&path, looks, now_ms);
            }
        }
        if std::mem::take(&mut self.again) {
            mark(&self.root.join(OWN), &self.kept)?;
        }
        self.nothing_under_way()
    }

    /// Passes over what is known and not there up to a path.
    fn pass_to(
        &self,
        known: &mut Peekable<Entries<'_>>,
        path: Option<&[u8]>,
        stock: &mut Stock,
        now_ms: u64,
    ) -> Result<(), FolderError> {
        let before = |next: &Result<(Vec<u8>, Item), FolderError>| {
            next.as_ref().map_or(true, |(then, _)| path.is_none_or(|path| then.as_slice() < path))
        };
        while let Some(next) = known.next_if(before) {
            let (path, item) = next?;
            if item.kind.is_gone() {
                stock.push(&path, &item)?;
            } else if self.pacing.is_held(&path) {
                stock.hold(&path, item)?;
            } else if let Some(item) = self.missing(&path, item, now_ms) {
                stock.push(&path, &item)?;
            } else {
                // It is as if it had never been known, so that others bring it.
                stock.uncovered = true;
            }
        }
        Ok(())
    }

    /// What is known of a path at which there is this now, and whether this member has changed it.
    fn now(&self, path: &[u8], then: Option<Item>, kind: ItemKind, now_ms: u64) -> (Item, bool) {
        let mut item = then.unwrap_or_else(Item::none);
        let keeps_modes = self.habits.keeps_modes(&self.own(""));
        let as_kept = |then: &ItemKind| match keeps_modes {
            true => kind.clone(),
            false => kind.clone().with_mode_of(then),
        };
        if item.kind.shows_as(&as_kept(&item.kind)) {
            return (Item { absent: false, ..item }, false);
        }
        let pending = self.pending.items.get(path);
        if let Some(then) = pending.filter(|then| then.kind.shows_as(&as_kept(&then.kind))) {
            return (Item { absent: false, ..then.clone() }, false);
        }
        let edited_ms = self.edited(path, &kind).unwrap_or(now_ms);
        let kind = as_kept(&item.kind);
        item.changed(kind, self.me, edited_ms, now_ms);
        (item, true)
    }

    /// When what is at a path was written, in milliseconds since 1970, where that can be told.
    fn edited(&self, path: &[u8], kind: &ItemKind) -> Option<u64> {
        let (secs, nanos) = match kind {
            ItemKind::File { mtime, .. } => *mtime,
            ItemKind::Symlink { .. } => {
                let meta = within(&self.root, path, false).ok()?.symlink_metadata().ok()?;
                let since = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
                return u64::try_from(since.as_millis()).ok();
            }
            ItemKind::Directory { .. } | ItemKind::Gone => return None,
        };
        let ms = u64::try_from(secs).unwrap_or(0).saturating_mul(1_000);
        Some(ms.saturating_add(u64::from(nanos / 1_000_000)))
    }

    /// What was there and is no more has been removed; unless it is left out, or can't be read. `None`: it is missing, and nobody
    /// has removed it as far as is known.
    fn missing(&self, path: &[u8], mut item: Item, now_ms: u64) -> Option<Item> {
        // Each step on the way is looked at: what a link leads to is not what was there.
        let on_disk = within(&self.root, path, false).and_then(|at| at.symlink_metadata());
        let removed = match on_disk {
            // Where a disk does not keep names apart it may be another one.
            Ok(_) => self.habits.keeps_apart(&self.own(""), &self.root, path).is_err(),
            Err(e) => matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        };
        if !removed || self.rules.leaves_out(path, item.kind.is_directory()) {
            return Some(Item { absent: true, ..item });
        }
        if let Some(then) = self.pending.items.get(path).filter(|then| then.kind.is_gone()) {
            return Some(then.clone());
        }
        // What was left out may have gone then; that was no removal for others.
        if self.again || (item.absent && !self.was_in_the_way(path)) {
            return None;
        }
        item.changed(ItemKind::Gone, self.me, now_ms, now_ms);
        Some(item)
    }

    /// Whether a path was not there at the last look as it, or a directory above it, kept changing or could not be read: then it has
    /// been part of the folder all the time.
    fn was_in_the_way(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        ends.chain([path.len()]).any(|end| {
            let obstacle = self.obstacles.get(path.get(..end).unwrap_or(path));
            obstacle.is_some_and(|o| {
                matches!(o.kind, ObstacleKind::Busy | ObstacleKind::Unreadable | ObstacleKind::Name)
            })
        })
    }

    /// What is to be done for another member's index.
    ///
    /// # Errors
    /// It, or what is known here, can't be read.
    pub fn plan(&mut self, theirs: &dyn Paths) -> Result<Plan, FolderError> {
        learn_names(&mut self.names, self.me, theirs.names());
        let rules = &self.rules;
        merge(&self.stored, theirs, &|path, is_directory| rules.leaves_out(path, is_directory))
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
        let all: BTreeMap<&Vec<u8>, &Item> = all.collect();
        if all.is_empty() {
            return Ok(());
        }
        let mut writer = Writer::new(&self.kept.join(PENDING), b"", &Names::new())?;
        for (path, item) in all {
            writer.push(path, item)?;
        }
        writer.finish().map(drop)
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
        self.stored = writer.finish_after(Some(&self.stored))?;
        // What another member has sent is not what keeps changing here.
        self.changes.keys().for_each(|path| self.pacing.forget(path));
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

/// What a folder holds, while that is written down.
struct Stock {
    writer: Writer,
    /// A hash of it, where what is held is as it was.
    state: State,
    /// What this member has changed.
    sent: Vec<Vec<u8>>,
    /// Something is part of it again.
    uncovered: bool,
}

impl Stock {
    fn begin(path: &Path, about: &[u8], of: &Folder) -> Result<Self, FolderError> {
        let writer = Writer::new(path, about, &of.names)?;
        Ok(Self { writer, state: State::default(), sent: Vec::new(), uncovered: false })
    }

    fn push(&mut self, path: &[u8], item: &Item) -> Result<(), FolderError> {
        self.state.add(path, item);
        self.writer.push(path, item)
    }

    /// What is not to be sent now is as if it were not here, so that others keep what they have.
    fn hold(&mut self, path: &[u8], item: Item) -> Result<(), FolderError> {
        self.state.add(path, &Item { absent: false, ..item.clone() });
        self.writer.push(path, &Item { absent: true, ..item })
    }
}

/// How the file at a path looks; `None`: there is none.
fn look(path: &Path) -> Option<Looks> {
    looks(&crate::disk().metadata(path).ok()?)
}

/// Marks the folder as the one that is known.
fn mark(own: &Path, kept: &Path) -> Result<(), FolderError> {
    let id = keys::random::<32>().map_err(|e| at(own)(io::Error::other(e.to_string())))?;
    // Where only one of the two is there, what is missing is fetched again.
    [kept, own].iter().try_for_each(|dir| replace(&dir.join(MARKER), crate::hex(&id).as_bytes()))
}

fn is_marked(own: &Path, kept: &Path) -> bool {
    let id = |dir: &Path| fs::read(dir.join(MARKER)).ok().filter(|id| id.len() == 64);
    id(own).is_some_and(|is| id(kept) == Some(is))
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

/// What an earlier run was about to put in its place. What was damaged since is as if that run had put nothing there: then what it
/// has put is a change of ours, with the content that others have.
fn pending(path: &Path) -> Result<Index, FolderError> {
    let items = Stored::open(path).and_then(|stored| stored.entries()?.collect());
    match items {
        Ok(items) => Ok(Index { items, names: Names::new() }),
        Err(FolderError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(Index::default())
        }
        Err(FolderError::Index { .. }) => Ok(Index::default()),
        Err(e) => Err(e),
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

/// Takes what another member calls others. Made-up ones do not fill memory: where there is no room for more, those stay that it
/// names as well, and whoever has none is called by its key.
fn learn_names(names: &mut Names, me: MemberId, theirs: &Names) {
    let is_new = |id: &MemberId| *id != me && !names.contains_key(id);
    let more = theirs.keys().filter(|id| is_new(id)).count();
    if names.len() + more > MAX_NAMES {
        names.retain(|id, _| *id == me || theirs.contains_key(id));
    }
    for (member, name) in theirs.iter().filter(|(id, _)| **id != me) {
        if names.len() < MAX_NAMES {
            names.entry(*member).or_insert_with(|| name.clone());
        }
    }
}

#[cfg(test)]
mod names_tests {
    use super::*;

    #[test]
    fn made_up_names_fill_nothing() {
        let id = |n: usize| -> MemberId { n.to_be_bytes() };
        let named = |range: std::ops::Range<usize>| -> Names {
            range.map(|n| (id(n), format!("member-{n}"))).collect()
        };
        let mut names = named(0..3);
        for n in 1..20 {
            learn_names(&mut names, id(0), &named(n * 1_000..n * 1_000 + 700));
            assert!(names.len() <= MAX_NAMES && names.contains_key(&id(0)));
        }
        // Whoever is a member is called by its name as soon as anybody says it.
        learn_names(&mut names, id(0), &named(0..3));
        assert!(names.contains_key(&id(1)) && names.contains_key(&id(2)));
        assert!(names.len() <= MAX_NAMES);
    }
}

#[cfg(all(test, unix))]
mod tests;
