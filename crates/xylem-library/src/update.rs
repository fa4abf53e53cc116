//! [`Update`]: one file made from old copies, and from peers where it is new.
//!
//! ```text
//! list of sums + old copies → search → claims ─ prove ─→ proven blocks → read once more, proven → result
//!                                        ↑ nodes          what is not claimed, or wrong
//!                                        └── Transfer ←───────────────┘
//! ```
//!
//! Rounds: what the claims leave open is fetched, and its proofs bring nodes that claims are proven with;
//! what they refute is fetched in the next round. With everything found the root alone proves it all and
//! nothing is fetched. Bytes of an old copy are read a second time when their block is proven, hashed
//! again from what was read, and only then evidence: an old copy that changes meanwhile costs a fetch.
//!
//! It has threads of its own for searching and for copying; its owner keeps the result.

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
    Claims, Geometry, Node, NodeValue, Segment, SegmentIndex, SegmentSet, UpdateBlocks, Verified,
    Verifier,
};

pub(crate) use list::{Late, List};

use copying::{Copied, Copier};
use search::{Found, Old, Place, search};

/// Rounds of fetching in which claims may still be refuted; what is unproven then is fetched.
const MAX_ROUNDS: u32 = 8;
/// How often threads are looked after.
const TICK: Duration = Duration::from_millis(1);

/// How often claims are held against nodes that have come.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Proven nodes with their places.
type Nodes = Verified<Vec<(Node, NodeValue)>>;

/// Where an owner keeps what is proven.
pub(crate) trait Keeper {
    /// Why it can't.
    type Error: From<AddError>;
    /// Segments of an old copy, in order.
    fn reused(&mut self, segments: Vec<Verified<Segment<Bytes>>>) -> Result<(), Self::Error>;
    /// Nodes, after the segments that they vouch for.
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
        // What can't be looked at is read.
        self.file.next_data(offset).map_or(Some(offset), |data| data.map(|data| data.start))
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        // What can't be read was not found.
        self.file.read_full(buf, offset).unwrap_or(0)
    }
}

/// One file that is made from old copies. Its owner calls [`Update::poll`] again and again until it is
/// done, [`Update::segment`] and [`Update::nodes`] for what is fetched, and [`Update::round_is_over`] when
/// the transfer has all that it was asked for.
pub(crate) struct Update {
    id: ObjectId,
    root: Hash,
    geometry: Geometry,
    verifier: Verifier,
    /// Segments that are there, or were given to the owner.
    have: SegmentSet,
    claims: Claims,
    places: Vec<Option<Place>>,
    copier: Copier,
    /// Blocks that are being copied.
    copying: u64,
    searching: Option<JoinHandle<Vec<Found>>>,
    stop: Arc<AtomicBool>,
    rounds: u32,
    /// The transfer has been asked for something and has not brought all of it.
    fetching: bool,
    /// When claims are looked at again: at once after a round, now and then while nodes come.
    look_at: Duration,
}

/// What a file's update starts from.
pub(crate) struct Start {
    pub(crate) id: ObjectId,
    pub(crate) root: Hash,
    pub(crate) geometry: Geometry,
    /// Knows what is proven already.
    pub(crate) verifier: Verifier,
    /// Segments that are there already.
    pub(crate) have: SegmentSet,
}

impl Update {
    /// Begins to search `copies` with the file's list; gives `start` back where that can't be done: the
    /// list is none, or the system starts no threads.
    pub(crate) fn begin(
        start: Start,
        list: &[u8],
        copies: Vec<FileRef>,
    ) -> Result<Self, Box<Start>> {
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
        let Start { id, root, geometry, verifier, have } = start;
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

    /// Whether all of the file was fetched or given to the owner.
    pub(crate) fn is_done(&self) -> bool {
        self.have.is_full()
    }

    /// A segment was fetched.
    pub(crate) fn segment(&mut self, index: SegmentIndex) {
        self.have.insert(index.0);
        self.verifier.forget_complete(index.0..index.0 + 1);
    }

    /// Nodes were proven by what was fetched.
    pub(crate) fn nodes(&mut self, nodes: &Nodes) {
        // Of this very object, or they would not be the transfer's.
        let _ = self.verifier.learn(nodes);
    }

    /// All that the transfer was asked for is here.
    pub(crate) fn round_is_over(&mut self) {
        self.fetching = false;
        self.look_at = Duration::ZERO;
    }

    /// Goes on: gives what is proven to `keeper`, asks `transfer` for what is missing. Returns when to be
    /// called again, if something goes on beside.
    ///
    /// # Errors
    /// The keeper's.
    pub(crate) fn poll<K: Keeper>(
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
                Copied::Block { block, segments, nodes } => {
                    self.have.insert_range(self.claims.blocks().segments(block));
                    keeper.reused(segments)?;
                    keeper.nodes(nodes)?;
                }
                Copied::Gone(block) => {
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

    fn claim(&mut self, found: Vec<Found>) {
        for Found { block, place, value } in found {
            let segments = self.claims.blocks().segments(block);
            if self.missing(segments).next().is_some() {
                self.claims.claim(block, value);
                self.places[block as usize] = Some(place);
            }
        }
    }

    /// Segments of a range that are not there.
    fn missing(&self, segments: std::ops::Range<u64>) -> impl Iterator<Item = u64> + '_ {
        segments.filter(|segment| !self.have.contains(*segment))
    }

    /// Proves what can be proven, has it copied, and asks for what neither is nor may be.
    fn round<K: Keeper>(
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
            // Nothing that is on its way will tell more: a segment's proof does.
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

    /// Segments that are not there and of no claim.
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
