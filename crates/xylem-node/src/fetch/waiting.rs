//! [`UnansweredPeers`]: reports peers that have not answered, long before the fetch gives up.
//!
//! A link's handshake may go to an address where nothing listens. An [`IcmpProbe`] obtains what the system reports
//! about it.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use xylem_peers::reachable::{FaceAddress, PeerAddress};
use xylem_sockets::IcmpProbe;

/// When probes leave.
const PROBE: Duration = Duration::from_millis(300);
/// When unanswered peers are reported, and when they are reported again.
const REPORT_AFTER: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(4)];

/// Bytes of a probe. They are random, and as many as in a handshake's first datagram, so that observers cannot
/// distinguish the two.
const BYTES: usize = 1_200;

/// A peer that a fetch tries to reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TriedPeer {
    /// The peer's address.
    pub peer: FaceAddress,
    /// Whether a link to it is up, or packets for it leave without a link.
    pub connected: bool,
    /// Why it cannot be reached, if a reason is known.
    pub why: Option<String>,
}

impl fmt::Display for TriedPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Some(why) => write!(f, "{} ({why})", self.peer.for_people()),
            None => self.peer.for_people().fmt(f),
        }
    }
}

/// Peers that have not answered; see the module's documentation.
#[derive(Default)]
pub(super) struct UnansweredPeers {
    began: Option<Duration>,
    probes: Option<Vec<IcmpProbe>>,
    told: usize,
}

impl UnansweredPeers {
    /// When [`UnansweredPeers::handle_timeout`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        let Some(began) = self.began else { return Some(Duration::ZERO) };
        let probe = self.probes.is_none().then_some(PROBE);
        Some(began + probe.or(REPORT_AFTER.get(self.told).copied())?)
    }

    /// Sends probes to `peers` that are not connected. Returns how long no peer has answered, if that is to be reported
    /// now.
    pub(super) fn handle_timeout<'a>(
        &mut self,
        now: Duration,
        peers: impl Iterator<Item = (&'a PeerAddress, bool)>,
    ) -> Option<Duration> {
        let waited = now - *self.began.get_or_insert(now);
        if waited >= PROBE && self.probes.is_none() {
            let silent = peers.filter(|(_, connected)| !connected);
            let probe = |(peer, _): (&PeerAddress, bool)| match peer {
                PeerAddress::Link { address, .. } => {
                    Some(IcmpProbe::send(*address, &xylem_base::random::<BYTES>().ok()?))
                }
                _ => None,
            };
            self.probes = Some(silent.filter_map(probe).collect());
        }
        if REPORT_AFTER.get(self.told).is_none_or(|after| waited < *after) {
            return None;
        }
        self.told += 1;
        self.probes.iter_mut().flatten().for_each(IcmpProbe::poll_error);
        Some(waited)
    }

    /// The system's reason why a peer does not answer, if it reported one.
    pub(super) fn why(&self, peer: &PeerAddress) -> Option<&'static str> {
        let PeerAddress::Link { address, .. } = peer else { return None };
        self.probes.iter().flatten().find(|probe| probe.to() == *address)?.failure_reason()
    }
}
