//! Address translators, and the networks behind them.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeMap;

use crate::Rng;

/// Which port a NAT gives to what leaves an inside address (RFC 4787 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// One for all destinations.
    Independent,
    /// Another one for each destination, drawn at random.
    PerDestination,
}

/// Whose datagrams a NAT lets in to a mapped port (RFC 4787 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Everybody's.
    None,
    /// Those of addresses to which something went out from there.
    Address,
    /// Those of addresses and ports to which something went out from there.
    AddressAndPort,
}

/// How a NAT behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// Outgoing.
    pub mapping: Mapping,
    /// Incoming.
    pub filter: Filter,
    /// A mapping, and what its filter lets in, is forgotten so long after the last datagram that went out.
    pub timeout: Duration,
    /// Whether what comes from inside for its outside address is let in again.
    pub hairpin: bool,
}

impl Behaviour {
    /// Lets everybody in.
    pub const FULL_CONE: Self = Self {
        mapping: Mapping::Independent,
        filter: Filter::None,
        timeout: Duration::from_secs(120),
        hairpin: false,
    };
    /// Lets hosts in that were sent to.
    pub const ADDRESS_RESTRICTED: Self = Self { filter: Filter::Address, ..Self::FULL_CONE };
    /// Lets ports of hosts in that were sent to.
    pub const PORT_RESTRICTED: Self = Self { filter: Filter::AddressAndPort, ..Self::FULL_CONE };
    /// Another port towards each of them.
    pub const SYMMETRIC: Self = Self { mapping: Mapping::PerDestination, ..Self::PORT_RESTRICTED };
}

/// A network: the public one, or the inside of a NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Realm(usize);

impl Realm {
    /// Where everybody is reached who has an address there.
    pub const PUBLIC: Self = Self(0);
}

/// One address translator.
#[derive(Debug)]
struct Nat {
    behaviour: Behaviour,
    inside: Realm,
    outside: Realm,
    public: IpAddr,
    rng: Rng,
    /// By the port on the outside.
    mappings: BTreeMap<u16, Mapped>,
}

#[derive(Debug)]
struct Mapped {
    inside: SocketAddr,
    /// Where it was sent, and when last.
    sent: BTreeMap<SocketAddr, Duration>,
}

impl Mapped {
    fn is_alive(&self, now: Duration, timeout: Duration) -> bool {
        self.sent.values().any(|at| now < *at + timeout)
    }
}

impl Nat {
    /// A datagram leaves: where it seems to come from.
    fn leave(&mut self, now: Duration, from: SocketAddr, to: SocketAddr) -> SocketAddr {
        let Behaviour { mapping, timeout, .. } = self.behaviour;
        self.mappings.retain(|_, mapped| mapped.is_alive(now, timeout));
        let same = |mapped: &Mapped| {
            let destination = mapping == Mapping::Independent || mapped.sent.contains_key(&to);
            mapped.inside == from && destination
        };
        let known = self.mappings.iter().find(|(_, mapped)| same(mapped)).map(|(port, _)| *port);
        let port = known.unwrap_or_else(|| self.free_port());
        let new = || Mapped { inside: from, sent: BTreeMap::new() };
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

    /// A datagram for a port of the NAT: to whom inside it goes, if it is let in.
    fn enter(&self, now: Duration, from: SocketAddr, port: u16) -> Option<SocketAddr> {
        let Behaviour { filter, timeout, .. } = self.behaviour;
        let mapped = self.mappings.get(&port).filter(|mapped| mapped.is_alive(now, timeout))?;
        let let_in =
            mapped.sent.iter().filter(|(_, at)| now < **at + timeout).any(|(to, _)| match filter {
                Filter::None => true,
                Filter::Address => to.ip() == from.ip(),
                Filter::AddressAndPort => *to == from,
            });
        let_in.then_some(mapped.inside)
    }
}

/// A datagram that has come through all NATs on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Where its receiver sees it come from.
    pub from: SocketAddr,
    /// The receiver's own address.
    pub to: SocketAddr,
    /// The network that the receiver is in.
    pub realm: Realm,
}

/// Hosts, and NATs between them: in a row, next to each other, or none.
///
/// It knows addresses only: whoever [sends](Self::send) delays and loses what arrives by a
/// [`Path`](crate::Path).
#[derive(Debug, Default)]
pub struct Internet {
    nats: Vec<Nat>,
    hosts: Vec<(Realm, IpAddr)>,
}

impl Internet {
    /// Puts a NAT between `outside`, where it has the address `public`, and a new network.
    pub fn add_nat(
        &mut self,
        outside: Realm,
        public: IpAddr,
        behaviour: Behaviour,
        seed: u64,
    ) -> Realm {
        let inside = Realm(self.nats.len() + 1);
        let (rng, mappings) = (Rng::new(seed), BTreeMap::new());
        self.nats.push(Nat { behaviour, inside, outside, public, rng, mappings });
        inside
    }

    /// Puts a host into a network.
    pub fn add_host(&mut self, realm: Realm, ip: IpAddr) {
        self.hosts.push((realm, ip));
    }

    /// The NAT of this network forgets everything, as after losing its power.
    pub fn reboot(&mut self, inside: Realm) {
        self.nats
            .iter_mut()
            .filter(|nat| nat.inside == inside)
            .for_each(|nat| nat.mappings.clear());
    }

    /// A host of `realm` sends from one of its addresses. `None`: nobody gets it.
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
            let owns = |nat: &&Nat| nat.outside == realm && nat.public == to.ip();
            if let Some(nat) = self.nats.iter().find(owns) {
                if left == Some(nat.inside) && !nat.behaviour.hairpin {
                    return None;
                }
                (to, realm) = (nat.enter(now, from, to.port())?, nat.inside);
                continue;
            }
            let nat = self.nats.iter_mut().find(|nat| nat.inside == realm)?;
            from = nat.leave(now, from, to);
            (left, realm) = (Some(nat.inside), nat.outside);
        }
    }
}

#[cfg(test)]
mod tests;
