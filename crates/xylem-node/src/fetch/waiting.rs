//! [`Waiting`]: who has not answered a fetch yet, told to its caller long before it gives up.
//!
//! A link's handshake goes to an address where perhaps nothing listens, and silence has many reasons.
//! One of them the system can tell: where the machine is there and the port is closed, ICMP says so, but
//! only to a socket that is connected to that address alone. [`Probe`] is such a socket.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use serde::Serialize;

use xylem_library::keys;
use xylem_library::reachable::{FaceAddress, Peer};

/// When probes leave, when peers are named that have not answered, and when it is told once more.
const PROBE: Duration = Duration::from_millis(300);
const TELL: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(4)];

/// A peer that a fetch tries to reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tried {
    /// Who.
    pub peer: FaceAddress,
    /// Whether a link to it is up, or packets for it leave without one.
    pub connected: bool,
    /// Why it cannot be reached, where something is known.
    pub why: Option<String>,
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Some(why) => write!(f, "{} ({why})", self.peer),
            None => self.peer.fmt(f),
        }
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Waiting {
    began: Option<Duration>,
    probes: Option<Vec<Probe>>,
    told: usize,
}

impl Waiting {
    /// When [`Waiting::handle_timeout`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        let Some(began) = self.began else { return Some(Duration::ZERO) };
        let probe = self.probes.is_none().then_some(PROBE);
        Some(began + probe.or(TELL.get(self.told).copied())?)
    }

    /// Sends probes to `peers` that are not connected. For how long nobody has answered, if that is to
    /// be told now.
    pub(super) fn handle_timeout<'a>(
        &mut self,
        now: Duration,
        peers: impl Iterator<Item = (&'a Peer, bool)>,
    ) -> Option<Duration> {
        let waited = now - *self.began.get_or_insert(now);
        if waited >= PROBE && self.probes.is_none() {
            let silent = peers.filter(|(_, connected)| !connected);
            let probe = |(peer, _): (&Peer, bool)| match peer {
                Peer::Link { address, .. } => Some(Probe::send(*address)),
                _ => None,
            };
            self.probes = Some(silent.filter_map(probe).collect());
        }
        if TELL.get(self.told).is_none_or(|after| waited < *after) {
            return None;
        }
        self.told += 1;
        self.probes.iter_mut().flatten().for_each(Probe::look);
        Some(waited)
    }

    /// What the system knows of why a peer does not answer.
    pub(super) fn why(&self, peer: &Peer) -> Option<&'static str> {
        let Peer::Link { address, .. } = peer else { return None };
        let probe = self.probes.iter().flatten().find(|probe| probe.to == *address)?;
        match probe.socket.as_ref().err()?.kind() {
            io::ErrorKind::ConnectionRefused => Some("nothing listens at that port"),
            io::ErrorKind::NetworkUnreachable => Some("no route to that network"),
            io::ErrorKind::HostUnreachable => Some("no such machine"),
            _ => None,
        }
    }
}

/// One datagram of random bytes: as long as the first of a handshake, and to others no less random.
struct Probe {
    to: SocketAddr,
    /// The error that the system has told of.
    socket: io::Result<UdpSocket>,
}

impl Probe {
    const BYTES: usize = 1_200;

    fn send(to: SocketAddr) -> Self {
        let from: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(from).and_then(|socket| {
            socket.connect(to)?;
            let noise: [u8; Self::BYTES] = keys::random().map_err(io::Error::other)?;
            socket.send(&noise)?;
            Ok(socket)
        });
        Self { to, socket }
    }

    /// Takes what ICMP has said since.
    fn look(&mut self) {
        if let Ok(Some(error)) = self.socket.as_ref().map_or(Ok(None), UdpSocket::take_error) {
            self.socket = Err(error);
        }
    }
}
