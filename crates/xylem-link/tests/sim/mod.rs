//! A network of endpoints under virtual time: loses, delays, reorders, duplicates, records and
//! misdelivers datagrams, all from one seed.
#![allow(dead_code, reason = "each test file uses a part")]

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use xylem_link::{CloseReason, Config, Endpoint, Event, LinkId, StaticKey};

pub const MS: Duration = Duration::from_millis(1);
pub const S: Duration = Duration::from_secs(1);

/// xorshift64*: enough for a network.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }
    pub fn percent(&mut self, p: u64) -> bool {
        self.below(100) < p
    }
}

/// What the network does to datagrams.
#[derive(Clone, Copy)]
pub struct Weather {
    pub loss: u64,
    pub duplicate: u64,
    pub delay: Duration,
    /// Added at random up to this: reorders.
    pub jitter: Duration,
    /// Larger datagrams vanish.
    pub path: usize,
}

pub const FAIR: Weather =
    Weather { loss: 0, duplicate: 0, delay: MS, jitter: Duration::ZERO, path: 65_507 };

pub struct Node {
    pub at: SocketAddr,
    pub endpoint: Endpoint,
    pub connected: Vec<LinkId>,
    pub closed: Vec<(LinkId, CloseReason)>,
    pub packets: Vec<Bytes>,
}

pub struct Net {
    pub now: Duration,
    pub weather: Weather,
    pub nodes: Vec<Node>,
    /// Every datagram that was sent: from, to, bytes.
    pub tap: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    /// When, for each of them.
    pub times: Vec<Duration>,
    pub record: bool,
    /// Bytes that were sent to, and came from, an address that is no node.
    pub outside: BTreeMap<SocketAddr, Vec<Vec<u8>>>,
    dice: Dice,
    flying: BTreeMap<(Duration, u64), (SocketAddr, SocketAddr, Vec<u8>)>,
    serial: u64,
    buf: Vec<u8>,
}

pub fn addr(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 1000 + u16::from(n)))
}

pub fn key(n: u8) -> StaticKey {
    StaticKey::generate([n; 32])
}

impl Net {
    /// Two nodes: 0 dials, 1 listens.
    pub fn pair(seed: u64, config: &Config, weather: Weather) -> Self {
        Self::new(seed, &[config.clone(), config.clone()], weather)
    }

    pub fn new(seed: u64, configs: &[Config], weather: Weather) -> Self {
        let mut dice = Dice::new(seed);
        let nodes = configs.iter().enumerate().map(|(i, config)| {
            let mut random = [0; 32];
            random.fill_with(|| dice.next() as u8);
            Node {
                at: addr(i as u8),
                endpoint: Endpoint::new(config.clone(), key(i as u8), random),
                connected: vec![],
                closed: vec![],
                packets: vec![],
            }
        });
        let nodes = nodes.collect();
        Self {
            now: Duration::ZERO,
            weather,
            nodes,
            tap: vec![],
            times: vec![],
            record: false,
            outside: BTreeMap::new(),
            dice,
            flying: BTreeMap::new(),
            serial: 0,
            buf: vec![],
        }
    }

    /// Node 0 dials node 1.
    pub fn dial(&mut self) -> LinkId {
        let (to, now) = (self.nodes[1].at, self.now);
        let expected = self.nodes[1].endpoint.public_key();
        self.nodes[0].endpoint.connect(now, to, Some(expected))
    }

    /// Dials and runs until both sides are connected; gives both ids.
    pub fn connect(&mut self) -> (LinkId, LinkId) {
        let a = self.dial();
        let deadline = self.now + 10 * S;
        while self.nodes[0].connected.is_empty() || self.nodes[1].connected.is_empty() {
            assert!(self.now < deadline, "no connection");
            self.run(MS);
        }
        (a, *self.nodes[1].connected.last().unwrap())
    }

    /// Puts a datagram on the wire as if `from` had sent it; it arrives at once, if it fits.
    pub fn inject(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        if bytes.len() > self.weather.path {
            return;
        }
        self.serial += 1;
        self.flying.insert((self.now, self.serial), (from, to, bytes));
    }

    fn launch(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        if self.record {
            self.tap.push((from, to, bytes.clone()));
            self.times.push(self.now);
        }
        let weather = self.weather;
        if bytes.len() > weather.path || self.dice.percent(weather.loss) {
            return;
        }
        let copies = 1 + usize::from(self.dice.percent(weather.duplicate));
        for _ in 0..copies {
            let jitter = self.dice.below(weather.jitter.as_micros() as u64 + 1);
            let at = self.now + weather.delay + Duration::from_micros(jitter);
            self.serial += 1;
            self.flying.insert((at, self.serial), (from, to, bytes.clone()));
        }
    }

    /// Sends and reports everything that is due now.
    pub fn flush(&mut self) {
        for i in 0..self.nodes.len() {
            let mut buf = core::mem::take(&mut self.buf);
            self.nodes[i].endpoint.handle_timeout(self.now);
            let mut datagrams = 0;
            while let Some(t) = self.nodes[i].endpoint.poll_transmit(self.now, &mut buf) {
                assert_eq!(t.len, buf.len());
                let segment = t.segment_size.unwrap_or(t.len);
                let from = self.nodes[i].at;
                for datagram in buf.chunks(segment) {
                    self.launch(from, t.to, datagram.to_vec());
                    datagrams += 1;
                }
                assert!(datagrams < 100_000, "never ends");
            }
            self.buf = buf;
            let node = &mut self.nodes[i];
            while let Some(event) = node.endpoint.poll_event() {
                match event {
                    Event::Connected { link, .. } => node.connected.push(link),
                    Event::Packet { packet, .. } => node.packets.push(packet),
                    Event::Closed { link, reason } => node.closed.push((link, reason)),
                }
            }
        }
    }

    /// Lets `time` pass.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.flush();
            let timers = self.nodes.iter().filter_map(|n| n.endpoint.poll_timeout()).min();
            let datagram = self.flying.first_key_value().map(|((at, _), _)| *at);
            let next = [timers, datagram].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            while let Some(first) = self.flying.first_entry() {
                if first.key().0 > self.now {
                    break;
                }
                let (from, to, bytes) = first.remove();
                match self.nodes.iter_mut().find(|n| n.at == to) {
                    Some(node) => {
                        let datagram = BytesMut::from(&bytes[..]);
                        node.endpoint.handle_datagram(self.now, from, datagram);
                    }
                    None => self.outside.entry(to).or_default().push(bytes),
                }
            }
        }
        self.now = end;
    }
}
