//! Reads a file back while it is still being fetched: when the last segment arrives, the hash of the bytes on disk is
//! ready.
//!
//! The hash is computed from the bytes of the file alone, independent of the verification on arrival, so that a write
//! to a wrong place is noticed before the file gets its name. Another program may write after the reading. The hash
//! therefore counts only if the file is watched and no other process opened it ([`Partial::is_untouched`]). Bytes are
//! read soon after they were written, beside the fetch, so that little is left to do at the end.

use std::ops::Range;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use xylem_hash::{Hash, Hasher};
use xylem_store::{FileRef, Partial, SparseReader, StoreError, is_zero};
use xylem_tree::{Geometry, SegmentIndex};

/// Segments handed to the thread together; only complete stripes.
const STRIPE_SEGMENTS: u64 = 256;
/// Bytes read at once.
const PIECE: u64 = 128 * 1024;

/// How far the file is complete, and a thread that hashes up to there.
pub(super) struct Audit {
    geometry: Geometry,
    /// Number of segments that each stripe still lacks.
    missing: Vec<u32>,
    /// Stripes before this one are complete and sent to the thread.
    whole: usize,
    queue: Sender<Range<u64>>,
    thread: JoinHandle<Result<Hash, StoreError>>,
}

impl Audit {
    /// Starts with the segments that the file has already.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(super) fn new(partial: &Partial) -> Result<Self, StoreError> {
        let (file, geometry) = (partial.file().clone(), *partial.geometry());
        let (queue, ranges) = mpsc::channel();
        let path = file.path().to_path_buf();
        let thread = thread::Builder::new().spawn(move || hash_ranges(&file, &ranges));
        let thread = thread.map_err(|e| {
            StoreError::from_io("start a thread that reads it back", &path, None, e)
        })?;
        let left = |first: u64| (geometry.segments() - first).min(STRIPE_SEGMENTS) as u32;
        let missing =
            (0..geometry.segments()).step_by(STRIPE_SEGMENTS as usize).map(left).collect();
        let mut audit = Self { geometry, missing, whole: 0, queue, thread };
        for range in partial.have().ranges() {
            for segment in range {
                audit.completes(SegmentIndex(segment));
            }
        }
        audit.advance();
        Ok(audit)
    }

    /// Counts a segment. Returns true if it completes a stripe; the caller must then flush the file before
    /// [`Audit::advance`].
    pub(super) fn completes(&mut self, segment: SegmentIndex) -> bool {
        let stripe = (segment.0 / STRIPE_SEGMENTS) as usize;
        let Some(missing) = self.missing.get_mut(stripe) else { return false };
        *missing = missing.saturating_sub(1);
        *missing == 0
    }

    /// Lets the thread read as far as the file is complete without a gap.
    pub(super) fn advance(&mut self) {
        let from = self.start(self.whole);
        while self.missing.get(self.whole) == Some(&0) {
            self.whole += 1;
        }
        let until = self.start(self.whole);
        if from < until {
            // The thread ends early only with an error, which `finish` returns.
            let _ = self.queue.send(from..until);
        }
    }

    fn start(&self, stripe: usize) -> u64 {
        let bytes = STRIPE_SEGMENTS * self.geometry.segment_size().bytes() as u64;
        (stripe as u64 * bytes).min(self.geometry.size())
    }

    /// Returns the hash of the whole file; `None` if a part is missing.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn finish(self) -> Result<Option<Hash>, StoreError> {
        let whole = self.whole == self.missing.len();
        drop(self.queue);
        let hash = self.thread.join().unwrap_or_else(|p| std::panic::resume_unwind(p))?;
        Ok(whole.then_some(hash))
    }
}

/// Hashes a file while its ranges become complete, in order and without gaps. A file that is shorter than expected gets
/// another hash, which suffices to detect it.
fn hash_ranges(file: &FileRef, ranges: &Receiver<Range<u64>>) -> Result<Hash, StoreError> {
    let (mut hasher, mut buffer, mut zeros) = (Hasher::new(), vec![0; PIECE as usize], false);
    for range in ranges {
        // A hole in a complete range stays a hole.
        let (mut reader, mut at) = (SparseReader::new(file), range.start);
        while at < range.end {
            let piece = &mut buffer[..(range.end - at).min(PIECE) as usize];
            // Looking for holes makes the system walk over all pages and blocks the writer meanwhile. It is done only
            // after zeros were read.
            let got = if zeros { reader.read_full(piece, at)? } else { file.read_full(piece, at)? };
            zeros = is_zero(&piece[..got]);
            hasher.update(&piece[..got]);
            at += piece.len() as u64;
        }
    }
    Ok(hasher.finalize())
}
