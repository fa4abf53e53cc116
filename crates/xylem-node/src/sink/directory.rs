//! A directory: its listing first, then its files in listing order, links and attributes last.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use globset::{Glob, GlobSet, GlobSetBuilder};
use xylem_object::listing::{self, Entry, EntryKind};
use xylem_object::{Manifest, ObjectId};
use xylem_store::{
    Attributes, FileKind, OverwritePolicy, Part, Partial, SmallFile, Staging, Store,
};
use xylem_tree::{Geometry, Segment, SegmentIndex, SegmentSize, Verified, Verifier};

use super::file::{audit, resume};
use super::{Context, Destination, FLUSH_EVERY, Nodes, Sink, added, attributes, stored};
use crate::api::{Error, Event};
use crate::hashing::packed_slots;
use crate::{failure, walk};

/// Files up to this size are written in one go when they are whole; larger ones are resumed.
const SMALL_FILE: u64 = 64 * 1024;
/// Files that are named to the caller before they are fetched.
const MAX_TOLD: usize = 1_000;
/// Listing entries that are looked at in one go.
const BATCH: usize = 256;

/// A directory that is being fetched.
pub(crate) struct DirectorySink {
    manifest: Manifest,
    to: Destination,
    exclude: GlobSet,
    store: Store,
    /// The listing while it comes.
    listing: Option<Partial>,
    tree: Option<Tree>,
    flush_at: Duration,
}

/// The tree once its listing is known.
struct Tree {
    staging: Staging,
    /// All that is wanted.
    entries: Vec<Entry>,
    /// For each regular file of the listing, wanted or not: number and first outboard slot.
    files: HashMap<usize, (u64, u64)>,
    /// Next entry to hand to the transfer.
    next: usize,
    segment_size: SegmentSize,
    under_way: HashMap<u64, UnderWay>,
    told: bool,
}

enum UnderWay {
    Small { entry: usize, geometry: Geometry, slot: u64, segments: Vec<Verified<Segment<Bytes>>> },
    Large { entry: usize, partial: Box<Partial> },
}

impl DirectorySink {
    pub(crate) fn new(
        manifest: Manifest,
        to: Destination,
        exclude: &[String],
        store: &Store,
    ) -> Result<Self, Error> {
        let mut globs = GlobSetBuilder::new();
        for pattern in exclude {
            let glob = Glob::new(pattern);
            globs.add(glob.map_err(|e| failure::usage(format!("--exclude {pattern}: {e}")))?);
        }
        let exclude = globs.build().map_err(|e| failure::usage(format!("--exclude: {e}")))?;
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
    fn kept_listing(&self) -> Option<Vec<u8>> {
        let root = &self.manifest.root;
        let bytes = self.store.object_bytes(root, Part::Listing, self.manifest.size).ok()??;
        (xylem_hash::hash(&bytes) == *root).then_some(bytes)
    }

    /// Takes the listing, which is proven, as what has to be made.
    fn plan(&mut self, bytes: &[u8], cx: &mut Context<'_>) -> Result<(), Error> {
        let (mut entries, mut files) = (Vec::new(), HashMap::new());
        let segment_size = self.manifest.segment;
        let (mut number, mut slot) = (0, 0);
        let mut kinds = HashMap::new();
        let mut totals = listing::Totals::default();
        for entry in listing::entries(bytes) {
            let entry = entry.map_err(|e| unusable(&e.to_string()))?;
            totals.entries += 1;
            let wanted = !self.is_excluded(&entry.path);
            if let EntryKind::File { size, .. } = entry.kind {
                (totals.files, totals.bytes) = (totals.files + 1, totals.bytes + size);
                if wanted {
                    files.insert(entries.len(), (number, slot));
                    cx.tally.total += size;
                    cx.tally.files += 1;
                }
                number += 1;
                slot += packed_slots(size, segment_size);
            }
            if wanted {
                kinds.insert(entry.path.clone(), kind(&entry));
                entries.push(entry);
            }
        }
        self.manifest.check_totals(totals).map_err(|e| unusable(&e.to_string()))?;
        tell_contents(&entries, cx);
        let mut listed = |path: &[u8]| kinds.get(path).copied();
        let staging = Staging::open(&self.store, self.manifest.root, &self.to.part, &mut listed);
        let staging = stored(staging)?;
        let under_way = HashMap::new();
        self.tree =
            Some(Tree { staging, entries, files, next: 0, segment_size, under_way, told: false });
        Ok(())
    }

    /// A pattern leaves out what it matches and everything below.
    fn is_excluded(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
        !self.exclude.is_empty()
            && ends.chain([path.len()]).any(|end| {
                let path = walk::os_path(&path[..end]);
                self.exclude.is_match(&path)
                    || path.file_name().is_some_and(|name| self.exclude.is_match(name))
            })
    }
}

fn tell_contents(entries: &[Entry], cx: &mut Context<'_>) {
    let files = entries.iter().filter_map(|entry| match entry.kind {
        EntryKind::File { size, .. } => Some((walk::os_path(&entry.path), size)),
        _ => None,
    });
    let files: Vec<_> = files.take(MAX_TOLD).collect();
    let more = cx.tally.files.saturating_sub(files.len() as u64);
    (cx.on_event)(Event::Contents { files, more });
}

/// The signature is right and what was signed is not.
fn unusable(why: &str) -> Error {
    let message = format!("the publisher signed a listing that can't be used: {why}");
    Error { blame: crate::Blame::Data, message }
}

fn kind(entry: &Entry) -> FileKind {
    match entry.kind {
        EntryKind::File { .. } => FileKind::File,
        EntryKind::Directory => FileKind::Directory,
        EntryKind::Symlink { .. } => FileKind::Symlink,
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

impl Tree {
    /// Hands the next entries to the transfer.
    fn feed(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        let batch = self.next..self.entries.len().min(self.next + BATCH);
        let intact = self.intact(batch.clone())?;
        for at in batch {
            self.next = at + 1;
            let entry = &self.entries[at];
            match entry.kind {
                EntryKind::Symlink { .. } => {}
                EntryKind::Directory => stored(self.staging.directory(&entry.path))?,
                EntryKind::File { size, .. } if intact.contains(&at) => {
                    cx.tally.resumed += size;
                    stored(self.staging.set_attributes(&entry.path, &attributes_of(entry)))?;
                }
                EntryKind::File { .. } => self.want(at, cx)?,
            }
        }
        if self.next == self.entries.len() && !self.told {
            self.told = true;
            if cx.tally.resumed > 0 {
                (cx.on_event)(Event::Resumed { bytes: cx.tally.resumed });
            }
        }
        Ok(())
    }

    /// Small files of a batch that an earlier run finished.
    fn intact(&mut self, batch: std::ops::Range<usize>) -> Result<Vec<usize>, Error> {
        if !self.staging.was_resumed() {
            return Ok(Vec::new());
        }
        let entries = &self.entries[batch.clone()];
        let (places, files): (Vec<usize>, Vec<SmallFile<'_>>) =
            batch.zip(entries).filter_map(|(at, e)| Some((at, small(e)?))).unzip();
        let right = stored(self.staging.intact(&files))?;
        Ok(places.into_iter().zip(right).filter(|(_, right)| *right).map(|(at, _)| at).collect())
    }

    fn want(&mut self, at: usize, cx: &mut Context<'_>) -> Result<(), Error> {
        let entry = &self.entries[at];
        let (EntryKind::File { size, root }, Some(&(number, slot))) =
            (&entry.kind, self.files.get(&at))
        else {
            return Ok(());
        };
        let (size, root) = (*size, *root);
        let geometry = Geometry::new(size, self.segment_size);
        let id = ObjectId::File(number);
        if size == 0 {
            // Nothing to ask for: the root alone proves it, or the listing is nonsense.
            let mut verifier = Verifier::new(geometry, root);
            let empty = verifier.segment(SegmentIndex(0), Bytes::new(), root.as_bytes());
            let empty = empty.map_err(|e| unusable(&e.to_string()))?;
            let file = SmallFile { path: &entry.path, size, root };
            return stored(self.staging.write_small(&file, &[empty], &attributes_of(entry)));
        }
        let under_way = if small(entry).is_some() {
            let wanted = std::iter::once(0..geometry.segments());
            added(cx.transfer.add_object(id, root, geometry, wanted, [], None))?;
            UnderWay::Small { entry: at, geometry, slot, segments: Vec::new() }
        } else {
            let resuming = stored(self.staging.open_file(&entry.path, root, geometry, slot))?;
            let (partial, bytes) = resume(resuming, id, root, geometry, cx)?;
            cx.tally.resumed += bytes;
            UnderWay::Large { entry: at, partial: Box::new(partial) }
        };
        self.under_way.insert(number, under_way);
        Ok(())
    }

    fn complete(&mut self, number: u64, cx: &mut Context<'_>) -> Result<(), Error> {
        match self.under_way.remove(&number) {
            Some(UnderWay::Small { entry, mut segments, .. }) => {
                segments.sort_by_key(|s| s.index);
                let entry = &self.entries[entry];
                let Some(file) = small(entry) else { return Ok(()) };
                stored(self.staging.write_small(&file, &segments, &attributes_of(entry)))
            }
            Some(UnderWay::Large { entry, mut partial }) => {
                if audit(&mut partial)? {
                    return stored(partial.finish_in_place(&attributes_of(&self.entries[entry])));
                }
                drop(partial);
                let before = cx.tally.resumed;
                self.want(entry, cx)?;
                cx.tally.resumed = before;
                Ok(())
            }
            None => Ok(()),
        }
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

    fn is_done(&self) -> bool {
        self.next == self.entries.len() && self.under_way.is_empty()
    }
}

impl Sink for DirectorySink {
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        match self.kept_listing() {
            Some(bytes) => self.plan(&bytes, cx),
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
                Some(UnderWay::Small { geometry, slot, .. }) if geometry.segments() > 1 => {
                    stored(tree.staging.put_nodes(geometry, *slot, &nodes))
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
                match self.kept_listing() {
                    Some(bytes) => self.plan(&bytes, cx),
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
        while tree.next < tree.entries.len() && cx.transfer.wants_objects() {
            tree.feed(cx)?;
        }
        Ok(None)
    }

    fn is_done(&self) -> bool {
        self.tree.as_ref().is_some_and(Tree::is_done)
    }

    fn finish(&mut self) -> Result<Option<PathBuf>, Error> {
        let Some(tree) = &mut self.tree else { return Ok(None) };
        for entry in &tree.entries {
            if let EntryKind::Symlink { target } = &entry.kind {
                stored(tree.staging.symlink(&entry.path, target))?;
            }
        }
        // Children before parents, or making a child would change its parent's time again.
        for entry in tree.entries.iter().rev() {
            if entry.kind == EntryKind::Directory {
                stored(tree.staging.finish_directory(&entry.path, &attributes_of(entry)))?;
            }
        }
        let m = &self.manifest;
        let own = attributes(m.mode, m.mtime_s, m.mtime_ns);
        stored(tree.staging.finish_directory(b"", &own))?;
        stored(tree.staging.finish_as(&self.to.path, self.to.policy))?;
        Ok(Some(self.to.path.clone()))
    }
}
