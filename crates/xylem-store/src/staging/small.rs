//! Small files of a staging tree: written in one call each, and checked together when a fetch resumes.

use xylem_hash::{Hash, hash_many};
use xylem_tree::{Segment, Verified};

use super::{BATCH_BYTES, Staging};
use crate::attributes::{Attributes, apply};
use crate::error::StoreError;
use crate::file::FileRef;
use crate::medium::OpenHow;
use crate::sparse::{has_zero_page, write_sparse};

/// Largest file that [`Staging::write_small`] takes and [`Staging::intact`] checks, bytes.
pub const MAX_SMALL_FILE: u64 = 256 * 1024;

/// A small file of the listing.
#[derive(Debug, Clone, Copy)]
pub struct SmallFile<'a> {
    /// Path below the directory.
    pub path: &'a [u8],
    /// Size in bytes, at most [`MAX_SMALL_FILE`].
    pub size: u64,
    /// BLAKE3 hash of the content.
    pub root: Hash,
}

impl Staging {
    /// Checks which of these files exist with the right content. Reads them and hashes them together.
    ///
    /// # Errors
    /// The medium's, except that a file that is missing, unreadable or of another size is simply
    /// not intact.
    pub fn intact(&mut self, files: &[SmallFile<'_>]) -> Result<Vec<bool>, StoreError> {
        let mut right = vec![false; files.len()];
        let mut batch = std::mem::take(&mut self.batch);
        let mut read: Vec<(usize, usize, usize)> = Vec::new();
        batch.clear();
        for (i, file) in files.iter().enumerate() {
            let start = batch.len();
            if self.read_small(file, &mut batch)? {
                read.push((i, start, batch.len()));
            }
            if batch.len() >= BATCH_BYTES || i + 1 == files.len() {
                let inputs: Vec<&[u8]> = read.iter().map(|(_, s, e)| &batch[*s..*e]).collect();
                let mut hashes = vec![Hash::from_bytes([0; 32]); inputs.len()];
                hash_many(&inputs, &mut hashes);
                for ((i, ..), hash) in read.drain(..).zip(&hashes) {
                    right[i] = files[i].root == *hash;
                }
                batch.clear();
            }
        }
        self.batch = batch;
        Ok(right)
    }

    /// Writes a whole small file from its proven segments, in order, replacing one that an earlier run left under the
    /// name. Makes the directories above it as needed.
    ///
    /// # Errors
    /// [`StoreError::OutOfRange`] if the segments are not those of `file`; the medium's.
    pub fn write_small<B: AsRef<[u8]>>(
        &mut self,
        file: &SmallFile<'_>,
        segments: &[Verified<Segment<B>>],
        attributes: &Attributes,
    ) -> Result<(), StoreError> {
        let mut at = 0;
        for segment in segments {
            if segment.root() != file.root || segment.offset != at {
                return Err(self.folders.out_of_range(file.path, at));
            }
            at += segment.content.as_ref().len() as u64;
        }
        if at != file.size || segments.is_empty() || at > MAX_SMALL_FILE {
            return Err(self.folders.out_of_range(file.path, at));
        }
        let mode = attributes.mode.map_or(0o600, |m| m & 0o777);
        let out = self.folders.create(file.path, mode)?;
        match segments {
            [whole] if at > 0 => write_whole(&out, whole.content.as_ref())?,
            [_] => {}
            many => {
                let bytes: Vec<u8> =
                    many.iter().flat_map(|s| s.content.as_ref().iter().copied()).collect();
                write_whole(&out, &bytes)?;
            }
        }
        if mode & !self.kept_bits != 0 {
            // Learn once which bits pass the umask, instead of setting them every time.
            let got = out.metadata()?.mode & 0o777;
            self.kept_bits |= got & mode;
            if got != mode {
                self.unset.record_refused(out.set_mode(mode))?;
            }
        }
        apply(&out, &Attributes { mode: None, mtime: attributes.mtime }, &mut self.unset)?;
        if self.store.is_durable() { out.sync() } else { Ok(()) }
    }

    /// Sets the attributes of a file that an earlier run wrote and [`Staging::intact`] found correct: that run may have
    /// died before it set them.
    ///
    /// # Errors
    /// [`StoreError::Unsafe`] for a bad path; the medium's.
    pub fn set_attributes(
        &mut self,
        path: &[u8],
        attributes: &Attributes,
    ) -> Result<(), StoreError> {
        self.folders.set_attributes(path, attributes, &mut self.unset)
    }

    /// Appends a small file to `batch`. Returns false and appends nothing if it cannot be the right one.
    fn read_small(
        &mut self,
        file: &SmallFile<'_>,
        batch: &mut Vec<u8>,
    ) -> Result<bool, StoreError> {
        if file.size > MAX_SMALL_FILE {
            return Err(self.folders.out_of_range(file.path, file.size));
        }
        let (dir, name) = self.folders.parent(file.path)?;
        let Ok(opened) = dir.open(name, OpenHow::ReadNoFollow) else { return Ok(false) };
        let opened = FileRef::new(opened, self.folders.full(file.path));
        let start = batch.len();
        // One byte more than its size, to notice a longer file without reading metadata.
        batch.resize(start + file.size as usize + 1, 0);
        let got = opened.read_full(&mut batch[start..], 0).unwrap_or(0);
        let right = got as u64 == file.size;
        if right && self.store.is_durable() {
            // An earlier run wrote it and may not have waited for the device.
            opened.sync()?;
        }
        batch.truncate(if right { start + got } else { start });
        Ok(right)
    }
}

/// Writes a new file in one call, except for whole pages of zeros.
fn write_whole(out: &FileRef, bytes: &[u8]) -> Result<(), StoreError> {
    if !has_zero_page(bytes) {
        return out.write_all(bytes, 0);
    }
    out.set_len(bytes.len() as u64)?;
    write_sparse(out, bytes, 0)
}
