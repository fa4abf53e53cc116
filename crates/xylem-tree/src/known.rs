//! The state of a verifier: the proven nodes, and which segments are done.
//!
//! Proven values come in pairs, as the two children of a proven node, and are kept in *blocks*: the seven pairs under
//! one node of a level that is a multiple of three. A segment's proof lies in one block, so verifying a segment
//! accesses one block or two.
//!
//! The rest of the crate relies on two invariants:
//! - pairs are closed upwards: if a pair is known, so are all pairs above it;
//! - blocks are closed upwards: if a block exists, so do all blocks above it (some without a
//!   pair, at the file's edge, where nodes are promoted over several levels).
//!
//! Each block marks which of its eight children are done: all their segments are stored safely elsewhere. When all
//! children of a block are done, the block is dropped with everything below it, and marked done in the block above. So
//! one bit in the lowest remaining block stands for everything dropped, and a file that is read in order needs only a
//! few blocks a level.

use alloc::boxed::Box;
use core::{
    hash::{BuildHasherDefault, Hasher},
    ops::Range,
};

use hashbrown::HashMap;

use crate::{
    geometry::Geometry,
    ids::{Node, NodeValue},
};

/// Levels in a block.
const BAND: u8 = 3;
/// Children of a block.
const FANOUT: u64 = 1 << BAND;

/// The two children of a node, left first.
pub(crate) type Pair = [NodeValue; 2];

#[derive(Clone)]
struct NodeBlock {
    /// Bit set of the proven pairs, by [`PairPlace::pair`].
    known: u8,
    /// Bit set of the children that are done.
    done: u8,
    pairs: [Pair; 7],
}

impl NodeBlock {
    fn put(&mut self, at: usize, pair: Pair) {
        self.pairs[at] = pair;
        self.known |= 1 << at;
    }
}

/// Block `index` of band `band`: under node `index` of level `(band + 1) * 3`, even if the tree is not that high.
#[derive(Clone, Copy)]
struct BlockId {
    band: u8,
    index: u64,
}

impl BlockId {
    fn key(self) -> u64 {
        Node { level: (self.band + 1) * BAND, index: self.index }.slot()
    }

    fn above(self) -> Self {
        Self { band: self.band + 1, index: self.index / FANOUT }
    }

    /// Its bit in `done` of the block above.
    fn bit_above(self) -> u8 {
        1 << (self.index % FANOUT)
    }
}

/// The block and the pair that hold the children of a node.
struct PairPlace {
    block: BlockId,
    /// 0 to 3 at the block's lowest level, 4 and 5 above, 6 at its top.
    pair: usize,
}

impl PairPlace {
    fn of(parent: Node) -> Self {
        let (band, height) = ((parent.level - 1) / BAND, (parent.level - 1) % BAND);
        let index = parent.index >> (BAND - 1 - height);
        let pair = match height {
            0 => parent.index & 3,
            1 => 4 + (parent.index & 1),
            _ => 6,
        };
        Self { block: BlockId { band, index }, pair: pair as usize }
    }
}

#[derive(Clone)]
pub(crate) struct ProvenNodes {
    geo: Geometry,
    /// Number of bands up to the root; 0 for a file of one segment.
    bands: u8,
    blocks: HashMap<u64, Box<NodeBlock>, BuildHasherDefault<BlockKeyHasher>>,
    /// Whether every segment is done.
    complete: bool,
}

impl ProvenNodes {
    pub(crate) fn new(geo: Geometry) -> Self {
        let bands = geo.levels().div_ceil(BAND);
        Self { geo, bands, blocks: HashMap::default(), complete: false }
    }

    /// The proven children of a real node above the segments.
    pub(crate) fn pair(&self, parent: Node) -> Option<&Pair> {
        let place = PairPlace::of(parent);
        let block = self.blocks.get(&place.block.key())?;
        (block.known & (1 << place.pair) != 0).then(|| &block.pairs[place.pair])
    }

    /// Keeps the proven children of a node and returns true. If everything below was reported done, it keeps nothing
    /// and returns false.
    pub(crate) fn insert(&mut self, parent: Node, pair: Pair) -> bool {
        let place = PairPlace::of(parent);
        if let Some(block) = self.blocks.get_mut(&place.block.key()) {
            block.put(place.pair, pair);
            return true;
        }
        if self.block_done(place.block) {
            return false;
        }
        self.create(place.block);
        self.put(place, pair);
        true
    }

    /// Keeps the proven children of a node even if everything below was reported done. The block then stays open until
    /// that is reported again.
    pub(crate) fn insert_reopening(&mut self, parent: Node, pair: Pair) {
        let place = PairPlace::of(parent);
        if !self.blocks.contains_key(&place.block.key()) {
            self.create(place.block);
        }
        self.put(place, pair);
    }

    fn put(&mut self, place: PairPlace, pair: Pair) {
        let block = self.blocks.get_mut(&place.block.key()).expect("there, or just created");
        block.put(place.pair, pair);
    }

    /// Creates a missing block and the missing blocks above it. If that reopens a subtree that was done, its segments
    /// stay marked as done.
    fn create(&mut self, block: BlockId) {
        let reopened = self.block_done(block);
        let (mut at, mut open) = (block, 0);
        loop {
            let done = if reopened { self.all_children(at) & !open } else { 0 };
            let fresh = NodeBlock { known: 0, done, pairs: [[NodeValue::UNKNOWN; 2]; 7] };
            self.blocks.insert(at.key(), Box::new(fresh));
            if at.band + 1 >= self.bands {
                self.complete = false;
                return;
            }
            open = at.bit_above();
            at = at.above();
            if let Some(above) = self.blocks.get_mut(&at.key()) {
                above.done &= !open;
                return;
            }
        }
    }

    /// Marks segments as done and drops what only they needed.
    ///
    /// It works upwards. Within a band, the range covers all blocks that it overlaps completely, except the first and
    /// the last, so what is done in the next band is again a range.
    pub(crate) fn finish(&mut self, segments: Range<u64>) {
        let mut done = segments.start..segments.end.min(self.geo.segments());
        for band in 0..self.bands {
            if done.is_empty() {
                return;
            }
            let (first, last) = (done.start / FANOUT, (done.end - 1) / FANOUT);
            let first_done = self.mark(BlockId { band, index: first }, &done);
            let last_done = if first == last {
                first_done
            } else {
                self.mark(BlockId { band, index: last }, &done)
            };
            done = first + u64::from(!first_done)..last + u64::from(last_done);
        }
        if !done.is_empty() {
            self.complete = true;
            self.blocks.clear();
        }
    }

    /// Marks the children of a block that lie in `done`; returns whether all its children are done then.
    fn mark(&mut self, id: BlockId, done: &Range<u64>) -> bool {
        let children = self.children(id);
        if done.start <= children.start && children.end <= done.end {
            return true; // the block above drops it and marks it
        }
        if !self.blocks.contains_key(&id.key()) {
            if self.block_done(id) {
                return true;
            }
            self.create(id);
        }
        let bits = (done.start.max(children.start)..done.end.min(children.end))
            .fold(0u8, |bits, child| bits | 1 << (child % FANOUT));
        let all = self.all_children(id);
        let block = self.blocks.get_mut(&id.key()).expect("there, or just created");
        let new = bits & !block.done;
        block.done |= bits;
        let full = block.done == all;
        if id.band > 0 {
            for child in (0..FANOUT).filter(|child| new & (1 << child) != 0) {
                self.drop_block(BlockId { band: id.band - 1, index: children.start + child });
            }
        }
        full
    }

    /// Drops a block and everything below it. Children marked as done have nothing below them any more.
    fn drop_block(&mut self, id: BlockId) {
        let Some(block) = self.blocks.remove(&id.key()) else { return };
        if id.band > 0 {
            for child in self.children(id) {
                if block.done & (1 << (child % FANOUT)) == 0 {
                    self.drop_block(BlockId { band: id.band - 1, index: child });
                }
            }
        }
    }

    /// Returns whether all segments under a real node are done.
    pub(crate) fn done(&self, node: Node) -> bool {
        let band = node.level / BAND;
        if band >= self.bands {
            return self.complete;
        }
        // The node's descendants at its band's lowest level, all children of one block.
        let height = node.level % BAND;
        let first = node.index << height;
        let end = ((node.index + 1) << height).min(self.geo.count(band * BAND));
        let id = BlockId { band, index: first / FANOUT };
        match self.blocks.get(&id.key()) {
            Some(block) => (first..end).all(|child| block.done & (1 << (child % FANOUT)) != 0),
            None => self.block_done(id),
        }
    }

    /// Returns whether a missing block is missing because it was done: the lowest existing block above decides.
    fn block_done(&self, mut id: BlockId) -> bool {
        while id.band + 1 < self.bands {
            let bit = id.bit_above();
            id = id.above();
            if let Some(above) = self.blocks.get(&id.key()) {
                return above.done & bit != 0;
            }
        }
        self.complete
    }

    /// The children of a block: nodes of its band's lowest level.
    fn children(&self, id: BlockId) -> Range<u64> {
        let first = id.index * FANOUT;
        first..(first + FANOUT).min(self.geo.count(id.band * BAND))
    }

    fn all_children(&self, id: BlockId) -> u8 {
        let children = self.children(id);
        u8::MAX >> (FANOUT - (children.end - children.start))
    }

    /// Memory of the blocks, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.len() * (size_of::<NodeBlock>() + size_of::<(u64, Box<NodeBlock>)>())
    }
}

/// Hashes block keys for the table. Keys are positions in the tree and enter by proof only, so an attacker cannot
/// choose them to collide.
#[derive(Default)]
struct BlockKeyHasher(u64);

impl Hasher for BlockKeyHasher {
    fn write_u64(&mut self, key: u64) {
        // An odd constant near 2^64 over the golden ratio. The table uses the low bits and the highest seven, and a
        // product mixes upwards only.
        let mixed = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: crate::SegmentSize = match crate::SegmentSize::from_log2_chunks(0) {
        Some(size) => size,
        None => unreachable!(),
    };

    fn known(segments: u64) -> ProvenNodes {
        ProvenNodes::new(Geometry::new(segments * 1024, KIB))
    }

    fn pair(n: u64) -> Pair {
        [n, n + 1].map(|n| NodeValue([n as u8; 32]))
    }

    /// All real nodes above the segments, top down.
    fn parents(geo: &Geometry) -> Vec<Node> {
        let levels = (1..=geo.levels()).rev();
        levels
            .flat_map(|level| (0..geo.count(level)).map(move |index| Node { level, index }))
            .filter(|node| geo.node_exists(*node))
            .collect()
    }

    #[test]
    fn each_pair_has_a_place_of_its_own() {
        for n in 1..=200 {
            let mut known = known(n);
            let parents = parents(&known.geo);
            for (at, parent) in parents.iter().enumerate() {
                assert!(known.pair(*parent).is_none());
                assert!(known.insert(*parent, pair(at as u64)));
            }
            for (at, parent) in parents.iter().enumerate() {
                assert_eq!(known.pair(*parent), Some(&pair(at as u64)), "{parent} of {n}");
            }
        }
    }

    /// Compares with a plain set of segments under random ranges.
    #[test]
    fn done_segments_are_those_reported() {
        let mut rng = xylem_sim::Rng::new(1);
        let mut roll = |below: u64| rng.below(below);
        for n in [1u64, 2, 3, 7, 8, 9, 10, 63, 64, 65, 72, 73, 511, 512, 513, 600, 700] {
            for _ in 0..4 {
                let mut known = known(n);
                let parents = parents(&known.geo);
                for parent in &parents {
                    known.insert(*parent, pair(0));
                }
                let mut done = vec![false; n as usize];
                while !done.iter().all(|d| *d) {
                    let from = roll(n);
                    let width = [1, 8, 64, n][roll(4) as usize];
                    let to = (from + 1 + roll(width)).min(n);
                    known.finish(from..to);
                    done[from as usize..to as usize].fill(true);
                    check(&mut known, &parents, &done);
                }
                assert!(known.complete && known.blocks.is_empty(), "{n} segments");
            }
        }
    }

    /// Checks that `done` equals the plain set, that nodes not done are still known, and that pairs inserted where all
    /// is done are not kept.
    fn check(known: &mut ProvenNodes, parents: &[Node], done: &[bool]) {
        let geo = known.geo;
        let all_done = |node: Node| geo.node_segments(node).all(|i| done[i as usize]);
        for i in 0..geo.segments() {
            let leaf = Node { level: 0, index: i };
            assert_eq!(known.done(leaf), all_done(leaf), "segment {i} of {}", geo.segments());
        }
        let held = known.blocks.len();
        for parent in parents {
            assert_eq!(known.done(*parent), all_done(*parent), "{parent} of {}", geo.segments());
            let kept = known.pair(*parent).is_some();
            assert!(kept || all_done(*parent), "{parent} of {}", geo.segments());
            if !kept {
                assert!(!known.insert(*parent, pair(0)));
            }
        }
        assert_eq!(known.blocks.len(), held);
    }

    /// A block that is reopened below what was done stays until it is reported again, and is dropped then, even if
    /// everything around it was dropped before.
    #[test]
    fn reopened_blocks_are_kept_until_reported_again() {
        let parent = Node { level: 1, index: 5 }; // over segments 10 and 11
        for around in [64..65, 64..512, 64..600, 0..8] {
            let mut known = known(600);
            known.finish(0..64);
            assert!(!known.insert(parent, pair(0)));
            known.insert_reopening(parent, pair(0));
            known.finish(around.clone());
            assert_eq!(known.pair(parent), Some(&pair(0)));
            assert!(known.done(parent), "its segments are still done");
            known.finish(10..11);
            assert!(known.pair(parent).is_none(), "after {around:?}");
            assert!(known.done(Node { level: 6, index: 0 }));
        }
    }

    /// 2^18 segments in order, tile by tile: the memory held does not grow with the file.
    #[test]
    fn reading_in_order_holds_little() {
        let mut known = known(1 << 18);
        let geo = known.geo;
        let mut most = 0;
        for parent in parents(&geo).into_iter().filter(|parent| parent.level > 11) {
            known.insert(parent, pair(0)); // as if every tile's proof had arrived
        }
        let above = known.bytes();
        for tile in 0..geo.tiles(0) {
            for level in 4..=11 {
                let width = 1 << (11 - level);
                (tile * width..(tile + 1) * width).for_each(|index| {
                    known.insert(Node { level, index }, pair(0));
                });
            }
            for block in tile * 256..(tile + 1) * 256 {
                for (level, width) in [(3, 1), (2, 2), (1, 4)] {
                    (block * width..(block + 1) * width).for_each(|index| {
                        known.insert(Node { level, index }, pair(0));
                    });
                }
                (block * 8..(block + 1) * 8).for_each(|i| known.finish(i..i + 1));
                most = most.max(known.bytes());
            }
        }
        assert!(most - above < 50 * size_of::<NodeBlock>(), "{} bytes", most - above);
        assert!(known.complete && known.blocks.is_empty());
    }
}
