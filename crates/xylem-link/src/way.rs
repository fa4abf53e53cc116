//! [`PathKind`]: what a synthetic address, one that the program has made up, stands for.
//!
//! An endpoint knows only addresses. Datagrams that do not leave by its UDP socket (but over a carrier's connection, a
//! relay, a second socket) have an address that the program has made up, under a prefix that it draws, and the program
//! knows where they go. No network interface has such an address: a program drops datagrams that claim to come from
//! one.

use core::net::{IpAddr, SocketAddr};

/// The kind of path behind an address, the best first: a better one takes over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum PathKind {
    /// UDP to the peer's address.
    #[default]
    Direct,
    /// A connection that carries datagrams.
    Carried,
    /// A relay that passes them on.
    Relayed,
}

/// The address mapping of a NAT for one socket (RFC 4787 section 4.1).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum NatMapping {
    /// The same address towards every peer, or no NAT: an address that one peer sees reaches us from others.
    #[default]
    Stable,
    /// Another port towards every peer, mostly drawn at random: a symmetric NAT.
    Symmetric,
}

/// Length of the prefix that marks a synthetic address, in bytes.
const PREFIX: usize = 6;
/// Most kinds of synthetic addresses that a program has.
const MOST: usize = 4;

/// The prefixes of synthetic addresses.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct SyntheticPrefixes([Option<([u8; PREFIX], PathKind)>; MOST]);

impl SyntheticPrefixes {
    /// Declares that addresses with this prefix are synthetic. `false`: there are too many kinds.
    pub(crate) fn add(&mut self, prefix: [u8; PREFIX], way: PathKind) -> bool {
        let known = |place: &&mut Option<_>| place.is_none_or(|(of, _)| of == prefix);
        let place = self.0.iter_mut().find(known);
        place.map(|place| *place = Some((prefix, way))).is_some()
    }

    fn synthetic_kind(&self, address: SocketAddr) -> Option<PathKind> {
        let IpAddr::V6(ip) = address.ip() else { return None };
        let octets = ip.octets();
        let mut known = self.0.iter().flatten();
        known.find(|(prefix, _)| octets.starts_with(prefix)).map(|(_, way)| *way)
    }

    pub(crate) fn is_synthetic(&self, address: SocketAddr) -> bool {
        self.synthetic_kind(address).is_some()
    }

    pub(crate) fn way(&self, address: SocketAddr) -> PathKind {
        self.synthetic_kind(address).unwrap_or_default()
    }

    /// Returns whether an address is one that other programs can send to: it is not synthetic, and it is routable.
    pub(crate) fn is_announceable(&self, address: SocketAddr) -> bool {
        let ip = address.ip();
        let scoped = matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let nowhere = ip.is_unspecified() || ip.is_multicast() || scoped || address.port() == 0;
        !nowhere && !is_broadcast(ip) && !self.is_synthetic(address)
    }
}

fn is_broadcast(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(v4) if v4.is_broadcast())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synthetic_addresses_are_recognized_by_their_prefix() {
        let mut ways = SyntheticPrefixes::default();
        let of = |text: &str| text.parse::<SocketAddr>().unwrap();
        let relayed = of("[fd01:203:405::7]:1");
        assert!(!ways.is_synthetic(relayed) && ways.way(relayed) == PathKind::Direct);
        assert!(ways.add([0xfd, 1, 2, 3, 4, 5], PathKind::Relayed));
        assert!(ways.add([0xfd, 9, 9, 9, 9, 9], PathKind::Direct));
        assert!(ways.is_synthetic(relayed) && ways.way(relayed) == PathKind::Relayed);
        let second_socket = of("[fd09:909:909::7]:1");
        assert!(ways.is_synthetic(second_socket) && ways.way(second_socket) == PathKind::Direct);
        for not_told in ["[fd01:203:405::7]:1", "0.0.0.0:1", "224.0.0.1:1", "10.0.0.1:0"] {
            assert!(!ways.is_announceable(of(not_told)), "{not_told}");
        }
        for not_told in ["255.255.255.255:1", "[ff02::1]:1", "[fe80::1]:1", "[::]:1"] {
            assert!(!ways.is_announceable(of(not_told)), "{not_told}");
        }
        assert!(
            ways.is_announceable(of("192.168.0.1:7348")) && ways.is_announceable(of("[::1]:1"))
        );
        for n in 0..9 {
            assert_eq!(ways.add([n; 6], PathKind::Carried), n < 2);
        }
        assert!(PathKind::Direct < PathKind::Carried && PathKind::Carried < PathKind::Relayed);
    }
}
