//! [`StagedTree`]: the wanted entries of a verified listing, built in a directory beside the final name.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use xylem_base::os_path;
use xylem_files::held::SMALL_FILE;
use xylem_files::{Exclusion, LibraryEvent, Listed, ListedEntries, ListedFiles};
use xylem_object::ObjectId;
use xylem_object::listing::{Entry, EntryKind};
use xylem_store::{
    Attributes, OverwritePolicy, Partial, RefusedAttributes, Resumed, SmallFile, Staging,
    StoreError,
};
use xylem_tree::{Geometry, Segment, SegmentIndex, SegmentSize, TreeVerifier, Verified};

use super::copies::Copies;
use super::merge::{Merge, copied_warning};
use super::updates::{DirectoryReuse, Updates, WaitingFile, same};
use crate::sink::attributes::{attributes, warn_of_unset, warnings};
use crate::sink::context::{Context, Nodes};
use crate::sink::error::SaveError;
use crate::sink::file::{fetch_all, read_back, resume_partial};
use crate::update::{Update, UpdateStart};

mod review;

/// Listing entries handed over at once.
const BATCH: usize = 256;

/// The directory under construction, once its listing is known.
pub(super) struct StagedTree {
    staging: Staging,
    listed: ListedFiles,
    exclude: Exclusion,
    /// The existing directory into which it goes.
    merge: Option<Merge>,
    /// Whole files elsewhere on this machine.
    copies: Copies,
    /// Entries not handed to the transfer yet; `None` after the last.
    next: Option<ListedEntries>,
    segment_size: SegmentSize,
    under_way: HashMap<u64, PendingFile>,
    /// Files that were refused, to be requested after all others; `None` once they have been.
    postponed: Option<Vec<Listed>>,
    /// Whether refused files are left out instead of requested again.
    leaves_refused: bool,
    /// Files that were left out.
    left: Vec<PathBuf>,
    updates: Updates,
    /// Whether content of an earlier run was reported.
    has_reported: bool,
    /// Whether links are made and attributes set.
    complete: bool,
    /// How often a review at the end found a change by another program.
    reviews: u32,
    unset: u64,
    /// Warnings of the last steps.
    warnings: Vec<String>,
}

enum PendingFile {
    Small {
        listed: Box<Listed>,
        geometry: Geometry,
        segments: Vec<Verified<Segment<Bytes>>>,
    },
    /// `update`: the file is being made from old copies.
    Large {
        listed: Box<Listed>,
        partial: Box<Partial>,
        update: Option<Box<Update>>,
    },
}

fn small(entry: &Entry) -> Option<SmallFile<'_>> {
    match entry.kind {
        EntryKind::File { size, root } if size <= SMALL_FILE => {
            Some(SmallFile { path: &entry.path, size, root })
        }
        _ => None,
    }
}

pub(super) fn entry_attributes(entry: &Entry) -> Attributes {
    attributes(entry.mode, entry.mtime_s, entry.mtime_ns)
}

/// Marks a file of the directory as complete, so that it can be served.
fn is_whole(number: u64, cx: &Context<'_>) {
    if let Some(holdings) = cx.holdings {
        holdings.whole(number);
    }
}

impl StagedTree {
    pub(super) fn new(
        staging: Staging,
        listed: ListedFiles,
        exclude: Exclusion,
        merge: Option<Merge>,
        segment_size: SegmentSize,
        updates: Updates,
    ) -> Self {
        Self {
            staging,
            merge,
            copies: Copies::default(),
            warnings: Vec::new(),
            next: Some(listed.entries()),
            listed,
            exclude,
            segment_size,
            under_way: HashMap::new(),
            postponed: Some(Vec::new()),
            leaves_refused: false,
            left: Vec::new(),
            updates,
            has_reported: false,
            complete: false,
            reviews: 0,
            unset: 0,
        }
    }

    /// Sets the files found elsewhere on this machine.
    pub(super) fn use_copies(&mut self, copies: Copies) {
        self.copies = copies;
    }

    /// Leaves refused files out instead of requesting them again: the caller tries them later.
    pub(super) fn leave_refused(&mut self) {
        self.leaves_refused = true;
    }

    /// Takes the files that were left out.
    pub(super) fn take_left(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.left)
    }

    /// Returns whether all files are here, links made and attributes set.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Takes the warnings of the last steps, one a line.
    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        self.warnings.extend(warnings(&self.staging.take_unset()));
        std::mem::take(&mut self.warnings)
    }

    /// Saves a segment of a file.
    pub(super) fn segment(
        &mut self,
        number: u64,
        segment: Verified<Segment<Bytes>>,
    ) -> Result<(), SaveError> {
        match self.under_way.get_mut(&number) {
            Some(PendingFile::Small { segments, .. }) => segments.push(segment),
            Some(PendingFile::Large { partial, update, .. }) => {
                if let Some(update) = update {
                    update.segment(segment.index);
                }
                partial.put(&segment)?;
            }
            None => {}
        }
        Ok(())
    }

    /// Saves nodes of a file's tree.
    pub(super) fn nodes(&mut self, number: u64, nodes: &Nodes) -> Result<(), SaveError> {
        match self.under_way.get_mut(&number) {
            Some(PendingFile::Large { partial, update, .. }) => {
                if let Some(update) = update {
                    update.nodes(nodes);
                }
                partial.put_nodes(nodes)?;
            }
            Some(PendingFile::Small { geometry, listed, .. }) if geometry.segments() > 1 => {
                if let Some(file) = small(&listed.entry) {
                    self.staging.put_nodes(&file, geometry, listed.slot, nodes)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Hands more entries to the transfer, or makes the links once all files are here. Returns when to be called again,
    /// if work continues beside.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Result<Option<Duration>, SaveError> {
        while self.next.is_some() && cx.transfer.wants_objects() && self.updates.has_room() {
            self.feed(cx)?;
        }
        let mut again = self.update(cx)?;
        self.request_postponed(cx)?;
        if self.has_all() && !self.complete {
            if self.is_as_written()? {
                self.link_and_set(cx)?;
            } else {
                again = Some(cx.now);
            }
        }
        warn_of_unset(self.staging.take_unset(), &mut self.unset, cx.on_event);
        Ok(again)
    }

    /// Saves a piece of the files' lists of sums.
    pub(super) fn list(&mut self, segment: &Verified<Segment<Bytes>>, cx: &Context<'_>) {
        self.updates.segment(segment, cx.now);
    }

    /// Continues once the requested lists are here or have failed.
    pub(super) fn lists_are_here(&mut self, cx: &mut Context<'_>) -> Result<(), SaveError> {
        for (file, list) in self.updates.take() {
            let Some(PendingFile::Large { update, .. }) = self.under_way.get_mut(&file.number)
            else {
                continue;
            };
            match Update::begin(file.start, &list, file.copies) {
                Ok(begun) => {
                    *update = Some(Box::new(begun));
                    self.updates.running += 1;
                }
                Err(start) => fetch_all(*start, cx)?,
            }
        }
        Ok(())
    }

    /// Continues with files that are made from old copies.
    fn update(&mut self, cx: &mut Context<'_>) -> Result<Option<Duration>, SaveError> {
        let (is_late, mut again) = self.updates.late(cx);
        if is_late {
            self.lists_are_here(cx)?;
        }
        self.updates.ask(cx)?;
        if self.updates.running == 0 {
            return Ok(again);
        }
        let mut done = Vec::new();
        for (number, under_way) in &mut self.under_way {
            let PendingFile::Large { partial, update: Some(update), .. } = under_way else {
                continue;
            };
            let mut keeper = DirectoryReuse { partial, bytes: &mut cx.tally.reused };
            let next = update.poll(cx.now, cx.transfer, &mut keeper)?;
            again = [again, next].into_iter().flatten().min();
            if update.is_done() {
                done.push(*number);
            }
        }
        for number in done {
            if let Some(PendingFile::Large { update, .. }) = self.under_way.get_mut(&number) {
                *update = None;
                self.updates.running -= 1;
            }
            self.complete(number, cx)?;
            again = Some(cx.now);
        }
        Ok(again)
    }

    /// Sets the directory's own attributes and gives it its name.
    pub(super) fn finish(
        &mut self,
        own: &Attributes,
        path: &Path,
        policy: OverwritePolicy,
    ) -> Result<(), SaveError> {
        let Self { merge, staging, listed, warnings: told, .. } = self;
        if let Some(merge) = merge {
            let mut unset = RefusedAttributes::default();
            let merged = merge.finish(staging, listed, own, &mut unset, told);
            told.extend(warnings(&unset));
            return merged;
        }
        self.staging.finish_directory(b"", own)?;
        self.staging.finish_as(path, policy).map_err(SaveError::at_the_end)
    }

    /// Hands the next entries to the transfer.
    fn feed(&mut self, cx: &mut Context<'_>) -> Result<(), SaveError> {
        let Some(entries) = &mut self.next else { return Ok(()) };
        let batch: Result<Vec<Listed>, StoreError> = entries.take(BATCH).collect();
        let mut batch = batch?;
        if batch.is_empty() {
            self.next = None;
        }
        let (updates, size) = (&mut self.updates, self.segment_size);
        let lists = batch.iter().map(|listed| updates.place_of(&listed.entry, size));
        let mut lists: HashMap<u64, _> =
            batch.iter().map(|l| l.number).zip(lists).filter_map(|(n, l)| Some((n, l?))).collect();
        batch.retain(|listed| !self.exclude.leaves_out(&listed.entry));
        let resumed = cx.tally.resumed;
        let intact = self.intact(&batch)?;
        for (listed, intact) in batch.into_iter().zip(intact) {
            match listed.entry.kind {
                EntryKind::Symlink { .. } | EntryKind::HardLink { .. } => {}
                // A merge makes directories at their final place.
                EntryKind::Directory if self.merge.is_some() => {}
                EntryKind::File { size, .. } if self.keeps(listed.number) => {
                    cx.tally.resumed += size;
                }
                EntryKind::Directory => self.staging.directory(&listed.entry.path)?,
                EntryKind::File { size, .. } if intact => {
                    cx.tally.resumed += size;
                    is_whole(listed.number, cx);
                }
                EntryKind::File { .. } => {
                    let list = lists.remove(&listed.number);
                    self.want(Box::new(listed), list, cx)?;
                }
            }
        }
        if self.reviews > 0 {
            // Resumed bytes were counted in the first pass.
            cx.tally.resumed = resumed;
        }
        if self.next.is_none() && !self.has_reported {
            self.has_reported = true;
            if cx.tally.resumed > 0 {
                (cx.on_event)(LibraryEvent::Resumed { bytes: cx.tally.resumed });
            }
        }
        Ok(())
    }

    /// Returns whether a file is already in its place.
    fn keeps(&self, number: u64) -> bool {
        self.merge.as_ref().is_some_and(|merge| merge.keeps(number))
    }

    /// `list`: the place of its list of sums, if old copies are to be searched.
    fn want(
        &mut self,
        listed: Box<Listed>,
        list: Option<Range<u64>>,
        cx: &mut Context<'_>,
    ) -> Result<(), SaveError> {
        let Listed { entry, number, slot } = &*listed;
        let EntryKind::File { size, root } = entry.kind else { return Ok(()) };
        let geometry = Geometry::new(size, self.segment_size);
        let (number, id) = (*number, ObjectId::File(*number));
        if size == 0 {
            // An empty file needs no request: its root alone proves it, or the listing is invalid.
            let mut verifier = TreeVerifier::new(geometry, root);
            let empty = verifier.segment(SegmentIndex(0), Bytes::new(), root.as_bytes());
            let empty = empty?;
            let file = SmallFile { path: &entry.path, size, root };
            self.staging.write_small(&file, &[empty], &entry_attributes(entry))?;
            is_whole(number, cx);
            return Ok(());
        }
        if let Some(source) = self.copies.get(&root) {
            let copy = SmallFile { path: &entry.path, size, root };
            if self.staging.copy_of(&copy, &source, &entry_attributes(entry)).is_ok() {
                cx.tally.reused += size;
                return Ok(());
            }
        }
        let there = self.merge.as_ref().map(|merge| merge.place(&entry.path));
        let mut copies = self.updates.copies(entry, there);
        copies.extend(self.copies.part(&root));
        let under_way = if let Some(file) = small(entry) {
            if let Some((segments, nodes)) = same(&copies, geometry, root) {
                if geometry.segments() > 1 {
                    self.staging.put_nodes(&file, &geometry, *slot, &nodes)?;
                }
                self.staging.write_small(&file, &segments, &entry_attributes(entry))?;
                cx.tally.reused += size;
                is_whole(number, cx);
                return Ok(());
            }
            let wanted = std::iter::once(0..geometry.segments());
            cx.transfer.add_object(id, root, geometry, wanted, [], None)?;
            PendingFile::Small { listed, geometry, segments: Vec::new() }
        } else {
            let resuming = self.staging.open_file(&entry.path, root, geometry, *slot)?;
            let (partial, resumed) = resume_partial(resuming, id, cx)?;
            let Resumed { verifier, have, bytes } = resumed;
            cx.tally.resumed += bytes;
            let start = UpdateStart { id, root, geometry, verifier, have };
            let list = list.filter(|list| !copies.is_empty() && self.updates.can_wait(list));
            match list.filter(|_| !start.have.is_full()) {
                Some(range) => self.updates.wait(WaitingFile { number, start, copies, range }),
                None => fetch_all(start, cx)?,
            }
            PendingFile::Large { listed, partial: Box::new(partial), update: None }
        };
        self.under_way.insert(number, under_way);
        Ok(())
    }

    pub(super) fn complete(&mut self, number: u64, cx: &mut Context<'_>) -> Result<(), SaveError> {
        if let Some(PendingFile::Large { update: Some(update), .. }) =
            self.under_way.get_mut(&number)
        {
            update.round_is_over();
            return Ok(());
        }
        match self.under_way.remove(&number) {
            Some(PendingFile::Small { listed, mut segments, .. }) => {
                segments.sort_by_key(|s| s.index);
                let Some(file) = small(&listed.entry) else { return Ok(()) };
                let attributes = entry_attributes(&listed.entry);
                self.staging.write_small(&file, &segments, &attributes)?;
                is_whole(number, cx);
                Ok(())
            }
            Some(PendingFile::Large { listed, mut partial, .. }) => {
                if read_back(&mut partial, &entry_attributes(&listed.entry))? {
                    partial.finish_in_place(&entry_attributes(&listed.entry))?;
                    warn_of_unset(partial.take_unset(), &mut self.unset, cx.on_event);
                    is_whole(number, cx);
                    return Ok(());
                }
                drop(partial);
                // Treated like the rest of an earlier run: right segments stay.
                self.staging.resume();
                let before = cx.tally.resumed;
                self.want(listed, None, cx)?;
                cx.tally.resumed = before;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Makes links, hard ones first, and then sets the attributes of directories.
    fn link_and_set(&mut self, cx: &mut Context<'_>) -> Result<(), SaveError> {
        if self.merge.is_some() {
            // A merge makes them at their final place.
            self.complete = true;
            return Ok(());
        }
        let wanted = |exclude: &Exclusion, path: &[u8]| !exclude.matches(path, false);
        for symbolic in [false, true] {
            for found in self.listed.entries() {
                let Listed { entry, .. } = found?;
                match &entry.kind {
                    EntryKind::HardLink { target }
                        if !symbolic
                            && wanted(&self.exclude, &entry.path)
                            && wanted(&self.exclude, target) =>
                    {
                        self.hard_link(&entry.path, target, cx)?;
                    }
                    EntryKind::Symlink { target }
                        if symbolic && wanted(&self.exclude, &entry.path) =>
                    {
                        self.staging.symlink(&entry.path, target)?;
                    }
                    _ => {}
                }
            }
        }
        // Children before parents: making a child changes its parent's time.
        for found in self.listed.entries_reversed() {
            let Listed { entry, .. } = found?;
            if entry.kind == EntryKind::Directory && !self.exclude.leaves_out(&entry) {
                self.staging.finish_directory(&entry.path, &entry_attributes(&entry))?;
            }
        }
        self.complete = true;
        Ok(())
    }

    fn hard_link(
        &mut self,
        path: &[u8],
        target: &[u8],
        cx: &mut Context<'_>,
    ) -> Result<(), SaveError> {
        if self.staging.hard_link(path, target)? {
            return Ok(());
        }
        let Some(file) = self.listed.find(target)?.map(|found| found.entry.clone()) else {
            return Ok(());
        };
        let EntryKind::File { size, root } = file.kind else { return Ok(()) };
        let copy = SmallFile { path, size, root };
        self.staging.copy_file(&copy, target, &entry_attributes(&file))?;
        (cx.on_event)(LibraryEvent::Warning { what: copied_warning(path, target) });
        Ok(())
    }

    /// Postpones these files, so that refusals hold up nothing else.
    pub(super) fn postpone(&mut self, refused: &HashSet<ObjectId>, cx: &mut Context<'_>) {
        let Some(aside) = &mut self.postponed else { return };
        for id in refused {
            let ObjectId::File(number) = id else { continue };
            let listed = match self.under_way.remove(number) {
                Some(PendingFile::Large { listed, update, .. }) => {
                    self.updates.running -= usize::from(update.is_some());
                    listed
                }
                Some(PendingFile::Small { listed, .. }) => listed,
                None => continue,
            };
            cx.transfer.give_up_object(*id);
            aside.push(*listed);
        }
    }

    /// Requests the postponed files again once all others are here.
    fn request_postponed(&mut self, cx: &mut Context<'_>) -> Result<(), SaveError> {
        if self.next.is_some() || !self.under_way.is_empty() {
            return Ok(());
        }
        let Some(aside) = self.postponed.take_if(|aside| !aside.is_empty()) else { return Ok(()) };
        if self.leaves_refused {
            let lost = aside.into_iter().map(|listed| listed.entry.path).collect();
            self.left = self.exclude_lost(lost);
            return Ok(());
        }
        // Treated like the rest of an earlier run: right segments stay.
        self.staging.resume();
        let before = cx.tally.resumed;
        for listed in aside {
            self.want(Box::new(listed), None, cx)?;
        }
        cx.tally.resumed = before;
        Ok(())
    }

    /// See [`Sink::end_without`](crate::Sink::end_without).
    pub(super) fn end_without(
        &mut self,
        refused: &HashSet<ObjectId>,
        cx: &mut Context<'_>,
    ) -> Result<Vec<PathBuf>, SaveError> {
        let is_refused = |number: &u64| refused.contains(&ObjectId::File(*number));
        let all = self.under_way.keys().all(is_refused);
        if self.next.is_some() || self.under_way.is_empty() || !all {
            return Ok(Vec::new());
        }
        let listed = |under_way: PendingFile| match under_way {
            PendingFile::Small { listed, .. } | PendingFile::Large { listed, .. } => {
                listed.entry.path
            }
        };
        let lost: BTreeSet<Vec<u8>> =
            self.under_way.drain().map(|(_, under_way)| listed(under_way)).collect();
        let lost = self.exclude_lost(lost);
        if !lost.is_empty() && !self.is_as_written()? {
            return Err(SaveError::ChangedMeanwhile(self.staging.path().to_path_buf()));
        }
        self.link_and_set(cx)?;
        Ok(lost)
    }

    /// Excludes these files from the result.
    fn exclude_lost(&mut self, lost: BTreeSet<Vec<u8>>) -> Vec<PathBuf> {
        let lost = Arc::new(lost);
        self.exclude.without(lost.clone());
        if let Some(merge) = &mut self.merge {
            merge.without(lost.clone());
        }
        lost.iter().map(|path| os_path(path)).collect()
    }

    /// Writes verified segments of large files to disk.
    pub(super) fn flush(&mut self) -> Result<(), SaveError> {
        for under_way in self.under_way.values_mut() {
            if let PendingFile::Large { partial, .. } = under_way {
                partial.flush()?;
            }
        }
        Ok(())
    }

    /// Returns whether all files are here.
    fn has_all(&self) -> bool {
        let none_is_aside = self.postponed.as_ref().is_none_or(Vec::is_empty);
        self.next.is_none() && self.under_way.is_empty() && none_is_aside
    }
}
