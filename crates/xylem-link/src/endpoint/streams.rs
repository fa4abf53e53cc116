//! Streams of a link: the calls of [`Endpoint`].

use super::{Endpoint, LinkState};
use crate::event::{LinkId, StreamId};
use crate::stream::{StreamError, StreamRead, Streams};

impl Endpoint {
    /// Opens a stream of both directions to the peer, which reports it as [`crate::LinkEvent::StreamOpened`]. It costs
    /// nothing until something is sent.
    ///
    /// # Errors
    /// [`StreamError::NoLink`], [`StreamError::NotConnected`], [`StreamError::TooMany`], or
    /// [`StreamError::GoingAway`].
    pub fn open_stream(&mut self, link: LinkId, purpose: u16) -> Result<StreamId, StreamError> {
        self.on_streams(link, |streams| streams.open(purpose))
    }

    /// Writes `data`, which is copied once. Returns how many bytes were taken, from the front. Fewer than all (also 0)
    /// means that the stream is full; [`crate::LinkEvent::StreamWritable`] follows.
    ///
    /// # Errors
    /// [`StreamError::Ended`] after `finish_stream` or `reset_stream`, [`StreamError::Stopped`] if
    /// the peer wants no more, and those of every call: [`StreamError::NoStream`],
    /// [`StreamError::NoLink`], [`StreamError::NotConnected`].
    pub fn write_stream(
        &mut self,
        link: LinkId,
        stream: StreamId,
        data: &[u8],
    ) -> Result<usize, StreamError> {
        self.on_streams(link, |streams| streams.write(stream, data))
    }

    /// Ends our half after what has been written; [`crate::LinkEvent::StreamDelivered`] follows when all of it has
    /// arrived. The peer's half goes on.
    ///
    /// # Errors
    /// As [`Endpoint::write_stream`].
    pub fn finish_stream(&mut self, link: LinkId, stream: StreamId) -> Result<(), StreamError> {
        self.on_streams(link, |streams| streams.finish(stream))
    }

    /// Ends our half at once: data that has not arrived is not sent (again). `code` gives the peer the reason.
    ///
    /// # Errors
    /// [`StreamError::Ended`] if the half has ended already, and those of every call.
    pub fn reset_stream(
        &mut self,
        link: LinkId,
        stream: StreamId,
        code: u32,
    ) -> Result<(), StreamError> {
        self.on_streams(link, |streams| streams.reset(stream, code))
    }

    /// Stops reading the peer's half: data that has come or will come is discarded, and the peer is asked to reset the
    /// half. `code` gives the reason.
    ///
    /// # Errors
    /// [`StreamError::Ended`] if the half has been read to its end or stopped before,
    /// [`StreamError::Reset`] if the peer has reset it, and those of every call.
    pub fn stop_stream(
        &mut self,
        link: LinkId,
        stream: StreamId,
        code: u32,
    ) -> Result<(), StreamError> {
        self.on_streams(link, |streams| streams.stop(stream, code))
    }

    /// The next bytes of the peer's half, in order; slices of datagrams where possible. Read until it gives
    /// [`StreamRead::Pending`] or [`StreamRead::Finished`]: only then is [`crate::LinkEvent::StreamReadable`] reported
    /// again.
    ///
    /// # Errors
    /// [`StreamError::Reset`] if the peer has given up its half, [`StreamError::Ended`] after
    /// `stop_stream`, and those of every call.
    pub fn read_stream(
        &mut self,
        link: LinkId,
        stream: StreamId,
    ) -> Result<StreamRead, StreamError> {
        self.on_streams(link, |streams| streams.read(stream))
    }

    fn on_streams<T>(
        &mut self,
        link: LinkId,
        call: impl FnOnce(&mut Streams) -> Result<T, StreamError>,
    ) -> Result<T, StreamError> {
        let entry = self.links.get_mut(&link).ok_or(StreamError::NoLink)?;
        let LinkState::Up(up) = &mut entry.state else { return Err(StreamError::NotConnected) };
        let done = call(up.streams_of_program()?)?;
        self.mark_ready(link);
        Ok(done)
    }
}

#[cfg(test)]
mod tests;
