//! Reads a file back and finds its correct segments.
//!
//! Nothing on disk is trusted. A [`Scan`] starts at the root, accepts nodes from the outboard only if they hash to a
//! proven parent, hashes the data in wide runs, and compares. A flipped byte in data makes the segments that it touches
//! "not present", nothing else. A flipped byte in the outboard is distinguished from that: a node that is wrong on disk
//! is computed from the data below it, or from the two nodes below it, wherever that leads to the proven parent.
//!
//! Regions of 4 MiB are independent of each other, so any number of threads may scan them.

mod judge;
mod upper;

use std::ops::Range;

use xylem_hash::tree::{ChainingValue, chunk_group_cvs, parent_cvs, root_hash};
use xylem_hash::{CHUNK_LEN, Hash};
use xylem_tree::{Geometry, NODE_LEN, Node, NodeValue, SegmentIndex, TreeVerifier};

use crate::error::StoreError;
use crate::file::FileRef;
use crate::node_buffer::byte_of;
use crate::outboard::OutboardFile;
use crate::publish::PIECE;
use judge::RegionJudge;
pub(crate) use judge::hashes_to;

/// Base-2 logarithm of the chunks in a region: 4 MiB, large enough to use disks and SIMD well, small enough to share
/// among threads.
const REGION_LOG2_CHUNKS: u8 = 12;
/// Length of the pieces that are read around an unreadable place of the outboard.
const PAGE: usize = 4096;

/// A parent node and its children: the children hash to the parent, and the parent is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProvenPair {
    /// The parent.
    pub parent: Node,
    /// Its left child's value.
    pub left: NodeValue,
    /// Its right child's value.
    pub right: NodeValue,
}

/// A file, its outboard, and the root that both are checked against.
#[derive(Debug)]
pub struct Scan {
    file: FileRef,
    /// Separate handles of the readers, while they read.
    own: Vec<FileRef>,
    /// `None`: there is none, and every slot counts as never written.
    outboard: Option<FileRef>,
    base: u64,
    geometry: Geometry,
    root: Hash,
    /// Whether unreadable bytes count as wrong, instead of ending the scan.
    tolerant: bool,
    /// Proven value of each region's top node; `None` if the outboard does not lead there.
    tops: Vec<Option<NodeValue>>,
    /// Pairs above the regions, parents before children.
    upper: Vec<ProvenPair>,
    /// Proven nodes above the regions that are wrong in the outboard: slot and value.
    upper_mend: Vec<(u64, NodeValue)>,
}

/// The result of scanning one region.
#[derive(Debug, Clone)]
pub struct RegionScan {
    region: u64,
    /// Correct segments, ascending, disjoint.
    pub(crate) right: Vec<Range<u64>>,
    /// Pairs over segments that are not all correct, parents before children.
    pub(crate) pairs: Vec<ProvenPair>,
    /// Runs of nodes that are proven, or follow from correct data, and are wrong or missing in the outboard: first slot
    /// and values.
    pub(crate) mend: Vec<(u64, Vec<u8>)>,
    /// Segments that the medium failed to read.
    unreadable: Vec<Range<u64>>,
    /// Segments that cannot be judged, as the nodes above them are lost.
    unproven: Vec<Range<u64>>,
    segments: u64,
    bytes: u64,
}

impl RegionScan {
    /// The region's number.
    #[must_use]
    pub fn region(&self) -> u64 {
        self.region
    }

    /// Correct segments, as ascending ranges.
    #[must_use]
    pub fn right(&self) -> &[Range<u64>] {
        &self.right
    }

    /// Whether all of the region's segments are correct.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.right.iter().map(|r| r.end - r.start).sum::<u64>() == self.segments
    }

    /// Segments that the medium failed to read ([`Scan::tolerant`]), as ascending ranges.
    #[must_use]
    pub fn unreadable(&self) -> &[Range<u64>] {
        &self.unreadable
    }

    /// Segments that are neither correct nor certainly wrong, as ascending ranges: something under them does not match,
    /// and the outboard's nodes that would show what are lost as well.
    #[must_use]
    pub fn unproven(&self) -> &[Range<u64>] {
        &self.unproven
    }

    /// Nodes that are wrong or missing in the outboard, as runs: first slot (of this file's outboard) and the proven
    /// values, 32 bytes each.
    #[must_use]
    pub fn repairs(&self) -> &[(u64, Vec<u8>)] {
        &self.mend
    }

    /// Bytes read by the scan.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Buffers of one scanning thread; reused from region to region.
#[derive(Debug, Default)]
pub struct ScanBuffer {
    /// Number of the reader that uses it.
    reader: usize,
    data: Vec<u8>,
    nodes: Vec<u8>,
    levels: Vec<Vec<ChainingValue>>,
    /// Segments that could not be read, ascending.
    unreadable: Vec<Range<u64>>,
}

impl ScanBuffer {
    /// A buffer for the reader of this number.
    #[must_use]
    pub fn of_reader(reader: usize) -> Self {
        Self { reader, ..Self::default() }
    }

    /// A buffer that reads into the memory of `data` and overwrites its content.
    #[must_use]
    pub fn over(data: Vec<u8>) -> Self {
        Self { data, ..Self::default() }
    }

    /// The values of all segments of the region scanned last, as read: for a file of one segment its hash, else
    /// chaining values.
    #[must_use]
    pub fn leaves(&self) -> &[ChainingValue] {
        self.levels.first().map_or(&[], Vec::as_slice)
    }

    /// The bytes of the region scanned last, as read.
    #[must_use]
    pub fn into_data(self) -> Vec<u8> {
        self.data
    }
}

impl Scan {
    /// Prepares a scan of `file` against `root`, with the outboard that starts at `slot_offset`. The caller checks the
    /// file's size. Reads the nodes above the regions and proves them from the root down.
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
        let outboard = Some(outboard.file().clone());
        Self::with(file, outboard, slot_offset, geometry, root, false)
    }

    /// As [`Scan::new`] for scrubbing, by `readers` threads at once. Unreadable bytes and nodes count as wrong, and
    /// there may be no outboard at all.
    ///
    /// # Errors
    /// The medium's, except for failed reads ([`StoreError::Io`]).
    pub fn tolerant(
        file: FileRef,
        outboard: Option<&OutboardFile>,
        slot_offset: u64,
        geometry: Geometry,
        root: Hash,
        readers: usize,
    ) -> Result<Self, StoreError> {
        let outboard = outboard.map(|o| o.file().clone());
        let mut scan = Self::with(file, outboard, slot_offset, geometry, root, true)?;
        let regions = scan.tops.len();
        if regions > 1 {
            scan.own = (0..readers.min(regions)).map(|_| scan.file.in_order()).collect();
        }
        Ok(scan)
    }

    /// Closes the readers' handles after all is read. Results may be kept for longer than there are handles for.
    pub fn close_readers(&mut self) {
        self.own = Vec::new();
    }

    fn with(
        file: FileRef,
        outboard: Option<FileRef>,
        base: u64,
        geometry: Geometry,
        root: Hash,
        tolerant: bool,
    ) -> Result<Self, StoreError> {
        let regions = geometry.count(region_level(&geometry)) as usize;
        let (tops, upper, upper_mend) = (vec![None; regions], Vec::new(), Vec::new());
        let own = Vec::new();
        let mut scan =
            Self { file, own, outboard, base, geometry, root, tolerant, tops, upper, upper_mend };
        scan.prove_upper(&[])?;
        Ok(scan)
    }

    /// The shape of the file's tree.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The regions worth scanning, ascending: the outboard proves their tops.
    pub fn regions(&self) -> impl Iterator<Item = u64> + '_ {
        self.tops.iter().enumerate().filter(|(_, top)| top.is_some()).map(|(i, _)| i as u64)
    }

    /// The region that a segment lies in.
    #[must_use]
    pub fn region_of(&self, i: SegmentIndex) -> u64 {
        i.0 >> region_level(&self.geometry)
    }

    /// The segments of a region.
    #[must_use]
    pub fn segments_of(&self, region: u64) -> Range<u64> {
        let level = region_level(&self.geometry);
        let top = self.geometry.real(Node { level, index: region });
        top.map_or(0..0, |top| self.geometry.node_segments(top))
    }

    /// Number of the file's regions, whatever the outboard proves.
    #[must_use]
    pub fn region_count(&self) -> u64 {
        self.tops.len() as u64
    }

    /// A verifier that knows every node that this scan and `regions` of it have proven, so that wrong segments can be
    /// fetched without their tree.
    #[must_use]
    pub fn verifier<'a>(
        &'a self,
        regions: impl IntoIterator<Item = &'a RegionScan>,
    ) -> TreeVerifier {
        let mut verifier = TreeVerifier::new(self.geometry, self.root);
        for pair in self.pairs(regions) {
            // The scan proved them by the same rule. Should the verifier ever disagree, the nodes are simply requested
            // again.
            let _ = verifier.adopt_children(pair.parent, pair.left, pair.right);
        }
        verifier
    }

    /// Every pair of nodes that this scan and `regions` of it have proven.
    pub(crate) fn pairs<'a>(
        &'a self,
        regions: impl IntoIterator<Item = &'a RegionScan>,
    ) -> impl Iterator<Item = &'a ProvenPair> {
        self.upper.iter().chain(regions.into_iter().flat_map(|found| &found.pairs))
    }

    /// Nodes above the regions that are proven and wrong or missing in the outboard: slot, value.
    #[must_use]
    pub fn upper_repairs(&self) -> &[(u64, NodeValue)] {
        &self.upper_mend
    }

    /// Whether a region's top is proven, so that [`Scan::scan`] can judge its segments.
    #[must_use]
    pub fn is_proven(&self, region: u64) -> bool {
        self.tops.get(region as usize).is_some_and(Option::is_some)
    }

    /// Reads and judges one region, on any thread, in any order.
    ///
    /// # Errors
    /// The medium's. Wrong bytes are no error: they are not in [`RegionScan::right`].
    pub fn scan(&self, region: u64, buffer: &mut ScanBuffer) -> Result<RegionScan, StoreError> {
        let level = region_level(&self.geometry);
        let top = self.geometry.real(Node { level, index: region });
        let proven = self.tops.get(region as usize).copied().flatten();
        let segments = self.segments_of(region);
        let mut found = RegionScan {
            region,
            right: Vec::new(),
            pairs: Vec::new(),
            mend: Vec::new(),
            unreadable: Vec::new(),
            unproven: Vec::new(),
            segments: segments.end - segments.start,
            bytes: 0,
        };
        let (Some(top), Some(proven)) = (top, proven) else {
            found.unproven.push(segments);
            return Ok(found);
        };
        let got = self.read_region(&segments, buffer)?;
        found.bytes = buffer.data.len() as u64;
        found.unreadable.clone_from(&buffer.unreadable);
        self.join_region(&segments, buffer);
        let first_slot = 2 * segments.start;
        self.read_slots(first_slot..2 * segments.end - 1, &mut buffer.nodes)?;
        let mut judge = RegionJudge {
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
            has_slots: self.outboard.is_some() || self.geometry.segments() > 1,
            found,
        };
        judge.descend(top, proven);
        Ok(judge.found)
    }

    fn read_node(&self, node: Node) -> Result<NodeValue, StoreError> {
        let mut value = Vec::with_capacity(NODE_LEN);
        self.read_slots(node.slot()..node.slot() + 1, &mut value)?;
        Ok(NodeValue::from_slice(&value).unwrap_or(NodeValue([0; NODE_LEN])))
    }

    /// Fills `nodes` with the outboard's slots. Missing ones (and for a tolerant scan, unreadable ones) are zero, which
    /// means "never written".
    fn read_slots(&self, slots: Range<u64>, nodes: &mut Vec<u8>) -> Result<(), StoreError> {
        nodes.clear();
        nodes.resize((slots.end - slots.start) as usize * NODE_LEN, 0);
        let Some(outboard) = &self.outboard else { return Ok(()) };
        let at = byte_of(outboard, self.base.saturating_add(slots.start))?;
        match outboard.read_full(nodes, at) {
            Err(StoreError::Io { .. }) if self.tolerant => {
                // Pieces need not be aligned: a read that fails for one sector fails for its piece.
                read_around(outboard, nodes, at, PAGE, |_| {}).map(drop)
            }
            other => other.map(drop),
        }
    }

    /// Fills `buffer.data` with the region's bytes and `buffer.levels[0]` with its segments' values. Returns how many
    /// bytes the file has; the rest is zero.
    fn read_region(
        &self,
        segments: &Range<u64>,
        buffer: &mut ScanBuffer,
    ) -> Result<usize, StoreError> {
        let size = self.geometry.segment_size();
        let segment = size.bytes() as u64;
        let start = segments.start * segment;
        let len = (segments.end.saturating_mul(segment)).min(self.geometry.size()) - start;
        // A region is at most 4 MiB.
        buffer.data.resize(len as usize, 0);
        buffer.unreadable.clear();
        buffer.levels.resize_with(1.max(buffer.levels.len()), Vec::new);
        buffer.levels.iter_mut().for_each(Vec::clear);
        let (mut at, mut got) = (0, 0);
        while at < buffer.data.len() {
            let end = (at + PIECE.max(size.bytes())).min(buffer.data.len());
            // After the file's end there is nothing more to read.
            let read = if got == at { self.read_piece(segments, at..end, buffer)? } else { 0 };
            got += read;
            let piece = &mut buffer.data[at..end];
            piece[read..].fill(0);
            if self.geometry.segments() > 1 {
                let first_chunk = segments.start * size.chunks() + (at / CHUNK_LEN) as u64;
                chunk_group_cvs(piece, size.bytes(), first_chunk, &mut buffer.levels[0]);
            }
            at = end;
        }
        Ok(got)
    }

    /// Reads a piece of the region into its place, and returns how many bytes of it the file has.
    fn read_piece(
        &self,
        segments: &Range<u64>,
        piece: Range<usize>,
        buffer: &mut ScanBuffer,
    ) -> Result<usize, StoreError> {
        let segment = self.geometry.segment_size().bytes() as u64;
        let start = segments.start * segment + piece.start as u64;
        let ScanBuffer { data, unreadable, reader, .. } = buffer;
        let file = self.own.get(*reader).unwrap_or(&self.file);
        match file.read_full(&mut data[piece.clone()], start) {
            Err(StoreError::Io { .. }) if self.tolerant => {
                read_around(file, &mut data[piece], start, segment as usize, |at| {
                    let lost = (start + at as u64) / segment;
                    match unreadable.last_mut() {
                        Some(last) if last.end == lost => last.end += 1,
                        _ => unreadable.push(lost..lost + 1),
                    }
                })
            }
            other => other,
        }
    }

    /// Joins the values of the region's segments in `buffer.levels[0]` up to one top node.
    fn join_region(&self, segments: &Range<u64>, buffer: &mut ScanBuffer) {
        let height = ceil_log2(segments.end - segments.start);
        buffer.levels.resize_with(height + 1, Vec::new);
        if self.geometry.segments() == 1 {
            // The one node of such a tree is the root: a hash, not a chaining value.
            let root = xylem_hash::hash(&buffer.data);
            buffer.levels[0].push(ChainingValue::from_bytes(*root.as_bytes()));
            return;
        }
        for level in 0..height {
            let (below, above) = buffer.levels.split_at_mut(level + 1);
            parent_cvs(&below[level], &mut above[0]);
        }
        if height == usize::from(self.geometry.levels()) {
            // The region is the whole file, so its top is the root, and is finalised as such.
            let pair = &buffer.levels[height - 1];
            let root = root_hash(&pair[0], &pair[1]);
            buffer.levels[height][0] = ChainingValue::from_bytes(*root.as_bytes());
        }
    }
}

/// Reads around unreadable places, piece by piece. Zeroes an unreadable piece and passes its offset in `buf` to `lost`.
/// Returns how many bytes the file has.
fn read_around(
    file: &FileRef,
    buf: &mut [u8],
    start: u64,
    piece: usize,
    mut lost: impl FnMut(usize),
) -> Result<usize, StoreError> {
    let mut at = 0;
    for part in buf.chunks_mut(piece) {
        let wanted = part.len();
        match file.read_full(part, start + at as u64) {
            Ok(got) if got < wanted => {
                part[got..].fill(0);
                return Ok(at + got);
            }
            Ok(_) => {}
            Err(StoreError::Io { .. }) => {
                part.fill(0);
                lost(at);
            }
            Err(e) => return Err(e),
        }
        at += wanted;
    }
    Ok(at)
}

fn region_level(geometry: &Geometry) -> u8 {
    (REGION_LOG2_CHUNKS - geometry.segment_size().log2_chunks()).min(geometry.levels())
}

fn ceil_log2(n: u64) -> usize {
    n.max(1).next_power_of_two().trailing_zeros() as usize
}
