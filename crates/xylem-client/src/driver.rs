//! [`Driver`]: the socket and the clock that [`Application`]s run over.

use std::time::Duration;

use crate::{Application, ClientError, Exchange, Reply};

/// How a run of an application ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was done.
    Done,
    /// It was asked to stop.
    Stopped,
}

/// A connection to a forwarder that runs one [`Application`] after the other; whether a run is asked
/// to stop is the driver's matter.
pub trait Driver: Sized {
    /// What ends a run early: an application's error, or the connection's.
    type Error: From<ClientError>;

    /// Runs an application until it is done or is asked to stop; what it queued is written.
    ///
    /// # Errors
    /// The connection ended, and what ends the application.
    fn run(&mut self, application: &mut impl Application) -> Result<Ended, Self::Error>;

    /// Randomness, with which nonces begin.
    ///
    /// # Errors
    /// The system has none.
    fn seed(&mut self) -> Result<u64, Self::Error>;

    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Where it is connected, as a URI.
    fn at(&self) -> &str;

    /// A nonce for one Interest.
    ///
    /// # Errors
    /// As for [`Driver::seed`].
    fn nonce(&mut self) -> Result<[u8; 4], Self::Error> {
        Ok((self.seed()? as u32).to_be_bytes())
    }

    /// Runs an application that has to come to its end.
    ///
    /// # Errors
    /// As for [`Driver::run`], and [`ClientError::Interrupted`] if it was asked to stop.
    fn finish(&mut self, application: &mut impl Application) -> Result<(), Self::Error> {
        match self.run(application)? {
            Ended::Done => Ok(()),
            Ended::Stopped => Err(ClientError::Interrupted.into()),
        }
    }

    /// Sends one Interest and waits for its answer.
    ///
    /// # Errors
    /// As for [`Driver::finish`], and if `interest` is none.
    fn fetch(&mut self, interest: Vec<u8>, patience: Duration) -> Result<Reply, Self::Error> {
        let mut exchange = Exchange::new(interest, patience)?;
        self.finish(&mut exchange)?;
        Ok(exchange.into_reply())
    }
}
