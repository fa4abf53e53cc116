//! The nodes of the SHA-256 tree (RFC 9162 section 2.1.1): SHA-256 with a prefix byte.

use sha2::{Digest, Sha256};

use crate::ids::NodeValue;

/// Prefix byte of a leaf.
const LEAF: u8 = 0;
/// Prefix byte of an inner node.
const NODE: u8 = 1;

/// The value of a leaf.
pub(crate) fn leaf(content: &[u8]) -> NodeValue {
    NodeValue(Sha256::new().chain_update([LEAF]).chain_update(content).finalize().into())
}

/// The value of an inner node, the root or not.
pub(crate) fn node(left: &NodeValue, right: &NodeValue) -> NodeValue {
    let mut bytes = [NODE; 65];
    bytes[1..33].copy_from_slice(&left.0);
    bytes[33..].copy_from_slice(&right.0);
    NodeValue(Sha256::digest(bytes).into())
}
