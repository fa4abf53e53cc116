//! [`Published`] and [`Serving`]: hashed content, and its bytes read in place.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use xylem_files::reads::Reads;
use xylem_files::sums::KeptSums;
use xylem_hash::Hash;
use xylem_object::naming::ObjectId;
use xylem_object::{Manifest, ObjectSource, PublicationKind, PublisherKey, sign_manifest};
use xylem_packet::Name;
use xylem_store::{
    FileCache, FileRef, Medium, OutboardFile, OutboardReader, SharedRead, StoreError,
};
use xylem_tree::{Geometry, NODE_LEN, Node, SegmentIndex, SegmentSize, leaf_value};

use super::error::PublishError;
use super::members::{Members, ServedFile};

/// Most files of a publication open while it is served.
const OPEN_FILES: usize = 64;
/// Content is read in aligned runs of this length, bytes: one call for eight segments.
const READ_AHEAD: u64 = 64 * 1024;
/// Interval at which a damaged segment from another machine may be read anew, however often it is requested: each such
/// read delays all others.
const AGAIN: Duration = Duration::from_secs(1);
/// Most damaged segments remembered.
const MOST_DAMAGED: usize = 1024;
/// Most runs kept: one for each of a few peers that read at different places.
const RUNS: usize = 8;

/// A hashed file or directory and where its parts lie.
pub struct Published {
    /// The manifest to be signed.
    pub manifest: Manifest,
    pub(super) files: SharedFiles,
    /// The listing's bytes and outboard, for a directory.
    pub(super) listing: Option<(FileRef, OutboardFile)>,
    /// Outboards of the files, each at its slot.
    pub(super) outboards: Option<OutboardFile>,
    /// The list of sums for updates.
    pub(super) sums: Option<KeptSums>,
}

/// The file, or the files of the directory in listing order.
pub(super) enum SharedFiles {
    One(ServedFile),
    Many(Box<Members>),
}

impl Published {
    /// Signs the manifest under `prefix`.
    ///
    /// # Errors
    /// [`PublishError::Manifest`] for an invalid prefix.
    pub fn sign(&self, prefix: &Name, key: &PublisherKey) -> Result<Vec<u8>, PublishError> {
        Ok(sign_manifest(&self.manifest, prefix.as_ref(), key)?)
    }

    /// Opens it for serving with reads that block.
    pub fn serve(self, medium: Arc<dyn Medium>) -> Serving {
        self.serve_through(medium, None)
    }

    /// Opens it for a serving loop that does not block. A read of what is not in memory returns an error
    /// ([`StoreError::is_waiting`]), and threads then read it ([`Serving::reads`]).
    pub fn serve_without_waiting(self, medium: Arc<dyn Medium>) -> Serving {
        let reads = Reads::over(medium, self.path());
        self.read_by(&reads).serve_through(reads.medium(), Some(reads))
    }

    /// Reads the listing, the outboards and the list of sums through `reads`.
    pub(super) fn read_by(mut self, reads: &Reads) -> Self {
        if let SharedFiles::Many(members) = &mut self.files {
            members.listed.read_by(reads);
        }
        let through = |(listing, nodes)| (reads.file(&listing), reads.outboards(&nodes));
        self.listing = self.listing.map(through);
        self.outboards = self.outboards.map(|outboards| reads.outboards(&outboards));
        if let Some(sums) = &mut self.sums {
            sums.read_by(reads);
        }
        self
    }

    fn serve_through(self, medium: Arc<dyn Medium>, reads: Option<Reads>) -> Serving {
        Serving {
            is_far: medium.is_remote(self.path()),
            reads,
            damaged: HashMap::new(),
            doubted: HashSet::new(),
            now: Duration::ZERO,
            cache: FileCache::new(medium, OPEN_FILES),
            nodes: self.outboards.as_ref().map(|o| o.reader_at(0)),
            listing_nodes: self.listing.as_ref().map(|(_, o)| o.reader_at(0)),
            ahead: VecDeque::new(),
            current: None,
            published: self,
        }
    }

    /// Returns where the file or directory lies.
    fn path(&self) -> &Path {
        match &self.files {
            SharedFiles::One(served) => &served.file.path,
            SharedFiles::Many(members) => members.root(),
        }
    }
}

/// A publication opened for serving.
pub struct Serving {
    published: Published,
    /// Content comes from another machine, and is verified before it leaves. A getter would detect damage, but could
    /// not make this side read the content anew.
    is_far: bool,
    /// Threads that read what is not in memory.
    reads: Option<Reads>,
    /// Damaged segments, by file and offset, with the time from which they may be read anew.
    damaged: HashMap<(u64, u64), Duration>,
    /// Segments that were wrong once and are being read anew.
    doubted: HashSet<(u64, u64)>,
    now: Duration,
    cache: FileCache,
    nodes: Option<OutboardReader>,
    listing_nodes: Option<OutboardReader>,
    ahead: VecDeque<AheadRun>,
    /// The file requested last, with its number.
    current: Option<(u64, ServedFile)>,
}

/// Content read ahead, because it is likely to be requested next.
struct AheadRun {
    file: u64,
    start: u64,
    bytes: Vec<u8>,
    /// A bit for each KiB handed out. A KiB requested a second time is read again: the first answer may not have
    /// verified.
    given: u64,
    read: SharedRead,
}

impl Serving {
    /// Sets the time of the following requests.
    pub fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    /// Returns the threads that read what is not in memory.
    pub fn reads(&self) -> Option<&Reads> {
        self.reads.as_ref()
    }

    /// Returns the file of an object, with its number.
    fn file(&mut self, object: ObjectId) -> Result<Option<(u64, &ServedFile)>, StoreError> {
        let number = match (object, self.published.manifest.kind) {
            (ObjectId::Root, PublicationKind::File) => 0,
            (ObjectId::File(number), PublicationKind::Directory) => number,
            _ => return Ok(None),
        };
        if self.current.as_ref().is_none_or(|(at, _)| *at != number) {
            let served = match &mut self.published.files {
                SharedFiles::One(served) => Some(served.clone()),
                SharedFiles::Many(members) => members.get(number)?,
            };
            self.current = served.map(|served| (number, served));
        }
        Ok(self.current.as_ref().map(|(number, served)| (*number, served)))
    }

    /// Fills `out` from the run that contains it, and reads that if it is not cached.
    fn read_ahead(
        &mut self,
        object: ObjectId,
        offset: u64,
        out: &mut [u8],
    ) -> Result<SharedRead, StoreError> {
        self.file(object)?;
        let Some((file, served)) = &self.current else { return Err(self.out_of_range(offset)) };
        let (file, shared) = (*file, &served.file);
        let start = offset / READ_AHEAD * READ_AHEAD;
        let end = (start + READ_AHEAD).min(shared.state.size);
        // On a slow medium, threads read exactly what is requested: each byte may have a price.
        let is_slow = self.reads.as_ref().is_some_and(Reads::is_slow);
        if is_slow || offset + out.len() as u64 > end || end - start <= out.len() as u64 {
            return self.cache.read_at(file, shared, offset, out);
        }
        let bit = 1_u64 << ((offset - start) / 1024);
        self.ahead.retain(|a| (a.file, a.start) != (file, start) || a.given & bit == 0);
        let known = self.ahead.iter().position(|a| (a.file, a.start) == (file, start));
        let at = match known {
            Some(at) => at,
            None => {
                let mut bytes = match self.ahead.len() {
                    RUNS => self.ahead.pop_front().map(|a| a.bytes).unwrap_or_default(),
                    _ => Vec::new(),
                };
                bytes.resize((end - start) as usize, 0);
                let read = self.cache.read_at(file, shared, start, &mut bytes)?;
                self.ahead.push_back(AheadRun { file, start, bytes, given: 0, read });
                self.ahead.len() - 1
            }
        };
        let from = (offset - start) as usize;
        out.copy_from_slice(&self.ahead[at].bytes[from..from + out.len()]);
        self.ahead[at].given |= bit;
        Ok(self.ahead[at].read)
    }

    /// Reads and verifies a segment from another machine, or of a file that was modified. If the cached bytes are
    /// wrong, reads it anew once.
    fn read_proven(
        &mut self,
        object: ObjectId,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), StoreError> {
        let geometry = self.geometry(object).ok_or_else(|| self.out_of_range(offset))?;
        let index = SegmentIndex(offset / geometry.segment_size().bytes() as u64);
        let mut leaf = [0; NODE_LEN];
        match (geometry.segments(), self.root(object)) {
            (1, Some(root)) => leaf = *root.as_bytes(),
            _ => self.read_nodes(object, Node::leaf(index).slot(), &mut leaf)?,
        }
        let file = self.current.as_ref().map_or(0, |(file, _)| *file);
        if self.damaged.get(&(file, offset)).is_some_and(|until| self.now < *until) {
            return Err(self.is_damaged(offset));
        }
        self.read_ahead(object, offset, out)?;
        // A segment may be wrong once and right when it is read anew, which a thread may do meanwhile.
        let mut is_anew = self.doubted.remove(&(file, offset));
        loop {
            if leaf_value(&geometry, index, out).0 == leaf {
                return Ok(());
            }
            let Some((_, served)) = &self.current else { return Err(self.out_of_range(offset)) };
            self.ahead.retain(|ahead| ahead.file != file);
            if is_anew {
                break;
            }
            match self.cache.reread(file, &served.file, offset, out) {
                Err(e) if e.is_waiting() => {
                    if self.doubted.len() == MOST_DAMAGED {
                        self.doubted.clear();
                    }
                    self.doubted.insert((file, offset));
                    return Err(e);
                }
                other => other?,
            };
            is_anew = true;
        }
        if self.damaged.len() == MOST_DAMAGED {
            self.damaged.clear();
        }
        self.damaged.insert((file, offset), self.now + AGAIN);
        Err(self.is_damaged(offset))
    }

    fn is_damaged(&self, offset: u64) -> StoreError {
        let served = self.current.as_ref().map(|(_, served)| served.file.path.clone());
        let path = served.unwrap_or_else(|| self.published.path().to_path_buf());
        StoreError::Corrupt { path, offset, what: "these bytes are not what was hashed" }
    }

    /// Makes the error for an `offset` that is not in this publication.
    fn out_of_range(&self, offset: u64) -> StoreError {
        StoreError::OutOfRange { path: self.published.path().to_path_buf(), offset }
    }
}

impl ObjectSource for Serving {
    type Error = StoreError;

    fn geometry(&mut self, object: ObjectId) -> Option<Geometry> {
        if object == ObjectId::Root {
            return Some(self.published.manifest.geometry());
        }
        // An unreadable listing counts as empty here; its own segments report the error. For one that threads read first,
        // the answer waits.
        let (_, served) = self.file(object).ok().flatten()?;
        Some(Geometry::new(served.file.state.size, SegmentSize::DEFAULT))
    }

    fn has_segment(&mut self, object: ObjectId, _: SegmentIndex) -> bool {
        // The manifest may be another publisher's, with a list that this machine lacks or has differently.
        let ours = self.published.sums.as_ref().map(|kept| kept.sums);
        object != ObjectId::Sums || (ours.is_some() && ours == self.published.manifest.sums)
    }

    fn read_content(
        &mut self,
        object: ObjectId,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), StoreError> {
        if let (ObjectId::Sums, Some(sums)) = (object, &self.published.sums) {
            return sums.read(offset, out);
        }
        if let (ObjectId::Root, Some((listing, _))) = (object, &self.published.listing) {
            let got = listing.read_full(out, offset)?;
            return if got == out.len() { Ok(()) } else { Err(self.out_of_range(offset)) };
        }
        if !self.is_far && self.read_ahead(object, offset, out)? == SharedRead::Untouched {
            return Ok(());
        }
        self.read_proven(object, offset, out)
    }

    fn read_nodes(
        &mut self,
        object: ObjectId,
        first_slot: u64,
        out: &mut [u8],
    ) -> Result<(), StoreError> {
        if let (ObjectId::Sums, Some(sums)) = (object, &self.published.sums) {
            return sums.read_nodes(first_slot, out);
        }
        if let (ObjectId::Root, Some(reader)) = (object, &mut self.listing_nodes) {
            return reader.read(first_slot, out);
        }
        let slot = self.file(object)?.map(|(_, served)| served.slot);
        match (slot, &mut self.nodes) {
            (Some(slot), Some(reader)) => {
                reader.rebase(slot);
                reader.read(first_slot, out)
            }
            _ => Err(self.out_of_range(first_slot)),
        }
    }

    fn root(&mut self, object: ObjectId) -> Option<Hash> {
        if object == ObjectId::Root {
            return Some(self.published.manifest.root);
        }
        self.file(object).ok().flatten().map(|(_, served)| served.root)
    }
}
