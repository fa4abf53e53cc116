//! A network of endpoints under virtual time: it loses, delays, reorders, duplicates, records and misdelivers
//! datagrams, all from one seed.
#![allow(dead_code, reason = "each test file uses a part")]

use core::net::SocketAddr;
use core::ops::ControlFlow;
use core::time::Duration;
use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use xylem_link::{CloseReason, Endpoint, LinkConfig, LinkEvent, LinkId, PeerKey, StaticKey};
use xylem_sim::{Conditions, EventQueue, Path, Rng, Simulation};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const S: Duration = Duration::from_secs(1);

/// As good as loopback.
pub(crate) const FAIR: Conditions = Conditions { delay: MS, mtu: 65_507, ..Conditions::PERFECT };

pub(crate) struct Node {
    pub at: SocketAddr,
    pub endpoint: Endpoint,
    pub connected: Vec<LinkId>,
    pub closed: Vec<(LinkId, CloseReason)>,
    /// Other keys that answered, and the dials that they answered.
    pub other_keys: Vec<(LinkId, PeerKey)>,
    pub packets: Vec<Bytes>,
    /// Events of streams, oldest first.
    pub stream_events: Vec<LinkEvent>,
    /// The path towards all others.
    path: Path,
    /// Datagrams that were sent as ECN-capable; the next field counts those that arrived marked.
    pub ecn_sent: u64,
    pub marked: u64,
}

/// A datagram on its way.
pub(crate) struct Flying {
    from: SocketAddr,
    to: SocketAddr,
    marked: bool,
    bytes: Vec<u8>,
}

/// An attacker on the path: it sees each sent datagram (from, to, bytes), and sends its own (delay, from, to, bytes).
pub(crate) type Attacker = Box<
    dyn FnMut(SocketAddr, SocketAddr, &[u8]) -> Vec<(Duration, SocketAddr, SocketAddr, Vec<u8>)>,
>;

pub(crate) struct Net {
    /// The conditions of all paths.
    pub conditions: Conditions,
    pub nodes: Vec<Node>,
    /// Every datagram that was sent: from, to, bytes.
    pub tap: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    /// The time of each of them.
    pub times: Vec<Duration>,
    pub record: bool,
    pub attacker: Option<Attacker>,
    /// Datagrams sent to each address that is no node.
    pub outside: BTreeMap<SocketAddr, Vec<Vec<u8>>>,
    queue: EventQueue<Flying>,
    buf: Vec<u8>,
}

pub(crate) fn addr(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 1000 + u16::from(n)))
}

pub(crate) fn key(n: u8) -> StaticKey {
    StaticKey::generate([n; 32])
}

impl Net {
    /// Two nodes: 0 dials, 1 listens.
    pub(crate) fn pair(seed: u64, config: &LinkConfig, conditions: Conditions) -> Self {
        Self::new(seed, &[config.clone(), config.clone()], conditions)
    }

    pub(crate) fn new(seed: u64, configs: &[LinkConfig], conditions: Conditions) -> Self {
        let mut rng = Rng::new(seed);
        let nodes = configs.iter().enumerate().map(|(i, config)| {
            let mut random = [0; 32];
            rng.fill(&mut random);
            Node {
                at: addr(i as u8),
                endpoint: Endpoint::new(config.clone(), key(i as u8), random),
                connected: vec![],
                closed: vec![],
                other_keys: vec![],
                packets: vec![],
                stream_events: vec![],
                path: Path::new(conditions, rng.next_u64()),
                ecn_sent: 0,
                marked: 0,
            }
        });
        let nodes = nodes.collect();
        Self {
            conditions,
            nodes,
            tap: vec![],
            times: vec![],
            record: false,
            attacker: None,
            outside: BTreeMap::new(),
            queue: EventQueue::new(),
            buf: vec![],
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.queue.now()
    }

    /// Node 0 dials node 1.
    pub(crate) fn dial(&mut self) -> LinkId {
        let (to, now) = (self.nodes[1].at, self.now());
        let expected = self.nodes[1].endpoint.public_key();
        self.nodes[0].endpoint.connect(now, to, Some(expected))
    }

    /// Dials and runs until both sides are connected; returns both ids.
    pub(crate) fn connect(&mut self) -> (LinkId, LinkId) {
        let a = self.dial();
        let deadline = self.now() + 10 * S;
        while self.nodes[0].connected.is_empty() || self.nodes[1].connected.is_empty() {
            assert!(self.now() < deadline, "no connection");
            self.run(MS);
        }
        (a, *self.nodes[1].connected.last().unwrap())
    }

    /// Puts a datagram on the wire as if `from` had sent it; it arrives at once, if it fits.
    pub(crate) fn inject(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        if bytes.len() <= self.conditions.mtu {
            self.queue.schedule(self.now(), Flying { from, to, marked: false, bytes });
        }
    }

    fn launch(&mut self, i: usize, to: SocketAddr, ecn: bool, bytes: &[u8]) {
        let (now, node) = (self.queue.now(), &mut self.nodes[i]);
        let from = node.at;
        if self.record {
            self.tap.push((from, to, bytes.to_vec()));
            self.times.push(now);
        }
        node.ecn_sent += u64::from(ecn);
        for (after, from, to, bytes) in self.attacker.iter_mut().flat_map(|a| a(from, to, bytes)) {
            self.queue.schedule(now + after, Flying { from, to, marked: false, bytes });
        }
        node.path.conditions = self.conditions;
        for delivery in node.path.send(now, bytes.len(), ecn) {
            let (marked, bytes) = (delivery.marked, delivery.packet(bytes));
            self.queue.schedule(delivery.at, Flying { from, to, marked, bytes });
        }
    }

    /// Sends and reports everything that is due now.
    pub(crate) fn flush(&mut self) {
        let now = self.now();
        for i in 0..self.nodes.len() {
            let mut buf = core::mem::take(&mut self.buf);
            self.nodes[i].endpoint.handle_timeout(now);
            let mut datagrams = 0;
            while let Some(t) = self.nodes[i].endpoint.poll_transmit(now, &mut buf) {
                assert_eq!(t.len, buf.len());
                let segment = t.segment_size.unwrap_or(t.len);
                for datagram in buf.chunks(segment) {
                    self.launch(i, t.to, t.ecn, datagram);
                    datagrams += 1;
                }
                assert!(datagrams < 100_000, "never ends");
            }
            self.buf = buf;
            let node = &mut self.nodes[i];
            while let Some(event) = node.endpoint.poll_event() {
                match event {
                    LinkEvent::Connected { link, .. } => node.connected.push(link),
                    LinkEvent::Packet { packet, .. } => node.packets.push(packet),
                    LinkEvent::Closed { link, reason } => node.closed.push((link, reason)),
                    LinkEvent::OtherKey { link, peer } => node.other_keys.push((link, peer)),
                    event => node.stream_events.push(event),
                }
            }
        }
    }

    /// Lets `time` pass.
    pub(crate) fn run(&mut self, time: Duration) {
        self.run_with(time, |_| ());
    }

    /// Lets `time` pass; `turn` runs the programs after every event.
    pub(crate) fn run_with(&mut self, time: Duration, turn: impl FnMut(&mut Self)) {
        let end = self.now() + time;
        Run { net: self, turn }.run_until(end);
    }
}

/// The network, and the programs on it.
struct Run<'a, F> {
    net: &'a mut Net,
    turn: F,
}

impl<F: FnMut(&mut Net)> Simulation for Run<'_, F> {
    type Event = Flying;

    fn queue(&mut self) -> &mut EventQueue<Flying> {
        &mut self.net.queue
    }

    fn next_timer(&self) -> Option<Duration> {
        self.net.nodes.iter().filter_map(|n| n.endpoint.poll_timeout()).min()
    }

    fn act(&mut self) -> ControlFlow<()> {
        self.net.flush();
        (self.turn)(self.net);
        self.net.flush();
        ControlFlow::Continue(())
    }

    fn handle(&mut self, datagram: Flying) {
        let (now, Flying { from, to, marked, bytes }) = (self.net.now(), datagram);
        match self.net.nodes.iter_mut().find(|n| n.at == to) {
            Some(node) => {
                node.marked += u64::from(marked);
                let datagram = BytesMut::from(&bytes[..]);
                node.endpoint.handle_marked_datagram(now, from, marked, datagram);
            }
            None => self.net.outside.entry(to).or_default().push(bytes),
        }
    }
}
