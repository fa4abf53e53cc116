//! Five nodes that share and fetch at random, for hours of virtual time: link, forwarder, publication and
//! transfer as in the program, joined by a network that loses, delays, doubles, cuts and heals.
//!
//! Every choice comes from one seed. Each fetch is compared with its original; whoever has fetched
//! something may serve it as well, so that a later fetch has several peers. [`World::census`] counts what
//! the nodes hold: it must not grow with time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use xylem_forward::{FaceId, FaceScope, Forwarder, Incoming, Outgoing, Seed};
use xylem_hash::Hash;
use xylem_link::{Endpoint, Event as LinkEvent, LinkId, PeerKey, StaticKey};
use xylem_object::naming::{self, ObjectId};
use xylem_object::{Answer, Manifest, Publication, PublisherKey, Source, sign_manifest};
use xylem_packet::{LpPacket, Name, Packet};
use xylem_transfer::{Config, Event, PeerId, Spec, Transfer};
use xylem_tree::{Geometry, NodeSource, Outboard, SegmentSize};

pub const NODES: usize = 5;
/// Things that a node serves at once; the oldest makes room.
const SERVED: usize = 3;
const LARGEST: u64 = 2_000_000;
/// Longer than any fetch takes here, with a cut of the network in its midst.
const PATIENCE: Duration = Duration::from_secs(240);

/// xorshift64*: all chance of a run comes from one seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n.max(1)
    }
}

/// Something that was published.
struct Original {
    object: Name,
    prefix: Name,
    publisher: PublisherKey,
    packet: Vec<u8>,
    content: Vec<u8>,
    outboard: Outboard,
}

impl Original {
    fn new(number: u64, chance: &mut Chance) -> Self {
        let size = chance.below(LARGEST);
        let mut content = Vec::with_capacity(size as usize + 8);
        while (content.len() as u64) < size {
            content.extend_from_slice(&(chance.below(1 << 31) * 0x9e37_79b9).to_le_bytes());
        }
        content.truncate(size as usize);
        let outboard = Outboard::of(&content, SegmentSize::DEFAULT);
        let publisher = PublisherKey::from_bytes(&[number as u8; 32]);
        let object = Name::from_uri(&format!("/soak/{number}")).expect("a name");
        let prefix = naming::versioned(object.as_ref(), number + 1).expect("a short name");
        let manifest = Manifest::file(outboard.root(), size, b"soak");
        let packet =
            sign_manifest(&manifest, prefix.as_ref(), &publisher).expect("a valid manifest");
        Self { object, prefix, publisher, packet, content, outboard }
    }
}

/// An original as a publication reads it.
struct Shelf(Rc<Original>);

impl Source for Shelf {
    type Error = std::convert::Infallible;

    fn geometry(&mut self, _: ObjectId) -> Option<Geometry> {
        Some(*self.0.outboard.geometry())
    }

    fn read_content(&mut self, _: ObjectId, at: u64, out: &mut [u8]) -> Result<(), Self::Error> {
        out.copy_from_slice(&self.0.content[at as usize..at as usize + out.len()]);
        Ok(())
    }

    fn read_nodes(&mut self, _: ObjectId, slot: u64, out: &mut [u8]) -> Result<(), Self::Error> {
        self.0.outboard.as_bytes().read_nodes(slot, out).expect("slots of this tree");
        Ok(())
    }

    fn root(&mut self, _: ObjectId) -> Option<Hash> {
        Some(self.0.outboard.root())
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

/// What a node is told by its forwarder: a packet, and the face that it came over.
type Told = (Bytes, Option<FaceId>);

struct Node {
    number: usize,
    endpoint: Endpoint,
    forwarder: Forwarder,
    application: FaceId,
    /// By peer; and the dials under way, since when.
    links: BTreeMap<usize, (LinkId, FaceId)>,
    dialled: BTreeMap<usize, Duration>,
    inbox: Vec<Told>,
    serving: VecDeque<Serving>,
    fetching: Option<Fetching>,
    /// When it does something again.
    wakes: Duration,
    buffer: Vec<u8>,
}

fn address(node: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, node as u8 + 1], 7348))
}

fn node_at(address: SocketAddr) -> Option<usize> {
    (0..NODES).find(|node| self::address(*node) == address)
}

fn key(node: usize) -> StaticKey {
    StaticKey::from_bytes([node as u8 + 1; 32])
}

/// The packet within a frame of the application, and the next hop that it may have chosen.
fn without_headers(frame: &Bytes) -> Option<Incoming<'_>> {
    match Packet::decode(frame).ok()? {
        Packet::Lp(lp) => Some(Incoming {
            next_hop: lp.next_hop_face_id.map(FaceId),
            ..Incoming::bare(lp.fragment?)
        }),
        _ => Some(Incoming::bare(frame)),
    }
}

impl Node {
    fn new(number: usize) -> Self {
        let mut forwarder =
            Forwarder::new(Default::default(), Seed::from_random([number as u8; 16]));
        let application = forwarder.add_face(FaceScope::Local);
        let seed = [number as u8 + 100; 32];
        Self {
            number,
            endpoint: Endpoint::new(xylem_link::Config::default(), key(number), seed),
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
                other => panic!("{other:?}, and nobody asked for a stream"),
            }
        }
    }

    fn connected(&mut self, now: Duration, link: LinkId, remote: SocketAddr) {
        let peer = node_at(remote).expect("nobody else is in this world");
        self.dialled.remove(&peer);
        let face = self.forwarder.add_face(FaceScope::NonLocal);
        // Both may dial: the newer one counts, as after a restart.
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
        let mut queue = |to: FaceId, leaving: Outgoing<'_>| {
            if leaving.nack.is_none() {
                out.push((to, Bytes::copy_from_slice(leaving.packet), leaving.incoming_face));
            }
        };
        // A packet that is refused is lost, as in any network.
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

    /// Works off what the forwarder handed up: Interests are answered, Data judged.
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
                let mut shelf = Shelf(serving.original.clone());
                let Ok(answer) = serving.publication.answer(&interest, &mut shelf, &mut data);
                matches!(answer, Answer::Data)
            });
            if answered {
                self.forward(now, self.application, &data.into());
            }
        }
    }

    /// Lets the transfer go on; the original when it is over.
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
            // What the content store answers came over no face: it is this peer's answer.
            for (_, came_over) in &mut self.inbox[before..] {
                came_over.get_or_insert(FaceId(u64::from(peer.0)));
            }
        }
        let over = self.fetching.as_ref().is_some_and(|fetching| fetching.complete);
        let done = self.fetching.take_if(|_| over)?;
        assert!(done.content == done.original.content, "what was fetched differs");
        Some(done.original)
    }

    fn next_timer(&self, now: Duration) -> Option<Duration> {
        let transfer = self.fetching.as_ref().and_then(|f| f.transfer.poll_timeout(now));
        let own = [self.endpoint.poll_timeout(), self.forwarder.poll_timeout(), transfer];
        own.into_iter().flatten().chain(self.fetching.is_none().then_some(self.wakes)).min()
    }
}

impl Fetching {
    fn on(&mut self, event: Event) {
        match event {
            Event::Manifest { manifest, .. } => {
                let geometry = manifest.geometry();
                let all = Some(0..geometry.segments());
                self.transfer
                    .add_object(ObjectId::Root, manifest.root, geometry, all, [], None)
                    .expect("the only object");
            }
            Event::Segment { segment, .. } => {
                let at = segment.offset as usize;
                self.content[at..at + segment.content.len()].copy_from_slice(&segment.content);
            }
            Event::ObjectComplete(_) => self.complete = true,
            Event::Nodes { .. } => {}
            other => panic!("{other:?} among honest nodes"),
        }
    }
}

/// What all nodes hold together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
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

/// All of it.
pub struct World {
    pub now: Duration,
    nodes: Vec<Node>,
    chance: Chance,
    flying: BTreeMap<(Duration, u64), (usize, usize, Vec<u8>)>,
    sent: u64,
    /// Until when two nodes do not hear each other, by the lower and the higher number.
    cut: HashMap<(usize, usize), Duration>,
    published: u64,
    census: Census,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            now: Duration::ZERO,
            nodes: (0..NODES).map(Node::new).collect(),
            chance: Chance(seed | 1),
            flying: BTreeMap::new(),
            sent: 0,
            cut: HashMap::new(),
            published: 0,
            census: Census::default(),
        }
    }

    pub fn census(&self) -> Census {
        let sum = |of: fn(&Node) -> usize| self.nodes.iter().map(of).sum();
        Census {
            links: sum(|node| node.links.len()),
            faces: sum(|node| node.forwarder.faces().count()),
            pending: sum(|node| node.forwarder.pit_len()),
            pending_memory: sum(|node| node.forwarder.pit_memory()),
            routes: sum(|node| node.forwarder.fib_len()),
            flying: self.flying.len(),
            ..self.census
        }
    }

    /// Goes on until `end`.
    pub fn run(&mut self, end: Duration) {
        while self.now < end {
            for n in 0..NODES {
                self.nodes[n].work(self.now);
                if let Some(original) = self.nodes[n].fetch(self.now) {
                    self.fetched(n, original);
                }
                if self.nodes[n].fetching.is_none() && self.nodes[n].wakes <= self.now {
                    self.act(n);
                }
            }
            (0..NODES).for_each(|n| self.transmit(n));
            let arrival = self.flying.keys().next().map(|(at, _)| *at);
            let timers = self.nodes.iter().filter_map(|node| node.next_timer(self.now));
            let next = timers.chain(arrival).min();
            // A timer that is due already must not stop time.
            self.now = next.unwrap_or(end).max(self.now + Duration::from_micros(1));
            while let Some(entry) = self.flying.first_entry().filter(|e| e.key().0 <= self.now) {
                let (from, to, bytes) = entry.remove();
                let (node, datagram) = (&mut self.nodes[to], BytesMut::from(&bytes[..]));
                node.endpoint.handle_datagram(self.now, address(from), datagram);
                node.drain(self.now);
            }
            for node in &mut self.nodes {
                if node.endpoint.poll_timeout().is_some_and(|t| t <= self.now) {
                    node.endpoint.handle_timeout(self.now);
                    node.drain(self.now);
                }
                if node.forwarder.poll_timeout().is_some_and(|t| t <= self.now) {
                    node.forwarder.handle_timeout(self.now, &mut |_, _: Outgoing<'_>| {});
                }
            }
        }
    }

    fn fetched(&mut self, n: usize, original: Rc<Original>) {
        self.census.fetches += 1;
        self.census.bytes += original.content.len() as u64;
        if self.chance.below(3) == 0 {
            self.serve(n, original);
        }
        self.nodes[n].wakes = self.now + Duration::from_millis(self.chance.below(40_000));
    }

    /// Lets a node serve something, unless what would have to go is being fetched.
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

    /// A node without work shares something new, or fetches what others have; now and then two nodes
    /// lose sight of each other.
    fn act(&mut self, n: usize) {
        if self.chance.below(20) == 0 {
            let (a, b) = (self.chance.below(NODES as u64) as usize, n);
            let long = Duration::from_millis(self.chance.below(50_000));
            self.cut.insert((a.min(b), a.max(b)), self.now + long);
            self.census.cuts += 1;
        }
        let others: Vec<Rc<Original>> = (0..NODES)
            .filter(|other| *other != n)
            .flat_map(|other| self.nodes[other].serving.iter().map(|s| s.original.clone()))
            .collect();
        if others.is_empty() || self.chance.below(4) == 0 {
            let original = Rc::new(Original::new(self.published, &mut self.chance));
            self.published += 1;
            self.serve(n, original);
            self.nodes[n].wakes = self.now + Duration::from_millis(self.chance.below(20_000));
            return;
        }
        let original = others[self.chance.below(others.len() as u64) as usize].clone();
        let has = |node: &&Node| {
            node.number != n && node.serving.iter().any(|s| Rc::ptr_eq(&s.original, &original))
        };
        let from: Vec<usize> = self.nodes.iter().filter(has).map(|node| node.number).collect();
        let size = original.content.len();
        let spec = Spec {
            prefix: original.prefix.clone(),
            publisher: original.publisher.public(),
            root: Some(original.outboard.root()),
            size: Some(size as u64),
        };
        let config = Config { give_up: PATIENCE, ..Config::default() };
        let transfer = Transfer::new(spec, config, self.chance.below(u64::MAX));
        let (content, since) = (vec![0; size], self.now);
        self.nodes[n].fetching =
            Some(Fetching { original, from, transfer, content, since, complete: false });
    }

    fn transmit(&mut self, from: usize) {
        let Self { now, nodes, chance, flying, sent, cut, .. } = self;
        let node = &mut nodes[from];
        while let Some(transmit) = node.endpoint.poll_transmit(*now, &mut node.buffer) {
            let Some(to) = node_at(transmit.to) else { continue };
            let silent = cut.get(&(from.min(to), from.max(to))).is_some_and(|until| until > now);
            let each = transmit.segment_size.unwrap_or(transmit.len);
            for datagram in node.buffer[..transmit.len].chunks(each) {
                // 1,472 bytes go through, 0.5 % are lost, 0.5 % come twice, up to 3 ms late.
                if silent || datagram.len() > 1_472 || chance.below(200) == 0 {
                    continue;
                }
                for _ in 0..1 + u64::from(chance.below(200) == 0) {
                    let late = Duration::from_micros(5_000 + chance.below(3_000));
                    *sent += 1;
                    flying.insert((*now + late, *sent), (from, to, datagram.to_vec()));
                }
            }
        }
    }
}
