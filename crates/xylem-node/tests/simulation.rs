//! Two whole nodes, without sockets or clock: publication, forwarder and link on one side, link,
//! forwarder and transfer on the other, joined by a network that loses, delays, reorders and
//! doubles datagrams. Virtual time, one seed, the same run every time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use xylem_forward::{FaceId, FaceScope, Forwarder, Incoming, Outgoing, Seed};
use xylem_hash::Hash;
use xylem_link::{Endpoint, Event as LinkEvent, LinkId, StaticKey};
use xylem_object::naming::{self, ObjectId};
use xylem_object::{Answer, Manifest, Publication, PublisherKey, Source, sign_manifest};
use xylem_packet::{LpPacket, Name, Packet};
use xylem_transfer::{Config, Event, PeerId, Spec, Transfer};
use xylem_tree::{Geometry, NodeSource, Outboard, SegmentSize};

const SERVER: usize = 0;
const CLIENT: usize = 1;

fn address(node: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, node as u8 + 1], 7348))
}

/// What the network does to a datagram, in thousandths and in time.
#[derive(Clone, Copy, Debug)]
struct Path {
    lost: u64,
    doubled: u64,
    delay: Duration,
    /// Each datagram is late by up to this, on its own: neighbours overtake each other.
    jitter: Duration,
    mtu: usize,
    narrow: Option<Narrow>,
    /// The transfer is told how large the link's datagrams are.
    told: bool,
}

/// A bottleneck on the way to the client: bytes a second, bytes that wait at most, and from how many
/// on it marks what may be marked.
#[derive(Clone, Copy, Debug)]
struct Narrow {
    rate: f64,
    buffer: f64,
    mark_from: f64,
}

/// A datagram on its way: to whom, and whether a router has marked it.
struct Flying {
    to: usize,
    marked: bool,
    bytes: Vec<u8>,
}

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

/// Datagrams on their way, by time of arrival.
struct Network {
    path: Path,
    chance: Chance,
    flying: BTreeMap<(Duration, u64), Flying>,
    sent: u64,
    busy_until: Duration,
    /// What the bottleneck has marked and dropped, and the sum of what each
    /// datagram that met it found waiting.
    marked: u64,
    dropped: u64,
    waited: f64,
    met: u64,
}

impl Network {
    /// When the bottleneck lets a datagram go, and whether it marks it; `None`: it is full.
    fn narrow(&mut self, now: Duration, len: usize, ecn: bool) -> Option<(Duration, bool)> {
        let Some(narrow) = self.path.narrow else { return Some((now, false)) };
        let waiting = self.busy_until.saturating_sub(now).as_secs_f64() * narrow.rate;
        self.waited += waiting;
        self.met += 1;
        if waiting + len as f64 > narrow.buffer {
            self.dropped += 1;
            return None;
        }
        let leaves = now.max(self.busy_until) + Duration::from_secs_f64(len as f64 / narrow.rate);
        self.busy_until = leaves;
        let marked = ecn && waiting >= narrow.mark_from;
        self.marked += u64::from(marked);
        Some((leaves, marked))
    }

    fn send(&mut self, now: Duration, to: usize, ecn: bool, datagram: &[u8]) {
        if datagram.len() > self.path.mtu || self.chance.below(1_000) < self.path.lost {
            return;
        }
        let passed =
            if to == CLIENT { self.narrow(now, datagram.len(), ecn) } else { Some((now, false)) };
        let Some((leaves, marked)) = passed else { return };
        let copies = 1 + u64::from(self.chance.below(1_000) < self.path.doubled);
        for _ in 0..copies {
            let late = self.chance.below(self.path.jitter.as_micros() as u64 + 1);
            let at = leaves + self.path.delay + Duration::from_micros(late);
            self.sent += 1;
            let flying = Flying { to, marked, bytes: datagram.to_vec() };
            self.flying.insert((at, self.sent), flying);
        }
    }
}

/// The packet within a frame of the application, and the next hop that it may have chosen.
fn without_headers(frame: &Bytes) -> Option<Incoming<'_>> {
    match xylem_packet::Packet::decode(frame).ok()? {
        xylem_packet::Packet::Lp(lp) => Some(Incoming {
            next_hop: lp.next_hop_face_id.map(FaceId),
            ..Incoming::bare(lp.fragment?)
        }),
        _ => Some(Incoming::bare(frame)),
    }
}

/// Link and forwarder of one node.
struct Node {
    endpoint: Endpoint,
    forwarder: Forwarder,
    application: FaceId,
    link: Option<(LinkId, FaceId)>,
    out: Vec<(FaceId, Bytes, bool)>,
    /// Packets for the application, and whether they came with a congestion mark.
    inbox: Vec<(Bytes, bool)>,
    buffer: Vec<u8>,
}

impl Node {
    fn new(key: StaticKey, seed: u8) -> Self {
        let mut forwarder = Forwarder::new(Default::default(), Seed::from_random([seed; 16]));
        let application = forwarder.add_face(FaceScope::Local);
        Self {
            endpoint: Endpoint::new(xylem_link::Config::default(), key, [seed; 32]),
            forwarder,
            application,
            link: None,
            out: Vec::new(),
            inbox: Vec::new(),
            buffer: Vec::new(),
        }
    }

    fn drain(&mut self, now: Duration) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                LinkEvent::Connected { link, .. } => {
                    let face = self.forwarder.add_face(FaceScope::NonLocal);
                    self.link = Some((link, face));
                }
                LinkEvent::Packet { packet, marked, .. } => {
                    if let Some((_, face)) = self.link {
                        self.forward(now, face, packet, marked);
                    }
                }
                LinkEvent::Closed { reason, .. } => panic!("the link ended: {reason}"),
                other => panic!("{other:?}, and nobody asked for a stream"),
            }
        }
    }

    fn forward(&mut self, now: Duration, from: FaceId, packet: Bytes, marked: bool) {
        let Some(mut incoming) = without_headers(&packet) else { return };
        incoming.congestion_mark = marked.then_some(1);
        let out = &mut self.out;
        let mut queue = |to: FaceId, leaving: Outgoing<'_>| {
            let marked = leaving.congestion_mark.is_some();
            out.push((to, Bytes::copy_from_slice(leaving.packet), marked));
        };
        let _ = self.forwarder.handle_packet(now, from, incoming, &mut queue);
        for (to, packet, marked) in self.out.drain(..) {
            if to == self.application {
                self.inbox.push((packet, marked));
            } else if let Some((link, _)) = self.link {
                let _ = self.endpoint.send(link, &packet);
            }
        }
    }

    fn transmit(&mut self, now: Duration, to: usize, network: &mut Network) {
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.buffer) {
            let each = transmit.segment_size.unwrap_or(transmit.len);
            for datagram in self.buffer[..transmit.len].chunks(each) {
                network.send(now, to, transmit.ecn, datagram);
            }
        }
    }

    fn timers(&mut self, now: Duration) {
        if self.endpoint.poll_timeout().is_some_and(|t| t <= now) {
            self.endpoint.handle_timeout(now);
            self.drain(now);
        }
        if self.forwarder.poll_timeout().is_some_and(|t| t <= now) {
            self.forwarder.handle_timeout(now, &mut |_, _: Outgoing<'_>| {});
        }
    }

    fn next_timer(&self) -> Option<Duration> {
        [self.endpoint.poll_timeout(), self.forwarder.poll_timeout()].into_iter().flatten().min()
    }
}

/// A published file in memory.
struct Shelf {
    content: Vec<u8>,
    outboard: Outboard,
}

impl Source for Shelf {
    type Error = std::convert::Infallible;

    fn geometry(&mut self, _: ObjectId) -> Option<Geometry> {
        Some(*self.outboard.geometry())
    }

    fn read_content(&mut self, _: ObjectId, at: u64, out: &mut [u8]) -> Result<(), Self::Error> {
        out.copy_from_slice(&self.content[at as usize..at as usize + out.len()]);
        Ok(())
    }

    fn read_nodes(&mut self, _: ObjectId, slot: u64, out: &mut [u8]) -> Result<(), Self::Error> {
        let mut nodes = self.outboard.as_bytes();
        nodes.read_nodes(slot, out).expect("slots of this tree");
        Ok(())
    }

    fn root(&mut self, _: ObjectId) -> Option<Hash> {
        Some(self.outboard.root())
    }
}

/// How a run went: enough to tell two runs apart.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    took: Duration,
    datagrams: u64,
    marked: u64,
    dropped: u64,
    lost: u64,
    mean_waiting: u64,
}

/// Fetches `size` bytes over `path`; everything hangs on `seed`.
fn fetch(size: usize, path: Path, seed: u64) -> Outcome {
    let content: Vec<u8> = (0..size).map(|i| (i * 7 + i / 251) as u8).collect();
    let outboard = Outboard::of(&content, SegmentSize::DEFAULT);
    let publisher = PublisherKey::from_bytes(&[7; 32]);
    let object = Name::from_uri("/simulated/file").unwrap();
    let prefix = naming::versioned(object.as_ref(), 1).unwrap();
    let manifest = Manifest::file(outboard.root(), size as u64, b"file");
    let packet = sign_manifest(&manifest, prefix.as_ref(), &publisher).unwrap();
    let mut publication = Publication::new(prefix.clone(), packet, &publisher.public()).unwrap();
    let mut shelf = Shelf { content: content.clone(), outboard };

    let server_key = StaticKey::from_bytes([1; 32]);
    let expected = server_key.public();
    let mut nodes = [Node::new(server_key, 11), Node::new(StaticKey::from_bytes([2; 32]), 12)];
    let served = nodes[SERVER].application;
    nodes[SERVER].forwarder.add_route(object.as_ref(), served, 0).unwrap();
    nodes[CLIENT].endpoint.connect(Duration::ZERO, address(SERVER), Some(expected));

    let root = Some(manifest.root);
    let spec = Spec { prefix, publisher: publisher.public(), root, size: Some(size as u64) };
    let mut transfer = Transfer::new(spec, Config::default(), seed);
    let chance = Chance(seed | 1);
    let mut network = Network {
        path,
        chance,
        flying: BTreeMap::new(),
        sent: 0,
        busy_until: Duration::ZERO,
        marked: 0,
        dropped: 0,
        waited: 0.0,
        met: 0,
    };
    let (mut now, mut asked, mut fetched) = (Duration::ZERO, false, vec![0; size]);
    let mut interest = Vec::new();

    loop {
        for (packet, _) in std::mem::take(&mut nodes[SERVER].inbox) {
            let Ok(Packet::Interest(interest)) = Packet::decode(&packet) else { continue };
            let mut data = Vec::new();
            if publication.answer(&interest, &mut shelf, &mut data).unwrap() == Answer::Data {
                let from = nodes[SERVER].application;
                nodes[SERVER].forward(now, from, data.into(), false);
            }
        }
        if let (Some((_, face)), false) = (nodes[CLIENT].link, asked) {
            asked = transfer.add_peer(now, PeerId(face.0 as u32));
        }
        if let (Some((link, face)), true) = (nodes[CLIENT].link, path.told) {
            let size = nodes[CLIENT].endpoint.stats(link).expect("it is up").datagram_size;
            transfer.set_datagram_size(PeerId(face.0 as u32), size);
        }
        for packet in std::mem::take(&mut nodes[CLIENT].inbox) {
            let (_, face) = nodes[CLIENT].link.expect("packets come over the link");
            match packet {
                (packet, false) => transfer.handle_data(now, PeerId(face.0 as u32), packet),
                (packet, true) => transfer.handle_marked_data(now, PeerId(face.0 as u32), packet),
            }
        }
        // As the program does: only when it is due.
        if transfer.poll_timeout(now).is_some_and(|at| at <= now) {
            transfer.handle_timeout(now);
        }
        while let Some(event) = transfer.poll_event() {
            match event {
                Event::Manifest { manifest, .. } => {
                    let geometry = manifest.geometry();
                    let all = Some(0..geometry.segments());
                    let root = manifest.root;
                    transfer.add_object(ObjectId::Root, root, geometry, all, [], None).unwrap();
                }
                Event::Segment { segment, .. } => {
                    let at = segment.offset as usize;
                    fetched[at..at + segment.content.len()].copy_from_slice(&segment.content);
                }
                Event::ObjectComplete(_) => {
                    assert!(fetched == content, "what was fetched differs");
                    return Outcome {
                        took: now,
                        datagrams: network.sent,
                        marked: network.marked,
                        dropped: network.dropped,
                        lost: transfer.progress().lost,
                        mean_waiting: (network.waited / network.met.max(1) as f64) as u64,
                    };
                }
                Event::Nodes { .. } => {}
                other => panic!("{other:?} between two honest nodes"),
            }
        }
        while let Some(peer) = transfer.poll_transmit(now, &mut interest) {
            let mut packet = Vec::new();
            let fragment = Some(&interest[..]);
            let next_hop_face_id = Some(u64::from(peer.0));
            LpPacket { fragment, next_hop_face_id, ..LpPacket::default() }.encode(&mut packet);
            let from = nodes[CLIENT].application;
            nodes[CLIENT].forward(now, from, packet.into(), false);
        }
        for node in [SERVER, CLIENT] {
            nodes[node].transmit(now, 1 - node, &mut network);
        }

        let arrival = network.flying.keys().next().map(|(at, _)| *at);
        let timers = nodes.iter().filter_map(Node::next_timer);
        let next = timers.chain(arrival).chain(transfer.poll_timeout(now)).min();
        // A timer that is due already must not stop time.
        now = next.unwrap_or(now).max(now + Duration::from_micros(1));
        assert!(now < Duration::from_secs(600), "no end in sight: {path:?}");
        while let Some(entry) = network.flying.first_entry().filter(|e| e.key().0 <= now) {
            let Flying { to, marked, bytes } = entry.remove();
            let (endpoint, datagram) = (&mut nodes[to].endpoint, BytesMut::from(&bytes[..]));
            endpoint.handle_marked_datagram(now, address(1 - to), marked, datagram);
            nodes[to].drain(now);
        }
        nodes.iter_mut().for_each(|node| node.timers(now));
    }
}

fn path(lost: u64, delay_ms: u64, jitter_ms: u64, doubled: u64, mtu: usize) -> Path {
    let (delay, jitter) = (Duration::from_millis(delay_ms), Duration::from_millis(jitter_ms));
    Path { lost, doubled, delay, jitter, mtu, narrow: None, told: true }
}

#[test]
fn a_file_arrives_over_every_kind_of_path() {
    println!("loss ‰, delay ms, jitter ms, doubled ‰, MTU → time, datagrams");
    for (lost, delay, jitter, doubled, mtu) in [
        (0, 0, 0, 0, 65_507),
        (0, 1, 0, 0, 1_472),
        (10, 1, 1, 10, 1_472),
        (0, 20, 20, 0, 1_472),
        (10, 20, 5, 20, 1_472),
        (50, 20, 10, 50, 1_472),
        (1, 100, 20, 0, 1_472),
        (200, 1, 1, 200, 1_472),
        (50, 150, 50, 0, 1_232),
    ] {
        let outcome = fetch(300_000, path(lost, delay, jitter, doubled, mtu), 42);
        println!("{lost}, {delay}, {jitter}, {doubled}, {mtu} → {outcome:?}");
    }
}

#[test]
fn one_seed_is_one_run() {
    let path = path(30, 10, 10, 30, 1_472);
    let first = fetch(200_000, path, 7);
    assert_eq!(first, fetch(200_000, path, 7));
    assert_ne!(first, fetch(200_000, path, 8));
}

#[test]
fn sizes_at_every_edge_arrive() {
    for size in [0, 1, 8_192, 8_193, 65_536, 65_537, 2_100_000] {
        fetch(size, path(5, 2, 2, 5, 1_472), size as u64 + 1);
    }
}

/// A router that marks instead of dropping: the mark of a datagram comes through link and forwarder to
/// the transfer, which asks for less; nothing is lost, and little waits.
#[test]
fn marks_of_the_network_slow_a_transfer_down_before_anything_is_lost() {
    // 50 Mbit/s, 20 ms there and back: 125 KB fill the path.
    let narrow = |mark_from| Narrow { rate: 6_250_000.0, buffer: 1_000_000.0, mark_from };
    let over = |mark_from| Path { narrow: Some(narrow(mark_from)), ..path(0, 10, 0, 0, 1_472) };
    let marked = fetch(8_000_000, over(40_000.0), 3);
    let unmarked = fetch(8_000_000, over(f64::INFINITY), 3);
    println!("{marked:?}\n{unmarked:?}");
    assert!(marked.marked > 0 && unmarked.marked == 0);
    assert_eq!((marked.dropped, marked.lost), (0, 0));
    assert!(marked.mean_waiting < unmarked.mean_waiting, "{marked:?}, {unmarked:?}");
    assert!(marked.mean_waiting < 60_000, "{marked:?}");
    // Of 1.28 s at the bottleneck's rate, headers not counted.
    assert!(marked.took < Duration::from_secs(2), "{marked:?}");
}

/// A Data takes six datagrams of 1,472 bytes, so that 1 % of lost datagrams are 6 % of lost Data. Known,
/// that is no load.
#[test]
fn chance_losses_of_datagrams_do_not_slow_a_transfer_down() {
    // 100 Mbit/s, 100 ms there and back, a queue of one bandwidth-delay product.
    let narrow = Narrow { rate: 12_500_000.0, buffer: 1_250_000.0, mark_from: f64::INFINITY };
    let over = |told| Path { narrow: Some(narrow), told, ..path(10, 50, 0, 0, 1_472) };
    let mbit = |told| {
        let outcome = fetch(40_000_000, over(told), 5);
        println!("told: {told}, {outcome:?}");
        40.0 * 8.0 / outcome.took.as_secs_f64()
    };
    let (told, untold) = (mbit(true), mbit(false));
    println!("{told:.1} Mbit/s, {untold:.1} where it is not known");
    assert!(told > 1.2 * untold && told > 40.0, "{told:.1}, {untold:.1}");
}
