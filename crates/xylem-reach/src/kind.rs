//! [`judge`]: how a node can be reached, from its interfaces' addresses, the addresses that others observe, the port
//! that its router maps, and its relay registrations.
//!
//! It claims no more than the evidence shows. An observed address that is also an interface's has no NAT before it, but
//! a firewall may still drop packets. It is [`ReachWay::Direct`], and not proven until a peer has connected to it. Observers
//! may lie: the result is then wrong, but it is only reported to the node's own user.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

mod standing;

pub use standing::{ReachMonitor, RelayReport};

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

/// Maximum number of observations that are used.
pub const MAX_SEEN: usize = 64;

/// One observation of the socket that links use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressObservation {
    /// The observer's address and port.
    pub observer: SocketAddr,
    /// The address and port that it observes.
    pub at: SocketAddr,
}

/// State of the registration with a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RelayState {
    /// No relay is configured.
    #[default]
    None,
    /// The relay has not answered yet.
    Asked,
    /// Registered over UDP.
    OverUdp,
    /// Registered over TCP, because UDP got no answer.
    OverTcp,
    /// The registration failed.
    Failed,
}

/// Everything known about a node's reachability.
#[derive(Clone, Debug, Default)]
pub struct ReachEvidence {
    /// Addresses of the interfaces that it listens on, with the port.
    pub own: Vec<SocketAddr>,
    /// The observations of others.
    pub seen: Vec<AddressObservation>,
    /// The address and port that its router claims to map.
    pub mapped: Option<SocketAddrV4>,
    /// The best state among its relays.
    pub relay: RelayState,
    /// The user announced an address (`--announce`). It is not checked.
    pub announced: bool,
    /// A peer from another network has connected, unasked, to its own address or mapped port.
    pub reached: bool,
}

/// How a node can be reached from anywhere, best last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReachWay {
    /// From this machine only.
    Here,
    /// From its own networks only.
    Lan,
    /// Only through a relay: UDP does not leave this network.
    Relayed,
    /// By hole punching if the other side's NAT keeps its ports, otherwise through the relay.
    PunchedOrRelayed,
    /// By hole punching, or through the relay if that fails.
    Punched,
    /// At an address that the user has announced.
    Announced,
    /// Directly, at a port that its router maps.
    Mapped,
    /// Directly, at its own address.
    Direct,
}

/// The NAT between a node's sockets and the network, as observers show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatKind {
    /// No observation from outside exists.
    Unknown,
    /// No NAT: observers see its own address.
    None,
    /// A NAT that only one observer has seen.
    Some,
    /// A NAT that shows all observers the same port, so peers can be sent that address (RFC 4787: endpoint-independent
    /// mapping).
    Cone,
    /// A NAT that shows each observer another port.
    Symmetric,
}

/// The result of [`judge`]. `Display` gives one line for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reachability {
    /// How the node can be reached.
    pub way: ReachWay,
    /// Whether a peer from another network has connected that way. Before that a firewall may block it.
    pub proven: bool,
    /// The address, if there is one.
    pub at: Option<SocketAddr>,
    /// If `at` is an IPv6 address: how peers with IPv4 only reach the node.
    pub over_ipv4: Option<ReachWay>,
    /// Whether a relay has its registration.
    pub relay: bool,
    /// Whether a relay is configured that does not have its registration.
    pub relay_silent: bool,
    /// The NAT for IPv4 or, without IPv4 observations, for IPv6.
    pub nat: NatKind,
    /// The router maps a port at an address that observers do not see, so another NAT is before it.
    pub second_nat: bool,
    /// The port at which the node listens.
    pub port: u16,
}

/// Judges how this node can be reached.
#[must_use]
pub fn judge(known: &ReachEvidence) -> Reachability {
    let [nat_v4, nat_v6] = [true, false].map(|v4| nat(known, v4));
    // An own address counts as reachable unless an observer of its family sees another address.
    let direct = known.own.iter().copied().filter(|own| {
        let nat = if own.is_ipv4() { nat_v4 } else { nat_v6 };
        is_global(own.ip()) && matches!(nat, NatKind::None | NatKind::Unknown)
    });
    // Prefer IPv4, which all peers have.
    let direct = direct.min_by_key(SocketAddr::is_ipv6);
    let (mapped, second_nat) = mapped(known);
    let relay = matches!(known.relay, RelayState::OverUdp | RelayState::OverTcp);
    let indirect = || match known.relay {
        _ if mapped.is_some() => ReachWay::Mapped,
        _ if known.announced => ReachWay::Announced,
        RelayState::OverTcp => ReachWay::Relayed,
        RelayState::OverUdp if [nat_v4, nat_v6].contains(&NatKind::Symmetric) => {
            ReachWay::PunchedOrRelayed
        }
        RelayState::OverUdp => ReachWay::Punched,
        _ if known.own.iter().all(|own| own.ip().is_loopback()) => ReachWay::Here,
        _ => ReachWay::Lan,
    };
    let way = if direct.is_some() { ReachWay::Direct } else { indirect() };
    let has_ipv4 = known.own.iter().any(|own| own.is_ipv4() && !own.ip().is_loopback());
    let over_ipv4 = direct.filter(|at| at.is_ipv6() && has_ipv4).map(|_| indirect());
    Reachability {
        way,
        proven: known.reached && way >= ReachWay::Announced,
        at: direct.or(mapped.filter(|_| way == ReachWay::Mapped)),
        over_ipv4,
        relay,
        relay_silent: matches!(known.relay, RelayState::Asked | RelayState::Failed),
        nat: if nat_v4 == NatKind::Unknown { nat_v6 } else { nat_v4 },
        second_nat,
        port: known.own.first().map_or(0, SocketAddr::port),
    }
}

/// The observations of one address family that show a global address. Peers on the same LAN see only the interface's
/// address.
fn seen(known: &ReachEvidence, v4: bool) -> impl Iterator<Item = &AddressObservation> {
    let seen = known.seen.iter().take(MAX_SEEN);
    seen.filter(move |seen| seen.at.is_ipv4() == v4 && is_global(seen.at.ip()))
}

/// The NAT that the observations of one address family show.
fn nat(known: &ReachEvidence, v4: bool) -> NatKind {
    let mut seen = seen(known, v4);
    let Some(first) = seen.next() else { return NatKind::Unknown };
    let is_own = |seen: &AddressObservation| known.own.contains(&seen.at);
    let mut nat = if is_own(first) { NatKind::None } else { NatKind::Some };
    for other in seen.filter(|other| other.observer != first.observer) {
        if nat == NatKind::None && is_own(other) {
            continue;
        }
        // Two uplinks, or a NAT with several addresses, have the same effect: the next observer sees something else.
        if other.at != first.at {
            return NatKind::Symmetric;
        }
        nat = NatKind::Cone;
    }
    nat
}

/// The mapped port if it leads here, as far as observers show, and whether it does not.
fn mapped(known: &ReachEvidence) -> (Option<SocketAddr>, bool) {
    let Some(at) = known.mapped.map(SocketAddr::V4) else { return (None, false) };
    let mut seen = seen(known, true).peekable();
    let agreed = seen.peek().is_none() || seen.any(|seen| seen.at.ip() == at.ip());
    let leads_here = is_global(at.ip()) && agreed;
    (leads_here.then_some(at), !leads_here)
}

/// Whether an address means the same in every network.
#[must_use]
pub fn is_global(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(v4) => {
            // RFC 6598: the network between a provider's NAT and its customers' NATs.
            let shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
            let own = v4.is_private() || v4.is_loopback() || v4.is_link_local() || shared;
            !(own || v4.is_unspecified() || v4.is_multicast() || v4 == Ipv4Addr::BROADCAST)
        }
        IpAddr::V6(v6) => {
            let own = v6.is_unique_local() || v6.is_loopback() || v6.is_unicast_link_local();
            !(own || v6.is_unspecified() || v6.is_multicast())
        }
    }
}

impl Reachability {
    fn at(&self) -> String {
        self.at.map(|at| format!(" at {at}")).unwrap_or_default()
    }

    fn words(&self, way: ReachWay) -> String {
        let relay = if self.relay { ", else through the relay" } else { "" };
        match way {
            ReachWay::Direct if self.proven => format!("directly from anywhere{}", self.at()),
            ReachWay::Direct => {
                format!("directly{}, unless a firewall drops UDP{relay}", self.at())
            }
            ReachWay::Mapped if self.proven => {
                format!("directly from anywhere by a mapped port{}", self.at())
            }
            ReachWay::Mapped => {
                format!("directly by the port that the router maps{}{relay}", self.at())
            }
            ReachWay::Announced if self.proven => "directly, as announced".into(),
            ReachWay::Announced => format!("as announced, unchecked{relay}"),
            ReachWay::Punched => "behind a NAT, by hole punching, else through the relay".into(),
            ReachWay::PunchedOrRelayed => {
                "behind a NAT that gives each peer another port: by hole punching where the \
                                      other side's does not, else through the relay"
                    .into()
            }
            ReachWay::Relayed => "through the relay only, as UDP to it gets no answer".into(),
            ReachWay::Lan if self.relay_silent => {
                "this LAN only, as the relay has not registered this machine: is it on, and is its key right?"
                    .into()
            }
            ReachWay::Lan => {
                format!("this LAN only: name a relay (--relay) or forward UDP {}", self.port)
            }
            ReachWay::Here => "this machine only".into(),
        }
    }
}

impl fmt::Display for Reachability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(self.way))?;
        match self.over_ipv4 {
            Some(way) => write!(f, "; over IPv4: {}", self.words(way)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ReachWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Here => "here",
            Self::Lan => "lan",
            Self::Relayed => "relayed",
            Self::PunchedOrRelayed => "punched_or_relayed",
            Self::Punched => "punched",
            Self::Announced => "announced",
            Self::Mapped => "mapped",
            Self::Direct => "direct",
        })
    }
}

impl fmt::Display for NatKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::None => "none",
            Self::Some => "some",
            Self::Cone => "cone",
            Self::Symmetric => "symmetric",
        })
    }
}

#[cfg(test)]
mod tests;
