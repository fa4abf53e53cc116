//! Face URIs as people write them: `--from`, `--via`, settings, and `ctl face create`.
//!
//! Parsing is pure; host names are looked up later, by [`PeerUri::resolve`], because a name that
//! does not resolve is a network failure and not wrong usage.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use crate::api::Peer;

/// The port that the Internet Assigned Numbers Authority lists for NDN, UDP and TCP.
pub const NDN_PORT: u16 = 6363;
/// Where NDN forwarders serve WebSockets.
pub const WEB_SOCKET_PORT: u16 = 9696;
/// Where encrypted links are served, so that a ticket survives a restart of the publisher.
pub const LINK_PORT: u16 = 7348;

/// At most this many addresses of one host name are used.
const MAX_ADDRESSES: usize = 4;

/// A host name or address with a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    host: String,
    port: u16,
}

impl HostPort {
    /// This address.
    pub fn at(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port() }
    }

    /// `HOST` or `HOST:PORT`.
    fn parse_or(text: &str, port: u16) -> Result<Self, String> {
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(Self { host: ip.to_string(), port });
        }
        if !text.is_empty() && !text.contains(':') {
            return format!("{text}:{port}").parse();
        }
        text.parse()
    }

    /// Looks the name up.
    ///
    /// # Errors
    /// Why there is not one address.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
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
            return Ok(Self::at(address));
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

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Which addresses of a host are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Any,
    V4,
    V6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Link { key: Option<[u8; 32]> },
    Udp(Family),
    Tcp(Family),
    WebSocket,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Net(Scheme, HostPort),
    Unix(PathBuf),
}

/// Where somebody is to be reached or to listen: `[KEY@]HOST:PORT` (encrypted link),
/// `xylem://[KEY@]HOST[:PORT]`, `udp://`, `udp4://`, `udp6://`, `tcp://`, `tcp4://`, `tcp6://`,
/// `ws://HOST[:PORT]` or `unix:///PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerUri(Place);

impl PeerUri {
    /// The Unix socket at `path`.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self(Place::Unix(path.into()))
    }

    /// One [`Peer`] for each address of the host.
    ///
    /// # Errors
    /// Why there is none.
    pub fn resolve(&self) -> Result<Vec<Peer>, String> {
        let (scheme, at) = match &self.0 {
            Place::Unix(path) => return Ok(vec![Peer::Unix(path.clone())]),
            Place::Net(scheme, at) => (*scheme, at),
        };
        let (family, word) = match scheme {
            Scheme::Udp(family) | Scheme::Tcp(family) => match family {
                Family::Any => (family, ""),
                Family::V4 => (family, "IPv4 "),
                Family::V6 => (family, "IPv6 "),
            },
            Scheme::Link { .. } | Scheme::WebSocket => (Family::Any, ""),
        };
        let fits = |address: &SocketAddr| match family {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        };
        let peer = |address| match scheme {
            Scheme::Link { key } => Peer::Link { address, key },
            Scheme::Udp(_) => Peer::Udp(address),
            Scheme::Tcp(_) => Peer::Tcp(address),
            Scheme::WebSocket => Peer::WebSocket(address),
        };
        let peers: Vec<Peer> = at.resolve()?.into_iter().filter(fits).map(peer).collect();
        if peers.is_empty() {
            return Err(format!("{at} has no {word}address"));
        }
        Ok(peers)
    }
}

impl FromStr for PeerUri {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            let (key, at) = split_key(text)?;
            return Ok(Self(Place::Net(Scheme::Link { key }, at.parse()?)));
        };
        if scheme == "unix" {
            if !rest.starts_with('/') {
                return Err(format!("{text:?} names no absolute path; use unix:///PATH"));
            }
            return Ok(Self::unix(rest));
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (scheme, at, port) = match scheme {
            "xylem" => {
                let (key, at) = split_key(rest)?;
                (Scheme::Link { key }, at, LINK_PORT)
            }
            "udp" => (Scheme::Udp(Family::Any), rest, NDN_PORT),
            "udp4" => (Scheme::Udp(Family::V4), rest, NDN_PORT),
            "udp6" => (Scheme::Udp(Family::V6), rest, NDN_PORT),
            "tcp" => (Scheme::Tcp(Family::Any), rest, NDN_PORT),
            "tcp4" => (Scheme::Tcp(Family::V4), rest, NDN_PORT),
            "tcp6" => (Scheme::Tcp(Family::V6), rest, NDN_PORT),
            "ws" => (Scheme::WebSocket, rest, WEB_SOCKET_PORT),
            other => {
                return Err(format!(
                    "{other}:// is not known; use HOST:PORT, xylem://, udp://, tcp://, ws:// or \
                     unix:///"
                ));
            }
        };
        Ok(Self(Place::Net(scheme, HostPort::parse_or(at, port)?)))
    }
}

fn split_key(text: &str) -> Result<(Option<[u8; 32]>, &str), String> {
    match text.split_once('@') {
        Some((key, at)) => Ok((Some(parse_key(key)?), at)),
        None => Ok((None, text)),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<Peer>, String> {
        text.parse::<PeerUri>().expect(text).resolve()
    }

    #[test]
    fn every_scheme() {
        let address: SocketAddr = "192.0.2.1:9".parse().expect("is an address");
        assert_eq!(of("192.0.2.1:9"), Ok(vec![Peer::Link { address, key: None }]));
        assert_eq!(of("xylem://192.0.2.1:9"), Ok(vec![Peer::Link { address, key: None }]));
        assert_eq!(of("udp://192.0.2.1:9"), Ok(vec![Peer::Udp(address)]));
        assert_eq!(of("udp4://192.0.2.1:9"), Ok(vec![Peer::Udp(address)]));
        assert_eq!(of("tcp4://192.0.2.1:9/"), Ok(vec![Peer::Tcp(address)]));
        assert_eq!(of("ws://192.0.2.1:9/"), Ok(vec![Peer::WebSocket(address)]));
        assert_eq!(of("unix:///run/x.sock"), Ok(vec![Peer::Unix("/run/x.sock".into())]));
        let keyed = format!("{}@192.0.2.1:9", "a5".repeat(32));
        let peer = Peer::Link { address, key: Some([0xa5; 32]) };
        assert_eq!(of(&keyed), Ok(vec![peer.clone()]));
        assert_eq!(of(&format!("xylem://{keyed}")), Ok(vec![peer]));
    }

    #[test]
    fn ports_have_usual_values() {
        let at = |port| SocketAddr::from(([192, 0, 2, 1], port));
        assert_eq!(of("udp://192.0.2.1"), Ok(vec![Peer::Udp(at(6363))]));
        assert_eq!(of("ws://192.0.2.1"), Ok(vec![Peer::WebSocket(at(9696))]));
        assert_eq!(of("tcp6://[::1]"), Ok(vec![Peer::Tcp("[::1]:6363".parse().unwrap())]));
        assert_eq!(of("xylem://192.0.2.1"), Ok(vec![Peer::Link { address: at(7348), key: None }]));
    }

    #[test]
    fn what_is_no_face_uri_is_refused() {
        for text in [
            "",
            "192.0.2.1",
            "http://192.0.2.1:9",
            "a5@192.0.2.1:9",
            "udp://",
            "@h:1",
            "udp://a:b:1",
            "unix://run/x",
            "unix:/run/x",
            "tcp://host:99999",
            "ws://ho st",
            "udp://:6363",
        ] {
            assert!(text.parse::<PeerUri>().is_err(), "{text}");
        }
        assert!(of("udp6://192.0.2.1:9").is_err(), "no IPv6 address");
    }
}
