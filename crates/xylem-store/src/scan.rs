//! Reading a file back and finding out which of its segments are right.
//!
//! Nothing on disk is believed. A [`Scan`] starts at the root, takes nodes from the outboard only
//! where they hash to a proven parent, hashes the data in wide runs, and compares. A flipped byte
//! in data or outboard means "not present" for the segments it touches, nothing else.
//!
//! Regions of 4 MiB are independent of each other, so any number of threads may scan them.

use std::ops::Range;

use xylem_hash::Hash;
use xylem_hash::tree::{ChainingValue, chunk_group_cvs, parent_cv, parent_cvs, root_hash};
use xylem_tree::{Geometry, NODE_LEN, Node, NodeValue};

use crate::error::StoreError;
use crate::file::FileRef;
use crate::outboard::{OutboardFile, byte_of};

/// Base-2 logarithm of the chunks in a region: 4 MiB, large enough to keep disks and SIMD busy,
/// small enough to share among threads.
const REGION_LOG2_CHUNKS: u8 = 12;

/// Three nodes that belong together: the children hash to the parent, and the parent is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProvenPair {
    /// The parent.
    pub parent: Node,
    /// Its left child's value.
    pub left: NodeValue,
    /// Its right child's value.
    pub right: NodeValue,
}

/// A file, its outboard and the root that both must agree with.
#[derive(Debug)]
pub struct Scan {
    file: FileRef,
    outboard: FileRef,
    base: u64,
    geometry: Geometry,
    root: Hash,
    /// Proven value of each region's top node, `None` where the outboard does not lead there.
    tops: Vec<Option<NodeValue>>,
    /// Pairs above the regions, parents before children.
    upper: Vec<ProvenPair>,
}

/// What is right in one region.
#[derive(Debug, Clone)]
pub struct RegionScan {
    region: u64,
    /// Segments that are right, ascending, disjoint.
    pub(crate) right: Vec<Range<u64>>,
    /// Pairs over segments that are not all right, parents before children.
    pub(crate) pairs: Vec<ProvenPair>,
    /// Runs of nodes that follow from right data and are wrong or missing in the outboard: first
    /// slot and values.
    pub(crate) mend: Vec<(u64, Vec<u8>)>,
    segments: u64,
    bytes: u64,
}

impl RegionScan {
    /// The region's number.
    #[must_use]
    pub fn region(&self) -> u64 {
        self.region
    }

    /// Segments that are right, as ascending ranges.
    #[must_use]
    pub fn right(&self) -> &[Range<u64>] {
        &self.right
    }

    /// Whether all of the region's segments are right.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.right.iter().map(|r| r.end - r.start).sum::<u64>() == self.segments
    }

    /// Bytes that were read to find out.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Buffers of one scanning thread; reused from region to region.
#[derive(Debug, Default)]
pub struct ScanBuffer {
    data: Vec<u8>,
    nodes: Vec<u8>,
    levels: Vec<Vec<ChainingValue>>,
}

impl Scan {
    /// Prepares to scan `file` against `root`, whose size is for the caller to compare, with the outboard that starts at `slot_offset`.
    /// Reads the nodes above the regions and proves them from the root down.
    ///
    /// # Errors
    /// The medium's. Wrong bytes are no error.
    pub fn new(
        file: FileRef,
        outboard: &OutboardFile,
        slot_offset: u64,
        geometry: Geometry,
        root: Hash,
    ) -> Result<Self, StoreError> {
        let level = region_level(&geometry);
        let outboard = outboard.file().clone();
        let regions = geometry.count(level) as usize;
        let (tops, upper) = (vec![None; regions], Vec::new());
        let mut scan = Self { file, outboard, base: slot_offset, geometry, root, tops, upper };
        scan.prove_upper(level)?;
        Ok(scan)
    }

    /// The shape of the file's tree.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The regions worth scanning, ascending: those that the outboard says anything about.
    pub fn regions(&self) -> impl Iterator<Item = u64> + '_ {
        self.tops.iter().enumerate().filter(|(_, top)| top.is_some()).map(|(i, _)| i as u64)
    }

    pub(crate) fn upper(&self) -> &[ProvenPair] {
        &self.upper
    }

    /// Reads and judges one region; any thread, any order.
    ///
    /// # Errors
    /// The medium's. Wrong bytes are no error: they are not in [`RegionScan::right`].
    pub fn scan(&self, region: u64, buffer: &mut ScanBuffer) -> Result<RegionScan, StoreError> {
        let level = region_level(&self.geometry);
        let top = self.geometry.real(Node { level, index: region });
        let proven = self.tops.get(region as usize).copied().flatten();
        let segments = top.map_or(0..0, |top| self.geometry.node_segments(top));
        let mut found = RegionScan {
            region,
            right: Vec::new(),
            pairs: Vec::new(),
            mend: Vec::new(),
            segments: segments.end - segments.start,
            bytes: 0,
        };
        let (Some(top), Some(proven)) = (top, proven) else { return Ok(found) };
        let got = self.read_region(&segments, buffer)?;
        found.bytes = buffer.data.len() as u64;
        self.hash_region(&segments, buffer);
        let first_slot = 2 * segments.start;
        buffer.nodes.clear();
        buffer.nodes.resize((2 * (segments.end - segments.start) - 1) as usize * NODE_LEN, 0);
        let at = byte_of(&self.outboard, self.base.saturating_add(first_slot))?;
        // What is missing at the end of a file stays zero, which is "never written".
        self.outboard.read_full(&mut buffer.nodes, at)?;
        let mut judge = Judge {
            geometry: &self.geometry,
            root: self.geometry.root(),
            buffer,
            first_slot,
            first_segment: segments.start,
            read_end: if got == buffer.data.len() {
                segments.end
            } else {
                segments.start + (got / self.geometry.segment_size().bytes()) as u64
            },
            found,
        };
        judge.descend(top, proven);
        Ok(judge.found)
    }

    /// Scans everything on this thread; `on_bytes` hears how many bytes each region took.
    ///
    /// # Errors
    /// As [`Scan::scan`].
    pub fn scan_all(&self, on_bytes: &dyn Fn(u64)) -> Result<Vec<RegionScan>, StoreError> {
        let mut buffer = ScanBuffer::default();
        let mut scans = Vec::new();
        for region in self.regions() {
            let scan = self.scan(region, &mut buffer)?;
            on_bytes(scan.bytes());
            scans.push(scan);
        }
        Ok(scans)
    }

    /// Proves the nodes above the regions, parents first.
    fn prove_upper(&mut self, level: u8) -> Result<(), StoreError> {
        let root = self.geometry.root();
        let mut todo = vec![(root, NodeValue::from(self.root))];
        while let Some((node, value)) = todo.pop() {
            let children = if node.level > level { self.geometry.children(node) } else { None };
            let Some((left, right)) = children else {
                let region = self.geometry.node_segments(node).start >> level;
                self.tops[region as usize] = Some(value);
                continue;
            };
            let (l, r) = (self.read_node(left)?, self.read_node(right)?);
            if hashes_to(node == root, &l, &r, &value) {
                self.upper.push(ProvenPair { parent: node, left: l, right: r });
                todo.push((right, r));
                todo.push((left, l));
            }
        }
        Ok(())
    }

    fn read_node(&self, node: Node) -> Result<NodeValue, StoreError> {
        let mut value = [0; NODE_LEN];
        let at = byte_of(&self.outboard, self.base.saturating_add(node.slot()))?;
        self.outboard.read_full(&mut value, at)?;
        Ok(NodeValue(value))
    }

    /// Fills `buffer.data` with the region's bytes; returns how many the file has, the rest is
    /// zero.
    fn read_region(
        &self,
        segments: &Range<u64>,
        buffer: &mut ScanBuffer,
    ) -> Result<usize, StoreError> {
        let segment = self.geometry.segment_size().bytes() as u64;
        let start = segments.start * segment;
        let len = (segments.end.saturating_mul(segment)).min(self.geometry.size()) - start;
        // A region is at most 4 MiB.
        buffer.data.resize(len as usize, 0);
        let got = self.file.read_full(&mut buffer.data, start)?;
        buffer.data[got..].fill(0);
        Ok(got)
    }

    /// Hashes `buffer.data` into `buffer.levels`: level 0 its segments, up to one top node.
    fn hash_region(&self, segments: &Range<u64>, buffer: &mut ScanBuffer) {
        let size = self.geometry.segment_size();
        let height = ceil_log2(segments.end - segments.start);
        buffer.levels.resize_with(height + 1, Vec::new);
        buffer.levels.iter_mut().for_each(Vec::clear);
        if self.geometry.segments() == 1 {
            // The one node of such a tree is the root: a hash, not a chaining value.
            let root = xylem_hash::hash(&buffer.data);
            buffer.levels[0].push(ChainingValue::from_bytes(*root.as_bytes()));
            return;
        }
        let first_chunk = segments.start * size.chunks();
        chunk_group_cvs(&buffer.data, size.bytes(), first_chunk, &mut buffer.levels[0]);
        for level in 0..height {
            let (below, above) = buffer.levels.split_at_mut(level + 1);
            parent_cvs(&below[level], &mut above[0]);
        }
        if height == usize::from(self.geometry.levels()) {
            // The region is the whole file, so its top is the root: finalised as such.
            let pair = &buffer.levels[height - 1];
            let root = root_hash(&pair[0], &pair[1]);
            buffer.levels[height][0] = ChainingValue::from_bytes(*root.as_bytes());
        }
    }
}

/// Walks one region from its proven top down.
struct Judge<'a> {
    geometry: &'a Geometry,
    root: Node,
    buffer: &'a ScanBuffer,
    first_slot: u64,
    first_segment: u64,
    /// First segment that the file does not have (all of): zeros that were never read must not
    /// pass for zeros that were.
    read_end: u64,
    found: RegionScan,
}

impl Judge<'_> {
    fn descend(&mut self, node: Node, proven: NodeValue) {
        if self.computed(node) == Some(proven) {
            self.accept(node);
            return;
        }
        let Some((left, right)) = self.geometry.children(node) else { return };
        let (Some(l), Some(r)) = (self.on_disk(left), self.on_disk(right)) else { return };
        if !hashes_to(node == self.root, &l, &r, &proven) {
            return;
        }
        self.found.pairs.push(ProvenPair { parent: node, left: l, right: r });
        // At most 12 levels deep: a region is 4,096 chunks.
        self.descend(left, l);
        self.descend(right, r);
    }

    /// All segments under `node` are right, so every node under it follows from the data.
    fn accept(&mut self, node: Node) {
        let segments = self.geometry.node_segments(node);
        let slots = 2 * segments.start..2 * segments.end - 1;
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
        if self.geometry.node_segments(node).end > self.read_end {
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

fn region_level(geometry: &Geometry) -> u8 {
    (REGION_LOG2_CHUNKS - geometry.segment_size().log2_chunks()).min(geometry.levels())
}

fn ceil_log2(n: u64) -> usize {
    n.max(1).next_power_of_two().trailing_zeros() as usize
}
