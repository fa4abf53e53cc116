//! Values that flags take: addresses, byte counts, ranges, seconds.
//!
//! Parsing is pure; host names are looked up later, by [`HostPort::resolve`], because a name that
//! does not resolve is a network failure and not wrong usage.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;
use xylem_node::Peer;

/// A host name or address with a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    host: String,
    port: u16,
}

/// At most this many addresses of one host name are used.
const MAX_ADDRESSES: usize = 4;

impl HostPort {
    /// Looks the name up; at least one address, or why there is none.
    pub(crate) fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, self.port)]);
        }
        let mut found: Vec<SocketAddr> = Vec::new();
        let looked_up = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| format!("cannot look up {}: {error}", self.host))?;
        for address in looked_up.take(4 * MAX_ADDRESSES) {
            if !found.contains(&address) {
                found.push(address);
            }
        }
        // IPv4 first: a name such as `localhost` often has an IPv6 address that nobody listens on.
        found.sort_by_key(SocketAddr::is_ipv6);
        found.truncate(MAX_ADDRESSES);
        if found.is_empty() {
            return Err(format!("{} has no address", self.host));
        }
        Ok(found)
    }
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self { host: address.ip().to_string(), port: address.port() });
        }
        let shape =
            || "expected HOST:PORT, such as 192.0.2.7:7000 or [2001:db8::7]:7000".to_owned();
        let (host, port) = text.rsplit_once(':').ok_or_else(shape)?;
        let plain = |c: char| c.is_alphanumeric() || c == '-' || c == '.' || c == '_';
        if host.is_empty() || host.len() > 255 || !host.chars().all(plain) {
            return Err(shape());
        }
        let port =
            port.parse().map_err(|_| format!("port {port:?} is not a number up to 65535"))?;
        Ok(Self { host: host.to_owned(), port })
    }
}

/// Where to listen: `HOST:PORT`, a port on all interfaces, or an address with a free port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenAt(pub(crate) HostPort);

impl FromStr for ListenAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self(HostPort { host: Ipv4Addr::UNSPECIFIED.to_string(), port }));
        }
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(Self(HostPort { host: ip.to_string(), port: 0 }));
        }
        text.parse().map(Self).map_err(|error: String| format!("{error}, a port, or an address"))
    }
}

/// A peer to ask: `[KEY@]HOST:PORT`, `udp://HOST:PORT` or `tcp://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FromPeer {
    via: Via,
    at: HostPort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Via {
    Link { key: Option<[u8; 32]> },
    Udp,
    Tcp,
}

impl FromPeer {
    /// One [`Peer`] for each address of the host.
    pub(crate) fn resolve(&self) -> Result<Vec<Peer>, String> {
        let to_peer = |address| match self.via {
            Via::Link { key } => Peer::Link { address, key },
            Via::Udp => Peer::Udp(address),
            Via::Tcp => Peer::Tcp(address),
        };
        Ok(self.at.resolve()?.into_iter().map(to_peer).collect())
    }
}

impl FromStr for FromPeer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix("udp://") {
            return Ok(Self { via: Via::Udp, at: rest.parse()? });
        }
        if let Some(rest) = text.strip_prefix("tcp://") {
            return Ok(Self { via: Via::Tcp, at: rest.parse()? });
        }
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(format!("{scheme}:// is not known; use HOST:PORT, udp:// or tcp://"));
        }
        let (key, at) = match text.split_once('@') {
            Some((key, at)) => (Some(parse_key(key)?), at),
            None => (None, text),
        };
        Ok(Self { via: Via::Link { key }, at: at.parse()? })
    }
}

fn parse_key(text: &str) -> Result<[u8; 32], String> {
    let shape = || "the key before @ has to be 64 hexadecimal digits".to_owned();
    let digits = text.as_bytes();
    let mut key = [0; 32];
    if digits.len() != 64 {
        return Err(shape());
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |d: u8| char::from(d).to_digit(16).ok_or_else(shape);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Ok(key)
}

/// A count of bytes: `4096`, `64K` and `64KiB` (65,536), `64KB` (64,000), up to `T`.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let shape = || format!("{text:?} is not a count of bytes, such as 4096, 64K, 10MiB or 2GB");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().map_err(|_| shape())?;
    let mut letters = unit.chars();
    let power = match letters.next().map(|c| c.to_ascii_uppercase()) {
        None | Some('B') if unit.len() < 2 => 0,
        Some('K') => 1,
        Some('M') => 2,
        Some('G') => 3,
        Some('T') => 4,
        _ => return Err(shape()),
    };
    let base: u64 = match letters.as_str() {
        "" | "iB" | "ib" => 1024,
        "B" | "b" => 1000,
        _ => return Err(shape()),
    };
    base.pow(power).checked_mul(number).ok_or_else(|| format!("{text:?} is more than 2^64 bytes"))
}

/// Bytes a second: [`parse_bytes`], `/s` allowed, not zero.
pub(crate) fn parse_rate(text: &str) -> Result<u64, String> {
    match parse_bytes(text.strip_suffix("/s").unwrap_or(text))? {
        0 => Err("a rate of 0 would never end".to_owned()),
        rate => Ok(rate),
    }
}

/// A byte range `A..B`, `A..` or `..B`; the end is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    /// First byte.
    pub(crate) start: u64,
    /// One past the last byte; `None`: to the end of the file.
    pub(crate) end: Option<u64>,
}

impl FromStr for ByteRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (start, end) = text
            .split_once("..")
            .ok_or_else(|| "expected A..B, A.. or ..B, in bytes or with K, M, G".to_owned())?;
        let start = if start.is_empty() { 0 } else { parse_bytes(start)? };
        let end = if end.is_empty() { None } else { Some(parse_bytes(end)?) };
        if end.is_some_and(|end| end <= start) {
            return Err("the range is empty: its end has to be above its start".to_owned());
        }
        Ok(Self { start, end })
    }
}

/// Seconds, with a fraction if need be.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let shape = || format!("{text:?} is not a number of seconds above 0");
    let seconds: f64 = text.strip_suffix('s').unwrap_or(text).parse().map_err(|_| shape())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| shape())?;
    if duration.is_zero() { Err(shape()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts() {
        for (text, bytes) in [
            ("0", 0),
            ("1023", 1023),
            ("7B", 7),
            ("64K", 65_536),
            ("64k", 65_536),
            ("64KiB", 65_536),
            ("64KB", 64_000),
            ("3MiB", 3 << 20),
            ("2GB", 2_000_000_000),
            ("1T", 1 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in
            ["", "K", "-1", "1.5G", "1X", "1KK", "1BB", "1 K", "16777216T", "99999999999999999999"]
        {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        assert_eq!(parse_rate("10M/s"), Ok(10 << 20));
        assert!(parse_rate("0").is_err());
    }

    #[test]
    fn ranges() {
        assert_eq!("1..2".parse(), Ok(ByteRange { start: 1, end: Some(2) }));
        assert_eq!("1K..".parse(), Ok(ByteRange { start: 1024, end: None }));
        assert_eq!("..1KB".parse(), Ok(ByteRange { start: 0, end: Some(1000) }));
        for text in ["", "5", "2..2", "3..2", "..0", "a..b", "1...2"] {
            assert!(text.parse::<ByteRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn seconds() {
        assert_eq!(parse_seconds("30"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_seconds("0.25s"), Ok(Duration::from_millis(250)));
        for text in ["", "0", "-1", "NaN", "inf", "1e300", "soon"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn listening_addresses() {
        let at = |text: &str| text.parse::<ListenAt>().map(|l| l.0.resolve().expect("is numeric"));
        let one = |text: &str| Ok(vec![text.parse().expect("is an address")]);
        assert_eq!(at("7000"), one("0.0.0.0:7000"));
        assert_eq!(at("127.0.0.1"), one("127.0.0.1:0"));
        assert_eq!(at("::1"), one("[::1]:0"));
        assert_eq!(at("[::1]"), one("[::1]:0"));
        assert_eq!(at("[::1]:7"), one("[::1]:7"));
        assert_eq!(at("127.0.0.1:7"), one("127.0.0.1:7"));
        for text in ["", "70000", "host", ":1", "host:", "host:99999", "ho st:1", "a:b:1"] {
            assert!(text.parse::<ListenAt>().is_err(), "{text}");
        }
    }

    #[test]
    fn peers() {
        let address: SocketAddr = "192.0.2.1:9".parse().expect("is an address");
        let of = |text: &str| text.parse::<FromPeer>().expect(text).resolve();
        assert_eq!(of("192.0.2.1:9"), Ok(vec![Peer::Link { address, key: None }]));
        assert_eq!(of("udp://192.0.2.1:9"), Ok(vec![Peer::Udp(address)]));
        assert_eq!(of("tcp://192.0.2.1:9"), Ok(vec![Peer::Tcp(address)]));
        let keyed = format!("{}@192.0.2.1:9", "a5".repeat(32));
        assert_eq!(of(&keyed), Ok(vec![Peer::Link { address, key: Some([0xa5; 32]) }]));
        for text in ["", "192.0.2.1", "http://192.0.2.1:9", "a5@192.0.2.1:9", "udp://", "@h:1"] {
            assert!(text.parse::<FromPeer>().is_err(), "{text}");
        }
    }
}
