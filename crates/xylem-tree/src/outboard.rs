//! Reads proofs from an outboard: what a sharer sends along with a file's bytes.

use alloc::{vec, vec::Vec};

use crate::{
    error::ExtractError,
    geometry::{Geometry, SEGMENT_PROOF_LEVELS},
    ids::{NODE_LEN, Node, NodeValue, SegmentIndex, SegmentSize, Tile, TreeKind},
};

/// A source of an outboard: memory, a file, a part of a packed file.
pub trait NodeSource {
    /// Why a read failed.
    type Error;

    /// Fills `out`, of a length that is a multiple of [`NODE_LEN`], with the slots from `first_slot` on. A slot that
    /// was never written reads as zeros.
    ///
    /// # Errors
    /// Any failure to read the source, its end included.
    fn read_nodes(&mut self, first_slot: u64, out: &mut [u8]) -> Result<(), Self::Error>;
}

/// An outboard in memory ends before the requested slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the outboard is too short for its file")]
pub struct OutboardTooShort;

impl NodeSource for &[u8] {
    type Error = OutboardTooShort;

    fn read_nodes(&mut self, first_slot: u64, out: &mut [u8]) -> Result<(), OutboardTooShort> {
        let start = usize::try_from(first_slot).ok().and_then(|slot| slot.checked_mul(NODE_LEN));
        let range = start.and_then(|start| Some(start..start.checked_add(out.len())?));
        let from = range.and_then(|range| self.get(range)).ok_or(OutboardTooShort)?;
        out.copy_from_slice(from);
        Ok(())
    }
}

/// Number of segments with proofs that end at the same node.
const GROUP: u64 = 1 << SEGMENT_PROOF_LEVELS;
/// Most nodes in a segment's SignatureValue.
const PROOF_NODES: usize = 1 + SEGMENT_PROOF_LEVELS as usize;
/// Slots of the nodes under, and including, the node at which a segment's proof ends.
const BLOCK_SLOTS: u64 = 2 * GROUP - 1;
/// Slots read at once to pick a tile's nodes from.
const TILE_READ_SLOTS: u64 = 512;

/// Appends a segment's SignatureValue to `out`: its leaf, then its proof's siblings from the bottom up. It takes one
/// read of at most 480 bytes.
///
/// # Errors
/// [`ExtractError`]; `out` is then as it was.
pub fn segment_signature<S: NodeSource>(
    geo: &Geometry,
    i: SegmentIndex,
    src: &mut S,
    out: &mut Vec<u8>,
) -> Result<(), ExtractError<S::Error>> {
    if !geo.has_segment(i) {
        return Err(ExtractError::OutOfRange);
    }
    // Leaf and siblings all lie under one node of level 3, in contiguous slots.
    let first = i.0 / GROUP * (BLOCK_SLOTS + 1);
    let slots = BLOCK_SLOTS.min(geo.slots() - first);
    let mut block = [0; BLOCK_SLOTS as usize * NODE_LEN];
    let block = &mut block[..slots as usize * NODE_LEN];
    src.read_nodes(first, block).map_err(ExtractError::Source)?;
    let (places, count) = proof_places(geo, i);
    append(out, |out| {
        for (n, place) in places[..count].iter().enumerate() {
            let at = usize::from(*place) * NODE_LEN;
            let bytes = &block[at..at + NODE_LEN];
            let node = || core::iter::once(Node::leaf(i)).chain(geo.segment_proof(i)).nth(n);
            if *bytes == NodeValue::UNKNOWN.0 {
                return Err(node().map_or(ExtractError::OutOfRange, ExtractError::Unknown));
            }
            out.extend_from_slice(bytes);
        }
        Ok(())
    })
}

/// Positions of a segment's leaf and its proof's siblings in its group: the nodes under one node of level 3, counted in
/// slots from the group's first slot. Also returns their number.
pub(crate) fn proof_places(geo: &Geometry, i: SegmentIndex) -> ([u8; PROOF_NODES], usize) {
    let within = (i.0 % GROUP) as u8;
    if i.0 / GROUP * GROUP + (GROUP - 1) <= geo.last_segment().0 {
        // A complete group has a sibling at every level: slot(l, i) = (2i + 1) * 2^l - 1.
        let place = |level: u8| ((((within >> level) ^ 1) * 2 + 1) << level) - 1;
        return ([2 * within, place(0), place(1), place(2)], PROOF_NODES);
    }
    let first = i.0 / GROUP * (BLOCK_SLOTS + 1);
    let mut places = [0; PROOF_NODES];
    let nodes = core::iter::once(Node::leaf(i)).chain(geo.segment_proof(i));
    let count = places.iter_mut().zip(nodes).fold(0, |count, (place, node)| {
        *place = (node.slot() - first) as u8; // below BLOCK_SLOTS
        count + 1
    });
    (places, count)
}

/// Appends a tile's content to `out`: the values of its base nodes, 32 bytes each.
///
/// # Errors
/// [`ExtractError`]; `out` is then as it was.
pub fn tile_content<S: NodeSource>(
    geo: &Geometry,
    tile: Tile,
    src: &mut S,
    out: &mut Vec<u8>,
) -> Result<(), ExtractError<S::Error>> {
    if !geo.has_tile(tile) {
        return Err(ExtractError::OutOfRange);
    }
    let (level, indices) = geo.tile_nodes(tile);
    let stride = 2u64 << level; // slots from one base node to the next
    let per_read = (TILE_READ_SLOTS / stride).max(1);
    let mut buf =
        vec![0; per_read.saturating_sub(1).saturating_mul(stride) as usize * NODE_LEN + NODE_LEN];
    append(out, |out| {
        let mut at = indices.start;
        while at < indices.end {
            let first = Node { level, index: at };
            let Some(real) = geo.real(first) else { return Err(ExtractError::OutOfRange) };
            // Only the last one can be a promoted copy; its value is in another slot.
            let whole = (indices.end - at).min(per_read);
            let last = Node { level, index: at + whole - 1 };
            let run = if whole > 1 && !geo.node_exists(last) { whole - 1 } else { whole };
            let run_bytes = ((run - 1) * stride) as usize * NODE_LEN + NODE_LEN;
            let bytes = &mut buf[..run_bytes];
            src.read_nodes(real.slot(), bytes).map_err(ExtractError::Source)?;
            for n in 0..run {
                let from = (n * stride) as usize * NODE_LEN;
                let node = Node { level, index: at + n };
                out.extend(known(node, &bytes[from..from + NODE_LEN])?.0);
            }
            at += run;
        }
        Ok(())
    })
}

/// Appends a tile's SignatureValue to `out`: its top's value, then its proof's siblings from the bottom up.
///
/// # Errors
/// [`ExtractError`]; `out` is then as it was.
pub fn tile_signature<S: NodeSource>(
    geo: &Geometry,
    tile: Tile,
    src: &mut S,
    out: &mut Vec<u8>,
) -> Result<(), ExtractError<S::Error>> {
    let Some(top) = geo.tile_top(tile) else { return Err(ExtractError::OutOfRange) };
    let mut nodes = core::iter::once(top).chain(geo.tile_proof(tile));
    append(out, |out| nodes.try_for_each(|node| read_node(node, src).map(|v| out.extend(v.0))))
}

/// Reads one real node's value.
///
/// # Errors
/// [`ExtractError`].
pub(crate) fn read_node<S: NodeSource>(
    node: Node,
    src: &mut S,
) -> Result<NodeValue, ExtractError<S::Error>> {
    let mut bytes = [0; NODE_LEN];
    src.read_nodes(node.slot(), &mut bytes).map_err(ExtractError::Source)?;
    known(node, &bytes)
}

/// The value read for a node, or an error if its slot was never written: zeros must not be sent as proof.
fn known<E>(node: Node, bytes: &[u8]) -> Result<NodeValue, ExtractError<E>> {
    NodeValue::from_slice(bytes).filter(|v| !v.is_unknown()).ok_or(ExtractError::Unknown(node))
}

/// Runs `fill` and restores `out` if it fails.
fn append<E>(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let before = out.len();
    let done = fill(out);
    if done.is_err() {
        out.truncate(before);
    }
    done
}

/// A whole outboard in memory, for small files and for tests.
#[derive(Clone, PartialEq, Eq)]
pub struct Outboard {
    geo: Geometry,
    root: xylem_hash::Hash,
    nodes: Vec<u8>,
}

impl Outboard {
    /// Hashes `content` in a BLAKE3 tree and keeps every node.
    #[must_use]
    pub fn of(content: &[u8], segment: SegmentSize) -> Self {
        Self::of_kind(content, segment, TreeKind::Blake3)
    }

    /// Hashes `content` in a tree of this kind and keeps every node.
    #[must_use]
    pub fn of_kind(content: &[u8], segment: SegmentSize, kind: TreeKind) -> Self {
        let geo = Geometry::new(content.len() as u64, segment).with_kind(kind);
        let mut nodes = vec![0; geo.slots() as usize * NODE_LEN];
        let sink = |first_slot: u64, run: &[u8]| {
            let at = first_slot as usize * NODE_LEN;
            nodes[at..at + run.len()].copy_from_slice(run);
            Ok::<(), core::convert::Infallible>(())
        };
        let mut builder = crate::OutboardBuilder::new(geo, sink);
        builder.update(content).expect("as many bytes as the geometry was made for");
        let root = builder.finish().expect("as many bytes as the geometry was made for");
        Self { geo, root, nodes }
    }

    /// The tree's geometry.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geo
    }

    /// The root; that of a BLAKE3 tree is the file's plain hash.
    #[must_use]
    pub fn root(&self) -> xylem_hash::Hash {
        self.root
    }

    /// The slots in order; as a `&[u8]` it is a [`NodeSource`].
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.nodes
    }

    /// The value at a position, promoted copies included; `None` outside the tree.
    #[must_use]
    pub fn node(&self, node: Node) -> Option<NodeValue> {
        read_node(self.geo.real(node)?, &mut self.as_bytes()).ok()
    }
}

impl core::fmt::Debug for Outboard {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Outboard").field("geo", &self.geo).field("root", &self.root).finish()
    }
}
