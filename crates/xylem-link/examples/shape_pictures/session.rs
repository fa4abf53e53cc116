//! Two endpoints under virtual time, and what passes an observer between them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use xylem_link::{Config, Endpoint, Event, Level, LinkId, SendError, Shaping, StaticKey};

const MS: Duration = Duration::from_millis(1);
/// One way.
const DELAY: Duration = Duration::from_millis(10);
/// UDP payload that the path carries: Ethernet.
const PATH: usize = 1_452;
/// Left alone, so that the path's size is found.
const BEFORE: Duration = Duration::from_secs(5);
/// Then observed.
const OBSERVED: Duration = Duration::from_secs(30);
/// A question and its answer: an Interest, a Data packet with 8 KiB.
const QUESTION: usize = 60;
const ANSWER: usize = 8_400;
/// Questions that are open while a fetch runs.
const WINDOW: usize = 32;

/// What the two do.
#[derive(Clone, Copy)]
pub enum Load {
    /// One fetches from the other, as fast as it comes.
    Busy,
    /// One question a second.
    Light,
    /// Nothing.
    Idle,
}

impl Load {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Busy, Self::Light, Self::Idle];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Light => "light",
            Self::Idle => "idle",
        }
    }
}

/// What the answering side sent, as seen on the wire.
#[derive(Default)]
pub struct Seen {
    /// UDP payloads, in bytes.
    pub sizes: Vec<usize>,
    /// When.
    pub times: Vec<Duration>,
    /// Bytes of answers that arrived.
    pub answered: usize,
}

impl Seen {
    /// Gaps between datagrams that follow one another.
    pub fn gaps(&self) -> impl Iterator<Item = Duration> + '_ {
        self.times.windows(2).map(|pair| pair[1] - pair[0])
    }

    /// One line of figures.
    pub fn summary(&self) -> String {
        let bytes: usize = self.sizes.iter().sum();
        let seconds = OBSERVED.as_secs();
        format!(
            "{:8} datagrams {:10} bytes {:9} bytes/s {:9} bytes/s of answers",
            self.sizes.len(),
            bytes,
            bytes as u64 / seconds,
            self.answered as u64 / seconds
        )
    }
}

struct Net {
    now: Duration,
    nodes: [Endpoint; 2],
    links: [Option<LinkId>; 2],
    flying: BTreeMap<(Duration, u64), (usize, Vec<u8>)>,
    serial: u64,
    packets: [Vec<usize>; 2],
    seen: Seen,
    observing: bool,
}

fn at(node: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, node as u8 + 1], 7_348))
}

impl Net {
    fn new(level: Level) -> Self {
        let endpoint = |n: u8| {
            let config = Config { shaping: Shaping::at(level), ..Config::default() };
            Endpoint::new(config, StaticKey::generate([n; 32]), [n + 10; 32])
        };
        Self {
            now: Duration::ZERO,
            nodes: [endpoint(1), endpoint(2)],
            links: [None; 2],
            flying: BTreeMap::new(),
            serial: 0,
            packets: Default::default(),
            seen: Seen::default(),
            observing: false,
        }
    }

    /// Sends and reports everything that is due now.
    fn flush(&mut self) {
        let mut buf = Vec::new();
        for node in 0..2 {
            self.nodes[node].handle_timeout(self.now);
            while let Some(transmit) = self.nodes[node].poll_transmit(self.now, &mut buf) {
                for datagram in buf.chunks(transmit.segment_size.unwrap_or(transmit.len)) {
                    if node == 1 && self.observing {
                        self.seen.sizes.push(datagram.len());
                        self.seen.times.push(self.now);
                    }
                    if datagram.len() <= PATH {
                        self.serial += 1;
                        let at = (self.now + DELAY, self.serial);
                        self.flying.insert(at, (1 - node, datagram.to_vec()));
                    }
                }
            }
            while let Some(event) = self.nodes[node].poll_event() {
                match event {
                    Event::Connected { link, .. } => self.links[node] = Some(link),
                    Event::Packet { packet, .. } => self.packets[node].push(packet.len()),
                    _ => {}
                }
            }
        }
    }

    /// Lets time pass until the next thing happens, or `end`; whether there is more before that.
    fn step(&mut self, end: Duration) -> bool {
        self.flush();
        let timers = self.nodes.iter().filter_map(Endpoint::poll_timeout).min();
        let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
        let next = [timers, arrival].into_iter().flatten().min().filter(|next| *next < end);
        self.now = next.unwrap_or(end).max(self.now);
        while let Some(first) = self.flying.first_entry().filter(|first| first.key().0 <= self.now)
        {
            let (to, datagram) = first.remove();
            self.nodes[to].handle_datagram(self.now, at(1 - to), datagram[..].into());
        }
        next.is_some()
    }

    fn send(&mut self, node: usize, len: usize) -> bool {
        let Some(link) = self.links[node] else { return false };
        match self.nodes[node].send(link, &vec![7; len]) {
            Ok(()) => true,
            // The other side asks again; here it is simply not asked so fast.
            Err(SendError::Full) => false,
            Err(error) => panic!("the link is up: {error}"),
        }
    }
}

/// What the answering side's datagrams show of this level under this load.
pub fn observe(level: Level, load: Load) -> Seen {
    let mut net = Net::new(level);
    let key = net.nodes[1].public_key();
    net.nodes[0].connect(Duration::ZERO, at(1), Some(key));
    while net.step(BEFORE) {}
    net.observing = true;
    let end = BEFORE + OBSERVED;
    let (mut open, mut next, mut waiting) = (0, net.now, Vec::new());
    loop {
        let wanted = match load {
            Load::Busy => WINDOW - open,
            Load::Light if net.now >= next => {
                next += 1_000 * MS;
                1
            }
            _ => 0,
        };
        open += (0..wanted).filter(|_| net.send(0, QUESTION)).count();
        let until = if matches!(load, Load::Light) { next.min(end) } else { end };
        net.step(until);
        net.flush();
        waiting.append(&mut net.packets[1]);
        while !waiting.is_empty() && net.send(1, ANSWER) {
            waiting.pop();
        }
        for len in std::mem::take(&mut net.packets[0]) {
            open = open.saturating_sub(1);
            net.seen.answered += len;
        }
        if net.now >= end {
            return net.seen;
        }
    }
}
