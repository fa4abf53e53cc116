//! Holes: ranges of a file that read as zeros and take no space.
//!
//! They are looked up, not recorded: [`MediumFile::next_data`](crate::MediumFile::next_data) returns where the next
//! data are. A medium that cannot tell reports all as data, and everything here becomes plain reading and writing.

use std::ops::Range;

use crate::error::StoreError;
use crate::file::FileRef;

/// Least size of a hole: the block of common file systems.
const PAGE: usize = 4096;

/// Reads a file without touching its holes, which would fill the page cache with zeros.
///
/// A range that was a hole when it was first met counts as one as long as the reader lives. Use a reader only for
/// ranges that nothing writes to any more.
#[derive(Debug)]
pub struct SparseReader<'a> {
    file: &'a FileRef,
    /// The known state: data in this range, and a hole from `hole` up to it.
    data: Range<u64>,
    hole: u64,
}

impl<'a> SparseReader<'a> {
    /// A reader that knows nothing yet.
    #[must_use]
    pub fn new(file: &'a FileRef) -> Self {
        Self { file, data: 0..0, hole: 0 }
    }

    /// As [`FileRef::read_full`]; holes read as zeros. It does not report whether the file ends within the last hole in
    /// `buf`; a caller that needs that compares sizes.
    ///
    /// # Errors
    /// The medium's.
    pub fn read_full(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, StoreError> {
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let run = self.run(at)?;
            let left = buf.len() - done;
            let len = left.min(usize::try_from(run.end - at).unwrap_or(left));
            let part = &mut buf[done..done + len];
            if run == self.data {
                let got = self.file.read_full(part, at)?;
                done += got;
                if got < len {
                    break;
                }
            } else {
                part.fill(0);
                done += len;
            }
        }
        Ok(done)
    }

    /// Whether all of this range is a hole.
    ///
    /// # Errors
    /// The medium's.
    pub(crate) fn is_hole(&mut self, range: Range<u64>) -> Result<bool, StoreError> {
        let run = self.run(range.start)?;
        Ok(run != self.data && run.end >= range.end)
    }

    /// The data range, or the hole, that contains `at`.
    fn run(&mut self, at: u64) -> Result<Range<u64>, StoreError> {
        if !(self.hole..self.data.end).contains(&at) {
            self.data = self.file.next_data(at)?.unwrap_or(u64::MAX..u64::MAX);
            self.hole = at;
        }
        Ok(if self.data.contains(&at) { self.data.clone() } else { self.hole..self.data.start })
    }
}

/// Writes `bytes` at `offset`, but not pages of zeros over holes of the file. The last page may be incomplete, as at
/// the end of a file.
///
/// # Errors
/// The medium's.
pub(crate) fn write_sparse(file: &FileRef, bytes: &[u8], offset: u64) -> Result<(), StoreError> {
    // Pages of the file, not of the buffer.
    let first = (offset.next_multiple_of(PAGE as u64) - offset) as usize;
    let (mut written, mut at) = (0, first);
    while at < bytes.len() {
        let zeros = zero_pages(&bytes[at..]);
        if zeros == 0 {
            at += PAGE;
            continue;
        }
        let end = at + zeros;
        let data = file.next_data(offset + at as u64)?;
        if data.is_none_or(|data| data.start >= offset + end as u64) {
            if written < at {
                file.write_all(&bytes[written..at], offset + written as u64)?;
            }
            written = end;
        }
        at = end;
    }
    if written < bytes.len() {
        file.write_all(&bytes[written..], offset + written as u64)?;
    }
    Ok(())
}

/// Whether there is a page of zeros, so that [`write_sparse`] is of use.
pub(crate) fn has_zero_page(bytes: &[u8]) -> bool {
    bytes.chunks_exact(PAGE).any(is_zero)
}

/// Length of the zero pages at the front, of which the last may be incomplete.
fn zero_pages(bytes: &[u8]) -> usize {
    bytes.chunks(PAGE).take_while(|page| is_zero(page)).map(<[u8]>::len).sum()
}

/// Whether all bytes of a page or some pages are zero.
#[must_use]
pub fn is_zero(bytes: &[u8]) -> bool {
    // Nearly all nonzero data have a nonzero byte among the first. For the rest, examining all bytes is faster than
    // stopping on the way.
    let (first, rest) = bytes.split_at(bytes.len().min(16));
    first.iter().all(|b| *b == 0) && rest.iter().fold(0, |any, b| any | b) == 0
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{DiskMedium, Medium, OpenHow};

    fn new_file(path: &Path) -> FileRef {
        let file = DiskMedium::new().open(path, OpenHow::CreateNew { mode: 0o600 }).unwrap();
        FileRef::new(file, path)
    }

    #[test]
    fn sparse_writes_read_back_and_zeros_replace_data() {
        let dir = tempfile::tempdir().unwrap();
        for (n, offset) in [0_u64, 1024, 4096, 12_288 - 1024].into_iter().enumerate() {
            let file = new_file(&dir.path().join(n.to_string()));
            file.set_len(200_000).unwrap();
            let mut bytes = vec![0; 100_000];
            bytes[5_000] = 1;
            bytes[50_000..60_000].fill(2);
            write_sparse(&file, &bytes, offset).unwrap();
            let mut back = vec![9; 100_000];
            assert_eq!(file.read_full(&mut back, offset).unwrap(), back.len());
            assert!(back == bytes, "offset {offset}");
            // Zeros are written over data.
            write_sparse(&file, &vec![0; 100_000], offset).unwrap();
            file.read_full(&mut back, offset).unwrap();
            assert!(back.iter().all(|b| *b == 0), "offset {offset}");
        }
    }

    #[test]
    fn a_sparse_reader_reads_the_same_as_a_plain_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = new_file(&dir.path().join("f"));
        let size = 3_000_000;
        file.set_len(size).unwrap();
        for at in [0, 70_000, 1_000_000, size - 10] {
            file.write_all(b"0123456789", at).unwrap();
        }
        let mut plain = vec![0; size as usize];
        file.read_full(&mut plain, 0).unwrap();
        for step in [1_000, 65_536, 5_000_000] {
            let (mut reader, mut at) = (SparseReader::new(&file), 0);
            let mut buf = vec![9; step];
            while at < plain.len() {
                let end = (at + step).min(plain.len());
                let got = reader.read_full(&mut buf[..end - at], at as u64).unwrap();
                assert_eq!(got, end - at);
                assert!(buf[..got] == plain[at..end]);
                at = end;
            }
        }
    }
}
