//! [`HeldSource`]: reads what a fetch has written, for serving. It does not verify: the caller verifies each piece
//! before it leaves.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use xylem_hash::Hash;
use xylem_object::{Manifest, ObjectId, ObjectSource};
use xylem_store::{FileRef, Medium, OpenHow, OutboardFile, StoreError};
use xylem_tree::{Geometry, NODE_LEN, Outboard, SegmentIndex};

use super::holdings::SMALL_FILE;
use super::holdings::{HeldPlace, Holdings, WholeFile};

/// Most files of a directory open at once.
const OPEN_FILES: usize = 32;
/// Most small files held in memory with their trees.
const SMALL_FILES: usize = 16;

/// Why an object could not be read.
#[derive(Debug, thiserror::Error)]
pub enum HeldError {
    /// No part of the object is here.
    #[error("no part of it is here yet")]
    NotHeld,
    /// It is here and cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A [`ObjectSource`] over [`Holdings`].
pub struct HeldSource {
    holdings: Holdings,
    manifest: Manifest,
    medium: Arc<dyn Medium>,
    /// By file number; least recently used first.
    open: VecDeque<(u64, FileRef)>,
    small: VecDeque<Small>,
}

/// A small file of a directory with its nodes: hashing it costs less than reading them from disk.
struct Small {
    number: u64,
    content: Vec<u8>,
    outboard: Outboard,
}

impl HeldSource {
    /// Reads the content that `holdings` records of the publication with this `manifest`.
    pub fn new(holdings: Holdings, manifest: Manifest, medium: Arc<dyn Medium>) -> Self {
        let (open, small) = (VecDeque::new(), VecDeque::new());
        Self { holdings, manifest, medium, open, small }
    }

    /// Returns the record of what is here.
    pub(super) fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    /// Returns whether a thread must read the listing first, before anything is known of this object.
    pub(super) fn waits_for_listing(&self, object: ObjectId) -> bool {
        match object {
            ObjectId::File(number) => self.holdings.waits_for_listing(number),
            ObjectId::Root | ObjectId::Sums => false,
        }
    }

    /// Discards cached data of an object, so that it is read anew.
    pub(super) fn forget(&mut self, object: ObjectId) {
        if let ObjectId::File(number) = object {
            self.open.retain(|(n, _)| *n != number);
            self.small.retain(|s| s.number != number);
        }
    }

    /// Returns where an object lies of which some part is here.
    fn place(&self, object: ObjectId) -> Result<HeldPlace, HeldError> {
        self.holdings.place(object).ok_or(HeldError::NotHeld)
    }

    /// Opens a complete file. The directory may just have moved to its final place.
    fn opened(&self, whole: &WholeFile) -> Result<FileRef, StoreError> {
        let open = |path: &Path| {
            let file = FileRef::open(&*self.medium, path, OpenHow::ReadNoFollow)?;
            // A file that a thread has yet to open has no metadata.
            file.metadata()?;
            Ok(file)
        };
        match open(&whole.path) {
            Err(StoreError::NotFound { .. }) => open(&whole.last_path),
            opened => opened,
        }
    }

    fn file(&mut self, number: u64, whole: &WholeFile) -> Result<FileRef, StoreError> {
        if let Some(at) = self.open.iter().position(|(n, _)| *n == number)
            && let Some(entry) = self.open.remove(at)
        {
            self.open.push_back(entry.clone());
            return Ok(entry.1);
        }
        let file = self.opened(whole)?;
        if self.open.len() == OPEN_FILES {
            self.open.pop_front();
        }
        self.open.push_back((number, file.clone()));
        Ok(file)
    }

    fn small(&mut self, number: u64, whole: &WholeFile) -> Result<&Small, StoreError> {
        if let Some(at) = self.small.iter().position(|s| s.number == number) {
            if let Some(small) = self.small.remove(at) {
                self.small.push_back(small);
            }
        } else {
            let file = self.opened(whole)?;
            let mut content = vec![0; whole.size as usize]; // at most SMALL_FILE
            read_whole(&file, &mut content, 0)?;
            let outboard = Outboard::of(&content, self.manifest.segment);
            if self.small.len() == SMALL_FILES {
                self.small.pop_front();
            }
            self.small.push_back(Small { number, content, outboard });
        }
        self.small.back().ok_or_else(|| out_of_range(whole, 0))
    }
}

fn out_of_range(whole: &WholeFile, offset: u64) -> StoreError {
    StoreError::OutOfRange { path: whole.path.clone(), offset }
}

fn read_whole(file: &FileRef, out: &mut [u8], offset: u64) -> Result<(), StoreError> {
    let got = file.read_full(out, offset)?;
    let what = "the file ends here";
    match got == out.len() {
        true => Ok(()),
        false => Err(StoreError::Corrupt { path: file.path().into(), offset, what }),
    }
}

/// Slots that are not written yet, or lie past the end, read as zeros, which mean unknown.
fn read_slots(outboard: &OutboardFile, slot: u64, out: &mut [u8]) -> Result<(), StoreError> {
    let at = slot.saturating_mul(NODE_LEN as u64);
    let got = outboard.file().read_full(out, at)?;
    out[got..].fill(0);
    Ok(())
}

impl ObjectSource for HeldSource {
    type Error = HeldError;

    fn geometry(&mut self, object: ObjectId) -> Option<Geometry> {
        match object {
            ObjectId::Root => Some(self.manifest.geometry()),
            ObjectId::Sums => self.manifest.sums_geometry(),
            ObjectId::File(number) => {
                let size = self.holdings.listed(number)?.size;
                Some(Geometry::new(size, self.manifest.segment).with_kind(self.manifest.tree))
            }
        }
    }

    fn read_content(
        &mut self,
        object: ObjectId,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), HeldError> {
        if object == ObjectId::Sums {
            return Ok(self.holdings.sums().ok_or(HeldError::NotHeld)?.read(offset, out)?);
        }
        match (self.place(object)?, object) {
            (HeldPlace::Open(open), _) => Ok(read_whole(&open.file, out, offset)?),
            (HeldPlace::Whole(whole), ObjectId::File(number)) if whole.size <= SMALL_FILE => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX);
                let content = &self.small(number, &whole)?.content;
                let part = content.get(from..).and_then(|rest| rest.get(..out.len()));
                out.copy_from_slice(part.ok_or_else(|| out_of_range(&whole, offset))?);
                Ok(())
            }
            (HeldPlace::Whole(whole), ObjectId::File(number)) => {
                Ok(read_whole(&self.file(number, &whole)?, out, offset)?)
            }
            (HeldPlace::Whole(whole), ObjectId::Root | ObjectId::Sums) => {
                Err(out_of_range(&whole, offset).into())
            }
        }
    }

    fn read_nodes(
        &mut self,
        object: ObjectId,
        first_slot: u64,
        out: &mut [u8],
    ) -> Result<(), HeldError> {
        if object == ObjectId::Sums {
            return Ok(self
                .holdings
                .sums()
                .ok_or(HeldError::NotHeld)?
                .read_nodes(first_slot, out)?);
        }
        match (self.place(object)?, object) {
            (HeldPlace::Open(open), _) => {
                Ok(read_slots(&open.outboard, open.base.saturating_add(first_slot), out)?)
            }
            (HeldPlace::Whole(whole), ObjectId::File(number)) if whole.size <= SMALL_FILE => {
                let from = usize::try_from(first_slot).unwrap_or(usize::MAX);
                let nodes = self.small(number, &whole)?.outboard.as_bytes();
                let rest = nodes.get(from.saturating_mul(NODE_LEN)..);
                let part = rest.and_then(|rest| rest.get(..out.len()));
                out.copy_from_slice(part.ok_or_else(|| out_of_range(&whole, first_slot))?);
                Ok(())
            }
            (HeldPlace::Whole(whole), _) => {
                Ok(read_slots(&whole.outboards, whole.slot.saturating_add(first_slot), out)?)
            }
        }
    }

    fn root(&mut self, object: ObjectId) -> Option<Hash> {
        match object {
            ObjectId::Root => Some(self.manifest.root),
            ObjectId::File(number) => self.holdings.listed(number).map(|file| file.root),
            ObjectId::Sums => self.manifest.sums.map(|sums| sums.root),
        }
    }

    fn has_segment(&mut self, object: ObjectId, index: SegmentIndex) -> bool {
        self.holdings.has(object, index)
    }
}
