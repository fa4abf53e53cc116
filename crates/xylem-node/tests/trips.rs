//! Round trips, counted in virtual time: from the start to the first content through a relay, and from there to a
//! direct path. There are two whole nodes, each behind a NAT that admits answers only, and a relay; no sockets. The
//! order of the requests is that of `reaching` in xylem-engine.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use xylem_forward::{FaceId, FaceScope, Forwarder, ForwarderSeed, OutgoingPacket};
use xylem_link::{
    Endpoint, LinkEvent, LinkId, NatMapping, PathKind, PeerKey, ProbePace, StaticKey, StreamId,
    StreamRead, purpose,
};
use xylem_object::naming::{self, ObjectId};
use xylem_object::{Manifest, Publication, PublisherKey, ServeOutcome, sign_manifest};
use xylem_packet::{LpPacket, Name, Packet};
use xylem_reach::relay::{
    CircuitTag, ConnectTarget, ControlSession, DatagramKind, HEADER, RelayClient,
    RelayConfig as Quotas, RelayPeer, RelayPort, RelayServer, Relayed,
};
use xylem_sim::{EventQueue, Internet, NatBehaviour, Realm, Simulation, ms};
use xylem_transfer::{PeerId, Transfer, TransferConfig, TransferEvent, TransferSpec};

mod in_memory;

use in_memory::{Reader, Stored, address, without_headers};

const SHARER: usize = 0;
const GETTER: usize = 1;
/// The relay's number among the addresses.
const RELAY: usize = 2;
/// Round trip between the two nodes, directly or through the relay.
const ROUND_TRIP: Duration = ms(200);
/// Prefix of synthetic addresses: peers at the relay, by tag.
const RELAYED: [u8; 6] = [0xfd, 1, 1, 1, 1, 1];

fn made_up(tag: CircuitTag) -> SocketAddr {
    let mut octets = [0; 16];
    octets[..6].copy_from_slice(&RELAYED);
    octets[12..].copy_from_slice(&tag.number().to_be_bytes());
    SocketAddr::from((octets, 1))
}

fn tag_of(address: SocketAddr) -> Option<CircuitTag> {
    let IpAddr::V6(ip) = address.ip() else { return None };
    let [.., a, b, c, d] = ip.octets();
    CircuitTag::new(u32::from_be_bytes([a, b, c, d]))
}

/// A datagram in transit, to the relay or to its destination there.
struct Datagram {
    from: SocketAddr,
    to: usize,
    bytes: Vec<u8>,
}

struct Node {
    endpoint: Endpoint,
    forwarder: Forwarder,
    application: FaceId,
    client: RelayClient,
    /// The peer that it requests at the relay.
    wanted: Option<PeerKey>,
    control: Option<(LinkId, StreamId)>,
    link: Option<(LinkId, FaceId)>,
    /// When the link changed to a direct path.
    moved: Option<Duration>,
    out: Vec<(FaceId, Bytes)>,
    inbox: Vec<Bytes>,
    leaving: Vec<(SocketAddr, Vec<u8>)>,
}

impl Node {
    fn new(seed: u8, wanted: Option<PeerKey>) -> Self {
        let mut forwarder =
            Forwarder::new(Default::default(), ForwarderSeed::from_random([seed; 16]));
        let application = forwarder.add_face(FaceScope::Local);
        let key = StaticKey::from_bytes([seed; 32]);
        let mut endpoint = Endpoint::new(xylem_link::LinkConfig::default(), key, [seed; 32]);
        assert!(endpoint.add_synthetic_prefix(RELAYED, PathKind::Relayed));
        Self {
            endpoint,
            forwarder,
            application,
            client: RelayClient::new([seed; 32], wanted.is_none(), vec![]),
            wanted,
            control: None,
            link: None,
            moved: None,
            out: Vec::new(),
            inbox: Vec::new(),
            leaving: Vec::new(),
        }
    }

    fn begin(&mut self, now: Duration, relay: PeerKey) {
        self.endpoint.connect(now, address(RELAY), Some(relay));
    }

    /// Requests the peer at the relay, and dials at once behind the request.
    fn ask_relay(&mut self, now: Duration, link: LinkId) {
        let stream = self.endpoint.open_stream(link, purpose::REACH).unwrap();
        self.control = Some((link, stream));
        self.client.new_stream();
        let mut said = self.client.request();
        let asked = self.wanted.map(|key| (key, self.client.connect(ConnectTarget::Key(key.0))));
        said.extend(asked.iter().flat_map(|(_, (_, question))| question));
        assert_eq!(self.endpoint.write_stream(link, stream, &said), Ok(said.len()));
        self.flush(now);
        if let Some((key, (tag, _))) = asked {
            self.endpoint.connect(now, made_up(tag), Some(key));
        }
    }

    fn hear_relay(&mut self, now: Duration) {
        let Some((link, stream)) = self.control else { return };
        while let Ok(StreamRead::Data(bytes)) = self.endpoint.read_stream(link, stream) {
            self.client.handle_control(now, &bytes).unwrap();
        }
    }

    fn drain(&mut self, now: Duration) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                LinkEvent::Connected { link, remote, .. } if remote == address(RELAY) => {
                    self.ask_relay(now, link);
                }
                LinkEvent::Connected { link, .. } => {
                    self.link = Some((link, self.forwarder.add_face(FaceScope::NonLocal)));
                    let seen: Vec<_> = self.client.observed()[0].into_iter().collect();
                    self.endpoint.announce_candidates(link, &seen, NatMapping::Stable);
                }
                LinkEvent::Candidates { link, addresses, .. } => {
                    self.endpoint.probe(now, link, &addresses, ProbePace::Each);
                }
                LinkEvent::Packet { packet, .. } => {
                    if let Some((_, face)) = self.link {
                        self.forward(now, face, packet);
                    }
                }
                LinkEvent::StreamReadable { .. } => self.hear_relay(now),
                LinkEvent::Moved { to, .. } => {
                    assert!(tag_of(to).is_none() && self.moved.is_none(), "there and not back");
                    self.moved = Some(now);
                }
                LinkEvent::Closed { reason, .. } => panic!("the link ended: {reason}"),
                _ => {}
            }
        }
    }

    fn forward(&mut self, now: Duration, from: FaceId, packet: Bytes) {
        let Some(incoming) = without_headers(&packet) else { return };
        let out = &mut self.out;
        let mut queue = |to: FaceId, leaving: OutgoingPacket<'_>| {
            out.push((to, Bytes::copy_from_slice(leaving.packet)));
        };
        let _ = self.forwarder.handle_packet(now, from, incoming, &mut queue);
        for (to, packet) in self.out.drain(..) {
            if to == self.application {
                self.inbox.push(packet);
            } else if let Some((link, _)) = self.link {
                let _ = self.endpoint.send(link, &packet);
            }
        }
    }

    /// Sends what is due, each datagram to its address on the network.
    fn flush(&mut self, now: Duration) {
        while let Some((_, datagram)) = self.client.poll_transmit(now) {
            self.leaving.push((address(RELAY), datagram));
        }
        let mut buffer = Vec::new();
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut buffer) {
            let each = transmit.segment_size.unwrap_or(transmit.len);
            for datagram in buffer[..transmit.len].chunks(each) {
                self.leaving.push(match tag_of(transmit.to) {
                    Some(tag) => {
                        (address(RELAY), [&self.client.header(tag)[..], datagram].concat())
                    }
                    None => (transmit.to, datagram.to_vec()),
                });
            }
        }
    }

    fn receive(&mut self, now: Duration, from: SocketAddr, mut bytes: Vec<u8>) {
        let came = match from == address(RELAY) {
            true => self.client.handle_datagram(now, false, &mut bytes),
            false => DatagramKind::Not,
        };
        let (from, datagram) = match came {
            DatagramKind::Control => return,
            DatagramKind::Inner(tag) => (made_up(tag), &bytes[HEADER..]),
            DatagramKind::Not => (from, &bytes[..]),
        };
        self.endpoint.handle_datagram(now, from, BytesMut::from(datagram));
        self.drain(now);
    }

    fn timers(&mut self, now: Duration) {
        self.endpoint.handle_timeout(now);
        self.drain(now);
        self.client.handle_timeout(now);
        while self.client.poll_event().is_some() {}
        self.forwarder.handle_timeout(now, &mut |_, _: OutgoingPacket<'_>| {});
    }

    fn next_timer(&self) -> Option<Duration> {
        let own = [self.endpoint.poll_timeout(), self.forwarder.poll_timeout()];
        own.into_iter().chain([self.client.poll_timeout()]).flatten().min()
    }
}

struct Relay {
    endpoint: Endpoint,
    server: RelayServer,
    sessions: HashMap<LinkId, (StreamId, ControlSession)>,
    leaving: Vec<(SocketAddr, Vec<u8>)>,
}

impl Relay {
    fn new() -> Self {
        let key = StaticKey::from_bytes([9; 32]);
        Self {
            endpoint: Endpoint::new(xylem_link::LinkConfig::default(), key, [9; 32]),
            server: RelayServer::new(Quotas::default(), [9; 32]),
            sessions: HashMap::new(),
            leaving: Vec::new(),
        }
    }

    fn receive(&mut self, now: Duration, from: SocketAddr, mut bytes: Vec<u8>) {
        match self.server.handle_datagram(now, RelayPort::First, from, &mut bytes) {
            Relayed::Forward(to) => self.leaving.push((to, bytes)),
            Relayed::Done => {}
            Relayed::Not => {
                self.endpoint.handle_datagram(now, from, BytesMut::from(&bytes[..]));
                self.drain(now);
            }
        }
    }

    fn drain(&mut self, now: Duration) {
        while let Some(event) = self.endpoint.poll_event() {
            if let LinkEvent::StreamOpened { link, stream, purpose: purpose::REACH } = event {
                self.sessions.insert(link, (stream, ControlSession::default()));
            }
            if let LinkEvent::StreamOpened { link, .. } | LinkEvent::StreamReadable { link, .. } =
                event
            {
                self.answer(now, link);
            }
        }
    }

    fn answer(&mut self, now: Duration, link: LinkId) {
        let up = self.endpoint.link(link).expect("it is up");
        let (key, at) = (up.peer().0, up.remote());
        let (stream, session) = self.sessions.get_mut(&link).expect("it was opened");
        while let Ok(StreamRead::Data(bytes)) = self.endpoint.read_stream(link, *stream) {
            let (peer, mut out) = (RelayPeer { key, at, host: at.ip() }, Vec::new());
            self.server.handle_request(now, session, &peer, &bytes, &mut out).unwrap();
            assert_eq!(self.endpoint.write_stream(link, *stream, &out), Ok(out.len()));
        }
    }

    fn flush(&mut self, now: Duration) {
        while let Some((_, to, datagram)) = self.server.poll_transmit() {
            self.leaving.push((to, datagram));
        }
        let mut buffer = Vec::new();
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut buffer) {
            let each = transmit.segment_size.unwrap_or(transmit.len);
            let datagrams = buffer[..transmit.len].chunks(each);
            self.leaving.extend(datagrams.map(|datagram| (transmit.to, datagram.to_vec())));
        }
    }
}

/// A sharer that is registered, and a getter that knows its key and the relay.
struct World {
    queue: EventQueue<Datagram>,
    net: Internet,
    realms: [Realm; 3],
    /// One-way delay from each node to the relay.
    delays: [Duration; 2],
    nodes: [Node; 2],
    relay: Relay,
    publication: Publication,
    stored: Rc<Stored>,
    transfer: Transfer,
    is_asked: bool,
    first: Option<Duration>,
}

impl World {
    fn new(delays: [Duration; 2]) -> Self {
        let stored = Stored::new(vec![7; 200_000]);
        let publisher = PublisherKey::from_bytes(&[7; 32]);
        let object = Name::from_uri("/simulated/file").unwrap();
        let prefix = naming::versioned(object.as_ref(), 1).unwrap();
        let manifest = Manifest::file(stored.outboard.root(), 200_000, b"file");
        let packet = sign_manifest(&manifest, prefix.as_ref(), &publisher).unwrap();
        let publication = Publication::new(prefix.clone(), packet, &publisher.public()).unwrap();
        let root = Some(manifest.root);
        // As with a ticket that states no size.
        let spec = TransferSpec { prefix, publisher: publisher.public(), root, size: None };

        let mut sharer = Node::new(1, None);
        let served = sharer.application;
        sharer.forwarder.add_route(object.as_ref(), served, 0).unwrap();
        let key = sharer.endpoint.public_key();
        let mut net = Internet::default();
        net.add_host(Realm::PUBLIC, address(RELAY).ip());
        let inside = [SHARER, GETTER].map(|node| {
            let public = IpAddr::from([198, 51, 100, node as u8]);
            let realm =
                net.add_nat(Realm::PUBLIC, public, NatBehaviour::PORT_RESTRICTED, node as u64);
            net.add_host(realm, address(node).ip());
            realm
        });
        let mut world = Self {
            queue: EventQueue::new(),
            net,
            realms: [inside[SHARER], inside[GETTER], Realm::PUBLIC],
            delays,
            nodes: [sharer, Node::new(2, Some(key))],
            relay: Relay::new(),
            publication,
            stored,
            transfer: Transfer::new(spec, TransferConfig::default(), 1),
            is_asked: false,
            first: None,
        };
        let relay = world.relay.endpoint.public_key();
        world.nodes[SHARER].begin(Duration::ZERO, relay);
        world.run_until(ms(5_000));
        world.nodes[GETTER].begin(ms(5_000), relay);
        world
    }

    fn send(&mut self, node: usize, to: SocketAddr, bytes: Vec<u8>) {
        let now = self.queue.now();
        let Some(arrival) = self.net.send(now, self.realms[node], address(node), to) else {
            return;
        };
        let place = |realm: &Realm| *realm == arrival.realm;
        let to = self.realms.iter().position(place).expect("somebody is there");
        let of = |node: usize| self.delays.get(node).copied().unwrap_or_default();
        let datagram = Datagram { from: arrival.from, to, bytes };
        self.queue.schedule(now + of(node) + of(to), datagram);
    }

    fn answer(&mut self) {
        let now = self.queue.now();
        let sharer = &mut self.nodes[SHARER];
        for packet in std::mem::take(&mut sharer.inbox) {
            let Ok(Packet::Interest(interest)) = Packet::decode(&packet) else { continue };
            let (mut reader, mut data) = (Reader(self.stored.clone()), Vec::new());
            let answer = self.publication.answer(&interest, &mut reader, &mut data).unwrap();
            if answer == ServeOutcome::Data {
                sharer.forward(now, sharer.application, data.into());
            }
        }
    }

    fn ask(&mut self) {
        let now = self.queue.now();
        let getter = &mut self.nodes[GETTER];
        let Some((_, face)) = getter.link else { return };
        let peer = PeerId(face.0 as u32);
        if !self.is_asked {
            self.is_asked = self.transfer.add_peer(now, peer);
        }
        for packet in getter.inbox.drain(..) {
            self.transfer.handle_data(now, peer, packet);
        }
        if self.transfer.poll_timeout(now).is_some_and(|at| at <= now) {
            self.transfer.handle_timeout(now);
        }
        while let Some(event) = self.transfer.poll_event() {
            match event {
                TransferEvent::Manifest { manifest, .. } => {
                    let (id, root, geometry) = (ObjectId::Root, manifest.root, manifest.geometry());
                    let all = Some(0..geometry.segments());
                    self.transfer.add_object(id, root, geometry, all, [], None).unwrap();
                }
                TransferEvent::Segment { .. } => drop(self.first.get_or_insert(now)),
                _ => {}
            }
        }
        let (getter, mut interest) = (&mut self.nodes[GETTER], Vec::new());
        while let Some(peer) = self.transfer.poll_transmit(now, &mut interest) {
            let mut packet = Vec::new();
            let fragment = Some(&interest[..]);
            let next_hop_face_id = Some(u64::from(peer.0));
            LpPacket { fragment, next_hop_face_id, ..LpPacket::default() }.encode(&mut packet);
            getter.forward(now, getter.application, packet.into());
        }
    }
}

impl Simulation for World {
    type Event = Datagram;

    fn queue(&mut self) -> &mut EventQueue<Datagram> {
        &mut self.queue
    }

    fn next_timer(&self) -> Option<Duration> {
        let now = self.queue.now();
        let timers = self.nodes.iter().filter_map(Node::next_timer);
        let relay = [self.relay.endpoint.poll_timeout(), self.relay.server.poll_timeout()];
        let all = timers.chain(relay.into_iter().flatten());
        let next = all.chain(self.transfer.poll_timeout(now).filter(|_| self.is_asked)).min();
        // A timer that is due already must not stop time.
        next.map(|at| at.max(now + Duration::from_micros(1)))
    }

    fn act(&mut self) -> ControlFlow<()> {
        let now = self.queue.now();
        self.nodes.iter_mut().for_each(|node| node.timers(now));
        self.relay.endpoint.handle_timeout(now);
        self.relay.server.handle_timeout(now);
        self.relay.drain(now);
        self.answer();
        self.ask();
        for node in [SHARER, GETTER] {
            self.nodes[node].flush(now);
            for (to, bytes) in std::mem::take(&mut self.nodes[node].leaving) {
                self.send(node, to, bytes);
            }
        }
        self.relay.flush(now);
        for (to, bytes) in std::mem::take(&mut self.relay.leaving) {
            self.send(RELAY, to, bytes);
        }
        let done = self.first.is_some() && self.nodes.iter().all(|node| node.moved.is_some());
        if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn handle(&mut self, datagram: Datagram) {
        let (now, Datagram { from, to, bytes }) = (self.queue.now(), datagram);
        match self.nodes.get_mut(to) {
            Some(node) => node.receive(now, from, bytes),
            None => self.relay.receive(now, from, bytes),
        }
    }
}

/// Wherever the relay is on the path, content arrives after four round trips, and a direct path after two more.
#[test]
fn the_first_content_takes_four_round_trips_and_the_direct_way_two_more() {
    let half = ROUND_TRIP / 2;
    for delays in [[half / 2, half / 2], [Duration::ZERO, half], [half, Duration::ZERO]] {
        let mut world = World::new(delays);
        let begun = world.queue.now();
        world.run_until(begun + 20 * ROUND_TRIP);
        let since = |at: Option<Duration>| at.expect("in time") - begun;
        let first = since(world.first);
        let direct = world.nodes.iter().map(|node| since(node.moved)).max().expect("two");
        println!("{delays:?}: content after {first:?}, direct after {direct:?}");
        assert!(first <= 4 * ROUND_TRIP, "{first:?}");
        assert!(direct <= 6 * ROUND_TRIP, "{direct:?}");
    }
}
