//! [`BufferedFile`]: the content of a [`super::Producer`], read from its file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Bytes read from the file at a time. Requests usually follow in order.
const STRETCH: usize = 256 * 1024;

/// A file with a read buffer.
pub(super) struct BufferedFile {
    file: File,
    pub(super) size: u64,
    bytes: Vec<u8>,
    start: u64,
}

impl BufferedFile {
    pub(super) fn new(file: File, size: u64) -> Self {
        Self { file, size, bytes: Vec::new(), start: 0 }
    }

    /// `len` bytes from `at`, fewer at the file's end.
    pub(super) fn read(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let left = self.size.saturating_sub(at);
        let len = len.min(usize::try_from(left).unwrap_or(usize::MAX));
        let end = at + len as u64;
        if at < self.start || end > self.start + self.bytes.len() as u64 {
            let stretch = STRETCH.max(len).min(usize::try_from(left).unwrap_or(usize::MAX));
            self.bytes.resize(stretch, 0);
            // The buffer is invalid until the read has succeeded.
            self.start = u64::MAX;
            self.file.seek(SeekFrom::Start(at))?;
            self.file.read_exact(&mut self.bytes)?;
            self.start = at;
        }
        let from = (at - self.start) as usize;
        Ok(&self.bytes[from..from + len])
    }
}
