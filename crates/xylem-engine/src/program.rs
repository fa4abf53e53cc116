//! [`Program`]: what runs on an engine, and [`Engine::run`], the one loop that all of them share.

use std::sync::Arc;
use std::time::Duration;

use mio::{Token, Waker};

use super::{Engine, EngineEvent};
use crate::error::EngineError;
use xylem_library::Stop;

/// Bytes of a program's packets between two flushes while it answers what has come: those that fill
/// a datagram of the largest size, so that the receiver works while the next ones are made.
const ANSWERS_A_FLUSH: usize = 56 * 1024;

/// What runs on an engine: a share, a fetch, a node.
///
/// [`Engine::run`] calls, again and again: [`Program::handle_timeout`], [`Program::is_done`],
/// [`Program::before_wait`]; then it flushes, sleeps until something comes or
/// [`Program::poll_timeout`] passes, and hands over what came with [`Program::handle`].
pub trait Program {
    /// Why it ends early.
    type Error: From<EngineError>;

    /// Something came. Long answers to many of these leave in the middle of them.
    ///
    /// # Errors
    /// Whatever ends the program, here and below.
    fn handle(&mut self, engine: &mut Engine, event: EngineEvent) -> Result<(), Self::Error>;

    /// Everything that came has been handed over: does what is due now, for that or by the clock.
    ///
    /// # Errors
    /// As above.
    fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) -> Result<(), Self::Error> {
        let _ = (engine, now);
        Ok(())
    }

    /// Whether the program is over; `stopped`: it was asked to stop.
    fn is_done(&mut self, engine: &Engine, stopped: bool) -> bool {
        let _ = engine;
        stopped
    }

    /// The last chance to send before the engine sleeps.
    fn before_wait(&mut self, engine: &mut Engine) {
        let _ = engine;
    }

    /// When [`Program::handle_timeout`] has something to do, even if nothing comes.
    fn poll_timeout(&mut self, now: Duration) -> Option<Duration> {
        let _ = now;
        None
    }
}

impl Engine {
    /// Wakes the loop ([`Engine::run`]) from another thread.
    pub fn waker(&mut self) -> Result<Arc<Waker>, EngineError> {
        // A poll may have one only.
        if let Some(waker) = &self.waker {
            return Ok(waker.clone());
        }
        // No source has this token, so that waking is all that it does.
        let token = Token(self.net.next_token);
        self.net.next_token += 1;
        let waker = Waker::new(self.net.poll.registry(), token).map(Arc::new);
        let waker = waker.map_err(EngineError::Start)?;
        self.waker = Some(waker.clone());
        Ok(waker)
    }

    /// Runs a program until it is done. `stop` is looked at after each sleep, which is 100 ms long at
    /// most.
    ///
    /// # Errors
    /// The program's own, and sockets that fail.
    pub fn run<P: Program>(&mut self, program: &mut P, stop: &Stop) -> Result<(), P::Error> {
        tracing::debug!(program = std::any::type_name::<P>(), "runs");
        loop {
            program.handle_timeout(self, self.now())?;
            if program.is_done(self, stop.raised()) {
                tracing::debug!(program = std::any::type_name::<P>(), "is done");
                return Ok(());
            }
            program.before_wait(self);
            self.flush();
            self.wait(program.poll_timeout(self.now())).map_err(EngineError::Sockets)?;
            while let Some(event) = self.net.pending.pop_front() {
                program.handle(self, event)?;
                if self.bytes_since_flush >= ANSWERS_A_FLUSH {
                    self.flush_links();
                }
            }
        }
    }
}
