//! [`verify_memory`]: checks bytes in some memory, such as a GPU's, against the file of a ticket that they are from.
//!
//! The memory hashes its bytes itself ([`HashedMemory`]) and returns values of tree nodes. A comparison begins with the
//! highest nodes over whole segments of the range and goes down only where they differ. Nodes come from this machine's
//! store or from a [`Remote`], and are proven from the root down. At both ends of the range, bytes may share a segment
//! with bytes of the file that are elsewhere; for these a proven copy of the segment is read from a file that the store
//! knows, or is fetched.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::PathBuf;

use xylem_base::{Failure, Stop, os_path};
use xylem_files::record::known_size;
use xylem_hash::tree::{ChainingValue, Tree, parent_cv, root_hash};
use xylem_hash::{CHUNK_LEN, Hash};
use xylem_object::listing::EntryKind;
use xylem_object::{ObjectId, PublicationKind, Ticket};
use xylem_store::{FileRef, ObjectPart, OpenHow, OutboardReader, Store};
use xylem_transfer::TransferEvent;
use xylem_tree::{Geometry, Node, NodeValue, SegmentIndex, SegmentSize, leaf_value};

use super::{DamageKind, SEGMENTS_A_TILE, TicketCheck, VerificationError, VerifySummary};
use crate::{Remote, Wanted};

/// Segments of a region: 4 MiB.
pub const REGION_SEGMENTS: u64 = 512;

/// The level of the node over a region.
const REGION_LEVEL: u8 = REGION_SEGMENTS.trailing_zeros() as u8;

/// How often peers are asked for nodes below one that differs. After that, damage is located less precisely.
const QUESTIONS: u32 = 64;

/// Bytes that are hashed where they are. Segments have [`SegmentSize::DEFAULT`].
pub trait HashedMemory {
    /// Number of bytes.
    fn size(&self) -> u64;

    /// Appends to `out` the chaining values of `segments` segments, which begin `offset` bytes into the memory. The
    /// first has the number `first` in the file.
    ///
    /// # Errors
    /// The memory can't be hashed.
    fn segment_values(
        &mut self,
        offset: u64,
        first: u64,
        segments: u64,
        out: &mut Vec<ChainingValue>,
    ) -> Result<(), Box<dyn Failure>>;

    /// The same for `regions` regions of [`REGION_SEGMENTS`] segments, of which the first has the number `first`.
    ///
    /// # Errors
    /// As [`HashedMemory::segment_values`].
    fn region_values(
        &mut self,
        offset: u64,
        first: u64,
        regions: u64,
        out: &mut Vec<ChainingValue>,
    ) -> Result<(), Box<dyn Failure>>;

    /// Copies the bytes from `offset` on to `out`: at most a segment at each end of the memory.
    ///
    /// # Errors
    /// The memory can't be read.
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), Box<dyn Failure>>;
}

/// Most bytes that [`CopiedMemory`] copies at once.
const PIECE: u64 = 1 << 20;

/// Bytes that are copied in pieces of at most 1 MiB, and hashed by the processor.
pub struct CopiedMemory<R> {
    size: u64,
    copy: R,
}

impl<R> std::fmt::Debug for CopiedMemory<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopiedMemory").field("size", &self.size).finish_non_exhaustive()
    }
}

impl<R: FnMut(u64, &mut [u8]) -> Result<(), Box<dyn Failure>>> CopiedMemory<R> {
    /// Memory of `size` bytes. `copy` fills a buffer with the bytes from a place on.
    pub fn new(size: u64, copy: R) -> Self {
        Self { size, copy }
    }

    /// Appends the values of groups of `group` segments.
    fn hash(
        &mut self,
        mut offset: u64,
        first: u64,
        groups: u64,
        group: u64,
        out: &mut Vec<ChainingValue>,
    ) -> Result<(), Box<dyn Failure>> {
        let (segment, tree) = (SegmentSize::DEFAULT, Tree::plain());
        let group_len = group * segment.bytes() as u64;
        let mut chunk = first * group * segment.chunks();
        let mut piece = Vec::new();
        let mut left = groups * group_len;
        let mut partial = None;
        while left > 0 {
            let len = left.min(PIECE);
            piece.resize(len as usize, 0);
            (self.copy)(offset, &mut piece)?;
            if group_len <= PIECE {
                tree.chunk_group_cvs(&piece, group_len as usize, chunk, out);
            } else {
                let subtree = partial.get_or_insert_with(|| tree.subtree(chunk));
                subtree.update(&piece);
                if (left - len).is_multiple_of(group_len) {
                    out.extend(partial.take().map(|subtree| subtree.finish()));
                }
            }
            (offset, left) = (offset + len, left - len);
            chunk += len / CHUNK_LEN as u64;
        }
        Ok(())
    }
}

impl<R: FnMut(u64, &mut [u8]) -> Result<(), Box<dyn Failure>>> HashedMemory for CopiedMemory<R> {
    fn size(&self) -> u64 {
        self.size
    }

    fn segment_values(
        &mut self,
        offset: u64,
        first: u64,
        segments: u64,
        out: &mut Vec<ChainingValue>,
    ) -> Result<(), Box<dyn Failure>> {
        self.hash(offset, first, segments, 1, out)
    }

    fn region_values(
        &mut self,
        offset: u64,
        first: u64,
        regions: u64,
        out: &mut Vec<ChainingValue>,
    ) -> Result<(), Box<dyn Failure>> {
        self.hash(offset, first, regions, REGION_SEGMENTS, out)
    }

    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), Box<dyn Failure>> {
        (self.copy)(offset, out)
    }
}

/// The place of a [`HashedMemory`] in a publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPlace {
    /// The file's path in a directory; `None` if the ticket is for a single file.
    pub path: Option<Vec<u8>>,
    /// The place of the memory's first byte in the file.
    pub offset: u64,
}

/// Compares the bytes of `memory` with those that `ticket` names at `place`. Fetches from `remote` what `store` does not
/// have: nodes of the tree, and at most two segments.
///
/// # Errors
/// See [`VerificationError`]. Damage is no error: [`VerifySummary::damage`] has ranges of the file.
pub fn verify_memory(
    store: &Store,
    memory: &mut dyn HashedMemory,
    ticket: &Ticket,
    place: &MemoryPlace,
    remote: &mut dyn Remote,
    stop: &Stop,
) -> Result<VerifySummary, VerificationError> {
    let size = memory.size();
    let mut summary = VerifySummary::of(ticket);
    if is_all(store, memory, ticket, place)? {
        (summary.files, summary.bytes) = (1, size);
        return Ok(summary);
    }
    remote.target(std::slice::from_ref(ticket), 0);
    let mut check = TicketCheck { ticket, store, remote, unreachable: false, summary, stop };
    let file = check.file_at(place)?;
    let end = place.offset.checked_add(size).filter(|end| *end <= file.geometry.size());
    let Some(end) = end else {
        let (offset, file_size) = (place.offset, file.geometry.size());
        return Err(VerificationError::BeyondFile { offset, size, file_size });
    };
    (check.summary.files, check.summary.bytes) = (1, size);
    let range = place.offset..end;
    MemoryCheck::new(&mut check, file, memory, range).run()?;
    Ok(check.summary)
}

/// Whether the memory is all of a file of a size that is not known here. No peer has to be asked then.
fn is_all(
    store: &Store,
    memory: &mut dyn HashedMemory,
    ticket: &Ticket,
    place: &MemoryPlace,
) -> Result<bool, VerificationError> {
    let is_file = ticket.kind != Some(PublicationKind::Directory) && place.path.is_none();
    let has_size = || ticket.size.is_some() || known_size(store, &ticket.root).is_some();
    if !is_file || place.offset > 0 || has_size() {
        return Ok(false);
    }
    let geometry = Geometry::new(memory.size(), SegmentSize::DEFAULT);
    let whole = whole_segments(&geometry, &(0..memory.size()));
    let mut own = OwnValues { memory, geometry, start: 0, whole, values: HashMap::new() };
    own.hash()?;
    Ok(own.value(geometry.root())? == NodeValue::from(ticket.root))
}

/// The segments of a file that lie within a range of its bytes.
fn whole_segments(geometry: &Geometry, range: &Range<u64>) -> Range<u64> {
    let segment = geometry.segment_size().bytes() as u64;
    let start = range.start.div_ceil(segment);
    let end = if range.end == geometry.size() {
        range.end.div_ceil(segment)
    } else {
        range.end / segment
    };
    if range.is_empty() || end < start { start..start } else { start..end }
}

/// The file that a memory is compared with.
struct MemoryFile {
    id: ObjectId,
    root: Hash,
    geometry: Geometry,
    /// Its path below a directory.
    path: PathBuf,
    outboard: Option<OutboardReader>,
}

impl TicketCheck<'_> {
    /// Finds the file of a place.
    fn file_at(&mut self, place: &MemoryPlace) -> Result<MemoryFile, VerificationError> {
        let root = self.ticket.root;
        let is_directory = match self.ticket.kind {
            Some(kind) => kind == PublicationKind::Directory,
            None => place.path.is_some(),
        };
        let Some(path) = &place.path else {
            if is_directory {
                return Err(VerificationError::NoPath);
            }
            let size = self.published_size()?;
            let geometry = Geometry::new(size, SegmentSize::DEFAULT);
            let outboard = self.store.outboard(&root, ObjectPart::Outboard).ok().flatten();
            let outboard = outboard.map(|outboard| outboard.reader_at(0));
            let path = PathBuf::new();
            return Ok(MemoryFile { id: ObjectId::Root, root, geometry, path, outboard });
        };
        if !is_directory {
            return Err(VerificationError::NotInside(os_path(path)));
        }
        let listed = self.listing()?;
        let mut path = path.clone();
        let mut found = None;
        // A hard link names an earlier file.
        for _ in 0..2 {
            for entry in listed.entries() {
                let entry = entry?;
                if entry.entry.path == path {
                    found = Some(entry);
                    break;
                }
            }
            match found.as_ref().map(|found| &found.entry.kind) {
                Some(EntryKind::HardLink { target }) => path.clone_from(target),
                _ => break,
            }
        }
        let Some((found, size, root)) = found.and_then(|found| match found.entry.kind {
            EntryKind::File { size, root } => Some((found, size, root)),
            _ => None,
        }) else {
            return Err(VerificationError::NotInside(os_path(&path)));
        };
        let packed =
            self.store.outboard(&self.ticket.root, ObjectPart::FileOutboards).ok().flatten();
        Ok(MemoryFile {
            id: ObjectId::File(found.number),
            root,
            geometry: Geometry::new(size, SegmentSize::DEFAULT),
            path: os_path(&path),
            outboard: packed.map(|packed| packed.reader_at(found.slot)),
        })
    }

    /// Returns the size of the ticket's file.
    fn published_size(&mut self) -> Result<u64, VerificationError> {
        // A size of u64::MAX stands for none: no file has it.
        match self.size(u64::MAX)? {
            u64::MAX => Err(VerificationError::NoTree),
            size => Ok(size),
        }
    }
}

/// Values of nodes over the memory's own bytes.
struct OwnValues<'a> {
    memory: &'a mut dyn HashedMemory,
    geometry: Geometry,
    /// The place of the memory's first byte in the file.
    start: u64,
    /// The file's segments that lie in the memory.
    whole: Range<u64>,
    /// Those of regions that lie in the memory, and of segments outside of these.
    values: HashMap<Node, NodeValue>,
}

impl OwnValues<'_> {
    /// Whether all of a node's segments lie in the memory.
    fn has(&self, node: Node) -> bool {
        let segments = self.geometry.node_segments(node);
        self.whole.start <= segments.start && segments.end <= self.whole.end
    }

    /// The place of a segment in the memory.
    fn place(&self, segment: u64) -> u64 {
        self.geometry.segment_range(SegmentIndex(segment)).start.saturating_sub(self.start)
    }

    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), VerificationError> {
        self.memory.read(offset, out).map_err(VerificationError::Memory)
    }

    /// Hashes all whole segments.
    fn hash(&mut self) -> Result<(), VerificationError> {
        let Range { start, mut end } = self.whole;
        let last = self.geometry.last_segment();
        let (len, size) = (self.geometry.segment_len(last), self.geometry.segment_size().bytes());
        if start < end && end > last.0 && (len < size || last.0 == 0) {
            // A short segment, or the only one: its value is a hash.
            let mut bytes = vec![0; len];
            self.read(self.place(last.0), &mut bytes)?;
            self.values.insert(Node::leaf(last), leaf_value(&self.geometry, last, &bytes));
            end = last.0;
        }
        let regions = start.div_ceil(REGION_SEGMENTS)..end / REGION_SEGMENTS;
        // The root's value is a hash, and a region's is none.
        if regions.is_empty() || self.geometry.levels() <= REGION_LEVEL {
            return self.hash_segments(start..end);
        }
        let mut values = Vec::new();
        let place = self.place(regions.start * REGION_SEGMENTS);
        let count = regions.end - regions.start;
        self.memory
            .region_values(place, regions.start, count, &mut values)
            .map_err(VerificationError::Memory)?;
        for (index, value) in regions.clone().zip(&values) {
            self.values.insert(Node { level: REGION_LEVEL, index }, value.into());
        }
        self.hash_segments(start..regions.start * REGION_SEGMENTS)?;
        self.hash_segments(regions.end * REGION_SEGMENTS..end)
    }

    fn hash_segments(&mut self, segments: Range<u64>) -> Result<(), VerificationError> {
        if segments.is_empty() {
            return Ok(());
        }
        let (place, count) = (self.place(segments.start), segments.end - segments.start);
        let mut values = Vec::new();
        self.memory
            .segment_values(place, segments.start, count, &mut values)
            .map_err(VerificationError::Memory)?;
        for (index, value) in segments.zip(&values) {
            self.values.insert(Node { level: 0, index }, value.into());
        }
        Ok(())
    }

    /// The value of a node that the memory has.
    fn value(&mut self, node: Node) -> Result<NodeValue, VerificationError> {
        if let Some(value) = self.values.get(&node) {
            return Ok(*value);
        }
        let Some((left, right)) = self.geometry.children(node) else {
            // A segment of a region that is looked at more closely. If the memory gives no value, it is no value.
            let first = node.index / REGION_SEGMENTS * REGION_SEGMENTS;
            self.hash_segments(first..(first + REGION_SEGMENTS).min(self.whole.end))?;
            return Ok(self.values.get(&node).copied().unwrap_or(NodeValue::UNKNOWN));
        };
        let (left, right) = (self.value(left)?, self.value(right)?);
        Ok(joined(&self.geometry, node, left, right))
    }
}

/// The value of a node over two others.
fn joined(geometry: &Geometry, node: Node, left: NodeValue, right: NodeValue) -> NodeValue {
    let [left, right] = [left, right].map(|value| ChainingValue::from_bytes(value.0));
    if node == geometry.root() {
        root_hash(&left, &right).into()
    } else {
        NodeValue::from(&parent_cv(&left, &right))
    }
}

struct MemoryCheck<'a, 'b, 'm> {
    check: &'a mut TicketCheck<'b>,
    file: MemoryFile,
    own: OwnValues<'m>,
    /// The memory's bytes in the file.
    range: Range<u64>,
    /// The segments that the range overlaps.
    touched: Range<u64>,
    /// Nodes that peers have proven.
    nodes: HashMap<Node, NodeValue>,
    /// Segments that peers have proven.
    contents: BTreeMap<u64, Vec<u8>>,
    /// Bytes reported as damaged.
    damaged: u64,
    questions: u32,
    /// Whether peers were asked for the segments at both ends.
    ends_asked: bool,
}

impl<'a, 'b, 'm> MemoryCheck<'a, 'b, 'm> {
    fn new(
        check: &'a mut TicketCheck<'b>,
        file: MemoryFile,
        memory: &'m mut dyn HashedMemory,
        range: Range<u64>,
    ) -> Self {
        let (geometry, start) = (file.geometry, range.start);
        let whole = whole_segments(&geometry, &range);
        let touched = geometry.segments_of(range.clone());
        let own = OwnValues { memory, geometry, start, whole, values: HashMap::new() };
        let (nodes, contents) = (HashMap::new(), BTreeMap::new());
        let (damaged, questions, ends_asked) = (0, 0, false);
        Self { check, file, own, range, touched, nodes, contents, damaged, questions, ends_asked }
    }

    fn run(&mut self) -> Result<(), VerificationError> {
        self.own.hash()?;
        self.descend(self.file.geometry.root(), NodeValue::from(self.file.root))
    }

    /// Compares what is under `node`. Its value is proven.
    fn descend(&mut self, node: Node, proven: NodeValue) -> Result<(), VerificationError> {
        if self.check.stop.raised() {
            return Err(VerificationError::Interrupted);
        }
        let segments = self.file.geometry.node_segments(node);
        if segments.end <= self.touched.start || self.touched.end <= segments.start {
            return Ok(());
        }
        let is_whole = self.own.has(node);
        if is_whole && self.own.value(node)? == proven {
            return Ok(());
        }
        if node.level == 0 {
            return if is_whole {
                self.differs(segments, DamageKind::Mismatch);
                Ok(())
            } else {
                self.edge(segments.start, proven)
            };
        }
        let Some([left, right]) = self.children(node, proven)? else {
            if !is_whole {
                return Err(VerificationError::NoTree);
            }
            self.check.summary.located = false;
            self.differs(segments, DamageKind::Mismatch);
            return Ok(());
        };
        let before = self.damaged;
        self.descend(left.0, left.1)?;
        self.descend(right.0, right.1)?;
        if is_whole && before == self.damaged {
            self.differs(segments, DamageKind::ChangedMeanwhile);
        }
        Ok(())
    }

    /// Reports the part of these segments that is in the range.
    fn differs(&mut self, segments: Range<u64>, what: DamageKind) {
        let segment = self.file.geometry.segment_size().bytes() as u64;
        let start = (segments.start * segment).max(self.range.start);
        let end = segments.end.saturating_mul(segment).min(self.range.end);
        let path = self.file.path.clone();
        self.damaged += end.saturating_sub(start);
        match self.check.summary.damage.last_mut() {
            Some(last) if last.end == start && last.what == what => last.end = end,
            _ => self.check.damaged(path, start..end, what),
        }
    }

    /// The two nodes below `node` with their values, proven by its value. `None` if no source has them.
    fn children(
        &mut self,
        node: Node,
        proven: NodeValue,
    ) -> Result<Option<[(Node, NodeValue); 2]>, VerificationError> {
        let Some((left, right)) = self.file.geometry.children(node) else { return Ok(None) };
        let geometry = self.file.geometry;
        let proves = |pair: &[NodeValue; 2]| joined(&geometry, node, pair[0], pair[1]) == proven;
        let pair = |values: [NodeValue; 2]| Some([(left, values[0]), (right, values[1])]);
        if let Some(outboard) = &mut self.file.outboard {
            // A stored node that can't be read or does not prove may be fetched.
            let mut read = |node: Node| {
                let mut value = NodeValue::UNKNOWN;
                outboard.read(node.slot(), &mut value.0).ok().map(|()| value)
            };
            if let (Some(left), Some(right)) = (read(left), read(right))
                && proves(&[left, right])
            {
                return Ok(pair([left, right]));
            }
        }
        loop {
            let fetched = (self.nodes.get(&left), self.nodes.get(&right));
            if let (Some(left), Some(right)) = fetched
                && proves(&[*left, *right])
            {
                return Ok(pair([*left, *right]));
            }
            if !self.ask(node)? {
                return Ok(None);
            }
        }
    }

    /// Asks peers for more nodes: first those beside both ends of the range, which all that is right needs, then those
    /// under `node`. Returns false if there is no more to ask.
    fn ask(&mut self, node: Node) -> Result<bool, VerificationError> {
        if !self.ends_asked {
            self.ends_asked = true;
            return self.ask_ends();
        }
        if self.questions == QUESTIONS {
            return Ok(false);
        }
        self.questions += 1;
        let Range { start, end } = self.file.geometry.node_segments(node);
        // One segment of each tile brings the tile. Those asked for before bring nothing new.
        let asked = (start..end).step_by(SEGMENTS_A_TILE as usize);
        let new: Vec<_> =
            asked.filter(|i| !self.contents.contains_key(i)).map(|i| i..i + 1).collect();
        if new.is_empty() { Ok(false) } else { self.fetch(new) }
    }

    fn ask_ends(&mut self) -> Result<bool, VerificationError> {
        let (first, last) = (self.touched.start, self.touched.end - 1);
        let mut ends = Vec::from_iter(Some(first..first + 1));
        if last != first {
            ends.push(last..last + 1);
        }
        self.fetch(ends)
    }

    /// Fetches segments with their proofs; returns false if no peer answers.
    fn fetch(&mut self, segments: Vec<Range<u64>>) -> Result<bool, VerificationError> {
        let MemoryFile { id, root, geometry, .. } = self.file;
        let wanted = Wanted { object: id, root, geometry, segments, verifier: None };
        let (nodes, contents) = (&mut self.nodes, &mut self.contents);
        let mut keep = |event: TransferEvent| {
            match event {
                TransferEvent::Nodes { nodes: proven, .. } => nodes.extend(proven.iter().copied()),
                TransferEvent::Segment { segment, .. } => {
                    contents.insert(segment.index.0, segment.content.to_vec());
                }
                _ => {}
            }
            Ok(())
        };
        self.check.fetch(wanted, &mut keep)
    }

    /// Compares the bytes of a segment that is not all in the memory.
    fn edge(&mut self, segment: u64, proven: NodeValue) -> Result<(), VerificationError> {
        let index = SegmentIndex(segment);
        let Some(content) = self.content(index, proven)? else {
            return Err(VerificationError::NoContent);
        };
        let place = self.file.geometry.segment_range(index);
        let (start, end) = (place.start.max(self.range.start), place.end.min(self.range.end));
        let mut bytes = vec![0; end.saturating_sub(start) as usize];
        self.own.read(start - self.range.start, &mut bytes)?;
        let expected = &content[(start - place.start) as usize..(end - place.start) as usize];
        if bytes != expected {
            self.differs(segment..segment + 1, DamageKind::Mismatch);
        }
        Ok(())
    }

    /// A proven copy of a segment: from a file that this machine has shared or fetched, else from peers.
    fn content(
        &mut self,
        index: SegmentIndex,
        proven: NodeValue,
    ) -> Result<Option<Vec<u8>>, VerificationError> {
        let geometry = self.file.geometry;
        let is_right = |bytes: &[u8]| leaf_value(&geometry, index, bytes) == proven;
        let range = geometry.segment_range(index);
        let store = self.check.store;
        let known = store.known()?.filter_map(Result::ok);
        for known in known.filter(|known| known.root == self.check.ticket.root) {
            let mut path = os_path(&known.path);
            if known.directory {
                path.push(&self.file.path);
            }
            let mut bytes = vec![0; geometry.segment_len(index)];
            let read = FileRef::open(&**store.medium(), &path, OpenHow::Read)
                .and_then(|file| file.read_full(&mut bytes, range.start));
            if read.is_ok_and(|read| read == bytes.len()) && is_right(&bytes) {
                return Ok(Some(bytes));
            }
        }
        if !self.ends_asked {
            self.ends_asked = true;
            self.ask_ends()?;
        }
        if !self.contents.contains_key(&index.0) {
            self.fetch(Vec::from_iter(Some(index.0..index.0 + 1)))?;
        }
        Ok(self.contents.get(&index.0).filter(|bytes| is_right(bytes)).cloned())
    }
}

#[cfg(test)]
mod tests;
