//! [`TreeVerifier`]: proves segments and tiles in any order, and keeps the proven nodes.

mod burst;
mod fork;
mod resume;

use alloc::{vec, vec::Vec};
use core::ops::Range;

use xylem_hash::Hash;

use crate::{
    anchor::Anchor,
    error::ProofError,
    geometry::Geometry,
    hashing::{join, leaf_value, parents},
    ids::{Node, NodeValue, SegmentIndex, Tile},
    known::{Pair, ProvenNodes},
    proof::{
        check_len, check_proof_len, proof_end, segment_signature_len, side, split_value,
        tile_content_len, tile_signature_len,
    },
    verified::{Segment, Verified},
};
use burst::Burst;

/// Whether proven nodes are kept for [`TreeVerifier::take_proven`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// For callers that store the nodes.
    On,
    /// For callers that need only the bytes.
    Off,
}

/// Proves the segments and tiles of one file against its root.
///
/// Geometry and root must come from a signed manifest: everything else is checked against them. Segments and tiles may
/// come in any order; if a proof ends at a node that is not proven yet, the result is [`ProofError::NeedTile`].
///
/// Call order: [`tile`](Self::tile) and [`segment`](Self::segment) as they arrive; from time to time
/// [`take_proven`](Self::take_proven) and, once segments are stored safely elsewhere,
/// [`forget_complete`](Self::forget_complete). To resume from a disk, [`adopt_children`](Self::adopt_children), parents
/// first.
///
/// A failed call leaves the verifier unchanged: nothing unproven is ever kept. A node with proven children is not
/// hashed again.
///
/// Memory: about 470 bytes for each 8 neighbouring segments of which any is proven and not all are forgotten, a seventh
/// more for the levels above, and 48 bytes for each node that was proven and not taken.
pub struct TreeVerifier {
    geo: Geometry,
    root: Hash,
    known: ProvenNodes,
    recording: Recording,
    /// Proven since the last [`Verifier::take_proven`].
    fresh: Vec<(Node, NodeValue)>,
    /// Pairs that the current call has computed and keeps if its proof holds; empty between calls.
    pending: Vec<(Node, Pair)>,
    burst: Burst,
    nodes_hashed: u64,
}

impl TreeVerifier {
    /// A verifier of a file with this geometry that knows only the root.
    #[must_use]
    pub fn new(geo: Geometry, root: Hash) -> Self {
        Self {
            geo,
            root,
            known: ProvenNodes::new(geo),
            recording: Recording::On,
            fresh: vec![(geo.root(), NodeValue::from(root))],
            pending: Vec::new(),
            burst: Burst::default(),
            nodes_hashed: 0,
        }
    }

    /// The tree's geometry.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geo
    }

    /// The root of its tree; of a BLAKE3 tree the file's plain hash.
    #[must_use]
    pub fn root(&self) -> Hash {
        self.root
    }

    /// The proven node at which the proof of a segment ends, for proving the segment elsewhere; `None` if the node is
    /// not proven, or forgotten.
    #[must_use]
    pub fn anchor(&self, i: SegmentIndex) -> Option<Anchor> {
        if !self.geo.has_segment(i) {
            return None;
        }
        let node = proof_end(&self.geo, Node::leaf(i), self.geo.segment_proof_end());
        Some(Anchor::proven(self.geo, self.root, node, self.value(node)?))
    }

    /// Turns the record for [`Self::take_proven`] on (the default) or off. Off drops what was not taken.
    pub fn set_recording(&mut self, recording: Recording) {
        self.recording = recording;
        if recording == Recording::Off {
            self.fresh = Vec::new();
        }
    }

    /// Proves a segment. `content` is its bytes; `signature_value` is its leaf and its proof's siblings
    /// (docs/spec/tree.md, "Segment proofs"). The content stays in its container.
    ///
    /// # Errors
    /// [`ProofError`]; see [`ProofError::culprit`].
    pub fn segment<B: AsRef<[u8]>>(
        &mut self,
        i: SegmentIndex,
        content: B,
        signature_value: &[u8],
    ) -> Result<Verified<Segment<B>>, ProofError> {
        let bytes = content.as_ref();
        self.admit_segment(i, bytes.len(), signature_value.len())?;
        let leaf = leaf_value(&self.geo, i, bytes);
        self.prove_segment(i, leaf, signature_value, &[])?;
        Ok(self.evidence(i, content))
    }

    /// Proves a tile. `content` is the values of its base nodes; `signature_value` is its top's value and its proof's
    /// siblings (docs/spec/tree.md, "Tiles").
    ///
    /// # Errors
    /// [`ProofError`]; see [`ProofError::culprit`].
    pub fn tile(
        &mut self,
        t: Tile,
        content: &[u8],
        signature_value: &[u8],
    ) -> Result<(), ProofError> {
        let geo = self.geo;
        let Some(top) = geo.tile_top(t) else { return Err(ProofError::OutOfRange) };
        check_len(tile_content_len(&geo, t), content.len())?;
        check_proof_len(tile_signature_len(&geo, t), signature_value.len())?;
        let ends_at = proof_end(&self.geo, top, geo.tile_proof_end(t.tier));
        if self.value(ends_at).is_none() {
            return Err(match geo.tile_above(t) {
                Some(above) if !self.known.done(top) => ProofError::NeedTile(above),
                _ => ProofError::AlreadyComplete,
            });
        }
        self.attempt(|this| {
            let (value, siblings) = split_value(signature_value);
            this.climb(top, value, siblings, geo.tile_proof_end(t.tier), &[])?;
            if this.hash_tile(t, content)? != value {
                return Err(ProofError::NodeMismatch(top));
            }
            Ok(())
        })
    }

    /// The nodes proven since the last call, each real node once: what an outboard on disk must hold. They include the
    /// root and all nodes computed on the way.
    #[must_use]
    pub fn take_proven(&mut self) -> Verified<Vec<(Node, NodeValue)>> {
        Verified::new(self.root, core::mem::take(&mut self.fresh))
    }

    /// The value of a real node, if it is proven and not forgotten.
    #[must_use]
    pub fn value(&self, node: Node) -> Option<NodeValue> {
        match self.geo.parent(node) {
            Some(parent) if self.geo.node_exists(node) => {
                self.known.pair(parent).map(|pair| pair[side(node, parent)])
            }
            None if node == self.geo.root() => Some(NodeValue::from(self.root)),
            _ => None,
        }
    }

    /// Reports that segments are stored safely elsewhere, so that the nodes that only they needed can be dropped: those
    /// under every node with all segments reported. A range may be reported before or after its segments are proven, in
    /// pieces, or twice.
    ///
    /// Dropping nodes never makes anything acceptable that was not. A segment with a dropped proof gets
    /// [`ProofError::AlreadyComplete`].
    pub fn forget_complete(&mut self, segments: Range<u64>) {
        self.known.finish(segments);
    }

    /// Returns whether a segment was reported complete to [`Self::forget_complete`].
    #[must_use]
    pub fn is_complete(&self, i: SegmentIndex) -> bool {
        self.geo.has_segment(i) && self.known.done(Node::leaf(i))
    }

    /// Memory for proven nodes in bytes, including those for [`Self::take_proven`].
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.known.bytes() + self.fresh.capacity() * size_of::<(Node, NodeValue)>()
    }

    /// Number of inner nodes hashed so far.
    #[must_use]
    pub fn nodes_hashed(&self) -> u64 {
        self.nodes_hashed
    }

    // ---- steps ----------------------------------------------------------------------------

    /// All checks of a segment that need no hashing.
    fn admit_segment(&self, i: SegmentIndex, len: usize, proof: usize) -> Result<(), ProofError> {
        let geo = &self.geo;
        if !geo.has_segment(i) {
            return Err(ProofError::OutOfRange);
        }
        check_len(geo.segment_len(i), len)?;
        check_proof_len(segment_signature_len(geo, i), proof)?;
        let leaf = Node::leaf(i);
        if self.value(leaf).is_some() {
            return Ok(());
        }
        if self.known.done(leaf) {
            return Err(ProofError::AlreadyComplete);
        }
        let ends_at = proof_end(geo, leaf, geo.segment_proof_end());
        match geo.tile_of_segment(i) {
            Some(tile) if self.value(ends_at).is_none() => Err(ProofError::NeedTile(tile)),
            _ => Ok(()),
        }
    }

    /// `ahead` are the values of the first parents on the path, if they were computed before.
    fn prove_segment(
        &mut self,
        i: SegmentIndex,
        leaf: NodeValue,
        signature_value: &[u8],
        ahead: &[NodeValue],
    ) -> Result<(), ProofError> {
        self.attempt(|this| {
            let (value, siblings) = split_value(signature_value);
            if leaf != value {
                return Err(ProofError::LeafMismatch(i));
            }
            this.climb(Node::leaf(i), value, siblings, this.geo.segment_proof_end(), ahead)
        })
    }

    /// Checks a real node's claimed value against proven nodes, by its siblings up to level `end`. A proven pair is
    /// compared. Any other pair is hashed, or taken from `ahead` where it has been hashed, and put into `pending`.
    /// There must be as many siblings as steps.
    fn climb(
        &mut self,
        from: Node,
        value: NodeValue,
        siblings: &[u8],
        end: u8,
        ahead: &[NodeValue],
    ) -> Result<(), ProofError> {
        let (mut node, mut value, mut ahead) = (from, value, ahead.iter());
        // Once a pair on the path is proven, so are all above it, and `value` is no longer needed.
        let mut linked = false;
        for (parent, given) in self.geo.steps(from, end).zip(NodeValue::each(siblings)) {
            let (at, worked_out) = (side(node, parent), ahead.next());
            match self.known.pair(parent) {
                Some(pair) => {
                    if !linked && pair[at] != value {
                        return Err(ProofError::NodeMismatch(node));
                    }
                    if pair[1 - at] != given {
                        let other = self.geo.sibling(node).unwrap_or(node);
                        return Err(ProofError::NodeMismatch(other));
                    }
                    linked = true;
                }
                None => {
                    debug_assert!(!linked, "pairs are closed upwards");
                    let pair = if at == 0 { [value, given] } else { [given, value] };
                    value = worked_out.copied().unwrap_or_else(|| {
                        self.nodes_hashed += 1;
                        join(&self.geo, parent, pair[0], pair[1])
                    });
                    self.pending.push((parent, pair));
                }
            }
            node = parent;
        }
        if !linked && self.value(node) != Some(value) {
            return Err(ProofError::NodeMismatch(node));
        }
        Ok(())
    }

    /// Computes a tile's top from its base nodes. Proven pairs are compared and not hashed; all others of a level are
    /// hashed side by side and put into `pending`.
    fn hash_tile(&mut self, t: Tile, content: &[u8]) -> Result<NodeValue, ProofError> {
        let (base, indices) = self.geo.tile_nodes(t);
        let mut row: Vec<NodeValue> = NodeValue::each(content).collect();
        let mut first = indices.start;
        let mut hashed = Vec::new();
        for level in base..self.geo.tile_top_level(t.tier) {
            let mut above: Vec<NodeValue> = Vec::with_capacity(row.len().div_ceil(2));
            let (mut holes, unproven) = (Vec::new(), self.pending.len());
            first /= 2;
            for couple in row.chunks(2) {
                let &[left, right] = couple else {
                    above.push(couple[0]); // promoted
                    continue;
                };
                let parent = Node { level: level + 1, index: first + above.len() as u64 };
                match self.known.pair(parent) {
                    Some(pair) if *pair == [left, right] => {
                        above.push(self.value(parent).unwrap_or(NodeValue::UNKNOWN));
                    }
                    Some(_) => return Err(ProofError::NodeMismatch(parent)),
                    None => {
                        holes.push(above.len());
                        above.push(NodeValue::UNKNOWN);
                        self.pending.push((parent, [left, right]));
                    }
                }
            }
            self.nodes_hashed += holes.len() as u64;
            if level + 1 == self.geo.levels() && !holes.is_empty() {
                above[0] = join(&self.geo, self.geo.root(), row[0], row[1]);
            } else {
                hashed.resize(holes.len(), NodeValue::UNKNOWN);
                parents(&self.geo, |n| self.pending[unproven + n].1, &mut hashed);
                for (hole, value) in holes.into_iter().zip(&hashed) {
                    above[hole] = *value;
                }
            }
            row = above;
        }
        Ok(row[0]) // an existing tile has a node, and each level halves them down to one
    }

    /// Runs a proof. Keeps the pairs that it computed if it holds, and drops them otherwise.
    fn attempt(
        &mut self,
        proof: impl FnOnce(&mut Self) -> Result<(), ProofError>,
    ) -> Result<(), ProofError> {
        let outcome = proof(self);
        let mut pending = core::mem::take(&mut self.pending);
        if outcome.is_ok() {
            for &(parent, pair) in &pending {
                self.keep(parent, pair);
            }
        }
        pending.clear();
        self.pending = pending; // keeps its allocation
        outcome
    }

    /// Keeps, and records, the proven children of a node.
    fn keep(&mut self, parent: Node, pair: Pair) {
        let kept = self.known.insert(parent, pair);
        if let (true, Recording::On, Some((left, right))) =
            (kept, self.recording, self.geo.children(parent))
        {
            self.fresh.extend([(left, pair[0]), (right, pair[1])]);
        }
    }

    /// The only place where this type makes evidence of a segment. The caller has just found its leaf proven.
    fn evidence<B>(&self, i: SegmentIndex, content: B) -> Verified<Segment<B>> {
        let offset = self.geo.segment_range(i).start;
        Verified::new(self.root, Segment { index: i, offset, content })
    }
}

impl core::fmt::Debug for TreeVerifier {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Verifier")
            .field("geo", &self.geo)
            .field("root", &self.root)
            .field("held_bytes", &self.held_bytes())
            .finish_non_exhaustive()
    }
}
