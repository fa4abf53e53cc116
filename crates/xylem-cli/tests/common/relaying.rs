//! A client of a relay, over a socket of its own: honest, unless the test has other plans.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use xylem_link_internals::{
    Endpoint, LinkConfig, LinkEvent, LinkId, PeerKey, StaticKey, StreamId, StreamRead,
};
use xylem_reach::relay::{
    CircuitTag, ConnectTarget, DatagramKind, HEADER, RelayClient, RelayEvent, RelayPort,
    RelayRefusal, VouchedName,
};

/// Purpose of a relay's stream: docs/spec/link.md.
const REACH: u16 = 4;

/// Key and address of `xylem://KEY@HOST:PORT`.
pub(crate) fn relay_at(uri: &str) -> ([u8; 32], SocketAddr) {
    let (key, at) = uri.strip_prefix("xylem://").and_then(|uri| uri.split_once('@')).expect("key");
    let byte = |i| u8::from_str_radix(&key[i..i + 2], 16).expect("hex");
    (std::array::from_fn(|i| byte(2 * i)), at.parse().expect("an address"))
}

pub(crate) struct Client {
    pub relay: RelayClient,
    pub socket: UdpSocket,
    /// The client's own key.
    pub key: [u8; 32],
    at: SocketAddr,
    endpoint: Endpoint,
    link: LinkId,
    pub stream: Option<StreamId>,
    /// Bytes for the stream, sent once the link is up.
    waits: Vec<u8>,
    began: Instant,
    pub received: Vec<(CircuitTag, Vec<u8>)>,
    pub events: Vec<RelayEvent>,
    /// Whether the link or its stream has ended.
    pub ended: bool,
    /// Keep-alives that were sent.
    pub keeps: Vec<Vec<u8>>,
    pub reads: bool,
    /// Sent right behind the flight that opens the stream.
    pub early: Option<(CircuitTag, Vec<u8>)>,
}

impl Client {
    /// Dials the relay from that address of this machine and registers.
    pub(crate) fn new(
        uri: &str,
        from: IpAddr,
        seed: u64,
        listens: bool,
        names: Vec<VouchedName>,
    ) -> Self {
        let mut client = Self::idle(uri, from, seed, listens, names);
        client.waits = client.relay.request();
        client
    }

    /// A client that proves a token, and does not want to be reached.
    pub(crate) fn proving(uri: &str, from: IpAddr, seed: u64, proof: Option<[u8; 32]>) -> Self {
        let mut client = Self::idle(uri, from, seed, false, vec![]);
        let fresh = RelayClient::new([seed as u8; 32], false, vec![]);
        client.relay = match proof {
            Some(proof) => fresh.with_proof(proof),
            None => fresh,
        };
        let request = client.relay.request();
        client.ask(&request);
        client
    }

    /// As [`new`](Self::new), but sends nothing on the stream by itself.
    pub(crate) fn idle(
        uri: &str,
        from: IpAddr,
        seed: u64,
        listens: bool,
        names: Vec<VouchedName>,
    ) -> Self {
        let (relay_key, at) = relay_at(uri);
        let mut secret = [7; 32];
        secret[..8].copy_from_slice(&seed.to_be_bytes());
        let socket = UdpSocket::bind((from, 0)).expect("a loopback address");
        socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let config = LinkConfig { accept_incoming: false, ..LinkConfig::default() };
        let key = StaticKey::generate(secret);
        let mut endpoint = Endpoint::new(config, key, [seed as u8; 32]);
        let link = endpoint.connect(Duration::ZERO, at, Some(PeerKey(relay_key)));
        let mut own = [8; 32];
        own[..8].copy_from_slice(&seed.to_be_bytes());
        Self {
            relay: RelayClient::new(own, listens, names),
            socket,
            key: endpoint.public_key().0,
            at,
            endpoint,
            link,
            stream: None,
            waits: Vec::new(),
            began: Instant::now(),
            received: Vec::new(),
            events: Vec::new(),
            ended: false,
            keeps: Vec::new(),
            reads: true,
            early: None,
        }
    }

    /// The key of the link of a client with this seed.
    pub(crate) fn key_of(seed: u64) -> [u8; 32] {
        let mut secret = [7; 32];
        secret[..8].copy_from_slice(&seed.to_be_bytes());
        let endpoint = Endpoint::new(LinkConfig::default(), StaticKey::generate(secret), [0; 32]);
        endpoint.public_key().0
    }

    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Ends the link; the registration stays.
    pub(crate) fn hang_up(&mut self) {
        self.endpoint.close(self.link);
        self.flush();
    }

    pub(crate) fn connect(&mut self, target: ConnectTarget) -> CircuitTag {
        let (tag, message) = self.relay.connect(target);
        self.ask(&message);
        tag
    }

    /// Sends bytes on the control stream.
    pub(crate) fn ask(&mut self, bytes: &[u8]) {
        self.waits.extend_from_slice(bytes);
        self.write();
    }

    fn write(&mut self) {
        if let Some(stream) = self.stream {
            let taken = self.endpoint.write_stream(self.link, stream, &self.waits);
            self.waits.drain(..taken.unwrap_or(0));
        }
        self.flush();
    }

    pub(crate) fn send(&mut self, tag: CircuitTag, datagram: &[u8]) {
        let datagram = [&self.relay.header(tag)[..], datagram].concat();
        self.socket.send_to(&datagram, self.at).expect("loopback");
    }

    pub(crate) fn flush(&mut self) {
        let (now, mut buffer) = (self.now(), Vec::new());
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut buffer) {
            let size = transmit.segment_size.unwrap_or(transmit.len).max(1);
            for datagram in buffer[..transmit.len].chunks(size) {
                let _ = self.socket.send_to(datagram, transmit.to);
            }
        }
        while let Some((port, datagram)) = self.relay.poll_transmit(now) {
            let to = match port {
                RelayPort::First => self.at,
                RelayPort::Second => {
                    SocketAddr::new(self.at.ip(), self.relay.second_port().expect("one"))
                }
            };
            self.keeps.push(datagram.clone());
            let _ = self.socket.send_to(&datagram, to);
        }
    }

    /// Sends and receives once.
    pub(crate) fn turn(&mut self) {
        self.flush();
        let mut buffer = [0; 65_536];
        for _ in 0..64 {
            match self.socket.recv_from(&mut buffer) {
                Ok((len, from)) => self.take(from, &mut buffer[..len]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(_) => {}
            }
        }
        let now = self.now();
        if self.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
        }
        if self.relay.poll_timeout().is_some_and(|due| due <= now) {
            self.relay.handle_timeout(now);
        }
        while let Some(event) = self.endpoint.poll_event() {
            self.handle(&event);
        }
        while let Some(event) = self.relay.poll_event() {
            self.events.push(event);
        }
        self.flush();
    }

    fn take(&mut self, from: SocketAddr, datagram: &mut [u8]) {
        let now = self.now();
        match self.relay.handle_datagram(now, from.port() != self.at.port(), datagram) {
            DatagramKind::Inner(tag) => self.received.push((tag, datagram[HEADER..].to_vec())),
            DatagramKind::Control => {}
            DatagramKind::Not => {
                self.endpoint.handle_datagram(now, from, BytesMut::from(&*datagram))
            }
        }
        // At once, so that the answering flight carries all of it.
        while let Some(event) = self.endpoint.poll_event() {
            self.handle(&event);
        }
    }

    fn handle(&mut self, event: &LinkEvent) {
        match event {
            LinkEvent::Connected { link, .. } => {
                self.link = *link;
                self.stream = self.endpoint.open_stream(*link, REACH).ok();
                self.write();
                if let Some((tag, datagram)) = self.early.take() {
                    self.send(tag, &datagram);
                }
            }
            LinkEvent::StreamReadable { link, stream } if self.reads => {
                while let Ok(StreamRead::Data(bytes)) = self.endpoint.read_stream(*link, *stream) {
                    self.relay.handle_control(self.began.elapsed(), &bytes).expect("answers");
                }
            }
            LinkEvent::StreamWritable { .. } => self.write(),
            LinkEvent::StreamReset { .. }
            | LinkEvent::StreamStopped { .. }
            | LinkEvent::Closed { .. } => self.ended = true,
            _ => {}
        }
    }

    pub(crate) fn is_registered(&self) -> bool {
        self.events.iter().any(|event| matches!(event, RelayEvent::Registered { .. }))
    }

    pub(crate) fn refused(&self) -> Option<RelayRefusal> {
        self.events.iter().find_map(|event| match event {
            RelayEvent::Refused(None, why) => Some(*why),
            _ => None,
        })
    }
}

/// Runs all clients until `is` holds; for 30 seconds at most.
pub(crate) fn until(what: &str, clients: &mut [&mut Client], is: impl Fn(&[&mut Client]) -> bool) {
    let began = Instant::now();
    while !is(clients) {
        assert!(began.elapsed() < Duration::from_secs(30), "{what} did not come");
        clients.iter_mut().for_each(|client| client.turn());
    }
}
