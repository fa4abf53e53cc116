//! [`Checkpoints`]: serves all checkpoints of a growing file. The last few are kept open. Any other is recomputed from
//! the log, the outboard and its last segment, and signed again, which gives the same bytes.

use std::collections::VecDeque;

use xylem_files::checkpoint_log::{CheckpointRecord, SeenLog};
use xylem_files::reads::GrowingRead;
use xylem_hash::Hash;
use xylem_object::growing::{parse_pointer_name, sign_pointer};
use xylem_object::{
    Growing, Manifest, ObjectId, ObjectSource, Publication, PublisherKey, ServeOutcome, naming,
    sign_manifest,
};
use xylem_packet::{Interest, Name, NameRef};
use xylem_store::{FileRef, StoreError, check_tree};
use xylem_tree::{
    Checkpoint, Geometry, GrowingTree, NODE_LEN, Node, NodeSource, NodeValue, SegmentIndex,
    SegmentSize, leaf_value,
};

/// Most checkpoints kept open for serving.
const OPEN: usize = 16;

/// A checkpoint that is open for serving.
pub(super) struct OpenCheckpoint {
    version: u64,
    publication: Publication,
    checkpoint: Checkpoint,
}

/// The checkpoints of one growing file.
pub(super) struct Checkpoints {
    pub(super) file: GrowingRead,
    pub(super) outboard: GrowingRead,
    pub(super) log: SeenLog,
    pub(super) object: Name,
    pub(super) key: PublisherKey,
    pub(super) file_name: Vec<u8>,
    /// In the order in which they were opened; the newest checkpoint is always among them.
    pub(super) open: VecDeque<OpenCheckpoint>,
    /// Whether an Interest waits for the next checkpoint's pointer.
    pub(super) awaited: bool,
}

impl Checkpoints {
    /// Takes note of a checkpoint that was recorded.
    pub(super) fn note(&mut self, record: CheckpointRecord) {
        self.file.grew();
        self.outboard.grew();
        self.log.note(record);
    }

    /// Signs a checkpoint, keeps it open and returns its versioned prefix.
    pub(super) fn keep_open(
        &mut self,
        number: u64,
        entry: &CheckpointRecord,
        checkpoint: Checkpoint,
    ) -> Option<Name> {
        let prefix = naming::versioned(self.object.as_ref(), entry.version).ok()?;
        let manifest = Manifest {
            mode: u32::from(entry.mode),
            // A checkpoint that is signed again must be the same packet: its time is its version.
            mtime_s: (entry.version / 1_000_000) as i64,
            mtime_ns: (entry.version % 1_000_000) as u32 * 1_000,
            growing: Some(Growing { number, last: entry.last }),
            ..Manifest::file(entry.root, entry.size, &self.file_name)
        };
        let packet = sign_manifest(&manifest, prefix.as_ref(), &self.key).ok()?;
        let publication = Publication::new(prefix.clone(), packet, &self.key.public()).ok()?;
        let publication = publication.with_metadata(&self.key);
        if self.open.len() >= OPEN {
            // The newest one stays: it answers Interests that name no version.
            let newest = self.log.newest().map(|newest| newest.version);
            let oldest = self.open.iter().position(|open| Some(open.version) != newest);
            oldest.and_then(|at| self.open.remove(at));
        }
        self.open.push_back(OpenCheckpoint { version: entry.version, publication, checkpoint });
        Some(prefix)
    }

    fn open_again(&mut self, number: u64, entry: &CheckpointRecord) -> Result<bool, StoreError> {
        let files = CheckpointFiles { file: &self.file.file, outboard: &self.outboard.file };
        let Some(checkpoint) = files.checkpoint_of(entry)? else { return Ok(false) };
        Ok(self.keep_open(number, entry, checkpoint).is_some())
    }

    /// Returns the newest checkpoint's publication.
    pub(super) fn newest(&self) -> &Publication {
        let newest = self.log.newest().map(|newest| newest.version);
        let found = self.open.iter().find(|open| Some(open.version) == newest);
        &found
            .expect("opened when it was made, and never closed while it is the newest")
            .publication
    }

    /// Returns whether the newest checkpoint is the last one.
    pub(super) fn ended(&self) -> bool {
        self.log.newest().is_some_and(|newest| newest.last)
    }

    pub(super) fn pointer_packet(&self, number: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(entry) = self.log.records().entry(number)? else { return Ok(None) };
        let prefix = naming::versioned(self.object.as_ref(), entry.version).ok();
        Ok(prefix.and_then(|prefix| sign_pointer(prefix.as_ref(), number, &self.key)))
    }

    /// Returns the version in a name.
    pub(super) fn version_in(&self, name: NameRef<'_>) -> Option<u64> {
        let under = name.strip_prefix(self.object.as_ref());
        under.and_then(|rest| naming::version(rest.prefix(1)))
    }

    /// Answers one Interest for any checkpoint; appends the Data to `out`.
    pub(super) fn answer(
        &mut self,
        interest: &Interest<'_>,
        out: &mut Vec<u8>,
    ) -> Result<ServeOutcome, StoreError> {
        let name = interest.name();
        if let Some(number) = parse_pointer_name(self.object.as_ref(), name) {
            // The Interest for the next checkpoint stays pending in the forwarder until there is an answer.
            let next = number == self.log.count();
            self.awaited |= next;
            let Some(packet) = self.pointer_packet(number)? else {
                return Ok(if next { ServeOutcome::NotYet } else { ServeOutcome::NoSuch });
            };
            out.extend_from_slice(&packet);
            return Ok(ServeOutcome::Data);
        }
        let version = self.version_in(name);
        let newest = self.log.newest().map_or(0, |newest| newest.version);
        let version = version.unwrap_or(newest);
        let at = match self.open.iter().position(|open| open.version == version) {
            Some(at) => at,
            None => {
                let found = self.log.records().find(version)?;
                let Some((number, entry)) = found else { return Ok(ServeOutcome::NoSuch) };
                if !self.open_again(number, &entry)? {
                    return Ok(ServeOutcome::NoSuch);
                }
                self.open.len() - 1
            }
        };
        let open = &mut self.open[at];
        let mut source = CheckpointSource {
            file: &self.file.file,
            outboard: &self.outboard.file,
            checkpoint: &open.checkpoint,
        };
        open.publication.answer(interest, &mut source, out)
    }
}

/// The file and its outboard.
#[derive(Clone, Copy)]
pub(super) struct CheckpointFiles<'a> {
    pub(super) file: &'a FileRef,
    pub(super) outboard: &'a FileRef,
}

impl CheckpointFiles<'_> {
    fn tail_of(&self, geometry: &Geometry) -> Result<Vec<u8>, StoreError> {
        let range = geometry.segment_range(geometry.last_segment());
        let mut tail = vec![0; (range.end - range.start) as usize]; // one segment at most
        let got = self.file.read_full(&mut tail, range.start)?;
        tail.truncate(got);
        Ok(tail)
    }

    /// Recomputes a checkpoint; `None` if the data on disk does not have its root.
    fn checkpoint_of(&self, entry: &CheckpointRecord) -> Result<Option<Checkpoint>, StoreError> {
        let geometry = Geometry::new(entry.size, SegmentSize::DEFAULT);
        let tail = self.tail_of(&geometry)?;
        let mut nodes = GrowingNodes { outboard: self.outboard, checkpoint: None };
        let made = Checkpoint::read(&geometry, &mut nodes, &tail).ok();
        Ok(made.filter(|made| made.root() == entry.root))
    }

    /// Returns the tree as it was at this checkpoint, ready to grow. `None` if the outboard is damaged or the file's
    /// end has changed. All nodes are checked, because they are served as proofs.
    pub(super) fn tree_of(
        &self,
        entry: &CheckpointRecord,
    ) -> Result<Option<GrowingTree>, StoreError> {
        let Some(checkpoint) = self.checkpoint_of(entry)? else { return Ok(None) };
        let geometry = *checkpoint.geometry();
        let mut nodes = GrowingNodes { outboard: self.outboard, checkpoint: Some(&checkpoint) };
        if !check_tree(&mut nodes, geometry.segments(), &entry.root)?.is_whole() {
            return Ok(None);
        }
        let tail = self.tail_of(&geometry)?;
        let mut nodes = GrowingNodes { outboard: self.outboard, checkpoint: None };
        Ok(GrowingTree::resume(&geometry, &mut nodes, &tail).ok())
    }
}

/// Nodes of a growing outboard: zeros where none are written yet, overlaid by a checkpoint's right edge.
pub(super) struct GrowingNodes<'a> {
    pub(super) outboard: &'a FileRef,
    pub(super) checkpoint: Option<&'a Checkpoint>,
}

impl NodeSource for GrowingNodes<'_> {
    type Error = StoreError;

    fn read_nodes(&mut self, first_slot: u64, out: &mut [u8]) -> Result<(), StoreError> {
        let at = first_slot.saturating_mul(NODE_LEN as u64);
        let got = self.outboard.read_full(out, at)?;
        out[got..].fill(0);
        if let Some(checkpoint) = self.checkpoint {
            checkpoint.overlay(first_slot, out);
        }
        Ok(())
    }
}

/// The files from which one checkpoint is served.
struct CheckpointSource<'a> {
    file: &'a FileRef,
    outboard: &'a FileRef,
    checkpoint: &'a Checkpoint,
}

impl CheckpointSource<'_> {
    /// Refuses a segment that changed after it was hashed: no getter could verify it, and the sharer gets the error.
    fn is_still(&mut self, offset: u64, content: &[u8]) -> Result<(), StoreError> {
        let geometry = *self.checkpoint.geometry();
        let segment = SegmentIndex(offset / geometry.segment_size().bytes() as u64);
        if geometry.segment_range(segment) != (offset..offset + content.len() as u64) {
            return Ok(());
        }
        let mut kept = [0; NODE_LEN];
        let slot = Node { level: 0, index: segment.0 }.slot();
        self.read_nodes(ObjectId::Root, slot, &mut kept)?;
        if leaf_value(&geometry, segment, content) == NodeValue(kept) {
            return Ok(());
        }
        let what = "it differs from what was published: it was changed, not only appended to; share it again under \
                    another name (--as)";
        Err(StoreError::Corrupt { path: self.file.path().to_path_buf(), offset, what })
    }
}

impl ObjectSource for CheckpointSource<'_> {
    type Error = StoreError;

    fn geometry(&mut self, object: ObjectId) -> Option<Geometry> {
        (object == ObjectId::Root).then_some(*self.checkpoint.geometry())
    }

    fn read_content(
        &mut self,
        _object: ObjectId,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), StoreError> {
        let got = self.file.read_full(out, offset)?;
        if got == out.len() {
            return self.is_still(offset, out);
        }
        let (was, is) = (self.checkpoint.geometry().size(), offset + got as u64);
        let what = xylem_store::Difference::Size { was, is };
        Err(StoreError::Changed { path: self.file.path().to_path_buf(), what })
    }

    fn read_nodes(
        &mut self,
        _object: ObjectId,
        first_slot: u64,
        out: &mut [u8],
    ) -> Result<(), StoreError> {
        let checkpoint = Some(self.checkpoint);
        GrowingNodes { outboard: self.outboard, checkpoint }.read_nodes(first_slot, out)
    }

    fn root(&mut self, _object: ObjectId) -> Option<Hash> {
        Some(self.checkpoint.root())
    }
}
