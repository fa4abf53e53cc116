//! [`ReaderQueue`]: requests of reading threads to the fetching one.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mio::Waker;
use xylem_object::ObjectId;

use crate::cached::{Cached, SegmentBytes};

/// Called once with the bytes read, on the thread that has them first.
pub(crate) type OnRead = Box<dyn FnOnce(io::Result<&[u8]>) + Send>;

/// A read that the store could not answer in full.
pub(crate) struct MissingRead {
    pub(crate) id: ObjectId,
    /// The bytes to be read.
    pub(crate) bytes: Range<u64>,
    /// Space for them, with the stored ones filled in.
    pub(crate) piece: SegmentBytes,
    /// Segments that are missing, ascending.
    pub(crate) missing: Vec<u64>,
    pub(crate) done: OnRead,
}

impl MissingRead {
    /// Completes a read after all of its bytes have arrived.
    pub(crate) fn finish(mut self) {
        let bytes = self.piece.part(&self.bytes);
        (self.done)(Ok(bytes));
    }

    /// Fails a read.
    pub(crate) fn fail(self, why: &str) {
        (self.done)(Err(io::Error::other(why.to_owned())));
    }
}

pub(crate) enum ReaderCommand {
    /// A further handle reads this file.
    Open(Arc<Cached>),
    /// A handle of this file was closed.
    Close(ObjectId),
    Read(Box<MissingRead>),
    /// These segments are likely to be read next.
    Ahead(ObjectId, Range<u64>),
    /// The segments requested ahead are no longer likely.
    Elsewhere(ObjectId),
}

/// The queue shared by all reading threads and the fetching one.
#[derive(Default)]
pub(crate) struct ReaderQueue {
    state: Mutex<ReaderQueueState>,
    came: Condvar,
}

#[derive(Default)]
struct ReaderQueueState {
    commands: VecDeque<ReaderCommand>,
    waker: Option<Arc<Waker>>,
    ended: bool,
}

impl ReaderQueue {
    fn state(&self) -> MutexGuard<'_, ReaderQueueState> {
        // No code here panics in the middle of a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a command. After the end, a read fails at once.
    pub(crate) fn push(&self, command: ReaderCommand) {
        let mut state = self.state();
        if state.ended {
            drop(state);
            if let ReaderCommand::Read(wanted) = command {
                wanted.fail("the reader has ended");
            }
            return;
        }
        state.commands.push_back(command);
        drop(state);
        self.wake();
    }

    /// Wakes the fetching thread.
    pub(crate) fn wake(&self) {
        self.came.notify_one();
        let waker = self.state().waker.clone();
        // If waking fails, the thread still looks ten times a second.
        let _ = waker.map(|waker| waker.wake());
    }

    /// The next command.
    pub(crate) fn pop(&self) -> Option<ReaderCommand> {
        self.state().commands.pop_front()
    }

    /// Waits for a command, when no event loop runs.
    pub(crate) fn wait(&self, at_most: Duration) {
        let state = self.state();
        if state.commands.is_empty() {
            drop(self.came.wait_timeout(state, at_most));
        }
    }

    /// Sets the waker of the event loop that takes commands, if one runs.
    pub(crate) fn wake_by(&self, waker: Option<Arc<Waker>>) {
        self.state().waker = waker;
    }

    /// Ends the queue, and returns the commands left in it.
    pub(crate) fn end(&self) -> VecDeque<ReaderCommand> {
        let mut state = self.state();
        state.ended = true;
        state.waker = None;
        std::mem::take(&mut state.commands)
    }
}
