//! NAT64: reaches IPv4 addresses from a network with IPv6 alone (RFC 6052). The network's prefix is learnt by resolving
//! a name that has known IPv4 addresses only (RFC 7050).

use std::net::{Ipv4Addr, Ipv6Addr};

/// The name to resolve.
pub const NAME: &str = "ipv4only.arpa";
const KNOWN: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 0, 170), Ipv4Addr::new(192, 0, 0, 171)];
/// Positions of the four address bytes for each prefix length; the ninth byte is always 0.
const PLACES: [[usize; 4]; 6] =
    [[12, 13, 14, 15], [9, 10, 11, 12], [7, 9, 10, 11], [6, 7, 9, 10], [5, 6, 7, 9], [4, 5, 6, 7]];

/// Returns the IPv6 address for `wanted`, from an IPv6 address of [`NAME`]; `None` if that contains no known IPv4
/// address.
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
    fn ipv4_addresses_are_embedded_as_in_rfc_6052() {
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
