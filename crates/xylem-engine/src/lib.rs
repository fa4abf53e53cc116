//! The event loop: sockets and faces around one [`Forwarder`] and one [`LinkEndpoint`].
//!
//! Datagrams and streams come in and packets go through the forwarder. Packets and events for the program itself wait
//! as [`EngineEvent`]s. One thread owns everything. A [`Program`] runs on the engine, driven by [`Engine::run`]; it
//! answers through [`Engine::send`] and sends Interests through [`Engine::ask`].

mod error;
mod ethernet;
mod faces;

mod addresses;
mod admitting;
mod beside;
mod binding;
mod carrying;
mod clock;
mod dialling;
mod dispatch;
mod event;
mod guests;
mod link_sockets;
mod listening;
mod look_up;
mod meeting;
mod plain_sockets;
mod polling;
mod program;
mod reaching;
mod receiving;
mod relaying;
mod streams;
#[cfg(test)]
mod testing;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mio::Waker;
use xylem_forward::{FaceId, FaceScope, Forwarder, IncomingPacket};
use xylem_link::{Endpoint as LinkEndpoint, LinkStats};
use xylem_mgmt::FaceUri;
use xylem_packet::NackReason;
use xylem_peers::admission::Admission;
use xylem_peers::reachable::{FaceAddress, endpoint};

pub use crate::addresses::{advertised, offered, routed};
use crate::admitting::UnprovenPeers;
use crate::beside::LinksBeside;
pub use crate::binding::{bind_carriers, bind_links, bind_plain, bind_sites, dial_from};
use crate::clock::EngineClock;
pub use crate::clock::{now_ms, wall_clock};
pub use crate::error::{EngineError, certificate};
use crate::event::PendingEvents;
use crate::faces::EngineFaces;
pub use crate::faces::{EngineFace, FaceLimits, FaceTrouble, Transport};
use dispatch::Dispatch;
pub use event::{EngineEvent, FaceEnd, StreamEvent};
use link_sockets::LinkSockets;
use listening::FaceListener;
pub use look_up::{look_up, look_up_place, resolve, ways_to};
pub use meeting::Meeting;
use meeting::SocketSharers;
use plain_sockets::PlainSockets;
use polling::{PollSource, SocketPoll};
pub use program::Program;
use reaching::RelayConnections;
pub use reaching::{RelayHandle, RelayNotice, RelayUse};
use xylem_sockets::{Carriers, EcnCapability, ReadBuffer, WebTlsClient};

/// Longest sleep, so that a raised stop flag is noticed.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// See the module's documentation.
pub struct Engine {
    /// The forwarder that every packet goes through.
    pub forwarder: Forwarder,
    net: Network,
    program: FaceId,
    /// Bytes of the program's own packets since encrypted links were last flushed.
    bytes_since_flush: usize,
    /// The waker, once it has been requested.
    waker: Option<Arc<Waker>>,
}

/// Everything but the forwarder, which calls back into it for each packet that leaves.
pub struct Network {
    clock: EngineClock,
    limits: FaceLimits,
    polling: SocketPoll,
    endpoint: LinkEndpoint,
    /// Links of our dials that no face has, and what dials without a key expect.
    beside: LinksBeside,
    link_sockets: LinkSockets,
    plain_sockets: PlainSockets,
    listeners: Vec<FaceListener>,
    carriers: Carriers,
    web_tls: WebTlsClient,
    reaching: RelayConnections,
    /// Other protocols on the sockets of links.
    sharers: SocketSharers,
    /// The relay server, if this engine is one.
    relaying: Option<Box<relaying::RelayService>>,
    /// Whether to become a relay, on the first request, that introduces the peers of this end to each other.
    introduces: bool,
    faces: EngineFaces,
    /// Decides which faces of other ends may stay.
    admission: Admission<FaceId>,
    unproven: UnprovenPeers,
    pending: PendingEvents,
    // Buffers that are reused for every packet.
    buffer: ReadBuffer,
    messages: Vec<Bytes>,
    datagram: Vec<u8>,
}

impl Engine {
    /// Makes an engine without sockets.
    ///
    /// # Errors
    /// The system provides no poll.
    pub fn new(endpoint: LinkEndpoint, forwarder: Forwarder) -> Result<Self, EngineError> {
        Self::without_sockets(endpoint, forwarder).map_err(EngineError::Start)
    }

    fn without_sockets(endpoint: LinkEndpoint, mut forwarder: Forwarder) -> io::Result<Self> {
        let inside = FaceUri::Internal;
        let mut face = EngineFace::new(
            Transport::Internal,
            FaceAddress::Uri(inside.clone()),
            inside.clone(),
            inside,
        );
        face.scope = FaceScope::Local;
        face.came_up = true;
        let program = forwarder.add_face(FaceScope::Local);
        let mut local_prefix = [0; 5];
        getrandom::fill(&mut local_prefix).map_err(|e| io::Error::other(e.to_string()))?;
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|e| io::Error::other(e.to_string()))?;
        let mut faces = EngineFaces::default();
        faces.insert(program, face);
        let net = Network {
            clock: EngineClock::new(),
            limits: FaceLimits::default(),
            polling: SocketPoll::new()?,
            endpoint,
            beside: LinksBeside::default(),
            link_sockets: LinkSockets::default(),
            plain_sockets: PlainSockets::default(),
            listeners: Vec::new(),
            carriers: Carriers::new(local_prefix),
            web_tls: WebTlsClient::default(),
            reaching: RelayConnections::new(local_prefix),
            sharers: SocketSharers::default(),
            relaying: None,
            introduces: false,
            faces,
            admission: crate::faces::admission(FaceLimits::default().faces),
            unproven: UnprovenPeers::new(FaceLimits::default().unproven_bytes, secret),
            pending: PendingEvents::default(),
            buffer: ReadBuffer::default(),
            messages: Vec::new(),
            datagram: Vec::new(),
        };
        let mut engine = Self { forwarder, net, program, bytes_since_flush: 0, waker: None };
        engine.declare_synthetic_prefixes();
        Ok(engine)
    }

    /// Time since the engine was made: the `now` of every sans-io part.
    pub fn now(&self) -> Duration {
        self.net.clock.now()
    }

    /// A face's properties.
    pub fn face(&self, face: FaceId) -> Option<&EngineFace> {
        self.net.faces.get(face)
    }

    /// A face's properties, to be changed.
    pub fn face_mut(&mut self, face: FaceId) -> Option<&mut EngineFace> {
        self.net.faces.get_mut(face)
    }

    /// Counters of a face's encrypted link; `None`: it has none that is up.
    pub fn link_stats(&self, face: FaceId) -> Option<LinkStats> {
        match self.face(face)?.transport {
            Transport::Link(link) => self.net.endpoint.stats(link),
            _ => None,
        }
    }

    /// All faces.
    pub fn faces(&self) -> impl Iterator<Item = (FaceId, &EngineFace)> {
        self.net.faces.iter()
    }

    /// How long a face that ends when idle will stay without a packet.
    pub fn expires_in(&self, face: &EngineFace) -> Option<Duration> {
        let patience = self.net.admission.patience(face.seat?, self.net.limits.idle)?;
        Some((face.last_received + patience).saturating_sub(self.now()))
    }

    /// The face URIs at which this engine listens.
    pub fn listens_at(&self) -> Vec<FaceUri> {
        let net = &self.net;
        let mut found: Vec<FaceUri> = (net.listeners.iter())
            .filter(|listener| !listener.is_beside())
            .filter_map(FaceListener::uri)
            .collect();
        found.extend(net.plain_sockets.locals().map(|local| FaceUri::Udp(endpoint(local))));
        found.extend(net.plain_sockets.ethernet.listening().map(FaceUri::Dev));
        found.extend(net.link_sockets.locals().map(|local| FaceUri::Xylem(endpoint(local))));
        found
    }

    /// The addresses of its sockets for encrypted links.
    pub fn link_addresses(&self) -> Vec<SocketAddr> {
        self.net.link_sockets.locals().collect()
    }

    /// Bytes that the datagram sockets' receive buffers hold before the kernel drops datagrams.
    pub fn receive_capacity(&self) -> usize {
        let links = self.net.link_sockets.receive_capacity();
        let plain = self.net.plain_sockets.receive_capacity();
        links.into_iter().chain(plain).min().unwrap_or(usize::MAX)
    }

    /// Gives a packet of the program to the forwarder.
    pub fn send(&mut self, packet: &[u8]) {
        self.bytes_since_flush += packet.len();
        self.send_with(IncomingPacket::bare(packet));
    }

    /// Answers an Interest that came to the program. If the Data does not match, the Interest is refused.
    pub fn answer(&mut self, interest: &[u8], data: &[u8]) {
        self.bytes_since_flush += data.len();
        if !self.send_with(IncomingPacket::bare(data)) {
            self.refuse(interest);
        }
    }

    /// Sends an Interest of the program over this face only.
    pub fn ask(&mut self, face: FaceId, interest: &[u8]) {
        self.send_with(IncomingPacket { next_hop: Some(face), ..IncomingPacket::bare(interest) });
    }

    /// Refuses an Interest that came to the program: there is no answer here.
    pub fn refuse(&mut self, interest: &[u8]) {
        let nack = Some(NackReason::NO_ROUTE);
        self.send_with(IncomingPacket { nack, ..IncomingPacket::bare(interest) });
    }

    /// False if the forwarder has dropped it.
    fn send_with(&mut self, packet: IncomingPacket<'_>) -> bool {
        let now = self.now();
        let nothing = Bytes::new();
        let out = &mut Dispatch::new(&mut self.net, now, self.program, &nothing);
        // The forwarder counts dropped packets; the program notices by its own timeouts.
        self.forwarder.handle_packet(now, self.program, packet, out).is_ok()
    }

    /// Sleeps until something arrives, `deadline` passes or a part's own timer is due, then takes in what arrived.
    ///
    /// # Errors
    /// Those of the system's poll, and of datagram sockets.
    fn wait(&mut self, deadline: Option<Duration>) -> io::Result<()> {
        let now = self.now();
        let forwarder = self.forwarder.poll_timeout();
        let net = &mut self.net;
        let links = [net.endpoint.poll_timeout(), net.faces.link_service_timeout()];
        let relays = [net.relay_timeout(), net.reaching.poll_timeout()];
        let others = [net.sharers.poll_timeout(), deadline, forwarder];
        let timers = links.into_iter().chain(relays).chain(others);
        let due = timers.flatten().min().map(|t| t.saturating_sub(now));
        let sleep = due.unwrap_or(MAX_SLEEP).min(MAX_SLEEP);
        let mut ready = net.polling.wait(now, sleep, !net.pending.is_empty())?;
        for source in ready.drain(..) {
            match source {
                PollSource::Link(i) if self.net.relaying.is_some() => {
                    self.receive_relay(i, source)?
                }
                PollSource::Link(i) => self.receive_link(i, source)?,
                PollSource::Second(i) => self.receive_second(i, source)?,
                PollSource::Udp(i) => self.receive_udp(i, source)?,
                PollSource::Multicast(i) => self.receive_multicast(i, source)?,
                PollSource::Ethernet(device) => self.receive_ethernet(device, source),
                PollSource::Listener(i) => self.accept(i),
                PollSource::Carrier(id) => self.receive_carrier(id, source),
                PollSource::Extra(number) => self.receive_extra(number, source),
                PollSource::Face(face) => self.receive_connection(face, source),
            }
        }
        self.net.polling.end_round(ready);
        let (now, wall) = (self.now(), Duration::from_millis(now_ms()));
        if self.net.clock.slept(now, wall) {
            tracing::info!("this machine was asleep");
            self.on_wake();
        }
        self.timers();
        Ok(())
    }

    fn timers(&mut self) {
        let now = self.now();
        self.use_added_relays();
        // Not only before the next sleep: a lookup ends here, and the program is to learn of it now.
        self.net.flush_sharers(now);
        if self.net.endpoint.poll_timeout().is_some_and(|t| t <= now) {
            self.net.endpoint.handle_timeout(now);
            self.drain_endpoint(now);
        }
        if self.forwarder.poll_timeout().is_some_and(|t| t <= now) {
            let nothing = Bytes::new();
            let out = &mut Dispatch::new(&mut self.net, now, self.program, &nothing);
            self.forwarder.handle_timeout(now, out);
        }
        // A thread of the cache's disk may have woken this loop.
        let nothing = Bytes::new();
        let out = &mut Dispatch::new(&mut self.net, now, self.program, &nothing);
        self.forwarder.take_up_reads(now, out);
        if self.net.faces.link_service_timeout().is_some_and(|t| t <= now) {
            self.net.handle_link_service_timeouts(now);
        }
        if self.net.relay_timeout().is_some_and(|t| t <= now) {
            self.net.handle_relay_timeout(now);
        }
        if self.net.reaching.poll_timeout().is_some_and(|t| t <= now) {
            self.relay_timers(now);
        }
        if self.net.clock.housekeeping_is_due(now) {
            if let Some(random) = self.net.clock.entropy(now, || xylem_base::random().ok()) {
                self.net.endpoint.add_entropy(random);
            }
            self.forget_idle(now);
            self.keep_carriers(now);
            self.redial_silent(now);
            self.redial(now);
            for listener in 0..self.net.listeners.len() {
                self.accept(listener);
            }
        }
    }

    /// Writes everything that waits to the kernel.
    fn flush(&mut self) {
        self.flush_links();
        self.ask_unproven();
        self.net.plain_sockets.flush();
        while let Some(id) = self.net.faces.next_unflushed() {
            let Some(face) = self.net.faces.get_mut(id) else { continue };
            let outcome = match &mut face.transport {
                Transport::Stream(stream) => stream.flush(self.net.polling.system()),
                Transport::WebSocket(socket) => socket.flush(),
                _ => Ok(()),
            };
            if let Err(e) = outcome {
                self.fail_face(id, e);
            }
        }
    }

    /// Seals and sends what waits on encrypted links. Also called in the middle of long answers, so that queues stay
    /// short and the peer works in parallel.
    fn flush_links(&mut self) {
        self.bytes_since_flush = 0;
        let now = self.now();
        let net = &mut self.net;
        while let Some(transmit) = net.endpoint.poll_transmit(now, &mut net.datagram) {
            if net.carriers.is_synthetic(transmit.to) || net.reaching.is_synthetic(transmit.to) {
                net.send_to_synthetic(now, &transmit);
            } else {
                let contents = &net.datagram[..transmit.len];
                let ecn =
                    if transmit.ecn { EcnCapability::Capable } else { EcnCapability::NotCapable };
                net.link_sockets.send(transmit.to, contents, transmit.segment_size, ecn);
            }
        }
        net.flush_relays(now);
        net.flush_sharers(now);
        self.flush_carriers(now);
    }
}

impl Network {
    fn handle_link_service_timeouts(&mut self, now: Duration) {
        for id in self.faces.take_timed() {
            let due =
                |face: &EngineFace| face.link_service.poll_timeout().is_some_and(|t| t <= now);
            if self.faces.get(id).is_some_and(due) {
                let nothing = Bytes::new();
                Dispatch::new(self, now, id, &nothing).link_service_timeout(id);
            }
            self.faces.note_timer(id);
        }
    }
}
