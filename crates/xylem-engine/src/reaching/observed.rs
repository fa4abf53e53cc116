//! The addresses at which dialled peers see this end, as their links report (docs/spec/link.md, "Observed").
//!
//! Without a relay only these reports show the address that a NAT gives this end, and whether it differs for each peer.
//! Peers may lie. Their reports are announced to other peers as addresses to probe, which the link limits. Only a few
//! peers count, those that were dialled first; reports of peers that dialled this end are ignored.

use std::net::SocketAddr;

use xylem_link::{LinkId, NatMapping};
use xylem_peers::reachable::PeerAddress;

use super::state::Observation;
use crate::Engine;

/// Most peers with a report that counts.
const MAX_OBSERVERS: usize = 4;

impl Engine {
    /// Takes the report of a link's peer that it sees this end at `address`.
    pub(crate) fn record_observation(&mut self, link: LinkId, address: SocketAddr) {
        let dialled = self.net.faces.of_link(link).and_then(|id| self.net.faces.get(id));
        if !dialled.is_some_and(|face| matches!(face.peer, Some(PeerAddress::Link { .. }))) {
            return;
        }
        let Some(by) = self.net.endpoint.link(link).map(|up| up.remote()) else { return };
        // The link has moved to a synthetic address meanwhile, which the report does not describe.
        if self.net.carriers.is_synthetic(by) || self.net.reaching.is_synthetic(by) {
            return;
        }
        let observed = &mut self.net.reaching.punching.observed;
        match observed.iter().position(|known| known.link == link) {
            Some(i) if (observed[i].by, observed[i].address) == (by, address) => return,
            Some(i) => observed[i] = Observation { link, by, address },
            None if observed.len() < MAX_OBSERVERS => {
                observed.push(Observation { link, by, address });
            }
            None => return,
        }
        self.announce_candidates_again();
    }

    /// Drops the report of an ended link's peer.
    pub(crate) fn forget_observation(&mut self, link: LinkId) {
        self.net.reaching.punching.observed.retain(|known| known.link != link);
    }

    /// All reports of our address over UDP: the reporter's address and the reported one. Relays come first, because the
    /// user has chosen to trust them.
    pub(crate) fn observations(&self) -> Vec<(SocketAddr, SocketAddr)> {
        let reaching = &self.net.reaching;
        let mut all = Vec::new();
        for relay in reaching.relays.iter().filter(|relay| relay.is_over_udp()) {
            let [first, second] = relay.client.observed();
            all.extend(relay.at().zip(first));
            all.extend(relay.second().zip(second));
        }
        all.extend(reaching.punching.observed.iter().map(|known| (known.by, known.address)));
        all
    }
}

/// The mapping of our NAT, by these reports. It is symmetric if two reporters see one address of ours with two ports,
/// or if two ports of one relay see different addresses. Other differences do not count: the reporters may be on
/// different sides of the NAT.
pub(crate) fn mapping(observations: &[(SocketAddr, SocketAddr)]) -> NatMapping {
    let differ = |(by, seen): &(SocketAddr, SocketAddr)| {
        let other = |(of, at): &&(SocketAddr, SocketAddr)| {
            of != by && at != seen && (at.ip() == seen.ip() || of.ip() == by.ip())
        };
        observations.iter().any(|one| other(&one))
    };
    if observations.iter().any(differ) { NatMapping::Symmetric } else { NatMapping::Stable }
}

#[cfg(test)]
mod tests;
