//! Hashes the nodes of a tree, one function for each kind of node. Only this module depends on the hash function.
//!
//! Single nodes are hashed one at a time. Whole rows are hashed side by side if the hash gains by it; BLAKE3 does and
//! SHA-256 does not.

use xylem_hash::tree::{self, ChainingValue};

use crate::{
    geometry::Geometry,
    ids::{NODE_LEN, Node, NodeValue, SegmentIndex, TreeKind},
    sha256,
};

/// The value of a real inner node: the root's is a hash, any other's a chaining value.
pub(crate) fn join(geo: &Geometry, node: Node, left: NodeValue, right: NodeValue) -> NodeValue {
    match geo.kind() {
        TreeKind::Blake3 => {
            let (left, right) = (left.to_cv(), right.to_cv());
            if node.level == geo.levels() {
                tree::root_hash(&left, &right).into()
            } else {
                NodeValue::from(&tree::parent_cv(&left, &right))
            }
        }
        TreeKind::Sha256 => sha256::node(&left, &right),
    }
}

/// The value of segment `i`'s leaf, which is the root if it is the only segment. `content` must have the length of
/// [`Geometry::segment_len`]; otherwise the value has no meaning.
pub fn leaf_value(geo: &Geometry, i: SegmentIndex, content: &[u8]) -> NodeValue {
    match geo.kind() {
        TreeKind::Blake3 if geo.segments() == 1 => xylem_hash::hash(content).into(),
        TreeKind::Blake3 => {
            NodeValue::from(&tree::chunk_group_cv(content, i.0 * geo.segment_size().chunks()))
        }
        TreeKind::Sha256 => sha256::leaf(content),
    }
}

/// Most pairs that [`parents`] hashes together: as many as the widest engine has lanes.
const PAIRS: usize = 16;

/// Writes the values of parents below the root to `out`, as many as it has places. `pair` gives the children of the
/// `n`-th one.
pub(crate) fn parents(
    geo: &Geometry,
    pair: impl Fn(usize) -> [NodeValue; 2],
    out: &mut [NodeValue],
) {
    if geo.kind() == TreeKind::Sha256 {
        for (n, out) in out.iter_mut().enumerate() {
            let [left, right] = pair(n);
            *out = sha256::node(&left, &right);
        }
        return;
    }
    let mut children = [ChainingValue::from_bytes([0; NODE_LEN]); 2 * PAIRS];
    for (group, out) in out.chunks_mut(PAIRS).enumerate() {
        for (n, place) in children.chunks_exact_mut(2).take(out.len()).enumerate() {
            place.copy_from_slice(&pair(group * PAIRS + n).map(NodeValue::to_cv));
        }
        let pairs = &children[..2 * out.len()];
        tree::parent_cvs(pairs, &mut ValuePlaces(out.iter_mut()));
    }
}

/// Replaces the front of `row` by the row above. All nodes of both rows are below the root. An odd last node is
/// promoted. Returns the number of nodes above.
pub(crate) fn climb_row(geo: &Geometry, row: &mut [NodeValue]) -> usize {
    let pairs = row.len() / 2;
    for first in (0..pairs).step_by(PAIRS) {
        let mut values = [NodeValue::UNKNOWN; PAIRS];
        let values = &mut values[..PAIRS.min(pairs - first)];
        parents(geo, |n| [row[2 * (first + n)], row[2 * (first + n) + 1]], values);
        row[first..first + values.len()].copy_from_slice(values); // these have all been read
    }
    if let (1, Some(last)) = (row.len() % 2, row.last()) {
        row[pairs] = *last;
    }
    row.len().div_ceil(2)
}

/// The places to which values go, one after the other.
struct ValuePlaces<'a, I: Iterator<Item = &'a mut NodeValue>>(I);

impl<'a, I: Iterator<Item = &'a mut NodeValue>> Extend<ChainingValue> for ValuePlaces<'a, I> {
    fn extend<T: IntoIterator<Item = ChainingValue>>(&mut self, values: T) {
        // Takes the values first: no place may be consumed without a value.
        for value in values {
            let Some(place) = self.0.next() else { return };
            *place = NodeValue::from(&value);
        }
    }
}

#[cfg(feature = "alloc")]
mod rows {
    use alloc::vec::Vec;

    use super::{
        ChainingValue, Geometry, NodeValue, SegmentIndex, TreeKind, leaf_value, sha256, tree,
    };

    /// Appends to `out` the leaves of neighbouring segments, from segment `first` on. `bytes` are their bytes, one
    /// after the other.
    pub(crate) fn leaf_row(
        geo: &Geometry,
        first: SegmentIndex,
        bytes: &[u8],
        out: &mut Vec<NodeValue>,
    ) {
        let segment = geo.segment_size();
        match geo.kind() {
            _ if geo.segments() == 1 => out.push(leaf_value(geo, first, bytes)),
            TreeKind::Blake3 => {
                let first_chunk = first.0 * segment.chunks();
                tree::chunk_group_cvs(bytes, segment.bytes(), first_chunk, &mut ValueRow(out));
            }
            TreeKind::Sha256 => out.extend(bytes.chunks(segment.bytes()).map(sha256::leaf)),
        }
    }

    /// Appends to `out` the leaves of any segments.
    pub(crate) fn leaf_values<'a>(
        geo: &Geometry,
        segments: impl Iterator<Item = (SegmentIndex, &'a [u8])>,
        out: &mut Vec<NodeValue>,
    ) {
        if geo.kind() == TreeKind::Sha256 || geo.segments() == 1 {
            out.extend(segments.map(|(i, content)| leaf_value(geo, i, content)));
            return;
        }
        let chunks = geo.segment_size().chunks();
        tree::scattered_group_cvs(segments.map(|(i, c)| (i.0 * chunks, c)), &mut ValueRow(out));
    }

    /// A row to which values are appended.
    struct ValueRow<'a>(&'a mut Vec<NodeValue>);

    impl Extend<ChainingValue> for ValueRow<'_> {
        fn extend<T: IntoIterator<Item = ChainingValue>>(&mut self, values: T) {
            self.0.extend(values.into_iter().map(|value| NodeValue::from(&value)));
        }
    }
}

#[cfg(feature = "alloc")]
pub(crate) use rows::{leaf_row, leaf_values};
