//! [`GrowingTree`]: the tree of a file that is only appended to, and its [`Checkpoint`]s.
//!
//! Bytes come in as they are appended. A node goes out to the outboard as soon as nothing can change it: a node over
//! whole segments that have bytes after them is the same in every later tree ("left-complete", docs/spec/tree.md,
//! "Growing trees"). The rest is the right edge: the last segment's leaf, and the nodes above it. A checkpoint computes
//! the edge again, one hash a level, and keeps it beside the outboard, so that earlier checkpoints can still be served.
//!
//! The last segment is held back until a byte follows it: whether it is hashed as a file of its own or as a part of a
//! larger one depends on that byte. So a growing tree holds one segment and one node a level, and only the last segment
//! is ever hashed twice.
//!
//! This module reads, writes and signs nothing, and trusts the bytes that it is given.
//!
//! ```
//! use xylem_tree::{GrowingTree, SegmentSize, TreeKind};
//!
//! let mut tree = GrowingTree::new(SegmentSize::DEFAULT, TreeKind::Blake3);
//! let mut outboard = vec![0; 1 << 16];
//! for (line, text) in ["one\n", "two\n"].iter().enumerate() {
//!     tree.push(text.as_bytes(), |slot, value| -> Result<(), ()> {
//!         outboard[slot as usize * 32..][..32].copy_from_slice(&value.0);
//!         Ok(())
//!     })?;
//!     assert_eq!(tree.checkpoint().geometry().size(), 4 * (line as u64 + 1));
//! }
//! assert_eq!(tree.checkpoint().root(), xylem_hash::hash(b"one\ntwo\n"));
//! # Ok::<(), ()>(())
//! ```

use alloc::vec::Vec;

use xylem_hash::Hash;

use crate::{
    error::ExtractError,
    geometry::Geometry,
    hashing::{join, leaf_row, leaf_value},
    ids::{NODE_LEN, Node, NodeValue, SegmentIndex, SegmentSize, TreeKind},
    outboard::{NodeSource, read_node},
};

/// Segments hashed side by side: 4 MiB of the default size.
const ROW: usize = 512;

/// The topmost left-complete nodes over the first `whole` segments: one for each bit of `whole`, highest first.
pub(crate) fn peaks(whole: u64) -> impl Iterator<Item = Node> {
    (0..64)
        .rev()
        .filter(move |level| whole >> level & 1 == 1)
        .map(move |level: u32| Node { level: level as u8, index: (whole >> level) - 1 })
}

/// The tree of a file that grows, up to its current end; see the module's documentation.
#[derive(Clone)]
pub struct GrowingTree {
    /// Geometry of a file so large that no node here is its root, as left-complete nodes are never hashed as a root.
    shape: Geometry,
    /// Number of segments that have bytes after them.
    whole: u64,
    /// The values of [`peaks`].
    peaks: Vec<NodeValue>,
    /// Bytes of the last segment: at most a whole one, and empty only for an empty file.
    tail: Vec<u8>,
    row: Vec<NodeValue>,
}

impl GrowingTree {
    /// The tree of an empty file.
    #[must_use]
    pub fn new(segment: SegmentSize, kind: TreeKind) -> Self {
        let shape = Geometry::new(u64::MAX, segment).with_kind(kind);
        Self { shape, whole: 0, peaks: Vec::new(), tail: Vec::new(), row: Vec::new() }
    }

    /// Resumes a tree of this geometry. Its left-complete nodes are read from its outboard; `tail` is the bytes of its
    /// last segment. Nothing is verified: compare the root of [`Self::checkpoint`] with a known root.
    ///
    /// # Errors
    /// [`ExtractError::OutOfRange`] for a tail of another length; the source's errors.
    pub fn resume<S: NodeSource>(
        geo: &Geometry,
        nodes: &mut S,
        tail: &[u8],
    ) -> Result<Self, ExtractError<S::Error>> {
        if tail.len() != geo.segment_len(geo.last_segment()) {
            return Err(ExtractError::OutOfRange);
        }
        let mut tree = Self::new(geo.segment_size(), geo.kind());
        tree.whole = geo.last_segment().0;
        tree.peaks =
            peaks(tree.whole).map(|node| read_node(node, nodes)).collect::<Result<_, _>>()?;
        tree.tail.extend_from_slice(tail);
        Ok(tree)
    }

    /// Size so far, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.whole * self.segment_len() as u64 + self.tail.len() as u64
    }

    /// The geometry of the current tree.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        Geometry::new(self.size(), self.shape.segment_size()).with_kind(self.shape.kind())
    }

    /// The offset and the bytes of the last segment.
    #[must_use]
    pub fn tail(&self) -> (u64, &[u8]) {
        (self.whole * self.segment_len() as u64, &self.tail)
    }

    /// The value of a topmost left-complete node, or of the last segment's leaf, if the segment is whole, as it is with
    /// bytes after it. `None` for any other node.
    #[must_use]
    pub fn node(&self, node: Node) -> Option<NodeValue> {
        if node == (Node { level: 0, index: self.whole }) && self.tail.len() == self.segment_len() {
            return Some(leaf_value(&self.shape, SegmentIndex(self.whole), &self.tail));
        }
        let at = peaks(self.whole).position(|peak| peak == node)?;
        self.peaks.get(at).copied()
    }

    fn segment_len(&self) -> usize {
        self.shape.segment_size().bytes()
    }

    /// Takes the next bytes. `sink` receives each node that becomes left-complete, once, with its slot in the outboard.
    ///
    /// # Errors
    /// The error of `sink`. The tree is then of no use, unless the outboard is complete.
    pub fn push<E>(
        &mut self,
        mut bytes: &[u8],
        mut sink: impl FnMut(u64, NodeValue) -> Result<(), E>,
    ) -> Result<(), E> {
        let segment = self.segment_len();
        while !bytes.is_empty() {
            if self.tail.len() == segment {
                let tail = core::mem::take(&mut self.tail);
                self.push_row(&tail, &mut sink)?;
                self.tail = tail;
                self.tail.clear();
            }
            if self.tail.is_empty() && bytes.len() > segment {
                let segments = ((bytes.len() - 1) / segment).min(ROW);
                let (row, rest) = bytes.split_at(segments * segment);
                self.push_row(row, &mut sink)?;
                bytes = rest;
                continue;
            }
            let (now, rest) = bytes.split_at(bytes.len().min(segment - self.tail.len()));
            self.tail.extend_from_slice(now);
            bytes = rest;
        }
        Ok(())
    }

    /// Hashes whole segments that have bytes after them.
    fn push_row<E>(
        &mut self,
        bytes: &[u8],
        sink: &mut impl FnMut(u64, NodeValue) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut row = core::mem::take(&mut self.row);
        row.clear();
        leaf_row(&self.shape, SegmentIndex(self.whole), bytes, &mut row);
        let outcome = row.iter().try_for_each(|leaf| self.push_leaf(*leaf, sink));
        self.row = row;
        outcome
    }

    fn push_leaf<E>(
        &mut self,
        leaf: NodeValue,
        sink: &mut impl FnMut(u64, NodeValue) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut node, mut value) = (Node { level: 0, index: self.whole }, leaf);
        sink(node.slot(), value)?;
        while node.index % 2 == 1
            && let Some(left) = self.peaks.pop()
        {
            node = Node { level: node.level + 1, index: node.index / 2 };
            value = join(&self.shape, node, left, value);
            sink(node.slot(), value)?;
        }
        self.peaks.push(value);
        self.whole += 1;
        Ok(())
    }

    /// The current tree. Costs the hash of the last segment and of one node a level.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint::new(self.geometry(), &self.peaks, &self.tail)
    }
}

impl core::fmt::Debug for GrowingTree {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("GrowingTree").field("size", &self.size()).finish_non_exhaustive()
    }
}

/// A growing file at one moment: its geometry, its root, and the nodes of its tree that are not left-complete. No
/// outboard can hold these for all checkpoints at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    geo: Geometry,
    root: Hash,
    /// By slot, ascending.
    edge: Vec<(u64, NodeValue)>,
}

impl Checkpoint {
    fn new(geo: Geometry, peaks: &[NodeValue], tail: &[u8]) -> Self {
        let leaf = Node { level: 0, index: geo.last_segment().0 };
        let mut value = leaf_value(&geo, geo.last_segment(), tail);
        let mut edge = alloc::vec![(leaf.slot(), value)];
        // Nothing lies to the right of the last segment: each step up has a peak on its left.
        for (parent, left) in geo.steps(leaf, geo.levels()).zip(peaks.iter().rev()) {
            value = join(&geo, parent, *left, value);
            edge.push((parent.slot(), value));
        }
        edge.sort_unstable_by_key(|(slot, _)| *slot);
        Self { geo, root: Hash::from_bytes(value.0), edge }
    }

    /// Restores an earlier checkpoint from the outboard, which still holds its left-complete nodes, and from the bytes
    /// of its last segment. The root follows from these and is not verified.
    ///
    /// # Errors
    /// As [`GrowingTree::resume`].
    pub fn read<S: NodeSource>(
        geo: &Geometry,
        nodes: &mut S,
        tail: &[u8],
    ) -> Result<Self, ExtractError<S::Error>> {
        GrowingTree::resume(geo, nodes, tail).map(|tree| tree.checkpoint())
    }

    /// The geometry of its tree.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geo
    }

    /// The root of its tree. The root of a BLAKE3 tree is the plain hash of the bytes so far.
    #[must_use]
    pub fn root(&self) -> Hash {
        self.root
    }

    /// Overwrites the slots from `first_slot` on, as read from an outboard, with the nodes of the right edge.
    pub fn overlay(&self, first_slot: u64, out: &mut [u8]) {
        let end = first_slot.saturating_add((out.len() / NODE_LEN) as u64);
        for (slot, value) in &self.edge {
            if (first_slot..end).contains(slot) {
                let at = (slot - first_slot) as usize * NODE_LEN;
                out[at..at + NODE_LEN].copy_from_slice(&value.0);
            }
        }
    }
}
