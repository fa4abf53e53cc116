//! [`Anchor`]: proves segments and tiles from one trusted node, without keeping state.
//!
//! It is for callers that verify single packets. An anchor is a few immutable bytes, usable on any thread and without
//! an allocator. [`crate::TreeVerifier`] does the same for a whole file, remembers what it has proven, and hashes each
//! node once.
//!
//! ```
//! use xylem_tree::{Anchor, Outboard, SegmentIndex, SegmentSize, segment_signature};
//! let file = vec![42; 8 * 8192];
//! let outboard = Outboard::of(&file, SegmentSize::DEFAULT);
//! let (geo, mut proof) = (*outboard.geometry(), vec![]);
//! segment_signature(&geo, SegmentIndex(5), &mut outboard.as_bytes(), &mut proof)?;
//! let anchor = Anchor::root(geo, outboard.root());
//! let segment = anchor.segment(SegmentIndex(5), &file[5 * 8192..][..8192], &proof)?;
//! assert_eq!(segment.offset, 5 * 8192);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use xylem_hash::Hash;

#[cfg(feature = "alloc")]
use crate::hashing::leaf_values;
use crate::{
    error::ProofError,
    geometry::{Geometry, TILE_LEVELS},
    hashing::{climb_row, join, leaf_value},
    ids::{NODE_LEN, Node, NodeValue, SegmentIndex, Tile},
    proof::{
        check_len, check_proof_len, proof_end, segment_signature_len, side, split_value,
        tile_content_len, tile_signature_len,
    },
    verified::{Segment, Verified},
};

/// A node of an object's tree with a proven value.
///
/// The first anchor is the root, which must come with the geometry from a signed manifest. All others come from proofs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    geo: Geometry,
    root: Hash,
    node: Node,
    value: NodeValue,
}

impl Anchor {
    /// The root, from a trusted manifest.
    #[must_use]
    pub fn root(geo: Geometry, root: Hash) -> Self {
        Self { geo, root, node: geo.root(), value: NodeValue::from(root) }
    }

    /// `node` must be real, and `value` must be proven to be its value.
    pub(crate) fn proven(geo: Geometry, root: Hash, node: Node, value: NodeValue) -> Self {
        Self { geo, root, node, value }
    }

    /// The tree's geometry.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geo
    }

    /// The node.
    #[must_use]
    pub fn node(&self) -> Node {
        self.node
    }

    /// Proves a segment by a proof that ends at this node; see [`crate::TreeVerifier::segment`].
    ///
    /// # Errors
    /// [`ProofError`]; [`ProofError::NotProven`] if the proof ends at another node.
    pub fn segment<B: AsRef<[u8]>>(
        &self,
        i: SegmentIndex,
        content: B,
        signature_value: &[u8],
    ) -> Result<Verified<Segment<B>>, ProofError> {
        let geo = &self.geo;
        if !geo.has_segment(i) {
            return Err(ProofError::OutOfRange);
        }
        let bytes = content.as_ref();
        check_len(geo.segment_len(i), bytes.len())?;
        check_proof_len(segment_signature_len(geo, i), signature_value.len())?;
        let (leaf, siblings) = split_value(signature_value);
        self.check_end(Node::leaf(i), geo.segment_proof_end())?;
        if leaf_value(geo, i, bytes) != leaf {
            return Err(ProofError::LeafMismatch(i));
        }
        self.climb(Node::leaf(i), leaf, siblings, geo.segment_proof_end())?;
        let offset = geo.segment_range(i).start;
        Ok(Verified::new(self.root, Segment { index: i, offset, content }))
    }

    /// Proves a tile by a proof that ends at this node; see [`crate::TreeVerifier::tile`]. The content is not copied; the
    /// result gives the anchors of the nodes below.
    ///
    /// # Errors
    /// [`ProofError`]; [`ProofError::NotProven`] if the proof ends at another node.
    pub fn tile<'t>(
        &self,
        tile: Tile,
        content: &'t [u8],
        signature_value: &[u8],
    ) -> Result<ProvenTile<'t>, ProofError> {
        let geo = &self.geo;
        let Some(top) = geo.tile_top(tile) else { return Err(ProofError::OutOfRange) };
        check_len(tile_content_len(geo, tile), content.len())?;
        check_proof_len(tile_signature_len(geo, tile), signature_value.len())?;
        let end = geo.tile_proof_end(tile.tier);
        self.check_end(top, end)?;
        let (value, siblings) = split_value(signature_value);
        if tile_top_value(geo, tile, content) != value {
            return Err(ProofError::NodeMismatch(top));
        }
        self.climb(top, value, siblings, end)?;
        Ok(ProvenTile { geo: self.geo, root: self.root, tile, content })
    }

    /// Proves all segments under this node at once, from any source: `contents` are their bytes, in order. Returns the
    /// segments and the nodes below this one.
    ///
    /// # Errors
    /// [`ProofError::WrongLength`], [`ProofError::NodeMismatch`]; [`ProofError::OutOfRange`] for a wrong number of
    /// segments.
    #[cfg(feature = "alloc")]
    #[expect(
        clippy::type_complexity,
        reason = "two pieces of evidence, each as its taker wants it"
    )]
    pub fn contents<B: AsRef<[u8]>>(
        &self,
        contents: alloc::vec::Vec<B>,
    ) -> Result<
        (alloc::vec::Vec<Verified<Segment<B>>>, Verified<alloc::vec::Vec<(Node, NodeValue)>>),
        ProofError,
    > {
        let geo = &self.geo;
        let segments = geo.node_segments(self.node);
        if segments.end - segments.start != contents.len() as u64 {
            return Err(ProofError::OutOfRange);
        }
        let indices = || segments.clone().map(SegmentIndex);
        for (i, content) in indices().zip(&contents) {
            check_len(geo.segment_len(i), content.as_ref().len())?;
        }
        let mut row = alloc::vec::Vec::with_capacity(contents.len());
        leaf_values(geo, indices().zip(contents.iter().map(AsRef::as_ref)), &mut row);
        let mut nodes = alloc::vec::Vec::with_capacity(2 * contents.len());
        for level in 0..self.node.level {
            let first = segments.start >> level;
            let real = (first..).zip(&row).map(|(index, value)| (Node { level, index }, *value));
            nodes.extend(real.filter(|(node, _)| geo.node_exists(*node)));
            let count = match row[..] {
                [left, right] => {
                    row[0] = join(geo, Node { level: level + 1, index: first / 2 }, left, right);
                    1
                }
                _ => climb_row(geo, &mut row),
            };
            row.truncate(count);
        }
        if row.first() != Some(&self.value) {
            return Err(ProofError::NodeMismatch(self.node));
        }
        let proven = indices().zip(contents).map(|(index, content)| {
            let offset = geo.segment_range(index).start;
            Verified::new(self.root, Segment { index, offset, content })
        });
        Ok((proven.collect(), Verified::new(self.root, nodes)))
    }

    fn check_end(&self, from: Node, end: u8) -> Result<(), ProofError> {
        let ends_at = proof_end(&self.geo, from, end);
        if ends_at == self.node { Ok(()) } else { Err(ProofError::NotProven(ends_at)) }
    }

    fn climb(
        &self,
        from: Node,
        value: NodeValue,
        siblings: &[u8],
        end: u8,
    ) -> Result<(), ProofError> {
        let (mut node, mut value) = (from, value);
        for (parent, given) in self.geo.steps(from, end).zip(NodeValue::each(siblings)) {
            let [left, right] =
                if side(node, parent) == 0 { [value, given] } else { [given, value] };
            value = join(&self.geo, parent, left, right);
            node = parent;
        }
        if value == self.value { Ok(()) } else { Err(ProofError::NodeMismatch(node)) }
    }
}

impl core::fmt::Debug for Anchor {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Anchor({}, {:?})", self.node, self.value)
    }
}

/// A proven tile, over the bytes in which it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProvenTile<'t> {
    geo: Geometry,
    root: Hash,
    tile: Tile,
    content: &'t [u8],
}

impl ProvenTile<'_> {
    /// The anchor at which the proof of segment `i` ends; `None` if it is not in this tile.
    #[must_use]
    pub fn over_segment(&self, i: SegmentIndex) -> Option<Anchor> {
        self.base_over(Some(self.tile) == self.geo.tile_of_segment(i), i.0)
    }

    /// The anchor at which the proof of a tile of the tier below ends; `None` if it is not in this tile.
    #[must_use]
    pub fn over_tile(&self, tile: Tile) -> Option<Anchor> {
        let first = self.geo.node_segments(self.geo.tile_top(tile)?).start;
        self.base_over(Some(self.tile) == self.geo.tile_above(tile), first)
    }

    /// The base node over `segment`, which is under this tile if `ours`.
    fn base_over(&self, ours: bool, segment: u64) -> Option<Anchor> {
        let (level, indices) = self.geo.tile_nodes(self.tile);
        let index = segment.checked_shr(u32::from(level))?;
        if !ours || !indices.contains(&index) {
            return None;
        }
        let at = (index - indices.start) as usize * NODE_LEN;
        let value = NodeValue::from_slice(self.content.get(at..at + NODE_LEN)?)?;
        let node = self.geo.real(Node { level, index })?;
        Some(Anchor::proven(self.geo, self.root, node, value))
    }
}

/// The value to which a tile's content hashes. Its length must be checked before. Takes 9 KiB of stack.
fn tile_top_value(geo: &Geometry, tile: Tile, content: &[u8]) -> NodeValue {
    let mut row = [NodeValue::UNKNOWN; 1 << TILE_LEVELS];
    for (place, value) in row.iter_mut().zip(NodeValue::each(content)) {
        *place = value;
    }
    let mut count = content.len() / NODE_LEN;
    for level in Geometry::tile_base(tile.tier)..geo.tile_top_level(tile.tier) {
        if count == 1 {
            break; // the tile's only node is promoted
        }
        if level + 1 == geo.levels() {
            return join(geo, geo.root(), row[0], row[1]);
        }
        count = climb_row(geo, &mut row[..count]);
    }
    row[0]
}
