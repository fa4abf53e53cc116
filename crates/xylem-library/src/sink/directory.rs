//! A directory: its listing first, then its files in listing order, links and attributes last.
//!
//! The listing stays on disk ([`ListedFiles`]) and is passed over several times: once to see what is
//! wanted, once against what an earlier run left, once to fetch, then for the links, and backwards for
//! the attributes of directories. Memory is what is under way.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use xylem_object::listing::{self, Entry, EntryKind};
use xylem_object::{Manifest, ObjectId};
use xylem_store::{
    Attributes, FileKind, OutboardFile, OverwritePolicy, Part, Partial, SmallFile, Staging, Store,
    StoreError,
};
use xylem_tree::{Geometry, Segment, SegmentIndex, SegmentSize, Verified, Verifier};

use super::file::{audit, resume};
use super::{
    Context, Destination, FLUSH_EVERY, Nodes, Sink, added, attributes, stored, tell_unset,
};
use crate::exclude::Exclusion;
use crate::held::Holdings;
use crate::listed::{Entries, Listed, ListedError, ListedFiles};
use crate::walk;
use crate::{Error, LibraryEvent};

/// Files up to this size are written in one go when they are whole; larger ones are resumed.
pub const SMALL_FILE: u64 = 64 * 1024;
/// Files that are named to the caller before they are fetched.
const MAX_TOLD: usize = 1_000;
/// Listing entries that are looked at in one go.
const BATCH: usize = 256;

/// A directory that is being fetched.
pub struct DirectorySink {
    manifest: Manifest,
    to: Destination,
    exclude: Exclusion,
    store: Store,
    /// The listing while it comes.
    listing: Option<Partial>,
    tree: Option<Tree>,
    flush_at: Duration,
}

/// The tree once its listing is known.
struct Tree {
    staging: Staging,
    listed: ListedFiles,
    exclude: Exclusion,
    /// Entries that were not handed to the transfer yet; `None` after the last.
    next: Option<Entries>,
    segment_size: SegmentSize,
    under_way: HashMap<u64, UnderWay>,
    told: bool,
    /// Links are made and attributes set.
    complete: bool,
    unset: u64,
}

enum UnderWay {
    Small { listed: Box<Listed>, geometry: Geometry, segments: Vec<Verified<Segment<Bytes>>> },
    Large { listed: Box<Listed>, partial: Box<Partial> },
}

impl DirectorySink {
    pub fn new(
        manifest: Manifest,
        to: Destination,
        exclude: &[String],
        store: &Store,
    ) -> Result<Self, Error> {
        let exclude = Exclusion::new(exclude)?;
        Ok(Self {
            manifest,
            to,
            exclude,
            store: store.clone(),
            listing: None,
            tree: None,
            flush_at: Duration::ZERO,
        })
    }

    fn open_listing(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        let (root, geometry) = (self.manifest.root, self.manifest.geometry());
        let path = self.store.partial_path(&root, Part::Listing);
        let resuming = stored(Partial::open(&self.store, root, geometry, &path))?;
        self.listing = Some(resume(resuming, ObjectId::Root, root, geometry, cx)?.0);
        Ok(())
    }

    /// The listing of an earlier fetch or share, if it is there and right.
    fn kept_listing(&self) -> Result<Option<ListedFiles>, Error> {
        let (root, size) = (&self.manifest.root, self.manifest.size);
        let Some(file) = self.store.object(root, Part::Listing).ok().flatten() else {
            return Ok(None);
        };
        match ListedFiles::open(file.clone(), size, root, self.manifest.segment) {
            Ok(listed) => Ok(Some(listed)),
            Err(bad @ ListedError::Bad(_)) => Err(bad.into_error(&file)),
            Err(_) => Ok(None),
        }
    }

    /// The listing of an earlier run is served if its tree is there too.
    fn offer_kept_listing(&self, holdings: &Holdings) {
        let object = |part| self.store.object(&self.manifest.root, part).ok().flatten();
        if let (Some(file), Some(outboard)) = (object(Part::Listing), object(Part::Outboard)) {
            holdings.kept(&self.manifest.geometry(), file, OutboardFile::new(outboard));
        }
    }

    /// Takes the listing, which is proven, as what has to be made.
    fn plan(&mut self, listed: ListedFiles, cx: &mut Context<'_>) -> Result<(), Error> {
        self.manifest.check_totals(listed.totals()).map_err(|e| unusable(&e.to_string()))?;
        let mut contents = Vec::new();
        for found in listed.entries() {
            let Listed { entry, .. } = stored(found)?;
            check_name_here(&entry.path)?;
            if self.exclude.matches(&entry.path) {
                continue;
            }
            match &entry.kind {
                EntryKind::File { size, .. } => {
                    cx.tally.total += size;
                    cx.tally.files += 1;
                    if contents.len() < MAX_TOLD {
                        contents.push((walk::os_path(&entry.path), *size));
                    }
                }
                EntryKind::HardLink { target } if self.exclude.matches(target) => {
                    let target = walk::os_path(target);
                    let why = format!("a hard link to {}, which is left out", target.display());
                    (cx.on_event)(LibraryEvent::Skipped { path: walk::os_path(&entry.path), why });
                }
                _ => {}
            }
        }
        let more = cx.tally.files.saturating_sub(contents.len() as u64);
        (cx.on_event)(LibraryEvent::Contents { files: contents, more });
        let mut kinds =
            WantedKinds { entries: listed.entries().peekable(), exclude: &self.exclude };
        let mut kind = |path: &[u8]| kinds.of(path);
        let staging = Staging::open(&self.store, self.manifest.root, &self.to.part, &mut kind);
        let staging = stored(staging)?;
        if let Some(holdings) = cx.holdings {
            holdings.plan(&self.to.part, listed.clone(), staging.outboard().clone());
        }
        self.tree = Some(Tree {
            staging,
            next: Some(listed.entries()),
            listed,
            exclude: self.exclude.clone(),
            segment_size: self.manifest.segment,
            under_way: HashMap::new(),
            told: false,
            complete: false,
            unset: 0,
        });
        Ok(())
    }
}

/// A name that this system cannot have is refused before anything is fetched.
fn check_name_here(path: &[u8]) -> Result<(), Error> {
    if cfg!(windows)
        && let Err(e) = listing::check_path_on_windows(path)
    {
        let path = walk::os_path(path);
        let message = format!("{}: {e}; leave it out with --exclude", path.display());
        return Err(Error { blame: crate::Blame::Local, message });
    }
    Ok(())
}

/// What the listing wants under paths that are asked for in order.
struct WantedKinds<'a> {
    entries: std::iter::Peekable<Entries>,
    exclude: &'a Exclusion,
}

impl WantedKinds<'_> {
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
                let Listed { entry, .. } = found?;
                let wanted = !self.exclude.matches(&entry.path);
                Ok(kind(&entry).filter(|_| wanted))
            }
            None => Ok(None),
        }
    }
}

/// The signature is right and what was signed is not.
fn unusable(why: &str) -> Error {
    let message = format!("the publisher signed a listing that can't be used: {why}");
    Error { blame: crate::Blame::Data, message }
}

/// What stays of an earlier run: links are made anew.
fn kind(entry: &Entry) -> Option<FileKind> {
    match entry.kind {
        EntryKind::File { .. } => Some(FileKind::File),
        EntryKind::Directory => Some(FileKind::Directory),
        EntryKind::Symlink { .. } | EntryKind::HardLink { .. } => None,
    }
}

fn small(entry: &Entry) -> Option<SmallFile<'_>> {
    match entry.kind {
        EntryKind::File { size, root } if size <= SMALL_FILE => {
            Some(SmallFile { path: &entry.path, size, root })
        }
        _ => None,
    }
}

fn attributes_of(entry: &Entry) -> Attributes {
    attributes(entry.mode, entry.mtime_s, entry.mtime_ns)
}

/// A file of the directory is there and can be served.
fn is_whole(number: u64, cx: &Context<'_>) {
    if let Some(holdings) = cx.holdings {
        holdings.whole(number);
    }
}

impl Tree {
    /// Hands the next entries to the transfer.
    fn feed(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        let Some(entries) = &mut self.next else { return Ok(()) };
        let batch: Result<Vec<Listed>, StoreError> = entries.take(BATCH).collect();
        let mut batch = stored(batch)?;
        if batch.is_empty() {
            self.next = None;
        }
        batch.retain(|listed| !self.exclude.matches(&listed.entry.path));
        let intact = self.intact(&batch)?;
        for (listed, intact) in batch.into_iter().zip(intact) {
            match listed.entry.kind {
                EntryKind::Symlink { .. } | EntryKind::HardLink { .. } => {}
                EntryKind::Directory => stored(self.staging.directory(&listed.entry.path))?,
                EntryKind::File { size, .. } if intact => {
                    let Listed { entry, .. } = &listed;
                    stored(self.staging.set_attributes(&entry.path, &attributes_of(entry)))?;
                    cx.tally.resumed += size;
                    is_whole(listed.number, cx);
                }
                EntryKind::File { .. } => self.want(Box::new(listed), cx)?,
            }
        }
        if self.next.is_none() && !self.told {
            self.told = true;
            if cx.tally.resumed > 0 {
                (cx.on_event)(LibraryEvent::Resumed { bytes: cx.tally.resumed });
            }
        }
        Ok(())
    }

    /// Which entries of a batch are small files that an earlier run finished.
    fn intact(&mut self, batch: &[Listed]) -> Result<Vec<bool>, Error> {
        let mut intact = vec![false; batch.len()];
        if self.staging.was_resumed() {
            let (places, files): (Vec<usize>, Vec<SmallFile<'_>>) = batch
                .iter()
                .enumerate()
                .filter_map(|(at, listed)| Some((at, small(&listed.entry)?)))
                .unzip();
            for (at, right) in places.into_iter().zip(stored(self.staging.intact(&files))?) {
                intact[at] = right;
            }
        }
        Ok(intact)
    }

    fn want(&mut self, listed: Box<Listed>, cx: &mut Context<'_>) -> Result<(), Error> {
        let Listed { entry, number, slot } = &*listed;
        let EntryKind::File { size, root } = entry.kind else { return Ok(()) };
        let geometry = Geometry::new(size, self.segment_size);
        let (number, id) = (*number, ObjectId::File(*number));
        if size == 0 {
            // Nothing to ask for: the root alone proves it, or the listing is nonsense.
            let mut verifier = Verifier::new(geometry, root);
            let empty = verifier.segment(SegmentIndex(0), Bytes::new(), root.as_bytes());
            let empty = empty.map_err(|e| unusable(&e.to_string()))?;
            let file = SmallFile { path: &entry.path, size, root };
            stored(self.staging.write_small(&file, &[empty], &attributes_of(entry)))?;
            is_whole(number, cx);
            return Ok(());
        }
        let under_way = if small(entry).is_some() {
            let wanted = std::iter::once(0..geometry.segments());
            added(cx.transfer.add_object(id, root, geometry, wanted, [], None))?;
            UnderWay::Small { listed, geometry, segments: Vec::new() }
        } else {
            let resuming = stored(self.staging.open_file(&entry.path, root, geometry, *slot))?;
            let (partial, bytes) = resume(resuming, id, root, geometry, cx)?;
            cx.tally.resumed += bytes;
            UnderWay::Large { listed, partial: Box::new(partial) }
        };
        self.under_way.insert(number, under_way);
        Ok(())
    }

    fn complete(&mut self, number: u64, cx: &mut Context<'_>) -> Result<(), Error> {
        match self.under_way.remove(&number) {
            Some(UnderWay::Small { listed, mut segments, .. }) => {
                segments.sort_by_key(|s| s.index);
                let Some(file) = small(&listed.entry) else { return Ok(()) };
                let attributes = attributes_of(&listed.entry);
                stored(self.staging.write_small(&file, &segments, &attributes))?;
                is_whole(number, cx);
                Ok(())
            }
            Some(UnderWay::Large { listed, mut partial }) => {
                if audit(&mut partial)? {
                    stored(partial.finish_in_place(&attributes_of(&listed.entry)))?;
                    tell_unset(partial.take_unset(), &mut self.unset, cx.on_event);
                    is_whole(number, cx);
                    return Ok(());
                }
                drop(partial);
                let before = cx.tally.resumed;
                self.want(listed, cx)?;
                cx.tally.resumed = before;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Links, hard ones first, then the attributes of directories.
    fn link_and_set(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        let wanted = |exclude: &Exclusion, path: &[u8]| !exclude.matches(path);
        for symbolic in [false, true] {
            for found in self.listed.entries() {
                let Listed { entry, .. } = stored(found)?;
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
                        stored(self.staging.symlink(&entry.path, target))?;
                    }
                    _ => {}
                }
            }
        }
        // Children before parents, or making a child would change its parent's time again.
        for found in self.listed.entries_reversed() {
            let Listed { entry, .. } = stored(found)?;
            if entry.kind == EntryKind::Directory && wanted(&self.exclude, &entry.path) {
                stored(self.staging.finish_directory(&entry.path, &attributes_of(&entry)))?;
            }
        }
        self.complete = true;
        Ok(())
    }

    fn hard_link(&mut self, path: &[u8], target: &[u8], cx: &mut Context<'_>) -> Result<(), Error> {
        if stored(self.staging.hard_link(path, target))? {
            return Ok(());
        }
        let Some(file) = stored(self.listed.find(target))?.map(|found| found.entry.clone()) else {
            return Ok(());
        };
        let EntryKind::File { size, root } = file.kind else { return Ok(()) };
        let copy = SmallFile { path, size, root };
        stored(self.staging.copy_file(&copy, target, &attributes_of(&file)))?;
        let (path, target) = (walk::os_path(path), walk::os_path(target));
        let what = "is a copy: the file system took no hard link to";
        let what = format!("{} {what} {}", path.display(), target.display());
        (cx.on_event)(LibraryEvent::Warning { what });
        Ok(())
    }

    /// Puts what was verified of large files on disk.
    fn flush(&mut self) -> Result<(), Error> {
        for under_way in self.under_way.values_mut() {
            if let UnderWay::Large { partial, .. } = under_way {
                stored(partial.flush())?;
            }
        }
        Ok(())
    }

    /// Whether every file is there.
    fn has_all(&self) -> bool {
        self.next.is_none() && self.under_way.is_empty()
    }
}

impl Sink for DirectorySink {
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
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
    ) -> Result<(), Error> {
        let under_way = match (object, &mut self.tree) {
            (ObjectId::File(number), Some(tree)) => tree.under_way.get_mut(&number),
            (ObjectId::Root, _) => {
                return self.listing.as_mut().map_or(Ok(()), |l| stored(l.put(&segment)));
            }
            _ => None,
        };
        cx.tally.fetched += segment.content.len() as u64;
        match under_way {
            Some(UnderWay::Small { segments, .. }) => segments.push(segment),
            Some(UnderWay::Large { partial, .. }) => stored(partial.put(&segment))?,
            None => {}
        }
        Ok(())
    }

    fn nodes(&mut self, object: ObjectId, nodes: Nodes) -> Result<(), Error> {
        match (object, &mut self.tree) {
            (ObjectId::Root, _) => {
                self.listing.as_mut().map_or(Ok(()), |l| stored(l.put_nodes(&nodes)))
            }
            (ObjectId::File(number), Some(tree)) => match tree.under_way.get_mut(&number) {
                Some(UnderWay::Large { partial, .. }) => stored(partial.put_nodes(&nodes)),
                Some(UnderWay::Small { geometry, listed, .. }) if geometry.segments() > 1 => {
                    small(&listed.entry).map_or(Ok(()), |file| {
                        stored(tree.staging.put_nodes(&file, geometry, listed.slot, &nodes))
                    })
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn complete(&mut self, object: ObjectId, cx: &mut Context<'_>) -> Result<(), Error> {
        match (object, &mut self.tree) {
            (ObjectId::File(number), Some(tree)) => tree.complete(number, cx),
            (ObjectId::Root, None) => {
                let Some(mut listing) = self.listing.take() else { return Ok(()) };
                let path = self.store.object_path(&self.manifest.root, Part::Listing);
                let none = Attributes::default();
                stored(listing.finish_as(&path, &none, OverwritePolicy::Replace))?;
                drop(listing);
                match self.kept_listing()? {
                    Some(listed) => self.plan(listed, cx),
                    None => self.open_listing(cx),
                }
            }
            _ => Ok(()),
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Result<Option<Duration>, Error> {
        let Some(tree) = &mut self.tree else { return Ok(None) };
        if cx.now >= self.flush_at {
            self.flush_at = cx.now + FLUSH_EVERY;
            tree.flush()?;
        }
        while tree.next.is_some() && cx.transfer.wants_objects() {
            tree.feed(cx)?;
        }
        if tree.has_all() && !tree.complete {
            tree.link_and_set(cx)?;
        }
        tell_unset(tree.staging.take_unset(), &mut tree.unset, cx.on_event);
        Ok(None)
    }

    fn is_done(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.complete)
    }

    fn finish(&mut self) -> Result<Option<PathBuf>, Error> {
        let Some(tree) = &mut self.tree else { return Ok(None) };
        let m = &self.manifest;
        let own = attributes(m.mode, m.mtime_s, m.mtime_ns);
        stored(tree.staging.finish_directory(b"", &own))?;
        stored(tree.staging.finish_as(&self.to.path, self.to.policy))?;
        Ok(Some(self.to.path.clone()))
    }

    fn troubles(&mut self) -> Vec<String> {
        let unset = self.tree.as_mut().map(|tree| tree.staging.take_unset()).unwrap_or_default();
        unset.told.iter().map(|e| format!("{e}; the content is right")).collect()
    }
}
