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
    /// Lost as well, in datagrams of a thousand.
    pub permille: u64,
    /// Of so many percent, late by up to `delay`: overtaken by many others.
    pub late: u64,
    /// Bytes a second that each direction carries; 0 for any number.
    pub rate: u64,
    /// Bytes that wait for their turn at that rate before further ones are dropped.
    pub buffer: u64,
    /// ECN-capable datagrams that find so many bytes waiting are marked; 0 for none.
    pub mark_above: u64,
    /// ECN-capable datagrams vanish.
    pub drops_ecn: bool,
}

pub const FAIR: Weather = Weather {
    loss: 0,
    duplicate: 0,
    delay: MS,
    jitter: Duration::ZERO,
    path: 65_507,
    permille: 0,
    late: 0,
    rate: 0,
    buffer: 0,
    mark_above: 0,
    drops_ecn: false,
};

pub struct Node {
    pub at: SocketAddr,
    pub endpoint: Endpoint,
    pub connected: Vec<LinkId>,
    pub closed: Vec<(LinkId, CloseReason)>,
    pub packets: Vec<Bytes>,
    /// Of streams, oldest first.
    pub stream_events: Vec<Event>,
    /// Until when the line towards others is busy.
    busy: Duration,
    /// Datagrams that were sent as ECN-capable, and that arrived marked.
    pub ecn_sent: u64,
    pub marked: u64,
}

/// On its way.
struct Flying {
    from: SocketAddr,
    to: SocketAddr,
    marked: bool,
    bytes: Vec<u8>,
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
    flying: BTreeMap<(Duration, u64), Flying>,
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
                stream_events: vec![],
                busy: Duration::ZERO,
                ecn_sent: 0,
                marked: 0,
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
        let flying = Flying { from, to, marked: false, bytes };
        self.flying.insert((self.now, self.serial), flying);
    }

    fn launch(&mut self, i: usize, to: SocketAddr, ecn: bool, bytes: Vec<u8>) {
        let from = self.nodes[i].at;
        if self.record {
            self.tap.push((from, to, bytes.clone()));
            self.times.push(self.now);
        }
        self.nodes[i].ecn_sent += u64::from(ecn);
        let weather = self.weather;
        let lost = self.dice.percent(weather.loss)
            || (weather.permille > 0 && self.dice.below(1_000) < weather.permille);
        if bytes.len() > weather.path || lost || (ecn && weather.drops_ecn) {
            return;
        }
        let (mut leaves, mut marked) = (self.now, false);
        if weather.rate > 0 {
            let waiting = self.nodes[i].busy.saturating_sub(self.now);
            let waiting = (waiting.as_nanos() * u128::from(weather.rate) / 1_000_000_000) as u64;
            if waiting > weather.buffer {
                return;
            }
            marked = ecn && weather.mark_above > 0 && waiting > weather.mark_above;
            let takes = bytes.len() as u64 * 1_000_000_000 / weather.rate;
            leaves = self.now.max(self.nodes[i].busy) + Duration::from_nanos(takes);
            self.nodes[i].busy = leaves;
        }
        let copies = 1 + usize::from(self.dice.percent(weather.duplicate));
        for _ in 0..copies {
            let mut jitter = weather.jitter.as_micros() as u64;
            if weather.late > 0 && self.dice.percent(weather.late) {
                jitter = weather.delay.as_micros() as u64;
            }
            let jitter = self.dice.below(jitter + 1);
            let at = leaves + weather.delay + Duration::from_micros(jitter);
            self.serial += 1;
            let flying = Flying { from, to, marked, bytes: bytes.clone() };
            self.flying.insert((at, self.serial), flying);
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
                for datagram in buf.chunks(segment) {
                    self.launch(i, t.to, t.ecn, datagram.to_vec());
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
                    event => node.stream_events.push(event),
                }
            }
        }
    }

    /// Lets `time` pass.
    pub fn run(&mut self, time: Duration) {
        self.run_with(time, |_| ());
    }

    /// Lets `time` pass; `turn` is what the programs do whenever something has happened.
    pub fn run_with(&mut self, time: Duration, mut turn: impl FnMut(&mut Self)) {
        let end = self.now + time;
        loop {
            self.flush();
            turn(self);
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
                let Flying { from, to, marked, bytes } = first.remove();
                match self.nodes.iter_mut().find(|n| n.at == to) {
                    Some(node) => {
                        let datagram = BytesMut::from(&bytes[..]);
                        node.marked += u64::from(marked);
                        node.endpoint.handle_marked_datagram(self.now, from, marked, datagram);
                    }
                    None => self.outside.entry(to).or_default().push(bytes),
                }
            }
        }
        self.now = end;
    }
}
