//! Where those see this end whom it has dialled, as their links say (docs/spec/link.md, "Observed").
//!
//! Without a relay it is all that says what address a NAT gives us, and whether it gives another to each peer. Peers may
//! lie: what they say is told to others as a place to ask at, which the link bounds, and only of a few, those that were
//! dialled first; who comes by itself is not listened to.

use std::net::SocketAddr;

use xylem_library::reachable::Peer;
use xylem_link::{LinkId, Mapping};

use super::state::Observation;
use crate::Engine;

/// Peers that are listened to.
const MAX_OBSERVERS: usize = 4;

impl Engine {
    /// The peer of a link sees us there.
    pub(crate) fn seen_by_peer(&mut self, link: LinkId, address: SocketAddr) {
        let dialled = self.net.faces.of_link(link).and_then(|id| self.net.faces.get(id));
        if !dialled.is_some_and(|face| matches!(face.peer, Some(Peer::Link { .. }))) {
            return;
        }
        let Some(by) = self.net.endpoint.link(link).map(|up| up.remote()) else { return };
        // It has found another way meanwhile, of which this may not be said.
        if self.net.carriers.made_up(by) || self.net.reaching.made_up(by) {
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
        self.tell_candidates_again();
    }

    /// A link has ended: its peer says nothing more.
    pub(crate) fn seen_no_more(&mut self, link: LinkId) {
        self.net.reaching.punching.observed.retain(|known| known.link != link);
    }

    /// All that say where we are seen over UDP, and where: relays, whom somebody chose to believe, first.
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

/// What the NAT before us does, as far as these show. It is symmetric where two see one address of ours with two ports,
/// or where two ports of one relay see anything else. Others may be on another side of it than the rest.
pub(crate) fn mapping(observations: &[(SocketAddr, SocketAddr)]) -> Mapping {
    let differ = |(by, seen): &(SocketAddr, SocketAddr)| {
        let other = |(of, at): &&(SocketAddr, SocketAddr)| {
            of != by && at != seen && (at.ip() == seen.ip() || of.ip() == by.ip())
        };
        observations.iter().any(|one| other(&one))
    };
    if observations.iter().any(differ) { Mapping::Symmetric } else { Mapping::Stable }
}

#[cfg(test)]
mod tests;
