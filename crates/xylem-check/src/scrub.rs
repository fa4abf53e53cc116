//! [`scrub`]: re-reads shared and fetched files and reports every damaged place; on request repairs it from peers.
//!
//! Bytes come from the files and from their trees in the store. Both may be wrong; right is what hashes to the recorded
//! root. A damaged tree is distinguished from damaged data. An edited file is distinguished from a decayed one by its
//! modification time, its inode, or the time of its last change, which no program can set. Nothing is written without
//! `repair`, and then only proven bytes, into bad places, in place. Files added to a shared directory are not found,
//! and modes are not checked.

mod error;
mod options;

mod targets;

mod contents;
mod item;
mod pace;

mod mend;
mod restore;
mod tree;

mod report;

use std::collections::HashMap;
use std::ops::Range;

use xylem_base::{Stop, advised, disk, os_bytes};
use xylem_files::hashing::packed_slots;
use xylem_files::record::{known_size, record_looks};
use xylem_files::rescan::{Readers, on_cores};
use xylem_files::{Flaw, LibraryEvent};
use xylem_object::ObjectId;
use xylem_store::{
    DiskAttributes, FileState, Meta, ObjectPart, OutboardFile, ScanBuffer, Store, StoreError,
};
use xylem_tree::{Geometry, NODE_LEN, SegmentSize};

use crate::Remote;
use contents::Contents;
use item::{Flawed, ScrubItem, ScrubVerdict, judge};
use mend::Mender;
use pace::ScrubPace;
use restore::{RestoringFile, Touched};
use targets::{ScrubTarget, targets};
use tree::ScrubTree;

pub use error::ScrubError;
pub use options::{DeliveryFailure, ScrubOptions, ScrubSummary};
pub use pace::Throttle;

/// Files of a directory checked together.
const BATCH: usize = 4096;
/// Largest small file, bytes. Small files are read by one thread each, side by side.
const SMALL: u64 = 4 << 20;

/// Re-reads the content of `store` that `options` select, at most as fast as `throttle` permits. `remote` delivers the
/// pieces for repairs.
///
/// # Errors
/// See [`ScrubError`]. Damage is no error: see [`ScrubSummary`].
pub fn scrub(
    store: &Store,
    options: &ScrubOptions,
    remote: &mut dyn Remote,
    throttle: Option<&dyn Throttle>,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<ScrubSummary, ScrubError> {
    let targets = targets(options, store)?;
    let total = targets.iter().map(|t| t.content).sum();
    let pace = ScrubPace::new(stop, throttle, total);
    let summary = ScrubSummary::default();
    let (store, looks) = (store.clone(), HashMap::new());
    let mut scrub = Scrub { options, stop, store, pace, summary, looks };
    for target in targets {
        let outcome = scrub.target(&target, remote, on_event);
        scrub.summary.bytes = scrub.pace.done();
        match outcome {
            Err(ScrubError::Interrupted { .. }) => return Err(scrub.interrupted()),
            other => other?,
        }
    }
    Ok(scrub.summary)
}

/// The directory of which missing files are fetched again, and the folders changed by that.
type Restores<'t> = Option<(&'t ScrubTarget, Touched)>;

struct Scrub<'a> {
    options: &'a ScrubOptions,
    stop: &'a Stop,
    store: Store,
    pace: ScrubPace<'a>,
    summary: ScrubSummary,
    /// How mended or touched files of the target look now, by their index in the record of looks.
    looks: HashMap<u64, DiskAttributes>,
}

impl Scrub<'_> {
    fn target(
        &mut self,
        target: &ScrubTarget,
        remote: &mut dyn Remote,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), ScrubError> {
        // A clone of the handles, so that the mender does not borrow all of `self`.
        let (store, stop) = (self.store.clone(), self.stop);
        let mut mender = Mender::new(&store, stop, target, remote);
        if target.directory {
            self.directory(target, &mut mender, on_event)?;
        } else {
            let mut tree = ScrubTree::open(&store, target.root, ObjectPart::Outboard)?;
            let size = match target.size.or_else(|| known_size(&store, &target.root)) {
                Some(size) => Some(size),
                None => mender.published_size()?,
            };
            let there = || self.store.medium().metadata(&target.path).map_or(0, |meta| meta.size);
            let mut item = whole(target, size.unwrap_or_else(there), &tree);
            item.seen = self.store.seen(&item.key, &target.root)?.and_then(|mut all| all.next());
            let restores = self.restores(target);
            self.batch(&[item], &mut tree, &mut mender, restores, on_event)?;
            tree.finish()?;
        }
        self.store_looks(target)?;
        if let Some(why) = mender.not_brought() {
            self.summary.not_brought = Some(why);
        }
        Ok(())
    }

    /// Checks the listing first, then the listed files.
    fn directory(
        &mut self,
        target: &ScrubTarget,
        mender: &mut Mender<'_>,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), ScrubError> {
        let store = self.store.clone();
        let mut tree = ScrubTree::open(&store, target.root, ObjectPart::Outboard)?;
        let path = self.store.object_path(&target.root, ObjectPart::Listing);
        let there = self.store.object(&target.root, ObjectPart::Listing)?;
        let size = there.as_ref().and_then(|file| file.metadata().ok()).map(|meta| meta.size);
        let Some(size) = target.size.or(size).filter(|_| there.is_some()) else {
            return self.lost_listing(target, on_event);
        };
        let key = os_bytes(path.as_os_str());
        let geometry = geometry(&tree, size);
        let slot = (geometry.segments() > 1).then_some(0);
        let (id, root) = (ObjectId::Root, target.root);
        let (mtime, seen, since_s, mode) = (None, None, None, None);
        let (at, place) = (path, 0);
        let listing = ScrubItem {
            id,
            path: at,
            key,
            root,
            geometry,
            slot,
            mtime,
            seen,
            since_s,
            place,
            mode,
            grows: false,
        };
        let counted = self.summary.files;
        let left = self.batch(&[listing], &mut tree, mender, None, on_event)?;
        self.looks.clear();
        self.summary.files = counted;
        tree.finish()?;
        if left.0 > 0 {
            return self.lost_listing(target, on_event);
        }
        let mut tree = ScrubTree::open(&self.store, target.root, ObjectPart::FileOutboards)?;
        let mut contents = Contents::open(&store, target, geometry.segment_size())?;
        let (before, mut restores) = (self.summary.files, self.restores(target));
        let missing = self.summary.missing;
        loop {
            let (items, apart) = contents.next(BATCH)?;
            for (path, flaw, what) in apart {
                self.report(&path, flaw, 0..0, &what, on_event);
            }
            if items.is_empty() {
                break;
            }
            let restored = self.batch(&items, &mut tree, mender, restores.take(), on_event)?;
            restores = restored.1;
        }
        if let Some((_, mut touched)) = restores.filter(|_| self.summary.missing > missing) {
            let again = || Contents::open(&store, target, geometry.segment_size());
            self.restore_rest(target, &again, &mut touched, on_event)?;
        }
        if target.inside.is_some() && self.summary.files == before {
            return Err(ScrubError::AddedLater(target.shown()));
        }
        Ok(tree.finish()?)
    }

    fn lost_listing(
        &mut self,
        target: &ScrubTarget,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), ScrubError> {
        let what = "its listing is missing from the store, so its files can't be checked; \
                    `xylem get` of its ticket fetches the listing again";
        self.report(&target.path, Flaw::Failed, 0..0, what, on_event);
        Ok(())
    }

    /// Returns whether missing parts of a target are restored. A target that was removed as a whole is restored only if
    /// it was named.
    fn restores<'t>(&self, target: &'t ScrubTarget) -> Restores<'t> {
        let named = !self.options.paths.is_empty();
        let wanted = self.options.repair && (named || disk().metadata(&target.path).is_ok());
        wanted.then(|| (target, Touched::default()))
    }

    /// Checks some files and mends them if requested; with a target to restore, also restores missing ones, and returns
    /// the target again. Returns how many bytes are still wrong.
    fn batch<'t>(
        &mut self,
        items: &[ScrubItem],
        tree: &mut ScrubTree,
        mender: &mut Mender<'_>,
        mut restores: Restores<'t>,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(u64, Restores<'t>), ScrubError> {
        let verdicts = {
            let (store, pace, outboard) = (&self.store, &self.pace, tree.outboard());
            let all = || judge_all(store, items, outboard, pace);
            pace.beside(all, on_event)?
        };
        let Some(verdicts) = verdicts else { return Err(self.interrupted()) };
        let (mut flawed, mut begun, mut begun_parts) = (Vec::new(), Vec::new(), Vec::new());
        for (item, verdict) in items.iter().zip(verdicts) {
            self.summary.files += 1;
            let (flaw, what) = match verdict {
                ScrubVerdict::Right(now) => {
                    self.looked(item, &now);
                    continue;
                }
                ScrubVerdict::Missing => match &mut restores {
                    Some((target, touched)) => {
                        self.report(&item.path, Flaw::Missing, 0..0, "is missing", on_event);
                        match RestoringFile::new(
                            &self.store,
                            target,
                            item,
                            tree.outboard(),
                            touched,
                        ) {
                            Ok((one, None)) => {
                                self.install(one, target, on_event);
                                continue;
                            }
                            Ok((one, Some(part))) => {
                                begun.push(one);
                                begun_parts.push(part);
                                continue;
                            }
                            Err(e) => (Flaw::Failed, advised(&e)),
                        }
                    }
                    None => (Flaw::Missing, self.missing().to_owned()),
                },
                ScrubVerdict::Changed(what) => (Flaw::Changed, what),
                ScrubVerdict::Failed(e) => (Flaw::Failed, advised(&e)),
                ScrubVerdict::Flawed(one) => {
                    flawed.push(*one);
                    continue;
                }
            };
            self.report(&item.path, flaw, 0..0, &what, on_event);
        }
        if let Some((target, _)) = &restores {
            self.restore(begun, begun_parts, target, tree, mender, on_event)?;
        }
        if flawed.is_empty() {
            return Ok((0, restores));
        }
        let before: Vec<_> = flawed.iter().map(|one| self.report_flawed(one, on_event)).collect();
        let bytes = |places: &[(Range<u64>, Flaw)]| {
            places.iter().map(|(bytes, _)| bytes.end - bytes.start).sum::<u64>()
        };
        if !self.options.repair {
            self.summary.unfinished += flawed.iter().filter(|one| one.unfinished).count() as u64;
            return Ok((before.iter().map(|(places, _)| bytes(places)).sum(), restores));
        }
        mender.mend(&mut flawed, tree, &mut self.summary, on_event)?;
        let mut left = 0;
        for (one, (places, nodes)) in flawed.iter().zip(&before) {
            let still = one.places();
            // Records the file's new look whatever is left wrong: the change was our own.
            self.looked(&one.item, &one.now);
            left += bytes(&still);
            self.report_mended(one, places, &still, *nodes, on_event);
        }
        Ok((left, restores))
    }

    /// Records how a file looked before it was last read, if it is right or mended as far as possible. Without repair
    /// nothing is written.
    fn looked(&mut self, item: &ScrubItem, now: &Meta) {
        if self.options.repair && item.seen.is_some_and(|seen| !seen.is_unchanged(now)) {
            self.looks.insert(item.place, DiskAttributes::of(now));
        }
    }

    /// Stores the new looks of mended files.
    fn store_looks(&mut self, target: &ScrubTarget) -> Result<(), ScrubError> {
        let new = std::mem::take(&mut self.looks);
        let key = os_bytes(target.path.as_os_str());
        let Some(seen) = self.store.seen(&key, &target.root)?.filter(|_| !new.is_empty()) else {
            return Ok(());
        };
        let now = (0..).zip(seen).map(|(place, then)| new.get(&place).copied().unwrap_or(then));
        Ok(record_looks(&self.store, &target.path, &target.root, now)?)
    }

    fn missing(&self) -> &'static str {
        match self.options.repair {
            true => "is missing as a whole; `xylem scrub --repair PATH` fetches it again",
            false => "is missing",
        }
    }

    /// Fetches missing files.
    fn restore(
        &mut self,
        begun: Vec<RestoringFile>,
        mut parts: Vec<Flawed>,
        target: &ScrubTarget,
        tree: &mut ScrubTree,
        mender: &mut Mender<'_>,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), ScrubError> {
        mender.mend(&mut parts, tree, &mut self.summary, on_event)?;
        for (one, part) in begun.into_iter().zip(&parts) {
            if part.places().is_empty() {
                self.install(one, target, on_event);
            }
        }
        Ok(())
    }

    fn install(
        &mut self,
        begun: RestoringFile,
        target: &ScrubTarget,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) {
        match begun.install(&self.store, target) {
            Ok(bytes) => {
                if let Ok(now) = self.store.medium().metadata(begun.path()) {
                    self.looks.insert(begun.place(), DiskAttributes::of(&now));
                }
                self.report_restored(begun.path(), bytes, on_event);
            }
            Err(e) => {
                let what = advised(&e);
                self.report(begun.path(), Flaw::Failed, 0..0, &what, on_event);
            }
        }
    }

    fn interrupted(&self) -> ScrubError {
        let ScrubSummary { files, places, mended, .. } = self.summary;
        ScrubError::Interrupted { bytes: self.pace.done(), files, places, mended }
    }
}

/// Checks all items, small files side by side; `None` if it was stopped.
fn judge_all(
    store: &Store,
    items: &[ScrubItem],
    outboard: Option<&OutboardFile>,
    pace: &ScrubPace<'_>,
) -> Result<Option<Vec<ScrubVerdict>>, StoreError> {
    let took = |bytes| pace.took(bytes);
    let mut verdicts: Vec<Option<ScrubVerdict>> = items.iter().map(|_| None).collect();
    let is_small = |i: &usize| items[*i].geometry.size() <= SMALL;
    let (small, large): (Vec<usize>, Vec<usize>) = (0..items.len()).partition(is_small);
    let done = on_cores(small.len() as u64, &|i, buffer: &mut ScanBuffer| {
        let i = small[i as usize];
        let mut readers = Readers::Here(buffer);
        Ok(judge(store, &items[i], outboard, &mut readers, &took).map(|verdict| (i, verdict)))
    })?;
    for (i, verdict) in done {
        verdicts[i] = Some(verdict);
    }
    for i in large {
        verdicts[i] = judge(store, &items[i], outboard, &mut Readers::All, &took);
    }
    Ok(verdicts.into_iter().collect())
}

/// Makes the item of a target that is a single file.
fn whole(target: &ScrubTarget, size: u64, tree: &ScrubTree) -> ScrubItem {
    let geometry = geometry(tree, size);
    ScrubItem {
        id: ObjectId::Root,
        path: target.path.clone(),
        key: os_bytes(target.path.as_os_str()),
        root: target.root,
        geometry,
        // A growing file has no stored tree: its bytes alone prove it.
        slot: (geometry.segments() > 1 && !target.grows).then_some(0),
        mtime: target.state.map(|FileState { mtime, .. }| mtime),
        seen: None,
        since_s: target.used_s,
        place: 0,
        mode: None,
        grows: target.grows,
    }
}

/// Returns the geometry of an object's tree: fetched content may have another segment size than ours, as the length of
/// its outboard shows.
fn geometry(tree: &ScrubTree, size: u64) -> Geometry {
    let usual = Geometry::new(size, SegmentSize::DEFAULT);
    let there = tree.outboard().and_then(|o| o.file().metadata().ok()).map(|meta| meta.size);
    let fits = |segment: &SegmentSize| {
        Some(packed_slots(size, *segment).saturating_mul(NODE_LEN as u64)) == there
    };
    if fits(&SegmentSize::DEFAULT) {
        return usual;
    }
    let others = (0..=3).filter_map(SegmentSize::from_log2_chunks);
    let other = others.into_iter().find(fits);
    other.map_or(usual, |segment| Geometry::new(size, segment))
}
