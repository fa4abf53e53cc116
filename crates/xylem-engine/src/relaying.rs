//! A relay for others: a [`RelayServer`] around the link's sockets.
//!
//! A datagram that the relay recognizes by its first bytes is forwarded before the link's endpoint sees it, in trains
//! where it came in trains. Control streams never reach the program. A node that is no relay does not run any of this.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use xylem_link::{LinkEvent, LinkId, StreamId, StreamRead, purpose};
use xylem_reach::relay::{
    AllowedClients, ControlSession, HEADER, RelayBan, RelayConfig, RelayCounters, RelayLoad,
    RelayPeer, RelayPort, RelayServer, Relayed,
};

use super::{Engine, Network, PollSource};
use xylem_sockets::{CarrierId, Carriers, EcnCapability, Oversize, Udp};

/// Most control streams of one link; further ones are refused.
const STREAMS_OF_LINK: usize = 4;
/// Reset code of a control stream that is refused, or ended for its content.
const BROKEN: u32 = 1;

/// The state of a relay beside the engine's own.
pub(super) struct RelayService {
    server: RelayServer,
    sessions: HashMap<LinkId, Vec<(StreamId, ControlSession)>>,
    /// Sockets at the second port.
    second: Vec<Udp>,
}

/// Datagrams of one sender, as they arrived.
struct ReceivedDatagrams {
    from: SocketAddr,
    marked: bool,
    stride: usize,
    bytes: BytesMut,
}

impl RelayService {
    fn new(config: RelayConfig, carriers: &Carriers) -> io::Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|e| io::Error::other(e.to_string()))?;
        let mut server = RelayServer::new(config, seed);
        server.set_internal_prefix(carriers.prefix());
        Ok(Self { server, sessions: HashMap::new(), second: Vec::new() })
    }
}

impl Engine {
    /// Makes this engine a relay.
    ///
    /// # Errors
    /// The system provides no randomness.
    pub fn relay(&mut self, config: RelayConfig) -> io::Result<()> {
        let mut relaying = RelayService::new(config, &self.net.carriers)?;
        let key = self.net.endpoint.secret_for("xylem v1 relay: what resets end with");
        relaying.server.enable_resets(key);
        self.net.relaying = Some(Box::new(relaying));
        Ok(())
    }

    /// Has the relay serve these clients alone.
    pub fn allow_relay_clients(&mut self, clients: AllowedClients) {
        let key = self.link_key().0;
        if let Some(relaying) = &mut self.net.relaying {
            relaying.server.allow(clients, key);
        }
    }

    /// Makes this engine introduce the peers that have reached it to each other, from the first request on. The traffic
    /// limits allow introductions, not content. Until then it costs nothing.
    pub fn introduce(&mut self) {
        self.net.introduces = true;
    }

    /// Binds a relay's second port; it must be the same on all addresses.
    ///
    /// # Errors
    /// Those of the system.
    pub fn bind_second(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let net = &mut self.net;
        let number = net.relaying.as_ref().map_or(0, |relaying| relaying.second.len());
        let mut socket = Udp::bind(address, Oversize::Lose)?;
        net.polling
            .register(PollSource::Second(number), |token, poll| socket.register(poll, token))?;
        let local = socket.local();
        if let Some(relaying) = &mut net.relaying {
            relaying.server.set_second_port(Some(local.port()));
            relaying.second.push(socket);
        }
        Ok(local)
    }

    /// Counters of the relay; `None`: this engine is none.
    pub fn relayed(&self) -> Option<RelayCounters> {
        self.net.relaying.as_ref().map(|relaying| relaying.server.metrics())
    }

    /// What the relay does now, with `most` sites and clients; `None`: this engine is none.
    pub fn relay_load(&mut self, most: usize) -> Option<RelayLoad> {
        let now = self.now();
        self.net.relaying.as_mut().map(|relaying| relaying.server.load(now, most))
    }

    /// Keeps a client away from the relay; see [`RelayServer::ban`].
    pub fn ban_from_relay(&mut self, ban: RelayBan) -> Option<usize> {
        self.net.relaying.as_mut().and_then(|relaying| relaying.server.ban(ban))
    }

    /// Ends a ban; returns whether there was this one.
    pub fn unban_from_relay(&mut self, ban: &RelayBan) -> bool {
        self.net.relaying.as_mut().is_some_and(|relaying| relaying.server.unban(ban))
    }

    /// Has the relay take no more clients and pairs, and answer no more as a volunteer.
    pub fn drain_relay(&mut self) {
        self.end_volunteer_answers();
        if let Some(relaying) = &mut self.net.relaying {
            relaying.server.drain();
        }
    }

    /// When the relay forwarded a datagram last; `None`: no pair could use it.
    pub fn relay_forwarded(&self) -> Option<Duration> {
        self.net.relaying.as_ref()?.server.last_forwarded()
    }

    /// The bans of the relay.
    pub fn relay_bans(&self) -> Vec<RelayBan> {
        self.net.relaying.as_ref().map(|relaying| relaying.server.bans()).unwrap_or_default()
    }

    /// A record of the relay's clients to store, for [`Engine::notify_relay_clients`] of an engine that replaces this one after
    /// it was killed.
    pub fn relay_clients(&self) -> Vec<u8> {
        self.net.relaying.as_ref().map(|relaying| relaying.server.clients()).unwrap_or_default()
    }

    /// Counts the changes of [`Engine::relay_clients`].
    pub fn relay_changes(&self) -> u64 {
        self.net.relaying.as_ref().map_or(0, |relaying| relaying.server.changes())
    }

    /// Informs the clients of a relay that was killed that it is back; see [`RelayServer::notify_clients`].
    pub fn notify_relay_clients(&mut self, clients: &[u8]) {
        let now = self.now();
        if let Some(relaying) = &mut self.net.relaying {
            relaying.server.notify_clients(now, clients);
        }
    }

    /// Like `receive_link`, for a relay.
    pub(super) fn receive_relay(&mut self, i: usize, source: PollSource) -> io::Result<()> {
        let mut trains = Vec::new();
        let now = self.now();
        let Network { link_sockets, carriers, reaching, sharers, .. } = &mut self.net;
        let more = link_sockets.receive_messages(i, &mut |from, marked, stride, bytes| {
            // No network interface has one of our synthetic addresses.
            let is_synthetic = carriers.is_synthetic(from) || reaching.is_synthetic(from);
            if !is_synthetic && !sharers.take_in_train(now, from, &bytes, stride) {
                trains.push(ReceivedDatagrams { from, marked, stride, bytes });
            }
        })?;
        for train in trains {
            self.net.link_sockets.record(train.from, i, self.net.limits.faces);
            let used = self.forward_or_handle(now, train);
            self.net.link_sockets.give_back(i, used.freeze());
            self.net.link_sockets.give_back_opened(i);
        }
        self.net.flush_relay();
        self.drain_relays(now);
        if more {
            self.net.polling.unfinished(source);
        }
        Ok(())
    }

    /// Like `receive_carrier`, for a relay: takes a connection's datagrams in order.
    pub(super) fn relay_carried(&mut self, now: Duration, id: CarrierId) -> io::Result<bool> {
        let mut datagrams = Vec::new();
        let carriers = &mut self.net.carriers;
        let from = carriers.address(id);
        let outcome = carriers.receive(now, id, &mut |datagram| datagrams.push(datagram));
        for bytes in datagrams {
            let stride = bytes.len().max(1);
            self.forward_or_handle(now, ReceivedDatagrams { from, marked: false, stride, bytes });
        }
        self.net.link_sockets.drop_opened();
        self.net.flush_relay();
        outcome
    }

    /// Forwards the relay's datagrams, and hands the rest to the endpoint. Events of the endpoint are handled at once,
    /// because the next datagram may belong to a registration that this one makes. Returns memory that may be reused.
    fn forward_or_handle(&mut self, now: Duration, train: ReceivedDatagrams) -> BytesMut {
        let ReceivedDatagrams { from, marked, stride, bytes: mut rest } = train;
        // A run of bytes at the front with one destination.
        let mut run: Option<(SocketAddr, usize)> = None;
        loop {
            let begun = run.map_or(0, |(_, len)| len);
            let len = stride.min(rest.len() - begun);
            let outcome = match &mut self.net.relaying {
                Some(relaying) if len > 0 => {
                    let datagram = &mut rest[begun..begun + len];
                    relaying.server.handle_datagram(now, RelayPort::First, from, datagram)
                }
                _ => Relayed::Not,
            };
            match (outcome, &mut run) {
                (Relayed::Forward(to), Some((same, begun))) if to == *same => *begun += len,
                _ => {
                    if let Some((to, run)) = run.take() {
                        self.net.send_relayed(now, to, &rest[..run], stride);
                        if len == 0 && run == rest.len() {
                            return rest;
                        }
                        rest.advance(run);
                    }
                    match outcome {
                        _ if len == 0 => return rest,
                        Relayed::Forward(to) => run = Some((to, len)),
                        Relayed::Done => rest.advance(len),
                        Relayed::Not => {
                            let datagram = rest.split_to(len);
                            let Network { endpoint, link_sockets, reaching, .. } = &mut self.net;
                            // It may come from a relay that this end uses itself.
                            let Some((from, datagram)) = reaching.take_in(now, from, datagram)
                            else {
                                continue;
                            };
                            // The first bytes are enough for a reset, if the endpoint does not know the datagram.
                            let known = endpoint.endpoint_stats().ignored;
                            let head = datagram.first_chunk().copied().unwrap_or([0; HEADER]);
                            endpoint.handle_marked_datagram(now, from, marked, datagram);
                            link_sockets.keep_opened(endpoint.take_opened_datagram());
                            if endpoint.endpoint_stats().ignored > known
                                && let Some(relaying) = &mut self.net.relaying
                            {
                                relaying.server.reset(now, from, &head, len);
                            }
                            self.drain_endpoint(now);
                        }
                    }
                }
            }
        }
    }

    /// Receives at the second port.
    pub(super) fn receive_second(&mut self, i: usize, source: PollSource) -> io::Result<()> {
        let now = self.now();
        let Some(relaying) = &mut self.net.relaying else { return Ok(()) };
        let RelayService { server, second, .. } = &mut **relaying;
        let more = second[i].receive(&mut |from, _, mut datagram| {
            server.handle_datagram(now, RelayPort::Second, from, &mut datagram);
        })?;
        self.net.flush_relay();
        if more {
            self.net.polling.unfinished(source);
        }
        Ok(())
    }
}

impl Network {
    pub(super) fn relay_timeout(&self) -> Option<Duration> {
        self.relaying.as_ref()?.server.poll_timeout()
    }

    pub(super) fn handle_relay_timeout(&mut self, now: Duration) {
        if let Some(relaying) = &mut self.relaying {
            relaying.server.handle_timeout(now);
            self.flush_relay();
        }
    }

    /// Informs a relay's clients that it ends.
    pub(super) fn end_relay(&mut self) {
        if let Some(relaying) = &mut self.relaying {
            relaying.server.notify_end();
            self.flush_relay();
        }
    }

    /// Sends the relay's own datagrams.
    fn flush_relay(&mut self) {
        let now = self.clock.now();
        loop {
            let Some(relaying) = &mut self.relaying else { return };
            let Some((port, to, datagram)) = relaying.server.poll_transmit() else { return };
            match port {
                RelayPort::First => self.send_relayed(now, to, &datagram, datagram.len()),
                RelayPort::Second => {
                    let family = |socket: &&Udp| socket.local().is_ipv4() == to.is_ipv4();
                    if let Some(socket) = relaying.second.iter().find(family) {
                        socket.send(to, &datagram, None, EcnCapability::NotCapable);
                    }
                }
            }
        }
    }

    /// Sends datagrams of `stride` bytes; the last may be shorter. They leave unmarked: the link inside counts marks of
    /// its own path.
    fn send_relayed(&mut self, now: Duration, to: SocketAddr, contents: &[u8], stride: usize) {
        if self.carriers.is_synthetic(to) {
            if let Some(id) = self.carriers.of_address(to) {
                self.carriers.queue(now, id, contents, stride);
            }
        } else {
            self.link_sockets.send_train(to, contents, stride);
        }
    }

    /// Handles an event of a control stream; returns whether it was one.
    pub(super) fn relay_event(&mut self, event: &LinkEvent) -> bool {
        if self.introduces
            && self.relaying.is_none()
            && matches!(event, LinkEvent::StreamOpened { purpose: purpose::REACH, .. })
        {
            self.relaying =
                RelayService::new(RelayConfig::introducing(), &self.carriers).ok().map(Box::new);
        }
        let Some(relaying) = &mut self.relaying else { return false };
        let sessions = &mut relaying.sessions;
        let known = |link: &LinkId, stream: &StreamId| {
            let of_link = sessions.get(link).map_or(&[][..], |of_link| &of_link[..]);
            of_link.iter().any(|(one, _)| one == stream)
        };
        match event {
            LinkEvent::StreamOpened { link, stream, purpose: purpose::REACH } => {
                let of_link = sessions.entry(*link).or_default();
                if of_link.len() >= STREAMS_OF_LINK {
                    self.end_session(*link, *stream);
                } else {
                    of_link.push((*stream, ControlSession::default()));
                    self.read_session(*link, *stream);
                }
                true
            }
            LinkEvent::StreamReadable { link, stream } if known(link, stream) => {
                self.read_session(*link, *stream);
                true
            }
            LinkEvent::StreamReset { link, stream, .. }
            | LinkEvent::StreamStopped { link, stream, .. }
                if known(link, stream) =>
            {
                self.end_session(*link, *stream);
                true
            }
            LinkEvent::StreamWritable { link, stream }
            | LinkEvent::StreamDelivered { link, stream } => known(link, stream),
            LinkEvent::Closed { link, .. } => {
                sessions.remove(link);
                false
            }
            _ => false,
        }
    }

    fn read_session(&mut self, link: LinkId, stream: StreamId) {
        let now = self.clock.now();
        let Self { relaying: Some(relaying), endpoint, carriers, .. } = self else { return };
        let Some(up) = endpoint.link(link) else { return };
        let (key, at) = (up.peer().0, up.remote());
        let carried = carriers.of_address(at).and_then(|id| carriers.ends(id));
        let host = carried.map_or(at.ip(), |(_, far, _)| far.ip());
        let peer = RelayPeer { key, at, host };
        let RelayService { server, sessions, .. } = &mut **relaying;
        let Some(of_link) = sessions.get_mut(&link) else { return };
        let Some((_, session)) = of_link.iter_mut().find(|(one, _)| *one == stream) else { return };
        loop {
            let mut out = Vec::new();
            match endpoint.read_stream(link, stream) {
                Ok(StreamRead::Data(bytes)) => {
                    let done = server.handle_request(now, session, &peer, &bytes, &mut out);
                    // A client that does not read its answers gets no further requests served.
                    let told = endpoint.write_stream(link, stream, &out);
                    if done.is_err() || told != Ok(out.len()) {
                        return self.end_session(link, stream);
                    }
                }
                Ok(StreamRead::Pending) => return,
                Ok(StreamRead::Finished) => {
                    let _ = endpoint.finish_stream(link, stream);
                    return self.forget_session(link, stream);
                }
                Err(_) => return self.forget_session(link, stream),
            }
        }
    }

    fn end_session(&mut self, link: LinkId, stream: StreamId) {
        // The stream may be gone already.
        let _ = self.endpoint.reset_stream(link, stream, BROKEN);
        let _ = self.endpoint.stop_stream(link, stream, BROKEN);
        self.forget_session(link, stream);
    }

    fn forget_session(&mut self, link: LinkId, stream: StreamId) {
        let Some(relaying) = &mut self.relaying else { return };
        let Some(of_link) = relaying.sessions.get_mut(&link) else { return };
        of_link.retain(|(one, _)| *one != stream);
        if of_link.is_empty() {
            relaying.sessions.remove(&link);
        }
    }
}
