//! A DHT of many nodes under virtual time: honest nodes with tables and stores, silent ones, and liars, over paths that
//! lose datagrams. Everything follows from a seed.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, HashMap};

use xylem_sim::{EventQueue, Rng};

use crate::bencode::{self, Dictionary, put_bytes, put_integer};
use crate::id::bound_prefix;
use crate::item::MutableItem;
use crate::{DhtClient, DhtEvent, DhtId, LookupEnd, LookupId};

/// The network that liars want to have hit.
pub(super) const VICTIM: [u8; 2] = [9, 9];
/// The peer that liars list with a thousand ports.
pub(super) const LISTED_VICTIM: [u8; 4] = [9, 1, 2, 3];
const LOSS: f64 = 0.03;
const K: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    Honest,
    Silent,
    /// Lists invented nodes next to the target, at addresses of the victim's network.
    AimsAtVictim,
    /// Lists a victim as hundreds of peers.
    ListsVictim,
    /// Claims to be next to any target, and lists liars of its kind, each time under new ids.
    Endless,
    /// Sends rubbish with a right transaction.
    Rubbish,
    /// Sends an item with a high number and without a signature of its key.
    Forges,
}

pub(super) struct SimNode {
    pub(super) id: DhtId,
    pub(super) at: SocketAddr,
    pub(super) kind: NodeKind,
    table: Vec<usize>,
    peers: BTreeMap<DhtId, Vec<SocketAddr>>,
    items: BTreeMap<DhtId, MutableItem>,
}

/// How the client's NAT chooses the port that a node sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mapping {
    Cone,
    Symmetric,
}

pub(super) struct SimClient {
    pub(super) dht: DhtClient,
    pub(super) host: IpAddr,
    pub(super) mapping: Mapping,
    ports: HashMap<SocketAddr, u16>,
    pub(super) events: Vec<DhtEvent>,
}

enum SimEvent {
    ToNode { node: SocketAddr, from: SocketAddr, bytes: Vec<u8> },
    ToClient { client: usize, from: SocketAddr, bytes: Vec<u8> },
}

pub(super) struct World {
    pub(super) nodes: Vec<SimNode>,
    places: HashMap<SocketAddr, usize>,
    pub(super) clients: Vec<SimClient>,
    queue: EventQueue<SimEvent>,
    pub(super) rng: Rng,
    /// Datagrams that clients have sent, by address.
    pub(super) sent: BTreeMap<SocketAddr, usize>,
    liars: Vec<usize>,
}

fn random_id(rng: &mut Rng) -> DhtId {
    let mut id = [0; 20];
    rng.fill(&mut id);
    DhtId(id)
}

/// An id close to the target: a hundred bits are the same.
fn close_to(target: &DhtId, rng: &mut Rng) -> DhtId {
    let mut id = *target;
    rng.fill(&mut id.0[13..]);
    id
}

impl World {
    /// `bad` of the nodes are silent, or one of the kinds of liars, in turn.
    pub(super) fn new(count: usize, bad: usize, v6: bool, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut order: Vec<usize> = (0..count).collect();
        rng.shuffle(&mut order);
        let kinds = [
            NodeKind::Silent,
            NodeKind::AimsAtVictim,
            NodeKind::Silent,
            NodeKind::ListsVictim,
            NodeKind::Silent,
            NodeKind::Endless,
            NodeKind::Silent,
            NodeKind::Rubbish,
            NodeKind::Forges,
        ];
        let mut nodes: Vec<SimNode> = (0..count)
            .map(|n| {
                let ip: IpAddr = if v6 {
                    Ipv6Addr::from(0x2a00_0000_0000_0000_0000_0000_0000_0001 + ((n as u128) << 64))
                        .into()
                } else {
                    Ipv4Addr::from(0x1700_0000 + 7 * n as u32).into()
                };
                let mut id = random_id(&mut rng);
                // Two of three keep to BEP 42.
                if n % 3 != 0 {
                    let random = id.0[19] & 7;
                    id.0[..3].copy_from_slice(&bound_prefix(ip, random)[..3]);
                }
                let at = SocketAddr::new(ip, 6_881);
                let (peers, items) = (BTreeMap::new(), BTreeMap::new());
                SimNode { id, at, kind: NodeKind::Honest, table: Vec::new(), peers, items }
            })
            .collect();
        for (n, node) in order.iter().take(bad).enumerate() {
            nodes[*node].kind = kinds[n % kinds.len()];
        }
        // Tables as in Kademlia: a few nodes for each length of common prefix.
        let first = |id: &DhtId| u32::from_be_bytes([id.0[0], id.0[1], id.0[2], id.0[3]]);
        let ids: Vec<u32> = nodes.iter().map(|node| first(&node.id)).collect();
        for (n, node) in nodes.iter_mut().enumerate() {
            let (start, mut buckets) = (rng.index(count), [0; 33]);
            for other in (start..count).chain(0..start).filter(|other| *other != n) {
                let bucket = &mut buckets[(ids[n] ^ ids[other]).leading_zeros() as usize];
                if *bucket < K {
                    *bucket += 1;
                    node.table.push(other);
                }
            }
        }
        let places = nodes.iter().enumerate().map(|(n, node)| (node.at, n)).collect();
        let endless = |n: &usize| nodes[*n].kind == NodeKind::Endless;
        let liars = (0..count).filter(endless).collect();
        let (clients, queue, sent) = (Vec::new(), EventQueue::new(), BTreeMap::new());
        Self { nodes, places, clients, queue, rng, sent, liars }
    }

    /// Some nodes that answer; every fourth one of a list is silent.
    pub(super) fn bootstrap(&self) -> Vec<SocketAddr> {
        let of = |kind| self.nodes.iter().filter(move |node| node.kind == kind).map(|node| node.at);
        of(NodeKind::Honest).take(3).chain(of(NodeKind::Silent).take(1)).collect()
    }

    pub(super) fn add(&mut self, dht: DhtClient, host: &str, mapping: Mapping) -> usize {
        let host = host.parse().unwrap();
        self.clients.push(SimClient { dht, host, mapping, ports: HashMap::new(), events: vec![] });
        self.clients.len() - 1
    }

    pub(super) fn now(&self) -> Duration {
        self.queue.now()
    }

    fn delay(&mut self) -> Duration {
        Duration::from_millis(10 + self.rng.below(70))
    }

    fn seen_port(&mut self, client: usize, node: SocketAddr) -> u16 {
        let client = &mut self.clients[client];
        match client.mapping {
            Mapping::Cone => 40_000,
            Mapping::Symmetric => {
                let next = 50_000 + client.ports.len() as u16;
                *client.ports.entry(node).or_insert(next)
            }
        }
    }

    fn flush(&mut self, client: usize) {
        let now = self.now();
        while let Some(transmit) = self.clients[client].dht.poll_transmit(now) {
            assert!(transmit.bytes.len() < 1_400, "it fits a datagram");
            *self.sent.entry(transmit.to).or_default() += 1;
            let from =
                SocketAddr::new(self.clients[client].host, self.seen_port(client, transmit.to));
            if !self.rng.chance(LOSS) {
                let at = now + self.delay();
                self.queue.schedule(
                    at,
                    SimEvent::ToNode { node: transmit.to, from, bytes: transmit.bytes },
                );
            }
        }
        while let Some(event) = self.clients[client].dht.poll_event() {
            self.clients[client].events.push(event);
        }
    }

    /// Runs until a lookup of a client has ended; returns its events too.
    pub(super) fn run(&mut self, client: usize, id: LookupId) -> (Vec<DhtEvent>, LookupEnd) {
        let end = self.now() + Duration::from_secs(120);
        loop {
            (0..self.clients.len()).for_each(|client| self.flush(client));
            let done = |event: &DhtEvent| matches!(event, DhtEvent::Done(of, _) if *of == id);
            let events = &mut self.clients[client].events;
            if let Some(place) = events.iter().position(done) {
                let mut events: Vec<_> = events.drain(..=place).collect();
                let Some(DhtEvent::Done(_, end)) = events.pop() else { unreachable!() };
                return (events, end);
            }
            self.step();
            assert!(self.now() < end, "a lookup does not end");
        }
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, time: Duration) {
        let now = self.now();
        self.queue.advance(now + time);
        while self.queue.pop_due().is_some() {}
    }

    fn step(&mut self) {
        let timeouts = self.clients.iter().filter_map(|client| client.dht.poll_timeout());
        let next = timeouts.chain(self.queue.next_at()).min().expect("something is to come");
        self.queue.advance(next);
        let now = self.now();
        self.clients.iter_mut().for_each(|client| client.dht.handle_timeout(now));
        while let Some(event) = self.queue.pop_due() {
            match event {
                SimEvent::ToNode { node, from, bytes } => self.serve(node, from, &bytes),
                SimEvent::ToClient { client, from, bytes } => {
                    self.clients[client].dht.handle_datagram(now, from, &bytes);
                }
            }
        }
    }

    fn serve(&mut self, at: SocketAddr, from: SocketAddr, query: &[u8]) {
        let Some(place) = self.places.get(&at).copied() else { return };
        let Some(client) = self.clients.iter().position(|client| client.host == from.ip()) else {
            return;
        };
        for bytes in self.answers(place, from, query) {
            if !self.rng.chance(LOSS) {
                let when = self.now() + self.delay();
                self.queue.schedule(when, SimEvent::ToClient { client, from: at, bytes });
            }
        }
    }

    fn answers(&mut self, place: usize, from: SocketAddr, query: &[u8]) -> Vec<Vec<u8>> {
        let query = bencode::dictionary(query).expect("our queries are well-formed");
        assert_eq!((query.bytes(b"y"), query.integer(b"ro")), (Some(&b"q"[..]), Some(1)));
        let transaction = query.bytes(b"t").unwrap();
        let (name, asked) = (query.bytes(b"q").unwrap(), query.dictionary(b"a").unwrap());
        let kind = self.nodes[place].kind;
        if kind == NodeKind::Silent {
            return vec![];
        }
        let target =
            ["target", "info_hash"].iter().find_map(|key| asked.array(key.as_bytes()).map(DhtId));
        let target = target.or_else(|| {
            Some(DhtId::of_item(&asked.array(b"k")?, asked.bytes(b"salt").unwrap_or_default()))
        });
        let target = target.expect("a query has a target");
        let id = if kind == NodeKind::Endless {
            close_to(&target, &mut self.rng)
        } else {
            self.nodes[place].id
        };
        let listed = self.listed(place, &target);
        let mut body = b"d2:id".to_vec();
        put_bytes(&mut body, &id.0);
        if kind == NodeKind::Forges && name == b"get" {
            body.extend_from_slice(b"1:k");
            // The liar learns the key that is looked for from others.
            put_bytes(&mut body, &super::publisher().verifying_key().to_bytes());
        }
        body.extend_from_slice(if from.is_ipv6() { b"6:nodes6" } else { b"5:nodes" });
        put_bytes(&mut body, &listed);
        if kind == NodeKind::Forges && name == b"get" {
            body.extend_from_slice(b"3:seqi99e3:sig64:");
            body.extend_from_slice(&[7; 64]);
        }
        let token = [b"token".as_slice(), &place.to_be_bytes()].concat();
        let mut values: Vec<SocketAddr> = vec![];
        let mut item = None;
        if kind == NodeKind::Honest {
            match name {
                b"announce_peer" => {
                    if asked.bytes(b"token") != Some(&token[..]) {
                        return vec![error(transaction, 203)];
                    }
                    let implied = asked.integer(b"implied_port") == Some(1);
                    let port = asked.integer(b"port").unwrap() as u16;
                    let peer = SocketAddr::new(from.ip(), if implied { from.port() } else { port });
                    let peers = self.nodes[place].peers.entry(target).or_default();
                    if !peers.contains(&peer) {
                        peers.push(peer);
                    }
                }
                b"put" => {
                    if asked.bytes(b"token") != Some(&token[..]) {
                        return vec![error(transaction, 203)];
                    }
                    let put = put_item(asked);
                    if !put.is_signed() {
                        return vec![error(transaction, 206)];
                    }
                    let older = |known: &MutableItem| known.seq > put.seq;
                    if self.nodes[place].items.get(&target).is_some_and(older) {
                        return vec![error(transaction, 302)];
                    }
                    self.nodes[place].items.insert(target, put);
                }
                b"get_peers" => {
                    values = self.nodes[place].peers.get(&target).cloned().unwrap_or_default();
                }
                b"get" => item = self.nodes[place].items.get(&target).cloned(),
                _ => {}
            }
        }
        if kind == NodeKind::ListsVictim && name == b"get_peers" {
            values = (1..=300).map(|port| SocketAddr::from((LISTED_VICTIM, port))).collect();
        }
        if let Some(item) = &item {
            body.extend_from_slice(b"1:k");
            put_bytes(&mut body, &item.key);
            body.extend_from_slice(b"3:seq");
            put_integer(&mut body, item.seq);
            body.extend_from_slice(b"3:sig");
            put_bytes(&mut body, &item.signature);
        }
        body.extend_from_slice(b"5:token");
        put_bytes(&mut body, &token);
        if kind == NodeKind::Forges && name == b"get" {
            body.extend_from_slice(b"1:v6:forged");
        }
        if let Some(item) = item {
            body.extend_from_slice(b"1:v");
            put_bytes(&mut body, &item.value);
        }
        if !values.is_empty() {
            body.extend_from_slice(b"6:valuesl");
            values.iter().for_each(|at| put_bytes(&mut body, &compact(*at)));
            body.push(b'e');
        }
        body.push(b'e');
        let mut out = b"d2:ip".to_vec();
        // Liars report another address of ours.
        let honest = kind == NodeKind::Honest;
        put_bytes(
            &mut out,
            &compact(if honest { from } else { SocketAddr::from((LISTED_VICTIM, 7)) }),
        );
        out.extend_from_slice(b"1:r");
        if kind == NodeKind::Rubbish {
            out.extend_from_slice(b"d2:id20:tooshorte");
            return vec![out, [b"d1:rdee1:t4:", transaction, b"1:y1:re"].concat(), vec![b'l'; 900]];
        }
        out.extend_from_slice(&body);
        out.extend_from_slice(b"1:t");
        put_bytes(&mut out, transaction);
        out.extend_from_slice(b"1:y1:re");
        vec![out]
    }

    fn listed(&mut self, place: usize, target: &DhtId) -> Vec<u8> {
        let mut listed = Vec::new();
        match self.nodes[place].kind {
            NodeKind::AimsAtVictim => {
                for _ in 0..60 {
                    listed.extend_from_slice(&close_to(target, &mut self.rng).0);
                    let host = self.rng.below(40) as u8;
                    let port = 1 + self.rng.below(60_000) as u16;
                    let at = SocketAddr::from(([VICTIM[0], VICTIM[1], 0, host], port));
                    listed.extend_from_slice(&compact(at));
                }
            }
            NodeKind::Endless => {
                for _ in 0..60 {
                    let other = self.liars[self.rng.index(self.liars.len())];
                    listed.extend_from_slice(&close_to(target, &mut self.rng).0);
                    listed.extend_from_slice(&compact(self.nodes[other].at));
                }
            }
            _ => {
                let mut table = self.nodes[place].table.clone();
                table.sort_by_key(|other| self.nodes[*other].id.distance(target));
                for other in table.into_iter().take(K) {
                    listed.extend_from_slice(&self.nodes[other].id.0);
                    listed.extend_from_slice(&compact(self.nodes[other].at));
                }
            }
        }
        listed
    }
}

fn put_item(asked: Dictionary<'_>) -> MutableItem {
    MutableItem {
        key: asked.array(b"k").unwrap(),
        salt: asked.bytes(b"salt").unwrap_or_default().to_vec(),
        seq: asked.integer(b"seq").unwrap(),
        value: asked.bytes(b"v").unwrap().to_vec(),
        signature: asked.array(b"sig").unwrap(),
    }
}

fn error(transaction: &[u8], code: i64) -> Vec<u8> {
    let mut out = b"d1:el".to_vec();
    put_integer(&mut out, code);
    out.extend_from_slice(b"2:noe1:t");
    put_bytes(&mut out, transaction);
    out.extend_from_slice(b"1:y1:ee");
    out
}

fn compact(at: SocketAddr) -> Vec<u8> {
    let mut out = match at.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    out.extend_from_slice(&at.port().to_be_bytes());
    out
}
