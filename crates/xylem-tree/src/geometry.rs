//! The positions in a file's tree: segments, nodes, slots, proofs, tiles.
//!
//! This is pure arithmetic on size and segment size; no byte is read. A [`Geometry`] carries the kind of tree along,
//! which only the hashing uses. Every other crate uses this module instead of computing positions itself. The rules are
//! in docs/spec/tree.md.
//!
//! **Real nodes.** If the right half of a position lies wholly past the file's end, the position has the value of its
//! left child and is no node of its own: the child is *promoted*. Nodes that are not promoted copies are real. There
//! are 2N-1 of them, and they fill the outboard's slots 0..2N-1 without a gap. All nodes that a [`Geometry`] returns as
//! [`Node`] are real; [`Geometry::real`] turns any position into the node that gives its value.

use core::ops::Range;

use crate::ids::{Node, SegmentIndex, SegmentSize, Tile, TreeKind};

/// A segment's proof climbs this many levels, to a tile's base (or to the root, if that is nearer).
pub const SEGMENT_PROOF_LEVELS: u8 = 3;
/// A tile spans this many levels: 256 nodes at its base.
pub const TILE_LEVELS: u8 = 8;
/// A tile's proof climbs this many levels from the tile's top, to the base of the tier above.
pub const TILE_PROOF_LEVELS: u8 = 7;
/// Levels from one tier's base to the next tier's base.
const TIER_STRIDE: u8 = TILE_LEVELS + TILE_PROOF_LEVELS;
/// Upper bound of the levels of any tree: 2^64 bytes in segments of 2^10.
const LEVEL_LIMIT: u8 = 64;

/// The geometry of one file's tree.
///
/// All methods are total: none panics or overflows, for any size and any argument. A segment, node or tile that the
/// file does not have gives `None`, `false` or an empty range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    size: u64,
    segment: SegmentSize,
    kind: TreeKind,
    /// N - 1 and L follow from the fields above; they are stored as every method needs them.
    last: u64,
    levels: u8,
}

impl Geometry {
    /// The BLAKE3 tree of a file of `size` bytes.
    #[must_use]
    pub const fn new(size: u64, segment: SegmentSize) -> Self {
        // A shift instead of a division: the compiler could not see that the divisor is a power of two.
        let last = size.saturating_sub(1) >> (segment.bytes().trailing_zeros());
        Self { size, segment, kind: TreeKind::Blake3, last, levels: ceil_log2(last + 1) }
    }

    /// The tree of the same shape that hashes with `kind`.
    #[must_use]
    pub const fn with_kind(self, kind: TreeKind) -> Self {
        Self { kind, ..self }
    }

    /// The hash of its nodes.
    #[must_use]
    pub const fn kind(&self) -> TreeKind {
        self.kind
    }

    /// Size of the file in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The size of its segments.
    #[must_use]
    pub const fn segment_size(&self) -> SegmentSize {
        self.segment
    }

    // ---- segments -------------------------------------------------------------------------

    /// N: the number of segments. An empty file has one empty segment.
    #[must_use]
    pub const fn segments(&self) -> u64 {
        self.last + 1
    }

    /// Returns whether the file has this segment.
    #[must_use]
    pub const fn has_segment(&self, i: SegmentIndex) -> bool {
        i.0 <= self.last
    }

    /// The file's last segment.
    #[must_use]
    pub const fn last_segment(&self) -> SegmentIndex {
        SegmentIndex(self.last)
    }

    /// The byte range of segment `i` in the file; empty, at the file's end, if there is no such segment.
    #[must_use]
    pub fn segment_range(&self, i: SegmentIndex) -> Range<u64> {
        let bytes = self.segment.bytes() as u64;
        let start = i.0.saturating_mul(bytes).min(self.size);
        start..start.saturating_add(bytes).min(self.size)
    }

    /// Length of segment `i` in bytes.
    #[must_use]
    pub fn segment_len(&self, i: SegmentIndex) -> usize {
        let range = self.segment_range(i);
        (range.end - range.start) as usize // at most SegmentSize::bytes()
    }

    /// The segments that overlap `bytes`, which is clipped to the file. An empty range overlaps none, so an empty
    /// file's one segment is never included.
    #[must_use]
    pub fn segments_of(&self, bytes: Range<u64>) -> Range<u64> {
        let (start, end) = (bytes.start, bytes.end.min(self.size));
        if start >= end {
            return 0..0;
        }
        let segment = self.segment.bytes() as u64;
        start / segment..end.div_ceil(segment)
    }

    // ---- nodes ----------------------------------------------------------------------------

    /// L: the root's level, the lowest level that has only one node.
    #[must_use]
    pub const fn levels(&self) -> u8 {
        self.levels
    }

    /// The root: node 0 of level L.
    #[must_use]
    pub const fn root(&self) -> Node {
        Node { level: self.levels(), index: 0 }
    }

    /// Number of nodes of a level, promoted copies included: ceil(N / 2^level).
    #[must_use]
    pub const fn count(&self, level: u8) -> u64 {
        match self.last.checked_shr(level as u32) {
            Some(last) => last + 1,
            None => 1,
        }
    }

    /// Returns whether this is a real node of the tree: at or below the root, not past the file's end, and no promoted
    /// copy. Exactly these nodes have a slot in the outboard.
    #[must_use]
    pub const fn node_exists(&self, node: Node) -> bool {
        match self.real(node) {
            Some(real) => real.level == node.level,
            None => false,
        }
    }

    /// The real node that gives this position its value: itself, or the descendant that is promoted to it. `None` if
    /// the position is above the root or past the file's end.
    #[must_use]
    pub const fn real(&self, node: Node) -> Option<Node> {
        if node.level > self.levels() || node.index >= self.count(node.level) {
            return None;
        }
        // index < count(level) bounds `first` by N; what remains from there on is at least 1.
        let first = node.index << node.level;
        let level = ceil_log2(self.segments() - first);
        if level >= node.level {
            return Some(node);
        }
        Some(Node { level, index: first >> level })
    }

    /// The real parent: its hash covers this node's value. `None` for the root and for positions that do not exist.
    #[must_use]
    pub const fn parent(&self, node: Node) -> Option<Node> {
        let Some(node) = self.real(node) else { return None };
        if node.index % 2 == 1 || node.index + 1 < self.count(node.level) {
            return Some(Node { level: node.level + 1, index: node.index >> 1 });
        }
        // Without a neighbour to the right, the node is promoted until it is a right half. That level is the lowest set
        // bit of its first segment's number; the root has no set bit there.
        let first = node.index << node.level;
        if first == 0 {
            return None;
        }
        let level = first.trailing_zeros();
        Some(Node { level: level as u8 + 1, index: first >> (level + 1) })
    }

    /// The two real children of a real node, which it hashes. `None` for a segment and for a node that is not real.
    #[must_use]
    pub const fn children(&self, node: Node) -> Option<(Node, Node)> {
        if node.level == 0 || !self.node_exists(node) {
            return None;
        }
        let left = Node { level: node.level - 1, index: node.index * 2 };
        match self.real(Node { level: left.level, index: left.index + 1 }) {
            Some(right) => Some((left, right)),
            None => None,
        }
    }

    /// The other child of the node's parent. `None` for the root and for positions that do not exist.
    #[must_use]
    pub const fn sibling(&self, node: Node) -> Option<Node> {
        let (Some(node), Some(parent)) = (self.real(node), self.parent(node)) else { return None };
        let Some((left, right)) = self.children(parent) else { return None };
        Some(if node.index == left.index && node.level == left.level { right } else { left })
    }

    /// The segments under a node; empty if it does not exist.
    #[must_use]
    pub const fn node_segments(&self, node: Node) -> Range<u64> {
        let Some(real) = self.real(node) else { return 0..0 };
        let (first, width) = (real.index << real.level, 1 << real.level);
        let rest = self.segments() - first;
        first..first + if rest < width { rest } else { width }
    }

    /// Number of 32-byte slots of the outboard: 2N-1, one for each real node.
    #[must_use]
    pub const fn slots(&self) -> u64 {
        2 * self.segments() - 1
    }

    // ---- proofs ---------------------------------------------------------------------------

    /// The level at which a segment's proof ends: a tile's base, or the root.
    #[must_use]
    pub const fn segment_proof_end(&self) -> u8 {
        min(SEGMENT_PROOF_LEVELS, self.levels())
    }

    /// The steps from `node`, which is real, up to level `end`: for each level with a sibling the parent's level and
    /// index. At the other levels the node is promoted.
    pub(crate) fn steps(&self, node: Node, end: u8) -> impl Iterator<Item = Node> + use<> {
        let (first, last) = (node.index << node.level, self.last);
        (node.level..end)
            .filter(move |level| (first >> level) ^ 1 <= last >> level)
            .map(move |level| Node { level: level + 1, index: first >> level >> 1 })
    }

    /// The nodes in a segment's proof after its own value, bottom up. Empty if there is no such segment.
    pub fn segment_proof(&self, i: SegmentIndex) -> Siblings {
        Siblings::new(*self, self.real(Node::leaf(i)), self.segment_proof_end())
    }

    /// The level of a tier's base nodes.
    #[must_use]
    pub const fn tile_base(tier: u8) -> u8 {
        SEGMENT_PROOF_LEVELS.saturating_add(tier.saturating_mul(TIER_STRIDE))
    }

    /// Number of tiles of a tier; 0 if the tree does not reach above the tier's base.
    #[must_use]
    pub const fn tiles(&self, tier: u8) -> u64 {
        let base = Self::tile_base(tier);
        if self.levels() > base { self.count(base).div_ceil(1 << TILE_LEVELS) } else { 0 }
    }

    /// Returns whether the file has this tile.
    #[must_use]
    pub const fn has_tile(&self, tile: Tile) -> bool {
        tile.index < self.tiles(tile.tier)
    }

    /// The tile that proves the end of a segment's proof; `None` if the proof ends at the root or there is no such
    /// segment.
    #[must_use]
    pub const fn tile_of_segment(&self, i: SegmentIndex) -> Option<Tile> {
        if !self.has_segment(i) {
            return None;
        }
        self.tile_at(0, i.0)
    }

    /// The tile that proves the end of a tile's proof; `None` if the proof ends at the root or there is no such tile.
    #[must_use]
    pub const fn tile_above(&self, tile: Tile) -> Option<Tile> {
        if !self.has_tile(tile) {
            return None;
        }
        self.tile_at(tile.tier + 1, tile.index << (Self::tile_base(tile.tier) + TILE_LEVELS))
    }

    /// The tile of `tier` over `segment`, if the tree reaches above the tier's base.
    const fn tile_at(&self, tier: u8, segment: u64) -> Option<Tile> {
        let base = Self::tile_base(tier);
        if self.levels() <= base {
            return None;
        }
        // levels() > base keeps the base below LEVEL_LIMIT; 8 more may pass it.
        match segment.checked_shr((base + TILE_LEVELS) as u32) {
            Some(index) => Some(Tile { tier, index }),
            None => Some(Tile { tier, index: 0 }),
        }
    }

    /// The level of a tile's base and the indices of its nodes there, of which the last may be a promoted copy. The
    /// range is empty if there is no such tile.
    #[must_use]
    pub const fn tile_nodes(&self, tile: Tile) -> (u8, Range<u64>) {
        let base = Self::tile_base(tile.tier);
        if !self.has_tile(tile) {
            return (base, 0..0);
        }
        let (first, count) = (tile.index << TILE_LEVELS, self.count(base));
        let rest = count - first;
        (base, first..first + if rest < 1 << TILE_LEVELS { rest } else { 1 << TILE_LEVELS })
    }

    /// The level of a tile's top: 8 above its base, or the root's.
    #[must_use]
    pub const fn tile_top_level(&self, tier: u8) -> u8 {
        min(Self::tile_base(tier).saturating_add(TILE_LEVELS), self.levels())
    }

    /// The real node over all of a tile's nodes; `None` if there is no such tile.
    #[must_use]
    pub const fn tile_top(&self, tile: Tile) -> Option<Node> {
        if !self.has_tile(tile) {
            return None;
        }
        let level = self.tile_top_level(tile.tier);
        // A top below base + 8 is the root, and the tile is the tier's only one, with index 0.
        self.real(Node { level, index: tile.index })
    }

    /// The level at which a tile's proof ends: the base of the tier above, or the root.
    #[must_use]
    pub const fn tile_proof_end(&self, tier: u8) -> u8 {
        min(Self::tile_base(tier).saturating_add(TIER_STRIDE), self.levels())
    }

    /// The nodes in a tile's proof after its top's value, bottom up. Empty if there is no such tile.
    pub fn tile_proof(&self, tile: Tile) -> Siblings {
        Siblings::new(*self, self.tile_top(tile), self.tile_proof_end(tile.tier))
    }
}

/// The siblings along the path from a node up to a level, bottom up: the nodes of a proof.
#[derive(Clone, Debug)]
pub struct Siblings {
    geo: Geometry,
    at: Option<Node>,
    end: u8,
}

impl Siblings {
    pub(crate) fn new(geo: Geometry, from: Option<Node>, end: u8) -> Self {
        Self { geo, at: from, end }
    }
}

impl Iterator for Siblings {
    type Item = Node;

    fn next(&mut self) -> Option<Node> {
        let node = self.at?;
        let parent = self.geo.parent(node).filter(|p| p.level <= self.end);
        self.at = parent;
        self.geo.sibling(node).filter(|_| parent.is_some())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(usize::from(LEVEL_LIMIT)))
    }
}

/// The exponent of the smallest power of two that is at least `n`; 0 for 0 and 1.
const fn ceil_log2(n: u64) -> u8 {
    if n <= 1 { 0 } else { (u64::BITS - (n - 1).leading_zeros()) as u8 }
}

const fn min(a: u8, b: u8) -> u8 {
    if a < b { a } else { b }
}
