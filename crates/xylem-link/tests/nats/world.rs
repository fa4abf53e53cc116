//! Two peers, each behind NATs or none, a relay that both reach, and a program on each that acts as a real one would.
//! The programs announce addresses, probe those of the other, and search ports where one NAT is symmetric.

use core::net::{IpAddr, SocketAddr};
use core::ops::ControlFlow;
use core::time::Duration;

use bytes::BytesMut;
use xylem_link::{
    CloseReason, Endpoint, LinkConfig, LinkEvent, LinkId, NatMapping, PathKind, ProbePace,
    StaticKey,
};
use xylem_sim::{Conditions, EventQueue, Internet, NatBehaviour, Path, Realm, Rng, Simulation};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const S: Duration = Duration::from_secs(1);

/// The relay's two ports that a peer speaks to; the next constant is the link's own port.
const RELAY: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(core::net::Ipv4Addr::new(9, 9, 9, 9)), 1),
    SocketAddr::new(IpAddr::V4(core::net::Ipv4Addr::new(9, 9, 9, 9)), 2),
];
const PORT: u16 = 7_348;
/// Synthetic addresses: the other peer by the relay; a further socket that sends to the other peer.
const RELAYED: [u8; 6] = [0xfd, 1, 1, 1, 1, 1];
const SOCKETS: [u8; 6] = [0xfd, 2, 2, 2, 2, 2];
/// Sockets that a peer behind a symmetric NAT opens, and ports that the other one probes.
const MANY_SOCKETS: u16 = 256;
const MANY_PORTS: u16 = 1_024;
/// Interval at which a registration is refreshed.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

fn made_up(prefix: [u8; 6], n: u16) -> SocketAddr {
    let mut octets = [0; 16];
    octets[..6].copy_from_slice(&prefix);
    octets[14..].copy_from_slice(&n.to_be_bytes());
    SocketAddr::from((octets, 1))
}

pub(crate) fn relayed() -> SocketAddr {
    made_up(RELAYED, 0)
}

/// The NATs between a peer and the public network, from outside to inside.
pub(crate) type Nats<'a> = &'a [NatBehaviour];

pub(crate) struct Peer {
    pub endpoint: Endpoint,
    pub link: Option<LinkId>,
    pub closed: Vec<CloseReason>,
    /// Number and time of each packet that arrived.
    pub got: Vec<(u32, Duration)>,
    /// Addresses that the link moved to, and when.
    pub moves: Vec<(SocketAddr, Duration)>,
    pub seen_at: Vec<SocketAddr>,
    /// The other peer's addresses, as that peer names them.
    named: Vec<SocketAddr>,
    realm: Realm,
    ip: IpAddr,
    /// The peer's addresses as the relay's two ports see them.
    observed: [Option<SocketAddr>; 2],
    told: Option<Vec<SocketAddr>>,
    /// Destination of its further sockets.
    sockets_to: Option<SocketAddr>,
    rng: Rng,
    next_keep_alive: Duration,
    sent: u32,
}

impl Peer {
    fn mapping(&self) -> NatMapping {
        let [first, second] = self.observed;
        if first == second { NatMapping::Stable } else { NatMapping::Symmetric }
    }
}

/// A datagram on its way.
pub(crate) enum Flying {
    /// To a peer's socket.
    Peer { realm: Realm, from: SocketAddr, to: SocketAddr, bytes: Vec<u8> },
    /// To the relay's port.
    Relay { from: SocketAddr, port: usize, peer: usize, bytes: Vec<u8> },
}

pub(crate) struct World {
    pub peers: [Peer; 2],
    pub net: Internet,
    pub conditions: Conditions,
    /// Whether the relay forwards; the next field: whether other paths work.
    pub relay_works: bool,
    pub direct_works: bool,
    /// An attacker between the peers and the relay, at an address of its own, that is faster. It copies datagrams for
    /// the relay to the other peer, and forwards those that are sent to it.
    pub copier: Option<SocketAddr>,
    /// Datagrams to other hosts than the two and the relay.
    pub strays: Vec<(SocketAddr, usize)>,
    path: Path,
    queue: EventQueue<Flying>,
    buf: Vec<u8>,
    /// Interval at which each peer sends packets.
    pub talks: Option<Duration>,
    next_talk: Duration,
}

impl World {
    /// Registers both at the relay, and has 0 dial 1 through it.
    pub(crate) fn new(seed: u64, nats: [Nats<'_>; 2], conditions: Conditions) -> Self {
        Self::behind(seed, &[], nats, conditions)
    }

    /// The same, with both behind these common NATs.
    pub(crate) fn behind(
        seed: u64,
        both: Nats<'_>,
        nats: [Nats<'_>; 2],
        conditions: Conditions,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let mut net = Internet::default();
        net.add_host(Realm::PUBLIC, RELAY[0].ip());
        let mut outer = Realm::PUBLIC;
        for (depth, nat) in both.iter().enumerate() {
            let outside = IpAddr::from([30, 100 + depth as u8, 0, 1]);
            outer = net.add_nat(outer, outside, *nat, rng.next_u64());
        }
        let peers = [0u8, 1].map(|n| {
            let mut realm = outer;
            for (depth, nat) in nats[usize::from(n)].iter().enumerate() {
                let outside = [10 * (n + 1), 100 + depth as u8, n, 1];
                realm = net.add_nat(realm, IpAddr::from(outside), *nat, rng.next_u64());
            }
            let ip = IpAddr::from([10, n, 0, 2 + n]);
            net.add_host(realm, ip);
            let mut random = [0; 32];
            rng.fill(&mut random);
            let config = LinkConfig { keep_alive: Some(S), ..LinkConfig::default() };
            let mut endpoint = Endpoint::new(config, StaticKey::generate([n; 32]), random);
            assert!(endpoint.add_synthetic_prefix(RELAYED, PathKind::Relayed));
            assert!(endpoint.add_synthetic_prefix(SOCKETS, PathKind::Direct));
            Peer {
                endpoint,
                link: None,
                closed: vec![],
                got: vec![],
                moves: vec![],
                seen_at: vec![],
                named: vec![],
                realm,
                ip,
                observed: [None; 2],
                told: None,
                sockets_to: None,
                rng: Rng::new(rng.next_u64()),
                next_keep_alive: Duration::ZERO,
                sent: 0,
            }
        });
        let path = Path::new(conditions, rng.next_u64());
        let mut world = Self {
            peers,
            net,
            conditions,
            relay_works: true,
            direct_works: true,
            copier: None,
            strays: vec![],
            path,
            queue: EventQueue::new(),
            buf: vec![],
            talks: None,
            next_talk: Duration::ZERO,
        };
        world.run(2 * S);
        world.dial();
        world
    }

    fn dial(&mut self) {
        let (now, key) = (self.now(), self.peers[1].endpoint.public_key());
        self.peers[0].endpoint.connect(now, relayed(), Some(key));
    }

    pub(crate) fn now(&self) -> Duration {
        self.queue.now()
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now() + time;
        self.run_until(end);
    }

    /// Makes the NAT next to a peer forget its mappings.
    pub(crate) fn reboot(&mut self, peer: usize) {
        let realm = self.peers[peer].realm;
        self.net.reboot(realm);
    }

    /// The address that each peer sends to.
    pub(crate) fn ways(&self) -> [Option<SocketAddr>; 2] {
        [0, 1].map(|n| {
            let Peer { endpoint, link, .. } = &self.peers[n];
            Some(endpoint.link((*link)?)?.remote())
        })
    }

    /// Returns whether neither uses the relay.
    pub(crate) fn is_direct(&self) -> bool {
        self.ways().iter().all(|way| way.is_some_and(|way| way != relayed()))
    }

    /// Sends from a peer's port.
    fn launch(&mut self, n: usize, port: u16, to: SocketAddr, bytes: &[u8]) {
        let now = self.queue.now();
        let from = SocketAddr::new(self.peers[n].ip, port);
        let to_relay = to.ip() == RELAY[0].ip();
        if let Some(copier) = self.copier.filter(|copier| to_relay || *copier == to)
            && !bytes.is_empty()
        {
            let Peer { realm, ip, .. } = self.peers[1 - n];
            let (from, to, bytes) = (copier, SocketAddr::new(ip, PORT), bytes.to_vec());
            self.queue.schedule(now + MS, Flying::Peer { realm, from, to, bytes });
        }
        let Some(arrival) = self.net.send(now, self.peers[n].realm, from, to) else {
            return;
        };
        if !to_relay && !self.direct_works {
            return;
        }
        self.path.conditions = Conditions {
            // The relay is in the middle.
            delay: if to_relay { self.conditions.delay / 2 } else { self.conditions.delay },
            ..self.conditions
        };
        let flying = || match RELAY.iter().position(|relay| *relay == to) {
            Some(port) => {
                Flying::Relay { from: arrival.from, port, peer: n, bytes: bytes.to_vec() }
            }
            None => {
                let (realm, from, to) = (arrival.realm, arrival.from, arrival.to);
                Flying::Peer { realm, from, to, bytes: bytes.to_vec() }
            }
        };
        for delivery in self.path.send(now, bytes.len(), false) {
            self.queue.schedule(delivery.at, flying());
        }
    }

    fn keep_registered(&mut self, n: usize) {
        let now = self.now();
        if self.relay_works && now >= self.peers[n].next_keep_alive {
            let known = self.peers[n].observed.iter().all(Option::is_some);
            self.peers[n].next_keep_alive = now + if known { KEEP_ALIVE } else { 250 * MS };
            RELAY.iter().for_each(|relay| self.launch(n, PORT, *relay, &[]));
        }
    }

    /// Sends and reports everything that is due now.
    fn flush(&mut self, n: usize) {
        let now = self.now();
        self.keep_registered(n);
        self.peers[n].endpoint.handle_timeout(now);
        let mut buf = core::mem::take(&mut self.buf);
        while let Some(t) = self.peers[n].endpoint.poll_transmit(now, &mut buf) {
            for datagram in buf.chunks(t.segment_size.unwrap_or(t.len)) {
                self.send(n, t.to, datagram);
            }
        }
        self.buf = buf;
        while let Some(event) = self.peers[n].endpoint.poll_event() {
            self.on_event(n, event);
        }
    }

    fn send(&mut self, n: usize, to: SocketAddr, datagram: &[u8]) {
        let IpAddr::V6(made_up) = to.ip() else {
            return self.launch(n, PORT, to, datagram);
        };
        if made_up.octets().starts_with(&RELAYED) {
            self.launch(n, PORT, RELAY[0], datagram);
        } else if let Some(to) = self.peers[n].sockets_to {
            let [.., high, low] = made_up.octets();
            self.launch(n, 20_000 + u16::from_be_bytes([high, low]), to, datagram);
        }
    }

    fn on_event(&mut self, n: usize, event: LinkEvent) {
        let now = self.now();
        let peer = &mut self.peers[n];
        match event {
            LinkEvent::Connected { link, .. } => {
                peer.link = Some(link);
                self.tell(n);
            }
            LinkEvent::Packet { packet, .. } => {
                let number = u32::from_be_bytes(packet[..4].try_into().unwrap());
                peer.got.push((number, now));
            }
            LinkEvent::Closed { reason, .. } => peer.closed.push(reason),
            LinkEvent::Observed { address, .. } => peer.seen_at.push(address),
            LinkEvent::Candidates { link, addresses, mapping } => {
                peer.named = addresses;
                self.ask(n, link, mapping);
            }
            LinkEvent::Moved { link, to } => {
                peer.moves.push((to, now));
                if to == relayed() {
                    // The relay may see it at another address by now, and the other side may have lost its way too.
                    peer.next_keep_alive = now;
                    let named = peer.named.clone();
                    peer.endpoint.probe(now, link, &named, ProbePace::Each);
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn tell(&mut self, n: usize) {
        let peer = &mut self.peers[n];
        let Some(link) = peer.link else { return };
        let mut candidates = vec![SocketAddr::new(peer.ip, PORT)];
        candidates.extend(peer.observed[0]);
        if peer.told.as_ref() != Some(&candidates) {
            peer.endpoint.announce_candidates(link, &candidates, peer.mapping());
            peer.told = Some(candidates);
        }
    }

    /// Probes the other peer at the addresses that it has named.
    fn ask(&mut self, n: usize, link: LinkId, theirs: NatMapping) {
        let now = self.now();
        let peer = &mut self.peers[n];
        let named = peer.named.clone();
        peer.endpoint.probe(now, link, &named, ProbePace::Each);
        let Some(outside) = named.last().copied() else { return };
        let many: Vec<_> = match (peer.mapping(), theirs) {
            (NatMapping::Stable, NatMapping::Symmetric) => {
                let mut ports: Vec<u16> = (1_024..=u16::MAX).collect();
                peer.rng.shuffle(&mut ports);
                let ports = ports.into_iter().take(usize::from(MANY_PORTS));
                ports.map(|port| SocketAddr::new(outside.ip(), port)).collect()
            }
            (NatMapping::Symmetric, NatMapping::Stable) => {
                peer.sockets_to = Some(outside);
                (0..MANY_SOCKETS).map(|n| made_up(SOCKETS, n)).collect()
            }
            _ => return,
        };
        peer.endpoint.probe(now, link, &many, ProbePace::Search);
    }

    fn talk(&mut self) {
        let (now, Some(pause)) = (self.now(), self.talks) else { return };
        if now < self.next_talk {
            return;
        }
        self.next_talk = now + pause;
        for peer in &mut self.peers {
            if let Some(link) = peer.link {
                let packet = [&peer.sent.to_be_bytes()[..], &[0; 196]].concat();
                peer.sent += 1;
                let _ = peer.endpoint.send(link, &packet);
            }
        }
    }
}

impl Simulation for World {
    type Event = Flying;

    fn queue(&mut self) -> &mut EventQueue<Flying> {
        &mut self.queue
    }

    fn next_timer(&self) -> Option<Duration> {
        let timers = self.peers.iter().filter_map(|peer| peer.endpoint.poll_timeout());
        let keep_alives =
            self.peers.iter().filter(|_| self.relay_works).map(|peer| peer.next_keep_alive);
        timers.chain(keep_alives).chain(self.talks.map(|_| self.next_talk)).min()
    }

    fn act(&mut self) -> ControlFlow<()> {
        self.talk();
        (0..2).for_each(|n| self.flush(n));
        ControlFlow::Continue(())
    }

    fn handle(&mut self, flying: Flying) {
        let now = self.now();
        match flying {
            Flying::Peer { realm, from, to, bytes } => {
                let is_it = |p: &&mut Peer| p.realm == realm && p.ip == to.ip();
                let Some(peer) = self.peers.iter_mut().find(is_it) else {
                    return self.strays.push((to, bytes.len()));
                };
                let from = match to.port() {
                    PORT if from.ip() == RELAY[0].ip() => relayed(),
                    PORT => from,
                    port if peer.sockets_to == Some(from) => made_up(SOCKETS, port - 20_000),
                    _ => return,
                };
                peer.endpoint.handle_datagram(now, from, BytesMut::from(&bytes[..]));
            }
            Flying::Relay { from, port, peer, bytes } if self.relay_works => {
                let changed = self.peers[peer].observed[port].replace(from) != Some(from);
                if changed {
                    self.tell(peer);
                }
                let other = 1 - peer;
                if bytes.is_empty() {
                    return;
                }
                if let Some(to) = self.peers[other].observed[0]
                    && let Some(arrival) = self.net.send(now, Realm::PUBLIC, RELAY[0], to)
                {
                    let at = now + self.conditions.delay / 2;
                    let (realm, from, to) = (arrival.realm, arrival.from, arrival.to);
                    self.queue.schedule(at, Flying::Peer { realm, from, to, bytes });
                }
            }
            Flying::Relay { .. } => {}
        }
    }
}
