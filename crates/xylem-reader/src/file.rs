//! [`File`]: one file of a publication, with random access.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use crate::ahead::{AheadStep, ReadAhead};
use crate::cached::{Cached, SegmentBytes};
use crate::demand::{MissingRead, ReaderCommand, ReaderQueue};

/// Most bytes that one call of `read` returns.
const MAX_READ: usize = 4 << 20;

/// A file that is fetched as it is read. A read fails if no peer has the bytes, or if they do not arrive in time. It
/// can be tried again.
pub struct File {
    queue: Arc<ReaderQueue>,
    /// `None`: the file is empty, and there is nothing to fetch.
    cached: Option<Arc<Cached>>,
    size: u64,
    position: u64,
    ahead: Mutex<ReadAhead>,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("size", &self.size).finish_non_exhaustive()
    }
}

impl File {
    pub(crate) fn new(queue: Arc<ReaderQueue>, cached: Option<Arc<Cached>>) -> Self {
        let size = cached.as_ref().map_or(0, |cached| cached.geometry.size());
        if let Some(cached) = &cached {
            queue.push(ReaderCommand::Open(cached.clone()));
        }
        Self { queue, cached, size, position: 0, ahead: Mutex::default() }
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads `len` bytes from `offset` on, or fewer where the file ends, and passes them to `done`. If they are stored,
    /// `done` is called before this returns; else later, on the fetching thread. `done` should not block that thread.
    pub fn read_then(
        &self,
        offset: u64,
        len: usize,
        done: impl FnOnce(io::Result<&[u8]>) + Send + 'static,
    ) {
        let end = offset.saturating_add(len as u64).min(self.size);
        let (Some(cached), true) = (&self.cached, offset < end) else { return done(Ok(&[])) };
        let bytes = offset..end;
        let ask = || match self.note_read(&bytes) {
            AheadStep::Nothing => {}
            AheadStep::Elsewhere => self.queue.push(ReaderCommand::Elsewhere(cached.id)),
            AheadStep::Ask(range) => self.request_ahead(cached, &range),
        };
        if let Some(region) = cached.remembered(&bytes) {
            done(Ok(region.part(&bytes)));
            drop(region);
            return ask();
        }
        let (mut piece, segments) = SegmentBytes::over(&cached.geometry, &bytes);
        let missing = cached.fill(&mut piece, &segments);
        let was_there = missing.is_empty();
        let (id, bytes) = (cached.id, bytes.clone());
        let wanted = MissingRead { id, bytes, piece, missing, done: Box::new(done) };
        if was_there {
            wanted.finish();
        } else {
            self.queue.push(ReaderCommand::Read(Box::new(wanted)));
        }
        ask();
    }

    /// Notes a read, and predicts the next.
    fn note_read(&self, bytes: &Range<u64>) -> AheadStep {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner).read(bytes, self.size)
    }

    fn request_ahead(&self, cached: &Cached, bytes: &Range<u64>) {
        let segments = cached.geometry.segments_of(bytes.clone());
        if cached.stores() && !cached.missing(segments.clone()).is_empty() {
            self.queue.push(ReaderCommand::Ahead(cached.id, segments));
        }
    }

    /// Fills `buf` from `offset` on, up to the file's end. Returns the number of bytes. Waits for bytes that are not
    /// stored.
    ///
    /// # Errors
    /// The bytes did not arrive in time.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let (sender, receiver) = mpsc::channel();
        let len = buf.len().min(MAX_READ);
        self.read_then(offset, len, move |read| drop(sender.send(read.map(<[u8]>::to_vec))));
        let read = receiver.recv().map_err(|_| io::Error::other("the reader has ended"))??;
        buf[..read.len()].copy_from_slice(&read);
        Ok(read.len())
    }

    pub(crate) fn cached(&self) -> Option<&Cached> {
        self.cached.as_deref()
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.read_at(buf, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::End(by) => (self.size, by),
            SeekFrom::Current(by) => (self.position, by),
        };
        let before =
            || io::Error::new(io::ErrorKind::InvalidInput, "seek before the beginning of the file");
        self.position = from.checked_add_signed(by).ok_or_else(before)?;
        Ok(self.position)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(cached) = &self.cached {
            self.queue.push(ReaderCommand::Close(cached.id));
        }
    }
}
