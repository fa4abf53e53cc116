//! [`Waiting`]: who has not answered a fetch yet, told to its caller long before it gives up.
//!
//! A link's handshake goes to an address where perhaps nothing listens. A [`Probe`] finds out what the system knows.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use xylem_library::keys;
use xylem_library::reachable::{FaceAddress, Peer};
use xylem_sockets::Probe;

/// When probes leave, when peers are named that have not answered, and when it is told once more.
const PROBE: Duration = Duration::from_millis(300);
const TELL: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(4)];

/// Bytes of a probe, random ones: as many as the first of a handshake has, and to others no less random.
const BYTES: usize = 1_200;

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
            Some(why) => write!(f, "{} ({why})", self.peer.for_people()),
            None => self.peer.for_people().fmt(f),
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
                Peer::Link { address, .. } => {
                    Some(Probe::send(*address, &keys::random::<BYTES>().ok()?))
                }
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
        self.probes.iter().flatten().find(|probe| probe.to() == *address)?.why()
    }
}
