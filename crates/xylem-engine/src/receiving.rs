//! Packets in: from each kind of socket to the forwarder.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use xylem_forward::{DropReason, FaceId, FaceScope, IncomingPacket};
use xylem_link::{CloseReason, LinkEvent};
use xylem_packet::{MAX_PIT_TOKEN, frame_len};
use xylem_peers::admission::FaceStanding;
use xylem_peers::reachable::PeerAddress;

use super::dispatch::{Dispatch, is_data, place_in};
use super::{Engine, EngineEvent, FaceEnd, PollSource};
use crate::faces::{EngineFace, Transport};
use crate::link_sockets::ReceivedAs;
use xylem_sockets::ReceivedTrain;

/// The NDNLPv2 congestion mark that replaces a datagram's own (ECN CE).
const CONGESTED: u64 = 1;

/// The origin of a frame.
#[derive(Clone, Copy)]
pub(super) struct FrameOrigin {
    pub(super) face: FaceId,
    /// Distinguishes the fragments of several senders on one face.
    pub(super) sender: u64,
    /// The datagram that it came in, or the last of several, had met congestion.
    pub(super) marked: bool,
}

impl Engine {
    pub(super) fn receive_link(&mut self, i: usize, source: PollSource) -> io::Result<()> {
        let now = self.now();
        let super::Network { link_sockets, endpoint, limits, carriers, reaching, sharers, .. } =
            &mut self.net;
        let more = link_sockets.receive(i, limits.faces, &mut |from, marked, datagram| {
            // No network interface has one of our synthetic addresses.
            let is_synthetic = carriers.is_synthetic(from) || reaching.is_synthetic(from);
            if is_synthetic || sharers.take_in(now, from, &datagram) {
                return ReceivedAs::Other;
            }
            let Some((from, datagram)) = reaching.take_in(now, from, datagram) else {
                return ReceivedAs::Link(None);
            };
            endpoint.handle_marked_datagram(now, from, marked, datagram);
            ReceivedAs::Link(endpoint.take_opened_datagram())
        })?;
        self.drain_endpoint(now);
        self.drain_relays(now);
        self.net.link_sockets.give_back_opened(i);
        if more {
            self.net.polling.unfinished(source);
        }
        Ok(())
    }

    pub(super) fn drain_endpoint(&mut self, now: Duration) {
        while let Some(event) = self.net.endpoint.poll_event() {
            if self.drop_guest_event(&event)
                || self.handle_relay_link_event(now, &event)
                || self.handle_path_event(&event)
            {
                continue;
            }
            match event {
                LinkEvent::Packet { link, packet, marked } => {
                    if let Some(face) = self.net.faces.of_link(link) {
                        self.take_in_from(
                            now,
                            FrameOrigin { face, sender: 0, marked },
                            &packet,
                            &packet,
                        );
                    }
                }
                LinkEvent::Connected { link, remote, dial, .. } => {
                    tracing::debug!(%remote, "handshake is done");
                    let known = self.net.faces.of_link(link);
                    if known.is_none()
                        && let Some(dial) = dial
                    {
                        self.take_extra_link(link, dial);
                    } else if let Some(id) = known.or_else(|| self.face_of_new_link(link, remote)) {
                        // A program that dials by a knock judges all answers; others keep the first.
                        if self.net.beside.knock().is_none() {
                            self.net.endpoint.keep(link);
                        }
                        self.came_up(id);
                    }
                }
                LinkEvent::OtherKey { link, .. } => {
                    let face = self.net.faces.of_link(link);
                    if let Some(face) = face {
                        self.net.pending.push(EngineEvent::OtherKey { face });
                    }
                }
                LinkEvent::Closed { link, reason } => {
                    tracing::debug!(%reason, "link has ended");
                    self.net.beside.take_standby(link);
                    self.net.relay_event(&event);
                    let Some(id) = self.net.faces.of_link(link) else { continue };
                    let peer = self.face(id).and_then(|face| face.peer.as_ref());
                    let openly = self.net.beside.knock().is_none()
                        && peer.is_some_and(PeerAddress::is_keyless);
                    match reason {
                        CloseReason::HandshakeTimeout if openly => {
                            self.fail_face(id, FaceEnd::Keyless);
                        }
                        _ => self.fail_face(id, reason),
                    }
                }
                other if self.net.relay_event(&other) => {}
                other => self.net.stream_event(&other),
            }
        }
    }

    pub(super) fn receive_udp(&mut self, i: usize, source: PollSource) -> io::Result<()> {
        let (mut trains, more) = self.net.plain_sockets.receive(i)?;
        let now = self.now();
        for train in trains.drain(..) {
            let face = match self.net.faces.of_udp(i, train.from) {
                Some(face) => Some(face),
                None => self.accept_udp(i, &train, now),
            };
            if let Some(face) = face {
                self.take_in_train(
                    now,
                    FrameOrigin { face, sender: 0, marked: train.marked },
                    &train,
                );
            }
            self.net.plain_sockets.give_back(i, train.bytes);
        }
        self.net.plain_sockets.end_read(trains);
        if more {
            self.net.polling.unfinished(source);
        }
        Ok(())
    }

    pub(super) fn receive_multicast(&mut self, i: usize, source: PollSource) -> io::Result<()> {
        let (mut trains, more) = self.net.plain_sockets.receive_group(i)?;
        let now = self.now();
        let is_it =
            |f: &EngineFace| matches!(f.transport, Transport::Multicast(group) if group == i);
        let face = self.net.faces.iter().find(|(_, face)| is_it(face)).map(|(id, _)| id);
        for train in trains.drain(..) {
            if let Some(face) = face {
                let (sender, marked) = (number_of(train.from), train.marked);
                self.take_in_train(now, FrameOrigin { face, sender, marked }, &train);
            }
        }
        self.net.plain_sockets.end_read(trains);
        if more {
            self.net.polling.unfinished(source);
        }
        Ok(())
    }

    fn take_in_train(&mut self, now: Duration, origin: FrameOrigin, train: &ReceivedTrain) {
        for datagram in train.bytes.chunks(train.stride) {
            self.take_in_from(now, origin, &train.bytes, datagram);
        }
    }

    /// Handles a ready connection: it came up, data arrived, or there is room to write.
    pub(super) fn receive_connection(&mut self, id: FaceId, source: PollSource) {
        let Some(face) = self.net.faces.get_mut(id) else { return };
        let (came_up, is_stream) = match &mut face.transport {
            Transport::Stream(stream) => (stream.finish_connect(), true),
            Transport::WebSocket(socket) => (socket.finish_connect(), false),
            _ => return,
        };
        self.net.faces.note_unflushed(id);
        match came_up {
            Ok(true) => self.came_up(id),
            Ok(false) => {}
            Err(e) => return self.fail_face(id, e),
        }
        let outcome = if is_stream { self.receive_stream(id) } else { self.receive_web_socket(id) };
        match outcome {
            Ok(true) => self.net.polling.unfinished(source),
            Ok(false) => {}
            Err(e) => self.fail_face(id, e),
        }
    }

    fn receive_stream(&mut self, id: FaceId) -> io::Result<bool> {
        let net = &mut self.net;
        let Some(EngineFace { transport: Transport::Stream(stream), .. }) = net.faces.get_mut(id)
        else {
            return Ok(false);
        };
        if !stream.connected() {
            return Ok(false);
        }
        let read = stream.read(&mut net.buffer)?;
        let now = self.now();
        let bytes = self.net.buffer.take();
        let mut rest = &bytes[..read.filled];
        let broken = loop {
            match frame_len(rest) {
                Ok(Some(len)) => {
                    let (frame, behind) = rest.split_at(len);
                    rest = behind;
                    self.take_in(now, id, &bytes, frame);
                }
                Ok(None) => break None,
                Err(e) => break Some(e),
            }
        };
        if let Some(EngineFace { transport: Transport::Stream(stream), .. }) =
            self.net.faces.get_mut(id)
        {
            stream.keep(rest);
        }
        self.net.buffer.give_back(bytes);
        match broken {
            None => Ok(read.more),
            Some(e) => Err(io::Error::new(io::ErrorKind::InvalidData, format!("not NDN: {e}"))),
        }
    }

    fn receive_web_socket(&mut self, id: FaceId) -> io::Result<bool> {
        let net = &mut self.net;
        let Some(EngineFace { transport: Transport::WebSocket(socket), .. }) =
            net.faces.get_mut(id)
        else {
            return Ok(false);
        };
        let mut messages = std::mem::take(&mut net.messages);
        let outcome = socket.receive(&mut messages);
        let now = self.now();
        for message in messages.drain(..) {
            self.take_in(now, id, &message, &message);
        }
        self.net.messages = messages;
        outcome
    }

    fn take_in(&mut self, now: Duration, from: FaceId, backing: &Bytes, frame: &[u8]) {
        self.take_in_from(
            now,
            FrameOrigin { face: from, sender: 0, marked: false },
            backing,
            frame,
        );
    }

    /// Hands one frame, which lies in `backing`, through the face's link service to the forwarder.
    pub(super) fn take_in_from(
        &mut self,
        now: Duration,
        origin: FrameOrigin,
        backing: &Bytes,
        frame: &[u8],
    ) {
        let FrameOrigin { face: from, sender, marked } = origin;
        let Self { forwarder, net, .. } = self;
        let Some(face) = net.faces.get_mut(from) else { return };
        // Only a remote peer that dialled this end may be dropped early for its useless packets.
        if net.polling.is_behind(now)
            && face.peer.is_none()
            && face.scope == FaceScope::NonLocal
            && let Some(until) = forwarder.held_back_until(now, from)
        {
            if let Transport::Link(link) = face.transport {
                net.endpoint.rest(link, until);
            }
            return;
        }
        face.last_received = now;
        let seat = face.seat;
        if let Some(seat) = seat {
            net.admission.received(seat, now);
        }
        if let Transport::Udp { unproven: Some(unproven), .. } = &mut face.transport {
            unproven.received(frame.len());
        }
        // The link service counts malformed frames; their sender gets no report.
        let Ok(received) = face.link_service.receive_from(now, sender, frame) else { return };
        let Some(received) = received else { return net.faces.note_timer(from) };
        let headers = received.headers;
        if let Transport::Udp { unproven: Some(unproven), .. } = &face.transport
            && unproven.is_answer(received.packet, headers.nack.is_some())
        {
            return self.proven(from);
        }
        // The forwarder decides whether such Data or Nacks were requested.
        let is_proof = match &face.transport {
            Transport::Udp { unproven: Some(unproven), .. } => {
                unproven.is_token(headers.pit_token)
                    && (headers.nack.is_some() || is_data(received.packet))
            }
            _ => false,
        };
        let mut token = [0; MAX_PIT_TOKEN];
        let token = headers.pit_token.and_then(|t| {
            let mine = token.get_mut(..t.len())?;
            mine.copy_from_slice(t);
            Some(&*mine)
        });
        let announcement = headers.prefix_announcement.map(<[u8]>::to_vec);
        let non_discovery = headers.non_discovery;
        let whole;
        let (backing, packet) = match place_in(backing, received.packet) {
            Some(range) => (backing, &backing[range]),
            // It was reassembled from fragments.
            None => {
                whole = Bytes::copy_from_slice(received.packet);
                (&whole, &whole[..])
            }
        };
        let incoming = IncomingPacket {
            packet,
            pit_token: token,
            nack: headers.nack,
            congestion_mark: headers.congestion_mark.or(marked.then_some(CONGESTED)),
            next_hop: headers.next_hop_face_id.map(FaceId),
            no_cache: headers.no_cache,
            non_discovery,
            announcement: announcement.as_deref(),
        };
        let out = &mut Dispatch::new(net, now, from, backing);
        // The forwarder counts dropped packets; their sender gets no report.
        let outcome = forwarder.handle_packet(now, from, incoming, out);
        if let Some(seat) = seat {
            let standing = match outcome {
                Ok(()) if is_data(packet) => FaceStanding::Useful,
                Err(DropReason::Malformed(_) | DropReason::LinkPacket) => FaceStanding::Silent,
                _ => FaceStanding::Heard,
            };
            net.admission.raise(seat, standing);
        }
        if is_proof && outcome.is_ok() {
            self.proven(from);
        }
    }

    /// Handles the establishment of a face's connection.
    pub(super) fn came_up(&mut self, id: FaceId) {
        let now = self.now();
        if let Some(face) = self.net.faces.get_mut(id) {
            face.came_up = true;
            face.reported_down = false;
            face.last_received = now;
            face.up_since = now;
            let peer = face.address.clone();
            tracing::info!(face = %id, %peer, "face is up");
            self.net.pending.push(EngineEvent::FaceUp { face: id, peer });
        }
    }
}

/// A number for a sender in a group, the same for the same address.
fn number_of(sender: SocketAddr) -> u64 {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    BuildHasherDefault::<DefaultHasher>::default().hash_one(sender)
}
