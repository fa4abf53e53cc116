//! NAT64: how an IPv4 address is reached from a network that has IPv6 alone (RFC 6052). What the network puts before such
//! addresses is learnt from a name that has IPv4 addresses only, and known ones (RFC 7050).

use std::net::{Ipv4Addr, Ipv6Addr};

/// The name that is looked up.
pub const NAME: &str = "ipv4only.arpa";
const KNOWN: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 0, 170), Ipv4Addr::new(192, 0, 0, 171)];
/// Where the four bytes stand, by the length of the prefix: the ninth byte is always 0.
const PLACES: [[usize; 4]; 6] =
    [[12, 13, 14, 15], [9, 10, 11, 12], [7, 9, 10, 11], [6, 7, 9, 10], [5, 6, 7, 9], [4, 5, 6, 7]];

/// The address by which `wanted` is reached, from an IPv6 address of [`NAME`]; `None` if that holds no known one.
#[must_use]
pub fn through(found: Ipv6Addr, wanted: Ipv4Addr) -> Option<Ipv6Addr> {
    let mut octets = found.octets();
    let holds = |places: &&[usize; 4]| KNOWN.contains(&Ipv4Addr::from(places.map(|at| octets[at])));
    let places = PLACES.iter().find(holds)?;
    places.iter().zip(wanted.octets()).for_each(|(at, octet)| octets[*at] = octet);
    Some(octets.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of RFC 6052, section 2.4.
    #[test]
    fn an_ipv4_address_stands_where_its_network_has_it() {
        let wanted: Ipv4Addr = "192.0.2.33".parse().unwrap();
        for (known, expected) in [
            ("2001:db8:c000:aa::", "2001:db8:c000:221::"),
            ("2001:db8:1c0:0:aa::", "2001:db8:1c0:2:21::"),
            ("2001:db8:122:c000:0:aa00::", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:3c0:0:aa::", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344:c0:0:aa00::", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::192.0.0.170", "2001:db8:122:344::192.0.2.33"),
            ("64:ff9b::192.0.0.171", "64:ff9b::192.0.2.33"),
        ] {
            let through = through(known.parse().unwrap(), wanted);
            assert_eq!(through, Some(expected.parse().unwrap()), "{known}");
        }
        assert_eq!(through("2001:db8::1".parse().unwrap(), wanted), None);
    }
}
