//! The list of sums for updates, stored beside outboards: `<root>.sums` is the list followed by its BLAKE3 hash. Its
//! own tree is small (32 bytes for 4 KiB) and is recomputed when it is opened.

use std::path::PathBuf;

use xylem_hash::Hash;
use xylem_object::UpdateSums;
use xylem_store::{FileRef, NewFile, ObjectPart, Store, StoreError};
use xylem_tree::{Geometry, NODE_LEN, OutboardBuilder, SegmentSize};

use crate::reads::Reads;

/// Length of the hash after the list, bytes.
pub const TRAILER: u64 = 32;
/// Bytes read at once.
const PIECE: usize = 256 * 1024;

/// A list that is being written, each file's part at its place.
pub struct NewSums {
    new: NewFile,
}

impl NewSums {
    /// Begins a list in a file of the store that has no name yet.
    ///
    /// # Errors
    /// The disk's.
    pub fn new(store: &Store) -> Result<Self, StoreError> {
        Ok(Self { new: store.new_file()? })
    }

    /// Returns the file that takes the parts.
    pub fn file(&self) -> &FileRef {
        self.new.file()
    }

    /// Stores the list under its name once all `len` bytes are written; its tree has this segment size. An empty list
    /// is not stored.
    ///
    /// # Errors
    /// The disk's.
    pub fn keep(
        self,
        store: &Store,
        root: &Hash,
        len: u64,
        segment: SegmentSize,
    ) -> Result<Option<KeptSums>, StoreError> {
        if len == 0 {
            return Ok(None);
        }
        let (sums, nodes) = tree_of(self.file(), len, segment)?;
        self.file().write_all(sums.root.as_bytes(), len)?;
        let file = store.keep(self.new, root, ObjectPart::Sums)?;
        Ok(Some(KeptSums { file, sums, nodes }))
    }
}

/// A stored list.
pub struct KeptSums {
    file: FileRef,
    /// Root and size.
    pub sums: UpdateSums,
    nodes: Vec<u8>,
}

impl KeptSums {
    /// Opens the list of an earlier run, if it is here, undamaged and of this length.
    pub fn open(store: &Store, root: &Hash, len: u64, segment: SegmentSize) -> Option<Self> {
        let file = store.object(root, ObjectPart::Sums).ok().flatten()?;
        if file.metadata().ok()?.size != len.checked_add(TRAILER)? {
            return None;
        }
        let (sums, nodes) = tree_of(&file, len, segment).ok()?;
        is_sealed(&file, &sums).ok()?.then_some(Self { file, sums, nodes })
    }

    /// Reads the list through `reads` from now on.
    pub fn read_by(&mut self, reads: &Reads) {
        self.file = reads.file(&self.file);
    }

    /// Fills `out` with the list's bytes from `offset` on.
    ///
    /// # Errors
    /// The disk's; [`StoreError::is_waiting`] if a thread reads them first.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), StoreError> {
        let end = offset.saturating_add(out.len() as u64);
        match end <= self.sums.size && self.file.read_full(out, offset)? == out.len() {
            true => Ok(()),
            false => Err(self.out_of_range(offset)),
        }
    }

    /// Fills `out` with nodes of the list's tree.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_nodes(&self, first_slot: u64, out: &mut [u8]) -> Result<(), StoreError> {
        let from = usize::try_from(first_slot).unwrap_or(usize::MAX).saturating_mul(NODE_LEN);
        let part = self.nodes.get(from..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(part.ok_or_else(|| self.out_of_range(first_slot))?);
        Ok(())
    }

    fn out_of_range(&self, offset: u64) -> StoreError {
        StoreError::OutOfRange { path: self.file.path().to_path_buf(), offset }
    }
}

/// Returns the length of the list in this file, if it can be one.
pub fn len(file: &FileRef) -> Option<u64> {
    file.metadata().ok()?.size.checked_sub(TRAILER).filter(|len| *len > 0)
}

/// Returns what is wrong with a stored list; `None` if nothing is.
///
/// # Errors
/// The disk's; a wrong list is no error.
pub fn check(file: &FileRef) -> Result<Option<&'static str>, StoreError> {
    let Some(len) = len(file) else {
        return Ok(Some("it is too short"));
    };
    let (sums, _) = tree_of(file, len, SegmentSize::DEFAULT)?;
    Ok((!is_sealed(file, &sums)?).then_some("its checksum is wrong"))
}

fn is_sealed(file: &FileRef, sums: &UpdateSums) -> Result<bool, StoreError> {
    let mut seal = [0; TRAILER as usize];
    let got = file.read_full(&mut seal, sums.size)?;
    Ok(got == seal.len() && seal == *sums.root.as_bytes())
}

fn tree_of(
    file: &FileRef,
    size: u64,
    segment: SegmentSize,
) -> Result<(UpdateSums, Vec<u8>), StoreError> {
    let geometry = Geometry::new(size, segment);
    let short = |path: PathBuf| StoreError::OutOfRange { path, offset: size };
    let mut nodes = vec![0; geometry.slots() as usize * NODE_LEN];
    let mut builder = OutboardBuilder::new(geometry, |slot: u64, run: &[u8]| {
        let at = slot as usize * NODE_LEN;
        nodes[at..at + run.len()].copy_from_slice(run);
        Ok::<(), std::convert::Infallible>(())
    });
    let (mut buffer, mut at) = (vec![0; PIECE], 0);
    while at < size {
        let piece = &mut buffer[..(size - at).min(PIECE as u64) as usize];
        let got = file.read_full(piece, at)?;
        if got < piece.len() || builder.update(piece).is_err() {
            return Err(short(file.path().to_path_buf()));
        }
        at += got as u64;
    }
    let root = builder.finish().map_err(|_| short(file.path().to_path_buf()))?;
    Ok((UpdateSums { root, size }, nodes))
}
