//! [`Claims`]: claimed hashes of a file's blocks, proven from the highest possible nodes.

use alloc::{vec, vec::Vec};

use xylem_hash::Hash;

use super::UpdateBlocks;
use crate::{
    anchor::Anchor,
    geometry::Geometry,
    hashing::join,
    ids::{Node, NodeValue},
    segment_set::SegmentSet,
    verified::Verified,
    verifier::TreeVerifier,
};

/// Claimed values of a file's blocks: the hashes of bytes found elsewhere that may be the blocks'.
///
/// Order of calls: [`claim`](Self::claim) for each block that was found; [`prove`](Self::prove), first and again
/// whenever more of the tree is proven; [`anchor`](Self::anchor) for each block that is proven then. Memory: 32 bytes a
/// block, and as much again during a proof.
#[derive(Debug)]
pub struct Claims {
    root: Hash,
    blocks: UpdateBlocks,
    values: Vec<NodeValue>,
    /// Claimed, and neither proven nor refuted.
    open: SegmentSet,
    proven: SegmentSet,
}

/// The result of [`Claims::prove`].
#[derive(Debug)]
pub struct ProvenClaims {
    /// Newly proven blocks, ascending.
    pub blocks: Vec<u64>,
    /// The nodes over them, blocks included, that are proven thereby.
    pub nodes: Verified<Vec<(Node, NodeValue)>>,
    /// The lowest proven nodes with which the claims that cover them disagree. At least one claim under each is wrong;
    /// the proof of any segment there narrows it down. Single blocks are not listed: their claims are dropped.
    pub refuted: Vec<Node>,
}

impl Claims {
    /// Claims about the file with this root, without any yet.
    #[must_use]
    pub fn new(blocks: UpdateBlocks, root: Hash) -> Self {
        let count = blocks.count();
        Self {
            root,
            blocks,
            values: vec![NodeValue::UNKNOWN; count as usize],
            open: SegmentSet::new(count),
            proven: SegmentSet::new(count),
        }
    }

    /// The blocks.
    #[must_use]
    pub fn blocks(&self) -> &UpdateBlocks {
        &self.blocks
    }

    /// Claims the value of a block. Ignored if the block does not exist or is proven.
    pub fn claim(&mut self, block: u64, value: NodeValue) {
        if block < self.blocks.count() && !self.proven.contains(block) {
            self.values[block as usize] = value;
            self.open.insert(block);
        }
    }

    /// Withdraws a claim, proven or not, as the bytes are no longer available.
    pub fn withdraw(&mut self, block: u64) {
        self.open.remove(block);
        self.proven.remove(block);
    }

    /// Blocks that are claimed and not proven yet.
    #[must_use]
    pub fn open(&self) -> &SegmentSet {
        &self.open
    }

    /// Blocks that are proven.
    #[must_use]
    pub fn proven(&self) -> &SegmentSet {
        &self.proven
    }

    /// Proves all claims that can be proven. If claims cover all of a node that `verifier` knows, they are hashed up to
    /// it and compared. A verifier of another file proves nothing.
    pub fn prove(&mut self, verifier: &TreeVerifier) -> ProvenClaims {
        let mut found =
            ClaimFindings { blocks: Vec::new(), nodes: Vec::new(), refuted: Vec::new() };
        let same = verifier.root() == self.root && *verifier.geometry() == self.blocks.geo;
        if same && !self.open.is_empty() {
            let rows = self.rows();
            self.descend(self.blocks.geo.root(), verifier, &rows, &mut found);
        }
        let ClaimFindings { blocks, nodes, refuted } = found;
        ProvenClaims { blocks, nodes: Verified::new(self.root, nodes), refuted }
    }

    /// The anchor of a proven block, to prove its bytes.
    #[must_use]
    pub fn anchor(&self, block: u64) -> Option<Anchor> {
        if !self.proven.contains(block) {
            return None;
        }
        let node = self.blocks.node(block)?;
        let value = *self.values.get(block as usize)?;
        Some(Anchor::proven(self.blocks.geo, self.root, node, value))
    }

    /// The values of the nodes over blocks, from the blocks' own level up; unknown where a claim is missing.
    fn rows(&self) -> Vec<Vec<NodeValue>> {
        let geo = &self.blocks.geo;
        let claimed = |(block, value): (usize, &NodeValue)| {
            let there = self.open.contains(block as u64) || self.proven.contains(block as u64);
            if there { *value } else { NodeValue::UNKNOWN }
        };
        let mut rows = vec![self.values.iter().enumerate().map(claimed).collect::<Vec<_>>()];
        for level in self.blocks.level + 1..=geo.levels() {
            let below = &rows[rows.len() - 1];
            let above = below.chunks(2).zip(0..).map(|(pair, index)| match *pair {
                [left, right] if left.is_unknown() || right.is_unknown() => NodeValue::UNKNOWN,
                [left, right] => join(geo, Node { level, index }, left, right),
                [promoted, ..] => promoted,
                [] => NodeValue::UNKNOWN,
            });
            let above = above.collect();
            rows.push(above);
        }
        rows
    }

    fn descend(
        &mut self,
        node: Node,
        verifier: &TreeVerifier,
        rows: &[Vec<NodeValue>],
        found: &mut ClaimFindings,
    ) {
        let geo = self.blocks.geo;
        let (first, last) = self.span(&geo, node);
        if self.open.next(first).is_none_or(|block| block > last) {
            return;
        }
        let claimed = if node.level > self.blocks.level {
            rows[usize::from(node.level - self.blocks.level)][node.index as usize]
        } else {
            rows[0][first as usize]
        };
        let known = verifier.value(node);
        if !claimed.is_unknown() && known == Some(claimed) {
            return self.accept(node, rows, found);
        }
        if first == last {
            if known.is_some() && !claimed.is_unknown() {
                self.open.remove(first);
            }
            return;
        }
        let Some((left, right)) = geo.children(node) else { return };
        if verifier.value(left).is_some() {
            self.descend(left, verifier, rows, found);
            self.descend(right, verifier, rows, found);
        } else if known.is_some() && !claimed.is_unknown() {
            found.refuted.push(node);
        }
    }

    /// Marks everything under a node as proven.
    fn accept(&mut self, node: Node, rows: &[Vec<NodeValue>], found: &mut ClaimFindings) {
        let geo = self.blocks.geo;
        let (first, last) = self.span(&geo, node);
        for block in first..=last {
            if self.open.remove(block) {
                self.proven.insert(block);
                found.blocks.push(block);
            }
        }
        for (level, row) in (self.blocks.level..=node.level).zip(rows) {
            let shift = level - self.blocks.level;
            for index in first >> shift..=last >> shift {
                let real = Node { level, index };
                if geo.node_exists(real) {
                    found.nodes.push((real, row[index as usize]));
                }
            }
        }
        if let Some(short) = geo.real(Node { level: self.blocks.level, index: last })
            && short.level < self.blocks.level
        {
            found.nodes.push((short, rows[0][last as usize]));
        }
    }

    /// The first and the last block under a node.
    fn span(&self, geo: &Geometry, node: Node) -> (u64, u64) {
        let segments = geo.node_segments(node);
        (self.blocks.block_of(node), (segments.end - 1) >> self.blocks.level)
    }
}

struct ClaimFindings {
    blocks: Vec<u64>,
    nodes: Vec<(Node, NodeValue)>,
    refuted: Vec<Node>,
}
