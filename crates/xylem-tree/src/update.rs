//! Updates from an old copy: the blocks for which a publisher lists sums ([`UpdateBlocks`]), and the proof of bytes
//! that a getter found in an old copy ([`Claims`]).
//!
//! A block is the bytes under one node. It has two sums: a weak one, which can be rolled over an old file byte by byte
//! ([`weak_sum`]), and the first bytes of the node's own value. A getter that finds the bytes computes this value, and
//! the tree proves it. The list of sums is not trusted: it shows where to search, and a wrong one costs only time. The
//! format is in docs/spec/update.md.
//!
//! ```
//! use xylem_tree::{Claims, Outboard, SegmentSize, UpdateBlocks, TreeVerifier};
//! let file = vec![42; 300_000];
//! let outboard = Outboard::of(&file, SegmentSize::DEFAULT);
//! let blocks = UpdateBlocks::of(*outboard.geometry()).unwrap();
//! let verifier = TreeVerifier::new(*outboard.geometry(), outboard.root());
//! // All blocks were found in an old copy: the root alone proves them.
//! let mut claims = Claims::new(blocks, outboard.root());
//! for block in 0..blocks.count() {
//!     let range = blocks.range(block);
//!     let bytes = &file[range.start as usize..range.end as usize];
//!     claims.claim(block, blocks.value(block, bytes).unwrap());
//! }
//! assert!(claims.prove(&verifier).refuted.is_empty());
//! // What is read once more to be copied is proven once more.
//! let bytes: Vec<&[u8]> = file[..8192].chunks(8192).collect();
//! let (segments, _nodes) = claims.anchor(0).unwrap().contents(bytes).unwrap();
//! assert_eq!(segments[0].offset, 0);
//! ```

mod claims;

use alloc::vec::Vec;
use core::ops::Range;

use xylem_hash::tree;

use crate::{
    builder::Region,
    geometry::Geometry,
    ids::{NODE_LEN, Node, NodeValue, SegmentIndex, TreeKind},
};

pub use claims::{Claims, ProvenClaims};

/// Files of at most this many bytes have no list: fetching them costs less than searching.
pub const UPDATE_MIN_SIZE: u64 = 64 * 1024;
/// Bytes of a block's sums: the weak one in four, big-endian, then the first two bytes of the node's value.
pub const UPDATE_SUMS_LEN: usize = 6;

/// The smallest and the largest block, as powers of two: a default segment, and a region, so that every block lies
/// within one region. With the largest block, the list of the largest file is 25 MB.
const MIN_LOG2: u32 = 13;
const MAX_LOG2: u32 = 22;

/// The blocks of a file that its list of sums covers. All but the last have the same power of two of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateBlocks {
    geo: Geometry,
    /// Level of the nodes over whole blocks.
    level: u8,
}

impl UpdateBlocks {
    /// The blocks of a file; `None` if it has no list. Files of at most [`UPDATE_MIN_SIZE`] have none. Files with a
    /// SHA-256 tree have none either: its leaves do not depend on their position, but cost five times as much to
    /// search.
    #[must_use]
    pub fn of(geo: Geometry) -> Option<Self> {
        if geo.size() <= UPDATE_MIN_SIZE || geo.kind() != TreeKind::Blake3 {
            return None;
        }
        // The power of two nearest to the square root of the size. So the list and the block fetched for one changed
        // byte both grow with the square root only.
        let log2 = geo.size().ilog2().div_ceil(2);
        let segment = geo.segment_size().bytes().ilog2();
        let level = log2.clamp(MIN_LOG2.max(segment), MAX_LOG2).saturating_sub(segment);
        Some(Self { geo, level: level as u8 })
    }

    /// The geometry of the file's tree.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geo
    }

    /// Length of a block in bytes; the last one may be shorter.
    #[must_use]
    pub fn block_len(&self) -> u64 {
        (self.geo.segment_size().bytes() as u64) << self.level
    }

    /// Number of blocks.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.geo.count(self.level)
    }

    /// Length of the file's list of sums in bytes.
    #[must_use]
    pub fn list_len(&self) -> u64 {
        self.count() * UPDATE_SUMS_LEN as u64
    }

    /// The byte range of a block in the file; empty past the last.
    #[must_use]
    pub fn range(&self, block: u64) -> Range<u64> {
        let start = block.saturating_mul(self.block_len()).min(self.geo.size());
        start..start.saturating_add(self.block_len()).min(self.geo.size())
    }

    /// The segments of a block; empty past the last.
    #[must_use]
    pub fn segments(&self, block: u64) -> Range<u64> {
        self.geo.node_segments(Node { level: self.level, index: block })
    }

    /// The value of a block's node if `bytes` are the block's; `None` if they do not have its length.
    #[must_use]
    pub fn value(&self, block: u64, bytes: &[u8]) -> Option<NodeValue> {
        let range = self.range(block);
        if bytes.is_empty() || range.end - range.start != bytes.len() as u64 {
            return None;
        }
        let first_chunk = (block << self.level) * self.geo.segment_size().chunks();
        Some(NodeValue::from(&tree::chunk_group_cv(bytes, first_chunk)))
    }

    /// Appends the sums of a region's blocks to `out`. `bytes` are those from which the region was hashed. All regions
    /// in order give the file's list.
    pub fn sums_of(&self, region: &Region, bytes: &[u8], out: &mut Vec<u8>) {
        let first_slot = Region::first_segment(&self.geo, region.index()).0 * 2;
        let first = (first_slot / 2) >> self.level;
        for (block, bytes) in (first..).zip(bytes.chunks(self.block_len() as usize)) {
            let Some(node) = self.node(block) else { return };
            let at = (node.slot() - first_slot) as usize * NODE_LEN;
            out.extend_from_slice(&weak_sum(bytes).to_be_bytes());
            out.extend_from_slice(&region.nodes()[at..at + 2]);
        }
    }

    /// The sums of a block from its bytes and its node's value.
    #[must_use]
    pub fn sums(bytes: &[u8], value: &NodeValue) -> [u8; UPDATE_SUMS_LEN] {
        let [a, b, c, d] = weak_sum(bytes).to_be_bytes();
        [a, b, c, d, value.0[0], value.0[1]]
    }

    fn node(&self, block: u64) -> Option<Node> {
        self.geo.real(Node { level: self.level, index: block })
    }

    /// The block of a real node at or below the level of blocks.
    fn block_of(&self, node: Node) -> u64 {
        let first: SegmentIndex = SegmentIndex(self.geo.node_segments(node).start);
        first.0 >> self.level
    }
}

/// Mixes the plain sum into the weighted one: an odd number near 2^32 over the golden ratio.
const MIX: u32 = 0x9E37_79B1;

/// The weak sum of bytes, taken as little-endian 32-bit words, the last padded with zeros. Word i of m has the weight m
/// - i + `MIX`, modulo 2^32.
///
/// Words instead of bytes need a fourth of the additions, which the publisher pays for every published byte. A getter
/// rolls one [`WeakSum`] for each of four neighbouring offsets.
#[must_use]
pub fn weak_sum(bytes: &[u8]) -> u32 {
    WeakSum::of(bytes).sum()
}

/// A [`weak_sum`] that can be rolled by one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeakSum {
    plain: u32,
    weighted: u32,
}

/// Words added side by side.
const LANES: usize = 16;

impl WeakSum {
    /// The sum of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let (mut plain, mut weighted) = ([0_u32; LANES], [0_u32; LANES]);
        let mut groups = bytes.chunks_exact(LANES * 4);
        for group in &mut groups {
            for lane in 0..LANES {
                let word = [
                    group[4 * lane],
                    group[4 * lane + 1],
                    group[4 * lane + 2],
                    group[4 * lane + 3],
                ];
                weighted[lane] = weighted[lane].wrapping_add(plain[lane]);
                plain[lane] = plain[lane].wrapping_add(u32::from_le_bytes(word));
            }
        }
        // A word in lane k of the last group has weight LANES - k.
        let mut sum = Self::default();
        for lane in 0..LANES {
            let whole = weighted[lane].wrapping_mul(LANES as u32);
            let last = plain[lane].wrapping_mul((LANES - lane) as u32);
            sum.weighted = sum.weighted.wrapping_add(whole).wrapping_add(last);
            sum.plain = sum.plain.wrapping_add(plain[lane]);
        }
        for rest in groups.remainder().chunks(4) {
            let mut word = [0; 4];
            word[..rest.len()].copy_from_slice(rest);
            sum.plain = sum.plain.wrapping_add(u32::from_le_bytes(word));
            sum.weighted = sum.weighted.wrapping_add(sum.plain);
        }
        sum
    }

    /// The sum.
    #[must_use]
    #[inline]
    pub fn sum(self) -> u32 {
        self.weighted.wrapping_add(self.plain.wrapping_mul(MIX))
    }

    /// Rolls a sum over `words` words by one word: removes `first` from the front and appends `next`.
    #[inline]
    pub fn roll(&mut self, words: u32, first: u32, next: u32) {
        self.plain = self.plain.wrapping_sub(first).wrapping_add(next);
        let without = self.weighted.wrapping_sub(first.wrapping_mul(words));
        self.weighted = without.wrapping_add(self.plain);
    }
}
