//! Publishes a directory: from its walk to its listing and outboards on disk, a few thousand entries at a time.
//!
//! While one batch is hashed, the next is walked; finished entries go to the listing's file at once. Memory holds two
//! batches, the walk's own names, and 16 bytes for each file: its inode number and its time of change, which
//! distinguish a replaced or rewritten file from the hashed one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use xylem_base::{Stop, os_bytes};
use xylem_files::hashing::{
    self, Failing, HashError, HashJob, HashOutputs, HashProgress, HashWork, packed_slots,
};
use xylem_files::sums::{KeptSums, NewSums};
use xylem_files::walk::{DirectoryWalk, FoundKind, WalkEntry, WalkError, WalkRules};
use xylem_files::{LibraryEvent, ListedFiles, SkipReason, trees};
use xylem_hash::{Hash, Hasher};
use xylem_object::Manifest;
use xylem_object::listing::{self, Entry, EntryKind};
use xylem_object::sums::list_len;
use xylem_store::{
    Difference, DiskAttributes, DiskAttributesWriter, FileRef, FileState, Medium, Meta, NewFile,
    ObjectPart, OutboardFile, Store, StoreError, hash_file,
};
use xylem_tree::{Geometry, NODE_LEN, SegmentSize};

use super::before::{ChangeDetector, LastPublication, keep_listed_attributes};
use super::error::PublishError;
use super::members::{FileMarks, Members};
use super::serving::{Published, SharedFiles};

/// Entries in a batch.
const BATCH: usize = 4_096;
/// Bytes of the listing gathered before a write.
const LISTING_PIECE: usize = 256 * 1024;
/// Most events held back until it is known whether anything has changed.
const MAX_WAITING: usize = 1_000;

/// Files that changed since they were found or cannot be read, and why.
type Failed = BTreeMap<Vec<u8>, StoreError>;

/// Walks and hashes a directory; `each` receives every entry in order, with its metadata. Returns the room that
/// outboards and lists took. In a folder in step a failing file is returned among the failed ones, and `each` receives
/// it with a placeholder root; elsewhere the first failure ends the walk.
fn hash_entries(
    walk: &mut DirectoryWalk<'_>,
    takes: HashOutputs<'_>,
    segment: SegmentSize,
    mut before: Option<LastPublication>,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
    each: &mut dyn FnMut(&Entry, &Meta) -> Result<(), PublishError>,
) -> Result<(TreePlaces, Failed), PublishError> {
    let medium = walk.medium();
    let failing = if walk.is_in_step() { Failing::Alone } else { Failing::EndsAll };
    let mut failed = Failed::new();
    let (mut places, mut progress) = (TreePlaces::of(segment), HashProgress::default());
    let mut next = WalkBatch::walked(walk, &mut places, &mut before, takes, on_event)?;
    while !next.found.is_empty() {
        let batch = next;
        progress.total += batch.jobs.iter().map(|job| job.state.size).sum::<u64>();
        let beside = |on_event: &mut dyn FnMut(LibraryEvent)| {
            WalkBatch::walked(walk, &mut places, &mut before, takes, on_event)
        };
        let work = HashWork { jobs: &batch.jobs, failing };
        let (roots, walked) =
            hashing::hash_beside(medium, work, takes, &progress, stop, on_event, beside)?;
        next = walked?;
        let mut roots = roots.into_iter().zip(&batch.jobs);
        for (found, kept) in &batch.found {
            let mut root = *kept;
            if let (FoundKind::File(_), None) = (&found.kind, root)
                && let Some((hashed, job)) = roots.next()
            {
                let stable = |root| match failing {
                    Failing::Alone => require_untouched(medium, job, &found.meta).map(|()| root),
                    Failing::EndsAll => Ok(root),
                };
                root = Some(hashed.and_then(stable).unwrap_or_else(|e| {
                    failed.insert(found.path.clone(), e);
                    NO_ROOT
                }));
            }
            if let FoundKind::HardLink { target } = &found.kind
                && failed.contains_key(target)
            {
                let (path, what) = (walk.place(&found.path), Difference::Mtime);
                failed.insert(found.path.clone(), StoreError::Changed { path, what });
            }
            each(&found.entry(root), &found.meta)?;
        }
    }
    Ok((places, failed))
}

/// Placeholder root of a file that was not hashed, in a listing that is never published.
const NO_ROOT: Hash = Hash::from_bytes([0; 32]);

/// Checks that a file was not changed since it was found, even if its time was set back.
fn require_untouched(medium: &dyn Medium, job: &HashJob, then: &Meta) -> Result<(), StoreError> {
    let now = medium.metadata(&job.path);
    let now = now.map_err(|e| StoreError::from_io("look at", &job.path, None, e))?;
    let what = match job.state.difference(&FileState::of(&now)) {
        None if now.ctime == then.ctime => return Ok(()),
        what => what.unwrap_or(Difference::Mtime),
    };
    Err(StoreError::Changed { path: job.path.clone(), what })
}

/// Where the next file's outboard and list of sums go.
#[derive(Clone, Copy)]
pub(super) struct TreePlaces {
    segment: SegmentSize,
    slots: u64,
    sums: u64,
}

impl TreePlaces {
    pub(super) fn of(segment: SegmentSize) -> Self {
        Self { segment, slots: 0, sums: 0 }
    }

    /// Returns the places for a file of this size, as far as it needs them.
    pub(super) fn take(&mut self, size: u64) -> (Option<u64>, Option<u64>) {
        let slots = packed_slots(size, self.segment);
        let sums = list_len(size, self.segment);
        let taken = ((slots > 0).then_some(self.slots), (sums > 0).then_some(self.sums));
        self.slots += slots;
        self.sums += sums;
        taken
    }
}

/// Entries in order: unchanged files with their roots, the other files as jobs.
struct WalkBatch {
    found: Vec<(WalkEntry, Option<Hash>)>,
    jobs: Vec<HashJob>,
}

impl WalkBatch {
    fn walked(
        walk: &mut DirectoryWalk<'_>,
        places: &mut TreePlaces,
        before: &mut Option<LastPublication>,
        takes: HashOutputs<'_>,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<Self, WalkError> {
        let mut batch = Self { found: Vec::new(), jobs: Vec::new() };
        while batch.found.len() < BATCH {
            let Some(mut found) = walk.next(on_event)? else { break };
            let state = match found.kind {
                FoundKind::File(state) => Some(state),
                _ => None,
            };
            let (slot, sums) = state.map_or((None, None), |state| places.take(state.size));
            let mut root = None;
            if let Some(before) = before {
                root = before.reuse(&mut found, slot, sums, takes)?;
            }
            if let (Some(state), None) = (state, root) {
                let (path, segment) = (walk.place(&found.path), places.segment);
                batch.jobs.push(HashJob { path, state, slot, segment, sums });
            }
            batch.found.push((found, root));
        }
        Ok(batch)
    }
}

/// Returns the root of the listing that publishing the directory would give.
pub(super) fn root_of(
    medium: &dyn Medium,
    path: &Path,
    before: Option<LastPublication>,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<Hash, PublishError> {
    let mut walk = DirectoryWalk::new(medium, path, WalkRules::all(), on_event)?;
    let mut hasher = Hasher::new();
    let mut writer = listing::ListingWriter::new(|piece: &[u8]| {
        hasher.update(piece);
    });
    hash_entries(
        &mut walk,
        HashOutputs::default(),
        SegmentSize::DEFAULT,
        before,
        stop,
        on_event,
        &mut |entry, _| Ok(writer.push(entry)?),
    )?;
    writer.finish();
    Ok(hasher.finalize())
}

/// Most rounds in which a folder in step is walked again without the files that failed.
const ROUNDS: usize = 16;

/// Hashes a directory, or takes the publication or fetch `known` if nothing has changed since. If the rules report a
/// change, only changed files are read. Trees have this segment size.
///
/// In a folder in step, files that change while they are read, or cannot be read, are reported and left out. The other
/// files' hashes are kept and reused in the next round.
pub(super) fn publish(
    store: &Store,
    path: &Path,
    known: Option<Hash>,
    segment: SegmentSize,
    rules: &WalkRules,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<Published, PublishError> {
    let (mut known, mut rules, mut lost) = (known, rules.clone(), rules.exclude.lost());
    let mut rounds = 0;
    loop {
        let (published, failed) =
            publish_once(store, path, known, segment, &rules, stop, on_event)?;
        if failed.is_empty() {
            return Ok(published);
        }
        rounds += 1;
        for (at, e) in failed {
            if rounds == ROUNDS {
                return Err(HashError::Store(e).into());
            }
            report_failed(&e, on_event);
            lost.insert(at);
        }
        known = Some(published.manifest.root);
        rules.changed = true;
        rules.exclude.without(Arc::new(lost.clone()));
    }
}

fn report_failed(e: &StoreError, on_event: &mut dyn FnMut(LibraryEvent)) {
    let why = match e {
        StoreError::NotFound { .. } => return,
        StoreError::Changed { .. } => SkipReason::Changing(e.to_string()),
        _ => SkipReason::CannotRead(e.to_string()),
    };
    on_event(LibraryEvent::Skipped { path: e.path().to_path_buf(), why });
}

fn publish_once(
    store: &Store,
    path: &Path,
    known: Option<Hash>,
    segment: SegmentSize,
    rules: &WalkRules,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<(Published, Failed), PublishError> {
    if let Some(root) = known.filter(|_| !rules.changed)
        && let Some(published) = unchanged(store, path, root, segment, rules, on_event)?
    {
        return Ok((published, Failed::new()));
    }
    let new = store.new_file()?;
    let outboards = OutboardFile::new(new.file().clone());
    let mut listing = NewListing::new(store)?;
    let (mut marks, mut looks) = (FileMarks::default(), DiskAttributesWriter::new(store)?);
    let medium = &**store.medium();
    looks.push(&look_at(medium, path)?)?;
    let mut walk = DirectoryWalk::new(medium, path, rules.clone(), on_event)?;
    let buffer = RefCell::new(Vec::new());
    let mut writer =
        listing::ListingWriter::new(|piece: &[u8]| buffer.borrow_mut().extend_from_slice(piece));
    let sums = NewSums::new(store)?;
    let takes = HashOutputs { outboards: Some(&outboards), sums: Some(sums.file()) };
    let before = known.and_then(|root| LastPublication::open(store, path, &root, segment));
    let mut each = |entry: &Entry, meta: &Meta| {
        writer.push(entry)?;
        if let EntryKind::File { .. } = entry.kind {
            marks.push(meta, entry);
        }
        looks.push(&DiskAttributes::of(meta))?;
        Ok(listing.write(&mut buffer.borrow_mut(), LISTING_PIECE)?)
    };
    let (places, failed) =
        hash_entries(&mut walk, takes, segment, before, stop, on_event, &mut each)?;
    writer.finish();
    drop(walk);
    listing.write(&mut buffer.borrow_mut(), 0)?;
    let (root, listed, nodes) = listing.keep(store, segment)?;
    let size = listed.metadata()?.size;
    let listed = ListedFiles::open(listed, size, &root, segment)?;
    let outboards = if places.slots == 0 {
        None
    } else {
        Some(OutboardFile::new(store.keep(new, &root, ObjectPart::FileOutboards)?))
    };
    let sums = sums.keep(store, &root, places.sums, segment)?;
    looks.keep(&os_bytes(path.as_os_str()), &root)?;
    let members = Members::new(path, listed, marks);
    Ok((published(root, members, nodes, outboards, sums), failed))
}

/// Returns how a path looks on disk.
fn look_at(medium: &dyn Medium, path: &Path) -> Result<DiskAttributes, StoreError> {
    let meta = medium.metadata(path).map_err(|e| StoreError::from_io("look at", path, None, e))?;
    Ok(DiskAttributes::of(&meta))
}

fn published(
    root: Hash,
    members: Members,
    nodes: OutboardFile,
    outboards: Option<OutboardFile>,
    sums: Option<KeptSums>,
) -> Published {
    let (size, totals) = (members.listed.size(), members.listed.totals());
    let mut manifest = Manifest::directory(root, size, totals, b"");
    manifest.sums = sums.as_ref().map(|kept| kept.sums);
    let listing = Some((members.listed.source().clone(), nodes));
    Published { manifest, files: SharedFiles::Many(Box::new(members)), listing, outboards, sums }
}

/// A listing that is being written.
struct NewListing {
    new: NewFile,
    written: u64,
}

impl NewListing {
    fn new(store: &Store) -> Result<Self, StoreError> {
        Ok(Self { new: store.new_file()?, written: 0 })
    }

    /// Writes the gathered bytes, if they are more than `limit`.
    fn write(&mut self, bytes: &mut Vec<u8>, limit: usize) -> Result<(), StoreError> {
        if bytes.len() > limit {
            self.new.file().write_all(bytes, self.written)?;
            self.written += bytes.len() as u64;
            bytes.clear();
        }
        Ok(())
    }

    /// Hashes the listing, and stores it and its outboard under their names.
    fn keep(
        self,
        store: &Store,
        size: SegmentSize,
    ) -> Result<(Hash, FileRef, OutboardFile), StoreError> {
        let nodes = store.new_file()?;
        let mut writer = nodes.outboard().writer_at(0);
        let (medium, path) = (&**store.medium(), self.new.file().path().to_path_buf());
        let mut buffer = Vec::new();
        let hashed = hash_file(medium, &path, None, size, Some(&mut writer), &mut buffer, &|_| {})?;
        writer.flush()?;
        let root = hashed.root;
        let nodes = store.keep(nodes, &root, ObjectPart::Outboard)?;
        let listing = store.keep(self.new, &root, ObjectPart::Listing)?;
        Ok((root, listing, OutboardFile::new(nodes)))
    }
}

/// Returns the earlier publication or fetch of listing `root`, if the walk finds the same files, sizes, modes and
/// times, all unchanged since, and all trees are here. A fetch leaves holes in some trees, and another publication of
/// the same root may have trees of another segment size.
pub(super) fn unchanged(
    store: &Store,
    path: &Path,
    root: Hash,
    segment: SegmentSize,
    rules: &WalkRules,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<Option<Published>, PublishError> {
    let kept = |part| store.object(&root, part).ok().flatten();
    let (Some(listing), Some(nodes)) = (kept(ObjectPart::Listing), kept(ObjectPart::Outboard))
    else {
        return Ok(None);
    };
    let Meta { size, mtime: kept_at, .. } = listing.metadata()?;
    let Ok(listed) = ListedFiles::open(listing, size, &root, segment) else {
        return Ok(None);
    };
    if !trees::is_whole(&nodes, Geometry::new(size, segment), &root)? {
        return Ok(None);
    }
    let mut waiting = Vec::new();
    let mut later = |event| {
        if waiting.len() < MAX_WAITING {
            waiting.push(event);
        }
    };
    let medium = &**store.medium();
    let mut untouched = ChangeDetector::open(store, path, &root, kept_at);
    // An older program did not record how files look on disk.
    let mut looks =
        (!untouched.is_noted()).then(|| DiskAttributesWriter::new(store)).transpose()?;
    if let Some(looks) = &mut looks {
        looks.push(&look_at(medium, path)?)?;
    }
    let mut marks = FileMarks::default();
    let (mut entries, mut places) = (listed.entries(), TreePlaces::of(segment));
    let mut walk = DirectoryWalk::new(medium, path, rules.clone(), &mut later)?;
    while let Some(mut found) = walk.next(&mut later)? {
        let Some(Ok(then)) = entries.next() else { return Ok(None) };
        let seen = untouched.next();
        keep_listed_attributes(&mut found, &then.entry, seen.as_ref());
        let (mut root, mut is_sure) = (None, true);
        if let EntryKind::File { size, root: then_root } = then.entry.kind {
            root = Some(then_root);
            places.take(size);
            marks.push(&found.meta, &then.entry);
            is_sure = untouched.is_sure(&found.meta, seen.as_ref());
        }
        if found.entry(root) != then.entry || !is_sure {
            return Ok(None);
        }
        if let Some(looks) = &mut looks {
            looks.push(&DiskAttributes::of(&found.meta))?;
        }
    }
    let outboards = kept(ObjectPart::FileOutboards).filter(|_| places.slots > 0);
    let whole = match &outboards {
        None => places.slots == 0,
        Some(file) => {
            file.metadata()?.size == places.slots * NODE_LEN as u64
                && trees::packed(file, &listed, segment, true)?.0.is_none()
        }
    };
    if entries.next().is_some() || !whole {
        return Ok(None);
    }
    let sums = KeptSums::open(store, &root, places.sums, segment);
    if places.sums > 0 && sums.is_none() {
        return Ok(None);
    }
    if let Some(looks) = looks {
        looks.keep(&os_bytes(path.as_os_str()), &root)?;
    }
    waiting.into_iter().for_each(on_event);
    let members = Members::new(path, listed, marks);
    let (nodes, outboards) = (OutboardFile::new(nodes), outboards.map(OutboardFile::new));
    Ok(Some(published(root, members, nodes, outboards, sums)))
}
