//! Where a followed stream goes: a file or standard output, in order, written by a thread of its own, so
//! that a slow disk or reader never stalls the network.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use xylem_store::{FileRef, StoreError};

use super::log::Entry;
use crate::failure;
use crate::{Blame, Error};

/// Pieces on their way to the writer.
const QUEUE: usize = 256;
/// Pieces that wait for room in the queue before the transfer is held back.
const MAX_WAITING: usize = 512;

/// Where the writer writes.
pub enum Place {
    /// From byte `end` of `file` on; `state` takes the record of what is whole.
    File { file: FileRef, end: u64, state: FileRef },
    /// Standard output.
    Stdout,
}

enum Piece {
    Bytes(Bytes),
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
            Place::File { file, end, state } => {
                to_file(&pieces, &file, end, &state).map_err(Trouble::Store)
            }
            Place::Stdout => to_stdout(&pieces).map_err(Trouble::Io),
        });
        Self { waiting: VecDeque::new(), queue: Some(queue), writer: Some(writer) }
    }

    /// The next bytes of the stream.
    pub fn bytes(&mut self, bytes: Bytes) -> Result<(), Error> {
        if !bytes.is_empty() {
            self.waiting.push_back(Piece::Bytes(bytes));
        }
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
    file: &FileRef,
    mut end: u64,
    state: &FileRef,
) -> Result<(), StoreError> {
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => {
                file.write_all(&bytes, end)?;
                end += bytes.len() as u64;
            }
            Piece::Mark(entry) => state.write_all(&entry.encode(), 0)?,
        }
    }
    Ok(())
}

fn to_stdout(pieces: &Receiver<Piece>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => out.write_all(&bytes)?,
            Piece::Mark(_) => out.flush()?,
        }
    }
    out.flush()
}
