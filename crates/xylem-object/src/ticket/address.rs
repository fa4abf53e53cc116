//! [`Address`]: where a ticket's peer can be reached, and the encodings of lists of addresses.
//!
//! There are two encodings. That of version 2 tickets omits what repeats the previous address. That of version 1 is
//! also used in peers' hints and mail cards ([`write_addresses`]).
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::str::FromStr;

use super::{TicketError, TicketFields};

/// Most addresses in a ticket.
pub const MAX_ADDRESSES: usize = 16;
/// Most addresses of one relay in a ticket: one of IPv4 and one of IPv6, if it has no name.
pub const MAX_RELAY_ADDRESSES: usize = 2;
/// The default port of links; a ticket omits it.
pub const LINK_PORT: u16 = 7348;

/// Longest host name (RFC 1035 section 2.3.4, without the dot at its end).
const MAX_HOST: usize = 253;
/// Longest label of a host name (RFC 1035 section 2.3.4).
const MAX_LABEL: usize = 63;

const FAMILY_V4: u8 = 4;
const FAMILY_V6: u8 = 6;

/// Version 2: the kind of address, in the low bits of its first byte.
const IPV4: u8 = 0;
const IPV6: u8 = 1;
const HOST: u8 = 2;
/// Set if the port follows. Otherwise the port is that of the previous address, or [`LINK_PORT`] for the first address.
const PORT: u8 = 4;

/// Where a peer can be reached. `Display` and `FromStr` use `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A numeric address and port.
    Ip(SocketAddr),
    /// A name that the dialer resolves, and a port.
    Host(HostName, u16),
}

/// A DNS name in lower case: letters, digits, `-` and `_`, separated by dots. It is never a numeric address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostName(String);

/// The text is not `HOST:PORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected HOST:PORT, such as 192.0.2.7:7348, [2001:db8::7]:7348 or host.example.org:7348")]
pub struct AddressError;

impl HostName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostName {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let label = |l: &str| (1..=MAX_LABEL).contains(&l.len()) && l.bytes().all(plain);
        // Some resolvers take a name that ends in a number for an address ("127.1").
        let ends_in_name = (text.rsplit('.').next())
            .is_some_and(|last| !last.starts_with(|c: char| c.is_ascii_digit()));
        if text.len() > MAX_HOST || !text.split('.').all(label) || !ends_in_name {
            return Err(AddressError);
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Host(name, port) => write!(f, "{}:{port}", name.0),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self::Ip(address));
        }
        let (host, port) = text.rsplit_once(':').ok_or(AddressError)?;
        Ok(Self::Host(host.parse()?, port.parse().map_err(|_| AddressError)?))
    }
}

impl Address {
    /// The port.
    pub fn port(&self) -> u16 {
        match self {
            Self::Ip(address) => address.port(),
            Self::Host(_, port) => *port,
        }
    }
}

/// Appends the first `most` (up to [`MAX_ADDRESSES`]) addresses in the encoding of version 2 tickets.
#[expect(
    clippy::cast_possible_truncation,
    reason = "at most 16; a host name has at most 253 bytes"
)]
pub(super) fn write_short(out: &mut Vec<u8>, addresses: &[Address], most: usize) {
    let addresses = &addresses[..addresses.len().min(most)];
    out.push(addresses.len() as u8);
    let mut before = LINK_PORT;
    for address in addresses {
        let port = address.port();
        let follows = if port == before { 0 } else { PORT };
        match address {
            Address::Ip(SocketAddr::V4(v4)) => {
                out.push(IPV4 | follows);
                out.extend_from_slice(&v4.ip().octets());
            }
            Address::Ip(SocketAddr::V6(v6)) => {
                out.push(IPV6 | follows);
                out.extend_from_slice(&v6.ip().octets());
            }
            Address::Host(name, _) => {
                out.push(HOST | follows);
                out.push(name.0.len() as u8);
                out.extend_from_slice(name.0.as_bytes());
            }
        }
        if follows != 0 {
            out.extend_from_slice(&port.to_be_bytes());
        }
        before = port;
    }
}

/// Appends the first [`MAX_ADDRESSES`] addresses in the encoding of version 1: their number, then family, address and
/// port of each.
#[expect(clippy::cast_possible_truncation, reason = "at most 16")]
pub fn write_addresses(out: &mut Vec<u8>, addresses: &[SocketAddr]) {
    let addresses = &addresses[..addresses.len().min(MAX_ADDRESSES)];
    out.push(addresses.len() as u8);
    for address in addresses {
        match address.ip() {
            IpAddr::V4(ip) => {
                out.push(FAMILY_V4);
                out.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.push(FAMILY_V6);
                out.extend_from_slice(&ip.octets());
            }
        }
        out.extend_from_slice(&address.port().to_be_bytes());
    }
}

/// Reads what [`write_addresses`] wrote. Returns it with the remaining bytes.
///
/// # Errors
/// [`TicketError::Malformed`].
pub fn read_addresses(bytes: &[u8]) -> Result<(Vec<SocketAddr>, &[u8]), TicketError> {
    let mut fields = TicketFields(bytes);
    Ok((fields.addresses()?, fields.0))
}

impl TicketFields<'_> {
    /// Reads what [`write_addresses`] wrote.
    pub(super) fn addresses(&mut self) -> Result<Vec<SocketAddr>, TicketError> {
        let count = self.count(MAX_ADDRESSES)?;
        let mut addresses = Vec::with_capacity(count);
        for _ in 0..count {
            let ip = match self.byte()? {
                FAMILY_V4 => IpAddr::from(Ipv4Addr::from(self.array::<4>()?)),
                FAMILY_V6 => IpAddr::from(Ipv6Addr::from(self.array::<16>()?)),
                _ => return Err(TicketError::Malformed("kind of address")),
            };
            addresses.push(SocketAddr::new(ip, u16::from_be_bytes(self.array()?)));
        }
        Ok(addresses)
    }

    /// Reads what [`write_short`] wrote.
    pub(super) fn short_addresses(&mut self, most: usize) -> Result<Vec<Address>, TicketError> {
        let count = self.count(most)?;
        let mut addresses = Vec::with_capacity(count);
        let mut before = LINK_PORT;
        for _ in 0..count {
            let first = self.byte()?;
            let host = match first & !PORT {
                IPV4 => Ok(IpAddr::from(Ipv4Addr::from(self.array::<4>()?))),
                IPV6 => Ok(IpAddr::from(Ipv6Addr::from(self.array::<16>()?))),
                HOST => Err(self.host()?),
                _ => return Err(TicketError::Malformed("kind of address")),
            };
            let port = match first & PORT {
                0 => before,
                _ => u16::from_be_bytes(self.array()?),
            };
            if first & PORT != 0 && port == before {
                return Err(TicketError::Malformed("a redundant port"));
            }
            before = port;
            addresses.push(match host {
                Ok(ip) => Address::Ip(SocketAddr::new(ip, port)),
                Err(name) => Address::Host(name, port),
            });
        }
        Ok(addresses)
    }

    fn count(&mut self, most: usize) -> Result<usize, TicketError> {
        let count = usize::from(self.byte()?);
        match count > most {
            true => Err(TicketError::Malformed("too many addresses")),
            false => Ok(count),
        }
    }

    fn host(&mut self) -> Result<HostName, TicketError> {
        let len = usize::from(self.byte()?);
        let text = core::str::from_utf8(self.bytes(len)?).ok();
        let name = text.and_then(|text| text.parse::<HostName>().ok().filter(|n| n.0 == text));
        name.ok_or(TicketError::Malformed("host name"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_are_names() {
        for text in
            ["localhost", "a.b", "Node-1.Example.ORG", "xn--bcher-kva.example", "_x.y", "a1"]
        {
            assert_eq!(text.parse::<HostName>().unwrap().as_str(), text.to_ascii_lowercase());
        }
        let long = format!("{}a", "a.".repeat(127));
        for text in
            ["", ".", "a.", ".a", "a..b", "127.0.0.1", "127.1", "0x7f", "1", "a b", "é", "a/b"]
        {
            assert!(text.parse::<HostName>().is_err(), "{text}");
        }
        assert!(long.parse::<HostName>().is_err() && long[2..].parse::<HostName>().is_ok());
        assert!("a".repeat(64).parse::<HostName>().is_err());
    }

    #[test]
    fn addresses_are_host_and_port() {
        for text in ["192.0.2.1:1", "[2001:db8::1]:65535", "host.example:7348"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["host", "host:", ":1", "host:65536", "::1:80", "127.1:80", "a:b:1"] {
            assert_eq!(text.parse::<Address>(), Err(AddressError), "{text}");
        }
    }
}
