//! [`Update`]: makes one file from old copies, and from peers where it is new.
//!
//! ```text
//! list of sums + old copies → search → claims ─ prove ─→ proven blocks → read once more, proven → result
//!                                        ↑ nodes          what is not claimed, or wrong
//!                                        └── Transfer ←───────────────┘
//! ```
//!
//! It works in rounds. Each round fetches the blocks without a claim, and their proofs bring nodes that prove claims.
//! The next round fetches the blocks with refuted claims. If all blocks are found, the root alone proves them and
//! nothing is fetched. The bytes of a proven block are read from the old copy a second time and hashed again before
//! they are used: an old copy that changes meanwhile only costs a fetch.
//!
//! Threads of its own search and copy; its owner saves the result.

mod copying;
mod list;
mod search;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use xylem_hash::Hash;
use xylem_object::ObjectId;
use xylem_object::sums::read_list;
use xylem_store::FileRef;
use xylem_transfer::{AddError, Transfer};
use xylem_tree::{
    Claims, Geometry, Node, NodeValue, Segment, SegmentIndex, SegmentSet, TreeVerifier,
    UpdateBlocks, Verified,
};

pub(crate) use list::{ListDeadline, SumsList};

use copying::{Copier, CopyOutcome};
use search::{FoundBlock, Old, OldPlace, search};

/// Rounds of fetching in which claims may still be refuted; blocks unproven after them are fetched.
const MAX_ROUNDS: u32 = 8;
/// Interval at which threads are checked.
const TICK: Duration = Duration::from_millis(1);

/// Interval at which claims are checked against new nodes.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Proven nodes with their places.
type Nodes = Verified<Vec<(Node, NodeValue)>>;

/// Saves what an update proves.
pub(crate) trait UpdateSink {
    /// Error of saving.
    type Error: From<AddError>;
    /// Saves segments of an old copy, in order.
    fn reused(&mut self, segments: Vec<Verified<Segment<Bytes>>>) -> Result<(), Self::Error>;
    /// Saves nodes, after the segments that they prove.
    fn nodes(&mut self, nodes: Nodes) -> Result<(), Self::Error>;
}

/// An old copy on disk.
struct OldFile {
    file: FileRef,
    len: u64,
}

impl Old for OldFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn next_data(&self, offset: u64) -> Option<u64> {
        // If holes cannot be queried, all is read.
        self.file.next_data(offset).map_or(Some(offset), |data| data.map(|data| data.start))
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        // An unreadable part counts as not found.
        self.file.read_full(buf, offset).unwrap_or(0)
    }
}

/// One file that is made from old copies. Its owner calls [`Update::poll`] repeatedly until it is done,
/// [`Update::segment`] and [`Update::nodes`] for fetched data, and [`Update::round_is_over`] when the transfer has
/// delivered all that was requested.
pub(crate) struct Update {
    id: ObjectId,
    root: Hash,
    geometry: Geometry,
    verifier: TreeVerifier,
    /// Segments that are here, or were given to the owner.
    have: SegmentSet,
    claims: Claims,
    places: Vec<Option<OldPlace>>,
    copier: Copier,
    /// Number of blocks being copied.
    copying: u64,
    searching: Option<JoinHandle<Vec<FoundBlock>>>,
    stop: Arc<AtomicBool>,
    rounds: u32,
    /// Whether requested segments are still missing.
    fetching: bool,
    /// When claims are checked again: at once after a round, from time to time while nodes arrive.
    look_at: Duration,
}

/// The state from which a file's update starts.
pub(crate) struct UpdateStart {
    pub(crate) id: ObjectId,
    pub(crate) root: Hash,
    pub(crate) geometry: Geometry,
    /// Contains the nodes proven already.
    pub(crate) verifier: TreeVerifier,
    /// Segments that are here already.
    pub(crate) have: SegmentSet,
}

impl Update {
    /// Begins to search `copies` with the file's list. Returns `start` if that is impossible: the list is invalid, or
    /// the system starts no threads.
    pub(crate) fn begin(
        start: UpdateStart,
        list: &[u8],
        copies: Vec<FileRef>,
    ) -> Result<Self, Box<UpdateStart>> {
        let blocks = UpdateBlocks::of(start.geometry);
        let read = blocks.and_then(|blocks| Some((blocks, read_list(list, &blocks)?)));
        let Some((blocks, sums)) = read else { return Err(Box::new(start)) };
        let copies: Arc<Vec<Box<dyn Old>>> = Arc::new(
            copies
                .into_iter()
                .filter_map(|file| Some((file.metadata().ok()?.size, file)))
                .map(|(len, file)| Box::new(OldFile { file, len }) as Box<dyn Old>)
                .collect(),
        );
        let stop = Arc::new(AtomicBool::new(false));
        let Ok(copier) = Copier::new(blocks, copies.clone(), stop.clone()) else {
            return Err(Box::new(start));
        };
        let stopped = stop.clone();
        let seek = move || search(&blocks, &sums, &copies, &stopped);
        let Ok(searching) = thread::Builder::new().spawn(seek) else { return Err(Box::new(start)) };
        let UpdateStart { id, root, geometry, verifier, have } = start;
        Ok(Self {
            id,
            root,
            geometry,
            verifier,
            have,
            claims: Claims::new(blocks, root),
            places: vec![None; blocks.count() as usize],
            copier,
            copying: 0,
            searching: Some(searching),
            stop,
            rounds: 0,
            fetching: false,
            look_at: Duration::ZERO,
        })
    }

    /// Returns whether all of the file was fetched or given to the owner.
    pub(crate) fn is_done(&self) -> bool {
        self.have.is_full()
    }

    /// Records a fetched segment.
    pub(crate) fn segment(&mut self, index: SegmentIndex) {
        self.have.insert(index.0);
        self.verifier.forget_complete(index.0..index.0 + 1);
    }

    /// Records nodes that fetched data proved.
    pub(crate) fn nodes(&mut self, nodes: &Nodes) {
        // Learning cannot fail: the transfer's nodes are of this object.
        let _ = self.verifier.absorb_nodes(nodes);
    }

    /// Called when the transfer has delivered all that was requested.
    pub(crate) fn round_is_over(&mut self) {
        self.fetching = false;
        self.look_at = Duration::ZERO;
    }

    /// Continues: passes what is proven to `keeper`, and requests what is missing from `transfer`. Returns when to be
    /// called again, if threads still work.
    ///
    /// # Errors
    /// The keeper's.
    pub(crate) fn poll<K: UpdateSink>(
        &mut self,
        now: Duration,
        transfer: &mut Transfer,
        keeper: &mut K,
    ) -> Result<Option<Duration>, K::Error> {
        if let Some(searching) = self.searching.take_if(|thread| thread.is_finished()) {
            let found = searching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            self.claim(found);
        }
        while let Some(copied) = self.copier.next() {
            self.copying -= 1;
            match copied {
                CopyOutcome::Block { block, segments, nodes } => {
                    self.have.insert_range(self.claims.blocks().segments(block));
                    keeper.reused(segments)?;
                    keeper.nodes(nodes)?;
                }
                CopyOutcome::Gone(block) => {
                    self.claims.withdraw(block);
                    self.look_at = Duration::ZERO;
                }
            }
        }
        if self.searching.is_none() && now >= self.look_at && !self.is_done() {
            self.look_at = now + LOOK_EVERY;
            self.round(transfer, keeper)?;
        }
        let waits = self.searching.is_some() || self.copying > 0;
        Ok(waits.then(|| now + TICK))
    }

    fn claim(&mut self, found: Vec<FoundBlock>) {
        for FoundBlock { block, place, value } in found {
            let segments = self.claims.blocks().segments(block);
            if self.missing(segments).next().is_some() {
                self.claims.claim(block, value);
                self.places[block as usize] = Some(place);
            }
        }
    }

    /// Returns the segments of a range that are not here.
    fn missing(&self, segments: std::ops::Range<u64>) -> impl Iterator<Item = u64> + '_ {
        segments.filter(|segment| !self.have.contains(*segment))
    }

    /// Proves claims, has proven blocks copied, and requests the segments that are neither here nor claimed.
    fn round<K: UpdateSink>(
        &mut self,
        transfer: &mut Transfer,
        keeper: &mut K,
    ) -> Result<(), K::Error> {
        let proven = self.claims.prove(&self.verifier);
        if !proven.nodes.is_empty() {
            keeper.nodes(proven.nodes)?;
        }
        for block in proven.blocks {
            match (self.claims.anchor(block), self.places[block as usize]) {
                (Some(anchor), Some(place)) => {
                    self.copying += 1;
                    self.copier.copy(block, place, anchor);
                }
                _ => self.claims.withdraw(block),
            }
        }
        if self.fetching {
            return Ok(());
        }
        let mut wanted = self.unclaimed();
        for node in proven.refuted {
            let first = self.missing(self.geometry.node_segments(node)).next();
            if let Some(segment) = first {
                wanted.insert(segment);
            }
        }
        if wanted.is_empty()
            && let Some(block) = self.claims.open().next(0)
        {
            // No request under way brings further nodes; a segment's proof does.
            let first = self.missing(self.claims.blocks().segments(block)).next();
            if let Some(segment) = first {
                wanted.insert(segment);
            }
        }
        if self.rounds >= MAX_ROUNDS {
            let open: Vec<u64> = self.claims.open().iter().collect();
            open.into_iter().for_each(|block| self.claims.withdraw(block));
            wanted = self.unclaimed();
        }
        if wanted.is_empty() {
            return Ok(());
        }
        self.rounds += 1;
        self.fetching = true;
        let verifier = Some(self.verifier.fork());
        transfer.add_object(self.id, self.root, self.geometry, wanted.ranges(), [], verifier)?;
        Ok(())
    }

    /// Returns the segments that are neither here nor claimed.
    fn unclaimed(&self) -> SegmentSet {
        let mut wanted = SegmentSet::new(self.geometry.segments());
        self.have.missing().for_each(|range| wanted.insert_range(range));
        for claimed in [self.claims.open(), self.claims.proven()] {
            for blocks in claimed.ranges() {
                let first = self.claims.blocks().segments(blocks.start).start;
                let last = self.claims.blocks().segments(blocks.end - 1).end;
                wanted.remove_range(first..last);
            }
        }
        wanted
    }
}

impl Drop for Update {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(searching) = self.searching.take() {
            let _ = searching.join();
        }
    }
}
