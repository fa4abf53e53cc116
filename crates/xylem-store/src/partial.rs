//! [`Partial`]: one file while it is fetched.
//!
//! Data go into the part file (full length from the start, sparse), tree nodes into an outboard; data always before the
//! nodes that vouch for them. The next run trusts neither, and scans both from the root down ([`Scan`]). At any moment
//! at most [`MAX_UNRECORDED`] bytes of verified data are without their nodes on disk, so a kill loses no more than
//! that.

use std::io::IoSlice;
use std::path::Path;

use xylem_hash::Hash;
use xylem_tree::{Geometry, Node, NodeValue, Segment, SegmentSet, Verified};

use crate::atomic::{Durability, install};
use crate::attributes::{Attributes, OverwritePolicy, RefusedAttributes, apply};
use crate::blocks::WriteBlocks;
use crate::error::{Difference, StoreError};
use crate::file::{FileRef, FileState};
use crate::medium::{Clobber, FileWatch};
use crate::node_buffer::NodeBuffer;
use crate::outboard::OutboardFile;
use crate::part::PartFile;
use crate::parts::ObjectPart;
use crate::scan::Scan;
use crate::servable::{OnServable, Servable};
use crate::sparse::has_zero_page;
use crate::store::{LockedPart, PlaceKey, Store};
use crate::unfinished::UnfinishedKind;

mod cached;
mod resume;

pub use resume::{Resumed, Resuming};

/// Most bytes of verified data that may be without their nodes on disk.
pub const MAX_UNRECORDED: u64 = 512 * 1024;
/// Divisor of the verified bytes that limits unrecorded data further, so that a kill at any moment loses less than 1 %
/// of them.
const UNRECORDED_PART: u64 = 256;

/// Largest file that is not watched, bytes: reading it back takes less time than ending a watch.
const MAX_UNWATCHED: u64 = 16 << 20;

/// Most segments that are written in one call.
const MAX_RUN: usize = 64;
/// Shortest run of segments that is written directly. Shorter ones are gathered with others.
const MIN_RUN: usize = 4;

/// One file while it is fetched. Call order: [`Partial::open`] (or [`Staging::open_file`](crate::Staging::open_file)) →
/// [`Resuming::resume`] → [`Partial::put`] and [`Partial::put_nodes`] as segments and nodes are proven,
/// [`Partial::flush`] in pauses → [`Partial::finish_as`] or [`Partial::finish_in_place`].
#[derive(Debug)]
pub struct Partial {
    root: Hash,
    geometry: Geometry,
    file: FileRef,
    outboard: OutboardFile,
    base: u64,
    home: PartialHome,
    have: SegmentSet,
    blocks: WriteBlocks,
    nodes: NodeBuffer,
    unrecorded: u64,
    /// Bytes of data put since [`Partial::settle`] wrote their nodes.
    unsettled: u64,
    /// The durability that finishing waits for.
    durability: Durability,
    /// Segments, present or not, with a leaf that an earlier run left proven on disk.
    kept_leaves: SegmentSet,
    servable: Option<Servable>,
    unset: RefusedAttributes,
    /// Notices other programs that open the file.
    watch: Option<Box<dyn FileWatch>>,
    /// The file's state when it was complete and only had to be read back.
    completed: Option<FileState>,
}

#[derive(Debug)]
enum PartialHome {
    /// A part file of its own, renamed when finished.
    Alone { store: Store, part: PartFile, outboard: Box<LockedPart> },
    /// A file inside a staging directory, already under its listed name.
    Staged,
    /// A file of the store's own. It is never finished, and its nodes follow its content.
    Cached,
}

impl Partial {
    /// Opens or resumes the fetch of the single file `root` into `part_path`, and locks the part file. Another fetch of
    /// the same file may use another part file.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if another fetch has it; [`StoreError::NoSpace`]; the medium's.
    pub fn open(
        store: &Store,
        root: Hash,
        geometry: Geometry,
        part_path: &Path,
    ) -> Result<Resuming, StoreError> {
        let medium = &**store.medium();
        let part = match store.has_inside(part_path) {
            true => PartFile::open_inside(medium, part_path)?,
            false => PartFile::open(medium, part_path)?,
        };
        let file = part.file().clone();
        let place = PlaceKey::of(&file.metadata()?, part.path());
        let mut locked = store.lock_partial(&root, ObjectPart::Outboard, place, false)?;
        locked.note = store.note_unfinished(&root, part.path(), UnfinishedKind::File)?;
        let outboard = OutboardFile::new(locked.file.clone());
        let (store, durability) = (store.clone(), store.durability());
        let home = PartialHome::Alone { store, part, outboard: Box::new(locked) };
        Self::begin(root, geometry, file, outboard, 0, home, durability)
    }

    /// As [`Partial::open`] for a file of a directory. It is open already, and its outboard is at `slot_offset` of a
    /// shared one. The staging directory's lock covers both.
    pub(crate) fn open_staged(
        root: Hash,
        geometry: Geometry,
        file: FileRef,
        outboard: OutboardFile,
        slot_offset: u64,
        durability: Durability,
    ) -> Result<Resuming, StoreError> {
        Self::begin(root, geometry, file, outboard, slot_offset, PartialHome::Staged, durability)
    }

    fn begin(
        root: Hash,
        geometry: Geometry,
        file: FileRef,
        outboard: OutboardFile,
        base: u64,
        home: PartialHome,
        durability: Durability,
    ) -> Result<Resuming, StoreError> {
        let size = geometry.size();
        let old_size = file.metadata()?.size;
        let cached = matches!(home, PartialHome::Cached);
        if old_size != size && !(cached && old_size > size) {
            file.set_len(size)?;
        }
        let scan = Scan::new(file.clone(), &outboard, base, geometry, root)?;
        let alone = matches!(home, PartialHome::Alone { .. });
        let watch = if alone && size > MAX_UNWATCHED { file.watch() } else { None };
        let partial = Self {
            root,
            geometry,
            file,
            outboard,
            base,
            home,
            have: SegmentSet::new(geometry.segments()),
            blocks: WriteBlocks::default(),
            nodes: NodeBuffer::bridging(),
            unrecorded: 0,
            unsettled: 0,
            durability,
            kept_leaves: SegmentSet::new(geometry.segments()),
            servable: None,
            unset: RefusedAttributes::default(),
            watch,
            completed: None,
        };
        // An empty file need not be resumed: its scan reads nothing and finds it complete.
        Ok(Resuming { scan, fresh: old_size == 0 && size > 0, partial })
    }

    /// The root that all content is proven against.
    #[must_use]
    pub fn root(&self) -> Hash {
        self.root
    }

    /// The part file.
    #[must_use]
    pub fn file(&self) -> &FileRef {
        &self.file
    }

    /// The outboard, and the slot at which this file's begins. Missing slots read as zeros, or lie past the end.
    #[must_use]
    pub fn outboard(&self) -> (&OutboardFile, u64) {
        (&self.outboard, self.base)
    }

    /// From now on `tell` is called with each segment that can be served, as ascending runs: its data and the nodes of
    /// its proof are written. The first call has those that are there already.
    ///
    /// # Errors
    /// As [`Partial::flush`].
    pub fn on_servable(&mut self, tell: OnServable) -> Result<(), StoreError> {
        self.flush()?;
        self.servable = Some(Servable::new(&self.have, self.kept_leaves.clone(), tell));
        Ok(())
    }

    /// The shape of the file's tree.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Segments that were resumed or put.
    #[must_use]
    pub fn have(&self) -> &SegmentSet {
        &self.have
    }

    /// Whether all segments were resumed or put.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.have.is_full()
    }

    /// Takes a proven segment. It is written at once, or within the next [`MAX_UNRECORDED`] bytes, or by
    /// [`Partial::flush`]. A segment that is there already is ignored.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`], the medium's: the segment may have to be put again after the
    /// next resume, nothing else is lost. [`StoreError::OutOfRange`] for a segment of another
    /// object.
    pub fn put<B: AsRef<[u8]>>(
        &mut self,
        segment: &Verified<Segment<B>>,
    ) -> Result<(), StoreError> {
        if !self.lacks(segment)? {
            return Ok(());
        }
        let content = segment.content.as_ref();
        if !content.is_empty() {
            self.blocks.put(&self.file, segment.offset, content)?;
        }
        self.have.insert(segment.index.0);
        if let Some(servable) = &mut self.servable {
            servable.segment(segment.index.0);
        }
        self.unrecorded += content.len() as u64;
        self.unsettled += content.len() as u64;
        if self.unrecorded >= self.limit() { self.flush() } else { Ok(()) }
    }

    /// As [`Partial::put`] for several, preferably in order. Consecutive ones are written at once, without a copy.
    ///
    /// # Errors
    /// As [`Partial::put`], for those not taken before.
    pub fn put_all<B: AsRef<[u8]>>(
        &mut self,
        mut segments: &[&Verified<Segment<B>>],
    ) -> Result<(), StoreError> {
        while !segments.is_empty() {
            let run = self.run(segments)?;
            let (now, rest) = segments.split_at(run.max(1));
            segments = rest;
            if run < MIN_RUN {
                now.iter().try_for_each(|segment| self.put(segment))?;
                continue;
            }
            let mut bufs = [IoSlice::new(&[]); MAX_RUN];
            for (buf, segment) in bufs.iter_mut().zip(now) {
                *buf = IoSlice::new(segment.content.as_ref());
                self.unrecorded += segment.content.as_ref().len() as u64;
                self.unsettled += segment.content.as_ref().len() as u64;
            }
            self.file.write_all_vectored(&mut bufs[..run], now[0].offset)?;
            let written = now[0].index.0..now[0].index.0 + run as u64;
            if let Some(servable) = &mut self.servable {
                written.clone().for_each(|index| servable.segment(index));
            }
            self.have.insert_range(written);
            if self.unrecorded >= self.limit() {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Number of the first segments that are consecutive, missing, without a page that has to stay a hole, and few
    /// enough to be without their nodes together. [`Partial::limit`] does not apply: a kill loses what the caller holds
    /// whether it is written or not, and nodes follow the run at once.
    fn run<B: AsRef<[u8]>>(&self, segments: &[&Verified<Segment<B>>]) -> Result<usize, StoreError> {
        let (mut len, mut unrecorded) = (0, self.unrecorded);
        for segment in segments.iter().take(MAX_RUN) {
            unrecorded += segment.content.as_ref().len() as u64;
            if segment.index.0 != segments[0].index.0 + len as u64
                || unrecorded > MAX_UNRECORDED
                || !self.lacks(segment)?
                || has_zero_page(segment.content.as_ref())
            {
                break;
            }
            len += 1;
        }
        Ok(len)
    }

    /// Whether a segment, which has to be one of this file, is missing.
    fn lacks<B: AsRef<[u8]>>(&self, segment: &Verified<Segment<B>>) -> Result<bool, StoreError> {
        let (start, len) = (segment.offset, segment.content.as_ref().len() as u64);
        if segment.root() != self.root
            || !self.geometry.has_segment(segment.index)
            || self.geometry.segment_range(segment.index) != (start..start + len)
        {
            return Err(self.foreign(start));
        }
        Ok(!self.have.contains(segment.index.0))
    }

    /// Most bytes of data that may be without their nodes at present.
    fn limit(&self) -> u64 {
        let verified = self.have.count() * self.geometry.segment_size().bytes() as u64;
        (verified / UNRECORDED_PART).min(MAX_UNRECORDED)
    }

    /// Takes proven nodes. They are written after the data that arrived before them.
    ///
    /// # Errors
    /// As [`Partial::put`].
    pub fn put_nodes(
        &mut self,
        nodes: &Verified<Vec<(Node, NodeValue)>>,
    ) -> Result<(), StoreError> {
        if nodes.root() != self.root {
            return Err(self.foreign(0));
        }
        for (node, value) in nodes.iter() {
            if !self.geometry.node_exists(*node) {
                return Err(self.foreign(node.slot()));
            }
            self.nodes.push(self.base.saturating_add(node.slot()), &value.0);
        }
        if let Some(servable) = &mut self.servable {
            servable.nodes(nodes);
        }
        if self.nodes.is_full() { self.flush() } else { Ok(()) }
    }

    /// Call this when the nodes of all segments put so far have been put too. Writes all buffered bytes if a kill would
    /// lose more than its share otherwise. Writes of [`Partial::put`] itself come before the nodes of the latest
    /// segment.
    ///
    /// # Errors
    /// As [`Partial::flush`].
    pub fn settle(&mut self) -> Result<(), StoreError> {
        if self.unsettled < self.limit() {
            return Ok(());
        }
        self.flush()?;
        self.unsettled = 0;
        Ok(())
    }

    /// Writes all buffered bytes: data, then nodes. After it, a kill loses nothing.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`], the medium's; bytes that could not be written stay for the next try.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.blocks.write(&self.file)?;
        self.nodes.write(self.outboard.file())?;
        self.unrecorded = 0;
        if let Some(servable) = &mut self.servable {
            servable.flushed();
        }
        Ok(())
    }

    /// Flushes, then returns a scan that reads the whole file again. Every region of a complete file must come out
    /// [complete](crate::RegionScan::is_complete). For `verify_whole` and for tests of the medium; any number of
    /// threads may share it.
    ///
    /// # Errors
    /// The medium's.
    pub fn audit(&mut self) -> Result<Scan, StoreError> {
        self.flush()?;
        Scan::new(self.file.clone(), &self.outboard, self.base, self.geometry, self.root)
    }

    /// Makes data, then nodes, and the names of both durable against a loss of power.
    ///
    /// # Errors
    /// The medium's.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.file.sync()?;
        self.outboard.file().sync()?;
        match &self.home {
            PartialHome::Alone { store, part, outboard } => {
                store.sync_partial_names(outboard, part.path())
            }
            PartialHome::Staged | PartialHome::Cached => Ok(()),
        }
    }

    /// Completes a file of a staging directory: flushes, sets its attributes, and on a [durable](Store::durable) store
    /// waits until it is on the device.
    ///
    /// # Errors
    /// [`StoreError::Incomplete`]; the medium's. It may be called again after an error.
    pub fn finish_in_place(&mut self, attributes: &Attributes) -> Result<(), StoreError> {
        if self.completed.is_none() {
            self.complete(attributes)?;
        }
        if self.durability == Durability::Device { self.file.sync() } else { Ok(()) }
    }

    /// Writes all buffered bytes of a complete file and sets its attributes. The content that is read back from now on
    /// is what [`Partial::finish_as`] installs: that call checks that the file was not written to since.
    ///
    /// # Errors
    /// [`StoreError::Incomplete`]; the medium's.
    pub fn complete(&mut self, attributes: &Attributes) -> Result<(), StoreError> {
        let missing = self.have.len() - self.have.count();
        if missing > 0 {
            return Err(StoreError::Incomplete { path: self.file.path().into(), missing });
        }
        self.flush()?;
        apply(&self.file, attributes, &mut self.unset)?;
        self.completed = Some(FileState::of(&self.file.metadata()?));
        Ok(())
    }

    /// Whether it is known that no other program has opened the file during the fetch, so that content read back
    /// meanwhile is still valid. False if the medium cannot tell, and for small files.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| !watch.was_accessed())
    }

    /// Returns the attributes that the file system refused, and clears them.
    pub fn take_unset(&mut self) -> RefusedAttributes {
        std::mem::take(&mut self.unset)
    }

    /// Completes a single file: flushes, sets its attributes, gives it its final name and moves its outboard among the
    /// finished ones, from where it can be served. On a [durable](Store::durable) store content is on the device before
    /// it has its name, and the name before this returns.
    ///
    /// # Errors
    /// [`StoreError::Incomplete`]; [`StoreError::Exists`] under [`OverwritePolicy::Never`]; [`StoreError::Changed`] if
    /// another program has opened or changed the file: it has to be [completed](Partial::complete) and read back then;
    /// the medium's. It may be called again after an error, with another name if need be.
    pub fn finish_as(
        &mut self,
        final_path: &Path,
        attributes: &Attributes,
        policy: OverwritePolicy,
    ) -> Result<(), StoreError> {
        let was_completed = self.completed.is_some();
        if matches!(self.home, PartialHome::Alone { .. }) && !was_completed {
            self.complete(attributes)?;
        }
        let PartialHome::Alone { store, part, outboard } = &self.home else {
            return Err(StoreError::Unsafe {
                path: final_path.to_path_buf(),
                what: "a file of a directory is finished in place",
            });
        };
        if self.durability == Durability::Device {
            self.outboard.file().sync()?;
        }
        // The file first: a kill in between leaves a useless outboard, not a lost fetch.
        let (medium, durability) = (&**store.medium(), self.durability);
        if !was_completed && self.watch.as_ref().is_some_and(|watch| watch.was_accessed()) {
            let path = self.file.path().to_path_buf();
            self.completed = None;
            return Err(StoreError::Changed { path, what: Difference::Opened });
        }
        if store.has_inside(final_path) {
            // Another fetch of the same object may give it this name at the same time.
            install(medium, &self.file, part.path(), final_path, policy.into(), durability)?;
        } else {
            part.finish_as(medium, final_path, policy.into(), durability)?;
            if let Some(changed) = self.completed.and_then(|was| was.check(&self.file).err()) {
                // A file that may be wrong must not keep the name.
                let _ = medium.rename(final_path, part.path(), Clobber::Never);
                return Err(changed);
            }
        }
        store.finish_partial(outboard)
    }

    fn foreign(&self, offset: u64) -> StoreError {
        StoreError::OutOfRange { path: self.file.path().into(), offset }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // A fetch that ends early (peers gone, interrupted) keeps what was proven. An error here loses no more than a
        // kill would.
        let _ = self.flush();
    }
}
