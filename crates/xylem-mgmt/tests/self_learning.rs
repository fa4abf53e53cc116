//! Self-learning over several nodes: a node without a route searches, routes are made by signed announcements along the
//! way of the Data, and a neighbour that lies gets none.

mod common;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use common::{NOW_MS, Node, name};
use xylem_forward::{
    FaceId, FaceScope, ForwardingStrategy, IncomingPacket, LearnedRoute, OutgoingPacket, Outlet,
};
use xylem_mgmt::{CommandScope, CommandTrust, ManagementConfig, PrefixAnnouncement, client};
use xylem_packet::{Data, DataBuilder, Interest, InterestBuilder, NackReason, Packet};
use xylem_trust::{Certificate, Signer, TrustStore, ValidityPeriod, self_signed};

const ALWAYS: ValidityPeriod =
    ValidityPeriod { not_before_ms: 0, not_after_ms: 10_000_000_000_000 };

fn key(identity: &str, seed: u8) -> Signer {
    Signer::ed25519(&[seed; 32], name(&format!("{identity}/KEY/{seed}")))
}

fn believes(signers: &[&Signer]) -> ManagementConfig {
    let mut store = TrustStore::new();
    for signer in signers {
        let wire = self_signed(signer, 1, ALWAYS).unwrap();
        store.add_anchor(&Certificate::decode(&wire).unwrap()).unwrap();
    }
    ManagementConfig { localhop: Some(store), ..Default::default() }
}

/// A packet on its way over a link.
#[derive(Clone)]
struct Frame {
    packet: Vec<u8>,
    nack: Option<NackReason>,
    non_discovery: bool,
    announcement: Option<Vec<u8>>,
}

/// The results of one packet at one node.
#[derive(Default)]
struct PacketOutcome {
    sent: Vec<(FaceId, Frame)>,
    announced: Vec<(FaceId, xylem_packet::Name, Vec<u8>)>,
    lost: Vec<(FaceId, xylem_packet::Name)>,
}

impl Outlet for PacketOutcome {
    fn send(&mut self, to: FaceId, out: OutgoingPacket<'_>) {
        let announcement = out.announcement.map(<[u8]>::to_vec);
        let (nack, non_discovery) = (out.nack, out.non_discovery);
        self.sent
            .push((to, Frame { packet: out.packet.to_vec(), nack, non_discovery, announcement }));
    }

    fn on_learned(&mut self, lesson: LearnedRoute<'_>) {
        match lesson {
            LearnedRoute::Announced { face, name, announcement } => {
                self.announced.push((face, name.to_name(), announcement.to_vec()));
            }
            LearnedRoute::NoRoute { face, name } => self.lost.push((face, name.to_name())),
        }
    }
}

/// Nodes of the strategy self-learning, and links between them that lose nothing.
struct LearningNetwork {
    nodes: Vec<Node>,
    links: BTreeMap<(usize, FaceId), (usize, FaceId)>,
    flying: VecDeque<(usize, FaceId, Frame)>,
    /// Interests that crossed a link since the last check: from, to, whether marked for a search.
    crossed: Vec<(usize, usize, bool)>,
    /// Packets that the program at a node received.
    got: Vec<(usize, Frame)>,
    /// Adds this announcement to each Data that leaves this node.
    liar: Option<(usize, Vec<u8>)>,
    asked: u32,
}

impl LearningNetwork {
    fn new(configs: Vec<ManagementConfig>) -> LearningNetwork {
        let mut nodes: Vec<Node> = configs.into_iter().map(Node::new).collect();
        for node in &mut nodes {
            let (root, strategy) = (name("/"), ForwardingStrategy::SelfLearning);
            node.program.forwarder.set_strategy(root.as_ref(), strategy).unwrap();
            let own = node.neighbour;
            node.program.forwarder.remove_face(own);
        }
        LearningNetwork {
            nodes,
            links: BTreeMap::new(),
            flying: VecDeque::new(),
            crossed: Vec::new(),
            got: Vec::new(),
            liar: None,
            asked: 0,
        }
    }

    fn link(&mut self, a: usize, b: usize) {
        let mut face = |node: usize, other: usize| {
            let uri = format!("udp4://192.0.2.{}:{}", other + 1, 6363 + node);
            self.nodes[node].program.open(&uri, FaceScope::NonLocal)
        };
        let (at_a, at_b) = (face(a, b), face(b, a));
        self.links.insert((a, at_a), (b, at_b));
        self.links.insert((b, at_b), (a, at_a));
    }

    /// Announces a prefix for the program at a node, which answers for it.
    fn announce(&mut self, at: usize, prefix: &str, signer: &Signer) -> u64 {
        let node = &mut self.nodes[at];
        let prefix = name(prefix);
        let wire = PrefixAnnouncement::sign(prefix.as_ref(), 1, 3_600_000, None, signer).unwrap();
        let stamp = node.stamp();
        let nonce = stamp.nonce[..4].try_into().unwrap();
        let command =
            client::announce(CommandScope::Localhost, &wire, signer, stamp, nonce).unwrap();
        let answers = node.send(node.app, &command);
        let data = Data::decode(answers.first().expect("an answer")).unwrap();
        client::response(&Interest::decode(&command).unwrap(), &data).unwrap().code
    }

    /// Sends an Interest of the program at a node; returns its answer. Interests for `/…/gone` get none.
    fn ask(&mut self, at: usize, uri: &str) -> Option<Frame> {
        self.asked += 1;
        self.crossed.clear();
        self.got.clear();
        let (wanted, mut packet) = (name(uri), Vec::new());
        InterestBuilder::new(wanted.as_ref())
            .nonce(self.asked.to_be_bytes())
            .encode(&mut packet)
            .unwrap();
        let app = self.nodes[at].app;
        let frame = Frame { packet, nack: None, non_discovery: false, announcement: None };
        self.flying.push_back((at, app, frame));
        while let Some((node, face, frame)) = self.flying.pop_front() {
            self.hop(node, face, frame);
        }
        self.got.iter().find(|(node, _)| *node == at).map(|(_, frame)| frame.clone())
    }

    fn hop(&mut self, at: usize, from: FaceId, frame: Frame) {
        let node = &mut self.nodes[at];
        let mut heard = PacketOutcome::default();
        let incoming = IncomingPacket {
            nack: frame.nack,
            non_discovery: frame.non_discovery,
            announcement: frame.announcement.as_deref(),
            ..IncomingPacket::bare(&frame.packet)
        };
        let now = node.now;
        let _ = node.program.forwarder.handle_packet(now, from, incoming, &mut heard);
        for (face, name, wire) in heard.announced {
            let _ = node.management.learn(now, face, name.as_ref(), &wire, &mut node.program);
        }
        for (face, name) in heard.lost {
            node.management.unlearn(face, name.as_ref(), &mut node.program);
        }
        let app = node.app;
        for (to, mut frame) in heard.sent {
            let packet = Packet::decode(&frame.packet).unwrap();
            if to == app {
                match packet {
                    Packet::Interest(interest) if frame.nack.is_none() => {
                        let (mut packet, name) = (Vec::new(), interest.name());
                        let builder = DataBuilder::new(name);
                        Signer::digest_sha256().data(builder, b"it", &mut packet).unwrap();
                        let frame =
                            Frame { packet, nack: None, non_discovery: false, announcement: None };
                        self.flying.push_back((at, app, frame));
                    }
                    _ => self.got.push((at, frame)),
                }
                continue;
            }
            let Some((peer, face)) = self.links.get(&(at, to)) else { continue };
            match packet {
                Packet::Interest(_) if frame.nack.is_none() => {
                    self.crossed.push((at, *peer, frame.non_discovery))
                }
                Packet::Interest(_) => {}
                _ => {
                    if let Some((_, lie)) = self.liar.as_ref().filter(|(liar, _)| *liar == at) {
                        frame.announcement = Some(lie.clone());
                    }
                }
            }
            self.flying.push_back((*peer, *face, frame));
        }
    }

    /// The nodes that a node has a route of this prefix to.
    fn routes(&self, at: usize, prefix: &str) -> Vec<usize> {
        let (wanted, mut to) = (name(prefix), Vec::new());
        self.nodes[at].program.forwarder.for_each_route(&mut |prefix, hops| {
            if prefix == wanted.as_ref() {
                to.extend(
                    hops.iter().filter_map(|hop| self.links.get(&(at, hop.face))).map(|l| l.0),
                );
            }
        });
        to
    }

    fn pass(&mut self, time: Duration) {
        for node in &mut self.nodes {
            node.now += time;
            node.program.now_ms += time.as_millis() as u64;
            let now = node.now;
            node.program.forwarder.handle_timeout(now, &mut PacketOutcome::default());
            node.management.handle_timeout(now, &mut node.program, &mut Vec::new());
        }
    }
}

/// 0 - 1 - 2, with 3 and 4 beside 1; the producer is at 2.
fn star(alice: &Signer) -> LearningNetwork {
    let mut net = LearningNetwork::new((0..5).map(|_| believes(&[alice])).collect());
    for (a, b) in [(0, 1), (1, 2), (1, 3), (1, 4)] {
        net.link(a, b);
    }
    assert_eq!(net.announce(2, "/alice", alice), 200);
    net
}

#[test]
fn the_first_interest_searches_and_the_next_ones_know_the_way() {
    let alice = key("/alice", 1);
    let mut net = star(&alice);
    assert!(net.ask(0, "/alice/one").is_some());
    let everywhere = [(0, 1, false), (1, 2, false), (1, 3, false), (1, 4, false)];
    assert_eq!(net.crossed, everywhere);
    assert_eq!((net.routes(0, "/alice"), net.routes(1, "/alice")), (vec![1], vec![2]));
    // The program itself receives no announcement.
    assert!(net.ask(0, "/alice/two").unwrap().announcement.is_none());
    assert_eq!(net.crossed, [(0, 1, true), (1, 2, true)], "one way, and marked");
    // Another node searches, and gets the announcement from the first node that has it.
    assert!(net.ask(3, "/alice/three").is_some());
    assert_eq!(net.crossed, [(3, 1, false), (1, 2, true)]);
    assert_eq!(net.routes(3, "/alice"), [1]);
    assert!(net.routes(4, "/alice").is_empty(), "whoever asks for nothing learns nothing");
}

#[test]
fn learned_routes_expire_and_are_learned_again() {
    let alice = key("/alice", 1);
    let mut net = star(&alice);
    net.ask(0, "/alice/one").unwrap();
    // NFD's ten minutes, although the announcement holds for an hour.
    net.pass(Duration::from_secs(601));
    assert!(net.routes(0, "/alice").is_empty());
    assert!(net.ask(0, "/alice/two").is_some());
    assert_eq!(net.crossed.len(), 4);
    assert_eq!(net.routes(0, "/alice"), [1]);
}

#[test]
fn a_way_that_leads_nowhere_is_unlearned() {
    let alice = key("/alice", 1);
    let mut net = star(&alice);
    net.ask(0, "/alice/one").unwrap();
    // The producer's program ends: its node refuses, and all nodes on the way remove their routes.
    let app = net.nodes[2].app;
    let now = net.nodes[2].now;
    let node = &mut net.nodes[2];
    node.program.forwarder.remove_face(app);
    node.management.face_gone(now, app, &mut node.program, &mut Vec::new());
    let refused = net.ask(0, "/alice/two").expect("a Nack");
    assert_eq!(refused.nack, Some(NackReason::NO_ROUTE));
    assert!(net.routes(0, "/alice").is_empty() && net.routes(1, "/alice").is_empty());
}

/// Node 3 is Mallory, which is asked in a search, too, and answers first.
#[test]
fn a_lying_neighbour_gets_no_route() {
    let (alice, mallory) = (key("/alice", 1), key("/mallory", 7));
    let announced = |prefix: &str, signer: &Signer, validity| {
        let prefix = name(prefix);
        PrefixAnnouncement::sign(prefix.as_ref(), 1, 3_600_000, validity, signer).unwrap()
    };
    let over = ValidityPeriod { not_before_ms: 0, not_after_ms: NOW_MS - 10_000 };
    let mut changed = announced("/alice", &alice, None);
    *changed.last_mut().unwrap() ^= 1;
    for (what, lie) in [
        ("a key that is not believed", announced("/alice", &mallory, None)),
        ("a key that calls itself alice's", announced("/alice", &key("/alice", 9), None)),
        ("everything", announced("/", &mallory, None)),
        ("a digest", announced("/alice", &Signer::digest_sha256(), None)),
        ("alice's of long ago", announced("/alice", &alice, Some(over))),
        ("alice's, for another prefix than was asked", announced("/alice/other", &alice, None)),
        ("alice's, changed", changed),
        (
            "alice's, for what belongs to this link",
            announced("/localhop", &key("/localhop", 5), None),
        ),
        ("no announcement", b"nonsense".to_vec()),
    ] {
        let mut net = LearningNetwork::new(
            (0..2).map(|_| believes(&[&alice, &key("/localhop", 5)])).collect(),
        );
        net.link(0, 1);
        // Mallory answers for everything that comes.
        let app = net.nodes[1].app;
        let root = name("/");
        net.nodes[1].program.forwarder.add_route(root.as_ref(), app, 0).unwrap();
        net.liar = Some((1, lie));
        assert!(
            net.ask(0, "/alice/one").is_some(),
            "{what}: the Data itself is for its reader to judge"
        );
        let mut routes = 0;
        net.nodes[0].program.forwarder.for_each_route(&mut |prefix, hops| {
            let own = prefix.to_string().starts_with("/local");
            routes += if own { 0 } else { hops.len() };
        });
        assert_eq!(routes, 0, "{what}");
        assert_eq!(net.nodes[0].program.forwarder.announcements(), 0, "{what}");
    }
}

#[test]
fn without_anchors_nothing_is_learned_from_neighbours() {
    let alice = key("/alice", 1);
    for config in [
        ManagementConfig::default(),
        ManagementConfig { localhost: CommandTrust::Anybody, ..Default::default() },
    ] {
        let mut net = LearningNetwork::new(vec![config, believes(&[&alice])]);
        net.link(0, 1);
        assert_eq!(net.announce(1, "/alice", &alice), 200);
        assert!(net.ask(0, "/alice/one").is_some(), "it is found all the same, by searching");
        assert!(net.routes(0, "/alice").is_empty());
    }
}

#[test]
fn a_search_for_missing_data_ends_after_one_round() {
    let alice = key("/alice", 1);
    let mut net = LearningNetwork::new((0..4).map(|_| believes(&[&alice])).collect());
    for (a, b) in [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)] {
        net.link(a, b);
    }
    assert!(net.ask(0, "/nobody/has/it").is_none_or(|frame| frame.nack.is_some()));
    // The Interest crosses each link at most once in each direction, and then the search is over.
    assert!(net.crossed.len() <= 10, "{:?}", net.crossed);
    // Existing content is found by the same search in a circle.
    assert_eq!(net.announce(2, "/alice", &alice), 200);
    assert!(net.ask(0, "/alice/one").is_some());
    assert_eq!(net.routes(0, "/alice").len(), 1);
}
