//! What the tree hashes, one function a kind of node. All that is hashed one node at a time is
//! hashed here; whole levels are, side by side, where they are built.

use xylem_hash::tree;

use crate::{
    geometry::Geometry,
    ids::{Node, NodeValue, SegmentIndex},
};

/// The value of a real inner node: the root's is a hash, any other's a chaining value.
pub(crate) fn join(geo: &Geometry, node: Node, left: NodeValue, right: NodeValue) -> NodeValue {
    let (left, right) = (left.to_cv(), right.to_cv());
    if node.level == geo.levels() {
        tree::root_hash(&left, &right).into()
    } else {
        NodeValue::from(&tree::parent_cv(&left, &right))
    }
}

/// The value of a segment's leaf, whose bytes have the right length.
pub(crate) fn leaf_value(geo: &Geometry, i: SegmentIndex, content: &[u8]) -> NodeValue {
    if geo.segments() == 1 {
        return xylem_hash::hash(content).into();
    }
    NodeValue::from(&tree::chunk_group_cv(content, i.0 * geo.segment_size().chunks()))
}

/// The leaves of several segments. One at a time for now: a segment of 8 KiB fills eight lanes on
/// its own, and [`tree::chunk_group_cvs`] takes neighbours in one buffer only. Callers hand over
/// whole batches so that lanes can be shared here.
pub(crate) fn leaf_values<'a>(
    geo: &Geometry,
    segments: impl Iterator<Item = (SegmentIndex, &'a [u8])>,
) -> Vec<NodeValue> {
    segments.map(|(i, content)| leaf_value(geo, i, content)).collect()
}
