//! [`Queue`]: what those who read want of the thread that fetches.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mio::Waker;
use xylem_object::ObjectId;

use crate::cached::{Cached, Piece};

/// Called once with what was read, on whichever thread has it first.
pub(crate) type Done = Box<dyn FnOnce(io::Result<&[u8]>) + Send>;

/// A read that what is kept did not answer.
pub(crate) struct Wanted {
    pub(crate) id: ObjectId,
    /// The bytes that somebody waits for.
    pub(crate) bytes: Range<u64>,
    /// Room for them, with what is there already.
    pub(crate) piece: Piece,
    /// Segments that are not, ascending.
    pub(crate) missing: Vec<u64>,
    pub(crate) done: Done,
}

impl Wanted {
    /// Everything is there.
    pub(crate) fn finish(mut self) {
        let bytes = self.piece.part(&self.bytes);
        (self.done)(Ok(bytes));
    }

    /// It can't be had.
    pub(crate) fn fail(self, why: &str) {
        (self.done)(Err(io::Error::other(why.to_owned())));
    }
}

pub(crate) enum Command {
    /// One more reads this file.
    Open(Arc<Cached>),
    /// One reads it no more.
    Close(ObjectId),
    Read(Box<Wanted>),
    /// These segments are likely to be wanted next.
    Ahead(ObjectId, Range<u64>),
    /// What was asked for ahead is not.
    Elsewhere(ObjectId),
}

/// Shared by all who read and the one who fetches.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Default)]
struct State {
    commands: VecDeque<Command>,
    waker: Option<Arc<Waker>>,
    ended: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing here panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over a command. Where nobody takes it any more, a read fails at once.
    pub(crate) fn push(&self, command: Command) {
        let mut state = self.state();
        if state.ended {
            drop(state);
            if let Command::Read(wanted) = command {
                wanted.fail("the reader has ended");
            }
            return;
        }
        state.commands.push_back(command);
        drop(state);
        self.wake();
    }

    /// Has the thread that fetches look up.
    pub(crate) fn wake(&self) {
        self.came.notify_one();
        let waker = self.state().waker.clone();
        // What can't be woken looks ten times a second.
        let _ = waker.map(|waker| waker.wake());
    }

    /// The next command.
    pub(crate) fn pop(&self) -> Option<Command> {
        self.state().commands.pop_front()
    }

    /// Waits for a command where no loop does.
    pub(crate) fn wait(&self, at_most: Duration) {
        let state = self.state();
        if state.commands.is_empty() {
            drop(self.came.wait_timeout(state, at_most));
        }
    }

    /// What wakes the loop that now takes commands, if one does.
    pub(crate) fn wake_by(&self, waker: Option<Arc<Waker>>) {
        self.state().waker = waker;
    }

    /// Nothing is taken any more: what is left.
    pub(crate) fn end(&self) -> VecDeque<Command> {
        let mut state = self.state();
        state.ended = true;
        state.waker = None;
        std::mem::take(&mut state.commands)
    }
}
