//! [`Driver`]: the socket and the clock that [`Application`]s run over.

use std::time::Duration;

use crate::{Application, ClientError, Exchange, ExchangeReply};

/// How a run of an application ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The application was done.
    Done,
    /// The run was asked to stop.
    Stopped,
}

/// A connection to a forwarder that runs one [`Application`] after the other. The driver knows whether a run is asked
/// to stop.
pub trait Driver: Sized {
    /// An error that ends a run early: an application's, or the connection's.
    type Error: From<ClientError>;

    /// Runs an application until it is done or is asked to stop. Writes all that it queued.
    ///
    /// # Errors
    /// The end of the connection, and any error of the application.
    fn run(&mut self, application: &mut impl Application) -> Result<RunEnd, Self::Error>;

    /// A random number, from which nonces start.
    ///
    /// # Errors
    /// The system has no randomness.
    fn seed(&mut self) -> Result<u64, Self::Error>;

    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// The forwarder's URI.
    fn at(&self) -> &str;

    /// A nonce for one Interest.
    ///
    /// # Errors
    /// As for [`Driver::seed`].
    fn nonce(&mut self) -> Result<[u8; 4], Self::Error> {
        Ok((self.seed()? as u32).to_be_bytes())
    }

    /// Runs an application that has to finish.
    ///
    /// # Errors
    /// As for [`Driver::run`], and [`ClientError::Interrupted`] if it was asked to stop.
    fn finish(&mut self, application: &mut impl Application) -> Result<(), Self::Error> {
        match self.run(application)? {
            RunEnd::Done => Ok(()),
            RunEnd::Stopped => Err(ClientError::Interrupted.into()),
        }
    }

    /// Sends one Interest and waits for its answer.
    ///
    /// # Errors
    /// As for [`Driver::finish`], and if `interest` is no Interest.
    fn fetch(
        &mut self,
        interest: Vec<u8>,
        patience: Duration,
    ) -> Result<ExchangeReply, Self::Error> {
        let mut exchange = Exchange::new(interest, patience)?;
        self.finish(&mut exchange)?;
        Ok(exchange.into_reply())
    }
}
