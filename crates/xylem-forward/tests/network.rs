//! Three forwarders with routes in a circle, over links that delay, lose and duplicate packets, with faces that come
//! and go. It runs in virtual time, from a seed.
//!
//! The invariants: every packet stops eventually. A consumer gets at most one answer for an Interest, and only the
//! right one. An answer arrives if the network permits it. In the end nothing is pending.

mod common;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use common::{Kept, data_with, interest_with, name};
use xylem_forward::{
    FaceId, FaceScope, Forwarder, ForwarderConfig, ForwarderSeed, ForwardingStrategy,
    IncomingPacket,
};
use xylem_packet::{Interest, NackReason, Packet};

const NODES: usize = 3;
const STEP: Duration = Duration::from_millis(1);

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n
    }
}

/// A packet on a link.
#[derive(Clone)]
struct Flight {
    node: usize,
    face: FaceId,
    packet: Vec<u8>,
    token: Option<Vec<u8>>,
    nack: Option<NackReason>,
}

struct Net {
    random: Random,
    now: Duration,
    nodes: Vec<Forwarder>,
    /// Where a node's face leads: to a node and its face there, or to the application of that node.
    links: HashMap<(usize, FaceId), (usize, FaceId)>,
    applications: Vec<FaceId>,
    flights: BTreeMap<(Duration, u64), Flight>,
    sent: u64,
    lossy: bool,
    /// Names of the Data that each application received.
    got: Vec<HashMap<String, usize>>,
    transmissions: HashMap<String, usize>,
}

impl Net {
    fn new(seed: u64, strategy: ForwardingStrategy, lossy: bool) -> Net {
        let nodes = (0..NODES).map(|i| {
            let mut config = ForwarderConfig::default();
            config.pit_capacity = 64;
            config.cs_capacity_bytes = 20_000;
            let mut node = Forwarder::new(
                config,
                ForwarderSeed::from_random((u128::from(seed) + i as u128).to_le_bytes()),
            );
            node.set_strategy(name("/").as_ref(), strategy).unwrap();
            node
        });
        let mut net = Net {
            random: Random(seed * 2 + 1),
            now: Duration::from_secs(1),
            nodes: nodes.collect(),
            links: HashMap::new(),
            applications: Vec::new(),
            flights: BTreeMap::new(),
            sent: 0,
            lossy,
            got: vec![HashMap::new(); NODES],
            transmissions: HashMap::new(),
        };
        for i in 0..NODES {
            let face = net.nodes[i].add_face(FaceScope::Local);
            net.applications.push(face);
            net.nodes[i].add_route(name(&format!("/node/{i}")).as_ref(), face, 0).unwrap();
        }
        for i in 0..NODES {
            net.connect(i, (i + 1) % NODES);
        }
        net
    }

    /// Adds a link in both directions with the default route over it in both directions, which makes a circle.
    fn connect(&mut self, a: usize, b: usize) {
        let (fa, fb) = (
            self.nodes[a].add_face(FaceScope::NonLocal),
            self.nodes[b].add_face(FaceScope::NonLocal),
        );
        self.links.insert((a, fa), (b, fb));
        self.links.insert((b, fb), (a, fa));
        self.nodes[a].add_route(name("/node").as_ref(), fa, 1).unwrap();
        self.nodes[b].add_route(name("/node").as_ref(), fb, 2).unwrap();
    }

    fn disconnect(&mut self, a: usize, fa: FaceId) -> (usize, usize) {
        let (b, fb) = self.links.remove(&(a, fa)).expect("a link");
        self.links.remove(&(b, fb));
        self.nodes[a].remove_face(fa);
        self.nodes[b].remove_face(fb);
        (a, b)
    }

    fn give(&mut self, node: usize, face: FaceId, flight: &Flight) {
        let mut out = Kept::default();
        let incoming = IncomingPacket {
            pit_token: flight.token.as_deref(),
            nack: flight.nack,
            ..IncomingPacket::bare(&flight.packet)
        };
        let _ = self.nodes[node].handle_packet(self.now, face, incoming, &mut out);
        self.dispatch(node, out);
    }

    fn dispatch(&mut self, node: usize, out: Kept) {
        for left in out.0 {
            if left.to == self.applications[node] {
                self.application(node, &left.packet, left.nack.is_some());
                continue;
            }
            let (peer, face) = self.links[&(node, left.to)];
            let uri = match Packet::decode(&left.packet).unwrap() {
                Packet::Interest(i) if left.nack.is_none() => i.name().to_string(),
                _ => String::new(),
            };
            *self.transmissions.entry(uri).or_default() += 1;
            // A frame that a link duplicates may arrive after its first copy was answered. The forwarder then sees a
            // loop, and the Nack may overtake the answer.
            let copies = match self.random.below(20) {
                0 | 1 if self.lossy => 0,
                2 if self.lossy => 2,
                _ => 1,
            };
            for _ in 0..copies {
                let delay = Duration::from_millis(1 + self.random.below(15));
                let flight = Flight {
                    node: peer,
                    face,
                    packet: left.packet.clone(),
                    token: left.token.clone(),
                    nack: left.nack,
                };
                self.sent += 1;
                self.flights.insert((self.now + delay, self.sent), flight);
            }
        }
    }

    /// Every application produces the names under its node's name.
    fn application(&mut self, node: usize, packet: &[u8], is_nack: bool) {
        match Packet::decode(packet).unwrap() {
            Packet::Interest(_) if is_nack => {}
            Packet::Interest(interest) => {
                let uri = interest.name().to_string();
                assert!(uri.starts_with(&format!("/node/{node}/")), "{uri} at node {node}");
                let packet = data_with(&uri, uri.as_bytes(), 0).to_vec();
                let flight = Flight { node, face: FaceId(0), packet, token: None, nack: None };
                self.give(node, self.applications[node], &flight);
            }
            Packet::Data(data) => {
                let uri = data.name().to_string();
                assert_eq!(data.content(), uri.as_bytes());
                *self.got[node].entry(uri).or_default() += 1;
            }
            Packet::Lp(_) => unreachable!("bare packets"),
        }
    }

    fn run(&mut self, until: Duration) {
        while self.now < until {
            self.now += STEP;
            while let Some(first) = self.flights.first_entry().filter(|f| f.key().0 <= self.now) {
                let flight = first.remove();
                if self.links.contains_key(&(flight.node, flight.face)) {
                    self.give(flight.node, flight.face, &flight);
                }
            }
            for node in &mut self.nodes {
                if node.poll_timeout().is_some_and(|due| due <= self.now) {
                    node.handle_timeout(self.now, &mut Kept::default());
                }
            }
        }
    }

    fn ask(&mut self, node: usize, uri: &str) {
        let nonce = self.random.below(1 << 31) as u32;
        let packet = interest_with(uri, nonce, |i| i.lifetime_ms(1000)).to_vec();
        assert!(Interest::decode(&packet).is_ok());
        let flight = Flight { node, face: FaceId(0), packet, token: None, nack: None };
        self.give(node, self.applications[node], &flight);
    }
}

fn storm(seed: u64, strategy: ForwardingStrategy, lossy: bool) {
    let mut net = Net::new(seed, strategy, lossy);
    let mut asked: HashMap<(usize, String), usize> = HashMap::new();
    for n in 0..150 {
        let node = net.random.below(NODES as u64) as usize;
        // Names of another node, or of a node that does not exist. Interests for the latter circle.
        let of = (node as u64 + 1 + net.random.below(NODES as u64)) % (NODES as u64 + 1);
        let uri = format!("/node/{of}/{}", net.random.below(40));
        net.ask(node, &uri);
        *asked.entry((node, uri)).or_default() += 1;
        if lossy && n % 10 == 9 {
            let mut links: Vec<_> = net.links.keys().copied().collect();
            links.sort();
            let (a, fa) = links[net.random.below(links.len() as u64) as usize];
            let (a, b) = net.disconnect(a, fa);
            net.connect(a, b);
        }
        let until = net.now + Duration::from_millis(net.random.below(60));
        net.run(until);
        assert!(net.nodes.iter().all(|node| node.pit_len() <= 64));
        assert!(net.nodes.iter().all(|node| node.cs().bytes <= 20_000));
    }
    let until = net.now + Duration::from_secs(10);
    net.run(until);
    assert!(net.flights.is_empty(), "something still goes round");
    assert!(net.nodes.iter().all(|node| node.pit_len() == 0 && node.poll_timeout().is_none()));
    for (node, got) in net.got.iter().enumerate() {
        for (uri, times) in got {
            let asked = asked.get(&(node, uri.clone())).copied().unwrap_or(0);
            assert!(*times <= asked, "node {node} got {uri} {times} times for {asked} Interests");
        }
    }
    for ((node, uri), _) in asked.iter().filter(|_| !lossy) {
        let exists = !uri.starts_with(&format!("/node/{NODES}/"));
        assert_eq!(net.got[*node].contains_key(uri), exists, "{seed} {strategy:?} {node} {uri}");
    }
    // Each of the three sends an Interest once over each of its links, or again after a new one. It never circulates
    // without end.
    let most = net.transmissions.iter().filter(|(uri, _)| !uri.is_empty()).map(|(_, n)| *n).max();
    assert!(most.unwrap_or(0) <= 12 * 150 / 40, "{most:?} transmissions of one name");
}

#[test]
fn interests_stop_circling_and_are_answered() {
    for seed in 0..20 {
        for strategy in ForwardingStrategy::ALL {
            storm(seed, strategy, false);
        }
    }
}

#[test]
fn lossy_networks_keep_the_invariants() {
    for seed in 0..40 {
        for strategy in ForwardingStrategy::ALL {
            storm(1000 + seed, strategy, true);
        }
    }
}
