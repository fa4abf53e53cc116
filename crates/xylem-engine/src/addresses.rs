//! The addresses of this machine that are announced to peers: those of the interfaces, where it listens on all of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use if_addrs::get_if_addrs;
use xylem_peers::reachable::{AddressChoice, OwnAddress, choose};

/// Most interfaces over which one link-local address is dialled.
const MAX_CABLES: usize = 4;

/// Like [`offered`], the addresses alone.
pub fn advertised(bound: &[SocketAddr]) -> Vec<SocketAddr> {
    offered(bound).0
}

/// Replaces wildcard addresses by those of the interfaces, the most likely reachable ones first. Also returns which
/// interfaces were chosen, and which were left out. Explicit addresses stay as they are.
pub fn offered(bound: &[SocketAddr]) -> (Vec<SocketAddr>, AddressChoice) {
    let (all, named): (Vec<SocketAddr>, Vec<SocketAddr>) =
        bound.iter().partition(|address| address.ip().is_unspecified());
    let listens = |ip: &IpAddr| all.iter().any(|address| address.is_ipv4() == ip.is_ipv4());
    let mut choice = AddressChoice::default();
    if !all.is_empty() {
        let interfaces = get_if_addrs().unwrap_or_default().into_iter().map(|of| {
            let (ip, up) = (of.ip(), of.is_oper_up());
            OwnAddress { interface: of.name, ip, up }
        });
        choice = choose(interfaces.filter(|own| listens(&own.ip)).collect(), &routed());
    }
    let mut addresses = named;
    for own in &choice.named {
        let ports = all.iter().filter(|address| address.is_ipv4() == own.ip.is_ipv4());
        addresses.extend(ports.map(|address| SocketAddr::new(own.ip, address.port())));
    }
    (addresses, choice)
}

/// The interfaces with a link-local IPv6 address, by index, at most [`MAX_CABLES`]. Those of containers and virtual machines
/// count only if there are no others.
pub(crate) fn cables() -> Vec<u32> {
    let (mut real, mut made) = (Vec::new(), Vec::new());
    for of in get_if_addrs().unwrap_or_default() {
        let (ip, up, index) = (of.ip(), of.is_oper_up(), of.index);
        let IpAddr::V6(v6) = ip else { continue };
        let Some(index) = index.filter(|_| up && v6.is_unicast_link_local()) else { continue };
        let own = OwnAddress { interface: of.name, ip, up };
        let kind = if own.is_virtual() { &mut made } else { &mut real };
        if !kind.contains(&index) {
            kind.push(index);
        }
    }
    let mut cables = if real.is_empty() { made } else { real };
    cables.truncate(MAX_CABLES);
    cables
}

/// The source addresses of packets to the public network. The destinations are documentation addresses (RFC 5737, RFC
/// 3849), which only a default route covers; connecting a UDP socket sends nothing.
pub fn routed() -> Vec<IpAddr> {
    let source = |any: IpAddr, to: IpAddr| {
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((to, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    let v4 = source(Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(203, 0, 113, 1).into());
    let documentation = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1);
    let v6 = source(Ipv6Addr::UNSPECIFIED.into(), documentation.into());
    [v4, v6].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_addresses_stay_as_they_are() {
        let bound = ["127.0.0.1:4000".parse().unwrap(), "192.0.2.7:4000".parse().unwrap()];
        assert_eq!(advertised(&bound), bound);
    }

    #[test]
    fn a_wildcard_becomes_interfaces_with_the_port() {
        let named = advertised(&["0.0.0.0:4001".parse().unwrap()]);
        assert!(!named.is_empty());
        assert!(named.iter().all(|a| a.port() == 4001 && a.is_ipv4() && !a.ip().is_unspecified()));
    }
}
