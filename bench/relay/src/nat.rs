//! A box that translates addresses (a NAT), in the terms of RFC 4787: the outside port of a flow (mapping), the
//! strangers that may answer (filtering), the lifetime of mappings. Packets are changed in place. IPv6 is not
//! translated: there the box is a firewall that lets answers in (RFC 6092).
//!
//! TCP is treated like UDP, except that its mappings never expire. ICMP and fragments are dropped.

use core::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use core::time::Duration;
use std::collections::HashMap;

use serde::Deserialize;
use xylem_sim::Rng;

use crate::ip::{self, Ends, TCP, UDP};

/// Maximum number of mappings, and of remotes of each; further packets are dropped.
const MAX_MAPPINGS: usize = 65_536;
/// The first outside port.
const FIRST_PORT: u16 = 1_024;

/// Which remotes may use a mapping (RFC 4787, section 5).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Filter {
    /// All: "full cone", with a mapping that does not depend on the remote.
    None,
    /// Addresses to which the mapping has sent, from any port: "address-restricted".
    Address,
    /// Addresses and ports to which the mapping has sent: "port-restricted".
    Port,
}

/// The behaviour of a box.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Behaviour {
    /// Every remote sees another port: "symmetric".
    #[serde(default)]
    pub symmetric: bool,
    pub filter: Filter,
    /// Outside ports are random; otherwise the inside port is used while it is free.
    #[serde(default)]
    pub random: bool,
    /// Seconds without a packet from inside after which a UDP mapping, and a remote, expires.
    #[serde(default = "two_minutes")]
    pub forget: f64,
    /// Inside hosts reach each other by their outside addresses.
    #[serde(default)]
    pub hairpin: bool,
    /// UDP is dropped, both ways.
    #[serde(default)]
    pub no_udp: bool,
}

/// The minimum that RFC 4787 allows, in seconds.
fn two_minutes() -> f64 {
    120.0
}

/// The outside of a mapping: protocol and port.
type Outside = (u8, u16);
/// The key of a mapping: protocol, sender and, with a symmetric NAT, remote.
type Inside = (u8, SocketAddrV4, Option<SocketAddrV4>);

struct Mapping {
    inside: Inside,
    last: Duration,
    /// Time of the last packet to each remote.
    remotes: HashMap<SocketAddrV4, Duration>,
}

/// One box.
pub(crate) struct Nat {
    pub address: Ipv4Addr,
    pub behaviour: Behaviour,
    rng: Rng,
    ports: HashMap<Inside, u16>,
    mappings: HashMap<Outside, Mapping>,
    /// Flows of IPv6 that began inside: protocol, inside, remote.
    flows: HashMap<(u8, SocketAddr, SocketAddr), Duration>,
}

impl Nat {
    /// A box without mappings.
    pub(crate) fn new(address: Ipv4Addr, behaviour: Behaviour, seed: u64) -> Self {
        let (ports, mappings, flows) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { address, behaviour, rng: Rng::new(seed), ports, mappings, flows }
    }

    /// Drops all mappings; later ports are other ones.
    pub(crate) fn reboot(&mut self) {
        self.ports.clear();
        self.mappings.clear();
        self.flows.clear();
        self.behaviour.random = true;
    }

    /// Translates a packet from inside; returns whether it passes.
    pub(crate) fn outward(&mut self, now: Duration, packet: &mut [u8]) -> bool {
        let Some(ends) = self.passing(packet) else { return false };
        let (SocketAddr::V4(source), SocketAddr::V4(target)) = (ends.source, ends.target) else {
            let known = self.flows.len() < MAX_MAPPINGS;
            if known {
                self.flows.insert((ends.protocol, ends.source, ends.target), now);
            }
            return known;
        };
        let inside = (ends.protocol, source, self.behaviour.symmetric.then_some(target));
        let Some(port) = self.port(now, inside) else { return false };
        let mapping = self.mappings.get_mut(&(ends.protocol, port)).expect("port() made it");
        mapping.last = now;
        if mapping.remotes.len() < MAX_MAPPINGS {
            mapping.remotes.insert(target, now);
        }
        ip::set_source(packet, SocketAddrV4::new(self.address, port));
        true
    }

    /// Translates a packet for our address, or checks one for an IPv6 address inside; returns whether it passes.
    pub(crate) fn inward(&mut self, now: Duration, packet: &mut [u8]) -> bool {
        let Some(ends) = self.passing(packet) else { return false };
        let (SocketAddr::V4(source), SocketAddr::V4(target)) = (ends.source, ends.target) else {
            let flow = self.flows.get(&(ends.protocol, ends.target, ends.source));
            return flow.is_some_and(|last| self.remembers(ends.protocol, now, *last));
        };
        let Some(mapping) = self.mappings.get(&(ends.protocol, target.port())) else {
            return false;
        };
        let fresh = |last: Duration| self.remembers(ends.protocol, now, last);
        let allowed = match self.behaviour.filter {
            Filter::None => true,
            Filter::Port => mapping.remotes.get(&source).is_some_and(|last| fresh(*last)),
            Filter::Address => {
                mapping.remotes.iter().any(|(to, last)| to.ip() == source.ip() && fresh(*last))
            }
        };
        let passes = allowed && fresh(mapping.last);
        if passes {
            ip::set_target(packet, mapping.inside.1);
        }
        passes
    }

    /// The ends of a packet, if its kind passes at all.
    fn passing(&self, packet: &[u8]) -> Option<Ends> {
        ip::ends(packet).filter(|ends| ends.protocol != UDP || !self.behaviour.no_udp)
    }

    fn remembers(&self, protocol: u8, now: Duration, last: Duration) -> bool {
        protocol == TCP || now.saturating_sub(last).as_secs_f64() < self.behaviour.forget
    }

    /// The outside port of a flow; `None` if none is left.
    fn port(&mut self, now: Duration, inside: Inside) -> Option<u16> {
        let protocol = inside.0;
        if let Some(port) = self.ports.get(&inside).copied() {
            let last = self.mappings.get(&(protocol, port)).map(|mapping| mapping.last);
            if last.is_some_and(|last| self.remembers(protocol, now, last)) {
                return Some(port);
            }
            self.ports.remove(&inside);
            self.mappings.remove(&(protocol, port));
        }
        if self.mappings.len() >= MAX_MAPPINGS / 2 {
            return None;
        }
        let mut port = inside.1.port();
        while self.behaviour.random || self.mappings.contains_key(&(protocol, port)) {
            port = FIRST_PORT + self.rng.below(u64::from(u16::MAX - FIRST_PORT)) as u16;
            if !self.mappings.contains_key(&(protocol, port)) {
                break;
            }
        }
        let mapping = Mapping { inside, last: now, remotes: HashMap::new() };
        self.ports.insert(inside, port);
        self.mappings.insert((protocol, port), mapping);
        Some(port)
    }
}

/// Whether an address is the outside address of this box.
pub(crate) fn is(nat: &Nat, address: IpAddr) -> bool {
    IpAddr::V4(nat.address) == address
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::tests::{right, udp_between};

    const INSIDE: &str = "192.168.1.2:5000";
    const OUTSIDE: Ipv4Addr = Ipv4Addr::new(20, 0, 0, 1);
    const SECOND: Duration = Duration::from_secs(1);

    fn nat(symmetric: bool, filter: Filter) -> Nat {
        let behaviour = Behaviour {
            symmetric,
            filter,
            random: symmetric,
            forget: 30.0,
            hairpin: false,
            no_udp: false,
        };
        Nat::new(OUTSIDE, behaviour, 1)
    }

    /// The source of a packet from inside, as the remote receives it.
    fn out(nat: &mut Nat, now: Duration, to: &str) -> Option<SocketAddr> {
        let mut packet = udp_between(INSIDE, to);
        let passes = nat.outward(now, &mut packet);
        assert!(right(&packet));
        passes.then(|| ip::ends(&packet).unwrap().source)
    }

    /// Whether a packet of a remote to `to` reaches the inside.
    fn back(nat: &mut Nat, now: Duration, from: &str, to: SocketAddr) -> bool {
        let mut packet = udp_between(from, &to.to_string());
        let passes = nat.inward(now, &mut packet);
        assert!(right(&packet));
        assert!(!passes || ip::ends(&packet).unwrap().target == INSIDE.parse().unwrap());
        passes
    }

    #[test]
    fn only_remotes_that_the_filter_allows_may_answer() {
        let cases = [(Filter::None, [true; 3]), (Filter::Address, [true, true, false])];
        for (filter, expected) in cases.into_iter().chain([(Filter::Port, [true, false, false])]) {
            let mut nat = nat(false, filter);
            let seen = out(&mut nat, SECOND, "9.9.9.9:1").unwrap();
            assert_eq!(seen, "20.0.0.1:5000".parse().unwrap(), "the port is kept while it is free");
            let from = ["9.9.9.9:1", "9.9.9.9:2", "8.8.8.8:1"];
            let came = from.map(|from| back(&mut nat, SECOND, from, seen));
            assert_eq!(came, expected, "{filter:?}");
        }
    }

    #[test]
    fn a_symmetric_box_shows_every_remote_another_port() {
        let mut nat = nat(true, Filter::Port);
        let (one, two) = (out(&mut nat, SECOND, "9.9.9.9:1"), out(&mut nat, SECOND, "9.9.9.9:2"));
        assert!(one != two && out(&mut nat, SECOND, "9.9.9.9:1") == one);
        assert!(back(&mut nat, SECOND, "9.9.9.9:2", two.unwrap()));
        assert!(!back(&mut nat, SECOND, "9.9.9.9:1", two.unwrap()));
    }

    #[test]
    fn silence_and_a_reboot_are_forgotten() {
        let mut nat = nat(false, Filter::None);
        let seen = out(&mut nat, SECOND, "9.9.9.9:1").unwrap();
        assert!(back(&mut nat, 30 * SECOND, "9.9.9.9:1", seen));
        assert!(
            !back(&mut nat, 31 * SECOND, "9.9.9.9:1", seen),
            "inward packets keep nothing open"
        );
        assert_eq!(out(&mut nat, 40 * SECOND, "9.9.9.9:1"), Some(seen));
        nat.reboot();
        assert!(!back(&mut nat, 40 * SECOND, "9.9.9.9:1", seen));
        assert_ne!(out(&mut nat, 40 * SECOND, "9.9.9.9:1"), Some(seen));
    }

    #[test]
    fn two_inside_never_share_a_port_and_udp_may_be_dropped() {
        let mut nat = nat(false, Filter::Port);
        let mut seen: Vec<_> = (2..200)
            .map(|host| {
                let mut packet = udp_between(&format!("192.168.1.{host}:5000"), "9.9.9.9:1");
                assert!(nat.outward(SECOND, &mut packet));
                ip::ends(&packet).unwrap().source.port()
            })
            .collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 198);
        nat.behaviour.no_udp = true;
        assert_eq!(out(&mut nat, SECOND, "9.9.9.9:1"), None);
    }

    #[test]
    fn a_firewall_for_ipv6_lets_answers_in() {
        let mut nat = nat(false, Filter::None);
        let (inside, remote) = ("[2a00::1]:1", "[2a00::2]:2");
        assert!(!nat.inward(SECOND, &mut udp_between(remote, inside)));
        assert!(nat.outward(SECOND, &mut udp_between(inside, remote)));
        assert!(nat.inward(SECOND, &mut udp_between(remote, inside)));
        assert!(!nat.inward(SECOND, &mut udp_between("[2a00::2]:3", inside)));
        assert!(!nat.inward(SECOND, &mut []) && !nat.outward(SECOND, &mut [0x60; 47]));
    }
}
