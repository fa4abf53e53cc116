//! Addresses of nodes: [`PeerUri`] as written, [`PeerAddress`] as dialled, [`FaceAddress`] as shown. [`choose`] selects the
//! addresses of this machine for a ticket, as an expert would from the list of its interfaces.
//!
//! The list, the source addresses of routes and resolved names come from the caller; nothing here queries the system.

pub mod nat64;
mod peer;
mod place;
mod redials;
mod relay;
mod starts;
mod taken;
mod uri;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;
use xylem_base::json;

pub use peer::{FaceAddress, KEYLESS, PeerAddress};
pub use place::{HostPort, HostPortError, LinkKeyError, ServerNameError, split_key, split_sni};
pub use redials::Redials;
pub use relay::{MAX_RELAYS, NamedRelay, Relay, RelayLimit, RelayUriError, RelayWays};
pub use starts::Starts;
pub use taken::{FetchWays, PeerWay, WayTaken};
pub use uri::{
    HostLookupError, LINK_PORT, LookUp, NDN_PORT, NotDiallable, PeerUri, PeerUriError,
    ResolveError, WEB_SOCKET_PORT, endpoint,
};

/// Most addresses in a ticket: each makes the text longer.
pub const MAX_NAMED: usize = 6;

/// Lowest port that is dialled on a peer's word. Lower ones are those of well-known services, which peers must not make
/// this program contact.
const FIRST_PORT: u16 = 1_024;

/// Prefixes of interface names that container and virtual machine software uses for networks internal to this machine.
const VIRTUAL: [&str; 16] = [
    "docker",
    "br-",
    "virbr",
    "veth",
    "lxcbr",
    "lxdbr",
    "incusbr",
    "podman",
    "cni",
    "flannel",
    "cali",
    "kube",
    "vmnet",
    "vboxnet",
    "vnet",
    "vEthernet",
];

/// An address of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    /// Its interface.
    pub interface: String,
    /// The address.
    pub ip: IpAddr,
    /// Whether the interface is up and has a carrier.
    pub up: bool,
}

impl OwnAddress {
    /// Whether its interface is, by its name, one of containers or virtual machines.
    pub fn is_virtual(&self) -> bool {
        VIRTUAL.iter().any(|name| self.interface.starts_with(name))
    }
}

/// Why an address is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsuited {
    /// It is valid on one cable alone, and this machine has others.
    LinkLocal,
    /// It belongs to containers or virtual machines.
    Virtual,
    /// Its interface is down.
    Down,
    /// It leads to this machine alone.
    Loopback,
    /// Enough addresses are named.
    Surplus,
}

impl fmt::Display for Unsuited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LinkLocal => "link-local",
            Self::Virtual => "a network of containers or virtual machines",
            Self::Down => "the interface is down",
            Self::Loopback => "this machine alone",
            Self::Surplus => "enough others are named",
        })
    }
}

/// An address that is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The address.
    #[serde(serialize_with = "json::text")]
    pub address: IpAddr,
    /// Its interface.
    pub interface: String,
    /// Why.
    #[serde(serialize_with = "json::text")]
    pub why: Unsuited,
}

/// Result of [`choose`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressChoice {
    /// The named addresses, most likely reachable first.
    pub named: Vec<OwnAddress>,
    /// The others.
    pub left_out: Vec<LeftOut>,
}

/// Chooses the addresses to name. Addresses of the interface with the default route (`routed`) come first, then public
/// ones, then private ones. If there is no other, loopback is named, and then the link-local ones: a neighbour on the
/// same cable dials those over each of its interfaces.
pub fn choose(mut all: Vec<OwnAddress>, routed: &[IpAddr]) -> AddressChoice {
    let is_routed = |own: &OwnAddress| routed.contains(&own.ip);
    all.sort_by_key(|own| (!is_routed(own), !is_public(own.ip)));
    let mut choice = AddressChoice::default();
    let mut near = Vec::new();
    for own in all {
        if is_link_local(own.ip) && own.up && !own.is_virtual() {
            near.push(own.ip);
        }
        let why = match own.ip {
            ip if ip.is_loopback() => Some(Unsuited::Loopback),
            _ if is_routed(&own) => None,
            ip if is_link_local(ip) => Some(Unsuited::LinkLocal),
            _ if own.is_virtual() => Some(Unsuited::Virtual),
            _ if !own.up => Some(Unsuited::Down),
            _ => None,
        };
        match why.or((choice.named.len() >= MAX_NAMED).then_some(Unsuited::Surplus)) {
            None => choice.named.push(own),
            Some(why) => {
                let OwnAddress { interface, ip: address, .. } = own;
                choice.left_out.push(LeftOut { address, interface, why });
            }
        }
    }
    if choice.named.is_empty() {
        near.truncate(MAX_NAMED);
        let is_here = |left: &LeftOut| left.why == Unsuited::Loopback;
        let is_named = |left: &LeftOut| is_here(left) || near.contains(&left.address);
        let (mut named, others): (Vec<_>, _) = choice.left_out.into_iter().partition(is_named);
        named.sort_by_key(|left| !is_here(left));
        let own =
            |left: LeftOut| OwnAddress { interface: left.interface, ip: left.address, up: true };
        choice = AddressChoice { named: named.into_iter().map(own).collect(), left_out: others };
    }
    choice
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// Returns whether an address is globally unique.
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => !(v4.is_private() || v4.is_loopback() || v4.is_link_local()),
        IpAddr::V6(v6) => !(v6.is_unique_local() || v6.is_loopback() || v6.is_unicast_link_local()),
    }
}

/// Returns whether an address from a peer or network may be dialled. `near`: its source is on this machine, and may
/// name addresses useless to others. A link-local address needs its interface, which no peer can name; addresses found
/// on the LAN have it. (Those of a ticket are dialled over each interface: the user has asked for its peers.)
pub fn may_be_dialled(address: &SocketAddr, near: bool) -> bool {
    let ip = address.ip().to_canonical();
    let on_interface = matches!(address, SocketAddr::V6(at) if at.scope_id() != 0);
    let none = match ip {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.octets()[0] == 0,
        IpAddr::V6(v6) => v6.is_unicast_link_local() && !on_interface,
    };
    let loopback = ip.is_loopback() && !near;
    address.port() >= FIRST_PORT && !(none || loopback || ip.is_unspecified() || ip.is_multicast())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(text: &str) -> OwnAddress {
        let (interface, ip) = text.split_once(' ').unwrap();
        OwnAddress { interface: interface.into(), ip: ip.parse().unwrap(), up: true }
    }

    fn named(all: &[&str], routed: &[&str]) -> (Vec<String>, Vec<(String, Unsuited)>) {
        let routed: Vec<IpAddr> = routed.iter().map(|ip| ip.parse().unwrap()).collect();
        let choice = choose(all.iter().copied().map(own).collect(), &routed);
        (
            choice.named.iter().map(|own| own.ip.to_string()).collect(),
            choice.left_out.iter().map(|left| (left.interface.clone(), left.why)).collect(),
        )
    }

    #[test]
    fn a_laptop_with_docker_and_virtual_machines_names_its_network() {
        let all = [
            "lo 127.0.0.1",
            "docker0 172.17.0.1",
            "br-0a1b2c3d4e5f 172.18.0.1",
            "virbr0 192.168.122.1",
            "veth12 fe80::1",
            "vboxnet0 192.168.56.1",
            "wg0 10.8.0.2",
            "wlan0 192.168.1.23",
            "wlan0 fd00::2",
            "wlan0 2001:db8::2",
            "wlan0 fe80::2",
            "lo ::1",
        ];
        let (named, left) = named(&all, &["192.168.1.23", "2001:db8::2"]);
        assert_eq!(named, ["2001:db8::2", "192.168.1.23", "10.8.0.2", "fd00::2"]);
        let of = |name: &str| left.iter().find(|(interface, _)| interface == name).unwrap().1;
        assert_eq!((of("lo"), of("docker0")), (Unsuited::Loopback, Unsuited::Virtual));
        assert_eq!((of("wlan0"), of("veth12")), (Unsuited::LinkLocal, Unsuited::LinkLocal));
        assert_eq!(left.len(), 8);
    }

    /// An interface name proves little: peers reach this machine over the default route.
    #[test]
    fn a_bridge_with_the_default_route_is_named() {
        let all = ["br-lan 192.168.1.2", "docker0 172.17.0.2"];
        assert_eq!(named(&all, &["192.168.1.2"]).0, ["192.168.1.2"]);
        assert_eq!(named(&["docker0 172.17.0.2"], &["172.17.0.2"]).0, ["172.17.0.2"]);
    }

    #[test]
    fn loopback_is_named_where_nothing_else_is() {
        let (here, left) = named(&["lo 127.0.0.1", "docker0 172.17.0.1", "lo ::1"], &[]);
        assert_eq!(here, ["127.0.0.1", "::1"]);
        assert_eq!(left, [("docker0".to_owned(), Unsuited::Virtual)]);
        assert_eq!(named(&[], &[]), (vec![], vec![]));
    }

    #[test]
    fn link_local_addresses_are_named_where_nothing_else_is() {
        let all = ["eth0 fe80::2", "lo 127.0.0.1", "veth12 fe80::1", "usb0 169.254.7.7", "lo ::1"];
        let (near, left) = named(&all, &[]);
        assert_eq!(near, ["127.0.0.1", "::1", "fe80::2", "169.254.7.7"]);
        assert_eq!(left, [("veth12".to_owned(), Unsuited::LinkLocal)]);
        assert_eq!(named(&["eth0 fe80::2", "eth1 10.0.0.1", "lo ::1"], &[]).0, ["10.0.0.1"]);
    }

    #[test]
    fn a_ticket_names_a_limited_number_of_addresses() {
        let many: Vec<String> = (1..=20).map(|i| format!("eth0 10.0.0.{i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let (first, left) = named(&many, &["10.0.0.20"]);
        assert_eq!((first.len(), left.len()), (MAX_NAMED, 20 - MAX_NAMED));
        assert_eq!(first[0], "10.0.0.20");
        assert!(left.iter().all(|(_, why)| *why == Unsuited::Surplus));
    }

    #[test]
    fn an_interface_without_a_cable_is_left_out() {
        let mut down = own("eth1 10.0.0.1");
        down.up = false;
        let choice = choose(vec![down, own("eth0 10.0.0.2")], &[]);
        assert_eq!(choice.named[0].interface, "eth0");
        assert_eq!(choice.left_out[0].why, Unsuited::Down);
    }
}
