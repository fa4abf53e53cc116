//! [`ShareStreams`]: the parts of a share that speak over streams with peers.
//!
//! Each method names every part, so that the compiler reports one to which an event is not given.

use std::time::Duration;

use xylem_engine::{Engine, RelayNotice, StreamEvent};
use xylem_forward::FaceId;
use xylem_link::StreamId;

use super::mesh::Mesh;
use crate::code::CodeServer;
use crate::event::Event;
use crate::mail::MailServer;

/// See the module's documentation.
pub(super) struct ShareStreams {
    /// Shows a code for a ticket.
    code: Option<CodeServer>,
    /// The group in which this service is a member.
    mesh: Option<Mesh>,
    /// Receives mail.
    mail: MailServer,
}

impl ShareStreams {
    /// Receives mail; the other parts begin later.
    pub(super) fn new(mail: MailServer) -> Self {
        Self { code: None, mesh: None, mail }
    }

    /// Shows a code from now on.
    pub(super) fn show(&mut self, code: CodeServer) {
        self.code = Some(code);
    }

    pub(super) fn shows_code(&self) -> bool {
        self.code.is_some()
    }

    /// The key of the relay by which getters with the code come here.
    pub(super) fn code_relay(&self) -> Option<[u8; 32]> {
        self.code.as_ref().and_then(CodeServer::relay)
    }

    /// Whether getters with the code find it in the DHT; `None` without a code.
    pub(super) fn code_in_dht(&self) -> Option<bool> {
        self.code.as_ref().and_then(CodeServer::in_dht)
    }

    /// Speaks with the members of a group from now on.
    pub(super) fn join(&mut self, mesh: Mesh) {
        self.mesh = Some(mesh);
    }

    /// The group in which this service is a member.
    pub(super) fn mesh(&mut self) -> Option<&mut Mesh> {
        self.mesh.as_mut()
    }

    /// Whether no peer delivers or fetches mail now.
    pub(super) fn mail_is_idle(&self) -> bool {
        self.mail.is_empty()
    }

    pub(super) fn face_up(&mut self, engine: &mut Engine, face: FaceId) {
        // Code and mail begin with a stream of the peer's.
        let Self { code: _, mesh, mail: _ } = self;
        mesh.iter_mut().for_each(|mesh| mesh.came_up(engine, face));
    }

    pub(super) fn face_down(&mut self, now: Duration, face: FaceId) {
        let Self { code, mesh, mail } = self;
        mail.face_down(face);
        code.iter_mut().for_each(|code| code.face_down(face));
        mesh.iter_mut().for_each(|mesh| mesh.face_down(now, face));
    }

    /// Gives a stream's event to the part that the stream belongs to. Mail refuses streams that belong to none.
    pub(super) fn handle(
        &mut self,
        engine: &mut Engine,
        face: FaceId,
        stream: StreamId,
        what: StreamEvent,
    ) {
        let Self { code, mesh, mail } = self;
        let is_taken = code.as_mut().is_some_and(|code| code.handle(engine, face, stream, what))
            || mesh.as_mut().is_some_and(|mesh| mesh.handle(engine, face, stream, &what));
        if !is_taken {
            mail.handle(engine, face, stream, what);
        }
    }

    /// Handles a relay's notice; returns whether it concerns a part alone.
    pub(super) fn handle_relay(
        &mut self,
        engine: &mut Engine,
        relay: [u8; 32],
        what: &RelayNotice,
    ) -> bool {
        let Self { code, mesh: _, mail: _ } = self;
        code.as_mut().is_some_and(|code| code.handle_relay(engine, relay, what))
    }

    pub(super) fn handle_timeout(
        &mut self,
        engine: &mut Engine,
        now: Duration,
        on_event: &mut dyn FnMut(Event),
    ) {
        let Self { code, mesh, mail } = self;
        code.iter_mut().for_each(|code| code.handle_timeout(engine, now, on_event));
        mesh.iter_mut().for_each(|mesh| mesh.handle_timeout(engine, now));
        mail.poll(engine, on_event);
    }

    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        // A thread wakes the engine for mail.
        let Self { code, mesh, mail: _ } = self;
        let code = code.as_ref().and_then(CodeServer::poll_timeout);
        code.into_iter().chain(mesh.as_ref().and_then(Mesh::poll_timeout)).min()
    }
}
