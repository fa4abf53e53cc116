//! The nodes above the regions: proven from the root down, with the help of data if they are lost.

use xylem_tree::{Node, NodeValue};

use super::judge::{Candidates, hashes_to, joined, known, matching};
use super::{ProvenPair, Scan, ScanBuffer, region_level};
use crate::error::StoreError;

impl Scan {
    /// The value of a region's top according to its data; `None` if the file is too short or cannot be read. For
    /// [`Scan::prove_from`].
    ///
    /// # Errors
    /// The medium's.
    pub fn top_of(
        &self,
        region: u64,
        buffer: &mut ScanBuffer,
    ) -> Result<Option<NodeValue>, StoreError> {
        let top = self.geometry.real(Node { level: region_level(&self.geometry), index: region });
        let Some(top) = top else { return Ok(None) };
        let segments = self.geometry.node_segments(top);
        let got = self.read_region(&segments, buffer)?;
        if got < buffer.data.len() || !buffer.unreadable.is_empty() {
            return Ok(None);
        }
        self.join_region(&segments, buffer);
        let top = buffer.levels.get(usize::from(top.level)).and_then(|level| level.first());
        Ok(top.map(|cv| NodeValue(*cv.as_bytes())))
    }

    /// Bytes of the file that are in a region.
    #[must_use]
    pub fn region_len(&self, region: u64) -> u64 {
        let top = self.geometry.real(Node { level: region_level(&self.geometry), index: region });
        let segments = top.map_or(0..0, |top| self.geometry.node_segments(top));
        let segment = self.geometry.segment_size().bytes() as u64;
        let end = segments.end.saturating_mul(segment).min(self.geometry.size());
        end.saturating_sub(segments.start * segment)
    }

    /// If the outboard's nodes above the regions are lost, proves them again with the help of values computed from
    /// data: one for each region, or none ([`Scan::top_of`]).
    ///
    /// # Errors
    /// The medium's.
    pub fn prove_from(&mut self, data: &[Option<NodeValue>]) -> Result<(), StoreError> {
        self.upper.clear();
        self.upper_mend.clear();
        self.tops.fill(None);
        self.prove_upper(data)
    }

    /// Proves the nodes above the regions, parents first. `data`: tops of regions computed from their data, if they
    /// were.
    pub(super) fn prove_upper(&mut self, data: &[Option<NodeValue>]) -> Result<(), StoreError> {
        let level = region_level(&self.geometry);
        let root = self.geometry.root();
        let mut todo = vec![(root, NodeValue::from(self.root))];
        while let Some((node, value)) = todo.pop() {
            let children = if node.level > level { self.geometry.children(node) } else { None };
            let Some((left, right)) = children else {
                let region = self.geometry.node_segments(node).start >> level;
                self.tops[region as usize] = Some(value);
                continue;
            };
            if self.read_node(node)? != value {
                self.upper_mend.push((node.slot(), value));
            }
            let on_disk = (self.read_node(left)?, self.read_node(right)?);
            let pair = if hashes_to(node == root, &on_disk.0, &on_disk.1, &value) {
                Some(on_disk)
            } else {
                let (l, r) = (self.candidates(left, data)?, self.candidates(right, data)?);
                matching(node == root, &l, &r, &value)
            };
            if let Some((l, r)) = pair {
                self.upper.push(ProvenPair { parent: node, left: l, right: r });
                todo.push((right, r));
                todo.push((left, l));
            }
        }
        Ok(())
    }

    /// Possible values of a node above the regions (or of a region's top), the likeliest first.
    fn candidates(&self, node: Node, data: &[Option<NodeValue>]) -> Result<Candidates, StoreError> {
        let on_disk = self.read_node(node)?;
        let below = match self.geometry.children(node) {
            Some((l, r)) => joined(&self.read_node(l)?, &self.read_node(r)?),
            None => None,
        };
        Ok([known(on_disk), below, self.by_data(node, data)])
    }

    /// The value of a node, which is not the root, computed from the data of the regions under it.
    fn by_data(&self, node: Node, data: &[Option<NodeValue>]) -> Option<NodeValue> {
        if data.is_empty() {
            return None;
        }
        let level = region_level(&self.geometry);
        let children = if node.level > level { self.geometry.children(node) } else { None };
        match children {
            // As deep as the tree is above its regions: under 64 levels.
            Some((l, r)) => joined(&self.by_data(l, data)?, &self.by_data(r, data)?),
            None => {
                let region = self.geometry.node_segments(node).start >> level;
                data.get(region as usize).copied().flatten()
            }
        }
    }
}
