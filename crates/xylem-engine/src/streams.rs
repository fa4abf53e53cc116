//! Reliable streams of encrypted links: calls for the program, and events for it.

use std::net::SocketAddr;

use xylem_forward::FaceId;
use xylem_link::{LinkEvent, LinkId, PeerKey, REFUSED, StreamError, StreamId, StreamRead};

use super::{Engine, Network};
use crate::event::{EngineEvent, StreamEvent};
use crate::faces::{EngineFace, Transport};

impl Engine {
    fn link_of(&self, face: FaceId) -> Result<LinkId, StreamError> {
        match self.net.faces.get(face) {
            Some(EngineFace { transport: Transport::Link(link), .. }) => Ok(*link),
            _ => Err(StreamError::NoLink),
        }
    }

    /// The key that the other end of a link has proven.
    pub fn link_peer(&self, face: FaceId) -> Option<PeerKey> {
        self.net.endpoint.link(self.link_of(face).ok()?).map(|link| link.peer())
    }

    /// The address of the other end of a link, if datagrams go there directly.
    pub fn link_at(&self, face: FaceId) -> Option<SocketAddr> {
        let at = self.net.endpoint.link(self.link_of(face).ok()?)?.remote();
        let made_up = self.net.carriers.is_synthetic(at) || self.net.reaching.is_synthetic(at);
        (!made_up).then_some(at)
    }

    /// Opens a stream to the other end of a link.
    ///
    /// # Errors
    /// Those of [`xylem_link::Endpoint::open_stream`]; [`StreamError::NoLink`] for a face of another
    /// kind, here and below.
    pub fn open_stream(&mut self, face: FaceId, purpose: u16) -> Result<StreamId, StreamError> {
        self.net.endpoint.open_stream(self.link_of(face)?, purpose)
    }

    /// Writes as much as there is room for; returns the number of bytes.
    pub fn write_stream(
        &mut self,
        face: FaceId,
        stream: StreamId,
        bytes: &[u8],
    ) -> Result<usize, StreamError> {
        self.net.endpoint.write_stream(self.link_of(face)?, stream, bytes)
    }

    /// The next bytes.
    pub fn read_stream(
        &mut self,
        face: FaceId,
        stream: StreamId,
    ) -> Result<StreamRead, StreamError> {
        self.net.endpoint.read_stream(self.link_of(face)?, stream)
    }

    /// Ends this half.
    pub fn finish_stream(&mut self, face: FaceId, stream: StreamId) -> Result<(), StreamError> {
        self.net.endpoint.finish_stream(self.link_of(face)?, stream)
    }

    /// Refuses a stream that the peer has just opened, for a program that accepts none.
    pub fn refuse_stream(&mut self, face: FaceId, stream: StreamId, what: StreamEvent) {
        if matches!(what, StreamEvent::Opened { .. }) {
            self.abandon_stream(face, stream, REFUSED);
        }
    }

    /// Resets this half and stops reading the other.
    pub fn abandon_stream(&mut self, face: FaceId, stream: StreamId, code: u32) {
        let Ok(link) = self.link_of(face) else { return };
        // The stream may be gone already.
        let _ = self.net.endpoint.reset_stream(link, stream, code);
        let _ = self.net.endpoint.stop_stream(link, stream, code);
    }
}

impl Network {
    /// Reports a stream's event to the program.
    pub(super) fn stream_event(&mut self, event: &LinkEvent) {
        let (link, stream, what) = match event {
            LinkEvent::StreamOpened { link, stream, purpose } => {
                (link, stream, StreamEvent::Opened { purpose: *purpose })
            }
            LinkEvent::StreamReadable { link, stream } => (link, stream, StreamEvent::Readable),
            LinkEvent::StreamWritable { link, stream } => (link, stream, StreamEvent::Writable),
            LinkEvent::StreamReset { link, stream, .. } => (link, stream, StreamEvent::Reset),
            LinkEvent::StreamStopped { link, stream, .. } => (link, stream, StreamEvent::Stopped),
            LinkEvent::StreamDelivered { link, stream } => (link, stream, StreamEvent::Delivered),
            _ => return,
        };
        if let Some(face) = self.faces.of_link(*link) {
            self.pending.push(EngineEvent::Stream { face, stream: *stream, what });
        }
    }
}
