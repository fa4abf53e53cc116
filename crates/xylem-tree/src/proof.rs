//! What a proof looks like on the wire: how long its parts are, and which side is which.

use crate::{
    error::VerifyError,
    geometry::Geometry,
    ids::{NODE_LEN, Node, NodeValue, SegmentIndex, Tile},
};

/// Bytes that a segment's SignatureValue has; the one length that is accepted.
#[must_use]
pub fn segment_signature_len(geo: &Geometry, i: SegmentIndex) -> usize {
    let siblings = match geo.has_segment(i) {
        true => geo.steps(Node::leaf(i), geo.segment_proof_end()).count(),
        false => 0,
    };
    (1 + siblings) * NODE_LEN
}

/// Bytes that a tile's content has.
#[must_use]
pub fn tile_content_len(geo: &Geometry, tile: Tile) -> usize {
    let (_, nodes) = geo.tile_nodes(tile);
    (nodes.end - nodes.start) as usize * NODE_LEN // at most 256 nodes
}

/// Bytes that a tile's SignatureValue has; the one length that is accepted.
#[must_use]
pub fn tile_signature_len(geo: &Geometry, tile: Tile) -> usize {
    (1 + geo.tile_proof(tile).count()) * NODE_LEN
}

/// The highest real node at or above the real `node` that is not above level `end`.
pub(crate) fn proof_end(geo: &Geometry, node: Node, end: u8) -> Node {
    geo.steps(node, end).last().unwrap_or(node)
}

/// 0 if `node` is the left child of `parent`, 1 if the right.
pub(crate) fn side(node: Node, parent: Node) -> usize {
    // A right child may be promoted over several levels; its first segment tells.
    let first = node.index << node.level;
    (first >> (parent.level - 1) & 1) as usize
}

/// The own value and the siblings of a SignatureValue, whose length has been checked.
pub(crate) fn split_value(signature_value: &[u8]) -> (NodeValue, &[u8]) {
    match signature_value.split_first_chunk::<NODE_LEN>() {
        Some((value, siblings)) => (NodeValue(*value), siblings),
        None => (NodeValue::UNKNOWN, &[]),
    }
}

pub(crate) fn check_len(expected: usize, got: usize) -> Result<(), VerifyError> {
    if got == expected { Ok(()) } else { Err(VerifyError::WrongLength { expected, got }) }
}

pub(crate) fn check_proof_len(expected: usize, got: usize) -> Result<(), VerifyError> {
    if got == expected { Ok(()) } else { Err(VerifyError::ProofLength { expected, got }) }
}
