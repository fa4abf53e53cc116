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
//! Removed files stay in the trash until everything is done. A file is then deleted if its content is elsewhere in the
//! folder, as that of moved files is. If the process ends in between, the content is in at least one of the two places.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xylem_base::{os_bytes, os_path};
use xylem_files::copies::copy_of;
use xylem_hash::Hash;
use xylem_store::{DiskMedium, hash_file};
use xylem_tree::SegmentSize;

use super::error::FolderError;
use super::index::{IndexItem, ItemKind, check, is_time, name};
use super::local::SyncFolder;
use super::merge::{LosingVersion, MergeSide, Plan, PlannedChange, copy_path};
use super::obstacles::ObstacleKind;
use super::place::{Parents, UnlockedParents, mode_of, set_mode, within};
use super::stored::IndexSource;

/// Permission bits that are exchanged; other bits stay as they are.
const EXCHANGED_MODES: u32 = 0o777;
/// Directory for copies of files that could not be renamed, until they are in place.
const MOVED: &str = "moved";
/// File that comes next to its place.
const FRESH: &str = "placing";
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

/// Where incoming files are found.
struct IncomingFiles<'a> {
    /// Directory of the fetched files.
    staged: &'a Path,
    /// Paths below `staged`, by content.
    wanted: &'a HashMap<Hash, Vec<u8>>,
    /// How often each content is still needed.
    uses: HashMap<Hash, usize>,
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
        self.looked.plan(&self.root, files.map(|place| &place.path));
        let (renames, uses) = (plan.renames(), plan.uses());
        let mut incoming = IncomingFiles { staged, wanted, uses, moved: HashMap::new() };
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
        self.settle()?;
        self.delete_moved_from_trash()?;
        Ok(applied)
    }

    /// Removes incoming copies that were not put anywhere.
    fn remove_incoming_copies(&self) {
        let _ = fs::remove_dir_all(self.own(MOVED));
        let _ = fs::remove_file(self.own(FRESH));
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
                .is_ok_and(|at| !self.looked.is_untouched(&place.path, &at))
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
                let unlock = |path: &&[u8]| UnlockedParents::on_the_way(&self.root, path);
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
            fs::create_dir_all(self.own(MOVED))?;
            if matches_index(&at, &from.before) { fs::copy(at, &copy) } else { Ok(0) }
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
        if !matches_index(&old, &from.before) || !rename_new(&old, &new)? {
            return Ok(false);
        }
        // Later writes to the file are seen at the next scan.
        let _ = self.describe(&new, &from.before, &to.item.kind);
        Ok(true)
    }

    fn keeps_apart(&self, path: &[u8]) -> io::Result<()> {
        self.habits.check_exact_name(&self.own(""), &self.root, path)
    }

    /// Deletes files that just arrived in the trash, if the folder has their content under some name.
    fn delete_moved_from_trash(&self) -> Result<(), FolderError> {
        let mut kept: HashMap<LostContent, Vec<PathBuf>> = HashMap::new();
        for (path, what) in self.trash.take_arrivals() {
            if let Some(content) = LostContent::of(what) {
                kept.entry(content).or_default().push(path);
            }
        }
        // The content in the folder has to be on the disk first; else both stay.
        if kept.is_empty() || write_through(&self.root).is_err() {
            return Ok(());
        }
        for entry in self.stored.entries()? {
            let (path, IndexItem { kind, absent: false, .. }) = entry? else { continue };
            // A file that was changed meanwhile no longer has the content.
            let is_there =
                |kind| self.place(&path, Parents::Exist).is_ok_and(|at| matches_index(&at, kind));
            // Both files are read before one is deleted: size and time prove nothing.
            let still_there = |at: &Path, content: &LostContent| match content {
                LostContent::Root(root) => has_content(at, root),
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
        let _ = fs::remove_file(&fresh);
        let kind = match &place.losing {
            Some(LosingVersion { item, whose: MergeSide::Theirs, .. }) => &item.kind,
            _ if place.item.kind.has_content_of(&place.before) => return Ok(None),
            _ => &place.item.kind,
        };
        match kind {
            ItemKind::File { root, mode, mtime, .. } => {
                if let Some(moved) = incoming.moved.get(root) {
                    fs::copy(moved, &fresh)?;
                } else {
                    let from = incoming.wanted.get(root).ok_or(io::ErrorKind::NotFound)?;
                    let from = incoming.staged.join(os_path(from));
                    let left = incoming.uses.get_mut(root).map_or(1, |left| {
                        *left = left.saturating_sub(1);
                        *left
                    });
                    if left == 0 {
                        fs::rename(&from, &fresh)?;
                    } else {
                        fs::copy(&from, &fresh)?;
                    }
                }
                describe(&fresh, *mode, *mtime)?;
            }
            ItemKind::Symlink { target } => link(&os_path(target), &fresh)?,
            ItemKind::Directory { .. } | ItemKind::Gone => return Ok(None),
        }
        Ok(Some(fresh))
    }

    /// Resolves a path. An unreadable path is an error, not an absent one.
    pub(super) fn place(&self, path: &[u8], parents: Parents) -> io::Result<PathBuf> {
        let at = within(&self.root, path, parents)?;
        match at.symlink_metadata() {
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
                if !remove_directory(&to)? {
                    return Ok(StepOutcome::Stays);
                }
            }
            before => return self.exchange(&to, place, before, content),
        }
        Ok(if rename_new(content, &to)? { StepOutcome::Yes } else { StepOutcome::NotNow })
    }

    fn put_directory(&self, to: &Path, place: &PlannedChange) -> io::Result<StepOutcome> {
        let ItemKind::Directory { mode } = place.item.kind else { return Ok(StepOutcome::NotNow) };
        if !place.before.is_gone() && !self.take_away(to, place)? {
            return Ok(StepOutcome::NotNow);
        }
        let made = fs::create_dir(to);
        if made.is_err() && !to.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            // Another thing has the name, or there is no room for a directory.
            let is_taken = |e: &io::Error| e.kind() == io::ErrorKind::AlreadyExists;
            return made
                .or_else(|e| if is_taken(&e) { Ok(()) } else { Err(e) })
                .map(|()| StepOutcome::NotNow);
        }
        permit(to, mode).map(|()| StepOutcome::Yes)
    }

    /// Replaces a file or link by another.
    fn exchange(
        &self,
        to: &Path,
        place: &PlannedChange,
        before: &ItemKind,
        content: &Path,
    ) -> io::Result<StepOutcome> {
        if !matches_index(to, before) {
            return Ok(StepOutcome::NotNow);
        }
        // The new file takes the name in the trash first, so that the exchange leaves the old one there.
        let kept = self.trash.place(&place.path)?;
        let from = kept.as_deref().unwrap_or(content);
        if let Some(kept) = &kept {
            fs::rename(content, kept)?;
        }
        if let Err(e) = exchange(from, to, &self.own("third")) {
            if kept.is_some() {
                fs::rename(from, content)?;
            }
            return Err(e);
        }
        if matches_index(from, before) {
            self.finish_removal(from, kept.is_some(), before)?;
            return Ok(StepOutcome::Yes);
        }
        // A program wrote to the old file in between: exchange back.
        exchange(from, to, &self.own("third"))?;
        if kept.is_some() {
            fs::remove_file(from)?;
        }
        Ok(StepOutcome::NotNow)
    }

    /// Changes only permissions and time of an existing file: a program that has it open goes on with it.
    fn describe(&self, at: &Path, before: &ItemKind, kind: &ItemKind) -> io::Result<StepOutcome> {
        let Some((mode, mtime)) = kind.description() else { return Ok(StepOutcome::Yes) };
        let Ok(meta) = at.symlink_metadata() else { return Ok(StepOutcome::NotNow) };
        let keeps_modes = self.habits.keeps_modes(&self.own(""));
        let is_mode = before
            .description()
            .is_some_and(|(before, _)| !keeps_modes || mode_of(&meta) & EXCHANGED_MODES == before);
        if !matches_index(at, before) || !is_mode {
            return Ok(StepOutcome::NotNow);
        }
        if let ItemKind::File { size, .. } = before {
            let file = opened(at)?;
            let is_it = |meta: &Metadata| meta.is_file() && meta.len() == *size;
            if !is_it(&file.metadata()?) {
                return Ok(StepOutcome::NotNow);
            }
            if let Some(time) = time(mtime).filter(|_| modified(&meta) != Some(mtime)) {
                file.set_modified(time)?;
            }
            // A write in between gets a time of its own.
            if !is_it(&file.metadata()?) {
                file.set_modified(UNIX_EPOCH + Duration::from_millis(self.trash.now_ms()))?;
            }
        }
        permit(at, mode).map(|()| StepOutcome::Yes)
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
                    rename_new(&from, &to)?;
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
                let meta = at.symlink_metadata();
                meta.is_ok_and(|meta| meta.is_file() && meta.len() == *size)
                    && has_content(&at, root)
            }
            kind => !kind.is_gone() && matches_index(&at, kind),
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
                Ok(if remove_directory(&at)? { StepOutcome::Yes } else { StepOutcome::Stays })
            }
            _ => {
                Ok(if self.take_away(&at, place)? { StepOutcome::Yes } else { StepOutcome::NotNow })
            }
        }
    }

    /// Finishes the removal of a file: it is recorded in the trash, or deleted.
    fn finish_removal(&self, at: &Path, kept: bool, what: &ItemKind) -> io::Result<()> {
        if kept {
            self.trash.record_arrival(at.to_path_buf(), what);
            return Ok(());
        }
        fs::remove_file(at)
    }

    /// Removes a file or link if it is what is expected.
    fn take_away(&self, at: &Path, place: &PlannedChange) -> io::Result<bool> {
        let before = &place.before;
        if at.symlink_metadata().is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
            return Ok(true);
        }
        if !matches_index(at, before) {
            return Ok(false);
        }
        let kept = self.trash.place(&place.path)?;
        let is_kept = kept.is_some();
        let away = kept.unwrap_or_else(|| self.own("leaving"));
        fs::rename(at, &away)?;
        if matches_index(&away, before) {
            return self.finish_removal(&away, is_kept, before).map(|()| true);
        }
        if !rename_new(&away, at)? {
            // Both the removed file and the new one are the user's, so the removed one gets another name.
            let mut other = os_bytes(at.as_os_str());
            other.extend_from_slice(b".kept");
            rename_new(&away, &os_path(&other))?;
        }
        Ok(false)
    }

    fn set_aside(&self, to: &[u8], place: &PlannedChange) -> io::Result<AsideOutcome> {
        self.keeps_apart(&place.path)?;
        let (from, at) =
            (self.place(&place.path, Parents::Exist)?, self.place(to, Parents::Create)?);
        if !matches_index(&from, &place.before) {
            return Ok(AsideOutcome::NotNow);
        }
        match rename_new(&from, &at)? {
            true => Ok(AsideOutcome::Moved),
            false if self.has(to, &place.before) => Ok(AsideOutcome::There),
            false => Err(name_taken_error(to)),
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

/// Returns whether a readable file has the content with this root.
pub fn has_content(path: &Path, root: &Hash) -> bool {
    let (medium, size) = (DiskMedium::new(), SegmentSize::DEFAULT);
    let hashed = hash_file(&medium, path, None, size, None, &mut Vec::new(), &|_| ());
    hashed.is_ok_and(|hashed| hashed.root == *root)
}

/// Flushes the folder's file system to the disk, so that writes survive a power loss. Linux does so in one call;
/// elsewhere this does nothing.
fn write_through(folder: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(File::open(folder)?)?;
    let _ = folder;
    Ok(())
}

/// Returns whether the path matches the index.
fn matches_index(path: &Path, kind: &ItemKind) -> bool {
    let meta = path.symlink_metadata();
    match (kind, meta) {
        (ItemKind::Gone, meta) => meta.is_err_and(|e| e.kind() == io::ErrorKind::NotFound),
        (_, Err(_)) => false,
        (ItemKind::File { size, mtime, .. }, Ok(meta)) => {
            let is_time = |found| is_time(*mtime, found);
            meta.is_file() && meta.len() == *size && modified(&meta).is_some_and(is_time)
        }
        (ItemKind::Directory { .. }, Ok(meta)) => meta.is_dir(),
        (ItemKind::Symlink { target }, Ok(_)) => {
            fs::read_link(path).is_ok_and(|found| os_bytes(found.as_os_str()) == *target)
        }
    }
}

fn modified(meta: &Metadata) -> Option<(i64, u32)> {
    let time = meta.modified().ok()?;
    Some(match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (i64::try_from(after.as_secs()).ok()?, after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let secs = i64::try_from(before.as_secs()).ok()?;
            match before.subsec_nanos() {
                0 => (-secs, 0),
                nanos => (-secs - 1, 1_000_000_000 - nanos),
            }
        }
    })
}

fn time(mtime: (i64, u32)) -> Option<SystemTime> {
    let (secs, nanos) = mtime;
    let whole = Duration::from_secs(secs.unsigned_abs());
    let time = if secs < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    time?.checked_add(Duration::from_nanos(nanos.into()))
}

fn describe(path: &Path, mode: u32, mtime: (i64, u32)) -> io::Result<()> {
    if let Some(time) = time(mtime) {
        // A time can be set only on a file that can be written to.
        permit(path, mode | 0o600)?;
        File::options().write(true).open(path)?.set_modified(time)?;
    }
    permit(path, mode)
}

/// Opens a file to set its time, without following a link or blocking.
#[cfg(unix)]
fn opened(at: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, open};
    let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match open(at, how, Mode::empty()) {
        Err(rustix::io::Errno::ACCESS) => {
            // The owner may not read the file, but may grant itself that for this moment.
            set_mode(at, mode_of(&at.symlink_metadata()?) | 0o400)?;
            Ok(open(at, how, Mode::empty())?.into())
        }
        file => Ok(file?.into()),
    }
}

#[cfg(not(unix))]
fn opened(at: &Path) -> io::Result<File> {
    File::options().write(true).open(at)
}

/// Sets the permission bits that are exchanged.
fn permit(path: &Path, mode: u32) -> io::Result<()> {
    let others = mode_of(&path.symlink_metadata()?) & !EXCHANGED_MODES;
    set_mode(path, others | (mode & EXCHANGED_MODES))
}

#[cfg(unix)]
pub(super) fn link(target: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(not(unix))]
pub(super) fn link(_target: &Path, _at: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Removes a directory; false if it is not empty.
fn remove_directory(path: &Path) -> io::Result<bool> {
    match fs::remove_dir(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(e) => Err(e),
    }
}

/// Renames to a free name; false if that is taken.
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<bool> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(true),
            Err(rustix::io::Errno::EXIST) => return Ok(false),
            // Some file systems lack the flag: check first instead.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
            Err(e) => return Err(e.into()),
        }
    }
    if to.symlink_metadata().is_ok() {
        return Ok(false);
    }
    fs::rename(from, to).map(|()| true)
}

/// Exchanges the names of two files; `third` is a free name.
pub(super) fn exchange(one: &Path, other: &Path, third: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
            done => return Ok(done?),
        }
    }
    // Without the system call, the name is free for a moment.
    fs::rename(other, third)?;
    fs::rename(one, other)?;
    fs::rename(third, one)
}

#[cfg(test)]
mod tests;
