//! Builds outboards: bytes in, nodes out, the root at the end.
//!
//! A file is split into regions of [`REGION_LEN`] bytes. [`hash_region`] needs only a region's bytes and position, so
//! any thread can hash any region; [`OutboardBuilder::push`] joins them in order. With in-order slots a region's nodes
//! are one contiguous run (about 32 KiB for 8 KiB segments). Between two runs lies the one node that joins them, which
//! is written when its right half is known.

use alloc::{vec, vec::Vec};
use core::ops::Range;

use xylem_hash::Hash;

use crate::{
    error::BuildError,
    geometry::Geometry,
    hashing::{climb_row, join, leaf_row},
    ids::{NODE_LEN, Node, NodeValue, SegmentIndex},
    outboard::proof_places,
};

/// Bytes of every region except a file's last one.
pub const REGION_LEN: usize = 4 << 20;

/// The level of the nodes over whole regions: 9 for segments of 8 KiB.
fn region_level(geo: &Geometry) -> u8 {
    (REGION_LEN / geo.segment_size().bytes()).trailing_zeros() as u8
}

/// The nodes of one region, its top included.
#[derive(Clone)]
pub struct Region {
    geo: Geometry,
    index: u64,
    top: NodeValue,
    nodes: Vec<u8>,
}

impl Region {
    /// Number of regions of a file: at least one, which is empty for an empty file.
    #[must_use]
    pub fn count(geo: &Geometry) -> u64 {
        geo.segments().div_ceil(1 << region_level(geo))
    }

    /// The byte range of the file's `index`-th region; empty past the last.
    #[must_use]
    pub fn range(geo: &Geometry, index: u64) -> Range<u64> {
        let start = index.saturating_mul(REGION_LEN as u64).min(geo.size());
        start..start.saturating_add(REGION_LEN as u64).min(geo.size())
    }

    /// The first segment of a file's `index`-th region.
    #[must_use]
    pub fn first_segment(geo: &Geometry, index: u64) -> SegmentIndex {
        SegmentIndex(index.saturating_mul(1 << region_level(geo)))
    }

    /// The region's index in its file.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Its nodes in slot order, from slot `2 * first_segment` on, its top included. They follow from the bytes and are
    /// not proven; callers compare them with an outboard on disk.
    #[must_use]
    pub fn nodes(&self) -> &[u8] {
        &self.nodes
    }

    /// Appends the SignatureValue of one of its segments to `out`, as [`segment_signature`](crate::segment_signature)
    /// does from the whole outboard. Returns false and appends nothing if the segment is not in this region.
    pub fn segment_signature(&self, i: SegmentIndex, out: &mut Vec<u8>) -> bool {
        let first = Self::first_segment(&self.geo, self.index).0;
        let group = (i.0 & !7).wrapping_sub(first) as usize; // groups of 8 are whole in a region
        if !self.geo.has_segment(i) || i.0 >> region_level(&self.geo) != self.index {
            return false;
        }
        let (places, count) = proof_places(&self.geo, i);
        for place in &places[..count] {
            let at = (2 * group + usize::from(*place)) * NODE_LEN;
            out.extend_from_slice(&self.nodes[at..at + NODE_LEN]);
        }
        true
    }

    /// The value of the region's top; the root hash if the file has no other region.
    #[must_use]
    pub fn top(&self) -> NodeValue {
        self.top
    }
}

impl core::fmt::Debug for Region {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Region").field("index", &self.index).field("top", &self.top).finish()
    }
}

/// Hashes the region that begins with `first_segment`. `None` if no region begins there or `bytes` does not have the
/// length of [`Region::range`].
#[must_use]
pub fn hash_region(geo: &Geometry, first_segment: SegmentIndex, bytes: &[u8]) -> Option<Region> {
    let index = first_segment.0 >> region_level(geo);
    let mut region = RegionBuilder::new(geo, index)?;
    let whole = Region::first_segment(geo, index) == first_segment && region.push(bytes);
    region.finish().filter(|_| whole)
}

/// Hashes a region in pieces, each while it is in the processor's cache.
#[derive(Clone, Debug)]
pub struct RegionBuilder {
    geo: Geometry,
    index: u64,
    /// Number of bytes not yet received.
    left: u64,
    leaves: Vec<NodeValue>,
}

impl RegionBuilder {
    /// Begins a file's `index`-th region; `None` if there is none.
    #[must_use]
    pub fn new(geo: &Geometry, index: u64) -> Option<Self> {
        let range = Region::range(geo, index);
        let left = range.end - range.start;
        let leaves = left.div_ceil(geo.segment_size().bytes() as u64).max(1); // at most 4,096
        let begun = Self { geo: *geo, index, left, leaves: Vec::with_capacity(leaves as usize) };
        (index < Region::count(geo)).then_some(begun)
    }

    /// Hashes the next bytes: whole segments, except in the region's last piece. Returns false and ignores any others.
    /// An empty file has one empty piece.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let (len, segment) = (bytes.len() as u64, self.geo.segment_size().bytes());
        let whole = len == self.left || bytes.len().is_multiple_of(segment);
        let wanted = if self.left == 0 { self.leaves.is_empty() } else { len > 0 };
        if !whole || !wanted || len > self.left {
            return false;
        }
        let first = Region::first_segment(&self.geo, self.index).0 + self.leaves.len() as u64;
        leaf_row(&self.geo, SegmentIndex(first), bytes, &mut self.leaves);
        self.left -= len;
        true
    }

    /// The region; `None` if bytes are missing.
    #[must_use]
    pub fn finish(self) -> Option<Region> {
        let Self { geo, index, left, leaves: mut row } = self;
        if left > 0 || row.is_empty() {
            return None;
        }
        let slots = 2 * row.len() - 1;
        let mut nodes = vec![0; slots * NODE_LEN];
        let mut level = 0;
        loop {
            place(&row, level, &mut nodes);
            // The file's last two nodes meet in the root, which may be hashed differently.
            if row.len() == 1 || level + 1 == geo.levels() {
                break;
            }
            let count = climb_row(&geo, &mut row);
            row.truncate(count);
            level += 1;
        }
        let top = match row[..] {
            [left, right] => {
                let root = join(&geo, geo.root(), left, right);
                let at = geo.root().slot() as usize * NODE_LEN; // the only region begins at slot 0
                nodes[at..at + NODE_LEN].copy_from_slice(&root.0);
                root
            }
            _ => row[0],
        };
        Some(Region { geo, index, top, nodes })
    }
}

/// Writes one level's values to their slots, except a promoted copy at the end.
fn place(row: &[NodeValue], level: u8, nodes: &mut [u8]) {
    let (first, stride) = ((NODE_LEN << level) - NODE_LEN, (2 * NODE_LEN) << level);
    if first >= nodes.len() {
        return; // the region's only node of this level is a copy
    }
    for (slot, value) in nodes[first..].chunks_mut(stride).zip(row) {
        slot[..NODE_LEN].copy_from_slice(&value.0);
    }
}

/// Builds a file's outboard as its bytes stream past.
///
/// Call order: [`update`](Self::update) with all bytes in order (or [`push`](Self::push) with all regions in order),
/// then [`finish`](Self::finish). The sink receives `(first slot, run of nodes)`, each slot exactly once, in
/// unspecified order. Memory: the current region, and 32 bytes a level.
///
/// ```
/// use xylem_tree::{Geometry, OutboardBuilder, SegmentSize};
///
/// let content = vec![7; 100_000];
/// let geo = Geometry::new(content.len() as u64, SegmentSize::DEFAULT);
/// let mut outboard = vec![0; geo.slots() as usize * 32];
/// let mut builder = OutboardBuilder::new(geo, |first_slot: u64, run: &[u8]| {
///     let at = first_slot as usize * 32;
///     outboard[at..at + run.len()].copy_from_slice(run);
///     Ok::<(), std::io::Error>(())
/// });
/// for part in content.chunks(1000) {
///     builder.update(part)?;
/// }
/// assert_eq!(builder.finish()?, xylem_hash::hash(&content));
/// # Ok::<(), xylem_tree::BuildError<std::io::Error>>(())
/// ```
pub struct OutboardBuilder<F> {
    geo: Geometry,
    sink: F,
    /// Bytes of the current, incomplete region.
    partial: Vec<u8>,
    next_region: u64,
    /// Left halves without their right half yet, highest level first.
    waiting: Vec<NodeValue>,
    /// The value joined last; the root's once all regions are in.
    top: Option<NodeValue>,
}

impl<F, E> OutboardBuilder<F>
where
    F: FnMut(u64, &[u8]) -> Result<(), E>,
{
    /// A builder for a file of this geometry.
    pub fn new(geo: Geometry, sink: F) -> Self {
        Self { geo, sink, partial: Vec::new(), next_region: 0, waiting: Vec::new(), top: None }
    }

    /// Takes the file's next bytes. Whole regions are hashed in place, without a copy.
    ///
    /// # Errors
    /// [`BuildError::WrongSize`] if the file would have more bytes than its geometry states; [`BuildError::Sink`]. The
    /// outboard then stays incomplete.
    pub fn update(&mut self, mut bytes: &[u8]) -> Result<(), BuildError<E>> {
        let before = self.taken();
        let got = before.saturating_add(bytes.len() as u64);
        if got > self.geo.size() {
            return Err(BuildError::WrongSize { expected: self.geo.size(), got });
        }
        while !bytes.is_empty() {
            let range = Region::range(&self.geo, self.next_region);
            let missing = (range.end - range.start) as usize - self.partial.len();
            let (now, rest) = bytes.split_at(missing.min(bytes.len()));
            bytes = rest;
            if now.len() < missing {
                self.partial.extend_from_slice(now);
            } else if self.partial.is_empty() {
                self.hash_next(now)?;
            } else {
                self.partial.extend_from_slice(now);
                let mut whole = core::mem::take(&mut self.partial);
                let done = self.hash_next(&whole);
                whole.clear();
                self.partial = whole; // keeps its allocation
                done?;
            }
        }
        Ok(())
    }

    /// Takes the file's next region, hashed elsewhere.
    ///
    /// # Errors
    /// [`BuildError::OutOfOrder`] if it is not the next region of this file (the builder is unchanged);
    /// [`BuildError::Sink`].
    pub fn push(&mut self, region: Region) -> Result<(), BuildError<E>> {
        if region.geo != self.geo || region.index != self.next_region || !self.partial.is_empty() {
            return Err(BuildError::OutOfOrder);
        }
        self.join(region)
    }

    /// Returns the root once all bytes are in. The root of a BLAKE3 tree is the file's plain hash.
    ///
    /// # Errors
    /// [`BuildError::WrongSize`] if bytes are missing; [`BuildError::Sink`].
    pub fn finish(mut self) -> Result<Hash, BuildError<E>> {
        if self.geo.size() == 0 && self.next_region == 0 {
            self.hash_next(&[])?; // no later byte completes the empty region
        }
        let got = self.taken();
        match self.top {
            Some(root) if self.next_region == Region::count(&self.geo) => {
                Ok(Hash::from_bytes(root.0))
            }
            _ => Err(BuildError::WrongSize { expected: self.geo.size(), got }),
        }
    }

    /// Bytes taken so far.
    fn taken(&self) -> u64 {
        Region::range(&self.geo, self.next_region).start + self.partial.len() as u64
    }

    fn hash_next(&mut self, bytes: &[u8]) -> Result<(), BuildError<E>> {
        let first = Region::first_segment(&self.geo, self.next_region);
        let region = hash_region(&self.geo, first, bytes).expect("cut where the region ends");
        self.join(region)
    }

    /// Writes a region's nodes, and joins upwards while right halves are complete.
    fn join(&mut self, region: Region) -> Result<(), BuildError<E>> {
        let level = region_level(&self.geo);
        let last = region.index + 1 == Region::count(&self.geo);
        let first_slot = Region::first_segment(&self.geo, region.index).0 * 2;
        (self.sink)(first_slot, &region.nodes).map_err(BuildError::Sink)?;
        self.next_region += 1;

        let (mut value, mut node) = (region.top, Node { level, index: region.index });
        while node.level < self.geo.levels() {
            let joined = Node { level: node.level + 1, index: node.index / 2 };
            if node.index % 2 == 1 {
                let left = self.waiting.pop().expect("a right half comes after its left half");
                value = join(&self.geo, joined, left, value);
                (self.sink)(joined.slot(), &value.0).map_err(BuildError::Sink)?;
            } else if !last {
                self.waiting.push(value);
                return Ok(());
            } // else nothing lies to its right, so it is promoted
            node = joined;
        }
        self.top = Some(value);
        Ok(())
    }
}

impl<F> core::fmt::Debug for OutboardBuilder<F> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("OutboardBuilder")
            .field("geo", &self.geo)
            .field("next_region", &self.next_region)
            .finish_non_exhaustive()
    }
}
