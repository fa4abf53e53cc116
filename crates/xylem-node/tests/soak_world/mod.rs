//! Five nodes that share and fetch at random for hours of virtual time. Link, forwarder, publication and transfer are
//! those of the program. The network between them loses, delays, duplicates, cuts and heals.
//!
//! One seed determines every choice. Each fetch is compared with its original. A getter may serve what it has fetched,
//! so that a later fetch has several peers. [`World::census`] counts what the nodes hold: it must not grow with time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use xylem_forward::{FaceId, FaceScope, Forwarder, ForwarderSeed, OutgoingPacket};
use xylem_link::{Endpoint, LinkEvent, LinkId, PeerKey, StaticKey};
use xylem_object::naming::{self, ObjectId};
use xylem_object::{Manifest, Publication, PublisherKey, ServeOutcome, sign_manifest};
use xylem_packet::{LpPacket, Name, Packet};
use xylem_sim::{Conditions, EventQueue, Path, Rng, Simulation, ms};
use xylem_transfer::{PeerId, Transfer, TransferConfig, TransferEvent, TransferSpec};

#[path = "../in_memory/mod.rs"]
mod in_memory;

use in_memory::{Reader, Stored, address, without_headers};

pub(crate) const NODES: usize = 5;
/// Most publications that a node serves; one more drops the oldest.
const SERVED: usize = 3;
const LARGEST: u64 = 2_000_000;
/// Longer than any fetch takes here, even with a cut of the network during it.
const PATIENCE: Duration = Duration::from_secs(240);
const PATH: Conditions = Conditions {
    delay: ms(5),
    jitter: ms(3),
    loss: 0.005,
    duplicate: 0.005,
    mtu: 1_472,
    ..Conditions::PERFECT
};

/// Content that was published.
struct Original {
    object: Name,
    prefix: Name,
    publisher: PublisherKey,
    packet: Vec<u8>,
    stored: Rc<Stored>,
}

impl Original {
    fn new(number: u64, rng: &mut Rng) -> Self {
        let size = rng.below(LARGEST);
        let stored = Stored::new(rng.bytes(size as usize));
        let publisher = PublisherKey::from_bytes(&[number as u8; 32]);
        let object = Name::from_uri(&format!("/soak/{number}")).expect("a name");
        let prefix = naming::versioned(object.as_ref(), number + 1).expect("a short name");
        let manifest = Manifest::file(stored.outboard.root(), size, b"soak");
        let packet =
            sign_manifest(&manifest, prefix.as_ref(), &publisher).expect("a valid manifest");
        Self { object, prefix, publisher, packet, stored }
    }
}

struct Serving {
    original: Rc<Original>,
    publication: Publication,
}

struct Fetching {
    original: Rc<Original>,
    from: Vec<usize>,
    transfer: Transfer,
    content: Vec<u8>,
    since: Duration,
    complete: bool,
}

/// A packet from the forwarder to the node, and the face that it arrived on.
type SoakPacket = (Bytes, Option<FaceId>);

struct Node {
    number: usize,
    endpoint: Endpoint,
    forwarder: Forwarder,
    application: FaceId,
    /// Links by peer. `dialled`: dials in progress, with their start.
    links: BTreeMap<usize, (LinkId, FaceId)>,
    dialled: BTreeMap<usize, Duration>,
    inbox: Vec<SoakPacket>,
    serving: VecDeque<Serving>,
    fetching: Option<Fetching>,
    /// When it acts again.
    wakes: Duration,
    buffer: Vec<u8>,
}

fn node_at(address: SocketAddr) -> Option<usize> {
    (0..NODES).find(|node| in_memory::address(*node) == address)
}

fn key(node: usize) -> StaticKey {
    StaticKey::from_bytes([node as u8 + 1; 32])
}

impl Node {
    fn new(number: usize) -> Self {
        let mut forwarder =
            Forwarder::new(Default::default(), ForwarderSeed::from_random([number as u8; 16]));
        let application = forwarder.add_face(FaceScope::Local);
        let seed = [number as u8 + 100; 32];
        Self {
            number,
            endpoint: Endpoint::new(xylem_link::LinkConfig::default(), key(number), seed),
            forwarder,
            application,
            links: BTreeMap::new(),
            dialled: BTreeMap::new(),
            inbox: Vec::new(),
            serving: VecDeque::new(),
            fetching: None,
            wakes: Duration::ZERO,
            buffer: Vec::new(),
        }
    }

    fn drain(&mut self, now: Duration) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                LinkEvent::Connected { link, remote, .. } => self.connected(now, link, remote),
                LinkEvent::Packet { link, packet, .. } => {
                    let face = self.links.values().find(|(l, _)| *l == link).map(|(_, f)| *f);
                    if let Some(face) = face {
                        self.forward(now, face, &packet);
                    }
                }
                LinkEvent::Closed { link, .. } => self.closed(now, link),
                LinkEvent::Observed { .. } | LinkEvent::Moved { .. } => {}
                other => panic!("{other:?}, and nobody asked for a stream"),
            }
        }
    }

    fn connected(&mut self, now: Duration, link: LinkId, remote: SocketAddr) {
        let peer = node_at(remote).expect("nobody else is in this world");
        self.dialled.remove(&peer);
        let face = self.forwarder.add_face(FaceScope::NonLocal);
        // Both sides may dial. The newer link counts, as after a restart.
        if let Some((old, face)) = self.links.insert(peer, (link, face)) {
            self.forwarder.remove_face(face);
            self.endpoint.close(old);
            self.forget_peer(now, face);
        }
    }

    fn closed(&mut self, now: Duration, link: LinkId) {
        let found = self.links.iter().find(|(_, (l, _))| *l == link).map(|(p, (_, f))| (*p, *f));
        if let Some((peer, face)) = found {
            self.links.remove(&peer);
            self.forwarder.remove_face(face);
            self.forget_peer(now, face);
        }
        self.dialled.clear();
    }

    fn forget_peer(&mut self, now: Duration, face: FaceId) {
        if let Some(fetching) = &mut self.fetching {
            fetching.transfer.remove_peer(now, PeerId(face.0 as u32));
        }
    }

    fn forward(&mut self, now: Duration, from: FaceId, packet: &Bytes) {
        let Some(incoming) = without_headers(packet) else { return };
        let mut out = Vec::new();
        let mut queue = |to: FaceId, leaving: OutgoingPacket<'_>| {
            if leaving.nack.is_none() {
                out.push((to, Bytes::copy_from_slice(leaving.packet), leaving.incoming_face));
            }
        };
        // A refused packet is lost, as in any network.
        let _ = self.forwarder.handle_packet(now, from, incoming, &mut queue);
        for (to, packet, came_over) in out {
            if to == self.application {
                self.inbox.push((packet, came_over));
            } else if let Some((link, _)) = self.links.values().find(|(_, face)| *face == to) {
                let _ = self.endpoint.send(*link, &packet);
            }
        }
    }

    fn serve(&mut self, original: Rc<Original>) {
        if self.serving.iter().any(|s| Rc::ptr_eq(&s.original, &original)) {
            return;
        }
        if self.serving.len() == SERVED
            && let Some(old) = self.serving.pop_front()
        {
            self.forwarder.remove_route(old.original.object.as_ref(), self.application);
        }
        let (prefix, packet) = (original.prefix.clone(), original.packet.clone());
        let publication = Publication::new(prefix, packet, &original.publisher.public())
            .expect("the manifest that was just signed");
        self.forwarder
            .add_route(original.object.as_ref(), self.application, 0)
            .expect("a few routes");
        self.serving.push_back(Serving { original, publication });
    }

    /// Processes the forwarder's packets: answers Interests, judges Data.
    fn work(&mut self, now: Duration) {
        for (packet, came_over) in std::mem::take(&mut self.inbox) {
            let Ok(Packet::Interest(interest)) = Packet::decode(&packet) else {
                if let (Some(fetching), Some(face)) = (&mut self.fetching, came_over) {
                    fetching.transfer.handle_data(now, PeerId(face.0 as u32), packet);
                }
                continue;
            };
            let mut data = Vec::new();
            let answered = self.serving.iter_mut().any(|serving| {
                let mut reader = Reader(serving.original.stored.clone());
                let Ok(answer) = serving.publication.answer(&interest, &mut reader, &mut data);
                matches!(answer, ServeOutcome::Data)
            });
            if answered {
                self.forward(now, self.application, &data.into());
            }
        }
    }

    /// Advances the transfer. Returns the original when the fetch is complete.
    fn fetch(&mut self, now: Duration) -> Option<Rc<Original>> {
        let mut fetching = self.fetching.take()?;
        assert!(
            now - fetching.since < PATIENCE,
            "a fetch does not end: {:?}",
            fetching.transfer.progress()
        );
        for peer in &fetching.from {
            if let Some((_, face)) = self.links.get(peer) {
                fetching.transfer.add_peer(now, PeerId(face.0 as u32));
            } else if self.dialled.get(peer).is_none_or(|at| now > *at + Duration::from_secs(10)) {
                let expected: PeerKey = key(*peer).public();
                self.dialled.insert(*peer, now);
                self.endpoint.connect(now, address(*peer), Some(expected));
            }
        }
        if fetching.transfer.poll_timeout(now).is_some_and(|at| at <= now) {
            fetching.transfer.handle_timeout(now);
        }
        while let Some(event) = fetching.transfer.poll_event() {
            fetching.on(event);
        }
        let mut interest = Vec::new();
        self.fetching = Some(fetching);
        while let Some(peer) =
            self.fetching.as_mut().and_then(|f| f.transfer.poll_transmit(now, &mut interest))
        {
            let (mut packet, fragment) = (Vec::new(), Some(&interest[..]));
            let next_hop_face_id = Some(u64::from(peer.0));
            LpPacket { fragment, next_hop_face_id, ..LpPacket::default() }.encode(&mut packet);
            let before = self.inbox.len();
            self.forward(now, self.application, &packet.into());
            // An answer from the content store has no face: it counts as this peer's answer.
            for (_, came_over) in &mut self.inbox[before..] {
                came_over.get_or_insert(FaceId(u64::from(peer.0)));
            }
        }
        let over = self.fetching.as_ref().is_some_and(|fetching| fetching.complete);
        let done = self.fetching.take_if(|_| over)?;
        assert!(done.content == done.original.stored.content, "what was fetched differs");
        Some(done.original)
    }

    fn timers(&mut self, now: Duration) {
        if self.endpoint.poll_timeout().is_some_and(|t| t <= now) {
            self.endpoint.handle_timeout(now);
            self.drain(now);
        }
        if self.forwarder.poll_timeout().is_some_and(|t| t <= now) {
            self.forwarder.handle_timeout(now, &mut |_, _: OutgoingPacket<'_>| {});
        }
    }

    fn next_timer(&self, now: Duration) -> Option<Duration> {
        let transfer = self.fetching.as_ref().and_then(|f| f.transfer.poll_timeout(now));
        let own = [self.endpoint.poll_timeout(), self.forwarder.poll_timeout(), transfer];
        own.into_iter().flatten().chain(self.fetching.is_none().then_some(self.wakes)).min()
    }
}

impl Fetching {
    fn on(&mut self, event: TransferEvent) {
        match event {
            TransferEvent::Manifest { manifest, .. } => {
                let geometry = manifest.geometry();
                let all = Some(0..geometry.segments());
                self.transfer
                    .add_object(ObjectId::Root, manifest.root, geometry, all, [], None)
                    .expect("the only object");
            }
            TransferEvent::Segment { segment, .. } => {
                let at = segment.offset as usize;
                self.content[at..at + segment.content.len()].copy_from_slice(&segment.content);
            }
            TransferEvent::ObjectComplete(_) => self.complete = true,
            TransferEvent::Nodes { .. } => {}
            other => panic!("{other:?} among honest nodes"),
        }
    }
}

/// Totals over all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub fetches: u64,
    pub bytes: u64,
    pub links: usize,
    pub faces: usize,
    pub pending: usize,
    pub pending_memory: usize,
    pub routes: usize,
    pub flying: usize,
    pub cuts: u64,
}

/// A datagram from one node to another.
pub(crate) struct Datagram {
    from: usize,
    to: usize,
    bytes: Vec<u8>,
}

/// The nodes and the network.
pub(crate) struct World {
    nodes: Vec<Node>,
    rng: Rng,
    queue: EventQueue<Datagram>,
    /// The path between any two nodes.
    path: Path,
    /// Until when two nodes are cut off from each other, by the lower and the higher number.
    cut: HashMap<(usize, usize), Duration>,
    published: u64,
    census: Census,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            nodes: (0..NODES).map(Node::new).collect(),
            rng: Rng::new(seed),
            queue: EventQueue::new(),
            path: Path::new(PATH, !seed),
            cut: HashMap::new(),
            published: 0,
            census: Census::default(),
        }
    }

    pub(crate) fn census(&self) -> Census {
        let sum = |of: fn(&Node) -> usize| self.nodes.iter().map(of).sum();
        Census {
            links: sum(|node| node.links.len()),
            faces: sum(|node| node.forwarder.faces().count()),
            pending: sum(|node| node.forwarder.pit_len()),
            pending_memory: sum(|node| node.forwarder.pit_memory()),
            routes: sum(|node| node.forwarder.fib_len()),
            flying: self.queue.len(),
            ..self.census
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.queue.now()
    }

    /// Runs until `end`.
    pub(crate) fn run(&mut self, end: Duration) {
        self.run_until(end);
    }

    fn fetched(&mut self, n: usize, original: Rc<Original>) {
        self.census.fetches += 1;
        self.census.bytes += original.stored.content.len() as u64;
        if self.rng.below(3) == 0 {
            self.serve(n, original);
        }
        self.nodes[n].wakes = self.now() + self.rng.time_below(ms(40_000));
    }

    /// Has a node serve an original, unless the one to be dropped for it is being fetched.
    fn serve(&mut self, n: usize, original: Rc<Original>) {
        let oldest =
            self.nodes[n].serving.front().filter(|_| self.nodes[n].serving.len() == SERVED);
        let in_use = oldest.is_some_and(|oldest| {
            let fetched = self.nodes.iter().filter_map(|node| node.fetching.as_ref());
            fetched.into_iter().any(|f| Rc::ptr_eq(&f.original, &oldest.original))
        });
        if !in_use {
            self.nodes[n].serve(original);
        }
    }

    /// An idle node shares something new, or fetches what others have. Now and then two nodes are cut off from each
    /// other.
    fn act_at_random(&mut self, n: usize) {
        if self.rng.below(20) == 0 {
            let (a, b) = (self.rng.index(NODES), n);
            let long = self.rng.time_below(ms(50_000));
            self.cut.insert((a.min(b), a.max(b)), self.now() + long);
            self.census.cuts += 1;
        }
        let others: Vec<Rc<Original>> = (0..NODES)
            .filter(|other| *other != n)
            .flat_map(|other| self.nodes[other].serving.iter().map(|s| s.original.clone()))
            .collect();
        if others.is_empty() || self.rng.below(4) == 0 {
            let original = Rc::new(Original::new(self.published, &mut self.rng));
            self.published += 1;
            self.serve(n, original);
            self.nodes[n].wakes = self.now() + self.rng.time_below(ms(20_000));
            return;
        }
        let original = others[self.rng.index(others.len())].clone();
        let has = |node: &&Node| {
            node.number != n && node.serving.iter().any(|s| Rc::ptr_eq(&s.original, &original))
        };
        let from: Vec<usize> = self.nodes.iter().filter(has).map(|node| node.number).collect();
        let size = original.stored.content.len();
        let spec = TransferSpec {
            prefix: original.prefix.clone(),
            publisher: original.publisher.public(),
            root: Some(original.stored.outboard.root()),
            size: Some(size as u64),
        };
        let config = TransferConfig { give_up: PATIENCE, ..TransferConfig::default() };
        let transfer = Transfer::new(spec, config, self.rng.next_u64());
        let (content, since) = (vec![0; size], self.now());
        self.nodes[n].fetching =
            Some(Fetching { original, from, transfer, content, since, complete: false });
    }

    fn transmit(&mut self, from: usize) {
        let Self { nodes, queue, path, cut, .. } = self;
        let (node, now) = (&mut nodes[from], queue.now());
        while let Some(transmit) = node.endpoint.poll_transmit(now, &mut node.buffer) {
            let Some(to) = node_at(transmit.to) else { continue };
            path.conditions.cut = cut.get(&(from.min(to), from.max(to))).is_some_and(|t| *t > now);
            let each = transmit.segment_size.unwrap_or(transmit.len);
            for datagram in node.buffer[..transmit.len].chunks(each) {
                for delivery in path.send(now, datagram.len(), false) {
                    let bytes = delivery.packet(datagram);
                    queue.schedule(delivery.at, Datagram { from, to, bytes });
                }
            }
        }
    }
}

impl Simulation for World {
    type Event = Datagram;

    fn queue(&mut self) -> &mut EventQueue<Datagram> {
        &mut self.queue
    }

    fn next_timer(&self) -> Option<Duration> {
        let timers = self.nodes.iter().filter_map(|node| node.next_timer(self.now()));
        // A timer that is due already must not stop time.
        timers.min().map(|at| at.max(self.now() + Duration::from_micros(1)))
    }

    fn act(&mut self) -> ControlFlow<()> {
        let now = self.now();
        for n in 0..NODES {
            self.nodes[n].timers(now);
            self.nodes[n].work(now);
            if let Some(original) = self.nodes[n].fetch(now) {
                self.fetched(n, original);
            }
            if self.nodes[n].fetching.is_none() && self.nodes[n].wakes <= now {
                self.act_at_random(n);
            }
        }
        (0..NODES).for_each(|n| self.transmit(n));
        ControlFlow::Continue(())
    }

    fn handle(&mut self, datagram: Datagram) {
        let (now, Datagram { from, to, bytes }) = (self.now(), datagram);
        let node = &mut self.nodes[to];
        node.endpoint.handle_datagram(now, address(from), BytesMut::from(&bytes[..]));
        node.drain(now);
    }
}
