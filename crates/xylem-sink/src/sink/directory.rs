//! [`DirectorySink`]: a directory: its listing first, then its files in listing order, links and attributes last.
//!
//! The listing stays on disk ([`ListedFiles`]) and is passed over several times: to select what is wanted, to compare
//! with an earlier run, to fetch, for the links, and in reverse for the attributes of directories. Memory holds only
//! what is under way.

pub(super) mod copies;
mod merge;
mod tree;
mod updates;

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use xylem_base::os_path;
use xylem_files::held::Holdings;
use xylem_files::{
    Exclusion, FetchMode, LibraryEvent, Listed, ListedEntries, ListedError, ListedFiles,
    ListedSize, Only, SaveOptions, SkipReason, SpaceCheck,
};
use xylem_object::listing::{self, Entry, EntryKind};
use xylem_object::{Manifest, ObjectId};
use xylem_store::{
    Attributes, FileKind, ObjectPart, OutboardFile, OverwritePolicy, Partial, Staging, Store,
    StoreError,
};
use xylem_tree::{Segment, Verified};

use super::attributes::attributes_of;
use super::context::{Context, FLUSH_EVERY, Nodes, Sink};
use super::destination::{Destination, require_room};
use super::dry::DryRun;
use super::error::SaveError;
use super::file::resume;
use copies::Copies;
use merge::{Merge, MergeRules};
use tree::StagedTree;
use updates::Updates;

/// Most files named to the caller before the fetch.
const MAX_NAMED: usize = 1_000;
/// Most concurrent fetches of one directory that are at its listing.
const MAX_LISTINGS: u32 = 16;

/// A directory that is being fetched.
pub(super) struct DirectorySink {
    manifest: Manifest,
    to: Destination,
    exclude: Exclusion,
    delete: bool,
    like: Vec<PathBuf>,
    only: Option<Only>,
    room: SpaceCheck,
    doing: FetchMode,
    /// Whether a dry run has reported its plan.
    plan_reported: bool,
    store: Store,
    /// The listing while it arrives.
    listing: Option<Partial>,
    tree: Option<StagedTree>,
    flush_at: Duration,
}

impl DirectorySink {
    pub(super) fn new(
        manifest: Manifest,
        to: Destination,
        options: &SaveOptions,
        store: &Store,
    ) -> Result<Self, SaveError> {
        let exclude = Exclusion::new(&options.exclude)?
            .but(options.only.as_ref().map(|only| only.paths.clone()));
        Ok(Self {
            manifest,
            to,
            exclude,
            delete: options.delete,
            like: options.like.clone(),
            only: options.only.clone(),
            room: options.room,
            doing: options.doing,
            plan_reported: false,
            store: store.clone(),
            listing: None,
            tree: None,
            flush_at: Duration::ZERO,
        })
    }

    fn open_listing(&mut self, cx: &mut Context<'_>) -> Result<(), SaveError> {
        let (root, geometry) = (self.manifest.root, self.manifest.geometry());
        // Another fetch of the same directory, to another place, may be at its listing.
        let mut path = self.store.partial_path(&root, ObjectPart::Listing);
        let mut resuming = Partial::open(&self.store, root, geometry, &path);
        for n in 1..MAX_LISTINGS {
            if !matches!(resuming, Err(StoreError::Busy { .. })) {
                break;
            }
            path.set_file_name(format!("{root}-{n:x}.listing"));
            resuming = Partial::open(&self.store, root, geometry, &path);
        }
        let resuming = resuming?;
        self.listing = Some(resume(resuming, ObjectId::Root, root, geometry, cx)?.0);
        Ok(())
    }

    /// Returns the listing of an earlier fetch or share, if it is here and valid.
    fn kept_listing(&self) -> Result<Option<ListedFiles>, SaveError> {
        let (root, size) = (&self.manifest.root, self.manifest.size);
        let Some(file) = self.store.object(root, ObjectPart::Listing).ok().flatten() else {
            return Ok(None);
        };
        match ListedFiles::open(file, size, root, self.manifest.segment) {
            Ok(listed) => Ok(Some(listed)),
            Err(bad @ ListedError::Bad(_)) => Err(bad.into()),
            Err(_) => Ok(None),
        }
    }

    /// Serves the listing of an earlier run, if its tree is here too.
    fn offer_kept_listing(&self, holdings: &Holdings) {
        let object = |part| self.store.object(&self.manifest.root, part).ok().flatten();
        if let (Some(file), Some(outboard)) =
            (object(ObjectPart::Listing), object(ObjectPart::Outboard))
        {
            holdings.kept(&self.manifest.geometry(), file, OutboardFile::new(outboard));
        }
    }

    /// Prepares the files of the proven listing.
    fn plan(&mut self, listed: ListedFiles, cx: &mut Context<'_>) -> Result<(), SaveError> {
        self.manifest.check_totals(listed.totals())?;
        let mut contents = Vec::new();
        for found in listed.entries() {
            let Listed { entry, number, .. } = found?;
            if self.exclude.leaves_out(&entry) {
                continue;
            }
            check_name_here(&entry.path)?;
            self.check_expected_root(&entry)?;
            match &entry.kind {
                EntryKind::File { size, .. } => {
                    cx.tally.pieces.file(number, cx.tally.total);
                    cx.tally.total += size;
                    cx.tally.files += 1;
                    if contents.len() < MAX_NAMED {
                        contents.push(ListedSize { path: os_path(&entry.path), size: *size });
                    }
                }
                EntryKind::HardLink { target } if self.exclude.matches(target, false) => {
                    let (path, target) = (os_path(&entry.path), os_path(target));
                    let why = SkipReason::TargetExcluded(target);
                    (cx.on_event)(LibraryEvent::Skipped { path, why });
                }
                _ => {}
            }
        }
        if self.doing == FetchMode::DryRun {
            self.plan_reported = true;
            return self.report_plan(&listed, cx);
        }
        let more = cx.tally.files.saturating_sub(contents.len() as u64);
        (cx.on_event)(LibraryEvent::Contents { files: contents, more });
        let mut kinds = WantedKinds::new(&listed, &self.exclude, None);
        let mut kind = |path: &[u8]| kinds.of(path);
        let staging = Staging::open(&self.store, self.manifest.root, &self.to.part, &mut kind);
        let staging = staging?;
        if let Some(holdings) = cx.holdings {
            let outboards = staging.outboard().clone();
            holdings.plan(staging.path(), &self.to.path, listed.clone(), outboards);
        }
        // The outboard of a resumed run has nodes that must not be overwritten.
        let nodes = (!staging.was_resumed()).then(|| staging.outboard());
        let merge = self.merge(nodes, &listed, cx)?;
        if let Err(e) = self.require_room(&staging, &listed, merge.as_ref()) {
            let (place, is_new) = (staging.path().to_path_buf(), !staging.was_resumed());
            drop(staging);
            if is_new {
                let _ = self.store.medium().remove_dir(&place);
            }
            return Err(e);
        }
        let (exclude, segment) = (self.exclude.clone(), self.manifest.segment);
        let updates = Updates::new(&self.manifest, &self.like, &self.store);
        let copies = self.copies(&listed, merge.as_ref(), cx)?;
        let mut tree = StagedTree::new(staging, listed, exclude, merge, segment, updates);
        tree.use_copies(copies);
        if self.only.is_some() {
            tree.leave_refused();
        }
        self.tree = Some(tree);
        Ok(())
    }

    /// Checks that there is room for what is missing, without what an earlier run left.
    fn require_room(
        &self,
        staging: &Staging,
        listed: &ListedFiles,
        merge: Option<&Merge>,
    ) -> Result<(), SaveError> {
        let mut missing = 0_u64;
        for found in listed.entries() {
            let Listed { entry, number, .. } = found?;
            let stays = merge.is_some_and(|merge| merge.keeps(number));
            if let EntryKind::File { size, .. } = entry.kind
                && !stays
                && !self.exclude.leaves_out(&entry)
            {
                missing = missing.saturating_add(size);
            }
        }
        let missing = missing.saturating_sub(staging.found());
        // A folder in step takes over what fits.
        let room = if self.only.is_some() { SpaceCheck::AsFarAsItGoes } else { self.room };
        require_room(&**self.store.medium(), staging.path(), missing, room)
    }

    /// Reports what would be done, and does nothing.
    fn report_plan(&self, listed: &ListedFiles, cx: &mut Context<'_>) -> Result<(), SaveError> {
        let mut plan = DryRun::default();
        let mut merge = self.merge(None, listed, cx)?;
        let medium = &**self.store.medium();
        for found in listed.entries() {
            let Listed { entry, number, .. } = found?;
            let is_folder = entry.kind == EntryKind::Directory;
            if is_folder || self.exclude.leaves_out(&entry) {
                continue;
            }
            let path = os_path(&entry.path);
            let there = merge.as_mut().map(|merge| merge.there(&entry.path)).transpose()?.flatten();
            let size = match &entry.kind {
                EntryKind::File { .. } if merge.as_ref().is_some_and(|m| m.keeps(number)) => {
                    continue;
                }
                EntryKind::File { size, .. } => *size,
                EntryKind::Symlink { target }
                    if there.as_ref().is_some_and(|place| {
                        medium.read_link(place).is_ok_and(|is| is == os_path(target))
                    }) =>
                {
                    continue;
                }
                // Whether two names are one file already is found when they are made.
                EntryKind::HardLink { .. } if there.is_some() => continue,
                _ => 0,
            };
            plan.add_file(path, size, there.is_some(), cx.on_event);
        }
        plan.removed = merge.as_ref().map_or(0, Merge::removes);
        plan.end(cx.on_event);
        Ok(())
    }

    /// Checks that an entry has the root that the caller expects. The caller relies on roots announced by another
    /// member.
    fn check_expected_root(&self, entry: &Entry) -> Result<(), SaveError> {
        let Some(only) = &self.only else { return Ok(()) };
        let Some(said) = only.roots.get(&entry.path) else { return Ok(()) };
        let holds = match &entry.kind {
            EntryKind::File { root, .. } => root == said,
            EntryKind::HardLink { target } => only.roots.get(target) == Some(said),
            EntryKind::Directory | EntryKind::Symlink { .. } => false,
        };
        if holds { Ok(()) } else { Err(SaveError::UnexpectedRoot(os_path(&entry.path))) }
    }

    /// Finds missing files elsewhere in the existing directory, or in old copies of it, under any name.
    fn copies(
        &self,
        listed: &ListedFiles,
        merge: Option<&Merge>,
        cx: &mut Context<'_>,
    ) -> Result<Copies, SaveError> {
        if let Some(only) = &self.only {
            return Ok(Copies::known(self.store.medium(), only));
        }
        let there = merge.is_some().then(|| self.to.path.clone());
        let places: Vec<PathBuf> = there.into_iter().chain(self.like.iter().cloned()).collect();
        let stays = |number| merge.is_some_and(|merge| merge.keeps(number));
        let missing = |l: &Listed| !stays(l.number) && !self.exclude.leaves_out(&l.entry);
        Copies::find(self.store.medium(), &places, listed, &missing, cx.on_event)
    }

    /// Prepares a merge, if there is a directory that may be changed.
    fn merge(
        &self,
        nodes: Option<&OutboardFile>,
        listed: &ListedFiles,
        cx: &mut Context<'_>,
    ) -> Result<Option<Merge>, SaveError> {
        let (store, path) = (&self.store, &self.to.path);
        let there = store.medium().metadata(path).is_ok_and(|m| m.kind == FileKind::Directory);
        if self.to.policy != OverwritePolicy::Replace || !there {
            return Ok(None);
        }
        let segment = self.manifest.segment;
        let rules = MergeRules { exclude: &self.exclude, delete: self.delete, segment };
        Merge::plan(store, path, listed, rules, nodes, cx).map(Some)
    }
}

/// Refuses a name that is invalid on this system before anything is fetched.
fn check_name_here(path: &[u8]) -> Result<(), SaveError> {
    if cfg!(windows)
        && let Err(source) = listing::check_path_on_windows(path)
    {
        return Err(SaveError::NameHere { path: os_path(path), source });
    }
    Ok(())
}

/// Returns the kinds that the listing wants at paths, which must be queried in order.
struct WantedKinds<'a> {
    entries: std::iter::Peekable<ListedEntries>,
    exclude: &'a Exclusion,
    merge: Option<&'a Merge>,
}

impl<'a> WantedKinds<'a> {
    /// Files that `merge` keeps in place are not wanted elsewhere.
    fn new(listed: &ListedFiles, exclude: &'a Exclusion, merge: Option<&'a Merge>) -> Self {
        Self { entries: listed.entries().peekable(), exclude, merge }
    }

    fn of(&mut self, path: &[u8]) -> Result<Option<FileKind>, StoreError> {
        let before = |found: &Result<Listed, StoreError>| {
            found.as_ref().is_ok_and(|listed| listed.entry.path.as_slice() < path)
        };
        while self.entries.next_if(before).is_some() {}
        match self
            .entries
            .next_if(|found| found.as_ref().map_or(true, |listed| listed.entry.path == path))
        {
            Some(found) => {
                let Listed { entry, number, .. } = found?;
                let kept = matches!(entry.kind, EntryKind::File { .. })
                    && self.merge.is_some_and(|merge| merge.keeps(number));
                let wanted = !kept && !self.exclude.leaves_out(&entry);
                Ok(kind(&entry).filter(|_| wanted))
            }
            None => Ok(None),
        }
    }
}

/// Returns the kind of an entry that may stay from an earlier run; links are made anew.
fn kind(entry: &Entry) -> Option<FileKind> {
    match entry.kind {
        EntryKind::File { .. } => Some(FileKind::File),
        EntryKind::Directory => Some(FileKind::Directory),
        EntryKind::Symlink { .. } | EntryKind::HardLink { .. } => None,
    }
}

impl Sink for DirectorySink {
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), SaveError> {
        match self.kept_listing()? {
            Some(listed) => {
                if let Some(holdings) = cx.holdings {
                    self.offer_kept_listing(holdings);
                }
                self.plan(listed, cx)
            }
            None => self.open_listing(cx),
        }
    }

    fn segment(
        &mut self,
        object: ObjectId,
        segment: Verified<Segment<Bytes>>,
        cx: &mut Context<'_>,
    ) -> Result<(), SaveError> {
        match (object, &mut self.tree) {
            (ObjectId::Root, _) => {
                self.listing.as_mut().map_or(Ok(()), |listing| Ok(listing.put(&segment)?))
            }
            (ObjectId::File(number), Some(tree)) => {
                cx.tally.fetched += segment.content.len() as u64;
                tree.segment(number, segment)
            }
            (ObjectId::Sums, Some(tree)) => {
                tree.list(&segment, cx);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn nodes(&mut self, object: ObjectId, nodes: Nodes) -> Result<(), SaveError> {
        match (object, &mut self.tree) {
            (ObjectId::Root, _) => {
                self.listing.as_mut().map_or(Ok(()), |listing| Ok(listing.put_nodes(&nodes)?))
            }
            (ObjectId::File(number), Some(tree)) => tree.nodes(number, &nodes),
            _ => Ok(()),
        }
    }

    fn complete(&mut self, object: ObjectId, cx: &mut Context<'_>) -> Result<(), SaveError> {
        match (object, &mut self.tree) {
            (ObjectId::File(number), Some(tree)) => tree.complete(number, cx),
            (ObjectId::Sums, Some(tree)) => tree.lists_are_here(cx),
            (ObjectId::Root, None) => {
                let Some(mut listing) = self.listing.take() else { return Ok(()) };
                let path = self.store.object_path(&self.manifest.root, ObjectPart::Listing);
                let none = Attributes::default();
                listing.finish_as(&path, &none, OverwritePolicy::Replace)?;
                drop(listing);
                match self.kept_listing()? {
                    Some(listed) => self.plan(listed, cx),
                    None => self.open_listing(cx),
                }
            }
            _ => Ok(()),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Result<Option<Duration>, SaveError> {
        let Some(tree) = &mut self.tree else { return Ok(None) };
        if cx.now >= self.flush_at {
            self.flush_at = cx.now + FLUSH_EVERY;
            cx.transfer.flush_nodes();
            tree.flush()?;
        }
        tree.poll(cx)
    }

    fn is_done(&self) -> bool {
        self.plan_reported || self.tree.as_ref().is_some_and(|tree| tree.is_complete())
    }

    fn finish(&mut self) -> Result<Option<PathBuf>, SaveError> {
        let Some(tree) = &mut self.tree else { return Ok(None) };
        tree.finish(&attributes_of(&self.manifest), &self.to.path, self.to.policy)?;
        Ok(Some(self.to.path.clone()))
    }

    fn refused(&mut self, objects: &HashSet<ObjectId>, cx: &mut Context<'_>) {
        if let Some(tree) = &mut self.tree {
            tree.postpone(objects, cx);
        }
    }

    fn end_without(
        &mut self,
        refused: &HashSet<ObjectId>,
        cx: &mut Context<'_>,
    ) -> Result<Vec<PathBuf>, SaveError> {
        match &mut self.tree {
            Some(tree) => tree.end_without(refused, cx),
            None => Ok(Vec::new()),
        }
    }

    fn left(&mut self) -> Vec<PathBuf> {
        self.tree.as_mut().map(StagedTree::take_left).unwrap_or_default()
    }

    fn warnings(&mut self) -> Vec<String> {
        self.tree.as_mut().map(StagedTree::take_warnings).unwrap_or_default()
    }
}
