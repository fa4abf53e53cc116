//! [`OrderedWriter`]: proven segments to a file or standard output, in order, written by a thread of
//! its own, so that a slow disk or reader never stalls the network.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::ops::Range;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use xylem_store::{FileRef, StoreError};
use xylem_tree::{Segment, Verified};

use crate::error::{Blame, Failure, advised, blame_of};

/// Pieces on their way to the thread.
const QUEUE: usize = 256;
/// Pieces that wait for room in the queue before the transfer is held back.
const MAX_WAITING: usize = 512;

/// The part of a proven segment that lies in a range of its object.
pub(crate) struct ProvenPart {
    segment: Verified<Segment<Bytes>>,
    /// Place in the content.
    part: Range<usize>,
}

impl ProvenPart {
    /// What of `segment` lies in `range`, which may be nothing.
    pub(crate) fn of(segment: Verified<Segment<Bytes>>, range: &Range<u64>) -> Self {
        let end = segment.offset + segment.content.len() as u64;
        let from = segment.offset.max(range.start).min(end);
        let until = end.min(range.end).max(from);
        let place = |at: u64| (at - segment.offset) as usize; // within the content
        Self { part: place(from)..place(until), segment }
    }

    /// Where it begins in its object.
    pub(crate) fn offset(&self) -> u64 {
        self.segment.offset + self.part.start as u64
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.segment.content[self.part.clone()]
    }

    /// Writes it to a file that has byte `start` of the object at its beginning.
    pub(crate) fn write_to(&self, file: &FileRef, start: u64) -> Result<(), StoreError> {
        file.write_all(self.bytes(), self.offset().saturating_sub(start))
    }
}

/// Why not everything was written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file takes no more.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// Whoever read standard output does not any more.
    #[error("standard output was closed by its reader")]
    StdoutClosed,
    /// Standard output takes no more.
    #[error("standard output: {0}")]
    Stdout(io::Error),
}

impl Failure for WriteError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store(e) => blame_of(e),
            Self::StdoutClosed => Blame::Interrupted,
            Self::Stdout(_) => Blame::Local,
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
pub(crate) enum Target {
    /// A file that has the object's beginning at its own; each mark is written over `marks`.
    File { file: FileRef, marks: FileRef },
    /// Standard output, which a mark flushes.
    Stdout,
}

enum Piece {
    Part(ProvenPart),
    Mark(Vec<u8>),
}

/// The segments that came before their turn, and the queue to the thread.
pub(crate) struct OrderedWriter {
    early: BTreeMap<u64, Verified<Segment<Bytes>>>,
    next: u64,
    waiting: VecDeque<Piece>,
    queue: Option<SyncSender<Piece>>,
    thread: Option<JoinHandle<Result<(), WriteError>>>,
}

impl OrderedWriter {
    /// Begins with segment `next`.
    pub(crate) fn new(target: Target, next: u64) -> Self {
        let (queue, pieces) = mpsc::sync_channel(QUEUE);
        let thread = thread::spawn(move || match target {
            Target::File { file, marks } => Ok(to_file(&pieces, &file, &marks)?),
            Target::Stdout => Ok(to_stdout(&pieces)?),
        });
        let (early, waiting) = (BTreeMap::new(), VecDeque::new());
        Self { early, next, waiting, queue: Some(queue), thread: Some(thread) }
    }

    /// Goes on with segment `next`: another checkpoint has another last segment.
    pub(crate) fn go_on_with(&mut self, next: u64) {
        self.early.clear();
        self.next = next;
    }

    /// Adds a segment, of which `range` of the object is wanted. `each` is given what is written, in
    /// order.
    pub(crate) fn segment(
        &mut self,
        segment: Verified<Segment<Bytes>>,
        range: &Range<u64>,
        each: &mut dyn FnMut(&ProvenPart),
    ) -> Result<(), WriteError> {
        self.early.insert(segment.index.0, segment);
        while let Some(segment) = self.early.remove(&self.next) {
            self.next += 1;
            let part = ProvenPart::of(segment, range);
            each(&part);
            if !part.bytes().is_empty() {
                self.waiting.push_back(Piece::Part(part));
            }
        }
        self.push()
    }

    /// What was given until now is complete, as `mark` says.
    pub(crate) fn mark(&mut self, mark: &[u8]) -> Result<(), WriteError> {
        self.waiting.push_back(Piece::Mark(mark.to_vec()));
        self.push()
    }

    /// Whether more should not come for now.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() > MAX_WAITING
    }

    /// Whether [`Self::push`] should be called again soon.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Hands over what the thread has room for.
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

    /// Waits until all that was given is written.
    pub(crate) fn finish(&mut self) -> Result<(), WriteError> {
        while let Some(piece) = self.waiting.pop_front() {
            // Refused only where the thread has ended, whose error `end` returns.
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

fn to_file(pieces: &Receiver<Piece>, file: &FileRef, marks: &FileRef) -> Result<(), StoreError> {
    for piece in pieces {
        match piece {
            Piece::Part(part) => part.write_to(file, 0)?,
            Piece::Mark(mark) => marks.write_all(&mark, 0)?,
        }
    }
    Ok(())
}

fn to_stdout(pieces: &Receiver<Piece>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for piece in pieces {
        match piece {
            Piece::Part(part) => out.write_all(part.bytes())?,
            Piece::Mark(_) => out.flush()?,
        }
    }
    out.flush()
}
