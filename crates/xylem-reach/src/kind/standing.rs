//! [`ReachMonitor`]: collects what a node learns of its reachability, and decides when to report the result of [`judge`].

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use super::{
    AddressObservation, MAX_SEEN, ReachEvidence, Reachability, RelayState, is_global, judge,
};

/// Time after which the state so far is reported. Later changes are reported as corrections.
const REPORT_TIMEOUT: Duration = Duration::from_millis(900);

/// A message about a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayReport {
    /// The relay has registered the node.
    Registered {
        /// The connection to the relay is TCP, because UDP got no answer.
        over_tcp: bool,
    },
    /// The relay observes the node at an address.
    Observed {
        /// The observed address.
        address: SocketAddr,
        /// Whether the relay's second port observed it.
        by_second: bool,
    },
    /// The registration failed.
    Failed,
}

/// The knowledge about a node's reachability, and the last report.
pub struct ReachMonitor {
    known: ReachEvidence,
    relays: Vec<([u8; 32], RelayState)>,
    said: Option<Reachability>,
    /// When to report for the first time, even if relays have not answered.
    due: Duration,
}

impl ReachMonitor {
    /// Starts with a node that listens at the interface addresses `own` and is about to register with `relays`.
    pub fn new(now: Duration, own: Vec<SocketAddr>, announced: bool, relays: &[[u8; 32]]) -> Self {
        let relays: Vec<_> = relays.iter().map(|key| (*key, RelayState::Asked)).collect();
        let due = if relays.is_empty() { now } else { now.saturating_add(REPORT_TIMEOUT) };
        let known = ReachEvidence { own, announced, ..ReachEvidence::default() };
        let mut standing = Self { known, relays, said: None, due };
        standing.update_best_relay();
        standing
    }

    /// Sets the address that the router maps.
    pub fn mapped(&mut self, at: Option<SocketAddr>) {
        self.known.mapped = at.and_then(|at| match at {
            SocketAddr::V4(at) => Some(at),
            SocketAddr::V6(_) => None,
        });
    }

    /// Takes a message about the relay at address `at`.
    pub fn on_relay_report(
        &mut self,
        now: Duration,
        relay: [u8; 32],
        at: SocketAddr,
        what: RelayReport,
    ) {
        let Some((_, state)) = self.relays.iter_mut().find(|(key, _)| *key == relay) else {
            return;
        };
        match what {
            RelayReport::Registered { over_tcp: true, .. } => *state = RelayState::OverTcp,
            RelayReport::Registered { .. } => *state = RelayState::OverUdp,
            RelayReport::Failed => *state = RelayState::Failed,
            // Over TCP the relay sees the connection, which shows nothing about UDP.
            RelayReport::Observed { .. } if *state == RelayState::OverTcp => {}
            RelayReport::Observed { address, by_second } => {
                // The two ports of a relay count as two observers.
                let by = SocketAddr::new(at.ip(), at.port() ^ u16::from(by_second));
                self.known.seen.retain(|seen| seen.observer != by);
                self.known.seen.truncate(MAX_SEEN.saturating_sub(1));
                self.known.seen.push(AddressObservation { observer: by, at: address });
            }
        }
        self.update_best_relay();
        if self.is_settled() {
            self.due = self.due.min(now);
        }
    }

    /// The node registers with these relays from now on, and with no others.
    pub fn use_relays(&mut self, keys: &[[u8; 32]]) {
        let known = std::mem::take(&mut self.relays);
        let state = |key: &[u8; 32]| known.iter().find(|(known, _)| known == key);
        let of = |key: &[u8; 32]| (*key, state(key).map_or(RelayState::Asked, |(_, state)| *state));
        self.relays = keys.iter().map(of).collect();
        self.update_best_relay();
    }

    /// Marks a relay as failed that cannot even be asked.
    pub fn failed(&mut self, relay: [u8; 32]) {
        self.relays
            .iter_mut()
            .filter(|(key, _)| *key == relay)
            .for_each(|r| r.1 = RelayState::Failed);
        self.update_best_relay();
    }

    /// Whether each relay has answered. The observation of a relay's second port follows a moment after the rest.
    pub fn is_settled(&self) -> bool {
        let over_udp =
            self.relays.iter().filter(|(_, state)| *state == RelayState::OverUdp).count();
        let asked = self.relays.iter().any(|(_, state)| *state == RelayState::Asked);
        !asked && self.known.seen.len() >= over_udp.saturating_mul(2)
    }

    /// Records a peer's link that came in directly from this address.
    pub fn on_direct_link(&mut self, from: SocketAddr) {
        let near = |own: &SocketAddr| same_network(own.ip(), from.ip());
        self.known.reached |= is_global(from.ip()) && !self.known.own.iter().any(near);
    }

    /// Sets the best state among the relays.
    fn update_best_relay(&mut self) {
        let of = |state| self.relays.iter().any(|(_, s)| *s == state);
        let ranks =
            [RelayState::OverUdp, RelayState::OverTcp, RelayState::Asked, RelayState::Failed];
        self.known.relay = ranks.into_iter().find(|state| of(*state)).unwrap_or_default();
    }

    /// The state to report now, if it is time and something has changed.
    pub fn poll(&mut self, now: Duration) -> Option<Reachability> {
        if now < self.due {
            return None;
        }
        let reach = judge(&self.known);
        let differs = |said: Reachability| {
            (said.way, said.proven, said.nat, said.at, said.over_ipv4)
                != (reach.way, reach.proven, reach.nat, reach.at, reach.over_ipv4)
        };
        if self.said.is_some_and(|said| !differs(said)) {
            return None;
        }
        self.said = Some(reach);
        Some(reach)
    }

    /// When [`ReachMonitor::poll`] has something to report even if nothing else happens.
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.said.is_none().then_some(self.due)
    }
}

/// Whether two addresses are probably in one network, with no firewall between them.
fn same_network(one: IpAddr, other: IpAddr) -> bool {
    match (one.to_canonical(), other.to_canonical()) {
        (IpAddr::V4(one), IpAddr::V4(other)) => one.octets()[..3] == other.octets()[..3],
        (IpAddr::V6(one), IpAddr::V6(other)) => one.octets()[..8] == other.octets()[..8],
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{NatKind, ReachWay};

    const KEY: [u8; 32] = [5; 32];

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn standing(own: &str) -> ReachMonitor {
        ReachMonitor::new(Duration::ZERO, vec![at(own)], false, &[KEY])
    }

    fn last_reported(reach: Option<Reachability>) -> Option<(ReachWay, NatKind, bool)> {
        reach.map(|said| (said.way, said.nat, said.proven))
    }

    const REGISTERED: RelayReport = RelayReport::Registered { over_tcp: false };

    fn observed(address: &str, by_second: bool) -> RelayReport {
        RelayReport::Observed { address: at(address), by_second }
    }

    #[test]
    fn reports_once_all_is_known_and_again_on_change() {
        let mut it = standing("192.168.1.7:7348");
        let relay = at("203.0.113.1:7348");
        let ms = Duration::from_millis;
        assert_eq!(
            (last_reported(it.poll(ms(10))), it.poll_timeout()),
            (None, Some(REPORT_TIMEOUT))
        );
        it.on_relay_report(ms(20), KEY, relay, REGISTERED);
        it.on_relay_report(ms(20), KEY, relay, observed("198.51.100.9:40000", false));
        assert_eq!(last_reported(it.poll(ms(21))), None, "the second port is still to come");
        it.on_relay_report(ms(40), KEY, relay, observed("198.51.100.9:40000", true));
        assert_eq!(last_reported(it.poll(ms(40))), Some((ReachWay::Punched, NatKind::Cone, false)));
        assert_eq!((last_reported(it.poll(ms(50))), it.poll_timeout()), (None, None));
        it.on_relay_report(ms(60), KEY, relay, observed("198.51.100.9:40000", true));
        assert_eq!(last_reported(it.poll(ms(60))), None);
        it.on_relay_report(ms(99), KEY, relay, observed("198.51.100.9:50000", true));
        assert_eq!(
            last_reported(it.poll(ms(99))),
            Some((ReachWay::PunchedOrRelayed, NatKind::Symmetric, false))
        );
    }

    #[test]
    fn reports_within_a_second() {
        let mut it = standing("192.168.1.7:7348");
        assert_eq!(
            last_reported(it.poll(REPORT_TIMEOUT)),
            Some((ReachWay::Lan, NatKind::Unknown, false))
        );
        let late = Duration::from_secs(3);
        let over_tcp = RelayReport::Registered { over_tcp: true };
        it.on_relay_report(late, KEY, at("203.0.113.1:443"), over_tcp);
        assert_eq!(
            last_reported(it.poll(late)),
            Some((ReachWay::Relayed, NatKind::Unknown, false))
        );
        // The relay's view of the TCP connection is not an observation of UDP.
        let seen = observed("192.168.1.7:7348", false);
        it.on_relay_report(late, KEY, at("203.0.113.1:443"), seen);
        assert_eq!(last_reported(it.poll(late)), None);
        let failed = RelayReport::Failed;
        it.on_relay_report(late, KEY, at("203.0.113.1:443"), failed);
        assert_eq!(last_reported(it.poll(late)), Some((ReachWay::Lan, NatKind::Unknown, false)));
    }

    #[test]
    fn a_peer_from_another_network_proves_reachability() {
        let mut it = ReachMonitor::new(Duration::ZERO, vec![at("198.51.100.7:7348")], false, &[]);
        assert_eq!(
            last_reported(it.poll(Duration::ZERO)),
            Some((ReachWay::Direct, NatKind::Unknown, false))
        );
        let near = ["127.0.0.1:9", "198.51.100.9:9", "192.168.1.1:9"].map(at);
        near.into_iter().for_each(|peer| it.on_direct_link(peer));
        assert_eq!(last_reported(it.poll(Duration::ZERO)), None);
        it.on_direct_link(at("203.0.113.77:9"));
        assert_eq!(
            last_reported(it.poll(Duration::ZERO)),
            Some((ReachWay::Direct, NatKind::Unknown, true))
        );
    }
}
