//! Where a followed stream goes: a file or standard output, in order, written by a thread of its own, so
//! that a slow disk or reader never stalls the network.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use xylem_store::{FileRef, GrowingFile, StoreError, VerifiedStream};
use xylem_tree::consistency::Continuation;
use xylem_tree::{Checkpoint, Segment, Verified};

use super::log::Entry;
use crate::failure;
use crate::{Blame, Error};

/// Pieces on their way to the writer.
const QUEUE: usize = 256;
/// Pieces that wait for room in the queue before the transfer is held back.
const MAX_WAITING: usize = 512;

/// Where the writer writes.
pub enum Place {
    /// The end of a file; `state` takes the record of what is whole.
    File { file: GrowingFile, state: FileRef },
    /// Standard output, which begins with what comes after this checkpoint.
    Stdout(Checkpoint),
}

enum Piece {
    Segment(Verified<Segment<Bytes>>),
    /// What comes from here on is of a newer checkpoint.
    Continuation(Continuation),
    /// All that came before it is a verified checkpoint.
    Mark(Entry),
}

/// Why the writer ended.
enum Trouble {
    Store(StoreError),
    Io(io::Error),
}

/// The queue to the thread.
pub struct Output {
    waiting: VecDeque<Piece>,
    queue: Option<SyncSender<Piece>>,
    writer: Option<JoinHandle<Result<(), Trouble>>>,
}

impl Output {
    pub fn new(place: Place) -> Self {
        let (queue, pieces) = mpsc::sync_channel(QUEUE);
        let writer = thread::spawn(move || match place {
            Place::File { file, state } => to_file(&pieces, file, &state).map_err(Trouble::Store),
            Place::Stdout(begun) => to_stdout(&pieces, &begun).map_err(Trouble::Io),
        });
        Self { waiting: VecDeque::new(), queue: Some(queue), writer: Some(writer) }
    }

    /// The next segment of the stream.
    pub fn segment(&mut self, segment: Verified<Segment<Bytes>>) -> Result<(), Error> {
        self.waiting.push_back(Piece::Segment(segment));
        self.turn()
    }

    /// What comes from here on is of a newer checkpoint.
    pub fn advance(&mut self, to: Continuation) -> Result<(), Error> {
        self.waiting.push_back(Piece::Continuation(to));
        self.turn()
    }

    /// What was given until now is this checkpoint.
    pub fn mark(&mut self, entry: Entry) -> Result<(), Error> {
        self.waiting.push_back(Piece::Mark(entry));
        self.turn()
    }

    /// Whether more should not come for now.
    pub fn is_full(&self) -> bool {
        self.waiting.len() > MAX_WAITING
    }

    /// Whether [`Self::turn`] should be called again soon.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Hands over what the writer has room for.
    pub fn turn(&mut self) -> Result<(), Error> {
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
    pub fn finish(mut self) -> Result<(), Error> {
        while let Some(piece) = self.waiting.pop_front() {
            // Refused only where the writer has ended, which `end` tells.
            let sent = self.queue.as_ref().is_some_and(|queue| queue.send(piece).is_ok());
            if !sent {
                break;
            }
        }
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        self.queue = None;
        match self.writer.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(Trouble::Store(e)))) => Err(failure::store(&e)),
            Some(Ok(Err(Trouble::Io(e)))) if e.kind() == io::ErrorKind::BrokenPipe => {
                let message = "standard output was closed by its reader".to_owned();
                Err(Error { blame: Blame::Interrupted, message })
            }
            Some(Ok(Err(Trouble::Io(e)))) => Err(failure::local("standard output", &e)),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

fn to_file(
    pieces: &Receiver<Piece>,
    mut file: GrowingFile,
    state: &FileRef,
) -> Result<(), StoreError> {
    for piece in pieces {
        match piece {
            Piece::Segment(segment) => file.put(&segment)?,
            Piece::Continuation(to) => file.advance(&to)?,
            Piece::Mark(entry) => state.write_all(&entry.encode(), 0)?,
        }
    }
    Ok(())
}

fn to_stdout(pieces: &Receiver<Piece>, begun: &Checkpoint) -> io::Result<()> {
    let mut out = VerifiedStream::growing(io::stdout().lock(), begun);
    for piece in pieces {
        match piece {
            Piece::Segment(segment) => out.put(&segment)?,
            Piece::Continuation(to) => out.advance(&to)?,
            Piece::Mark(_) => out.flush()?,
        }
    }
    out.flush()
}
