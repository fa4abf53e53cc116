//! Two ends, the network between them (which is the attacker), and the attacker's steps.

use core::hash::{Hash, Hasher};
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::HashMap;
use std::hash::DefaultHasher;

use bytes::BytesMut;
use xylem_link::{
    BASE_DATAGRAM, Endpoint, LinkConfig, LinkEvent, LinkId, PeerKey, PostQuantum, StaticKey,
};
use xylem_link_internals::internals::{ElligatorPairs, Envelope};

const KNOCK: [u8; 32] = [0x5a; 32];
/// Datagrams of the honest ends that the attacker remembers.
const MEMORY: usize = 5;

/// The kind of dial.
#[derive(Debug)]
pub(crate) struct Scene {
    by_knock: bool,
    hybrid: bool,
    cookies: bool,
    /// There was a session before, and its datagrams are known.
    again: bool,
}

impl Scene {
    pub(crate) const BY_KEY: Self =
        Self { by_knock: false, hybrid: false, cookies: false, again: false };
    pub(crate) const BY_KNOCK: Self = Self { by_knock: true, ..Self::BY_KEY };
    pub(crate) const HYBRID: Self = Self { hybrid: true, ..Self::BY_KEY };
    pub(crate) const COOKIES: Self = Self { cookies: true, ..Self::BY_KEY };
    pub(crate) const AGAIN: Self = Self { again: true, ..Self::BY_KEY };

    /// All possible next steps of the attacker; some apply only in certain states.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = vec![
            Step::OwnFirst,
            Step::OwnEphemeral,
            Step::OwnResponse,
            Step::OwnFinish,
            Step::SplicedFinish,
            Step::Retry,
            Step::Wait,
        ];
        steps.extend((0..MEMORY).map(Step::Deliver));
        steps.extend((0..MEMORY).map(Step::Repeat));
        steps.extend((0..MEMORY).map(Step::FromElsewhere));
        steps.extend((0..3).map(Step::SplicedResponse));
        for kind in [INITIAL, RETRY, RESPONSE, FINISH, REST, HYBRID_RESPONSE] {
            steps.extend((0..fields(kind).len()).map(|field| Step::Flip(kind, field)));
        }
        if self.again {
            steps.extend((0..PAST).map(Step::Past));
        }
        steps
    }
}

/// One step of the attacker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Delivers the honest datagram of this number for the first time.
    Deliver(usize),
    /// Delivers it once more.
    Repeat(usize),
    /// Delivers it from an address of the attacker's.
    FromElsewhere(usize),
    /// Flips a bit in a field of the newest honest message of this kind, in a valid envelope.
    Flip(u8, usize),
    /// A first message under a key of the attacker's, from the dialer's address and with its id.
    OwnFirst,
    /// The dialer's first message with an ephemeral key of the attacker's.
    OwnEphemeral,
    /// An answer to the dialer's first message under a key of the attacker's.
    OwnResponse,
    /// Parts of the responder's answer and of the attacker's, one after the other.
    SplicedResponse(usize),
    /// The last message of the attacker's own handshake, from the dialer's address.
    OwnFinish,
    /// The attacker's static key, the dialer's parameters, to the responder's id for the dialer.
    SplicedFinish,
    /// A retry with an invented cookie.
    Retry,
    /// Replays a datagram of the session before.
    Past(usize),
    /// Waits until an honest end acts by itself.
    Wait,
}

impl Step {
    /// Returns whether the step is more than dropping, delaying and reordering.
    pub(crate) fn injects(self) -> bool {
        !matches!(self, Self::Deliver(_) | Self::Wait)
    }
}

const INITIAL: u8 = 1;
const RETRY: u8 = 2;
const RESPONSE: u8 = 3;
const FINISH: u8 = 4;
const REST: u8 = 5;
const HYBRID_RESPONSE: u8 = 6;
/// Useful datagrams of an earlier session.
const PAST: usize = 8;

/// Positions of the fields of a message in its body: one byte of each.
fn fields(kind: u8) -> &'static [usize] {
    match kind {
        // Cookie, ephemeral key, id, flags.
        INITIAL => &[3, 30, 60, 66],
        RETRY => &[5],
        // Ephemeral key, static key, parameters.
        RESPONSE | HYBRID_RESPONSE => &[3, 40, 90],
        // Static key, parameters.
        FINISH => &[3, 55],
        REST => &[3],
        _ => &[],
    }
}

#[derive(Clone)]
struct Datagram {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
    delivered: bool,
}

impl Datagram {
    fn id(&self) -> [u8; 8] {
        *self.bytes.first_chunk().expect("every datagram has an id")
    }
}

fn at(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 9))
}

const DIALER: u8 = 1;
const RESPONDER: u8 = 2;
const ATTACKER: u8 = 66;

fn key(n: u8) -> StaticKey {
    StaticKey::generate([n; 32])
}

struct End {
    at: SocketAddr,
    endpoint: Endpoint,
    connected: Vec<(LinkId, PeerKey, SocketAddr)>,
    packets: Vec<(LinkId, Vec<u8>)>,
    ended: usize,
    /// Bytes received from each address, and bytes sent to it.
    bytes: HashMap<SocketAddr, (usize, usize)>,
}

pub(crate) struct World {
    now: Duration,
    ends: [End; 2],
    honest: Vec<Datagram>,
    past: Vec<Datagram>,
    ticket: Envelope,
    /// The attacker's endpoints: a dialer and a responder, with a key of its own.
    attacker: [Endpoint; 2],
    /// The datagrams of the attacker's own dial.
    own: Vec<Vec<u8>>,
    own_responses: usize,
    retries: u8,
    waits: u8,
    seen: DefaultHasher,
}

impl World {
    /// Runs `order`; `None` if its last step does not apply.
    pub(crate) fn run(scene: &Scene, order: &[Step]) -> Option<Self> {
        let mut world = Self::new(scene);
        if scene.again {
            world.session();
        }
        world.dial(scene);
        for (i, step) in order.iter().enumerate() {
            let done = world.step(*step);
            assert!(done || i + 1 == order.len(), "what could be done can be done again");
            if !done {
                return None;
            }
        }
        Some(world)
    }

    fn new(scene: &Scene) -> Self {
        let post_quantum = if scene.hybrid { PostQuantum::Offer } else { PostQuantum::Never };
        let config = LinkConfig {
            post_quantum,
            max_datagram: BASE_DATAGRAM,
            accept_open: false,
            cookie_above: if scene.cookies { 0 } else { 32 },
            ..LinkConfig::default()
        };
        let end = |n: u8| End {
            at: at(n),
            endpoint: Endpoint::new(config.clone(), key(n), [n; 32]),
            connected: vec![],
            packets: vec![],
            ended: 0,
            bytes: HashMap::new(),
        };
        let mut ends = [end(DIALER), end(RESPONDER)];
        assert!(ends[1].endpoint.answer_knock(&KNOCK));
        let responder = ends[1].endpoint.public_key().0;
        let ticket =
            if scene.by_knock { Envelope::of_knock(&KNOCK) } else { Envelope::of_key(responder) };
        let config = LinkConfig { cookie_above: 32, ..config.clone() };
        let attacker =
            [70, 71].map(|seed| Endpoint::new(config.clone(), key(ATTACKER), [seed; 32]));
        Self {
            now: Duration::ZERO,
            ends,
            honest: vec![],
            past: vec![],
            ticket,
            attacker,
            own: vec![],
            own_responses: 0,
            retries: 0,
            waits: 0,
            seen: DefaultHasher::new(),
        }
    }

    fn dial(&mut self, scene: &Scene) {
        let (now, to) = (self.now, self.ends[1].at);
        let expected = self.ends[1].endpoint.public_key();
        let dialer = &mut self.ends[0].endpoint;
        if scene.by_knock {
            dialer.connect_by_knock(now, to, &KNOCK);
        } else {
            dialer.connect(now, to, Some(expected));
        }
        self.collect();
    }

    /// A whole session before the one under test.
    fn session(&mut self) {
        self.dial(&Scene::BY_KEY);
        self.carry_on(|world| world.ends.iter().all(|end| !end.connected.is_empty()));
        for end in &mut self.ends {
            let link = end.connected[0].0;
            end.endpoint.send(link, b"of the session before").unwrap();
        }
        self.carry_on(|world| world.ends.iter().all(|end| !end.packets.is_empty()));
        let link = self.ends[0].connected[0].0;
        self.ends[0].endpoint.close(link);
        self.carry_on(|world| world.ends[1].ended > 0);
        self.now += 2 * Duration::from_secs(1);
        self.collect();
        self.past = core::mem::take(&mut self.honest);
        for end in &mut self.ends {
            (end.ended, end.connected, end.packets) = (0, vec![], vec![]);
        }
    }

    /// Collects the datagrams and events of the honest ends.
    fn collect(&mut self) {
        self.collect_from(0..2);
    }

    fn collect_from(&mut self, ends: core::ops::Range<usize>) {
        let mut buf = Vec::new();
        for end in &mut self.ends[ends] {
            while let Some(transmit) = end.endpoint.poll_transmit(self.now, &mut buf) {
                for bytes in buf.chunks(transmit.segment_size.unwrap_or(transmit.len)) {
                    end.bytes.entry(transmit.to).or_default().1 += bytes.len();
                    (transmit.to, bytes).hash(&mut self.seen);
                    let bytes = bytes.to_vec();
                    let (from, to) = (end.at, transmit.to);
                    self.honest.push(Datagram { from, to, bytes, delivered: false });
                }
            }
            while let Some(event) = end.endpoint.poll_event() {
                match event {
                    LinkEvent::Connected { link, peer, remote, .. } => {
                        (link.0, peer.0).hash(&mut self.seen);
                        end.connected.push((link, peer, remote));
                    }
                    LinkEvent::Packet { link, packet, .. } => {
                        packet.hash(&mut self.seen);
                        end.packets.push((link, packet.to_vec()));
                    }
                    LinkEvent::Closed { .. } => end.ended += 1,
                    _ => {}
                }
            }
        }
        self.check_bytes();
    }

    /// Property 4: counts the responder's answers at each address, until a peer there has completed a handshake.
    fn check_bytes(&self) {
        let [dialer, responder] = &self.ends;
        assert!(dialer.bytes.keys().all(|to| [responder.at, at(ATTACKER)].contains(to)));
        for (address, (came, went)) in &responder.bytes {
            let proven = responder.connected.iter().any(|(.., remote)| remote == address);
            assert!(
                proven || !self.past.is_empty() || went <= came,
                "{went} bytes for {came} to {address}"
            );
        }
    }

    fn give(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        if let Some(n) = self.ends.iter().position(|end| end.at == to) {
            let end = &mut self.ends[n];
            end.bytes.entry(from).or_default().0 += bytes.len();
            end.endpoint.handle_datagram(self.now, from, BytesMut::from(bytes));
            self.collect_from(n..n + 1);
        }
    }

    /// The newest honest message of a kind: the datagram, and its opened body.
    fn newest(&self, kind: u8) -> Option<(Datagram, Vec<u8>)> {
        self.honest.iter().rev().find_map(|datagram| {
            let body = self.ticket.open(&datagram.bytes)?;
            (body[1] == kind).then(|| (datagram.clone(), body))
        })
    }

    /// Sends a forged body in the place of an honest datagram.
    fn forge(&mut self, like: &Datagram, body: &[u8]) {
        let bytes = self.ticket.seal(like.id(), body, like.bytes.len());
        self.give(like.from, like.to, &bytes);
    }

    /// Runs a step; returns whether it applied.
    fn step(&mut self, step: Step) -> bool {
        self.try_step(step).is_some()
    }

    fn try_step(&mut self, step: Step) -> Option<()> {
        match step {
            Step::Deliver(n) => {
                let datagram = self.honest.get_mut(n)?;
                if core::mem::replace(&mut datagram.delivered, true) {
                    return None;
                }
                let Datagram { from, to, bytes, .. } = datagram.clone();
                self.give(from, to, &bytes);
            }
            Step::Repeat(n) => {
                let datagram = self.honest.get(n).filter(|datagram| datagram.delivered)?;
                let Datagram { from, to, bytes, .. } = datagram.clone();
                self.give(from, to, &bytes);
            }
            Step::FromElsewhere(n) => {
                let Datagram { to, bytes, .. } = self.honest.get(n)?.clone();
                self.give(at(ATTACKER), to, &bytes);
            }
            Step::Past(n) => {
                let Datagram { from, to, bytes, .. } = self.past.get(n)?.clone();
                self.give(from, to, &bytes);
            }
            Step::Flip(kind, field) => {
                let (like, mut body) = self.newest(kind)?;
                body[fields(kind)[field]] ^= 1;
                self.forge(&like, &body);
            }
            Step::OwnEphemeral => {
                let (like, mut body) = self.newest(INITIAL)?;
                let (_, representative) = ElligatorPairs::new().generate();
                body[26..58].copy_from_slice(&representative);
                self.forge(&like, &body);
            }
            Step::OwnFirst => self.own_first()?,
            Step::OwnFinish => self.own_finish()?,
            Step::OwnResponse => {
                let (like, body) = self.own_response()?;
                self.forge(&like, &body);
            }
            Step::SplicedResponse(cut) => {
                let hybrid = || self.newest(HYBRID_RESPONSE);
                let (like, theirs) = self.newest(RESPONSE).or_else(hybrid)?;
                let (_, ours) = self.own_response()?;
                // The responder's ephemeral key, or also its static key; the rest is the attacker's.
                let cut = [34, 83][cut.min(1)];
                let body = if step == Step::SplicedResponse(2) {
                    [&ours[..cut], &theirs[cut..]].concat()
                } else {
                    [&theirs[..cut], &ours[cut..]].concat()
                };
                self.forge(&like, &body);
            }
            Step::SplicedFinish => {
                let (like, theirs) = self.newest(FINISH)?;
                let ours = self.own.last().and_then(|bytes| self.ticket.open(bytes))?;
                if ours[1] != FINISH {
                    return None;
                }
                self.forge(&like, &[&ours[..51], &theirs[51..]].concat());
            }
            Step::Retry => {
                let (first, body) = self.newest(INITIAL)?;
                let id = *body[58..].first_chunk()?;
                self.retries += 1;
                let body = [&[5, RETRY][..], &[self.retries; 24]].concat();
                let bytes = self.ticket.seal(id, &body, 100);
                self.give(first.to, first.from, &bytes);
            }
            Step::Wait => {
                let due = self.ends.iter().filter_map(|end| end.endpoint.poll_timeout()).min()?;
                if due > self.now + Duration::from_secs(1) || self.waits == 1 {
                    return None;
                }
                self.waits += 1;
                self.wait(due);
            }
        }
        Some(())
    }

    fn wait(&mut self, until: Duration) {
        self.now = self.now.max(until);
        self.ends.iter_mut().for_each(|end| end.endpoint.handle_timeout(self.now));
        self.collect();
    }

    /// The attacker dials the responder, as if it were the dialer.
    fn own_first(&mut self) -> Option<()> {
        let (like, _) = self.newest(INITIAL)?;
        if self.own.is_empty() {
            let responder = self.ends[1].endpoint.public_key();
            self.attacker[0].connect(self.now, like.to, Some(responder));
            self.own_sends();
        }
        let known = Envelope::of_key(self.ends[1].endpoint.public_key().0);
        let first = self.own.first()?.clone();
        let body = known.open(&first)?;
        self.forge(&like, &body);
        // The rest of a hybrid first message.
        if let Some(rest) = self.own.get(1).cloned() {
            let mut rest = rest;
            rest[..8].copy_from_slice(&first[..8]);
            self.give(like.from, like.to, &rest);
        }
        Some(())
    }

    /// Finishes the attacker's handshake, if it was answered.
    fn own_finish(&mut self) -> Option<()> {
        let before = self.own.len();
        if before == 0 {
            return None;
        }
        for datagram in self.honest.clone() {
            if datagram.to == at(DIALER) {
                // The attacker has dialled by the key, so its envelope is that of the key.
                let known = Envelope::of_key(self.ends[1].endpoint.public_key().0);
                let Some(body) = self.ticket.open(&datagram.bytes) else { continue };
                let bytes = known.seal(datagram.id(), &body, datagram.bytes.len());
                self.attacker[0].handle_datagram(
                    self.now,
                    at(RESPONDER),
                    BytesMut::from(&bytes[..]),
                );
            }
        }
        self.own_sends();
        let finish = self.own.get(before)?.clone();
        let known = Envelope::of_key(self.ends[1].endpoint.public_key().0);
        let finish = match known.open(&finish) {
            Some(body) => self.ticket.seal(*finish.first_chunk()?, &body, finish.len()),
            None => finish,
        };
        self.give(at(DIALER), at(RESPONDER), &finish);
        Some(())
    }

    fn own_sends(&mut self) {
        let mut buf = Vec::new();
        while self.attacker[0].poll_transmit(self.now, &mut buf).is_some() {
            self.own.push(buf.clone());
        }
    }

    /// An answer to the dialer's first message under the attacker's key: the datagram that it replaces, and its body.
    fn own_response(&mut self) -> Option<(Datagram, Vec<u8>)> {
        let attacker = Envelope::of_key(self.attacker[1].public_key().0);
        let [first, rest] = [INITIAL, REST].map(|kind| self.newest(kind));
        let (first, body) = first?;
        let mut buf = Vec::new();
        for (like, body) in [Some((first.clone(), body)), rest].into_iter().flatten() {
            let bytes = attacker.seal(like.id(), &body, like.bytes.len());
            self.attacker[1].handle_datagram(self.now, like.from, BytesMut::from(&bytes[..]));
        }
        let mut answer = None;
        while self.attacker[1].poll_transmit(self.now, &mut buf).is_some() {
            answer = attacker.open(&buf).map(|body| (buf.clone(), body)).or(answer);
        }
        let (bytes, body) = answer?;
        self.own_responses += 1;
        let like = Datagram { from: first.to, to: first.from, bytes, delivered: true };
        Some((like, body))
    }

    /// Runs on without the attacker: everything that the honest ends have sent and go on sending arrives in order,
    /// until `done`.
    fn carry_on(&mut self, done: impl Fn(&Self) -> bool) {
        let deadline = self.now + Duration::from_secs(9);
        let mut next = 0;
        while !done(self) {
            while let Some(datagram) = self.honest.get_mut(next) {
                next += 1;
                if !core::mem::replace(&mut datagram.delivered, true) {
                    let Datagram { from, to, bytes, .. } = datagram.clone();
                    self.give(from, to, &bytes);
                }
            }
            if done(self) {
                return;
            }
            let due = self.ends.iter().filter_map(|end| end.endpoint.poll_timeout()).min();
            let Some(due) = due.filter(|due| *due <= deadline) else { return };
            self.wait(due);
        }
    }

    /// The link that an end has with a peer.
    fn link_of(&self, end: usize, peer: u8) -> Option<LinkId> {
        let peer = key(peer).public();
        let links = self.ends[end].connected.iter().rev();
        let mut up = links.filter(|(link, ..)| self.ends[end].endpoint.link(*link).is_some());
        up.find(|(_, of, _)| *of == peer).map(|(link, ..)| *link)
    }

    /// Returns whether both ends are connected to each other.
    pub(crate) fn is_complete(&self) -> bool {
        self.link_of(0, RESPONDER).is_some() && self.link_of(1, DIALER).is_some()
    }

    /// Stops the attacker, checks the properties, and returns a digest of this state.
    pub(crate) fn settle(mut self, order: &[Step]) -> u64 {
        self.now.hash(&mut self.seen);
        self.honest.iter().for_each(|datagram| datagram.delivered.hash(&mut self.seen));
        (self.own.len(), self.waits, self.retries, self.own_responses.min(1)).hash(&mut self.seen);
        let links = |world: &Self| [world.link_of(0, RESPONDER), world.link_of(1, DIALER)];
        self.carry_on(|world| links(world).iter().all(Option::is_some));
        let [Some(a), Some(b)] = links(&self) else {
            panic!("a genuine handshake was ended by {order:?}");
        };
        for (end, link, text) in [(0, a, b"from the dialer"), (1, b, b"to the dialer..")] {
            self.ends[end].endpoint.send(link, &text[..]).unwrap();
        }
        self.collect();
        self.carry_on(|world| world.ends.iter().all(|end| !end.packets.is_empty()));
        let heard = |end: &End| end.packets.clone();
        assert_eq!(heard(&self.ends[1]), [(b, b"from the dialer".to_vec())], "{order:?}");
        assert_eq!(heard(&self.ends[0]), [(a, b"to the dialer..".to_vec())], "{order:?}");
        for (end, honest) in [(0, RESPONDER), (1, DIALER)] {
            for (_, peer, _) in &self.ends[end].connected {
                let attacker = key(ATTACKER).public();
                assert!(*peer == key(honest).public() || *peer == attacker, "{order:?}");
            }
        }
        self.seen.finish()
    }
}
