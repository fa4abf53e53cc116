//! A thread that writes one file, so that disk and network work side by side.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use xylem_hash::Hash;
use xylem_store::{Partial, StoreError};
use xylem_tree::{Segment, Verified};

use super::audit::Audit;
use super::context::Nodes;

/// Most pieces in a batch.
const BATCH: usize = 32;
/// Batches under way. A slow disk stops the fetch here. With more, the data would leave the processor's cache before it
/// is written.
const QUEUE: usize = 8;

/// A piece for the thread.
enum WriterPiece {
    Segment(Verified<Segment<Bytes>>),
    /// Nodes that prove all segments handed over before.
    Nodes(Nodes),
    /// Further nodes.
    MoreNodes(Nodes),
}

/// Writes to a [`Partial`] in the order of the pieces.
pub(super) struct PartialWriter {
    batch: Vec<WriterPiece>,
    queue: Option<SyncSender<Vec<WriterPiece>>>,
    thread: Option<JoinHandle<Written>>,
    /// Bytes of content in the file together with their nodes: what is reported as verified survives a kill.
    written: Arc<AtomicU64>,
}

/// The thread's result: the file, and the root of the bytes on disk or the error.
type Written = (Partial, Result<Option<Hash>, StoreError>);

impl PartialWriter {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system starts no thread; the existing content stays.
    pub(super) fn new(mut partial: Partial) -> Result<Self, StoreError> {
        let path = partial.file().path().to_path_buf();
        let (queue, batches) = mpsc::sync_channel::<Vec<WriterPiece>>(QUEUE);
        let written = Arc::new(AtomicU64::new(0));
        let counter = written.clone();
        let thread = thread::Builder::new().spawn(move || {
            let audit = partial.is_untouched().then(|| Audit::new(&partial)).transpose();
            let mut audit = match audit {
                Ok(audit) => audit,
                Err(e) => return (partial, Err(e)),
            };
            let mut unvouched = UnprovenBytes::default();
            let outcome = batches.iter().try_for_each(|batch| {
                // An empty batch requests a flush.
                let safe = match batch.is_empty() {
                    true => partial.flush().map(|()| unvouched.next_flush())?,
                    false => write(&mut partial, &mut audit, &mut unvouched, &batch)?,
                };
                counter.fetch_add(safe, Ordering::Relaxed);
                Ok(())
            });
            // Content is flushed whether or not the file gets its name.
            let outcome = outcome.and_then(|()| partial.flush());
            let audited = audit.map_or(Ok(None), Audit::finish);
            (partial, outcome.and(audited))
        });
        let thread = thread
            .map_err(|e| StoreError::from_io("start a thread that writes it", &path, None, e))?;
        Ok(Self { batch: Vec::new(), queue: Some(queue), thread: Some(thread), written })
    }

    /// Returns the bytes of content written together with the nodes that prove them to the next run.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Hands over a segment.
    ///
    /// # Errors
    /// The thread's error; nothing more is written then.
    pub(super) fn segment(&mut self, segment: Verified<Segment<Bytes>>) -> Result<(), StoreError> {
        self.push(WriterPiece::Segment(segment))
    }

    /// Hands over proven nodes. They follow the segments that they prove: all handed over before.
    ///
    /// # Errors
    /// As [`Writer::segment`].
    pub(super) fn nodes(&mut self, nodes: Nodes) -> Result<(), StoreError> {
        self.push(WriterPiece::Nodes(nodes))
    }

    /// Hands over proven nodes that some segments need, but not all that they need.
    ///
    /// # Errors
    /// As [`Writer::segment`].
    pub(super) fn more_nodes(&mut self, nodes: Nodes) -> Result<(), StoreError> {
        self.push(WriterPiece::MoreNodes(nodes))
    }

    fn push(&mut self, piece: WriterPiece) -> Result<(), StoreError> {
        self.batch.push(piece);
        if self.batch.len() < BATCH { Ok(()) } else { self.send() }
    }

    /// Hands over the gathered pieces.
    ///
    /// # Errors
    /// As [`Writer::segment`].
    pub(super) fn push_on(&mut self) -> Result<(), StoreError> {
        if self.batch.is_empty() { Ok(()) } else { self.send() }
    }

    /// Requests a flush. The transfer was asked for all nodes at the previous call, and these were handed over since.
    ///
    /// # Errors
    /// As [`Writer::segment`].
    pub(super) fn flush(&mut self) -> Result<(), StoreError> {
        self.push_on()?;
        self.send()
    }

    fn send(&mut self) -> Result<(), StoreError> {
        let batch = std::mem::take(&mut self.batch);
        let sent = self.queue.as_ref().is_some_and(|queue| queue.send(batch).is_ok());
        // The thread hangs up only after a failure.
        if sent { Ok(()) } else { self.end().map_or(Ok(()), |(_, outcome)| outcome.map(drop)) }
    }

    /// Waits until all is written and read back; returns the file, and its root if it is complete.
    ///
    /// # Errors
    /// As [`Writer::segment`].
    pub(super) fn finish(mut self) -> Result<Option<(Partial, Option<Hash>)>, StoreError> {
        self.push_on()?;
        match self.end() {
            Some((partial, outcome)) => outcome.map(|root| Some((partial, root))),
            None => Ok(None),
        }
    }

    fn end(&mut self) -> Option<Written> {
        self.queue = None;
        let joined = self.thread.take()?.join();
        Some(joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

/// Bytes of content that are written while their nodes may still follow: the transfer reports nodes after a number of
/// segments, or when it is asked to.
#[derive(Default)]
struct UnprovenBytes {
    since_flush: u64,
    before_flush: u64,
}

impl UnprovenBytes {
    fn take(&mut self) -> u64 {
        std::mem::take(&mut self.since_flush) + std::mem::take(&mut self.before_flush)
    }

    /// Returns the bytes that have waited since the flush before: their nodes have arrived by now, if there are new
    /// ones at all.
    fn next_flush(&mut self) -> u64 {
        std::mem::replace(&mut self.before_flush, std::mem::take(&mut self.since_flush))
    }
}

/// Writes a batch: segments in order, so that adjacent ones go in one call, then nodes. Returns the bytes of content
/// that now have their nodes.
fn write(
    partial: &mut Partial,
    audit: &mut Option<Audit>,
    unvouched: &mut UnprovenBytes,
    batch: &[WriterPiece],
) -> Result<u64, StoreError> {
    let mut segments: Vec<_> = batch
        .iter()
        .filter_map(|piece| match piece {
            WriterPiece::Segment(segment) => Some(segment),
            WriterPiece::Nodes(_) | WriterPiece::MoreNodes(_) => None,
        })
        .collect();
    segments.sort_unstable_by_key(|segment| segment.index);
    partial.put_all(&segments)?;
    let mut safe = 0;
    for piece in batch {
        match piece {
            WriterPiece::Segment(segment) => unvouched.since_flush += segment.content.len() as u64,
            WriterPiece::Nodes(nodes) => {
                partial.put_nodes(nodes)?;
                safe += unvouched.take();
            }
            WriterPiece::MoreNodes(nodes) => partial.put_nodes(nodes)?,
        }
    }
    // Bytes counted from here on must survive a kill.
    if safe > 0 {
        partial.settle()?;
    }
    if let Some(audit) = audit {
        let mut whole = false;
        for segment in &segments {
            whole |= audit.completes(segment.index);
        }
        if whole {
            partial.flush()?;
            audit.advance();
        }
    }
    Ok(safe)
}

impl Drop for PartialWriter {
    /// A fetch that ends early keeps what was proven: the thread writes what it was given, and dropping the file
    /// flushes it.
    fn drop(&mut self) {
        let _ = self.push_on();
        drop(self.end());
    }
}
