//! Hole punching: links that came up through a relay find a direct way (docs/spec/reach.md, "Punching").
//!
//! Each side announces its addresses, and probes those that the other announces; the link's endpoint does the rest
//! (docs/spec/link.md, "Paths"). If exactly one side has a symmetric NAT, its announced addresses do not work. Then it
//! opens many sockets towards the other side, and the other side searches many ports. One match is enough; unused
//! sockets are closed.

use std::collections::HashSet;
use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

use xylem_link::{LinkEvent, LinkId, NatMapping, PathKind, ProbePace};
use xylem_mgmt::FaceUri;
use xylem_peers::reachable::{FaceAddress, endpoint, may_be_dialled};
use xylem_reach::code::{PunchWay, SEARCH_SOCKETS, draw_search_ports};
use xylem_sockets::{Oversize, Udp};

use super::observed::mapping;
use super::state::{PunchSocket, PunchSocketUser, PunchedLink, address_of, socket_of};
use crate::dialling::wildcard;
use crate::faces::Transport;
use crate::{Engine, EngineEvent, PollSource};

/// Most candidates announced to a peer.
const MAX_ANNOUNCED: usize = 16;
/// A socket that no link uses is closed after this time.
const UNUSED: Duration = Duration::from_secs(5);
/// The same for sockets of a meeting in the DHT: the other side may learn of it later.
const UNUSED_BY_MEETING: Duration = Duration::from_secs(15);
/// Such a socket that has received something is closed after this time without anything more. A NAT has forgotten the
/// mapping by then.
const SILENT: Duration = Duration::from_secs(120);
/// Most links that look for a direct way at one time.
const MAX_LINKS: usize = 1_024;

impl Engine {
    /// Declares the prefixes of synthetic addresses to the endpoint.
    pub(crate) fn declare_synthetic_prefixes(&mut self) {
        let net = &mut self.net;
        net.endpoint.add_synthetic_prefix(net.carriers.prefix(), PathKind::Carried);
        net.endpoint.add_synthetic_prefix(net.reaching.relay_prefix(), PathKind::Relayed);
        net.endpoint.add_synthetic_prefix(net.reaching.socket_prefix(), PathKind::Direct);
    }

    /// Sets the addresses of this end that the program knows: its interfaces, those mapped by a router, those the user
    /// announces. They are announced to peers at relays, besides the addresses that the relays see.
    pub fn set_own_addresses(&mut self, own: Vec<SocketAddr>) {
        if self.net.reaching.punching.own != own {
            self.net.reaching.punching.own = own;
            self.announce_candidates_again();
        }
    }

    /// The addresses to announce, the most promising first, and the mapping of our NAT as far as known.
    pub(crate) fn candidates(&self) -> (Vec<SocketAddr>, NatMapping) {
        let seen = self.observations();
        let mut told: Vec<SocketAddr> = Vec::new();
        let own = &self.net.reaching.punching.own;
        for address in seen.iter().map(|(_, seen)| seen).chain(own) {
            if !told.contains(address) {
                told.push(*address);
            }
        }
        told.truncate(MAX_ANNOUNCED);
        (told, mapping(&seen))
    }

    /// Begins hole punching for an established link through a relay.
    pub(crate) fn punch(&mut self, link: LinkId, near: bool) {
        let punching = &mut self.net.reaching.punching;
        // A guest has what it came for through the relay.
        if punching.links.len() < MAX_LINKS && !self.net.endpoint.is_guest(link) {
            punching.links.insert(link, PunchedLink { near, ..PunchedLink::default() });
            let (told, mapping) = self.candidates();
            self.net.endpoint.announce_candidates(link, &told, mapping);
        }
    }

    /// Announces changed addresses to peers, and probes the peers' addresses again, because the peers will probe from
    /// there.
    pub(crate) fn announce_candidates_again(&mut self) {
        let links: Vec<LinkId> = self.net.reaching.punching.links.keys().copied().collect();
        let (told, mapping) = self.candidates();
        for link in links {
            self.net.endpoint.announce_candidates(link, &told, mapping);
            self.probe_candidates(link);
        }
    }

    /// Takes the addresses that a link's peer announces.
    pub(crate) fn on_candidates(
        &mut self,
        link: LinkId,
        mut addresses: Vec<SocketAddr>,
        mapping: NatMapping,
    ) {
        let Some(punched) = self.net.reaching.punching.links.get_mut(&link) else { return };
        addresses.retain(|address| may_be_dialled(address, punched.near));
        (punched.theirs, punched.mapping) = (addresses, mapping);
        self.probe_candidates(link);
    }

    fn probe_candidates(&mut self, link: LinkId) {
        let now = self.now();
        let Some(punched) = self.net.reaching.punching.links.get(&link) else { return };
        let (theirs, their_mapping) = (punched.theirs.clone(), punched.mapping);
        let (_, mapping) = self.candidates();
        // A machine without IPv6 has no socket for IPv6 addresses.
        let able: Vec<SocketAddr> = theirs
            .iter()
            .copied()
            .filter(|to| self.net.link_sockets.socket_for(*to).is_some())
            .collect();
        self.net.endpoint.probe(now, link, &able, ProbePace::Each);
        let Some(SocketAddr::V4(first)) = theirs.first().copied() else { return };
        match (mapping, their_mapping) {
            (NatMapping::Symmetric, NatMapping::Stable) => self.open_sockets(now, link, first),
            (NatMapping::Stable, NatMapping::Symmetric) => {
                let ports =
                    xylem_base::random().map(|seed| draw_search_ports(&seed)).unwrap_or_default();
                let at = |port| SocketAddr::from((*first.ip(), port));
                let all: Vec<SocketAddr> = ports.into_iter().map(at).collect();
                self.net.endpoint.probe(now, link, &all, ProbePace::Search);
            }
            // Either no symmetric NAT is in the way, or both are and there is no chance.
            _ => {}
        }
    }

    /// Opens many sockets towards one address.
    fn open_sockets(&mut self, now: Duration, link: LinkId, to: SocketAddrV4) {
        let user = PunchSocketUser::Link(link);
        if self.net.reaching.punching.sockets.values().any(|extra| extra.of == user) {
            return;
        }
        let prefix = self.net.reaching.socket_prefix();
        let numbers = self.net.open_extra_sockets(now, user, to).into_iter();
        let all: Vec<SocketAddr> = numbers.map(|number| address_of(prefix, number, to)).collect();
        self.net.endpoint.probe(now, link, &all, ProbePace::Search);
    }

    /// Closes sockets that no link uses any more.
    pub(crate) fn close_sockets(&mut self, now: Duration) {
        let prefix = self.net.reaching.socket_prefix();
        let is_due = |extra: &PunchSocket| now >= extra.closes;
        if !self.net.reaching.punching.sockets.values().any(is_due) {
            return;
        }
        // What a meeting has led to: the code's own link, and the fetch that comes after it.
        let of_links = self.net.faces.iter().filter_map(|(_, face)| match face.transport {
            Transport::Link(link) => {
                socket_of(prefix, self.net.endpoint.link(link)?.remote()).map(|(number, _)| number)
            }
            _ => None,
        });
        let of_links: HashSet<u16> = of_links.collect();
        let (endpoint, polling) = (&self.net.endpoint, &mut self.net.polling);
        let punching = &mut self.net.reaching.punching;
        punching.sockets.retain(|number, extra| {
            if now < extra.closes {
                return true;
            }
            let used = match extra.of {
                PunchSocketUser::Link(link) => {
                    let up = endpoint.link(link);
                    let at = up.and_then(|up| socket_of(prefix, up.remote()));
                    at.is_some_and(|(at, _)| at == *number)
                }
                PunchSocketUser::Meeting(_) => of_links.contains(number),
            };
            extra.closes = now + UNUSED;
            if !used {
                polling.forget(extra.token);
            }
            used
        });
    }

    /// Receives from a socket of one attempt.
    pub(crate) fn receive_extra(&mut self, number: u16, source: PollSource) {
        let now = self.now();
        let prefix = self.net.reaching.socket_prefix();
        let crate::Network { reaching, endpoint, sharers, .. } = &mut self.net;
        let Some(extra) = reaching.punching.sockets.get_mut(&number) else { return };
        let (of, closes) = (extra.of, &mut extra.closes);
        let received = extra.io.receive(&mut |from, marked, datagram| {
            let SocketAddr::V4(at) = from else { return };
            let from = address_of(prefix, number, at);
            if let PunchSocketUser::Meeting(what) = of {
                let way = PunchWay { at: at.into(), socket: Some(number) };
                if sharers.take_in_punch(what, now, way, &datagram) {
                    *closes = now + SILENT;
                    return;
                }
            }
            endpoint.handle_marked_datagram(now, from, marked, datagram);
        });
        self.drain_endpoint(now);
        if received.unwrap_or(false) {
            self.net.polling.unfinished(source);
        }
    }

    /// Handles an event of the endpoint about ways to peers; returns whether it was one that needs nothing more.
    pub(crate) fn handle_path_event(&mut self, event: &LinkEvent) -> bool {
        match event {
            LinkEvent::Connected { link, remote, .. } => {
                let relay = self.net.reaching.relay_at(*remote);
                if let Some(relay) = relay {
                    self.punch(*link, relay.ip().is_loopback());
                }
                false
            }
            LinkEvent::Closed { link, .. } => {
                self.net.reaching.punching.links.remove(link);
                self.forget_observation(*link);
                false
            }
            LinkEvent::Candidates { link, addresses, mapping } => {
                self.on_candidates(*link, addresses.clone(), *mapping);
                true
            }
            LinkEvent::Moved { link, to } => {
                self.moved(*link, *to);
                true
            }
            LinkEvent::Observed { link, address } => {
                self.record_observation(*link, *address);
                true
            }
            _ => false,
        }
    }

    /// Records and reports that a link has moved.
    fn moved(&mut self, link: LinkId, to: SocketAddr) {
        tracing::debug!(%link, %to, "the link continues on another path");
        let Some(id) = self.net.faces.of_link(link) else { return };
        let (address, remote) = self.net.seen_at(to);
        let Some(face) = self.net.faces.get_mut(id) else { return };
        (face.address, face.remote) = (address.clone(), remote);
        self.net.pending.push(EngineEvent::Moved { face: id, to: address });
    }
}

impl crate::Network {
    /// Opens many sockets, as many as the system provides; returns their numbers.
    pub(crate) fn open_extra_sockets(
        &mut self,
        now: Duration,
        of: PunchSocketUser,
        to: SocketAddrV4,
    ) -> Vec<u16> {
        let closes = now
            + match of {
                PunchSocketUser::Link(_) => UNUSED,
                PunchSocketUser::Meeting(_) => UNUSED_BY_MEETING,
            };
        let mut numbers = Vec::with_capacity(SEARCH_SOCKETS);
        for _ in 0..SEARCH_SOCKETS {
            let Ok(mut io) = Udp::bind(wildcard(to.into()), Oversize::Lose) else { break };
            let Some(number) = self.reaching.punching.free_number() else { break };
            let registered = self.polling.register(PollSource::Extra(number), |token, poll| {
                io.register(poll, token).map(|()| token)
            });
            let Ok(token) = registered else { break };
            let extra = PunchSocket { io, token, of, closes };
            self.reaching.punching.sockets.insert(number, extra);
            numbers.push(number);
        }
        tracing::debug!(sockets = numbers.len(), %to, "many sockets towards one address");
        numbers
    }

    /// An address of the endpoint as shown to users.
    fn seen_at(&self, to: SocketAddr) -> (FaceAddress, FaceUri) {
        if let Some(relay) = self.reaching.relay_at(to) {
            return (FaceAddress::Relayed(relay), FaceUri::Null);
        }
        if let Some((carrier, far, _)) =
            self.carriers.of_address(to).and_then(|id| self.carriers.ends(id))
        {
            return (FaceAddress::Carried(carrier, far), FaceUri::Carried(carrier, endpoint(far)));
        }
        let socket = socket_of(self.reaching.socket_prefix(), to);
        let to = socket.map_or(to, |(_, to)| to.into());
        (FaceAddress::Link(to), FaceUri::Xylem(endpoint(to)))
    }
}
