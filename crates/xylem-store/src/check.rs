//! Checks trees on disk for consistency: every pair of nodes hashes to its parent, up to the root. Content is not read
//! ([`Scan`](crate::Scan) does that). Memory is one block of nodes.

use std::ops::Range;

use xylem_hash::Hash;
use xylem_tree::{Geometry, NODE_LEN, Node, NodeSource, NodeValue, SegmentSize};

use crate::scan::hashes_to;

/// Level of the subtrees that are read in one piece: 512 segments, 1,023 nodes, 32 KiB.
const BLOCK_LEVEL: u8 = 9;
/// Most bad runs that are recorded; more are only counted.
const MAX_PLACES: usize = 32;

/// The result of checking one tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeCheck {
    /// Runs of segments with nodes that do not lead up to the root, ascending; the first 32.
    pub bad: Vec<Range<u64>>,
    /// Pairs of nodes that do not hash to their parent.
    pub bad_pairs: u64,
    /// Pairs of nodes of which one was never written.
    pub unwritten: u64,
}

impl TreeCheck {
    /// Whether every node is there and leads to the root.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.bad_pairs == 0 && self.unwritten == 0
    }

    fn add(&mut self, segments: Range<u64>) {
        let room = self.bad.len() < MAX_PLACES;
        match self.bad.last_mut() {
            Some(last) if last.end == segments.start => last.end = segments.end,
            _ if room => self.bad.push(segments),
            _ => {}
        }
    }
}

/// Number of segments of the tree that has an outboard of `bytes` bytes; `None` if there is none.
#[must_use]
pub fn segments_of_outboard(bytes: u64) -> Option<u64> {
    let slots = bytes / NODE_LEN as u64;
    (bytes.is_multiple_of(NODE_LEN as u64) && slots % 2 == 1).then_some(slots.div_ceil(2))
}

/// Checks the tree of `segments` segments in `nodes` against `root`.
///
/// # Errors
/// The source's. Wrong nodes are no error.
pub fn check_tree<S: NodeSource>(
    nodes: &mut S,
    segments: u64,
    root: &Hash,
) -> Result<TreeCheck, S::Error> {
    // A tree's shape depends on the number of segments alone.
    let size = SegmentSize::DEFAULT;
    let geometry = Geometry::new(segments.saturating_mul(size.bytes() as u64), size);
    let mut walk =
        TreeWalk { geometry, nodes, first_slot: 0, block: Vec::new(), found: TreeCheck::default() };
    walk.run(root)?;
    Ok(walk.found)
}

/// Checks the final nodes of a growing file of `segments` segments: those over whole segments that have bytes after
/// them. The right edge above follows from the file and is not checked.
///
/// # Errors
/// The source's. Wrong nodes are no error.
pub fn check_growing_tree<S: NodeSource>(
    nodes: &mut S,
    segments: u64,
) -> Result<TreeCheck, S::Error> {
    let size = SegmentSize::DEFAULT;
    let geometry = Geometry::new(segments.saturating_mul(size.bytes() as u64), size);
    let mut walk =
        TreeWalk { geometry, nodes, first_slot: 0, block: Vec::new(), found: TreeCheck::default() };
    let whole = segments.saturating_sub(1);
    for level in (0..u64::BITS).rev().filter(|level| whole >> level & 1 == 1) {
        // The node over the segments that this bit of their number stands for.
        let node = Node { level: level as u8, index: (whole >> level) - 1 };
        let mut value = [0; NODE_LEN];
        walk.nodes.read_nodes(node.slot(), &mut value)?;
        if NodeValue(value).is_unknown() {
            walk.found.unwritten += 1;
            walk.found.add(walk.geometry.node_segments(node));
            continue;
        }
        walk.below(node, NodeValue(value), false)?;
    }
    Ok(walk.found)
}

struct TreeWalk<'a, S> {
    geometry: Geometry,
    nodes: &'a mut S,
    /// The nodes of the current subtree. `first_slot`: the slot of the first.
    block: Vec<u8>,
    first_slot: u64,
    found: TreeCheck,
}

impl<S: NodeSource> TreeWalk<'_, S> {
    fn run(&mut self, root: &Hash) -> Result<(), S::Error> {
        let top = self.geometry.root();
        let mut value = [0; NODE_LEN];
        self.nodes.read_nodes(top.slot(), &mut value)?;
        let expected = NodeValue::from(*root);
        if NodeValue(value) != expected {
            if NodeValue(value).is_unknown() {
                self.found.unwritten += 1;
            } else {
                self.found.bad_pairs += 1;
            }
        }
        self.below(top, expected, true)
    }

    /// Checks all nodes below `top`, which has the value `expected`.
    fn below(&mut self, top: Node, expected: NodeValue, is_root: bool) -> Result<(), S::Error> {
        // Parents first, left before right. Nodes below a bad pair are not checked: it is unknown which of the values
        // is wrong.
        let mut todo = vec![(top, expected)];
        while let Some((node, value)) = todo.pop() {
            let Some((left, right)) = self.geometry.children(node) else { continue };
            let (l, r) = (self.value(node, left)?, self.value(node, right)?);
            if hashes_to(is_root && node == top, &l, &r, &value) {
                todo.push((right, r));
                todo.push((left, l));
                continue;
            }
            if l.is_unknown() || r.is_unknown() {
                self.found.unwritten += 1;
            } else {
                self.found.bad_pairs += 1;
            }
            self.found.add(self.geometry.node_segments(node));
        }
        Ok(())
    }

    /// The value of a child of `parent`, from the block. Reads the block if `parent` is its top.
    fn value(&mut self, parent: Node, child: Node) -> Result<NodeValue, S::Error> {
        if parent.level > BLOCK_LEVEL {
            let mut value = [0; NODE_LEN];
            self.nodes.read_nodes(child.slot(), &mut value)?;
            return Ok(NodeValue(value));
        }
        let at = |slot: u64, first: u64| slot.checked_sub(first).map(|s| s as usize * NODE_LEN);
        let inside = |at: &usize| at + NODE_LEN <= self.block.len();
        if at(child.slot(), self.first_slot).filter(inside).is_none() {
            let segments = self.geometry.node_segments(parent);
            self.first_slot = 2 * segments.start;
            let slots = 2 * (segments.end - segments.start) - 1;
            self.block.clear();
            // At most 1,023 slots: the parent is at most at the block level.
            self.block.resize(slots as usize * NODE_LEN, 0);
            self.nodes.read_nodes(self.first_slot, &mut self.block)?;
        }
        let at = at(child.slot(), self.first_slot).unwrap_or(0);
        Ok(NodeValue::from_slice(&self.block[at..at + NODE_LEN]).unwrap_or(NodeValue::UNKNOWN))
    }
}
