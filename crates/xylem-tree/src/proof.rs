//! The layout of proofs on the wire: the lengths of their parts, and the sides of siblings.

use crate::{
    error::ProofError,
    geometry::Geometry,
    ids::{NODE_LEN, Node, NodeValue, SegmentIndex, Tile},
};

/// Length in bytes of a segment's SignatureValue; no other length is accepted.
#[must_use]
pub fn segment_signature_len(geo: &Geometry, i: SegmentIndex) -> usize {
    let siblings = match geo.has_segment(i) {
        true => geo.steps(Node::leaf(i), geo.segment_proof_end()).count(),
        false => 0,
    };
    (1 + siblings) * NODE_LEN
}

/// Length in bytes of a tile's content.
#[must_use]
pub fn tile_content_len(geo: &Geometry, tile: Tile) -> usize {
    let (_, nodes) = geo.tile_nodes(tile);
    (nodes.end - nodes.start) as usize * NODE_LEN // at most 256 nodes
}

/// Length in bytes of a tile's SignatureValue; no other length is accepted.
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
    // A right child may be promoted over several levels, so its first segment decides.
    let first = node.index << node.level;
    (first >> (parent.level - 1) & 1) as usize
}

/// Splits a SignatureValue of checked length into the node's own value and the siblings.
pub(crate) fn split_value(signature_value: &[u8]) -> (NodeValue, &[u8]) {
    match signature_value.split_first_chunk::<NODE_LEN>() {
        Some((value, siblings)) => (NodeValue(*value), siblings),
        None => (NodeValue::UNKNOWN, &[]),
    }
}

pub(crate) fn check_len(expected: usize, got: usize) -> Result<(), ProofError> {
    if got == expected { Ok(()) } else { Err(ProofError::WrongLength { expected, got }) }
}

pub(crate) fn check_proof_len(expected: usize, got: usize) -> Result<(), ProofError> {
    if got == expected { Ok(()) } else { Err(ProofError::ProofLength { expected, got }) }
}
