//! [`judge`]: how a node can be reached, from what is known of it: its interfaces' addresses, what others see it as,
//! what its router mapped, and whether a relay has it.
//!
//! It claims no more than what it was told shows: an address that others see as it is on the interface has no NAT before
//! it, and may still be behind a firewall; that is [`Way::Direct`] and not proven before somebody has come by it. Who
//! sees us may lie. A wrong word is then said of this node to its own user, and nothing else comes of it.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

mod standing;

pub use standing::{News, Standing};

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

/// Most observations that are looked at.
pub const MAX_SEEN: usize = 64;

/// What one observer said of the socket that links use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Who said so: its address and port.
    pub by: SocketAddr,
    /// As what it sees us.
    pub at: SocketAddr,
}

/// What is known of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtRelay {
    /// None was named.
    #[default]
    None,
    /// It was not heard of so far.
    Asked,
    /// It has us; UDP goes there and back.
    OverUdp,
    /// It has us, over TCP: UDP stayed silent.
    OverTcp,
    /// It does not have us.
    Failed,
}

/// What is known of a node.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Where it listens: its interfaces' addresses, with the port.
    pub own: Vec<SocketAddr>,
    /// As what others see it.
    pub seen: Vec<Seen>,
    /// What its router says that it maps.
    pub mapped: Option<SocketAddrV4>,
    /// The best that is known of its relays.
    pub relay: AtRelay,
    /// Where somebody says that it is reached (`--announce`). Nobody has checked it.
    pub announced: bool,
    /// Somebody from elsewhere came to its own address or mapped port without being asked.
    pub reached: bool,
}

/// How a node can be reached from anywhere, best last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// From this machine alone.
    Here,
    /// From networks that it is in itself.
    Lan,
    /// Through a relay alone: UDP does not leave this network.
    Relayed,
    /// By hole punching, where the other side's NAT keeps its ports; otherwise through the relay.
    PunchedOrRelayed,
    /// By hole punching; through the relay where that fails.
    Punched,
    /// As somebody has announced it.
    Announced,
    /// Directly, by a port that its router maps.
    Mapped,
    /// Directly, at its own address.
    Direct,
}

/// What stands between a node's sockets and the network, as far as observers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nat {
    /// Nobody from elsewhere has said anything.
    Unknown,
    /// Nothing: others see its own address.
    None,
    /// One, of which only one observer has told.
    Some,
    /// One that shows all observers the same port: others can be told of it (RFC 4787: endpoint-independent mapping).
    Cone,
    /// One that shows each observer another port.
    Symmetric,
}

/// What is known, put together. `Display` is a line for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// How it can be reached.
    pub way: Way,
    /// Whether somebody from elsewhere has come that way. A firewall may stand before what is not proven.
    pub proven: bool,
    /// Where, if that is one place.
    pub at: Option<SocketAddr>,
    /// Where that is an IPv6 address alone: how those reach it who have IPv4 only.
    pub over_ipv4: Option<Way>,
    /// Whether a relay has it.
    pub relay: bool,
    /// Whether one was named that does not have it.
    pub relay_silent: bool,
    /// What stands before it: over IPv4 or, where nobody told of that, over IPv6.
    pub nat: Nat,
    /// The router maps a port of an address that others do not see: another NAT is before it.
    pub second_nat: bool,
    /// The port at which it listens.
    pub port: u16,
}

/// How this node can be reached.
#[must_use]
pub fn judge(known: &Known) -> Reach {
    let [nat_v4, nat_v6] = [true, false].map(|v4| nat(known, v4));
    // An own address is believed where nobody of its family sees another.
    let direct = known.own.iter().copied().filter(|own| {
        let nat = if own.is_ipv4() { nat_v4 } else { nat_v6 };
        is_global(own.ip()) && matches!(nat, Nat::None | Nat::Unknown)
    });
    // IPv4 is what everybody has.
    let direct = direct.min_by_key(SocketAddr::is_ipv6);
    let (mapped, second_nat) = mapped(known);
    let relay = matches!(known.relay, AtRelay::OverUdp | AtRelay::OverTcp);
    let indirect = || match known.relay {
        _ if mapped.is_some() => Way::Mapped,
        _ if known.announced => Way::Announced,
        AtRelay::OverTcp => Way::Relayed,
        AtRelay::OverUdp if [nat_v4, nat_v6].contains(&Nat::Symmetric) => Way::PunchedOrRelayed,
        AtRelay::OverUdp => Way::Punched,
        _ if known.own.iter().all(|own| own.ip().is_loopback()) => Way::Here,
        _ => Way::Lan,
    };
    let way = if direct.is_some() { Way::Direct } else { indirect() };
    let has_ipv4 = known.own.iter().any(|own| own.is_ipv4() && !own.ip().is_loopback());
    let over_ipv4 = direct.filter(|at| at.is_ipv6() && has_ipv4).map(|_| indirect());
    Reach {
        way,
        proven: known.reached && way >= Way::Announced,
        at: direct.or(mapped.filter(|_| way == Way::Mapped)),
        over_ipv4,
        relay,
        relay_silent: matches!(known.relay, AtRelay::Asked | AtRelay::Failed),
        nat: if nat_v4 == Nat::Unknown { nat_v6 } else { nat_v4 },
        second_nat,
        port: known.own.first().map_or(0, SocketAddr::port),
    }
}

/// Observations of one family by those for whom it means something: on one LAN all see what is on the interface.
fn seen(known: &Known, v4: bool) -> impl Iterator<Item = &Seen> {
    let seen = known.seen.iter().take(MAX_SEEN);
    seen.filter(move |seen| seen.at.is_ipv4() == v4 && is_global(seen.at.ip()))
}

/// What observations of one family tell.
fn nat(known: &Known, v4: bool) -> Nat {
    let mut seen = seen(known, v4);
    let Some(first) = seen.next() else { return Nat::Unknown };
    let is_own = |seen: &Seen| known.own.contains(&seen.at);
    let mut nat = if is_own(first) { Nat::None } else { Nat::Some };
    for other in seen.filter(|other| other.by != first.by) {
        if nat == Nat::None && is_own(other) {
            continue;
        }
        // Two ways out, or a NAT of many addresses, come to the same: what one sees is not what the next one will.
        if other.at != first.at {
            return Nat::Symmetric;
        }
        nat = Nat::Cone;
    }
    nat
}

/// The mapped port, where it leads here as far as others tell; and whether it does not.
fn mapped(known: &Known) -> (Option<SocketAddr>, bool) {
    let Some(at) = known.mapped.map(SocketAddr::V4) else { return (None, false) };
    let mut seen = seen(known, true).peekable();
    let agreed = seen.peek().is_none() || seen.any(|seen| seen.at.ip() == at.ip());
    let leads_here = is_global(at.ip()) && agreed;
    (leads_here.then_some(at), !leads_here)
}

/// Whether an address means the same everywhere.
#[must_use]
pub fn is_global(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(v4) => {
            // RFC 6598: networks between a provider's NAT and those of its customers.
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

impl Reach {
    fn at(&self) -> String {
        self.at.map(|at| format!(" at {at}")).unwrap_or_default()
    }

    fn words(&self, way: Way) -> String {
        let relay = if self.relay { ", else through the relay" } else { "" };
        match way {
            Way::Direct if self.proven => format!("directly from anywhere{}", self.at()),
            Way::Direct => format!("directly{}, unless a firewall drops UDP{relay}", self.at()),
            Way::Mapped if self.proven => {
                format!("directly from anywhere by a mapped port{}", self.at())
            }
            Way::Mapped => format!("directly by the port that the router maps{}{relay}", self.at()),
            Way::Announced if self.proven => "directly, as announced".into(),
            Way::Announced => format!("as announced, which nobody has checked{relay}"),
            Way::Punched => "behind a NAT, by hole punching, else through the relay".into(),
            Way::PunchedOrRelayed => {
                "behind a NAT that gives each peer another port: by hole punching where the \
                                      other side's does not, else through the relay"
                    .into()
            }
            Way::Relayed => "through the relay only, as UDP to it stays silent".into(),
            Way::Lan if self.relay_silent => {
                "this LAN only, as the relay does not have us: is it on, and is its key right?"
                    .into()
            }
            Way::Lan => {
                format!("this LAN only: name a relay (--relay) or forward UDP {}", self.port)
            }
            Way::Here => "this machine only".into(),
        }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(self.way))?;
        match self.over_ipv4 {
            Some(way) => write!(f, "; over IPv4: {}", self.words(way)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Way {
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

impl fmt::Display for Nat {
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
