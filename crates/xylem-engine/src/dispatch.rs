//! Packets out: the forwarder's packets go through the face's link service to its transport at once, without being kept
//! or copied more often than the transport needs.

use std::time::Duration;

use bytes::Bytes;
use xylem_forward::{FaceId, LearnedRoute, OutgoingPacket, Outlet};
use xylem_packet::link_service::LinkHeaders;
use xylem_peers::admission::FaceStanding;

use super::{EngineEvent, Network};
use crate::admitting::UnprovenPeers;
use crate::faces::{EngineFace, Transport};
use crate::plain_sockets::PlainSockets;
use xylem_link::Endpoint;

/// Receives the forwarder's packets while one incoming packet is handled.
pub(super) struct Dispatch<'a> {
    net: &'a mut Network,
    now: Duration,
    /// The face that the handled packet came from.
    from: FaceId,
    /// The memory of this packet: parts for the program are sliced, not copied.
    backing: &'a Bytes,
}

impl<'a> Dispatch<'a> {
    pub(super) fn new(
        net: &'a mut Network,
        now: Duration,
        from: FaceId,
        backing: &'a Bytes,
    ) -> Self {
        Self { net, now, from, backing }
    }

    /// Runs the timer of a face's link service, which may send.
    pub(super) fn link_service_timeout(&mut self, id: FaceId) {
        let Network { faces, endpoint, plain_sockets, unproven, .. } = &mut *self.net;
        let Some(face) = faces.get_mut(id) else { return };
        let EngineFace { link_service, transport, .. } = face;
        let now = self.now;
        let mut wire = FaceSockets { now, endpoint, plain_sockets, unproven };
        link_service.handle_timeout(self.now, &mut |frame| wire.write(transport, frame));
        faces.note_unflushed(id);
    }
}

impl Outlet for Dispatch<'_> {
    fn on_learned(&mut self, lesson: LearnedRoute<'_>) {
        let (face, name, announcement) = match lesson {
            LearnedRoute::Announced { face, name, announcement } => {
                (face, name, Some(announcement))
            }
            LearnedRoute::NoRoute { face, name } => (face, name, None),
        };
        let (name, announcement) = (name.to_name(), announcement.map(<[u8]>::to_vec));
        self.net.pending.push(EngineEvent::LearnedRoute { face, name, announcement });
    }

    #[inline]
    fn send(&mut self, to: FaceId, out: OutgoingPacket<'_>) {
        let Network {
            faces,
            endpoint,
            plain_sockets,
            pending,
            carriers,
            admission,
            unproven: unproven_peers,
            ..
        } = &mut *self.net;
        let Some(face) = faces.get_mut(to) else { return };
        if let Transport::Internal = face.transport {
            let from = out.incoming_face.unwrap_or(self.from);
            let packet = slice_of(self.backing, out.packet);
            let marked = out.congestion_mark.is_some_and(|mark| mark > 0);
            pending.push(EngineEvent::Packet { from, packet, nack: out.nack, marked });
            return;
        }
        // An answer brings the token back, which proves the address that it came from.
        let token = match &mut face.transport {
            Transport::Udp { unproven: Some(unproven), .. }
                if out.nack.is_none() && !is_data(out.packet) =>
            {
                unproven.token(|| xylem_base::random().ok())
            }
            _ => None,
        };
        let headers = LinkHeaders {
            pit_token: out.pit_token.or(token.as_ref().map(|token| &token[..])),
            nack: out.nack,
            congestion_mark: out.congestion_mark,
            incoming_face_id: out.incoming_face.map(|face| face.0),
            non_discovery: out.non_discovery,
            prefix_announcement: out.announcement,
            ..LinkHeaders::default()
        };
        let queued = match face.transport {
            Transport::Link(link) => carriers.unsent(link),
            _ => face.unsent(),
        };
        let EngineFace { link_service, transport, .. } = face;
        let now = self.now;
        let unproven = &mut *unproven_peers;
        let mut wire = FaceSockets { now, endpoint, plain_sockets, unproven };
        // A packet that a link service can't carry is lost, as on a network.
        let _ = link_service.send(self.now, out.packet, &headers, queued, &mut |frame| {
            wire.write(transport, frame);
        });
        if let Transport::Udp { unproven: Some(unproven), .. } = &face.transport
            && unproven.wants_proof()
        {
            unproven_peers.challenge(to);
        }
        if let Some(seat) = face.seat
            && out.nack.is_none()
            && is_data(out.packet)
        {
            admission.raise(seat, FaceStanding::Useful);
        }
        let (wants_flush, has_timer) =
            (face.wants_flush(), face.link_service.poll_timeout().is_some());
        if wants_flush {
            faces.note_unflushed(to);
        }
        if has_timer {
            faces.note_timer(to);
        }
    }
}

/// The sockets that faces share.
struct FaceSockets<'a> {
    now: Duration,
    endpoint: &'a mut Endpoint,
    plain_sockets: &'a mut PlainSockets,
    unproven: &'a mut UnprovenPeers,
}

impl FaceSockets<'_> {
    /// A full queue drops the frame as a full router would.
    #[inline]
    fn write(&mut self, transport: &mut Transport, frame: &[u8]) {
        match transport {
            Transport::Stream(stream) => drop(stream.queue(frame)),
            Transport::Link(link) => drop(self.endpoint.send(*link, frame)),
            Transport::Udp { socket, remote, unproven } => {
                let (now, peers) = (self.now, &mut *self.unproven);
                let draw = |missing| peers.draw(now, remote.ip(), missing);
                if unproven.as_mut().is_none_or(|unproven| unproven.may_send(frame, draw)) {
                    self.plain_sockets.queue(*socket, *remote, frame);
                }
            }
            Transport::Multicast(group) => self.plain_sockets.send_to_group(*group, frame),
            Transport::Ethernet { device, remote } => {
                self.plain_sockets.ethernet.send(*device, *remote, frame);
            }
            Transport::WebSocket(socket) => drop(socket.queue(frame)),
            Transport::Internal | Transport::Down(_) => {}
        }
    }
}

/// Returns whether a packet that the forwarder has parsed is a Data.
pub(super) fn is_data(packet: &[u8]) -> bool {
    packet.first() == Some(&6)
}

/// The range of `part` within `whole`, if it lies there.
pub(super) fn place_in(whole: &[u8], part: &[u8]) -> Option<std::ops::Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    let end = start.checked_add(part.len())?;
    (end <= whole.len()).then_some(start..end)
}

fn slice_of(backing: &Bytes, packet: &[u8]) -> Bytes {
    match place_in(backing, packet) {
        Some(range) if !packet.is_empty() => backing.slice(range),
        _ => Bytes::copy_from_slice(packet),
    }
}
