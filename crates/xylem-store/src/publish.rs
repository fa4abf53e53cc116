//! Hashes a file in its place: regions of 4 MiB in, outboard nodes out, no copy of the file. Holes are hashed as zeros,
//! and not read.
//!
//! [`hash_file`] uses one thread. For more, share the [`RegionRuns`] of a [`RegionReader`]. Each thread has a reader of its
//! own ([`RegionReader::another`]), takes some regions, reads and hashes them. One of them pushes the regions in order
//! into an [`OutboardBuilder`] and calls [`RegionReader::finish`]. Memory: one buffer of 128 KiB a thread, of 4 MiB
//! with sums.

use std::path::Path;
use std::sync::LazyLock;

use xylem_hash::Hash;
use xylem_tree::{
    BuildError, Geometry, OutboardBuilder, REGION_LEN, Region, RegionBuilder, SegmentSize,
    UpdateBlocks,
};

use crate::error::{Difference, StoreError};
use crate::file::{FileRef, FileState, require_regular};
use crate::medium::{Medium, OpenHow};
use crate::outboard::OutboardWriter;
use crate::runs::RegionRuns;
use crate::sparse::SparseReader;

/// Least length of a region in which holes are looked for.
const MIN_HOLE_SEARCH: usize = 256 * 1024;
/// Bytes of a region that are read and hashed at a time. A disk makes a reader wait for larger pieces
/// (`disk/in_order.rs`). A piece and the page cache's copy of it fit into a processor's own cache. It is a multiple of
/// every segment size.
pub(crate) const PIECE: usize = 128 * 1024;
/// A hole's bytes. They are never written, so that the system maps them all to one page. A constant would be 4 MiB of the
/// program.
static ZEROS: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; REGION_LEN]);

/// A file that was hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashedFile {
    /// Its BLAKE3 hash.
    pub root: Hash,
    /// The shape of its tree.
    pub geometry: Geometry,
    /// Its state before, during and after.
    pub state: FileState,
}

/// Hashes the file at `path` (links followed) on this thread.
///
/// `expected`, if given, is the state that the file must still have (as a directory walk saw it). `outboard` takes the
/// nodes; `None` for files of one segment, or to compare roots only. `buffer` is reused from call to call and grows to
/// at most 128 KiB. `on_bytes` is called with the bytes of each region.
///
/// # Errors
/// [`StoreError::Changed`] if the file is not as expected or changes while it is read;
/// [`StoreError::NoSpace`] from the outboard; the medium's.
pub fn hash_file(
    medium: &dyn Medium,
    path: &Path,
    expected: Option<FileState>,
    segment: SegmentSize,
    outboard: Option<&mut OutboardWriter>,
    buffer: &mut Vec<u8>,
    on_bytes: &dyn Fn(u64),
) -> Result<HashedFile, StoreError> {
    let reader = RegionReader::open(medium, path, expected, segment)?;
    hash_regions(&reader, outboard, on_bytes, |index| reader.read_and_hash(index, buffer))
}

/// As [`hash_file`]. Also appends the file's list of sums for updates to `sums`, if it has one.
///
/// # Errors
/// As [`hash_file`].
#[expect(clippy::too_many_arguments, reason = "hash_file's, and one place more for what comes out")]
pub fn hash_and_sum_file(
    medium: &dyn Medium,
    path: &Path,
    expected: Option<FileState>,
    segment: SegmentSize,
    outboard: Option<&mut OutboardWriter>,
    buffer: &mut Vec<u8>,
    sums: &mut Vec<u8>,
    on_bytes: &dyn Fn(u64),
) -> Result<HashedFile, StoreError> {
    let reader = RegionReader::open(medium, path, expected, segment)?;
    hash_regions(&reader, outboard, on_bytes, |index| reader.read_hash_and_sum(index, buffer, sums))
}

fn hash_regions(
    reader: &RegionReader,
    outboard: Option<&mut OutboardWriter>,
    on_bytes: &dyn Fn(u64),
    mut hash: impl FnMut(u64) -> Result<Region, StoreError>,
) -> Result<HashedFile, StoreError> {
    let mut outboard = outboard;
    let mut builder = OutboardBuilder::new(*reader.geometry(), |slot, nodes: &[u8]| {
        outboard.as_mut().map_or(Ok(()), |o| o.write(slot, nodes))
    });
    for index in 0..Region::count(reader.geometry()) {
        let region = hash(index)?;
        let range = Region::range(reader.geometry(), index);
        builder.push(region).map_err(|e| reader.build_error(e))?;
        on_bytes(range.end - range.start);
    }
    let root = builder.finish().map_err(|e| reader.build_error(e))?;
    reader.finish(root)
}

/// Refuses a file that reports a size of zero but has content, as files of /proc do: its size would be known only after
/// reading it.
///
/// # Errors
/// [`StoreError::Unsafe`]; the medium's.
pub fn require_size(file: &FileRef) -> Result<(), StoreError> {
    // It may have grown in between.
    if file.metadata()?.size > 0 || file.read_full(&mut [0], 0)? == 0 || file.metadata()?.size > 0 {
        return Ok(());
    }
    let what =
        "it has content but a reported size of 0, like files of /proc; copy it and share the copy";
    Err(StoreError::Unsafe { path: file.path().to_path_buf(), what })
}

/// A file being hashed, by any number of threads.
#[derive(Debug)]
pub struct RegionReader {
    file: FileRef,
    state: FileState,
    geometry: Geometry,
}

impl RegionReader {
    /// Opens the file at `path` (links followed).
    ///
    /// # Errors
    /// [`StoreError::Changed`] if it is not as `expected`; [`StoreError::Unsafe`] for anything
    /// but a regular file that reports its size; the medium's.
    pub fn open(
        medium: &dyn Medium,
        path: &Path,
        expected: Option<FileState>,
        segment: SegmentSize,
    ) -> Result<Self, StoreError> {
        let file = FileRef::open(medium, path, OpenHow::Read)?;
        let meta = file.metadata()?;
        require_regular(path, &meta)?;
        require_size(&file)?;
        let state = FileState::of(&meta);
        if let Some(what) = expected.and_then(|e| e.difference(&state)) {
            return Err(StoreError::Changed { path: path.to_path_buf(), what });
        }
        Ok(Self { file, state, geometry: Geometry::new(state.size, segment) }.in_order())
    }

    /// A reader of the same file for one more thread.
    #[must_use]
    pub fn another(&self) -> Self {
        Self { file: self.file.clone(), ..*self }.in_order()
    }

    fn in_order(mut self) -> Self {
        if Region::count(&self.geometry) > 1 {
            self.file = self.file.in_order();
        }
        self
    }

    /// The shape of the file's tree, from its size when it was opened.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The file's state when it was opened.
    #[must_use]
    pub fn state(&self) -> FileState {
        self.state
    }

    /// The regions, for `threads` to share.
    #[must_use]
    pub fn runs(&self, threads: usize) -> RegionRuns {
        RegionRuns::new(Region::count(&self.geometry), threads)
    }

    /// Reads and hashes a region, on any thread.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if the file ends early; [`StoreError::OutOfRange`] for a region
    /// beyond the file; the medium's.
    pub fn read_and_hash(&self, region: u64, buffer: &mut Vec<u8>) -> Result<Region, StoreError> {
        Ok(self.read(region, buffer, false)?.0)
    }

    /// As [`RegionReader::read_and_hash`]; appends the sums of the region's blocks to `sums`, if the file
    /// has a list of them.
    ///
    /// # Errors
    /// As there.
    pub fn read_hash_and_sum(
        &self,
        region: u64,
        buffer: &mut Vec<u8>,
        sums: &mut Vec<u8>,
    ) -> Result<Region, StoreError> {
        let (region, bytes) = self.read(region, buffer, true)?;
        if let Some(blocks) = UpdateBlocks::of(self.geometry) {
            blocks.sums_of(&region, bytes, sums);
        }
        Ok(region)
    }

    /// Reads a region piece by piece, and hashes each. With `whole`, also returns its bytes.
    fn read<'b>(
        &self,
        region: u64,
        buffer: &'b mut Vec<u8>,
        whole: bool,
    ) -> Result<(Region, &'b [u8]), StoreError> {
        let range = Region::range(&self.geometry, region);
        let out_of_range = || StoreError::OutOfRange { path: self.path(), offset: range.start };
        let mut builder = RegionBuilder::new(&self.geometry, region).ok_or_else(out_of_range)?;
        let len = (range.end - range.start) as usize; // at most REGION_LEN
        // Looking for holes costs two calls: nothing compared to a region, much compared to a page.
        let mut holes = (len >= MIN_HOLE_SEARCH).then(|| SparseReader::new(&self.file));
        if let Some(reader) = &mut holes
            && reader.is_hole(range.clone())?
        {
            // A check at the end ensures that the file still has this size.
            let zeros = &ZEROS[..len];
            builder.push(zeros);
            return Ok((builder.finish().ok_or_else(out_of_range)?, zeros));
        }
        buffer.resize(if whole { len } else { len.min(PIECE) }, 0);
        let mut done = 0;
        loop {
            let (now, offset) = ((len - done).min(PIECE), range.start + done as u64);
            let place = if whole { done } else { 0 };
            let piece = &mut buffer[place..place + now];
            let got = match &mut holes {
                Some(reader) => reader.read_full(piece, offset)?,
                None => self.file.read_full(piece, offset)?,
            };
            if got < now {
                return Err(self.wrong_size(offset + got as u64));
            }
            done += now;
            if !builder.push(piece) || done == len {
                break;
            }
        }
        Ok((builder.finish().ok_or_else(out_of_range)?, buffer))
    }

    /// Checks that the file is as it was when it was opened. Call it after all regions were read.
    ///
    /// # Errors
    /// [`StoreError::Changed`]; the medium's.
    pub fn finish(&self, root: Hash) -> Result<HashedFile, StoreError> {
        self.state.check(&self.file)?;
        Ok(HashedFile { root, geometry: self.geometry, state: self.state })
    }

    /// Converts an error of a builder that writes to an [`OutboardWriter`] to one of the store.
    pub fn build_error(&self, e: BuildError<StoreError>) -> StoreError {
        match e {
            BuildError::Sink(e) => e,
            BuildError::WrongSize { got, .. } => self.wrong_size(got),
            BuildError::OutOfOrder => StoreError::OutOfRange { path: self.path(), offset: 0 },
        }
    }

    fn wrong_size(&self, is: u64) -> StoreError {
        let what = Difference::Size { was: self.state.size, is };
        StoreError::Changed { path: self.path(), what }
    }

    fn path(&self) -> std::path::PathBuf {
        self.file.path().to_path_buf()
    }
}
