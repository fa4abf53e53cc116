//! Finds the correct segments of one region, from its proven top down.

use std::ops::Range;

use xylem_hash::tree::{ChainingValue, parent_cv, root_hash};
use xylem_tree::{Geometry, NODE_LEN, Node, NodeValue};

use super::{ProvenPair, RegionScan, ScanBuffer};

/// Walks one region from its proven top down.
pub(super) struct RegionJudge<'a> {
    pub(super) geometry: &'a Geometry,
    pub(super) root: Node,
    pub(super) buffer: &'a ScanBuffer,
    pub(super) first_slot: u64,
    pub(super) first_segment: u64,
    /// First segment that is not wholly in the file: zeros that were never read must not count as read.
    pub(super) read_end: u64,
    /// Whether there are slots that could be right or wrong.
    pub(super) has_slots: bool,
    pub(super) found: RegionScan,
}

impl RegionJudge<'_> {
    pub(super) fn descend(&mut self, node: Node, proven: NodeValue) {
        if self.computed(node) == Some(proven) {
            self.accept(node);
            return;
        }
        if self.has_slots && self.on_disk(node) != Some(proven) {
            self.found.mend.push((node.slot(), proven.0.to_vec()));
        }
        let Some((left, right)) = self.geometry.children(node) else { return };
        let (l, r) = (self.candidates(left), self.candidates(right));
        let Some((l, r)) = matching(node == self.root, &l, &r, &proven) else {
            self.found.unproven.push(self.geometry.node_segments(node));
            return;
        };
        self.found.pairs.push(ProvenPair { parent: node, left: l, right: r });
        // At most 12 levels deep: a region is 4,096 chunks.
        self.descend(left, l);
        self.descend(right, r);
    }

    /// Possible values of a node, the likeliest first.
    fn candidates(&self, node: Node) -> Candidates {
        let on_disk = |node| self.on_disk(node).and_then(known);
        let children = self.geometry.children(node);
        let below = children.and_then(|(l, r)| joined(&on_disk(l)?, &on_disk(r)?));
        [on_disk(node), self.computed(node), below]
    }

    /// All segments under `node` are correct, so every node under it follows from the data.
    fn accept(&mut self, node: Node) {
        let segments = self.geometry.node_segments(node);
        let slots = if self.has_slots { 2 * segments.start..2 * segments.end - 1 } else { 0..0 };
        let mut run: Option<(u64, Vec<u8>)> = None;
        for slot in slots {
            // In-order: the level is the number of trailing ones of the slot.
            let level = slot.trailing_ones() as u8;
            let node = Node { level, index: slot >> (level + 1) };
            let value = self.computed(node);
            match value.filter(|v| self.on_disk(node) != Some(*v)) {
                Some(value) => {
                    run.get_or_insert_with(|| (slot, Vec::new())).1.extend_from_slice(&value.0);
                }
                None => self.found.mend.extend(run.take()),
            }
        }
        self.found.mend.extend(run);
        match self.found.right.last_mut() {
            Some(last) if last.end == segments.start => last.end = segments.end,
            _ => self.found.right.push(segments),
        }
    }

    fn computed(&self, node: Node) -> Option<NodeValue> {
        let segments = self.geometry.node_segments(node);
        if segments.end > self.read_end
            || self.buffer.unreadable.iter().any(|r| overlap(r, &segments))
        {
            return None;
        }
        let level = self.buffer.levels.get(usize::from(node.level))?;
        let at = node.index.checked_sub(self.first_segment >> node.level)?;
        level.get(at as usize).map(|cv| NodeValue(*cv.as_bytes()))
    }

    fn on_disk(&self, node: Node) -> Option<NodeValue> {
        let at = node.slot().checked_sub(self.first_slot)? as usize * NODE_LEN;
        self.buffer.nodes.get(at..at + NODE_LEN).and_then(NodeValue::from_slice)
    }
}

/// Possible values of a node. None is trusted before it leads to a proven one.
pub(super) type Candidates = [Option<NodeValue>; 3];

/// The first of the possible values of two children that hash to their proven parent.
pub(super) fn matching(
    is_root: bool,
    left: &Candidates,
    right: &Candidates,
    parent: &NodeValue,
) -> Option<(NodeValue, NodeValue)> {
    // The outboard's own values come first in both, so that an intact outboard takes one hash.
    let pairs = left.iter().flatten().flat_map(|l| right.iter().flatten().map(move |r| (*l, *r)));
    pairs.into_iter().find(|(l, r)| hashes_to(is_root, l, r, parent))
}

pub(super) fn known(value: NodeValue) -> Option<NodeValue> {
    (!value.is_unknown()).then_some(value)
}

/// The value of a node that is not the root, from its children's.
pub(super) fn joined(l: &NodeValue, r: &NodeValue) -> Option<NodeValue> {
    let (l, r) = (known(*l)?, known(*r)?);
    let cv = parent_cv(&ChainingValue::from_bytes(l.0), &ChainingValue::from_bytes(r.0));
    Some(NodeValue(*cv.as_bytes()))
}

/// Whether two nodes, both known, hash to their parent.
pub(crate) fn hashes_to(is_root: bool, l: &NodeValue, r: &NodeValue, parent: &NodeValue) -> bool {
    if l.is_unknown() || r.is_unknown() {
        return false;
    }
    let (l, r) = (ChainingValue::from_bytes(l.0), ChainingValue::from_bytes(r.0));
    if is_root {
        root_hash(&l, &r).as_bytes() == &parent.0
    } else {
        parent_cv(&l, &r).as_bytes() == &parent.0
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}
