//! [`SyncFolder::apply`]: carries out a plan on disk, so that nothing of the user's is lost.
//!
//! A path that is replaced or removed first has to match the index: same kind, size and time. Its change time (ctime)
//! must also be that of the last scan, as far as the file system keeps one. Concurrent local changes stay; the next
//! scan finds them as a conflict. A new file appears whole, by an exchange with the old one. The old one is checked
//! once more after the exchange, before it is removed.
//!
//! Permissions and times are changed on the existing file, and a renamed file is renamed here, too. A program that has
//! the file open goes on writing to the file that all members get.
//!
//! Fetched content is on the device before the first of it gets its place, and all places are before the index that
//! lists them: what a power cut leaves is not taken for a change of this member.
//!
//! Removed files stay in the trash until everything is done. A file is then deleted if its content is elsewhere in the
//! folder, as that of moved files is. If the process ends in between, the content is in at least one of the two places.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xylem_base::{os_bytes, os_path};
use xylem_files::copies::copy_of;
use xylem_hash::Hash;
use xylem_store::{
    Clobber, FileKind, FileTime, Medium, MediumFile, Meta, OpenHow, hash_file, remove_tree,
};
use xylem_tree::SegmentSize;

use super::error::{FolderError, at};
use super::index::{IndexItem, ItemKind, check, is_time, name};
use super::local::SyncFolder;
use super::merge::{LosingVersion, MergeSide, Plan, PlannedChange, copy_path};
use super::obstacles::ObstacleKind;
use super::place::{NEW_DIRECTORY, Parents, UnlockedParents, is_directory, rename_new, within};
use super::stored::IndexSource;

/// Permission bits that are exchanged; other bits stay as they are.
const EXCHANGED_MODES: u32 = 0o777;
/// Directory for copies of files that could not be renamed, until they are in place.
const MOVED: &str = "moved";
/// File that comes next to its place.
const FRESH: &str = "placing";
/// Files and directories up to which each is flushed by itself: a flush of the whole file system waits for all else that is
/// written there.
const FEW: usize = 16;
/// Most paths that are remembered as unsettled.
const MAX_UNSETTLED: usize = 10_000;
/// Obstacles that scans note, and clear themselves.
const SCAN_OBSTACLES: [ObstacleKind; 4] =
    [ObstacleKind::Unreadable, ObstacleKind::Busy, ObstacleKind::Name, ObstacleKind::Attributes];
/// Most changed places that are named.
const MAX_PLACES: usize = 16;

/// The part of a plan that was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Number of places that got new content, permissions, times or extended attributes.
    pub put: u64,
    /// The first of these places.
    pub paths: Vec<Vec<u8>>,
    /// Number of places from which something was removed.
    pub removed: u64,
    /// Paths of which both versions are kept from now on.
    pub conflicts: Vec<Vec<u8>>,
    /// Conflict copies, and the member that each version is of.
    pub copies: Vec<(Vec<u8>, String)>,
    /// Paths at which [something stands in the way](SyncFolder::obstacles).
    pub noted: Vec<Vec<u8>>,
    /// The whole plan was done. Otherwise the rest has to be done after another scan of the folder.
    pub complete: bool,
}

impl Applied {
    /// Counts a place that got something.
    pub(super) fn count_put(&mut self, path: &[u8]) {
        self.put += 1;
        if self.paths.len() < MAX_PLACES {
            self.paths.push(path.to_vec());
        }
    }
}

/// Result of one step.
enum StepOutcome {
    /// It is done.
    Yes,
    /// The path was changed here meanwhile: another scan is needed.
    NotNow,
    /// A directory stays, since it holds something of this member.
    Stays,
}

/// Result of moving a version to a copy's name.
enum AsideOutcome {
    Moved,
    /// The name has the same content already.
    There,
    NotNow,
}

/// Result of moving a file out of the folder.
enum AwayFile {
    /// There was none.
    None,
    /// It is not what was expected, and stays.
    Changed,
    /// It is at this path.
    At {
        path: PathBuf,
        /// In the trash.
        kept: bool,
    },
}

/// Where incoming files are found.
struct IncomingFiles<'a> {
    /// Directory of the fetched files.
    staged: &'a Path,
    /// Paths below `staged`, by content.
    wanted: &'a HashMap<Hash, Vec<u8>>,
    /// How often each content is still needed.
    uses: HashMap<Hash, usize>,
    /// Copies of contents that go to several places.
    copies: HashMap<Hash, Vec<PathBuf>>,
    /// Local copies of files that could not be renamed.
    moved: HashMap<Hash, PathBuf>,
}

/// Content that is lost with a file or link, if it exists nowhere else.
#[derive(PartialEq, Eq, Hash)]
enum LostContent {
    /// Root hash of a file.
    Root(Hash),
    /// Target of a symbolic link.
    Target(Vec<u8>),
}

impl LostContent {
    fn of(kind: ItemKind) -> Option<Self> {
        match kind {
            ItemKind::File { root, .. } => Some(Self::Root(root)),
            ItemKind::Symlink { target } => Some(Self::Target(target)),
            ItemKind::Directory { .. } | ItemKind::Gone => None,
        }
    }
}

impl SyncFolder {
    /// Returns how many files the last [`SyncFolder::apply`] replaced or removed and kept in the trash.
    pub fn kept_count(&self) -> u64 {
        self.trash.came()
    }

    /// Sets whether this member only reads, so that no other takes its changes.
    pub fn set_read_only(&mut self, only_reads: bool) {
        self.only_reads = only_reads;
    }

    /// Carries out `plan`, with fetched content below `staged` at the paths of `wanted`. Each place is independent: a
    /// failure at one is [noted](SyncFolder::obstacles), and everything else is done.
    ///
    /// # Errors
    /// The index cannot be written.
    pub fn apply(
        &mut self,
        plan: Plan,
        staged: &Path,
        wanted: &HashMap<Hash, Vec<u8>>,
        now_ms: u64,
    ) -> Result<Applied, FolderError> {
        let places = plan.removed.iter().chain(&plan.put);
        let beaten = plan.put.iter().filter_map(|place| place.losing.as_ref());
        let items = places.map(|place| (&place.path, &place.item));
        let items = items.chain(beaten.map(|beaten| (&beaten.to, &beaten.item)));
        let alone = plan.noted.iter().filter(|(_, item)| item.unapplied && self.attributes_chosen);
        self.begin(items.chain(alone.clone().map(|(path, item)| (path, item))))?;
        let alone: HashSet<Vec<u8>> = alone.map(|(path, _)| path.clone()).collect();
        self.trash.begin(now_ms);
        self.habits.forget();
        self.remove_incoming_copies();
        let places = plan.removed.iter().chain(&plan.put);
        let files = places.filter(|place| place.before.root().is_some());
        self.looked.plan(&self.medium, &self.root, files.map(|place| &place.path));
        let (renames, uses) = (plan.renames(), plan.uses());
        let (copies, moved) = (HashMap::new(), HashMap::new());
        let mut incoming = IncomingFiles { staged, wanted, uses, copies, moved };
        self.prepare(&mut incoming)?;
        let mut applied = Applied { complete: true, ..Applied::default() };
        let Plan { noted: known, removed: gone, put, refused, attributes_before, .. } = plan;
        for (path, why) in refused {
            self.obstacles.note(&path, ObstacleKind::Refused, why, now_ms);
            applied.noted.push(path);
        }
        for (path, item) in known {
            self.record_settled(path, item);
        }
        let mut renamed = HashSet::new();
        for (at, place) in gone.into_iter().enumerate() {
            let to = renames.get(&at).and_then(|to| Some((*to, put.get(*to)?)));
            if self.obstacles.waits(&place.path, now_ms) {
                applied.complete = false;
            } else if let Some((at, to)) =
                to.filter(|(_, to)| !self.obstacles.waits(&to.path, now_ms))
                && self.renamed(&place, to, &mut incoming)
            {
                applied.removed += 1;
                self.record_placed(to, &mut applied);
                self.record_settled(place.path, place.item);
                renamed.insert(at);
            } else {
                self.carry_out_removal(place, now_ms, &mut applied);
            }
        }
        let left = put.into_iter().enumerate().filter(|(at, _)| !renamed.contains(at));
        for (_, place) in left {
            if self.obstacles.waits(&place.path, now_ms) {
                applied.complete = false;
            } else {
                self.carry_out_write(place, &mut incoming, now_ms, &mut applied);
            }
        }
        self.remove_incoming_copies();
        self.apply_attributes(&attributes_before, &alone, now_ms, &mut applied);
        if applied.put > 0 || applied.removed > 0 || self.trash.came() > 0 {
            // An index that is ahead of the folder would make the earlier content a change of this member.
            let folders = self
                .changes
                .keys()
                .filter_map(|path| self.root.join(os_path(path)).parent().map(Path::to_path_buf));
            let folders: BTreeSet<PathBuf> = folders.collect();
            let sync = |dir: &PathBuf| match self.medium.sync_dir(dir) {
                Err(e) if means_absent(&e) => Ok(()),
                synced => synced,
            };
            self.write_through(&mut folders.iter().map(sync))?;
        }
        self.settle()?;
        self.delete_moved_from_trash()?;
        Ok(applied)
    }

    /// Makes the fetched contents durable before one of them gets its place: after a power cut, a torn file would count as
    /// a change of this member. Copies for further places are made first, so that all are written through at once.
    fn prepare(&self, incoming: &mut IncomingFiles<'_>) -> Result<(), FolderError> {
        let mut files = Vec::new();
        for (root, uses) in &incoming.uses {
            let Some(from) = incoming.wanted.get(root) else { continue };
            let from = incoming.staged.join(os_path(from));
            for n in 1..*uses {
                let to = self.own(MOVED).join(format!("{root}-{n}"));
                let copied = make_dir(&*self.medium, &self.own(MOVED));
                if copied.and_then(|()| self.medium.copy(&from, &to)).is_err() {
                    // It is tried again when its turn comes, which then fails for that place alone.
                    let _ = self.medium.remove_file(&to);
                    break;
                }
                incoming.copies.entry(*root).or_default().push(to.clone());
                files.push(to);
            }
            files.push(from);
        }
        if files.is_empty() {
            return Ok(());
        }
        let sync = |file: &PathBuf| match self.opened(file) {
            Err(e) if means_absent(&e) => Ok(()),
            file => file?.sync(),
        };
        self.write_through(&mut files.iter().map(sync))
    }

    /// Makes files or directories durable: few of them one by one, many by one call for all of the file system where the
    /// system has one.
    fn write_through(
        &self,
        each: &mut dyn ExactSizeIterator<Item = io::Result<()>>,
    ) -> Result<(), FolderError> {
        let whole = || match self.medium.sync_all(&self.root) {
            Err(e) if e.kind() == io::ErrorKind::Unsupported => Ok(false),
            done => done.map(|()| true).map_err(at(&self.root)),
        };
        if each.len() > FEW && whole()? {
            return Ok(());
        }
        let mut is_denied = false;
        for done in each {
            match done {
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => is_denied = true,
                done => done.map_err(at(&self.root))?,
            }
        }
        // A directory that cannot be read is no reason to stop: without the call for all of it, its names are durable with
        // the next entry of the file system's journal.
        if is_denied {
            whole()?;
        }
        Ok(())
    }

    /// Removes incoming copies that were not put anywhere.
    fn remove_incoming_copies(&self) {
        let _ = remove_tree(&*self.medium, &self.own(MOVED));
        let _ = remove(&*self.medium, &self.own(FRESH));
    }

    /// Records the new item of a path, and clears its obstacle.
    fn record_settled(&mut self, path: Vec<u8>, item: IndexItem) {
        if self
            .obstacles
            .get(&path)
            .is_some_and(|obstacle| !SCAN_OBSTACLES.contains(&obstacle.kind))
        {
            self.obstacles.clear(&path);
        }
        self.unsettled.remove(&path);
        self.looked.touch(&path);
        self.changes.insert(path, item);
    }

    /// Returns whether the file at a path was written to since the last scan; its size and time may not show that.
    fn was_written(&self, place: &PlannedChange) -> bool {
        let is_file = place.before.root().is_some();
        is_file
            && self
                .place(&place.path, Parents::Exist)
                .is_ok_and(|at| !self.looked.is_untouched(&*self.medium, &place.path, &at))
    }

    /// Records that a place got its new item.
    fn record_placed(&mut self, place: &PlannedChange, applied: &mut Applied) {
        applied.count_put(&place.path);
        let copy = |path: &[u8]| copy_of(path).map(|whose| (path.to_vec(), whose.to_owned()));
        applied.copies.extend(copy(&place.path));
        if let Some(beaten) = &place.losing {
            applied.conflicts.push(place.path.clone());
            applied.copies.extend(copy(&beaten.to));
            self.record_settled(beaten.to.clone(), beaten.item.clone());
        }
        self.record_settled(place.path.clone(), place.item.clone());
    }

    /// Notes why a step was not done. A concurrent local change is left to the next scan, and noted only if it
    /// persists.
    fn note_failure(
        &mut self,
        path: &[u8],
        why: Option<&io::Error>,
        now_ms: u64,
        applied: &mut Applied,
    ) {
        applied.complete = false;
        let Some(e) = why else {
            if self.unsettled.len() >= MAX_UNSETTLED {
                self.unsettled.clear();
            }
            if !self.unsettled.insert(path.to_vec()) {
                let why =
                    "a file that is not shared is in its place, or the file there keeps changing";
                self.obstacles.note(path, ObstacleKind::NotPlaced, why.to_owned(), now_ms);
                applied.noted.push(path.to_vec());
            }
            return;
        };
        let is_room = matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let kind = if is_room { ObstacleKind::NoRoom } else { ObstacleKind::NotPlaced };
        self.obstacles.note(path, kind, e.to_string(), now_ms);
        applied.noted.push(path.to_vec());
    }

    /// Returns whether something below a path could not be put in place or removed.
    fn has_failed_below(&self, path: &[u8]) -> bool {
        let is_below = |at: &[u8]| at.strip_prefix(path).is_some_and(|rest| rest.starts_with(b"/"));
        self.obstacles
            .iter()
            .any(|(at, obstacle)| is_below(at) && !SCAN_OBSTACLES.contains(&obstacle.kind))
    }

    /// Carries out a removal.
    fn carry_out_removal(&mut self, place: PlannedChange, now_ms: u64, applied: &mut Applied) {
        if self.was_written(&place) {
            self.note_failure(&place.path, None, now_ms, applied);
            return;
        }
        match self.with_unlocked_parents(&[&place.path], || self.remove(&place)) {
            Ok(StepOutcome::Yes) => {
                applied.removed += 1;
                self.record_settled(place.path, place.item);
            }
            // Something in it could not be removed, and both are tried again.
            Ok(StepOutcome::Stays) if self.has_failed_below(&place.path) => {
                applied.complete = false
            }
            // If no other member takes this member's changes, a change would only separate the two for ever. The
            // directory stays as it was known, and goes once it is empty.
            Ok(StepOutcome::Stays) if self.only_reads => {
                self.staying.insert(place.path);
            }
            Ok(StepOutcome::Stays) => {
                let kept = kept_item(place.before, place.item);
                self.keep_after_all(place.path, kept, now_ms);
            }
            not => {
                self.note_failure(&place.path, not.err().as_ref(), now_ms, applied);
            }
        }
    }

    /// Carries out a write.
    fn carry_out_write(
        &mut self,
        place: PlannedChange,
        incoming: &mut IncomingFiles<'_>,
        now_ms: u64,
        applied: &mut Applied,
    ) {
        if self.was_written(&place) {
            self.note_failure(&place.path, None, now_ms, applied);
            return;
        }
        let content = match self.content(&place, incoming) {
            Ok(content) => content,
            Err(e) => {
                applied.complete = false;
                // Content that was not fetched is requested again.
                if e.kind() != io::ErrorKind::NotFound {
                    self.note_failure(&place.path, Some(&e), now_ms, applied);
                }
                return;
            }
        };
        let done = match &place.losing {
            None => {
                self.with_unlocked_parents(&[&place.path], || self.put(&place, content.as_deref()))
            }
            Some(beaten) => self.with_unlocked_parents(&[&place.path, &beaten.to], || {
                self.keep_both(&place, beaten, content.as_deref())
            }),
        };
        match done {
            Ok(StepOutcome::Yes) => self.record_placed(&place, applied),
            Ok(StepOutcome::Stays) if self.has_failed_below(&place.path) => {
                applied.complete = false
            }
            Ok(StepOutcome::Stays) => match self.put_beside(&place, content.as_deref()) {
                Ok(true) => {
                    let to = self.beside(&place);
                    let both = PlannedChange { path: to, before: ItemKind::Gone, ..place.clone() };
                    self.record_placed(&both, applied);
                    let kept = kept_item(place.before, place.item);
                    self.keep_after_all(place.path, kept, now_ms);
                }
                not => {
                    self.note_failure(&place.path, not.err().as_ref(), now_ms, applied);
                }
            },
            not => {
                self.note_failure(&place.path, not.err().as_ref(), now_ms, applied);
            }
        }
    }

    /// Acts on these paths. If a parent directory denies access to its owner, access is granted for the duration.
    pub(super) fn with_unlocked_parents<T>(
        &self,
        paths: &[&[u8]],
        act: impl Fn() -> io::Result<T>,
    ) -> io::Result<T> {
        match act() {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                let unlock =
                    |path: &&[u8]| UnlockedParents::on_the_way(&self.medium, &self.root, path);
                let _unlocked: Vec<UnlockedParents> =
                    paths.iter().map(unlock).collect::<io::Result<_>>()?;
                act()
            }
            done => done,
        }
    }

    /// Renames a file as another member did; false if that fails. It stays the same file, also for a program that has
    /// it open. After a failure its content is copied for the new place.
    fn renamed(
        &self,
        from: &PlannedChange,
        to: &PlannedChange,
        incoming: &mut IncomingFiles<'_>,
    ) -> bool {
        if self.was_written(from) {
            return false;
        }
        let renamed = self.with_unlocked_parents(&[&from.path, &to.path], || self.rename(from, to));
        if matches!(renamed, Ok(true)) {
            return true;
        }
        let Some(root) = to.item.kind.root() else { return false };
        let copy = self.own(MOVED).join(incoming.moved.len().to_string());
        let copied = self.place(&from.path, Parents::Exist).and_then(|at| {
            make_dir(&*self.medium, &self.own(MOVED))?;
            if self.matches_index(&at, &from.before)? {
                self.medium.copy(&at, &copy)
            } else {
                Ok(())
            }
        });
        if copied.is_ok() {
            incoming.moved.insert(root, copy);
        }
        false
    }

    fn rename(&self, from: &PlannedChange, to: &PlannedChange) -> io::Result<bool> {
        self.keeps_apart(&from.path)?;
        self.keeps_apart(&to.path)?;
        let (old, new) =
            (self.place(&from.path, Parents::Exist)?, self.place(&to.path, Parents::Create)?);
        if !self.matches_index(&old, &from.before)? || !rename_new(&*self.medium, &old, &new)? {
            return Ok(false);
        }
        // Later writes to the file are seen at the next scan.
        let _ = self.describe(&new, &from.before, &to.item.kind);
        Ok(true)
    }

    pub(super) fn keeps_apart(&self, path: &[u8]) -> io::Result<()> {
        self.habits.check_exact_name(&*self.medium, &self.own(""), &self.root, path)
    }

    /// Deletes files that just arrived in the trash, if the folder has their content under some name.
    fn delete_moved_from_trash(&self) -> Result<(), FolderError> {
        let mut kept: HashMap<LostContent, Vec<PathBuf>> = HashMap::new();
        for (path, what) in self.trash.take_arrivals() {
            if let Some(content) = LostContent::of(what) {
                kept.entry(content).or_default().push(path);
            }
        }
        // The content in the folder is on the disk by now.
        if kept.is_empty() {
            return Ok(());
        }
        for entry in self.stored.entries()? {
            let (path, IndexItem { kind, absent: false, .. }) = entry? else { continue };
            // A file that was changed meanwhile no longer has the content.
            let is_there = |kind| {
                let at = self.place(&path, Parents::Exist);
                at.and_then(|at| self.matches_index(&at, kind)).unwrap_or(false)
            };
            // Both files are read before one is deleted: size and time prove nothing.
            let still_there = |at: &Path, content: &LostContent| match content {
                LostContent::Root(root) => has_content(&*self.medium, at, root),
                LostContent::Target(_) => true,
            };
            if let Some(content) = LostContent::of(kind.clone())
                && kept.contains_key(&content)
                && is_there(&kind)
                && self.place(&path, Parents::Exist).is_ok_and(|at| still_there(&at, &content))
            {
                let kept = kept.remove(&content).unwrap_or_default();
                let same = kept.iter().filter(|kept| still_there(kept, &content));
                same.for_each(|kept| self.trash.remove_redundant(kept));
            }
        }
        Ok(())
    }

    /// Keeps a directory that was to be replaced or removed, as if it had been made anew.
    fn keep_after_all(&mut self, path: Vec<u8>, mut item: IndexItem, now_ms: u64) {
        item.record_as_new(self.me, now_ms);
        self.record_settled(path, item);
    }

    /// Returns the name for a file or link that was to replace a directory with something of this member in it.
    fn beside(&self, place: &PlannedChange) -> Vec<u8> {
        copy_path(&place.path, &name(&self.names, &place.item.content.by), &place.item.kind)
    }

    /// Puts a file or link under that name; false if that is not possible now.
    fn put_beside(&self, place: &PlannedChange, content: Option<&Path>) -> io::Result<bool> {
        let path = self.beside(place);
        check(&path, &place.item).map_err(io::Error::other)?;
        let beside =
            PlannedChange { path, item: place.item.clone(), before: ItemKind::Gone, losing: None };
        let put = self.with_unlocked_parents(&[&beside.path], || self.put(&beside, content))?;
        Ok(matches!(put, StepOutcome::Yes) || self.has(&beside.path, &beside.item.kind))
    }

    /// Prepares a file with the incoming content, to be moved to its place; `None` if there is nothing to move.
    fn content(
        &self,
        place: &PlannedChange,
        incoming: &mut IncomingFiles<'_>,
    ) -> io::Result<Option<PathBuf>> {
        let fresh = self.own(FRESH);
        let _ = remove(&*self.medium, &fresh);
        let kind = match &place.losing {
            Some(LosingVersion { item, whose: MergeSide::Theirs, .. }) => &item.kind,
            _ if place.item.kind.has_content_of(&place.before) => return Ok(None),
            _ => &place.item.kind,
        };
        match kind {
            ItemKind::File { root, mode, mtime, .. } => {
                if let Some(moved) = incoming.moved.get(root) {
                    self.copy_durably(moved, &fresh)?;
                } else {
                    let from = incoming.wanted.get(root).ok_or(io::ErrorKind::NotFound)?;
                    let from = incoming.staged.join(os_path(from));
                    let left = incoming.uses.get_mut(root).map_or(1, |left| {
                        *left = left.saturating_sub(1);
                        *left
                    });
                    let copy = incoming.copies.get_mut(root).and_then(Vec::pop);
                    if let Some(from) = copy.or_else(|| (left == 0).then(|| from.clone())) {
                        self.medium.rename(&from, &fresh, Clobber::Replace)?;
                    } else {
                        self.copy_durably(&from, &fresh)?;
                    }
                }
                self.describe_fresh(&fresh, *mode, *mtime)?;
            }
            ItemKind::Symlink { target } => self.medium.symlink(&os_path(target), &fresh)?,
            // A directory takes the place of a file in one step, too.
            ItemKind::Directory { mode } if place.losing.is_none() && !place.before.is_gone() => {
                self.medium.create_dir(&fresh, mode & EXCHANGED_MODES)?;
                self.permit(&fresh, *mode)?;
            }
            ItemKind::Directory { .. } | ItemKind::Gone => return Ok(None),
        }
        Ok(Some(fresh))
    }

    fn copy_durably(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.medium.copy(from, to)?;
        self.opened(to)?.sync()
    }

    /// Resolves a path. An unreadable path is an error, not an absent one.
    pub(super) fn place(&self, path: &[u8], parents: Parents) -> io::Result<PathBuf> {
        let at = within(&*self.medium, &self.root, path, parents)?;
        match self.medium.metadata(&at) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(e),
            _ => Ok(at),
        }
    }

    fn put(&self, place: &PlannedChange, content: Option<&Path>) -> io::Result<StepOutcome> {
        self.keeps_apart(&place.path)?;
        let to = self.place(&place.path, Parents::Create)?;
        let (before, kind) = (&place.before, &place.item.kind);
        if !before.is_gone() && before.has_content_of(kind) {
            return self.describe(&to, before, kind);
        }
        let Some(content) = content else { return self.put_directory(&to, place) };
        match before {
            ItemKind::Gone => {}
            ItemKind::Directory { .. } => {
                if !self.remove_directory(&to)? {
                    return Ok(StepOutcome::Stays);
                }
            }
            before => return self.exchange(&to, place, before, content),
        }
        Ok(if rename_new(&*self.medium, content, &to)? {
            StepOutcome::Yes
        } else {
            StepOutcome::NotNow
        })
    }

    fn put_directory(&self, to: &Path, place: &PlannedChange) -> io::Result<StepOutcome> {
        let ItemKind::Directory { mode } = place.item.kind else { return Ok(StepOutcome::NotNow) };
        if !place.before.is_gone() && !self.take_away(to, place)? {
            return Ok(StepOutcome::NotNow);
        }
        // It has its permissions from the beginning on, as far as the system lets it.
        let made = self.medium.create_dir(to, mode & EXCHANGED_MODES);
        if made.is_err() && !is_directory(&*self.medium, to) {
            // Another thing has the name, or there is no room for a directory.
            let is_taken = |e: &io::Error| e.kind() == io::ErrorKind::AlreadyExists;
            return made
                .or_else(|e| if is_taken(&e) { Ok(()) } else { Err(e) })
                .map(|()| StepOutcome::NotNow);
        }
        self.permit(to, mode).map(|()| StepOutcome::Yes)
    }

    /// Replaces a file or link by another.
    fn exchange(
        &self,
        to: &Path,
        place: &PlannedChange,
        before: &ItemKind,
        content: &Path,
    ) -> io::Result<StepOutcome> {
        if !self.matches_index(to, before)? {
            return Ok(StepOutcome::NotNow);
        }
        // The new file takes the name in the trash first, so that the exchange leaves the old one there.
        let kept = self.trash.place(&place.path)?;
        let from = kept.as_deref().unwrap_or(content);
        if let Some(kept) = &kept {
            self.medium.rename(content, kept, Clobber::Replace)?;
        }
        if let Err(e) = self.medium.exchange(from, to) {
            if kept.is_some() {
                self.medium.rename(from, content, Clobber::Replace)?;
            }
            return match e.kind() {
                io::ErrorKind::Unsupported => self.replace(to, place, content),
                _ => Err(e),
            };
        }
        let is_it = self.matches_index(from, before);
        if matches!(is_it, Ok(true)) {
            self.finish_removal(from, kept.is_some(), before);
            return Ok(StepOutcome::Yes);
        }
        // A program wrote to the old file in between, or that is unknown: exchange back.
        self.medium.exchange(from, to)?;
        if kept.is_some() {
            remove(&*self.medium, from)?;
        }
        is_it.map(|_| StepOutcome::NotNow)
    }

    /// As [`Self::exchange`], on a file system that cannot exchange two files: the name is free for a moment.
    fn replace(&self, to: &Path, place: &PlannedChange, content: &Path) -> io::Result<StepOutcome> {
        let AwayFile::At { path: away, kept } = self.move_away(to, place)? else {
            return Ok(StepOutcome::NotNow);
        };
        match rename_new(&*self.medium, content, to) {
            Ok(true) => {
                self.finish_removal(&away, kept, &place.before);
                Ok(StepOutcome::Yes)
            }
            not => {
                self.put_back(&away, to)?;
                not.map(|_| StepOutcome::NotNow)
            }
        }
    }

    /// Changes only permissions and time of an existing file: a program that has it open goes on with it.
    fn describe(&self, at: &Path, before: &ItemKind, kind: &ItemKind) -> io::Result<StepOutcome> {
        let Some((mode, mtime)) = kind.description() else { return Ok(StepOutcome::Yes) };
        let meta = match self.medium.metadata(at) {
            Err(e) if means_absent(&e) => return Ok(StepOutcome::NotNow),
            meta => meta?,
        };
        let keeps_modes = self.habits.keeps_modes(&*self.medium, &self.own(""));
        let is_mode = before
            .description()
            .is_some_and(|(before, _)| !keeps_modes || meta.mode & EXCHANGED_MODES == before);
        if !self.matches_index(at, before)? || !is_mode {
            return Ok(StepOutcome::NotNow);
        }
        if let ItemKind::File { size, .. } = before {
            let file = self.opened(at)?;
            let is_it = |meta: &Meta| meta.kind == FileKind::File && meta.size == *size;
            if !is_it(&file.metadata()?) {
                return Ok(StepOutcome::NotNow);
            }
            if meta.mtime != time(mtime) {
                file.set_mtime(time(mtime))?;
            }
            // A write in between gets a time of its own.
            if !is_it(&file.metadata()?) {
                let (secs, ms) = (self.trash.now_ms() / 1_000, self.trash.now_ms() % 1_000);
                file.set_mtime(time((secs as i64, ms as u32 * 1_000_000)))?;
            }
        }
        self.permit(at, mode).map(|()| StepOutcome::Yes)
    }

    /// Keeps both versions of a path: the losing one under another name.
    fn keep_both(
        &self,
        place: &PlannedChange,
        beaten: &LosingVersion,
        content: Option<&Path>,
    ) -> io::Result<StepOutcome> {
        let alone = |before: &ItemKind| PlannedChange {
            before: before.clone(),
            losing: None,
            ..place.clone()
        };
        if beaten.whose == MergeSide::Theirs {
            let (path, item) = (beaten.to.clone(), beaten.item.clone());
            let copy = PlannedChange { path, item, before: ItemKind::Gone, losing: None };
            if !self.has(&copy.path, &copy.item.kind)
                && !matches!(self.put(&copy, content)?, StepOutcome::Yes)
            {
                return Err(name_taken_error(&copy.path));
            }
            return match place.item.kind == place.before {
                true => Ok(StepOutcome::Yes),
                false => self.put(&alone(&place.before), None),
            };
        }
        match self.set_aside(&beaten.to, place)? {
            AsideOutcome::NotNow => Ok(StepOutcome::NotNow),
            AsideOutcome::There => self.put(&alone(&place.before), content),
            AsideOutcome::Moved => {
                let done = self.put(&alone(&ItemKind::Gone), content);
                if !matches!(done, Ok(StepOutcome::Yes)) {
                    // The file gets its name back, unless that was taken meanwhile.
                    let (from, to) = (
                        self.place(&beaten.to, Parents::Exist)?,
                        self.place(&place.path, Parents::Exist)?,
                    );
                    rename_new(&*self.medium, &from, &to)?;
                }
                done
            }
        }
    }

    /// Returns whether a name has this content already, whatever the index states.
    fn has(&self, path: &[u8], kind: &ItemKind) -> bool {
        let Ok(at) = self.place(path, Parents::Exist) else { return false };
        match kind {
            ItemKind::File { root, size, .. } => {
                let meta = self.medium.metadata(&at);
                meta.is_ok_and(|meta| meta.kind == FileKind::File && meta.size == *size)
                    && has_content(&*self.medium, &at, root)
            }
            kind => !kind.is_gone() && self.matches_index(&at, kind).unwrap_or(false),
        }
    }

    fn remove(&self, place: &PlannedChange) -> io::Result<StepOutcome> {
        self.keeps_apart(&place.path)?;
        let at = match self.place(&place.path, Parents::Exist) {
            Err(e) if means_absent(&e) => return Ok(StepOutcome::Yes),
            at => at?,
        };
        match &place.before {
            ItemKind::Gone => Ok(StepOutcome::Yes),
            ItemKind::Directory { .. } => {
                Ok(if self.remove_directory(&at)? { StepOutcome::Yes } else { StepOutcome::Stays })
            }
            _ => {
                Ok(if self.take_away(&at, place)? { StepOutcome::Yes } else { StepOutcome::NotNow })
            }
        }
    }

    /// Finishes the removal of a file: it is recorded in the trash, or deleted. One that cannot be deleted stays in the
    /// folder's own directory until the next one takes its name.
    fn finish_removal(&self, at: &Path, kept: bool, what: &ItemKind) {
        if kept {
            self.trash.record_arrival(at.to_path_buf(), what);
        } else {
            let _ = self.medium.remove_file(at);
        }
    }

    /// Removes a file or link if it is what is expected.
    fn take_away(&self, at: &Path, place: &PlannedChange) -> io::Result<bool> {
        Ok(match self.move_away(at, place)? {
            AwayFile::None => true,
            AwayFile::Changed => false,
            AwayFile::At { path, kept } => {
                self.finish_removal(&path, kept, &place.before);
                true
            }
        })
    }

    /// Moves a file or link out of the folder if it is what is expected.
    fn move_away(&self, at: &Path, place: &PlannedChange) -> io::Result<AwayFile> {
        let before = &place.before;
        if self.medium.metadata(at).is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
            return Ok(AwayFile::None);
        }
        if !self.matches_index(at, before)? {
            return Ok(AwayFile::Changed);
        }
        let kept = self.trash.place(&place.path)?;
        let is_kept = kept.is_some();
        let path = kept.unwrap_or_else(|| self.own("leaving"));
        self.medium.rename(at, &path, Clobber::Replace)?;
        let is_it = self.matches_index(&path, before);
        if matches!(is_it, Ok(true)) {
            return Ok(AwayFile::At { path, kept: is_kept });
        }
        self.put_back(&path, at)?;
        is_it.map(|_| AwayFile::Changed)
    }

    /// Gives a file that was moved away its name back.
    fn put_back(&self, away: &Path, at: &Path) -> io::Result<()> {
        if !rename_new(&*self.medium, away, at)? {
            // Both the removed file and the new one are the user's, so the removed one gets another name.
            let mut other = os_bytes(at.as_os_str());
            other.extend_from_slice(b".kept");
            rename_new(&*self.medium, away, &os_path(&other))?;
        }
        Ok(())
    }

    fn set_aside(&self, to: &[u8], place: &PlannedChange) -> io::Result<AsideOutcome> {
        self.keeps_apart(&place.path)?;
        let (from, at) =
            (self.place(&place.path, Parents::Exist)?, self.place(to, Parents::Create)?);
        if !self.matches_index(&from, &place.before)? {
            return Ok(AsideOutcome::NotNow);
        }
        match rename_new(&*self.medium, &from, &at)? {
            true => Ok(AsideOutcome::Moved),
            false if self.has(to, &place.before) => Ok(AsideOutcome::There),
            false => Err(name_taken_error(to)),
        }
    }

    /// Returns whether the path matches the index.
    ///
    /// # Errors
    /// It cannot be looked at, which says nothing about a change.
    fn matches_index(&self, path: &Path, kind: &ItemKind) -> io::Result<bool> {
        let meta = match self.medium.metadata(path) {
            Err(e) if means_absent(&e) => return Ok(kind.is_gone()),
            meta => meta?,
        };
        Ok(match kind {
            ItemKind::Gone => false,
            ItemKind::File { size, mtime, .. } => {
                let found = (meta.mtime.secs, meta.mtime.nanos);
                meta.kind == FileKind::File && meta.size == *size && is_time(*mtime, found)
            }
            ItemKind::Directory { .. } => meta.kind == FileKind::Directory,
            ItemKind::Symlink { target } => {
                meta.kind == FileKind::Symlink
                    && os_bytes(self.medium.read_link(path)?.as_os_str()) == *target
            }
        })
    }

    /// Gives a file that is not in its place yet its permissions and time.
    fn describe_fresh(&self, path: &Path, mode: u32, mtime: (i64, u32)) -> io::Result<()> {
        // A time can be set only on a file that can be written to.
        self.permit(path, mode | 0o600)?;
        self.medium.set_mtime(path, time(mtime))?;
        self.permit(path, mode)
    }

    /// Opens a file to set its time, without following a link or blocking.
    fn opened(&self, at: &Path) -> io::Result<Arc<dyn MediumFile>> {
        // Unix needs no right to write for that, and the file may deny it.
        let how = if cfg!(unix) { OpenHow::ReadNoFollow } else { OpenHow::ReadWrite };
        match self.medium.open(at, how) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                // The owner may not read the file, but may grant itself that for this moment.
                self.medium.set_mode(at, self.medium.metadata(at)?.mode | 0o400)?;
                self.medium.open(at, how)
            }
            file => file,
        }
    }

    /// Sets the permission bits that are exchanged.
    fn permit(&self, path: &Path, mode: u32) -> io::Result<()> {
        let others = self.medium.metadata(path)?.mode & !EXCHANGED_MODES;
        self.medium.set_mode(path, others | (mode & EXCHANGED_MODES))
    }

    /// Removes a directory; false if it is not empty.
    fn remove_directory(&self, path: &Path) -> io::Result<bool> {
        match self.medium.remove_dir(path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// Makes the item of a directory that stays although `item` removed or replaced it. The next scan finds its extended
/// attributes.
fn kept_item(kind: ItemKind, item: IndexItem) -> IndexItem {
    IndexItem { kind, attributes: None, unapplied: false, ..item }
}

/// Makes the error that a copy's name is taken.
fn name_taken_error(name: &[u8]) -> io::Error {
    let why = format!("the name of its conflict copy is taken: {}", os_path(name).display());
    io::Error::new(io::ErrorKind::AlreadyExists, why)
}

/// Returns whether the error means that nothing can be at the path.
fn means_absent(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Removes a file, a link or an empty directory.
fn remove(medium: &dyn Medium, path: &Path) -> io::Result<()> {
    if is_directory(medium, path) { medium.remove_dir(path) } else { medium.remove_file(path) }
}

/// Makes a directory, unless it exists.
fn make_dir(medium: &dyn Medium, dir: &Path) -> io::Result<()> {
    match medium.create_dir(dir, NEW_DIRECTORY) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Returns whether a readable file has the content with this root.
pub fn has_content(medium: &dyn Medium, path: &Path, root: &Hash) -> bool {
    let size = SegmentSize::DEFAULT;
    let hashed = hash_file(medium, path, None, size, None, &mut Vec::new(), &|_| ());
    hashed.is_ok_and(|hashed| hashed.root == *root)
}

fn time(mtime: (i64, u32)) -> FileTime {
    let (secs, nanos) = mtime;
    FileTime { secs, nanos }
}

#[cfg(test)]
mod tests;
