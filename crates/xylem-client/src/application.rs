//! [`Application`]: what a program does over one connection to a forwarder.

use std::time::Duration;

use crate::{ClientError, ForwarderMessage, PacketOutbox};

/// Longest wait before the run checks whether it was asked to stop.
pub const STOP_CHECK_EVERY: Duration = Duration::from_millis(100);

/// A program over one [`crate::Connection`]. Until [`Application::is_done`], a driver calls [`Application::transmit`],
/// waits until [`Application::poll_timeout`] at most, and then calls [`Application::handle_message`] for each packet
/// that arrived.
pub trait Application {
    /// Queues packets that are due at `now`, and gives up requests that waited too long. A program that only answers
    /// does nothing here.
    ///
    /// # Errors
    /// Any that ends the run.
    fn transmit(
        &mut self,
        now: Duration,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        let _ = (now, outbox);
        Ok(())
    }

    /// Handles one packet, and may queue an answer.
    ///
    /// # Errors
    /// Any that ends the run.
    fn handle_message(
        &mut self,
        now: Duration,
        message: ForwarderMessage<'_>,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError>;

    /// When [`Application::transmit`] is due even if nothing arrives.
    fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        let _ = now;
        None
    }

    /// Whether the run is over.
    fn is_done(&self) -> bool;
}
