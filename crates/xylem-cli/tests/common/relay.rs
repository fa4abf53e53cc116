//! A relay of our own on loopback, which treats datagrams as a test decides.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use xylem_link_internals::{
    Endpoint, LinkConfig, LinkEvent, LinkId, StaticKey, StreamId, StreamRead, purpose,
};
use xylem_reach::relay::{ControlSession, RelayPeer, RelayPort, RelayServer, Relayed};

/// Maps a forwarded datagram to the datagrams that leave in its place.
pub(crate) type DatagramFilter =
    dyn FnMut(SocketAddr, Vec<u8>) -> Vec<(SocketAddr, Vec<u8>)> + Send;
/// Maps a peer's real address to the observed address that the relay reports to it.
pub(crate) type ObservedAddress = dyn Fn(SocketAddr) -> SocketAddr + Send;

/// Maps a message of a peer to the message that the relay acts on.
pub(crate) type MessageFilter = dyn Fn(Vec<u8>) -> Vec<u8> + Send;

/// See the module's documentation; stops when dropped.
pub(crate) struct TestRelay {
    /// `KEY@ADDR`, for `--relay`.
    pub(crate) uri: String,
    pub(crate) address: SocketAddr,
    passed: Arc<AtomicUsize>,
    registered: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct TestRelayState {
    socket: UdpSocket,
    endpoint: Endpoint,
    server: RelayServer,
    sessions: HashMap<(LinkId, StreamId), ControlSession>,
    /// Real addresses of peers to which another one was reported.
    real: HashMap<SocketAddr, SocketAddr>,
    passed: Arc<AtomicUsize>,
    registered: Arc<AtomicUsize>,
    treats: Box<DatagramFilter>,
    tells: Box<ObservedAddress>,
    hears: Box<MessageFilter>,
    begun: Instant,
}

impl TestRelay {
    /// An honest relay.
    pub(crate) fn honest() -> Self {
        Self::new(|to, datagram| vec![(to, datagram)], |seen| seen)
    }

    pub(crate) fn new(
        treats: impl FnMut(SocketAddr, Vec<u8>) -> Vec<(SocketAddr, Vec<u8>)> + Send + 'static,
        tells: impl Fn(SocketAddr) -> SocketAddr + Send + 'static,
    ) -> Self {
        Self::that(treats, tells, |said| said)
    }

    /// A relay that treats datagrams, addresses and messages as given.
    pub(crate) fn that(
        treats: impl FnMut(SocketAddr, Vec<u8>) -> Vec<(SocketAddr, Vec<u8>)> + Send + 'static,
        tells: impl Fn(SocketAddr) -> SocketAddr + Send + 'static,
        hears: impl Fn(Vec<u8>) -> Vec<u8> + Send + 'static,
    ) -> Self {
        Self::with(xylem_reach::relay::RelayConfig::default(), treats, tells, hears)
    }

    /// An honest relay that drops clients that are silent for this long.
    pub(crate) fn forgetful(lifetime: Duration) -> Self {
        let config = xylem_reach::relay::RelayConfig { lifetime, ..Default::default() };
        Self::with(config, |to, datagram| vec![(to, datagram)], |seen| seen, |said| said)
    }

    fn with(
        config: xylem_reach::relay::RelayConfig,
        treats: impl FnMut(SocketAddr, Vec<u8>) -> Vec<(SocketAddr, Vec<u8>)> + Send + 'static,
        tells: impl Fn(SocketAddr) -> SocketAddr + Send + 'static,
        hears: impl Fn(Vec<u8>) -> Vec<u8> + Send + 'static,
    ) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let address = socket.local_addr().unwrap();
        let key = StaticKey::generate([77; 32]);
        let hex: String = key.public().0.iter().map(|byte| format!("{byte:02x}")).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let (passed, registered) = (Arc::default(), Arc::default());
        let mut inside = TestRelayState {
            socket,
            endpoint: Endpoint::new(LinkConfig::default(), key, [78; 32]),
            server: RelayServer::new(config, [79; 32]),
            sessions: HashMap::new(),
            real: HashMap::new(),
            passed: Arc::clone(&passed),
            registered: Arc::clone(&registered),
            treats: Box::new(treats),
            tells: Box::new(tells),
            hears: Box::new(hears),
            begun: Instant::now(),
        };
        let stops = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stops.load(Ordering::Relaxed) {
                inside.step();
            }
        });
        let uri = format!("{hex}@{address}");
        Self { uri, address, passed, registered, stop, thread: Some(thread) }
    }

    /// Number of registered clients.
    pub(crate) fn registered(&self) -> usize {
        self.registered.load(Ordering::Relaxed)
    }

    /// Number of datagrams that it received for forwarding.
    pub(crate) fn passed(&self) -> usize {
        self.passed.load(Ordering::Relaxed)
    }
}

impl Drop for TestRelay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl TestRelayState {
    fn step(&mut self) {
        let mut buffer = vec![0; 65_536];
        let received = self.socket.recv_from(&mut buffer);
        let now = self.begun.elapsed();
        if let Ok((len, from)) = received {
            let datagram = &mut buffer[..len];
            let seen = self.seen(from);
            match self.server.handle_datagram(now, RelayPort::First, seen, datagram) {
                Relayed::Forward(to) => {
                    let to = self.real.get(&to).copied().unwrap_or(to);
                    self.passed.fetch_add(1, Ordering::Relaxed);
                    let leave = (self.treats)(to, datagram.to_vec());
                    for (to, datagram) in leave {
                        let _ = self.socket.send_to(&datagram, to);
                    }
                }
                Relayed::Done => {}
                Relayed::Not => {
                    self.endpoint.handle_datagram(now, from, BytesMut::from(&*datagram))
                }
            }
        }
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        self.server.handle_timeout(now);
        self.registered.store(self.server.metrics().registrations, Ordering::Relaxed);
        while let Some(event) = self.endpoint.poll_event() {
            self.see_to(now, event);
        }
        while let Some((_, to, datagram)) = self.server.poll_transmit() {
            let to = self.real.get(&to).copied().unwrap_or(to);
            let _ = self.socket.send_to(&datagram, to);
        }
        let mut out = Vec::new();
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut out) {
            let size = transmit.segment_size.unwrap_or(transmit.len).max(1);
            for datagram in out[..transmit.len].chunks(size) {
                let _ = self.socket.send_to(datagram, transmit.to);
            }
        }
    }

    /// The address that the relay reports to a peer. Datagrams sent there go to the peer's real address.
    fn seen(&mut self, at: SocketAddr) -> SocketAddr {
        let told = (self.tells)(at);
        self.real.insert(told, at);
        told
    }

    fn see_to(&mut self, now: Duration, event: LinkEvent) {
        match event {
            LinkEvent::StreamOpened { link, stream, purpose } if purpose == purpose::REACH => {
                self.sessions.insert((link, stream), ControlSession::default());
            }
            LinkEvent::StreamReadable { link, stream } => {
                let Some(up) = self.endpoint.link(link) else { return };
                let (key, at) = (up.peer().0, up.remote());
                let peer = RelayPeer { key, at: self.seen(at), host: at.ip() };
                let Some(session) = self.sessions.get_mut(&(link, stream)) else { return };
                while let Ok(StreamRead::Data(bytes)) = self.endpoint.read_stream(link, stream) {
                    let (mut answers, bytes) = (Vec::new(), (self.hears)(bytes.to_vec()));
                    let _ = self.server.handle_request(now, session, &peer, &bytes, &mut answers);
                    let _ = self.endpoint.write_stream(link, stream, &answers);
                }
            }
            LinkEvent::Closed { link, .. } => self.sessions.retain(|(of, _), _| *of != link),
            _ => {}
        }
    }
}
