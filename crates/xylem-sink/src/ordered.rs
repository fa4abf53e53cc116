//! [`OrderedWriter`]: writes verified segments in order to a file or standard output, on a thread of its own, so that
//! a slow disk or reader never stalls the network.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::ops::Range;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use xylem_base::{Blame, Failure, advised, blame_of};
use xylem_hash::Hash;
use xylem_store::{FileRef, GrowingFile, StoreError, VerifiedStream};
use xylem_tree::consistency::Continuation;
use xylem_tree::{Checkpoint, Segment, Verified};

/// Capacity of the queue to the thread, pieces.
const QUEUE: usize = 256;
/// Pieces waiting for room in the queue beyond which the transfer is held back.
const MAX_WAITING: usize = 512;

/// Why the output is incomplete.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file cannot be written.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// The reader of standard output closed it.
    #[error("standard output was closed by its reader")]
    StdoutClosed,
    /// Standard output cannot be written.
    #[error("standard output: {0}")]
    Stdout(io::Error),
    /// The system starts no thread for writing.
    #[error("cannot start a thread that writes: {0}")]
    Thread(io::Error),
}

impl Failure for WriteError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store(e) => blame_of(e),
            Self::StdoutClosed => Blame::Interrupted,
            Self::Stdout(_) | Self::Thread(_) => Blame::Local,
        }
    }
}

impl From<io::Error> for WriteError {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::BrokenPipe => Self::StdoutClosed,
            _ => Self::Stdout(e),
        }
    }
}

/// Where the thread writes.
pub(crate) enum OrderedTarget {
    /// The end of a growing file; each mark overwrites `marks`.
    File { file: GrowingFile, marks: FileRef },
    /// Standard output, after a checkpoint; a mark flushes it.
    Growing(Checkpoint),
    /// A range of the object `root`, to standard output.
    Range { root: Hash, range: Range<u64> },
}

enum OrderedPiece {
    Segment(Verified<Segment<Bytes>>),
    Continuation(Continuation),
    Mark(Vec<u8>),
}

/// Segments that arrived early, and the queue to the thread.
pub(crate) struct OrderedWriter {
    early: BTreeMap<u64, Verified<Segment<Bytes>>>,
    next: u64,
    waiting: VecDeque<OrderedPiece>,
    queue: Option<SyncSender<OrderedPiece>>,
    thread: Option<JoinHandle<Result<(), WriteError>>>,
}

impl OrderedWriter {
    /// Starts with segment `next`.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn new(target: OrderedTarget, next: u64) -> Result<Self, WriteError> {
        let (queue, pieces) = mpsc::sync_channel(QUEUE);
        let thread = thread::Builder::new().spawn(move || match target {
            OrderedTarget::File { file, marks } => Ok(to_file(&pieces, file, &marks)?),
            OrderedTarget::Growing(begun) => {
                Ok(to_stdout(&pieces, VerifiedStream::growing(io::stdout().lock(), &begun))?)
            }
            OrderedTarget::Range { root, range } => {
                Ok(to_stdout(&pieces, VerifiedStream::new(io::stdout().lock(), root, range))?)
            }
        });
        let thread = Some(thread.map_err(WriteError::Thread)?);
        let (early, waiting) = (BTreeMap::new(), VecDeque::new());
        Ok(Self { early, next, waiting, queue: Some(queue), thread })
    }

    /// Continues with segment `next`: another checkpoint has another last segment.
    pub(crate) fn go_on_with(&mut self, next: u64) {
        self.early.clear();
        self.next = next;
    }

    /// Adds a segment. `each` receives the segments that are now in order.
    pub(crate) fn segment(
        &mut self,
        segment: Verified<Segment<Bytes>>,
        each: &mut dyn FnMut(&Segment<Bytes>),
    ) -> Result<(), WriteError> {
        self.early.insert(segment.index.0, segment);
        while let Some(segment) = self.early.remove(&self.next) {
            self.next += 1;
            each(&segment);
            self.waiting.push_back(OrderedPiece::Segment(segment));
        }
        self.push()
    }

    /// Makes the following segments those of a newer checkpoint.
    pub(crate) fn advance(&mut self, to: Continuation) -> Result<(), WriteError> {
        self.waiting.push_back(OrderedPiece::Continuation(to));
        self.push()
    }

    /// Records the checkpoint `mark`, which all segments added so far complete.
    pub(crate) fn mark(&mut self, mark: &[u8]) -> Result<(), WriteError> {
        self.waiting.push_back(OrderedPiece::Mark(mark.to_vec()));
        self.push()
    }

    /// Returns whether the caller should not add more for now.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() > MAX_WAITING
    }

    /// Returns whether [`Self::push`] should be called again soon.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Hands over as much as the thread has room for.
    pub(crate) fn push(&mut self) -> Result<(), WriteError> {
        while let Some(piece) = self.waiting.pop_front() {
            let Some(queue) = &self.queue else { break };
            match queue.try_send(piece) {
                Ok(()) => {}
                Err(TrySendError::Full(piece)) => {
                    self.waiting.push_front(piece);
                    break;
                }
                Err(TrySendError::Disconnected(_)) => return self.end(),
            }
        }
        Ok(())
    }

    /// Waits until all added pieces are written.
    pub(crate) fn finish(&mut self) -> Result<(), WriteError> {
        while let Some(piece) = self.waiting.pop_front() {
            // Sending fails only if the thread has ended; `end` returns its error.
            let sent = self.queue.as_ref().is_some_and(|queue| queue.send(piece).is_ok());
            if !sent {
                break;
            }
        }
        self.end()
    }

    fn end(&mut self) -> Result<(), WriteError> {
        self.queue = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(written)) => written,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

fn to_file(
    pieces: &Receiver<OrderedPiece>,
    mut file: GrowingFile,
    marks: &FileRef,
) -> Result<(), StoreError> {
    for piece in pieces {
        match piece {
            OrderedPiece::Segment(segment) => file.put(&segment)?,
            OrderedPiece::Continuation(to) => file.advance(&to)?,
            OrderedPiece::Mark(mark) => marks.write_all(&mark, 0)?,
        }
    }
    Ok(())
}

fn to_stdout<W: Write>(
    pieces: &Receiver<OrderedPiece>,
    mut out: VerifiedStream<W>,
) -> io::Result<()> {
    for piece in pieces {
        match piece {
            OrderedPiece::Segment(segment) => out.put(&segment)?,
            OrderedPiece::Continuation(to) => out.advance(&to)?,
            OrderedPiece::Mark(_) => out.flush()?,
        }
    }
    out.flush()
}
