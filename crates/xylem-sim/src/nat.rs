//! Network address translators (NATs) and the networks behind them.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeMap;

use crate::Rng;

/// How a NAT chooses the outside port for an inside address (RFC 4787 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingBehaviour {
    /// One port for all destinations.
    Independent,
    /// A port for each destination, drawn at random.
    PerDestination,
}

/// Which datagrams a NAT lets in to a mapped port (RFC 4787 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilteringBehaviour {
    /// All datagrams.
    None,
    /// Datagrams from addresses to which the inside has sent.
    Address,
    /// Datagrams from addresses and ports to which the inside has sent.
    AddressAndPort,
}

/// How a NAT behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatBehaviour {
    /// How outgoing datagrams are mapped to ports.
    pub mapping: MappingBehaviour,
    /// Which incoming datagrams are let in.
    pub filter: FilteringBehaviour,
    /// A mapping and its filter's entries expire after this time without an outgoing datagram.
    pub timeout: Duration,
    /// Whether a datagram from inside to the NAT's own outside address is let in again.
    pub hairpin: bool,
}

impl NatBehaviour {
    /// Lets in datagrams from any address.
    pub const FULL_CONE: Self = Self {
        mapping: MappingBehaviour::Independent,
        filter: FilteringBehaviour::None,
        timeout: Duration::from_secs(120),
        hairpin: false,
    };
    /// Lets in datagrams from addresses to which the inside has sent.
    pub const ADDRESS_RESTRICTED: Self =
        Self { filter: FilteringBehaviour::Address, ..Self::FULL_CONE };
    /// Lets in datagrams from addresses and ports to which the inside has sent.
    pub const PORT_RESTRICTED: Self =
        Self { filter: FilteringBehaviour::AddressAndPort, ..Self::FULL_CONE };
    /// As port-restricted, with another outside port for each destination.
    pub const SYMMETRIC: Self =
        Self { mapping: MappingBehaviour::PerDestination, ..Self::PORT_RESTRICTED };
}

/// A network: the public one, or the inside of a NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Realm(usize);

impl Realm {
    /// The public network.
    pub const PUBLIC: Self = Self(0);
}

/// One address translator.
#[derive(Debug)]
struct SimulatedNat {
    behaviour: NatBehaviour,
    inside: Realm,
    outside: Realm,
    public: IpAddr,
    rng: Rng,
    /// By outside port.
    mappings: BTreeMap<u16, MappedPort>,
}

#[derive(Debug)]
struct MappedPort {
    inside: SocketAddr,
    /// The destinations, each with the time of the last datagram to it.
    sent: BTreeMap<SocketAddr, Duration>,
}

impl MappedPort {
    fn is_alive(&self, now: Duration, timeout: Duration) -> bool {
        self.sent.values().any(|at| now < *at + timeout)
    }
}

impl SimulatedNat {
    /// Maps an outgoing datagram. Returns its source address as the outside sees it.
    fn map_outgoing(&mut self, now: Duration, from: SocketAddr, to: SocketAddr) -> SocketAddr {
        let NatBehaviour { mapping, timeout, .. } = self.behaviour;
        self.mappings.retain(|_, mapped| mapped.is_alive(now, timeout));
        let same = |mapped: &MappedPort| {
            let destination =
                mapping == MappingBehaviour::Independent || mapped.sent.contains_key(&to);
            mapped.inside == from && destination
        };
        let known = self.mappings.iter().find(|(_, mapped)| same(mapped)).map(|(port, _)| *port);
        let port = known.unwrap_or_else(|| self.free_port());
        let new = || MappedPort { inside: from, sent: BTreeMap::new() };
        self.mappings.entry(port).or_insert_with(new).sent.insert(to, now);
        SocketAddr::new(self.public, port)
    }

    fn free_port(&mut self) -> u16 {
        loop {
            let port = 1_024 + self.rng.below(64_512) as u16;
            if !self.mappings.contains_key(&port) {
                return port;
            }
        }
    }

    /// Returns the inside address for a datagram to a port of the NAT, if it is let in.
    fn map_incoming(&self, now: Duration, from: SocketAddr, port: u16) -> Option<SocketAddr> {
        let NatBehaviour { filter, timeout, .. } = self.behaviour;
        let mapped = self.mappings.get(&port).filter(|mapped| mapped.is_alive(now, timeout))?;
        let let_in =
            mapped.sent.iter().filter(|(_, at)| now < **at + timeout).any(|(to, _)| match filter {
                FilteringBehaviour::None => true,
                FilteringBehaviour::Address => to.ip() == from.ip(),
                FilteringBehaviour::AddressAndPort => *to == from,
            });
        let_in.then_some(mapped.inside)
    }
}

/// A datagram at its receiver, after all NATs on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The source address that the receiver sees.
    pub from: SocketAddr,
    /// The receiver's own address.
    pub to: SocketAddr,
    /// The receiver's network.
    pub realm: Realm,
}

/// Hosts and the NATs between them: none, nested, or side by side.
///
/// It handles addresses only. The caller of [`send`](Self::send) delays and loses what arrives, by a
/// [`Path`](crate::Path).
#[derive(Debug, Default)]
pub struct Internet {
    nats: Vec<SimulatedNat>,
    hosts: Vec<(Realm, IpAddr)>,
}

impl Internet {
    /// Puts a NAT between `outside`, where it has the address `public`, and a new network.
    pub fn add_nat(
        &mut self,
        outside: Realm,
        public: IpAddr,
        behaviour: NatBehaviour,
        seed: u64,
    ) -> Realm {
        let inside = Realm(self.nats.len() + 1);
        let (rng, mappings) = (Rng::new(seed), BTreeMap::new());
        self.nats.push(SimulatedNat { behaviour, inside, outside, public, rng, mappings });
        inside
    }

    /// Puts a host into a network.
    pub fn add_host(&mut self, realm: Realm, ip: IpAddr) {
        self.hosts.push((realm, ip));
    }

    /// Clears all mappings of this network's NAT, as a loss of power does.
    pub fn reboot(&mut self, inside: Realm) {
        self.nats
            .iter_mut()
            .filter(|nat| nat.inside == inside)
            .for_each(|nat| nat.mappings.clear());
    }

    /// Sends a datagram from a host of `realm`. Returns `None` if it reaches no host.
    pub fn send(
        &mut self,
        now: Duration,
        mut realm: Realm,
        mut from: SocketAddr,
        mut to: SocketAddr,
    ) -> Option<Arrival> {
        let mut left = None;
        loop {
            if self.hosts.contains(&(realm, to.ip())) {
                return Some(Arrival { from, to, realm });
            }
            let owns = |nat: &&SimulatedNat| nat.outside == realm && nat.public == to.ip();
            if let Some(nat) = self.nats.iter().find(owns) {
                if left == Some(nat.inside) && !nat.behaviour.hairpin {
                    return None;
                }
                (to, realm) = (nat.map_incoming(now, from, to.port())?, nat.inside);
                continue;
            }
            let nat = self.nats.iter_mut().find(|nat| nat.inside == realm)?;
            from = nat.map_outgoing(now, from, to);
            (left, realm) = (Some(nat.inside), nat.outside);
        }
    }
}

#[cfg(test)]
mod tests;
