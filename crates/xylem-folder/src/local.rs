//! [`SyncFolder`]: one member's folder on disk, and its stored index.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xylem_base::{FileMedium, os_path};
use xylem_files::ListedFiles;
use xylem_files::ours::OWN;
use xylem_hash::Hash;
use xylem_object::listing::{Entry, EntryKind};
use xylem_store::{DiskAttributes, Medium, ObjectPart, Store, StoreError};
use xylem_tree::SegmentSize;

use super::attributes::{AttributeScan, SeenAttributes};
use super::error::{FolderError, at};
use super::heard::MAX_MEMBERS;
use super::index::{Index, IndexError, IndexItem, ItemKind, Names, StateHasher};
use super::merge::{Plan, merge};
use super::obstacles::{ObstacleKind, Obstacles};
use super::own_files::OwnFiles;
use super::pacing::{FileLooks, MAX_FOLLOWED, Pacing, file_looks};
use super::place::{DiskTraits, NEW_DIRECTORY, Parents, is_directory, within};
use super::rules::{FolderRules, RulesNews};
use super::stored::{Entries, IndexSource, IndexWriter, StoredIndex, newest};
use super::trash::Trash;
use super::vector::MemberId;

/// File of the member's own index, in the state directory.
const INDEX: &str = "index";
/// Published copies of the index that other members may still be fetching.
const PUBLISHED_INDEXES: u64 = 3;
/// Marker file: the same random bytes in the folder's own directory and in the state directory. Without matching
/// markers, a missing file does not count as removed.
const MARKER: &str = "id";
/// Most paths that are remembered as changed for other members; beyond that, all files are treated as changed.
const MAX_TOUCHED: usize = 10_000;
/// Most names of members that are known: twice as many as a group has, because members that left may still have
/// changes.
const MAX_NAMES: usize = 2 * MAX_MEMBERS;
/// File that records what is being put in place.
const PENDING: &str = "pending";

/// One member's folder, its index, rules and obstacles.
pub struct SyncFolder {
    /// Through it goes every access to the folder and to its state.
    pub(super) medium: FileMedium,
    pub(super) root: PathBuf,
    kept: PathBuf,
    pub(super) me: MemberId,
    pub(super) names: Names,
    /// The index on disk, in order.
    pub(super) stored: StoredIndex,
    /// Largest number of a change by this member.
    newest_own: u64,
    /// Changes to the index that are not written yet.
    pub(super) changes: BTreeMap<Vec<u8>, IndexItem>,
    /// Items that an earlier run was about to put in place when it ended. Where one is found, it does not count as a
    /// change of this member.
    pending: Index,
    rules: FolderRules,
    pacing: Pacing,
    /// Missing files are fetched again: it is not known that the user removed them.
    again: bool,
    /// Something that others have, and that was skipped until now, is to be taken over.
    uncovered: bool,
    /// Directories that others have removed and that stay at this member, which only reads, as something is in them.
    pub(super) staying: BTreeSet<Vec<u8>>,
    /// [`Folder::state`], but with held files in their version before.
    state_as_held: Hash,
    /// The trash: files that other members replaced or removed.
    pub(super) trash: Trash,
    /// Whether extended attributes are read here, sent, and put in place.
    pub(super) attributes_chosen: bool,
    /// Whether this member only reads: no other takes its changes.
    pub(super) only_reads: bool,
    /// How often the index was published.
    told: u64,
    /// Paths that cannot be brought in step now; everything else goes on.
    pub obstacles: Obstacles,
    /// How the folder's disk treats names and permissions.
    pub(super) habits: DiskTraits,
    /// Paths where the last attempt found something unexpected.
    pub(super) unsettled: HashSet<Vec<u8>>,
    /// Result of the last scan.
    pub(super) looked: LastScan,
}

/// The moment of a scan.
#[derive(Clone, Copy)]
struct ScanTime {
    /// Milliseconds since 1970, by this machine's clock.
    now_ms: u64,
    /// Number of the changes that it finds: larger than those of all earlier ones by this member, also if the clock was
    /// set back. The version of a path that was forgotten begins anew, and others have seen its earlier numbers.
    number: u64,
}

/// Result of the last scan of a folder. How files looked then, change times included, is stored with the publication.
#[derive(Debug, Default)]
pub(super) struct LastScan {
    /// The store, and the root hash of the folder; `None` if nothing is known about how files looked.
    of: Option<(PathBuf, Hash)>,
    /// Paths that were changed for other members since the scan.
    touched: HashSet<Vec<u8>>,
    /// How the files of the plan in progress looked.
    plan: HashMap<Vec<u8>, DiskAttributes>,
}

impl LastScan {
    fn begin(&mut self, store: &Path, root: &Hash) {
        self.of = Some((store.to_path_buf(), *root));
        self.touched.clear();
    }

    /// Records that a path was changed for another member.
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

    /// Looks up how the files at these paths looked.
    pub(super) fn plan<'a>(
        &mut self,
        medium: &FileMedium,
        folder: &Path,
        files: impl Iterator<Item = &'a Vec<u8>>,
    ) {
        self.plan.clear();
        let Some((store, root)) = &self.of else { return };
        let untouched = files.filter(|path| !self.touched.contains(*path));
        let wanted: BTreeSet<&[u8]> = untouched.map(Vec::as_slice).collect();
        if let (false, Ok(store)) = (wanted.is_empty(), Store::open(medium.shared(), store)) {
            self.plan = xylem_publish::recorded_looks(&store, folder, root, &wanted);
        }
    }

    /// Returns whether a file still has the change time that the scan noted. Size and modification time may be the same
    /// after a write; no program can set the change time.
    pub(super) fn is_untouched(&self, medium: &dyn Medium, path: &[u8], at: &Path) -> bool {
        let seen = self.plan.get(path).filter(|_| !self.touched.contains(path));
        seen.is_none_or(|seen| medium.metadata(at).map_or(true, |meta| meta.ctime == seen.ctime))
    }
}

impl SyncFolder {
    /// Opens the folder at `root` on `medium`, with its state in the directory `kept`. `me` is the member that owns it, and `name`
    /// that member's display name.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn open(
        medium: &FileMedium,
        root: &Path,
        kept: &Path,
        me: MemberId,
        name: &str,
    ) -> Result<Self, FolderError> {
        let stored = open_index(medium, root, kept)?;
        let pending = pending(medium, &kept.join(PENDING))?;
        let own = root.join(OWN);
        if stored.is_empty() {
            create_own(&**medium, &own)?;
            mark(medium, &own, kept)?;
        }
        let mut newest_own = 0;
        for entry in stored.entries()? {
            newest_own = entry?.1.version.number_of(&me).max(newest_own);
        }
        let mut names = stored.names().clone();
        names.insert(me, name.to_owned());
        let (rules, changes) = (FolderRules::of(medium, root, kept), BTreeMap::new());
        let state_as_held = stored.state();
        let (root, kept) = (root.to_path_buf(), kept.to_path_buf());
        let trash = Trash::none(medium, &own);
        let folder = Self {
            medium: medium.clone(),
            root,
            kept,
            me,
            names,
            stored,
            newest_own,
            changes,
            pending,
            rules,
            pacing: Pacing::default(),
            again: false,
            uncovered: false,
            staying: BTreeSet::new(),
            state_as_held,
            trash,
            attributes_chosen: false,
            only_reads: false,
            told: 0,
            obstacles: Obstacles::default(),
            habits: DiskTraits::default(),
            unsettled: HashSet::new(),
            looked: LastScan::default(),
        };
        folder.check_there()?;
        Ok(folder)
    }

    /// Records that this member has used numbers up to `number`, for example in statements. Its changes get larger ones.
    pub fn raise_numbers(&mut self, number: u64) {
        self.newest_own = self.newest_own.max(number);
    }

    /// Checks that this is still the folder of the index. A path of the index must not count as removed because another
    /// file system is, or is not, mounted there.
    ///
    /// # Errors
    /// [`FolderError::NotThere`].
    pub fn check_there(&self) -> Result<(), FolderError> {
        match is_directory(&*self.medium, &self.root.join(OWN)) {
            true => Ok(()),
            false => Err(FolderError::NotThere(self.root.clone())),
        }
    }

    /// Returns a hash of the folder's paths and versions; see [`Index::state`].
    pub fn state(&self) -> Hash {
        self.stored.state()
    }

    /// Returns the medium that has the folder.
    pub fn medium(&self) -> &FileMedium {
        &self.medium
    }

    /// Returns the path of a file in the folder's own directory.
    pub fn own(&self, name: &str) -> PathBuf {
        self.root.join(OWN).join(name)
    }

    /// Reads the rules anew: which paths of the folder are not shared. The [own directory](OWN) of this folder, or of
    /// one below, is never shared and needs no rule; nor are the rules themselves.
    ///
    /// # Errors
    /// The folder is not there; or the rules are invalid, and none were ever in force.
    pub fn read_rules(&mut self) -> Result<RulesNews, FolderError> {
        self.check_there()?;
        let (pending, changes, stored) = (&self.pending.items, &self.changes, &self.stored);
        let known = |path: &[u8]| -> Result<Option<IndexItem>, FolderError> {
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

    /// Returns the lines of the rules in force; `None` if none were read.
    pub fn rules(&self) -> Option<&[String]> {
        self.rules.lines()
    }

    /// Returns whether a change at this path needs no scan: the path is left out by the rules, or held until
    /// [`SyncFolder::held_until`].
    pub fn needs_no_scan(&self, path: &[u8]) -> bool {
        let is_directory = || is_directory(&*self.medium, &self.root.join(os_path(path)));
        !self.rules.are_in(path)
            && (self.pacing.is_held(path) || self.rules.leaves_out(path, is_directory()))
    }

    /// Returns the files that keep changing and are not to be sent now, and notes each as an obstacle. The notes stay
    /// until the next scan is over.
    pub fn hold(&mut self, now_ms: u64) -> Arc<BTreeSet<Vec<u8>>> {
        let (medium, root) = (&*self.medium, &self.root);
        let before = self.pacing.held().clone();
        let held = self.pacing.hold(&|path| look(medium, &root.join(os_path(path))), now_ms);
        for path in held.difference(&before) {
            let why = "it keeps changing, and is sent from time to time";
            self.obstacles.note(path, ObstacleKind::Busy, why.to_owned(), now_ms);
        }
        held
    }

    /// Returns when the first held file has to be checked again, in milliseconds since 1970.
    pub fn held_until(&self) -> Option<u64> {
        self.pacing.due_ms()
    }

    /// Records that a file changed while it was read: it is held like one that was sent repeatedly.
    pub fn hold_unstable(&mut self, path: &[u8], why: String, now_ms: u64) {
        if let Some(looks) = look(&*self.medium, &self.root.join(os_path(path))) {
            self.pacing.unstable(path, looks, now_ms);
            self.obstacles.note(path, ObstacleKind::Busy, why, now_ms);
        }
    }

    /// Returns whether something that others have, and that was skipped until now, is to be taken over. The answer
    /// clears the flag.
    pub fn take_uncovered(&mut self) -> bool {
        std::mem::take(&mut self.uncovered)
    }

    /// Returns [`SyncFolder::state`] after the last scan, but with [held](SyncFolder::hold) files in their version before. It
    /// differs from the last one only if there is something to announce.
    pub fn state_as_held(&self) -> Hash {
        self.state_as_held
    }

    /// Takes the publication `root` in `store`, which was just made, as the content of the folder. `about` is the
    /// ticket by which others fetch it.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn record_scan(
        &mut self,
        store: &Path,
        root: &Hash,
        about: &[u8],
        now_ms: u64,
    ) -> Result<(), FolderError> {
        self.check_there()?;
        let time = ScanTime { now_ms, number: now_ms.max(self.newest_own.saturating_add(1)) };
        self.looked.begin(store, root);
        self.habits.forget();
        if !self.changes.is_empty() {
            // They could not be written before, for example because the disk was full.
            self.write_changes()?;
        }
        self.again = !is_marked(&self.medium, &self.root.join(OWN), &self.kept);
        let store = Store::open(self.medium.shared(), store)?;
        // A missing listing is not an empty folder, which the others would take for the removal of all files.
        let file = store.object(root, ObjectPart::Listing)?.ok_or_else(|| {
            StoreError::NotFound { path: store.object_path(root, ObjectPart::Listing) }
        })?;
        let mut stock = IndexUpdate::begin(&self.kept.join(INDEX), about, self)?;
        let mut known = self.stored.entries()?.peekable();
        let size = file.metadata()?.size;
        let listed = ListedFiles::open(file, size, root, SegmentSize::DEFAULT)?;
        let mut files = listed.clone();
        for found in listed.entries() {
            let mut entry = found?.entry;
            let path = std::mem::take(&mut entry.path);
            if let EntryKind::HardLink { target } = &entry.kind {
                // In a listing, a file precedes its other names.
                let Some(first) = files.find(target)? else { continue };
                entry.clone_from(&first.entry);
            }
            let Some(kind) = kind(entry) else { continue };
            self.handle_missing_before(&mut known, Some(&path), &mut stock, time)?;
            let then = known.next_if(|next| matches!(next, Ok((then, _)) if *then == path));
            let then = then.transpose()?.map(|(_, item)| item);
            stock.uncovered |= then.as_ref().is_some_and(|then| then.absent);
            let seen = self.see_attributes(&path, &kind, &mut stock.attributes);
            let found = FoundItem { kind, attributes: seen };
            let (mut item, is_new) = self.item_now(&path, then, found, time);
            self.retry_attributes(&path, &mut item, &mut stock.attributes, now_ms);
            stock.push(&path, &item)?;
            if is_new && stock.sent.len() < MAX_FOLLOWED {
                stock.sent.push(path);
            }
        }
        self.handle_missing_before(&mut known, None, &mut stock, time)?;
        drop(known);
        self.uncovered |= stock.uncovered;
        self.notice_emptied();
        self.newest_own = self.newest_own.max(stock.newest_own);
        self.state_as_held = stock.state.finish();
        self.stored = stock.writer.finish_after(Some(&self.stored))?;
        self.end_attribute_scan(stock.attributes, now_ms);
        for path in stock.sent {
            if let Some(looks) = look(&*self.medium, &self.root.join(os_path(&path))) {
                self.pacing.sent(&path, looks, now_ms);
            }
        }
        if std::mem::take(&mut self.again) {
            mark(&self.medium, &self.root.join(OWN), &self.kept)?;
        }
        self.clear_pending()
    }

    /// Looks for [staying](Self::staying) directories that are empty now, or gone: their removal is to be taken over.
    pub(super) fn notice_emptied(&mut self) {
        let (medium, root) = (&*self.medium, &self.root);
        let before = self.staying.len();
        self.staying.retain(|path| {
            let there = within(medium, root, path, Parents::Exist);
            there.and_then(|at| medium.list_dir(&at)).is_ok_and(|items| !items.is_empty())
        });
        self.uncovered |= self.staying.len() < before;
    }

    /// Handles the known paths before `path` that the scan did not find.
    fn handle_missing_before(
        &self,
        known: &mut Peekable<Entries<'_>>,
        path: Option<&[u8]>,
        stock: &mut IndexUpdate,
        time: ScanTime,
    ) -> Result<(), FolderError> {
        let before = |next: &Result<(Vec<u8>, IndexItem), FolderError>| {
            next.as_ref().map_or(true, |(then, _)| path.is_none_or(|path| then.as_slice() < path))
        };
        while let Some(next) = known.next_if(before) {
            let (path, item) = next?;
            if item.kind.is_gone() {
                stock.push(&path, &item)?;
            } else if self.pacing.is_held(&path) {
                stock.hold(&path, item)?;
            } else if let Some(item) = self.missing(&path, item, time) {
                stock.push(&path, &item)?;
            } else {
                // The path is forgotten, so that other members send it again.
                stock.uncovered = true;
            }
        }
        Ok(())
    }

    /// Returns the item of a path at which the scan found this, and whether this member changed it.
    fn item_now(
        &self,
        path: &[u8],
        then: Option<IndexItem>,
        found: FoundItem,
        time: ScanTime,
    ) -> (IndexItem, bool) {
        let FoundItem { kind, attributes } = found;
        let mut item = then.unwrap_or_else(IndexItem::none);
        let keeps_modes = self.habits.keeps_modes(&*self.medium, &self.own(""));
        let as_kept = |then: &ItemKind| match keeps_modes {
            true => kind.clone(),
            false => kind.clone().with_mode_of(then),
        };
        let pending = self.pending.items.get(path);
        for then in [&item].into_iter().chain(pending) {
            if then.kind.may_appear_as(&as_kept(&then.kind))
                && let Some(unapplied) = attributes.unapplied_if_same(then)
            {
                return (IndexItem { absent: false, unapplied, ..then.clone() }, false);
            }
        }
        let edited_ms = self.edited(path, &kind).map_or(time.now_ms, |ms| ms.min(time.now_ms));
        let kind = as_kept(&item.kind);
        let (attributes, unapplied) = attributes.after(&item, item.is_alike(&kind));
        item.changed_to(kind, attributes, self.me, edited_ms, time.number);
        item.unapplied = unapplied;
        (item, true)
    }

    /// Returns when the content of a path was written, in milliseconds since 1970, if that is known.
    fn edited(&self, path: &[u8], kind: &ItemKind) -> Option<u64> {
        let (secs, nanos) = match kind {
            ItemKind::File { mtime, .. } => *mtime,
            ItemKind::Symlink { .. } => {
                let at = within(&*self.medium, &self.root, path, Parents::Exist).ok()?;
                let mtime = self.medium.metadata(&at).ok()?.mtime;
                u64::try_from(mtime.secs).ok()?;
                (mtime.secs, mtime.nanos)
            }
            ItemKind::Directory { .. } | ItemKind::Gone => return None,
        };
        let ms = u64::try_from(secs).unwrap_or(0).saturating_mul(1_000);
        Some(ms.saturating_add(u64::from(nanos / 1_000_000)))
    }

    /// Returns the item of a path that the scan did not find. It counts as removed, unless the rules leave it out or it
    /// cannot be read. `None`: it is missing, but the user is not known to have removed it.
    fn missing(&self, path: &[u8], mut item: IndexItem, time: ScanTime) -> Option<IndexItem> {
        // Each component is checked: what a symbolic link leads to is not the file that was there.
        let on_disk = within(&*self.medium, &self.root, path, Parents::Exist);
        let on_disk = on_disk.and_then(|at| self.medium.metadata(&at));
        let removed = match on_disk {
            // A disk that folds names may show another file.
            Ok(_) => self.keeps_apart(path).is_err(),
            Err(e) => matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        };
        if !removed || self.rules.leaves_out(path, item.kind.is_directory()) {
            return Some(IndexItem { absent: true, ..item });
        }
        if let Some(then) = self.pending.items.get(path) {
            // An earlier run ended while it replaced the path: what is missing was not removed by the user.
            return then.kind.is_gone().then(|| then.clone());
        }
        // A file that was left out may have disappeared meanwhile; that is no removal for others.
        if self.again || (item.absent && !self.was_obstructed(path)) {
            return None;
        }
        item.changed(ItemKind::Gone, self.me, time.now_ms, time.number);
        Some(item)
    }

    /// Returns whether the path, or a directory above it, was absent at the last scan only because it kept changing or
    /// could not be read. It was then part of the folder all the time.
    fn was_obstructed(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        ends.chain([path.len()]).any(|end| {
            let obstacle = self.obstacles.get(path.get(..end).unwrap_or(path));
            obstacle.is_some_and(|o| {
                matches!(o.kind, ObstacleKind::Busy | ObstacleKind::Unreadable | ObstacleKind::Name)
            })
        })
    }

    /// Plans what to take over from another member's index.
    ///
    /// # Errors
    /// Either index cannot be read.
    pub fn plan(&mut self, theirs: &dyn IndexSource) -> Result<Plan, FolderError> {
        learn_names(&mut self.names, self.me, theirs.names());
        let (rules, reader) = (&self.rules, self.only_reads.then_some(self.me));
        let leaves_out = |path: &[u8], is_directory| rules.leaves_out(path, is_directory);
        merge(&self.stored, theirs, &leaves_out, reader)
    }

    /// Finds local files with the `wanted` contents, as far as the index knows.
    ///
    /// # Errors
    /// The index cannot be read.
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

    /// Records on disk what is about to be put in place.
    pub(super) fn begin<'a>(
        &self,
        all: impl Iterator<Item = (&'a Vec<u8>, &'a IndexItem)>,
    ) -> Result<(), FolderError> {
        let all: BTreeMap<&Vec<u8>, &IndexItem> = all.collect();
        if all.is_empty() {
            return Ok(());
        }
        let mut writer =
            IndexWriter::new(&self.medium, &self.kept.join(PENDING), b"", &Names::new())?;
        for (path, item) in all {
            writer.push(path, item)?;
        }
        writer.finish().map(drop)
    }

    /// Writes the index, and clears the record of work in progress.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn settle(&mut self) -> Result<(), FolderError> {
        self.write_changes()?;
        self.clear_pending()
    }

    fn write_changes(&mut self) -> Result<(), FolderError> {
        let mut writer = IndexWriter::new(
            &self.medium,
            &self.kept.join(INDEX),
            &self.stored.about,
            &self.names,
        )?;
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
        // A change that came from another member is not a file that keeps changing here.
        self.changes.keys().for_each(|path| self.pacing.forget(path));
        self.changes.clear();
        Ok(())
    }

    fn clear_pending(&mut self) -> Result<(), FolderError> {
        self.pending = Index::default();
        match self.medium.remove_file(&self.kept.join(PENDING)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(at(&self.kept)(e)),
            _ => Ok(()),
        }
    }

    /// Copies the index to where other members fetch it, and returns the path. The last two copies stay, since members
    /// may still be fetching them.
    ///
    /// # Errors
    /// The system's.
    pub fn publish_index(&mut self) -> Result<PathBuf, FolderError> {
        let path = self.own(&published_name(self.told));
        self.told += 1;
        self.stored.copy(&path)?;
        Ok(path)
    }
}

/// What a scan found at a path.
struct FoundItem {
    kind: ItemKind,
    attributes: SeenAttributes,
}

/// The index of a folder while it is being written.
struct IndexUpdate {
    writer: IndexWriter,
    me: MemberId,
    /// Largest number of a change by this member.
    newest_own: u64,
    /// Hash of the folder's state, with held files in their version before.
    state: StateHasher,
    /// Paths that this member changed.
    sent: Vec<Vec<u8>>,
    /// A path is part of the folder again.
    uncovered: bool,
    attributes: AttributeScan,
}

impl IndexUpdate {
    fn begin(path: &Path, about: &[u8], of: &SyncFolder) -> Result<Self, FolderError> {
        let writer = IndexWriter::new(&of.medium, path, about, &of.names)?;
        let (state, attributes) = (StateHasher::default(), AttributeScan::default());
        let (me, newest_own) = (of.me, 0);
        Ok(Self { writer, me, newest_own, state, sent: Vec::new(), uncovered: false, attributes })
    }

    fn push(&mut self, path: &[u8], item: &IndexItem) -> Result<(), FolderError> {
        self.newest_own = self.newest_own.max(item.version.number_of(&self.me));
        self.state.add(path, item);
        self.writer.push(path, item)
    }

    /// Adds a held path as absent, so that others keep the version that they have.
    fn hold(&mut self, path: &[u8], item: IndexItem) -> Result<(), FolderError> {
        self.state.add(path, &IndexItem { absent: false, ..item.clone() });
        self.writer.push(path, &IndexItem { absent: true, ..item })
    }
}

/// Returns how the file at a path looks; `None` if there is no file.
fn look(medium: &dyn Medium, path: &Path) -> Option<FileLooks> {
    file_looks(&medium.metadata(path).ok()?)
}

/// Makes the folder's own directory, and the folder, if they do not exist.
fn create_own(medium: &dyn Medium, own: &Path) -> Result<(), FolderError> {
    let missing: Vec<&Path> =
        own.ancestors().take_while(|dir| medium.metadata(dir).is_err()).collect();
    for dir in missing.into_iter().rev() {
        medium.create_dir(dir, NEW_DIRECTORY).map_err(at(dir))?;
    }
    Ok(())
}

/// Marks the folder as the one that belongs to the state directory.
fn mark(medium: &FileMedium, own: &Path, kept: &Path) -> Result<(), FolderError> {
    let id = xylem_base::random::<32>().map_err(|e| at(own)(io::Error::other(e.to_string())))?;
    // If only one of the two markers is written, missing files are fetched again.
    let files = OwnFiles::of(medium);
    [kept, own]
        .iter()
        .try_for_each(|dir| files.replace(&dir.join(MARKER), xylem_base::hex(&id).as_bytes()))
}

fn is_marked(medium: &FileMedium, own: &Path, kept: &Path) -> bool {
    let files = OwnFiles::of(medium);
    let id = |dir: &Path| files.bytes(&dir.join(MARKER), 65).ok()?.filter(|id| id.len() == 64);
    id(own).is_some_and(|is| id(kept) == Some(is))
}

/// Returns the name of a published index.
fn published_name(number: u64) -> String {
    format!("{INDEX}-{}", number % PUBLISHED_INDEXES)
}

/// Opens the stored index of the folder `root`. A damaged one is restored from the newest published copy, which has the
/// same versions. Without versions, every later change of any member would be a conflict.
fn open_index(medium: &FileMedium, root: &Path, kept: &Path) -> Result<StoredIndex, FolderError> {
    let path = kept.join(INDEX);
    match StoredIndex::open(medium, &path) {
        Err(FolderError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            IndexWriter::new(medium, &path, b"", &Names::new())?.finish()
        }
        Err(e @ FolderError::Index { why: IndexError::Old, .. }) => Err(e),
        Err(e @ FolderError::Index { .. }) => {
            let copies =
                (0..PUBLISHED_INDEXES).map(|number| root.join(OWN).join(published_name(number)));
            newest(medium, copies).ok_or(e)?.copy(&path)?;
            StoredIndex::open(medium, &path)
        }
        known => known,
    }
}

/// Reads what an earlier run was about to put in place. If that record is damaged, files that the run did put in place
/// count as changes of this member; their content is the same as that of other members.
fn pending(medium: &FileMedium, path: &Path) -> Result<Index, FolderError> {
    let items = StoredIndex::open(medium, path).and_then(|stored| stored.entries()?.collect());
    match items {
        Ok(items) => Ok(Index { items, names: Names::new() }),
        Err(FolderError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(Index::default())
        }
        Err(FolderError::Index { .. }) => Ok(Index::default()),
        Err(e) => Err(e),
    }
}

/// Returns the kind of a listing's entry; `None` for a hard link.
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

/// Takes over the names that another member gives to members. Made-up names do not fill memory: when there is no room
/// for more, only names of members that the other one lists too are kept. A member without a name is shown by its key.
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
    fn made_up_names_fill_no_memory() {
        let id = |n: usize| -> MemberId { n.to_be_bytes() };
        let named = |range: std::ops::Range<usize>| -> Names {
            range.map(|n| (id(n), format!("member-{n}"))).collect()
        };
        let mut names = named(0..3);
        for n in 1..20 {
            learn_names(&mut names, id(0), &named(n * 1_000..n * 1_000 + 700));
            assert!(names.len() <= MAX_NAMES && names.contains_key(&id(0)));
        }
        // A real member gets its name as soon as any member reports it.
        learn_names(&mut names, id(0), &named(0..3));
        assert!(names.contains_key(&id(1)) && names.contains_key(&id(2)));
        assert!(names.len() <= MAX_NAMES);
    }
}

#[cfg(all(test, unix))]
mod tests;
