//! Addresses in frames: the address at which the peer is seen, and those at which the sender may be reached.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Length of an address: IPv6 or mapped IPv4 (16 bytes), port (2).
pub const ADDRESS_LEN: usize = 18;
/// Most addresses in one candidates frame.
pub const MAX_CANDIDATES: usize = 16;
/// Flag of a sender behind a symmetric NAT, which gives it another port towards every peer.
pub const SYMMETRIC: u8 = 1;

/// Further addresses at which the sender of the frame may be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidates<'a> {
    /// Counts the sender's lists from 1: a newer one replaces older ones.
    pub number: u32,
    /// See [`SYMMETRIC`]; other bits have no meaning yet.
    pub flags: u8,
    pub(super) addresses: &'a [[u8; ADDRESS_LEN]],
}

impl<'a> Candidates<'a> {
    /// Makes a frame of encoded addresses; `None` if there are more than [`MAX_CANDIDATES`].
    #[must_use]
    pub fn new(number: u32, flags: u8, addresses: &'a [[u8; ADDRESS_LEN]]) -> Option<Self> {
        (addresses.len() <= MAX_CANDIDATES).then_some(Self { number, flags, addresses })
    }

    /// The addresses, in the sender's order.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> + use<'a> {
        self.addresses.iter().map(to_address)
    }
}

/// Decodes an address; a mapped IPv4 address becomes IPv4.
#[must_use]
pub fn to_address(octets: &[u8; ADDRESS_LEN]) -> SocketAddr {
    let [ip @ .., high, low] = octets;
    let ip = IpAddr::V6(Ipv6Addr::from(*ip)).to_canonical();
    SocketAddr::new(ip, u16::from_be_bytes([*high, *low]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cookie::address;

    #[test]
    fn addresses_round_trip() {
        for text in ["192.0.2.1:7348", "[2001:db8::1]:1", "[::1]:65535", "0.0.0.0:0"] {
            let of: SocketAddr = text.parse().unwrap();
            assert_eq!(to_address(&address(of)), of);
        }
        let seventeen = [[0; ADDRESS_LEN]; MAX_CANDIDATES + 1];
        assert!(Candidates::new(1, 0, &seventeen).is_none());
        assert!(Candidates::new(1, 0, &seventeen[1..]).is_some());
    }
}
