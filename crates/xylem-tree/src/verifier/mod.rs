//! [`Verifier`]: proves what arrives, in any order, and keeps what it has proven.

mod burst;
mod fork;
mod resume;

use alloc::{vec, vec::Vec};
use core::ops::Range;

use xylem_hash::Hash;

use crate::{
    anchor::Anchor,
    error::VerifyError,
    geometry::Geometry,
    hashing::{join, leaf_value, parents},
    ids::{Node, NodeValue, SegmentIndex, Tile},
    known::{Known, Pair},
    proof::{
        check_len, check_proof_len, proof_end, segment_signature_len, side, split_value,
        tile_content_len, tile_signature_len,
    },
    verified::{Segment, Verified},
};
use burst::Burst;

/// Whether proven nodes are kept for [`Verifier::take_proven`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// For whoever files them away.
    On,
    /// For whoever only wants the bytes.
    Off,
}

/// Proves the segments and tiles of one file against its root.
///
/// Geometry and root have to come from a signed manifest: they are what everything else is held
/// against. Any order of segments and tiles will do; where a proof ends at a node that is not
/// proven yet the answer is [`VerifyError::NeedTile`].
///
/// Call order: [`tile`](Self::tile) and [`segment`](Self::segment) as they arrive; now and then
/// [`take_proven`](Self::take_proven) and, once segments are safe elsewhere,
/// [`forget_complete`](Self::forget_complete). To resume from a disk,
/// [`adopt_children`](Self::adopt_children), parents first.
///
/// Whatever fails leaves the verifier as it was: nothing unproven is ever kept. No node whose
/// children are proven is hashed again.
///
/// Memory: about 470 bytes for each 8 neighbouring segments of which any is proven and not all are
/// forgotten, a seventh more for the levels above, and 48 bytes for each node that was proven and
/// not taken.
pub struct Verifier {
    geo: Geometry,
    root: Hash,
    known: Known,
    recording: Recording,
    /// Proven since the last [`Verifier::take_proven`].
    fresh: Vec<(Node, NodeValue)>,
    /// Pairs that one call has worked out and will keep if all of it holds; empty between calls.
    pending: Vec<(Node, Pair)>,
    burst: Burst,
    nodes_hashed: u64,
}

impl Verifier {
    /// A verifier that knows the root of a file of this shape, and nothing else.
    #[must_use]
    pub fn new(geo: Geometry, root: Hash) -> Self {
        Self {
            geo,
            root,
            known: Known::new(geo),
            recording: Recording::On,
            fresh: vec![(geo.root(), NodeValue::from(root))],
            pending: Vec::new(),
            burst: Burst::default(),
            nodes_hashed: 0,
        }
    }

    /// The tree's shape.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geo
    }

    /// The root of its tree; of a BLAKE3 tree the file's plain hash.
    #[must_use]
    pub fn root(&self) -> Hash {
        self.root
    }

    /// The proven node that the proof of a segment ends at, for proving the segment elsewhere;
    /// `None` if it is not proven, or forgotten.
    #[must_use]
    pub fn anchor(&self, i: SegmentIndex) -> Option<Anchor> {
        if !self.geo.has_segment(i) {
            return None;
        }
        let node = proof_end(&self.geo, Node::leaf(i), self.geo.segment_proof_end());
        Some(Anchor::proven(self.geo, self.root, node, self.value(node)?))
    }

    /// Turns the record for [`Self::take_proven`] on (as it is at first) or off. Off drops what
    /// was not taken.
    pub fn set_recording(&mut self, recording: Recording) {
        self.recording = recording;
        if recording == Recording::Off {
            self.fresh = Vec::new();
        }
    }

    /// Proves a segment: `content` is its bytes, `signature_value` its leaf and the siblings of its
    /// proof (docs/spec/tree.md, "Segment proofs"). The content stays in whatever holds it.
    ///
    /// # Errors
    /// [`VerifyError`]; see [`VerifyError::culprit`].
    pub fn segment<B: AsRef<[u8]>>(
        &mut self,
        i: SegmentIndex,
        content: B,
        signature_value: &[u8],
    ) -> Result<Verified<Segment<B>>, VerifyError> {
        let bytes = content.as_ref();
        self.admit_segment(i, bytes.len(), signature_value.len())?;
        let leaf = leaf_value(&self.geo, i, bytes);
        self.prove_segment(i, leaf, signature_value, &[])?;
        Ok(self.evidence(i, content))
    }

    /// Proves a tile: `content` is the values of its base nodes, `signature_value` its top's value
    /// and the siblings of its proof (docs/spec/tree.md, "Tiles").
    ///
    /// # Errors
    /// [`VerifyError`]; see [`VerifyError::culprit`].
    pub fn tile(
        &mut self,
        t: Tile,
        content: &[u8],
        signature_value: &[u8],
    ) -> Result<(), VerifyError> {
        let geo = self.geo;
        let Some(top) = geo.tile_top(t) else { return Err(VerifyError::OutOfRange) };
        check_len(tile_content_len(&geo, t), content.len())?;
        check_proof_len(tile_signature_len(&geo, t), signature_value.len())?;
        let ends_at = proof_end(&self.geo, top, geo.tile_proof_end(t.tier));
        if self.value(ends_at).is_none() {
            return Err(match geo.tile_above(t) {
                Some(above) if !self.known.done(top) => VerifyError::NeedTile(above),
                _ => VerifyError::AlreadyComplete,
            });
        }
        self.attempt(|this| {
            let (value, siblings) = split_value(signature_value);
            this.climb(top, value, siblings, geo.tile_proof_end(t.tier), &[])?;
            if this.hash_tile(t, content)? != value {
                return Err(VerifyError::NodeMismatch(top));
            }
            Ok(())
        })
    }

    /// The nodes proven since the last call, each real node once, the root and all that were
    /// worked out on the way included: what an outboard on disk has to hold.
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

    /// Says that segments are safe elsewhere, so that what only they needed can be forgotten: the
    /// nodes under every node whose segments are all done. A range may be reported before or after
    /// its segments came through here, in pieces, or twice.
    ///
    /// Forgetting never makes anything acceptable that was not. A segment whose proof is forgotten
    /// is answered with [`VerifyError::AlreadyComplete`].
    pub fn forget_complete(&mut self, segments: Range<u64>) {
        self.known.finish(segments);
    }

    /// Whether a segment was reported complete to [`Self::forget_complete`].
    #[must_use]
    pub fn is_complete(&self, i: SegmentIndex) -> bool {
        self.geo.has_segment(i) && self.known.done(Node::leaf(i))
    }

    /// Bytes held for proven nodes, those for [`Self::take_proven`] included.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.known.bytes() + self.fresh.capacity() * size_of::<(Node, NodeValue)>()
    }

    /// How many inner nodes have been hashed so far.
    #[must_use]
    pub fn nodes_hashed(&self) -> u64 {
        self.nodes_hashed
    }

    // ---- steps ----------------------------------------------------------------------------

    /// Everything about a segment that can be judged without hashing.
    fn admit_segment(&self, i: SegmentIndex, len: usize, proof: usize) -> Result<(), VerifyError> {
        let geo = &self.geo;
        if !geo.has_segment(i) {
            return Err(VerifyError::OutOfRange);
        }
        check_len(geo.segment_len(i), len)?;
        check_proof_len(segment_signature_len(geo, i), proof)?;
        let leaf = Node::leaf(i);
        if self.value(leaf).is_some() {
            return Ok(());
        }
        if self.known.done(leaf) {
            return Err(VerifyError::AlreadyComplete);
        }
        let ends_at = proof_end(geo, leaf, geo.segment_proof_end());
        match geo.tile_of_segment(i) {
            Some(tile) if self.value(ends_at).is_none() => Err(VerifyError::NeedTile(tile)),
            _ => Ok(()),
        }
    }

    /// `ahead` are the values of the first parents on the way, if they were worked out before.
    fn prove_segment(
        &mut self,
        i: SegmentIndex,
        leaf: NodeValue,
        signature_value: &[u8],
        ahead: &[NodeValue],
    ) -> Result<(), VerifyError> {
        self.attempt(|this| {
            let (value, siblings) = split_value(signature_value);
            if leaf != value {
                return Err(VerifyError::LeafMismatch(i));
            }
            this.climb(Node::leaf(i), value, siblings, this.geo.segment_proof_end(), ahead)
        })
    }

    /// Holds a real node's claimed value against what is proven, by way of its siblings up to
    /// level `end`. Where a pair is proven it is compared; where it is not it is hashed and put
    /// into `pending`, or looked up in `ahead`, where it has been hashed. There have to be as many
    /// siblings as there are steps.
    fn climb(
        &mut self,
        from: Node,
        value: NodeValue,
        siblings: &[u8],
        end: u8,
        ahead: &[NodeValue],
    ) -> Result<(), VerifyError> {
        let (mut node, mut value, mut ahead) = (from, value, ahead.iter());
        // Once a pair on the way is proven so are all above it, and `value` has served its turn.
        let mut linked = false;
        for (parent, given) in self.geo.steps(from, end).zip(NodeValue::each(siblings)) {
            let (at, worked_out) = (side(node, parent), ahead.next());
            match self.known.pair(parent) {
                Some(pair) => {
                    if !linked && pair[at] != value {
                        return Err(VerifyError::NodeMismatch(node));
                    }
                    if pair[1 - at] != given {
                        let other = self.geo.sibling(node).unwrap_or(node);
                        return Err(VerifyError::NodeMismatch(other));
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
            return Err(VerifyError::NodeMismatch(node));
        }
        Ok(())
    }

    /// Works out a tile's top from its base nodes. Pairs that are proven are compared and not
    /// hashed; all others of a level are hashed side by side and put into `pending`.
    fn hash_tile(&mut self, t: Tile, content: &[u8]) -> Result<NodeValue, VerifyError> {
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
                    Some(_) => return Err(VerifyError::NodeMismatch(parent)),
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
        Ok(row[0]) // an existing tile has a node, and a level less halves it down to one
    }

    /// Runs a proof and keeps the pairs it worked out if it holds; otherwise drops them.
    fn attempt(
        &mut self,
        proof: impl FnOnce(&mut Self) -> Result<(), VerifyError>,
    ) -> Result<(), VerifyError> {
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

    /// The one place where this type makes a segment evidence; its leaf has just been found to be proven.
    fn evidence<B>(&self, i: SegmentIndex, content: B) -> Verified<Segment<B>> {
        let offset = self.geo.segment_range(i).start;
        Verified::new(self.root, Segment { index: i, offset, content })
    }
}

impl core::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Verifier")
            .field("geo", &self.geo)
            .field("root", &self.root)
            .field("held_bytes", &self.held_bytes())
            .finish_non_exhaustive()
    }
}
