//! [`Behind`]: a writer that has a thread of its own, so that whoever makes the bytes need not wait for where they go.
//!
//! Fetching an object takes as long for hashes and packets as for the copies into the system's cache; with both
//! on one thread a get was bound by their sum.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Bytes that are handed over at once.
const PIECE: usize = 256 * 1024;
/// Pieces that may wait for the thread; whoever writes more waits.
const PIECES: usize = 8;

/// Writes behind. An error shows at one of the next writes, or at the [flush](Write::flush), which waits until all is
/// written; after an error, and after the flush, nothing more is taken.
pub(crate) struct Behind {
    piece: Vec<u8>,
    /// `None` once the thread has been waited for.
    to: Option<(SyncSender<Vec<u8>>, JoinHandle<io::Result<()>>)>,
    /// Pieces that were written, to be filled again.
    back: Receiver<Vec<u8>>,
}

impl Behind {
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn new(mut to: Box<dyn Write + Send>) -> io::Result<Self> {
        let (sender, pieces) = sync_channel::<Vec<u8>>(PIECES);
        // Room for all that there can be: giving back never waits.
        let (written, back) = sync_channel(PIECES + 2);
        let thread = std::thread::Builder::new().name("write".to_owned()).spawn(move || {
            for piece in pieces {
                to.write_all(&piece)?;
                let _ = written.try_send(piece);
            }
            to.flush()
        })?;
        Ok(Self { piece: Vec::with_capacity(PIECE), to: Some((sender, thread)), back })
    }

    fn hand_over(&mut self) -> io::Result<()> {
        let Some((sender, _)) = &self.to else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let room = self.back.try_recv().unwrap_or_else(|_| Vec::with_capacity(PIECE));
        let piece = std::mem::replace(&mut self.piece, room);
        self.piece.clear();
        match sender.send(piece) {
            Ok(()) => Ok(()),
            // It has ended, and says why.
            Err(_) => self.finish().and(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        let Some((sender, thread)) = self.to.take() else { return Ok(()) };
        drop(sender);
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread has panicked")))
    }
}

impl Write for Behind {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() == PIECE {
            self.hand_over()?;
        }
        let len = bytes.len().min(PIECE - self.piece.len());
        self.piece.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.piece.is_empty() {
            self.hand_over()?;
        }
        self.finish()
    }
}

impl Drop for Behind {
    /// Nothing is written any more once this is gone; what was not flushed may be.
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Keeps what is written, and fails instead of going beyond a length.
    struct Kept(Arc<Mutex<Vec<u8>>>, usize);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut kept = self.0.lock().unwrap();
            if kept.len() + bytes.len() > self.1 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            kept.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn kept(limit: usize) -> (Arc<Mutex<Vec<u8>>>, Behind) {
        let all = Arc::default();
        let behind = Behind::new(Box::new(Kept(Arc::clone(&all), limit))).unwrap();
        (all, behind)
    }

    #[test]
    fn all_is_there_after_the_flush() {
        for (len, step) in
            [(0, 1), (1, 1), (PIECE, PIECE), (PIECE + 1, 7_999), (20 * PIECE + 5, 8_000)]
        {
            let bytes: Vec<u8> = (0..len).map(|i| (i ^ (i >> 10)) as u8).collect();
            let (all, mut behind) = kept(usize::MAX);
            bytes.chunks(step).for_each(|bytes| behind.write_all(bytes).unwrap());
            behind.flush().unwrap();
            assert!(*all.lock().unwrap() == bytes, "{len} bytes");
        }
    }

    /// However late it shows, and it is the thread's own.
    #[test]
    fn an_error_is_told_at_the_latest_by_the_flush() {
        for limit in [0, 1, PIECE, 10 * PIECE] {
            let (_, mut behind) = kept(limit);
            let outcome = (0..2_000).try_for_each(|_| behind.write_all(&[7; 8_000]));
            let outcome = outcome.and_then(|()| behind.flush());
            assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::StorageFull, "{limit}");
        }
        let (_, mut behind) = kept(5);
        behind.write_all(&[7; 6]).unwrap();
        assert_eq!(behind.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn nothing_is_written_once_it_is_gone() {
        let (all, mut behind) = kept(usize::MAX);
        behind.write_all(&vec![7; 5 * PIECE]).unwrap();
        drop(behind);
        assert_eq!(Arc::strong_count(&all), 1, "the thread has ended");
    }
}
