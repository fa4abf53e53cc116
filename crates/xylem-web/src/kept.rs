//! [`KeptFile`]: data that an earlier visit left in the browser, used as far as they are proven.
//!
//! Beside the data a visit keeps the nodes that it has proven, as records of a slot and a value in order of arrival.
//! Neither is trusted: nodes are adopted from the signed root downwards. Each segment is hashed again and compared with
//! them, by the verifier that checks packets. A damaged or foreign record counts as absent.

use core::ops::Range;

use xylem_tree::{
    NODE_LEN, Node, NodeValue, SegmentIndex, SegmentSet, TreeVerifier, Verified, segment_signature,
};

use crate::layout::{FileLayout, LayoutFile};

/// Bytes of a record: the slot, little-endian, and the value.
pub const RECORD: usize = 8 + NODE_LEN;
/// Maximum number of slots in memory, 32 bytes each: those of 32 GiB. Larger publications begin anew.
const MAX_SLOTS: u64 = 8 << 20;
/// Bytes that are read back at a time.
const STEP: u64 = 1 << 20;

/// Nodes of an earlier visit, and how far its data have been checked.
#[derive(Default)]
pub struct KeptData {
    nodes: Vec<u8>,
    /// The file under check, with its proven part.
    at: usize,
    now: Option<KeptFile>,
    next: u64,
    /// The last requested segments of the file.
    asked: Range<u64>,
}

/// The proven part of a file.
pub struct KeptFile {
    /// A verifier that knows the nodes above it.
    pub verifier: TreeVerifier,
    /// Its segments.
    pub have: SegmentSet,
}

impl KeptData {
    /// Takes whole records; an incomplete one at the end is ignored.
    pub fn load_nodes(&mut self, layout: &FileLayout, records: &[u8]) {
        if layout.slots > MAX_SLOTS || records.len() < RECORD {
            return;
        }
        // At most 256 MiB, by the limit above.
        self.nodes.resize(layout.slots as usize * NODE_LEN, 0);
        for record in records.chunks_exact(RECORD) {
            let (slot, value) = record.split_at(8);
            let slot = u64::from_le_bytes(slot.try_into().expect("8 bytes"));
            if slot < layout.slots {
                self.nodes[slot as usize * NODE_LEN..][..NODE_LEN].copy_from_slice(value);
            }
        }
    }

    /// The next bytes to be read back, by their place among all; `None` if all were checked. `done` takes the proven
    /// part of each file, by its number.
    pub fn next(
        &mut self,
        layout: &FileLayout,
        done: &mut dyn FnMut(usize, KeptFile),
    ) -> Option<Range<u64>> {
        if self.nodes.is_empty() {
            return None;
        }
        while let Some(file) = layout.files.get(self.at) {
            let found = self.now.get_or_insert_with(|| KeptFile {
                verifier: adopted(file, nodes_of(&self.nodes, file)),
                have: SegmentSet::new(file.geometry.segments()),
            });
            let leaf = |i: u64| found.verifier.value(Node::leaf(SegmentIndex(i))).is_some();
            let segments = file.geometry.segments();
            let first = (self.next..segments).find(|i| leaf(*i));
            if let Some(first) = first {
                let most = (STEP / file.geometry.segment_size().bytes() as u64).max(1);
                let end = (first..segments.min(first + most)).find(|i| !leaf(*i));
                self.asked = first..end.unwrap_or(segments.min(first + most));
                self.next = self.asked.end;
                let start = file.geometry.segment_range(SegmentIndex(first)).start;
                let last = file.geometry.segment_range(SegmentIndex(self.asked.end - 1)).end;
                return Some(file.base + start..file.base + last);
            }
            if let Some(found) = self.now.take() {
                done(self.at, found);
            }
            (self.at, self.next) = (self.at + 1, 0);
        }
        *self = Self::default();
        None
    }

    /// Takes the requested bytes, or as many as exist; returns how many of them are proven.
    pub fn check(&mut self, layout: &FileLayout, mut bytes: &[u8]) -> u64 {
        let Some((file, found)) = layout.files.get(self.at).zip(self.now.as_mut()) else {
            return 0;
        };
        let (mut signature, mut proven) = (Vec::new(), 0);
        for i in std::mem::take(&mut self.asked) {
            let len = file.geometry.segment_len(SegmentIndex(i));
            let Some((content, rest)) = bytes.split_at_checked(len) else { break };
            bytes = rest;
            signature.clear();
            let mut nodes = nodes_of(&self.nodes, file);
            let signed =
                segment_signature(&file.geometry, SegmentIndex(i), &mut nodes, &mut signature);
            if signed.is_ok()
                && found.verifier.segment(SegmentIndex(i), content, &signature).is_ok()
            {
                found.have.insert(i);
                proven += len as u64;
            }
        }
        proven
    }
}

fn nodes_of<'a>(nodes: &'a [u8], file: &LayoutFile) -> &'a [u8] {
    let first = file.first_slot as usize * NODE_LEN;
    &nodes[first..][..file.geometry.slots() as usize * NODE_LEN]
}

/// A verifier with the nodes that follow from the file's root.
fn adopted(file: &LayoutFile, nodes: &[u8]) -> TreeVerifier {
    let value = |node: Node| {
        let at = usize::try_from(node.slot()).ok()?.checked_mul(NODE_LEN)?;
        NodeValue::from_slice(nodes.get(at..at.checked_add(NODE_LEN)?)?)
    };
    let mut verifier = TreeVerifier::new(file.geometry, file.root);
    let mut parents = vec![file.geometry.root()];
    while let Some(parent) = parents.pop() {
        let Some((left, right)) = file.geometry.children(parent) else { continue };
        if let (Some(l), Some(r)) = (value(left), value(right))
            && verifier.adopt_children(parent, l, r).is_ok()
        {
            parents.extend([left, right]);
        }
    }
    verifier
}

/// Appends proven nodes of a file as records.
pub fn write(file: &LayoutFile, nodes: &Verified<Vec<(Node, NodeValue)>>, out: &mut Vec<u8>) {
    for (node, value) in nodes.get() {
        if let Some(slot) = file.first_slot.checked_add(node.slot()) {
            out.extend_from_slice(&slot.to_le_bytes());
            out.extend_from_slice(&value.0);
        }
    }
}
