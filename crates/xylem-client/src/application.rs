//! [`Application`]: what a program does over one connection to a forwarder.

use std::time::Duration;

use crate::{ClientError, Message, Outbox};

/// Longest wait without a look at whether the run was asked to stop.
pub const GLANCE: Duration = Duration::from_millis(100);

/// A program over one [`crate::Connection`]. A driver calls, until [`Application::is_done`]:
/// [`Application::transmit`], then waits until [`Application::poll_timeout`] at most, then
/// [`Application::handle_message`] for each packet that came.
pub trait Application {
    /// Queues what is due at `now`, and gives up what waited too long. Who only answers has nothing to do.
    ///
    /// # Errors
    /// What ends the run.
    fn transmit(&mut self, now: Duration, outbox: &mut Outbox<'_>) -> Result<(), ClientError> {
        let _ = (now, outbox);
        Ok(())
    }

    /// Takes one packet, and may queue an answer.
    ///
    /// # Errors
    /// What ends the run.
    fn handle_message(
        &mut self,
        now: Duration,
        message: Message<'_>,
        outbox: &mut Outbox<'_>,
    ) -> Result<(), ClientError>;

    /// When [`Application::transmit`] has something to do even if nothing comes.
    fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        let _ = now;
        None
    }

    /// Whether the run is over.
    fn is_done(&self) -> bool;
}
