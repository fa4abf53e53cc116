//! [`RangeFile`]: part of a file, fetched as a file of its own.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use xylem_hash::Hash;
use xylem_tree::{Geometry, Segment, SegmentIndex, SegmentSet, Verified};

use crate::attributes::{OverwritePolicy, RefusedAttributes};
use crate::error::StoreError;
use crate::medium::{Medium, OpenHow};
use crate::part::{PartFile, other_name};
use crate::store::Store;
use crate::unfinished::UnfinishedKind;

/// The bytes of a range, from offset 0 of the result on. Each run starts anew; nothing of an earlier one is resumed.
/// Call order: [`RangeFile::open`], [`RangeFile::put`] in any order, [`RangeFile::finish_as`].
#[derive(Debug)]
pub struct RangeFile {
    store: Store,
    part: PartFile,
    /// The note that records its place, until it has its final name.
    note: Option<PathBuf>,
    /// Permission bits of the result.
    mode: u32,
    root: Hash,
    geometry: Geometry,
    range: Range<u64>,
    /// The first segment of the range. `have`: which segments from there on are written.
    first: u64,
    have: SegmentSet,
}

impl RangeFile {
    /// Opens `part` for the bytes `range` of the object `root`, emptying and locking it.
    ///
    /// # Errors
    /// [`StoreError::OutOfRange`] for a range beyond the object; [`StoreError::Busy`]; the medium's.
    pub fn open(
        store: &Store,
        root: Hash,
        geometry: Geometry,
        range: Range<u64>,
        part: &Path,
    ) -> Result<Self, StoreError> {
        if range.start > range.end || range.end > geometry.size() {
            return Err(StoreError::OutOfRange { path: part.into(), offset: range.end });
        }
        let part = PartFile::open(&**store.medium(), part)?;
        let note = store.note_unfinished(&root, part.path(), UnfinishedKind::File)?;
        let mode = usual_mode(&**store.medium(), part.path())?;
        part.file().set_len(0)?;
        let segments = geometry.segments_of(range.clone());
        let have = SegmentSet::new(segments.end.saturating_sub(segments.start));
        let (store, first) = (store.clone(), segments.start);
        Ok(Self { store, part, note, mode, root, geometry, range, first, have })
    }

    /// Writes the part of a segment that lies in the range.
    ///
    /// # Errors
    /// [`StoreError::OutOfRange`] for a segment of another object or outside the range;
    /// [`StoreError::NoSpace`], the medium's.
    pub fn put<B: AsRef<[u8]>>(
        &mut self,
        segment: &Verified<Segment<B>>,
    ) -> Result<(), StoreError> {
        let (content, start) = (segment.content.as_ref(), segment.offset);
        let SegmentIndex(index) = segment.index;
        let ours = segment.root() == self.root
            && self.geometry.segment_range(segment.index)
                == (start..start.saturating_add(content.len() as u64));
        let place = index.checked_sub(self.first).filter(|at| ours && *at < self.have.len());
        let Some(place) = place else {
            return Err(StoreError::OutOfRange { path: self.part.path().into(), offset: start });
        };
        let part = self.range.start.max(start)..self.range.end.min(start + content.len() as u64);
        // A segment that overlaps the range contains both ends of the overlap.
        let bytes = &content[(part.start - start) as usize..(part.end - start) as usize];
        self.part.file().write_all(bytes, part.start - self.range.start)?;
        self.have.insert(place);
        Ok(())
    }

    /// Gives the file its final name. On a [durable](Store::durable) store, content and name are on the device when
    /// this returns.
    ///
    /// # Errors
    /// [`StoreError::Incomplete`]; [`StoreError::Exists`] under [`OverwritePolicy::Never`]; the
    /// medium's. It may be called again, with another name if need be.
    pub fn finish_as(&mut self, path: &Path, policy: OverwritePolicy) -> Result<(), StoreError> {
        let missing = self.have.len() - self.have.count();
        if missing > 0 {
            return Err(StoreError::Incomplete { path: self.part.path().into(), missing });
        }
        // A file system without modes shows the file to every user in any case.
        RefusedAttributes::default().record_refused(self.part.file().set_mode(self.mode))?;
        let (medium, durability) = (&**self.store.medium(), self.store.durability());
        self.part.finish_as(medium, path, policy.into(), durability)?;
        self.note.as_deref().map_or(Ok(()), |note| self.store.remove_named(note))
    }
}

/// The permission bits that the umask leaves to new files. They are read from another new file, as the part itself is
/// private from its first byte on.
fn usual_mode(medium: &dyn Medium, part: &Path) -> Result<u32, StoreError> {
    let probe = other_name(part, 0);
    let error = |e| StoreError::from_io("create", &probe, None, e);
    match medium.open(&probe, OpenHow::CreateNew { mode: 0o666 }) {
        Ok(file) => {
            let mode = file.metadata().map_err(error)?.mode;
            medium.remove_file(&probe).map_err(error)?;
            Ok(mode & 0o666)
        }
        // A killed process left it, or it is another user's.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(0o600),
        Err(e) => Err(error(e)),
    }
}
