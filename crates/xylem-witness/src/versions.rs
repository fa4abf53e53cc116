//! [`VersionSource`] and [`DialVersions`]: the network access that witnesses and getters need.

use std::time::Duration;

use bytes::Bytes;
use xylem_base::{Failure, UnixTime};
use xylem_files::LibraryEvent;
use xylem_object::Ticket;
use xylem_object::witness::SignedVersion;
use xylem_packet::Name;

use super::newest::QuestionError;

/// Versions of one publication, as peers serve them.
pub trait VersionSource {
    /// Why peers do not send a version.
    type Error: Failure + 'static;

    /// Returns the time since an epoch of its own.
    fn now(&self) -> Duration;

    /// Returns the time of day.
    fn clock(&self) -> UnixTime;

    /// Fetches the version that the ticket names.
    ///
    /// # Errors
    /// No peer has it, or it was stopped.
    fn of_ticket(&mut self) -> Result<SignedVersion, Self::Error>;

    /// Fetches this version of the publisher's `object`.
    ///
    /// # Errors
    /// As [`VersionSource::of_ticket`].
    fn version(&mut self, object: &Name, version: u64) -> Result<SignedVersion, Self::Error>;

    /// Makes the proof whether a file of `old_bytes` is a prefix of the version that was fetched last. Its parts were
    /// verified against that version (`xylem_tree::consistency`).
    ///
    /// # Errors
    /// As [`VersionSource::of_ticket`].
    fn proof(&mut self, old_bytes: u64) -> Result<Vec<u8>, Self::Error>;

    /// From now on, keeps packets below this name that belong to no version for [`VersionSource::next_answer`].
    fn watch(&mut self, object: Name);

    /// Sends an Interest to all connected peers. Only the first answer to a name arrives.
    fn ask(&mut self, interest: &[u8]);

    /// Sends each connected peer an Interest of its own.
    ///
    /// # Errors
    /// Those of `make`.
    fn ask_each(
        &mut self,
        make: &mut dyn FnMut() -> Result<Vec<u8>, QuestionError>,
    ) -> Result<(), QuestionError>;

    /// Takes the next packet that was kept.
    fn next_answer(&mut self) -> Option<Bytes>;

    /// Sleeps until something arrives, or until that time.
    ///
    /// # Errors
    /// It was stopped.
    fn wait(&mut self, until: Duration) -> Result<(), Self::Error>;

    /// Returns whether a peer has connected since the last call.
    fn has_connected(&mut self) -> bool;

    /// Reports an event.
    fn tell(&mut self, event: LibraryEvent);

    /// Reports a warning.
    fn warn(&mut self, what: String) {
        self.tell(LibraryEvent::Warning { what });
    }
}

/// Dials the peers of tickets.
pub trait DialVersions {
    /// Why peers cannot be dialled, or do not send a version.
    type Error: Failure + 'static;

    /// Access to the peers that were dialled.
    type VersionFetch<'s>: VersionSource<Error = Self::Error>
    where
        Self: 's;

    /// Dials the peers of this ticket, and gives up on them after `give_up`.
    ///
    /// # Errors
    /// There is no peer to dial.
    fn dial(
        &mut self,
        ticket: &Ticket,
        give_up: Duration,
    ) -> Result<Self::VersionFetch<'_>, Self::Error>;
}
