//! [`Versions`] and [`Dial`]: what a witness, and who asks for one, needs of a network.

use std::time::Duration;

use bytes::Bytes;
use xylem_object::Ticket;
use xylem_object::witness::SignedVersion;
use xylem_packet::Name;

use crate::error::Error;
use crate::event::LibraryEvent;
use crate::time::UnixTime;

/// Versions of one publication, as peers hand them out.
pub trait Versions {
    /// Time since an epoch of its own.
    fn now(&self) -> Duration;

    /// The time of day.
    fn clock(&self) -> UnixTime;

    /// The version that the ticket names.
    ///
    /// # Errors
    /// Nobody has it, or it was stopped.
    fn of_ticket(&mut self) -> Result<SignedVersion, Error>;

    /// This version of what the publisher calls `object`.
    ///
    /// # Errors
    /// As [`Versions::of_ticket`].
    fn version(&mut self, object: &Name, version: u64) -> Result<SignedVersion, Error>;

    /// What shows whether a file of `old_bytes` is the beginning of the version that was fetched last, put together of what was
    /// proven to be of that (`xylem_tree::consistency`).
    ///
    /// # Errors
    /// As [`Versions::of_ticket`].
    fn proof(&mut self, old_bytes: u64) -> Result<Vec<u8>, Error>;

    /// From now on keeps for [`Versions::next_answer`] what comes under this name and is of no version.
    fn watch(&mut self, object: Name);

    /// Sends an Interest to everybody who is here. Of one name only the first answer comes.
    fn ask(&mut self, interest: &[u8]);

    /// Sends everybody who is here an Interest of their own.
    ///
    /// # Errors
    /// Of what makes it.
    fn ask_each(&mut self, make: &mut dyn FnMut() -> Result<Vec<u8>, Error>) -> Result<(), Error>;

    /// The next packet that was kept.
    fn next_answer(&mut self) -> Option<Bytes>;

    /// Sleeps until something comes, or until then.
    ///
    /// # Errors
    /// It was stopped.
    fn wait(&mut self, until: Duration) -> Result<(), Error>;

    /// Whether somebody has connected since this was asked last.
    fn has_connected(&mut self) -> bool;

    /// Says what happens.
    fn tell(&mut self, event: LibraryEvent);

    /// Says what could not be done.
    fn warn(&mut self, what: String) {
        self.tell(LibraryEvent::Warning { what });
    }
}

/// Dials the peers of tickets.
pub trait Dial {
    /// What is asked of them.
    type Asked<'s>: Versions
    where
        Self: 's;

    /// The peers of this ticket; they are given up after so long.
    ///
    /// # Errors
    /// There is nobody to dial.
    fn dial(&mut self, ticket: &Ticket, give_up: Duration) -> Result<Self::Asked<'_>, Error>;
}
