//! Which addresses of foreign datagrams are used, and their compact form (BEP 5, BEP 32).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use xylem_reach::kind::is_global;

use crate::id::{DhtId, ID_LEN};

/// Which addresses may be sent to or reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressScope {
    /// Addresses of the internet.
    Global,
    /// Any unicast address: the network was entered by private or loopback addresses alone.
    Local,
}

impl AddressScope {
    /// The scope of a network that is entered here.
    pub(crate) fn of(entered_at: &[SocketAddr]) -> Self {
        let local = !entered_at.is_empty() && !entered_at.iter().any(|at| is_global(at.ip()));
        if local { Self::Local } else { Self::Global }
    }

    pub(crate) fn admits(self, at: SocketAddr) -> bool {
        let ip = at.ip().to_canonical();
        let unicast = match ip {
            IpAddr::V4(ip) => {
                ip != Ipv4Addr::BROADCAST && !ip.is_multicast() && ip.octets()[0] != 0
            }
            IpAddr::V6(ip) => !ip.is_multicast() && !ip.is_unspecified(),
        };
        at.port() != 0 && unicast && (self == Self::Local || is_global(ip))
    }
}

/// What one attacker has cheaply: an IPv4 address, a /64 of IPv6. In a local network, where many nodes share one
/// address, an address with its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    V4(Ipv4Addr),
    V6([u8; 8]),
    Port(SocketAddr),
}

impl Host {
    pub(crate) fn of(at: SocketAddr, scope: AddressScope) -> Self {
        match (scope, at.ip().to_canonical()) {
            (AddressScope::Local, _) => Self::Port(at),
            (AddressScope::Global, IpAddr::V4(ip)) => Self::V4(ip),
            (AddressScope::Global, IpAddr::V6(ip)) => {
                let mut network = [0; 8];
                network.copy_from_slice(&ip.octets()[..8]);
                Self::V6(network)
            }
        }
    }
}

/// The address as the sockets of both families name it: IPv4 addresses mapped into IPv6 are IPv4 addresses.
pub(crate) fn canonical(at: SocketAddr) -> SocketAddr {
    SocketAddr::new(at.ip().to_canonical(), at.port())
}

/// An address and port in 6 or 18 bytes.
pub(crate) fn compact_address(bytes: &[u8]) -> Option<SocketAddr> {
    let (ip, port) = bytes.split_last_chunk::<2>()?;
    let ip = match ip.len() {
        4 => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(ip).ok()?)),
        16 => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(ip).ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*port)))
}

/// The nodes of `nodes` (26 bytes each) or `nodes6` (38); none if the length is wrong. IPv4 addresses mapped into IPv6
/// are dropped, as the sockets of that family do not reach them.
pub(crate) fn compact_nodes(bytes: &[u8], v6: bool) -> impl Iterator<Item = (DhtId, SocketAddr)> {
    let each = if v6 { ID_LEN + 18 } else { ID_LEN + 6 };
    let whole = if bytes.len().is_multiple_of(each) { bytes } else { &[] };
    whole.chunks_exact(each).filter_map(move |node| {
        let (id, at) = node.split_first_chunk::<ID_LEN>()?;
        let at = compact_address(at)?;
        (canonical(at).is_ipv6() == v6).then_some((DhtId(*id), at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unicast_addresses_of_the_network_are_admitted() {
        let global =
            AddressScope::of(&["127.0.0.1:1".parse().unwrap(), "8.8.8.8:1".parse().unwrap()]);
        assert_eq!((global, AddressScope::of(&[])), (AddressScope::Global, AddressScope::Global));
        let local =
            AddressScope::of(&["127.0.0.1:1".parse().unwrap(), "[fd00::1]:1".parse().unwrap()]);
        assert_eq!(local, AddressScope::Local);
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        for never in
            ["8.8.8.8:0", "0.1.2.3:5", "224.0.0.1:5", "255.255.255.255:5", "[::]:5", "[ff02::1]:5"]
        {
            assert!(!global.admits(at(never)) && !local.admits(at(never)), "{never}");
        }
        for inner in
            ["127.0.0.1:5", "10.0.0.1:5", "[fe80::1]:5", "[fd00::1]:5", "[::ffff:10.0.0.1]:5"]
        {
            assert!(!global.admits(at(inner)) && local.admits(at(inner)), "{inner}");
        }
        assert!(global.admits(at("8.8.8.8:5")) && global.admits(at("[2a00::1]:5")));
    }

    #[test]
    fn lists_of_nodes_with_a_wrong_length_are_empty() {
        let one = [&[7; 20][..], &[8, 8, 8, 8, 0, 5]].concat();
        let nodes: Vec<_> = compact_nodes(&one, false).collect();
        assert_eq!(nodes, [(DhtId([7; 20]), "8.8.8.8:5".parse().unwrap())]);
        assert_eq!(compact_nodes(&one[1..], false).count(), 0);
        assert_eq!(compact_nodes(&[0; 38], true).count(), 1);
        assert_eq!(compact_address(&[0; 7]), None);
    }
}
