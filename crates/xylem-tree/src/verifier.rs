//! [`Verifier`]: proves what arrives, in any order, and keeps what it has proven.

use core::ops::Range;

use xylem_hash::{Hash, tree};

use crate::{
    error::{AdoptError, VerifyError},
    geometry::Geometry,
    hashing::{join, leaf_value, leaf_values},
    ids::{NODE_LEN, Node, NodeValue, SegmentIndex, Tile},
    known::{Known, Pair},
    outboard::{
        NodeSource, read_node, segment_signature_len, tile_content_len, tile_signature_len,
    },
    verified::{Segment, Verified},
};

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
/// [`adopt_path`](Self::adopt_path) and [`check_segment`](Self::check_segment).
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
            nodes_hashed: 0,
        }
    }

    /// The tree's shape.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geo
    }

    /// The file's BLAKE3 hash.
    #[must_use]
    pub fn root(&self) -> Hash {
        self.root
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
    /// [`VerifyError`]; see [`VerifyError::blame`].
    pub fn segment<B: AsRef<[u8]>>(
        &mut self,
        i: SegmentIndex,
        content: B,
        signature_value: &[u8],
    ) -> Result<Verified<Segment<B>>, VerifyError> {
        let bytes = content.as_ref();
        self.admit_segment(i, bytes.len(), signature_value.len())?;
        let leaf = leaf_value(&self.geo, i, bytes);
        self.prove_segment(i, leaf, signature_value)?;
        Ok(self.evidence(i, content))
    }

    /// Proves several segments as [`Self::segment`] would one after the other, and appends the
    /// outcomes to `out` in the same order.
    pub fn segments<'a, B: AsRef<[u8]>>(
        &mut self,
        batch: impl IntoIterator<Item = (SegmentIndex, B, &'a [u8])>,
        out: &mut Vec<Result<Verified<Segment<B>>, VerifyError>>,
    ) {
        // Which segments can be judged depends on tiles alone, so admission may go first.
        let batch: Vec<_> = batch
            .into_iter()
            .map(|(i, content, signature)| {
                let admitted = self.admit_segment(i, content.as_ref().len(), signature.len());
                (i, content, signature, admitted)
            })
            .collect();
        let admitted = batch.iter().filter(|(_, _, _, admitted)| admitted.is_ok());
        let leaves =
            leaf_values(&self.geo, admitted.map(|(i, content, ..)| (*i, content.as_ref())));
        let mut leaves = leaves.into_iter();
        out.extend(batch.into_iter().map(|(i, content, signature, admitted)| {
            admitted?;
            let leaf = leaves.next().expect("one leaf for each segment that was admitted");
            self.prove_segment(i, leaf, signature)?;
            Ok(self.evidence(i, content))
        }));
    }

    /// Proves a tile: `content` is the values of its base nodes, `signature_value` its top's value
    /// and the siblings of its proof (docs/spec/tree.md, "Tiles").
    ///
    /// # Errors
    /// [`VerifyError`]; see [`VerifyError::blame`].
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
        let ends_at = self.proof_end(top, geo.tile_proof_end(t.tier));
        if self.value(ends_at).is_none() {
            return Err(match geo.tile_above(t) {
                Some(above) if !self.known.done(top) => VerifyError::NeedTile(above),
                _ => VerifyError::AlreadyComplete,
            });
        }
        self.attempt(|this| {
            let (value, siblings) = split_value(signature_value);
            this.climb(top, value, siblings, geo.tile_proof_end(t.tier))?;
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

    /// Proves the two children of a proven node, read back from our own disk. They are not
    /// recorded for [`Self::take_proven`]. If they had been forgotten, they are kept until their
    /// segments are reported complete again.
    ///
    /// # Errors
    /// [`VerifyError::NotProven`] for a parent that is not, or a child that is zeros (its slot was
    /// never written); [`VerifyError::NodeMismatch`] if they are not the parent's children;
    /// [`VerifyError::OutOfRange`] if `parent` is no real node over the segments.
    pub fn adopt_children(
        &mut self,
        parent: Node,
        left: NodeValue,
        right: NodeValue,
    ) -> Result<(), VerifyError> {
        let Some((l, r)) = self.geo.children(parent) else { return Err(VerifyError::OutOfRange) };
        let Some(value) = self.value(parent) else { return Err(VerifyError::NotProven(parent)) };
        for (node, value) in [(l, left), (r, right)] {
            if value.is_unknown() {
                return Err(VerifyError::NotProven(node));
            }
        }
        match self.known.pair(parent) {
            Some(known) if *known == [left, right] => return Ok(()),
            Some(_) => return Err(VerifyError::NodeMismatch(parent)),
            None => {}
        }
        self.nodes_hashed += 1;
        if join(&self.geo, parent, left, right) != value {
            return Err(VerifyError::NodeMismatch(parent));
        }
        self.known.insert_reopening(parent, [left, right]);
        Ok(())
    }

    /// Proves all nodes from the lowest proven one down to a segment's leaf out of our own
    /// outboard, for [`Self::check_segment`].
    ///
    /// # Errors
    /// [`AdoptError::Refused`] with what [`Self::adopt_children`] says; what was adopted above
    /// stays. [`AdoptError::Source`] if the outboard cannot be read.
    pub fn adopt_path<S: NodeSource>(
        &mut self,
        i: SegmentIndex,
        src: &mut S,
    ) -> Result<(), AdoptError<S::Error>> {
        if !self.geo.has_segment(i) {
            return Err(AdoptError::Refused(VerifyError::OutOfRange));
        }
        let mut node = Node::leaf(i);
        let mut unproven = Vec::new();
        while self.value(node).is_none() {
            let Some(parent) = self.geo.parent(node) else { break }; // the root is proven
            unproven.push(parent);
            node = parent;
        }
        for parent in unproven.into_iter().rev() {
            let Some((left, right)) = self.geo.children(parent) else { break }; // a parent has
            let left = read_node(left, src)?;
            let right = read_node(right, src)?;
            self.adopt_children(parent, left, right).map_err(AdoptError::Refused)?;
        }
        Ok(())
    }

    /// Holds a segment read back from our own disk against its proven leaf.
    ///
    /// # Errors
    /// [`VerifyError::NotProven`] if the leaf is not (see [`Self::adopt_path`]);
    /// [`VerifyError::WrongLength`], [`VerifyError::LeafMismatch`], [`VerifyError::OutOfRange`].
    pub fn check_segment<B: AsRef<[u8]>>(
        &self,
        i: SegmentIndex,
        content: B,
    ) -> Result<Verified<Segment<B>>, VerifyError> {
        if !self.geo.has_segment(i) {
            return Err(VerifyError::OutOfRange);
        }
        let node = Node::leaf(i);
        let Some(proven) = self.value(node) else { return Err(VerifyError::NotProven(node)) };
        let bytes = content.as_ref();
        check_len(self.geo.segment_len(i), bytes.len())?;
        if leaf_value(&self.geo, i, bytes) != proven {
            return Err(VerifyError::LeafMismatch(i));
        }
        Ok(self.evidence(i, content))
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

    /// Whether all segments were reported complete to [`Self::forget_complete`].
    #[must_use]
    pub fn is_all_complete(&self) -> bool {
        self.known.done(self.geo.root())
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
        let ends_at = self.proof_end(leaf, geo.segment_proof_end());
        match geo.tile_of_segment(i) {
            Some(tile) if self.value(ends_at).is_none() => Err(VerifyError::NeedTile(tile)),
            _ => Ok(()),
        }
    }

    fn prove_segment(
        &mut self,
        i: SegmentIndex,
        leaf: NodeValue,
        signature_value: &[u8],
    ) -> Result<(), VerifyError> {
        self.attempt(|this| {
            let (value, siblings) = split_value(signature_value);
            if leaf != value {
                return Err(VerifyError::LeafMismatch(i));
            }
            this.climb(Node::leaf(i), value, siblings, this.geo.segment_proof_end())
        })
    }

    /// The highest real node at or above the real `node` that is not above level `end`.
    fn proof_end(&self, node: Node, end: u8) -> Node {
        self.geo.steps(node, end).last().unwrap_or(node)
    }

    /// Holds a real node's claimed value against what is proven, by way of its siblings up to
    /// level `end`. Where a pair is proven it is compared; where it is not it is hashed and put
    /// into `pending`. There have to be as many siblings as there are steps.
    fn climb(
        &mut self,
        from: Node,
        value: NodeValue,
        siblings: &[u8],
        end: u8,
    ) -> Result<(), VerifyError> {
        let (mut node, mut value) = (from, value);
        // Once a pair on the way is proven so are all above it, and `value` has served its turn.
        let mut linked = false;
        for (parent, given) in self.geo.steps(from, end).zip(NodeValue::each(siblings)) {
            let at = side(node, parent);
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
                    value = join(&self.geo, parent, pair[0], pair[1]);
                    self.nodes_hashed += 1;
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
        let (mut unproven, mut hashed) = (Vec::new(), Vec::new());
        for level in base..self.geo.tile_top_level(t.tier) {
            let mut above: Vec<NodeValue> = Vec::with_capacity(row.len().div_ceil(2));
            let mut holes = Vec::new();
            unproven.clear();
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
                        unproven.extend([left.to_cv(), right.to_cv()]);
                        self.pending.push((parent, [left, right]));
                    }
                }
            }
            self.nodes_hashed += holes.len() as u64;
            if level + 1 == self.geo.levels() && !holes.is_empty() {
                above[0] = join(&self.geo, self.geo.root(), row[0], row[1]);
            } else {
                hashed.clear();
                tree::parent_cvs(&unproven, &mut hashed);
                for (hole, cv) in holes.into_iter().zip(&hashed) {
                    above[hole] = NodeValue::from(cv);
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
                let kept = self.known.insert(parent, pair);
                if let (true, Recording::On, Some((left, right))) =
                    (kept, self.recording, self.geo.children(parent))
                {
                    self.fresh.extend([(left, pair[0]), (right, pair[1])]);
                }
            }
        }
        pending.clear();
        self.pending = pending; // keeps its allocation
        outcome
    }

    /// The one place where a segment becomes evidence; its leaf has just been found to be proven.
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

/// 0 if `node` is the left child of `parent`, 1 if the right.
fn side(node: Node, parent: Node) -> usize {
    // A right child may be promoted over several levels; its first segment tells.
    let first = node.index << node.level;
    (first >> (parent.level - 1) & 1) as usize
}

/// The own value and the siblings of a SignatureValue, whose length has been checked.
fn split_value(signature_value: &[u8]) -> (NodeValue, &[u8]) {
    match signature_value.split_first_chunk::<NODE_LEN>() {
        Some((value, siblings)) => (NodeValue(*value), siblings),
        None => (NodeValue::UNKNOWN, &[]),
    }
}

fn check_len(expected: usize, got: usize) -> Result<(), VerifyError> {
    if got == expected { Ok(()) } else { Err(VerifyError::WrongLength { expected, got }) }
}

fn check_proof_len(expected: usize, got: usize) -> Result<(), VerifyError> {
    if got == expected { Ok(()) } else { Err(VerifyError::ProofLength { expected, got }) }
}
