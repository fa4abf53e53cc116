//! [`PortSearch`]: many ports at once, where one of the two sides has a NAT that gives each destination another port.
//!
//! That side opens many sockets, each of which sends to the other's listed address. The other side sends to many ports of
//! its host, drawn at random. With 256 sockets and 1,024 of 64,512 ports two of them meet in 98 of 100 tries.
//!
//! A search sends a host far more than a listed address gets, so a host is searched only if several nodes of the DHT, in
//! networks of their own, list it. An honest node lists only addresses that have asked it for that themselves (BEP 5's
//! token). There is one search for a code.

use core::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use core::time::Duration;
use std::collections::VecDeque;

use xylem_hash::{Hasher, OutputReader};

use super::PunchWay;

/// Sockets that a side with a symmetric NAT opens.
pub const SEARCH_SOCKETS: usize = 256;
/// Ports to which the other side sends.
pub const SEARCH_PORTS: usize = 1_024;
/// Lowest of them.
const FIRST_PORT: u16 = 1_024;
/// Nodes in networks of their own that have to list a host before it is searched.
pub(super) const SEARCH_NODES: usize = 3;
/// Time from there until the search begins: most peers are reached before.
pub(super) const SEARCH_AFTER: Duration = Duration::from_millis(1_500);
/// Datagrams of one step, and the time between two steps: 1,600 a second.
const AT_ONCE: usize = 16;
const STEP: Duration = Duration::from_millis(10);
/// How often each socket sends. A datagram of the first time may arrive before the other side has sent one there.
const ROUNDS: usize = 2;
/// Most hosts, and nodes and ports of one, that are remembered.
const MAX_HOSTS: usize = 64;
const MAX_NODES: usize = 8;
const MAX_PORTS: usize = 16;

/// The network of a node: the first 24 bits of an IPv4 address, the first 32 of an IPv6 address, as anybody gets several /48.
type NodeNetwork = [u8; 4];

#[derive(Debug)]
struct ListedHost {
    ip: Ipv4Addr,
    nodes: Vec<NodeNetwork>,
    /// Its ports, and the networks whose nodes list each.
    ports: Vec<(u16, Vec<NodeNetwork>)>,
    /// When enough nodes listed it.
    sure: Option<Duration>,
}

impl ListedHost {
    /// The port that most nodes list.
    fn port(&self) -> Option<u16> {
        self.ports.iter().max_by_key(|(_, nodes)| nodes.len()).map(|(port, _)| *port)
    }

    /// Whether its NAT gives each node another port: no two nodes list the same.
    fn is_symmetric(&self) -> bool {
        self.ports.len() >= 2 && self.ports.iter().all(|(_, nodes)| nodes.len() < SEARCH_NODES)
    }
}

/// A step of a search.
pub(super) enum SearchStep {
    /// It begins at this host.
    Begins(Ipv4Addr),
    /// A datagram is to be sent.
    Send(PunchWay),
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct PortSearch {
    /// This side's NAT, as far as known.
    pub(super) symmetric: Option<bool>,
    hosts: Vec<ListedHost>,
    /// Whether the one search has begun.
    begun: bool,
    /// Where our sockets send to.
    towards: Option<SocketAddrV4>,
    queue: VecDeque<PunchWay>,
    step_at: Duration,
}

impl PortSearch {
    /// A node lists an address.
    pub(super) fn listed(&mut self, now: Duration, at: SocketAddr, by: SocketAddr) {
        let (SocketAddr::V4(at), by) = (at, network(by)) else { return };
        let place = self.hosts.iter().position(|host| host.ip == *at.ip());
        if place.is_none() && self.hosts.len() >= MAX_HOSTS {
            // One node may list many hosts that nobody else does.
            let alone = self.hosts.iter().position(|host| host.nodes.len() < 2);
            alone.map(|place| self.hosts.remove(place));
        }
        if place.is_none() && self.hosts.len() < MAX_HOSTS {
            let (nodes, ports) = (Vec::new(), Vec::new());
            self.hosts.push(ListedHost { ip: *at.ip(), nodes, ports, sure: None });
        }
        let place = place.unwrap_or(self.hosts.len().saturating_sub(1));
        let Some(host) = self.hosts.get_mut(place).filter(|host| host.ip == *at.ip()) else {
            return;
        };
        if host.nodes.len() < MAX_NODES && !host.nodes.contains(&by) {
            host.nodes.push(by);
        }
        let has_room = host.ports.len() < MAX_PORTS;
        match host.ports.iter_mut().find(|(port, _)| *port == at.port()) {
            Some((_, nodes)) if nodes.len() < MAX_NODES && !nodes.contains(&by) => nodes.push(by),
            None if has_room => host.ports.push((at.port(), vec![by])),
            _ => {}
        }
        if host.nodes.len() >= SEARCH_NODES {
            host.sure = host.sure.or(Some(now));
        }
    }

    /// The host to search now, and the port that most nodes list, if this side's part of the search fits it.
    fn due(&self, now: Option<Duration>) -> Option<(Ipv4Addr, u16, Duration)> {
        let symmetric = self.symmetric.filter(|_| !self.begun)?;
        let fits = self.hosts.iter().filter(|host| host.is_symmetric() != symmetric);
        let fits = fits.filter_map(|host| {
            let at = host.sure?.saturating_add(SEARCH_AFTER);
            Some((host.ip, host.port()?, at))
        });
        fits.filter(|(.., at)| now.is_none_or(|now| now >= *at)).min_by_key(|(.., at)| *at)
    }

    /// Whether it has begun, or will.
    pub(super) fn is_of_use(&self) -> bool {
        self.begun || self.due(None).is_some()
    }

    /// See [`super::CodePunching::poll_sockets`].
    pub(super) fn poll_sockets(&mut self, now: Duration) -> Option<SocketAddrV4> {
        let (ip, port, _) = self.due(Some(now)).filter(|_| self.symmetric == Some(true))?;
        let to = SocketAddrV4::new(ip, port);
        (self.begun, self.towards) = (true, Some(to));
        Some(to)
    }

    /// See [`super::CodePunching::search_from`].
    pub(super) fn search_from(&mut self, now: Duration, sockets: impl Iterator<Item = u16>) {
        let Some(to) = self.towards.take() else { return };
        let all: Vec<u16> = sockets.take(SEARCH_SOCKETS).collect();
        for _ in 0..ROUNDS {
            let ways = all.iter().map(|number| PunchWay { at: to.into(), socket: Some(*number) });
            self.queue.extend(ways);
        }
        self.step_at = now;
    }

    /// The next step that is due.
    pub(super) fn poll(&mut self, now: Duration, draws: &mut OutputReader) -> Option<SearchStep> {
        if let Some((ip, ..)) = self.due(Some(now)).filter(|_| self.symmetric == Some(false)) {
            self.begun = true;
            let way = |port| PunchWay::from(SocketAddr::from((ip, port)));
            let mut seed = [0; 32];
            draws.fill(&mut seed);
            self.queue = draw_search_ports(&seed).into_iter().map(way).collect();
            self.step_at = now;
            return Some(SearchStep::Begins(ip));
        }
        if now < self.step_at {
            return None;
        }
        let way = self.queue.pop_front()?;
        if self.queue.len().is_multiple_of(AT_ONCE) {
            self.step_at = now.saturating_add(STEP);
        }
        Some(SearchStep::Send(way))
    }

    /// Sends nothing more: a way was found.
    pub(super) fn end(&mut self) {
        self.begun = true;
        self.queue.clear();
    }

    /// When something is due.
    pub(super) fn poll_timeout(&self, is_over: bool) -> Option<Duration> {
        if is_over {
            return None;
        }
        let step = (!self.queue.is_empty()).then_some(self.step_at);
        self.due(None).map(|(.., at)| at).into_iter().chain(step).min()
    }
}

fn network(node: SocketAddr) -> NodeNetwork {
    let mut network = NodeNetwork::default();
    match node.ip().to_canonical() {
        IpAddr::V4(ip) => network[..3].copy_from_slice(&ip.octets()[..3]),
        IpAddr::V6(ip) => network.copy_from_slice(&ip.octets()[..4]),
    }
    network
}

/// Distinct ports of a host for a search, [`SEARCH_PORTS`] from 1,024 up. `seed`: 32 random bytes.
#[must_use]
pub fn draw_search_ports(seed: &[u8; 32]) -> Vec<u16> {
    let mut draws = Hasher::new_derive_key("xylem-reach v1 ports of a search");
    let mut draws = draws.update(seed).finalize_xof();
    let mut ports = Vec::with_capacity(SEARCH_PORTS);
    let mut taken = vec![false; 1 << 16];
    while ports.len() < SEARCH_PORTS {
        let mut two = [0; 2];
        draws.fill(&mut two);
        let port = u16::from_be_bytes(two);
        let is_new = taken.get_mut(usize::from(port)).map(|it| !core::mem::replace(it, true));
        if port >= FIRST_PORT && is_new == Some(true) {
            ports.push(port);
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_different_and_enough() {
        let mut ports = draw_search_ports(&[1; 32]);
        assert!(ports.len() == SEARCH_PORTS && ports.iter().all(|port| *port >= FIRST_PORT));
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), SEARCH_PORTS);
    }
}
