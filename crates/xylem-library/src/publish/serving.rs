//! [`Published`] and [`Serving`]: what was hashed, and its bytes read from where they lie.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use xylem_hash::Hash;
use xylem_object::naming::ObjectId;
use xylem_object::{Kind, Manifest, PublisherKey, Source, sign_manifest};
use xylem_packet::Name;
use xylem_store::{
    FileCache, FileRef, Medium, OutboardFile, OutboardReader, SharedRead, StoreError,
};
use xylem_tree::{Geometry, NODE_LEN, Node, SegmentIndex, SegmentSize, leaf_value};

use super::error::PublishError;
use super::members::{Members, Served};
use super::sums::KeptSums;
use crate::reads::Reads;

/// Files of a publication held open while it is served.
const OPEN_FILES: usize = 64;
/// Content is read in aligned runs of this length: one call for eight segments.
const READ_AHEAD: u64 = 64 * 1024;
/// What another machine has wrong is read anew so often, however often it is asked for: each time all others wait.
const AGAIN: Duration = Duration::from_secs(1);
/// Such segments that are remembered.
const MOST_DAMAGED: usize = 1024;
/// Runs that are kept: one for each of a few peers that read at different places.
const RUNS: usize = 8;

/// A hashed file or directory and where its parts lie.
pub struct Published {
    /// What is signed.
    pub manifest: Manifest,
    pub(super) files: Files,
    /// The listing's bytes and outboard, for a directory.
    pub(super) listing: Option<(FileRef, OutboardFile)>,
    /// Outboards of the files, each at its slot.
    pub(super) outboards: Option<OutboardFile>,
    /// The list of sums for updates.
    pub(super) sums: Option<KeptSums>,
}

/// The file, or the files of the directory in listing order.
pub(super) enum Files {
    One(Served),
    Many(Box<Members>),
}

impl Published {
    /// Signs the manifest under `prefix`.
    ///
    /// # Errors
    /// [`PublishError::Manifest`] for a prefix that is none.
    pub fn sign(&self, prefix: &Name, key: &PublisherKey) -> Result<Vec<u8>, PublishError> {
        Ok(sign_manifest(&self.manifest, prefix.as_ref(), key)?)
    }

    /// Opens it for serving, by whoever waits while it is read.
    pub fn serve(self, medium: Arc<dyn Medium>) -> Serving {
        self.serve_through(medium, None)
    }

    /// Opens it for serving by a loop that does not wait: what is not at hand is an error that says so
    /// ([`StoreError::is_waiting`]), and is read on threads ([`Serving::reads`]).
    pub fn serve_without_waiting(self, medium: Arc<dyn Medium>) -> Serving {
        let reads = Reads::over(medium, self.path());
        self.serve_through(reads.medium(), Some(reads))
    }

    fn serve_through(self, medium: Arc<dyn Medium>, reads: Option<Reads>) -> Serving {
        Serving {
            is_far: medium.is_far(self.path()),
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

    /// Where the file or directory lies.
    fn path(&self) -> &Path {
        match &self.files {
            Files::One(served) => &served.file.path,
            Files::Many(members) => members.root(),
        }
    }
}

/// A published thing opened for serving.
pub struct Serving {
    published: Published,
    /// What is read comes from another machine, and is held against the tree before it goes out: who asks is not to
    /// find out that it is wrong, and nobody here would read it anew.
    is_far: bool,
    /// What is not at hand is read by these.
    reads: Option<Reads>,
    /// Segments of it that were wrong, by file and offset, and until when they are not read anew.
    damaged: HashMap<(u64, u64), Duration>,
    /// Segments that were wrong once, and are being read anew.
    doubted: HashSet<(u64, u64)>,
    now: Duration,
    cache: FileCache,
    nodes: Option<OutboardReader>,
    listing_nodes: Option<OutboardReader>,
    ahead: VecDeque<Ahead>,
    /// The file that was asked for last, with its number.
    current: Option<(u64, Served)>,
}

/// Content that was read with what was asked for, because it is asked for next.
struct Ahead {
    file: u64,
    start: u64,
    bytes: Vec<u8>,
    /// A bit for each KiB that was handed out: what is asked for a second time is read again, in
    /// case the first answer did not verify.
    given: u64,
    read: SharedRead,
}

impl Serving {
    /// What is asked from here on is asked at this time.
    pub fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    /// What reads for it what is not at hand.
    pub fn reads(&self) -> Option<&Reads> {
        self.reads.as_ref()
    }

    /// The file behind an object, with its number.
    fn file(&mut self, object: ObjectId) -> Result<Option<(u64, &Served)>, StoreError> {
        let number = match (object, self.published.manifest.kind) {
            (ObjectId::Root, Kind::File) => 0,
            (ObjectId::File(number), Kind::Directory) => number,
            _ => return Ok(None),
        };
        if self.current.as_ref().is_none_or(|(at, _)| *at != number) {
            let served = match &mut self.published.files {
                Files::One(served) => Some(served.clone()),
                Files::Many(members) => members.get(number)?,
            };
            self.current = served.map(|served| (number, served));
        }
        Ok(self.current.as_ref().map(|(number, served)| (*number, served)))
    }

    /// Fills `out` from the run that it lies in, which is read if it is not at hand.
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
        // What is read by threads they read as it is asked for: each byte may have a price.
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
                self.ahead.push_back(Ahead { file, start, bytes, given: 0, read });
                self.ahead.len() - 1
            }
        };
        let from = (offset - start) as usize;
        out.copy_from_slice(&self.ahead[at].bytes[from..from + out.len()]);
        self.ahead[at].given |= bit;
        Ok(self.ahead[at].read)
    }

    /// A segment from another machine, or of a file that somebody has touched: as it is at hand if that is what was
    /// hashed, and else as it lies there.
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
        // It may be wrong once, and right when it is read anew, which a thread may do meanwhile.
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
            match self.cache.read_anew(file, &served.file, offset, out) {
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

    /// What was asked for at `offset` is not in this publication.
    fn out_of_range(&self, offset: u64) -> StoreError {
        StoreError::OutOfRange { path: self.published.path().to_path_buf(), offset }
    }
}

impl Source for Serving {
    type Error = StoreError;

    fn geometry(&mut self, object: ObjectId) -> Option<Geometry> {
        if object == ObjectId::Root {
            return Some(self.published.manifest.geometry());
        }
        // A listing that can't be read has no files; that it can't is an error when it is asked for itself.
        let (_, served) = self.file(object).ok().flatten()?;
        Some(Geometry::new(served.file.state.size, SegmentSize::DEFAULT))
    }

    fn has_segment(&mut self, object: ObjectId, _: SegmentIndex) -> bool {
        // A publication of somebody else may have a list, and this machine another or none.
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
