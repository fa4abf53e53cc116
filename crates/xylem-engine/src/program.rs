//! [`Program`]: the code that runs on an engine, and [`Engine::run`], the one loop that all programs share.

use std::sync::Arc;
use std::time::Duration;

use mio::Waker;
use xylem_base::Stop;

use super::{Engine, EngineEvent};
use crate::error::EngineError;

/// Bytes of a program's packets between two flushes while it answers events: they fill a datagram of the largest size,
/// so that the receiver works while the next ones are made.
const ANSWERS_A_FLUSH: usize = 56 * 1024;

/// A program on an engine: a share, a fetch, a node.
///
/// [`Engine::run`] repeatedly calls [`Program::handle_timeout`], [`Program::is_done`] and [`Program::before_wait`].
/// Then it flushes, sleeps until something arrives or [`Program::poll_timeout`] passes, and hands over what arrived
/// with [`Program::handle`].
pub trait Program {
    /// The error that ends it early.
    type Error: From<EngineError>;

    /// Handles an event. Long answers to many events are sent while they are being made.
    ///
    /// # Errors
    /// An error ends the program, here and below.
    fn handle(&mut self, engine: &mut Engine, event: EngineEvent) -> Result<(), Self::Error>;

    /// Runs what is due now, by the clock or because of events: all of them have been handed over.
    ///
    /// # Errors
    /// As above.
    fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) -> Result<(), Self::Error> {
        let _ = (engine, now);
        Ok(())
    }

    /// Returns whether the program is over; `stopped`: it was asked to stop.
    fn is_done(&mut self, engine: &Engine, stopped: bool) -> bool {
        let _ = engine;
        stopped
    }

    /// The last chance to send before the engine sleeps.
    fn before_wait(&mut self, engine: &mut Engine) {
        let _ = engine;
    }

    /// When [`Program::handle_timeout`] is due, even if nothing arrives.
    fn poll_timeout(&mut self, now: Duration) -> Option<Duration> {
        let _ = now;
        None
    }
}

impl Engine {
    /// Makes a waker for the loop ([`Engine::run`]), for another thread.
    pub fn waker(&mut self) -> Result<Arc<Waker>, EngineError> {
        if let Some(waker) = &self.waker {
            return Ok(waker.clone());
        }
        let waker = self.net.polling.waker().map(Arc::new).map_err(EngineError::Start)?;
        self.waker = Some(waker.clone());
        Ok(waker)
    }

    /// Runs a program until it is done. `stop` is checked after each sleep, which takes 100 ms at most.
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
            while let Some(event) = self.net.pending.pop() {
                program.handle(self, event)?;
                if self.bytes_since_flush >= ANSWERS_A_FLUSH {
                    self.flush_links();
                }
            }
        }
    }
}
