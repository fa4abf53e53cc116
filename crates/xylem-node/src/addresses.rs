//! Which addresses a ticket should name.

use std::net::{IpAddr, SocketAddr};

/// At most this many addresses go into a ticket: each costs the person who pastes it.
const MAX_ADDRESSES: usize = 12;

/// Expands wildcard addresses into those of the interfaces, the ones most likely to be reached
/// from elsewhere first. Loopback is named only where it was asked for or nothing else is there.
pub(crate) fn advertised(bound: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut addresses = Vec::new();
    for address in bound {
        if address.ip().is_unspecified() {
            let same_family = |ip: &IpAddr| ip.is_ipv4() == address.is_ipv4();
            let mut ips: Vec<IpAddr> =
                interface_addresses().into_iter().filter(same_family).collect();
            ips.sort_by_key(|ip| rank(*ip));
            addresses.extend(ips.into_iter().map(|ip| SocketAddr::new(ip, address.port())));
        } else {
            addresses.push(*address);
        }
    }
    let outside = addresses.iter().any(|a| !a.ip().is_loopback());
    let asked = |a: &SocketAddr| bound.contains(a);
    addresses.retain(|a| !outside || !a.ip().is_loopback() || asked(a));
    addresses.dedup();
    addresses.truncate(MAX_ADDRESSES);
    addresses
}

fn interface_addresses() -> Vec<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    interfaces.into_iter().map(|i| i.ip()).filter(|ip| !is_link_local(*ip)).collect()
}

/// Link-local IPv6 needs a zone that another machine would not share.
fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => (v6.segments()[0] & 0xffc0) == 0xfe80,
    }
}

fn rank(ip: IpAddr) -> u8 {
    match ip {
        ip if ip.is_loopback() => 2,
        IpAddr::V4(v4) if v4.is_private() => 1,
        _ => 0,
    }
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
        assert!(named.iter().all(|a| a.port() == 4001 && !a.ip().is_unspecified()));
    }
}
