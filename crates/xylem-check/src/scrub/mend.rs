//! [`Mender`]: repairs damaged files: trees from the data that proves them, data from peers.
//!
//! Only bad segments are requested, with proofs up to what the file's own tree still proves. If that tree is lost too,
//! one segment of each tile brings the tile first. Pieces are verified before they are written, and read back
//! afterwards.

use std::ops::Range;
use std::path::PathBuf;

use xylem_base::{Failure, Stop, advised};
use xylem_files::LibraryEvent;
use xylem_files::rescan::{Readers, inspect_again};
use xylem_object::ObjectId;
use xylem_store::{FileRef, FileRepair, FileTime, OpenHow, RegionScan, Store, StoreError};
use xylem_transfer::TransferEvent;
use xylem_tree::{Geometry, SegmentSize};

use super::error::ScrubError;
use super::item::{Flawed, ScrubItem};
use super::options::{DeliveryFailure, ScrubSummary};
use super::targets::ScrubTarget;
use super::tree::ScrubTree;
use crate::{Remote, Wanted};

/// Most files open for repair at once.
const OPEN_REPAIRS: usize = 64;
/// Segments under one tile of the lowest tier: 256 nodes, 8 segments each.
const SEGMENTS_A_TILE: u64 = 8 * 256;
/// An unproven stretch of at most this many segments is fetched whole.
const SHORT: u64 = 8;

/// Mends the files of one target.
pub(super) struct Mender<'a> {
    store: &'a Store,
    stop: &'a Stop,
    remote: &'a mut dyn Remote,
    /// Directory below which no symbolic link is followed when writing.
    top: PathBuf,
    /// Why peers did not deliver missing pieces.
    failed: Option<Box<dyn Failure>>,
}

impl<'a> Mender<'a> {
    pub(super) fn new(
        store: &'a Store,
        stop: &'a Stop,
        target: &ScrubTarget,
        remote: &'a mut dyn Remote,
    ) -> Self {
        remote.target(&target.tickets, target.named);
        let above = target.path.parent().filter(|_| !target.directory);
        let top = above.unwrap_or(&target.path).to_path_buf();
        Self { store, stop, remote, top, failed: None }
    }

    /// Mends `flawed` as far as possible; each item afterwards describes what is left.
    ///
    /// # Errors
    /// An interruption, or a failure to write. Finished repairs stay.
    pub(super) fn mend(
        &mut self,
        flawed: &mut [Flawed],
        tree: &mut ScrubTree,
        summary: &mut ScrubSummary,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), ScrubError> {
        for some in flawed.chunks_mut(OPEN_REPAIRS) {
            for one in some.iter() {
                if let Some(base) = one.item.slot {
                    tree.mend(base, &one.found)?;
                }
            }
            let mut repairs = Vec::with_capacity(some.len());
            for one in some.iter() {
                repairs.push(self.begin(one, on_event)?);
            }
            let outcome = self.ask_all(some, &mut repairs, tree, summary);
            for (one, repair) in some.iter().zip(repairs) {
                let Some(repair) = repair else { continue };
                if let Some(mtime) = repair.time_left() {
                    self.note_time(&one.item, mtime)?;
                    let path = one.item.path.display();
                    let what = format!(
                        "{path}: belongs to another user, so its time can't be set back; only this store \
                         has a record of the repair"
                    );
                    on_event(LibraryEvent::Warning { what });
                }
                repair.finish()?;
            }
            outcome?;
            // Fetched data may prove more of the tree than was there before.
            for one in some.iter().filter(|one| one.wrong_nodes() > 0) {
                if let Some(base) = one.item.slot {
                    tree.mend(base, &one.found)?;
                }
            }
            self.check_again(some, tree)?;
        }
        self.remote.leave();
        Ok(())
    }

    /// Records a file's final time in the record of the file itself.
    fn note_time(&self, item: &ScrubItem, mtime: FileTime) -> Result<(), StoreError> {
        match self.store.known_at(&item.key)? {
            Some(mut known) if known.root == item.root && item.id == ObjectId::Root => {
                known.state.mtime = mtime;
                self.store.remember(&known)
            }
            _ => Ok(()),
        }
    }

    /// Opens a file for repair; `None`, with a warning, if it cannot be written.
    fn begin(
        &self,
        one: &Flawed,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<Option<FileRepair>, ScrubError> {
        let item = &one.item;
        let bad = one.found.bad();
        if bad.is_empty() && one.size == item.geometry.size() && !one.unfinished {
            return Ok(None);
        }
        let (root, geometry) = (item.root, item.geometry);
        let medium = &**self.store.medium();
        let begun = FileRef::open_below(medium, &self.top, &item.path, OpenHow::ReadWrite)
            .and_then(|file| {
                FileRepair::begin(self.store, file, &item.key, root, geometry, one.state, bad)
            });
        match begun {
            Ok(repair) => Ok(Some(repair)),
            Err(
                e @ (StoreError::Permission { .. }
                | StoreError::Busy { .. }
                | StoreError::Unsafe { .. }),
            ) => {
                on_event(LibraryEvent::Warning { what: advised(&e) });
                Ok(None)
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Tries one source after the other until nothing is missing.
    fn ask_all(
        &mut self,
        flawed: &mut [Flawed],
        repairs: &mut [Option<FileRepair>],
        tree: &mut ScrubTree,
        summary: &mut ScrubSummary,
    ) -> Result<(), ScrubError> {
        self.check_again(flawed, tree)?;
        let mut why = None;
        loop {
            let bad = |(one, repair): (&Flawed, &Option<FileRepair>)| {
                repair.is_some() && !one.found.bad().is_empty()
            };
            if !flawed.iter().zip(repairs.iter()).any(bad) {
                return Ok(());
            }
            let Some(published) = self.remote.connect(&mut why, self.stop)? else {
                self.failed = why.or(self.failed.take());
                return Ok(());
            };
            let segment = published.segment_size();
            let mut failed = None;
            for round in 0..2 {
                failed = self.round(segment, round, flawed, repairs, tree, summary)?;
                self.check_again(flawed, tree)?;
                if failed.is_some() {
                    break;
                }
            }
            if failed.is_none() && !flawed.iter().zip(repairs.iter()).any(bad) {
                return Ok(());
            }
            // No peer of this source has all of it, or what it delivered does not stay on this disk.
            why = failed.or(why);
            self.remote.give_up_source();
        }
    }

    /// Requests missing segments; in the first round, those that bring lost trees. Returns why peers failed, if they
    /// did.
    fn round(
        &mut self,
        segment: SegmentSize,
        round: u32,
        flawed: &[Flawed],
        repairs: &mut [Option<FileRepair>],
        tree: &mut ScrubTree,
        summary: &mut ScrubSummary,
    ) -> Result<Option<Box<dyn Failure>>, ScrubError> {
        let mut wanted = Vec::new();
        for (one, repair) in flawed.iter().zip(repairs.iter()) {
            let geometry = Geometry::new(one.item.geometry.size(), segment);
            let ranges = if repair.is_some() { plan(one, &geometry, round) } else { Vec::new() };
            if ranges.is_empty() {
                continue;
            }
            let same = geometry == one.item.geometry;
            wanted.push(Wanted {
                object: one.item.id,
                root: one.item.root,
                geometry,
                segments: ranges,
                verifier: same.then(|| one.found.scan.verifier(&one.found.regions)),
            });
        }
        if wanted.is_empty() {
            return Ok(None);
        }
        let of = |object: ObjectId| flawed.iter().position(|one| one.item.id == object);
        let mut keep = |event: TransferEvent| -> Result<(), StoreError> {
            match event {
                TransferEvent::Segment { object, segment } => {
                    summary.fetched += segment.content.len() as u64;
                    let repair = of(object).and_then(|at| repairs[at].as_mut());
                    repair.map_or(Ok(()), |repair| repair.put(&segment).map(drop))
                }
                TransferEvent::Nodes { object, nodes } => {
                    let one = of(object).map(|at| &flawed[at].item);
                    let base = one.filter(|i| i.geometry.segment_size() == segment);
                    match base.and_then(|item| item.slot) {
                        Some(base) => tree.put_nodes(base, &nodes),
                        None => Ok(()),
                    }
                }
                _ => Ok(()),
            }
        };
        Ok(self.remote.fetch(wanted, &mut keep, self.stop)?)
    }

    /// Reads back what was not right, with the tree as it is by now.
    fn check_again(&self, flawed: &mut [Flawed], tree: &ScrubTree) -> Result<(), ScrubError> {
        for one in flawed.iter_mut() {
            let sized = one.size == one.item.geometry.size();
            if sized && one.found.bad().is_empty() && one.wrong_nodes() == 0 {
                continue;
            }
            // The tree may have been created meanwhile.
            one.subject.outboard = tree.outboard().cloned().zip(one.item.slot);
            one.now = one.subject.file.metadata()?;
            one.size = one.now.size;
            let regions = std::mem::take(&mut one.found.regions);
            let fine = |r: &RegionScan| r.is_complete() && r.repairs().is_empty();
            let right = regions.into_iter().filter(fine).collect();
            let again = inspect_again(&one.subject, right, &mut Readers::All, &|_| true);
            if let Some(found) = again? {
                one.found = found;
            }
        }
        Ok(())
    }

    /// Returns the size of the root object from its signed manifest, for a ticket without a size. `None`: no peer
    /// answers.
    ///
    /// # Errors
    /// An interruption.
    pub(super) fn published_size(&mut self) -> Result<Option<u64>, ScrubError> {
        // Missing answers matter only once there is something to mend.
        let found = self.remote.connect(&mut None, self.stop)?;
        Ok(found.map(|geometry| geometry.size()))
    }

    /// Returns why pieces are missing, if peers are the cause: they sent wrong data, or did not answer.
    pub(super) fn not_brought(&mut self) -> Option<DeliveryFailure> {
        let misbehaved = self.remote.misbehaved();
        let why =
            if misbehaved { DeliveryFailure::Misbehaved } else { DeliveryFailure::Unreachable };
        self.failed.take().map(why)
    }
}

/// Returns the segments to request.
fn plan(one: &Flawed, geometry: &Geometry, round: u32) -> Vec<Range<u64>> {
    let bad = one.found.bad();
    if *geometry != one.item.geometry {
        let bytes = bad.iter().map(|r| one.found.bytes_of(r));
        let mut wanted: Vec<Range<u64>> = Vec::new();
        for range in bytes.map(|b| geometry.segments_of(b)) {
            match wanted.last_mut() {
                Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
                _ => wanted.push(range),
            }
        }
        return wanted;
    }
    let unproven = one.found.unproven();
    let long = |r: &&Range<u64>| r.end - r.start > SHORT;
    if round > 0 || !unproven.iter().any(|r| long(&r)) {
        return bad;
    }
    // One segment in each tile's span brings the tile.
    let mut wanted = Vec::new();
    for range in unproven.iter().filter(long) {
        let mut at = range.start;
        while at < range.end {
            wanted.push(at..at + 1);
            at = (at / SEGMENTS_A_TILE + 1) * SEGMENTS_A_TILE;
        }
    }
    wanted
}
