//! An attacker beside the path that holds the ticket, sees every datagram, removes none, and is always faster. No
//! injected datagram ends a handshake or keeps it from completing.

mod sim;

use std::collections::HashMap;

use bytes::BytesMut;
use sim::{FAIR, MS, Net, S, addr, key};
use xylem_link::{Endpoint, LinkConfig, LinkId, PeerKey, PostQuantum};
use xylem_link_internals::internals::KnownPeer;
use xylem_sim::{Conditions, Rng};

/// Kinds of handshake messages (docs/spec/link.md, "Envelope").
const INITIAL: u8 = 1;
const RETRY: u8 = 2;
const RESPONSE: u8 = 3;
const FINISH: u8 = 4;
const REST: u8 = 5;
const HYBRID_RESPONSE: u8 = 6;

const KNOCK: [u8; 32] = [77; 32];

/// A dial under attack: node 0 dials node 1.
struct Scene {
    net: Net,
    known: KnownPeer,
    /// How much of the recorded traffic the attacker has seen.
    seen: usize,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    known: fn(&Endpoint) -> KnownPeer,
    hybrid: bool,
    /// Every dialer has to show a cookie.
    loaded: bool,
}

fn by_key(responder: &Endpoint) -> KnownPeer {
    KnownPeer::Key(responder.public_key().0)
}

fn cases() -> Vec<Case> {
    let knowns: [fn(&Endpoint) -> KnownPeer; 3] =
        [by_key, |_| KnownPeer::Knock(KNOCK), |_| KnownPeer::Nothing];
    let mut cases = Vec::new();
    for known in knowns {
        for (hybrid, loaded) in [(false, false), (true, false), (false, true), (true, true)] {
            cases.push(Case { known, hybrid, loaded });
        }
    }
    cases
}

impl Scene {
    fn new(case: Case, seed: u64, conditions: Conditions) -> Self {
        let post_quantum = if case.hybrid { PostQuantum::Offer } else { PostQuantum::Never };
        let dialer = LinkConfig { post_quantum, accept_open: true, ..LinkConfig::default() };
        let cookie_above = if case.loaded { 0 } else { 32 };
        let responder = LinkConfig { cookie_above, ..dialer.clone() };
        let mut net = Net::new(seed, &[dialer, responder], conditions);
        net.record = true;
        assert!(net.nodes[1].endpoint.answer_knock(&KNOCK));
        let known = (case.known)(&net.nodes[1].endpoint);
        let (to, now) = (net.nodes[1].at, net.now());
        let dialer = &mut net.nodes[0].endpoint;
        match known {
            KnownPeer::Key(key) => dialer.connect(now, to, Some(PeerKey(key))),
            KnownPeer::Knock(knock) => dialer.connect_by_knock(now, to, &knock),
            KnownPeer::Nothing => dialer.connect(now, to, None),
        };
        net.flush();
        Self { net, known, seen: 0 }
    }

    /// Handshake messages sent since the last call: whether the dialer sent it, the datagram, and its opened body.
    fn fresh(&mut self) -> Vec<(bool, Vec<u8>, Vec<u8>)> {
        let dialer = self.net.nodes[0].at;
        let fresh = self.net.tap[self.seen..].iter();
        let fresh = fresh.filter_map(|(from, _, datagram)| {
            let body = self.known.open(datagram)?;
            Some((*from == dialer, datagram.clone(), body))
        });
        let fresh = fresh.collect();
        self.seen = self.net.tap.len();
        fresh
    }

    fn inject(&mut self, to_responder: bool, datagram: Vec<u8>) {
        let [dialer, responder] = [addr(0), addr(1)];
        let (from, to) = if to_responder { (dialer, responder) } else { (responder, dialer) };
        self.net.inject(from, to, datagram);
    }

    /// Acts as a program that dials without a key: it keeps the answer by the wanted key.
    fn judge(&mut self) {
        let genuine = self.net.nodes[1].endpoint.public_key();
        let node = &mut self.net.nodes[0];
        for link in node.connected.clone() {
            match node.endpoint.link(link).map(xylem_link::Link::peer) {
                Some(peer) if peer == genuine => node.endpoint.keep(link),
                Some(_) => node.endpoint.close(link),
                None => {}
            }
        }
    }

    /// The link to the genuine peer, if it is up on both sides.
    fn is_up(&self) -> Option<(LinkId, LinkId)> {
        let [dialer, responder] = [0, 1].map(|n| &self.net.nodes[n].endpoint);
        let to =
            |end: &Endpoint, id: &LinkId, peer| end.link(*id).is_some_and(|l| l.peer() == peer);
        let (nodes, keys) = (&self.net.nodes, [dialer.public_key(), responder.public_key()]);
        let here = nodes[0].connected.iter().find(|id| to(dialer, id, keys[1]))?;
        let there = nodes[1].connected.iter().find(|id| to(responder, id, keys[0]))?;
        Some((*here, *there))
    }

    /// Runs until the link is up, at most 10 s; `attack` gets every handshake message before it arrives. Returns
    /// whether the link came up and carries packets.
    fn run(&mut self, mut attack: impl FnMut(&mut Self, bool, &[u8], &[u8])) -> bool {
        while self.net.now() < 10 * S {
            for (by_dialer, datagram, body) in self.fresh() {
                attack(self, by_dialer, &datagram, &body);
            }
            self.net.run(MS / 4);
            self.judge();
            if let Some((here, there)) = self.is_up() {
                // Several, because some are lost.
                for _ in 0..20 {
                    self.net.nodes[0].endpoint.send(here, b"there").unwrap();
                    self.net.nodes[1].endpoint.send(there, b"back").unwrap();
                    self.net.run(50 * MS);
                }
                return (0..2).all(|n| self.net.nodes[n].packets.len() > 10);
            }
        }
        false
    }
}

fn cid(datagram: &[u8]) -> [u8; 8] {
    *datagram.first_chunk().unwrap()
}

/// Flips every byte of every message, in the raw datagram and inside a valid envelope, before the genuine message and
/// after it; also truncates it.
#[test]
fn every_byte_of_every_message_flipped_changes_nothing() {
    for case in cases() {
        let mut scene = Scene::new(case, 1, FAIR);
        let mut kinds: HashMap<u8, usize> = HashMap::new();
        let mut bit = 0;
        let up = scene.run(|scene, by_dialer, datagram, body| {
            let copies = kinds.entry(body[1]).or_default();
            *copies += 1;
            if *copies > 2 {
                return;
            }
            let mut forged = Vec::new();
            for at in 0..datagram.len() {
                bit = (bit + 1) % 8;
                let mut raw = datagram.to_vec();
                raw[at] ^= 1 << bit;
                forged.push(raw);
            }
            for at in 0..body.len() {
                bit = (bit + 1) % 8;
                let mut inside = body.to_vec();
                inside[at] ^= 1 << bit;
                forged.push(scene.known.seal(cid(datagram), &inside, datagram.len()));
            }
            forged.extend((1..datagram.len()).step_by(7).map(|len| datagram[..len].to_vec()));
            for datagram in forged {
                scene.inject(by_dialer, datagram);
            }
        });
        assert!(up, "{case:?}");
        let mut wanted = vec![INITIAL, FINISH];
        wanted.push(if case.hybrid { HYBRID_RESPONSE } else { RESPONSE });
        wanted.extend(case.loaded.then_some(RETRY));
        wanted.extend(case.hybrid.then_some(REST));
        for kind in wanted {
            assert!(kinds.contains_key(&kind), "{case:?}: no message of kind {kind} was flipped");
        }
    }
}

/// The same for the last message, which no other follows: the genuine finish is held back until all forgeries have
/// arrived.
#[test]
fn a_forged_finish_does_not_exclude_the_genuine_one() {
    for case in cases() {
        let mut scene = Scene::new(case, 2, FAIR);
        let mut forged = 0;
        let up = scene.run(|scene, _, datagram, body| {
            if body[1] != FINISH {
                return;
            }
            // The static part stays valid: only the payload's bits are flipped.
            for bit in 0..24 * 8 {
                let mut inside = body.to_vec();
                inside[2 + 49 + bit / 8] ^= 1 << (bit % 8);
                let sealed = scene.known.seal(cid(datagram), &inside, 128 + bit % 128);
                scene.inject(true, sealed);
                forged += 1;
            }
        });
        assert!(up && forged >= 192, "{case:?}");
        assert_eq!(scene.net.nodes[1].connected.len(), 1);
    }
}

/// Answers with keys of its own, and begins handshakes of its own, as any holder of the ticket can.
struct Attacker {
    rng: Rng,
    /// Responders, each with a key of its own.
    impostors: Vec<Endpoint>,
    /// The first messages of the attacker's own dial.
    firsts: Vec<Vec<u8>>,
}

impl Attacker {
    fn new(seed: u64, known: KnownPeer, hybrid: bool) -> Self {
        let mut rng = Rng::new(seed);
        let post_quantum = if hybrid { PostQuantum::Offer } else { PostQuantum::Never };
        let config = LinkConfig { accept_open: true, post_quantum, ..LinkConfig::default() };
        let mut endpoint =
            |n| Endpoint::new(config.clone(), key(n), rng.bytes(32).try_into().unwrap());
        let impostors = (100..102).map(&mut endpoint).collect();
        let mut firsts = Vec::new();
        for n in 110..114 {
            let (mut dialer, mut buf) = (endpoint(n), Vec::new());
            let now = core::time::Duration::ZERO;
            match known {
                KnownPeer::Key(key) => dialer.connect(now, addr(1), Some(PeerKey(key))),
                KnownPeer::Knock(knock) => dialer.connect_by_knock(now, addr(1), &knock),
                KnownPeer::Nothing => dialer.connect(now, addr(1), None),
            };
            dialer.poll_transmit(now, &mut buf).unwrap();
            firsts.push(known.open(&buf).unwrap());
        }
        Self { rng, impostors, firsts }
    }

    /// The impostors' answers to a message of the dialer.
    fn answers(
        &mut self,
        now: core::time::Duration,
        known: KnownPeer,
        datagram: &[u8],
    ) -> Vec<Vec<u8>> {
        let Some(body) = known.open(datagram) else { return vec![] };
        let mut answers = Vec::new();
        for impostor in &mut self.impostors {
            let own = KnownPeer::Key(impostor.public_key().0);
            let asked = own.seal(cid(datagram), &body, datagram.len());
            impostor.handle_datagram(now, addr(0), BytesMut::from(&asked[..]));
            let mut buf = Vec::new();
            while impostor.poll_transmit(now, &mut buf).is_some() {
                let body = own.open(&buf);
                answers.extend(body.map(|body| known.seal(cid(&buf), &body, buf.len())));
            }
        }
        answers
    }

    fn attack(&mut self, scene: &mut Scene, by_dialer: bool, datagram: &[u8], body: &[u8]) {
        let (known, now) = (scene.known, scene.net.now());
        let id = cid(datagram);
        match body[1] {
            INITIAL => {
                // Retries, to the id at which the dialer expects its answer.
                let to: [u8; 8] = *body[2 + 24 + 32..].first_chunk().unwrap();
                for _ in 0..self.rng.below(6) {
                    let retry = [&[5, RETRY][..], &self.rng.bytes(24)].concat();
                    scene.inject(false, known.seal(to, &retry, 100));
                }
                // Random responses.
                for (kind, len) in [(RESPONSE, 115), (HYBRID_RESPONSE, 1_203)] {
                    let response = [&[5, kind][..], &self.rng.bytes(len)].concat();
                    scene.inject(false, known.seal(to, &response, 1_200));
                }
                // Other first messages, with the dialer's address and id, also with its cookie.
                for first in &self.firsts {
                    scene.inject(true, known.seal(id, first, 1_210));
                    let with_cookie = [&first[..2], &body[2..26], &first[26..]].concat();
                    scene.inject(true, known.seal(id, &with_cookie, 1_210));
                }
                // The dialer's own first message with another rest.
                if body.len() > 1_170 {
                    let mut other = body.to_vec();
                    other[67..83].copy_from_slice(&self.rng.bytes(16));
                    scene.inject(true, known.seal(id, &other, 1_210));
                }
                let rest = [&[5, REST][..], &self.rng.bytes(91)].concat();
                scene.inject(true, known.seal(id, &rest, 200));
            }
            FINISH => {
                let random = [&[5, FINISH][..], &self.rng.bytes(73)].concat();
                scene.inject(true, known.seal(id, &random, 150));
                for at in [2, 40, 51, 60, 74] {
                    let mut forged = body.to_vec();
                    forged[at] ^= 1 << self.rng.below(8);
                    scene.inject(true, known.seal(id, &forged, 150));
                }
            }
            RETRY | RESPONSE | HYBRID_RESPONSE => {
                for _ in 0..4 {
                    let mut forged = body.to_vec();
                    let len = forged.len().min(24);
                    forged[2 + self.rng.below(len as u64 - 2) as usize] ^= 1 << self.rng.below(8);
                    scene.inject(false, known.seal(id, &forged, datagram.len()));
                }
            }
            _ => {}
        }
        if by_dialer {
            for answer in self.answers(now, known, datagram) {
                scene.inject(false, answer);
            }
        }
    }
}

/// Over all handshakes against an attacker that wins every race, the success rate is 1.
#[test]
fn an_injector_that_wins_every_race_ends_no_handshake() {
    let (mut up, mut all) = (0, 0);
    let way = Conditions { delay: 20 * MS, jitter: 5 * MS, loss: 0.05, ..FAIR };
    for case in cases() {
        for seed in 0..25 {
            let mut scene = Scene::new(case, seed, way);
            let mut attacker = Attacker::new(seed, scene.known, case.hybrid);
            let succeeded = scene.run(|scene, by_dialer, datagram, body| {
                attacker.attack(scene, by_dialer, datagram, body);
            });
            if !succeeded {
                eprintln!("{case:?}, seed {seed}: {:?}", scene.net.nodes[0].closed);
            }
            up += usize::from(succeeded);
            all += 1;
        }
    }
    assert_eq!(up, all, "handshakes that came up");
}

/// With 50 forged responses or finishes in each millisecond, more than can be processed, every dial over 100 ms is up
/// within three seconds.
#[test]
fn a_dial_under_massive_forgery_connects_within_three_seconds() {
    for (seed, what) in [(1, RESPONSE), (2, RESPONSE), (3, FINISH), (4, FINISH)] {
        let case = Case { known: by_key, hybrid: true, loaded: false };
        let way = Conditions { delay: 50 * MS, ..FAIR };
        let mut scene = Scene::new(case, seed, way);
        let mut rng = Rng::new(seed);
        let (mut forged, mut next) = (Vec::new(), 0);
        while scene.is_up().is_none() {
            assert!(scene.net.now() < 3 * S, "seed {seed}");
            for (_, datagram, body) in scene.fresh() {
                if !forged.is_empty() {
                    continue;
                }
                let mut forge =
                    |kind: u8, to: [u8; 8], inside: &mut dyn FnMut(&mut Rng) -> Vec<u8>| {
                        let one = |_| {
                            let body = [&[5, kind][..], &inside(&mut rng)].concat();
                            scene.known.seal(to, &body, 1_200)
                        };
                        (0..500).map(one).collect::<Vec<_>>()
                    };
                if what == RESPONSE && body[1] == INITIAL {
                    let to = *body[58..].first_chunk().unwrap();
                    forged = forge(RESPONSE, to, &mut |rng| rng.bytes(115));
                } else if what == FINISH && body[1] == FINISH {
                    // Valid except for the payload.
                    forged = forge(FINISH, cid(&datagram), &mut |rng| {
                        [&body[2..51], &rng.bytes(24)[..]].concat()
                    });
                }
            }
            for _ in 0..50.min(forged.len()) {
                next += 1;
                scene.inject(what == FINISH, forged[next % forged.len()].clone());
            }
            scene.net.run(MS);
        }
        assert!(next > 1_000, "seed {seed}: it was attacked");
    }
}
