//! FaceUris: the ends of a face as text (NFD wiki, "FaceMgmt", section "FaceUri").
//!
//! `unix:///run/x.sock`, `fd://7`, `udp4://192.0.2.1:6363`, `tcp6://[2001:db8::1]:6363`, `ws://host:9696`, `wss://host:443`,
//! `xylem://host:7348`, `xylem+tls://host:443`, `dev://eth0`, `ether://[08:00:27:01:02:03]`, `internal://`.
//!
//! Schemes such as `udp` and `tcp` with an address literal become `udp4` or `udp6` when written. With a host's name
//! they stay as they are, and the program that opens the face resolves the name.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// Limit of a FaceUri, in bytes.
const MAX_LEN: usize = 1024;

/// Host and port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UriAuthority {
    /// An address, or a name to be resolved.
    pub host: UriHost,
    /// UDP or TCP port.
    pub port: u16,
}

/// An address, or a host's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UriHost {
    /// An address.
    Ip(IpAddr),
    /// A link-local IPv6 address, with its link: an interface's name or number.
    Zoned(Ipv6Addr, String),
    /// A host's name.
    Name(String),
}

/// A carrier of the encrypted link's datagrams where UDP does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// TLS 1.3.
    Tls,
    /// WebSocket.
    WebSocket,
    /// WebSocket over TLS.
    SecureWebSocket,
    /// DNS over HTTPS.
    Doh,
}

impl Carrier {
    /// All carriers.
    pub const ALL: [Self; 4] = [Self::Tls, Self::WebSocket, Self::SecureWebSocket, Self::Doh];

    /// The scheme of its FaceUris.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Tls => "xylem+tls",
            Self::WebSocket => "xylem+ws",
            Self::SecureWebSocket => "xylem+wss",
            Self::Doh => "xylem+doh",
        }
    }

    /// The carrier of a scheme.
    pub fn of_scheme(scheme: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|carrier| carrier.scheme() == scheme)
    }

    /// The usual port of the imitated protocol.
    pub fn default_port(self) -> u16 {
        if self.is_tls() { 443 } else { 80 }
    }

    /// Whether it runs within TLS.
    pub fn is_tls(self) -> bool {
        self != Self::WebSocket
    }
}

/// One end of a face.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FaceUri {
    /// Within the forwarder.
    Internal,
    /// A face that drops all packets.
    Null,
    /// An accepted connection of a Unix socket, by the number of its descriptor.
    Fd(u64),
    /// A Unix socket.
    Unix(String),
    /// UDP.
    Udp(UriAuthority),
    /// TCP.
    Tcp(UriAuthority),
    /// A WebSocket server.
    WebSocket(UriAuthority),
    /// A WebSocket server, within TLS.
    SecureWebSocket(UriAuthority),
    /// A client of our WebSocket server.
    WebSocketClient(UriAuthority),
    /// The encrypted link.
    Xylem(UriAuthority),
    /// The encrypted link within a TCP connection.
    Carried(Carrier, UriAuthority),
    /// A network interface.
    Dev(String),
    /// An Ethernet address.
    Ether([u8; 6]),
}

impl FaceUri {
    /// Returns the UDP or TCP port; `None` for what has none. 0 stands for any free port at this end, and for none of
    /// another machine.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Udp(at)
            | Self::Tcp(at)
            | Self::WebSocket(at)
            | Self::SecureWebSocket(at)
            | Self::WebSocketClient(at)
            | Self::Xylem(at)
            | Self::Carried(_, at) => Some(at.port),
            _ => None,
        }
    }
}

/// Reasons for which a text is no FaceUri.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaceUriError {
    /// No `://`, or an unknown scheme.
    #[error(
        "unknown scheme: begin with unix://, udp://, tcp://, ws://, xylem://, fd://, dev://, ether:// or internal://"
    )]
    Scheme,
    /// The part after the scheme is malformed.
    #[error("the address does not fit its scheme")]
    Address,
    /// An IPv6 address under `udp4`, or the reverse.
    #[error("the address is of the other IP version")]
    Version,
    /// Longer than our own limit.
    #[error("longer than {MAX_LEN} bytes")]
    TooLong,
}

/// The IP version that a scheme requires.
#[derive(Clone, Copy, PartialEq)]
enum IpVersion {
    Any,
    Four,
    Six,
}

impl FromStr for FaceUri {
    type Err = FaceUriError;

    fn from_str(text: &str) -> Result<Self, FaceUriError> {
        if text.len() > MAX_LEN {
            return Err(FaceUriError::TooLong);
        }
        let (scheme, rest) = text.split_once("://").ok_or(FaceUriError::Scheme)?;
        if rest.chars().any(char::is_control) {
            return Err(FaceUriError::Address);
        }
        let nothing = |uri| if rest.is_empty() { Ok(uri) } else { Err(FaceUriError::Address) };
        match scheme {
            "internal" => nothing(FaceUri::Internal),
            "null" => nothing(FaceUri::Null),
            "fd" => rest.parse().map(FaceUri::Fd).map_err(|_| FaceUriError::Address),
            "unix" if rest.starts_with('/') => Ok(FaceUri::Unix(rest.to_owned())),
            "dev" if !rest.is_empty() => Ok(FaceUri::Dev(rest.to_owned())),
            "unix" | "dev" => Err(FaceUriError::Address),
            "ether" => ether(rest).map(FaceUri::Ether).ok_or(FaceUriError::Address),
            "udp" => host_port(rest, IpVersion::Any, 6363).map(FaceUri::Udp),
            "udp4" => host_port(rest, IpVersion::Four, 6363).map(FaceUri::Udp),
            "udp6" => host_port(rest, IpVersion::Six, 6363).map(FaceUri::Udp),
            "tcp" => host_port(rest, IpVersion::Any, 6363).map(FaceUri::Tcp),
            "tcp4" => host_port(rest, IpVersion::Four, 6363).map(FaceUri::Tcp),
            "tcp6" => host_port(rest, IpVersion::Six, 6363).map(FaceUri::Tcp),
            "ws" => host_port(rest, IpVersion::Any, 9696).map(FaceUri::WebSocket),
            "wss" => host_port(rest, IpVersion::Any, 443).map(FaceUri::SecureWebSocket),
            "wsclient" => host_port(rest, IpVersion::Any, 9696).map(FaceUri::WebSocketClient),
            "xylem" => host_port(rest, IpVersion::Any, 7348).map(FaceUri::Xylem),
            other => {
                let carrier = Carrier::of_scheme(other).ok_or(FaceUriError::Scheme)?;
                host_port(rest, IpVersion::Any, carrier.default_port())
                    .map(|at| FaceUri::Carried(carrier, at))
            }
        }
    }
}

fn host_port(
    text: &str,
    version: IpVersion,
    default_port: u16,
) -> Result<UriAuthority, FaceUriError> {
    // A slash at the end, as in `ws://host:9696/`, has no meaning.
    let text = text.strip_suffix('/').unwrap_or(text);
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest.split_once(']').ok_or(FaceUriError::Address)?;
        let port = match after {
            "" => None,
            after => Some(after.strip_prefix(':').ok_or(FaceUriError::Address)?),
        };
        (ipv6(inside)?, port)
    } else {
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        (host_of(host)?, port)
    };
    let port = match port {
        None => default_port,
        // Digits alone: `parse` would accept a sign.
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
            digits.parse().map_err(|_| FaceUriError::Address)?
        }
        Some(_) => return Err(FaceUriError::Address),
    };
    let is_six = match &host {
        UriHost::Ip(ip) => Some(ip.is_ipv6()),
        UriHost::Zoned(..) => Some(true),
        UriHost::Name(_) => None,
    };
    match (version, is_six) {
        (IpVersion::Four, Some(true)) | (IpVersion::Six, Some(false)) => Err(FaceUriError::Version),
        _ => Ok(UriAuthority { host, port }),
    }
}

fn ipv6(text: &str) -> Result<UriHost, FaceUriError> {
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, Some(zone.strip_prefix("25").unwrap_or(zone))),
        None => (text, None),
    };
    let address: Ipv6Addr = address.parse().map_err(|_| FaceUriError::Address)?;
    match zone {
        None => Ok(UriHost::Ip(IpAddr::V6(address))),
        Some("") => Err(FaceUriError::Address),
        Some(zone) if zone.contains(['[', ']', '/', '%']) => Err(FaceUriError::Address),
        Some(zone) => Ok(UriHost::Zoned(address, zone.to_owned())),
    }
}

fn host_of(text: &str) -> Result<UriHost, FaceUriError> {
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok(UriHost::Ip(IpAddr::V4(address)));
    }
    let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if text.is_empty() || !text.bytes().all(is_name) {
        return Err(FaceUriError::Address);
    }
    Ok(UriHost::Name(text.to_owned()))
}

fn ether(text: &str) -> Option<[u8; 6]> {
    let inside = text.strip_prefix('[').map_or(Some(text), |rest| rest.strip_suffix(']'))?;
    let mut address = [0; 6];
    let mut octets = inside.split(':');
    for octet in &mut address {
        let digits =
            octets.next().filter(|d| d.len() == 2 && d.bytes().all(|b| b.is_ascii_hexdigit()))?;
        *octet = u8::from_str_radix(digits, 16).ok()?;
    }
    octets.next().is_none().then_some(address)
}

impl fmt::Display for UriAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            UriHost::Ip(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            UriHost::Ip(address) => write!(f, "{address}:{}", self.port),
            UriHost::Zoned(address, zone) => write!(f, "[{address}%{zone}]:{}", self.port),
            UriHost::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

impl FaceUri {
    /// The FaceUri in a text that also states how to dial it: before the address of an encrypted link the key of its
    /// other end, `KEY@`, and after it the server's name, `?sni=NAME`; after an Ethernet address the interface, `%eth0`.
    /// None of them is part of the FaceUri.
    ///
    /// # Errors
    /// As of [`str::parse`].
    pub fn of_dialled(text: &str) -> Result<Self, FaceUriError> {
        match text.split_once("://") {
            Some(("wss", rest)) => {
                let at = rest.split_once("?sni=").map_or(rest, |(at, _name)| at);
                format!("wss://{at}").parse()
            }
            Some((scheme, rest)) if scheme == "xylem" || Carrier::of_scheme(scheme).is_some() => {
                let at = rest.split_once('@').map_or(rest, |(_key, at)| at);
                let at = at.split_once("?sni=").map_or(at, |(at, _name)| at);
                format!("{scheme}://{at}").parse()
            }
            _ => match Self::split_device(text) {
                Some((uri, _)) => uri.parse(),
                None => text.parse(),
            },
        }
    }

    /// Splits `ether://[ADDRESS%DEVICE]` into the FaceUri's text and the name of the interface; `None` for another text.
    pub fn split_device(text: &str) -> Option<(String, &str)> {
        let (address, device) =
            text.strip_prefix("ether://[")?.strip_suffix(']')?.split_once('%')?;
        let is_name = !device.is_empty() && !device.contains(['[', ']', '/', '%', ' ']);
        is_name.then(|| (format!("ether://[{address}]"), device))
    }

    /// The scheme in writing: with the IP version where it is known.
    pub fn scheme(&self) -> &'static str {
        let versioned = |at: &UriAuthority, schemes: [&'static str; 3]| match at.host {
            UriHost::Ip(IpAddr::V4(_)) => schemes[0],
            UriHost::Ip(IpAddr::V6(_)) | UriHost::Zoned(..) => schemes[1],
            UriHost::Name(_) => schemes[2],
        };
        match self {
            FaceUri::Internal => "internal",
            FaceUri::Null => "null",
            FaceUri::Fd(_) => "fd",
            FaceUri::Unix(_) => "unix",
            FaceUri::Udp(at) => versioned(at, ["udp4", "udp6", "udp"]),
            FaceUri::Tcp(at) => versioned(at, ["tcp4", "tcp6", "tcp"]),
            FaceUri::WebSocket(_) => "ws",
            FaceUri::SecureWebSocket(_) => "wss",
            FaceUri::WebSocketClient(_) => "wsclient",
            FaceUri::Xylem(_) => "xylem",
            FaceUri::Carried(carrier, _) => carrier.scheme(),
            FaceUri::Dev(_) => "dev",
            FaceUri::Ether(_) => "ether",
        }
    }
}

impl fmt::Display for FaceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme())?;
        match self {
            FaceUri::Internal | FaceUri::Null => Ok(()),
            FaceUri::Fd(number) => write!(f, "{number}"),
            FaceUri::Unix(path) | FaceUri::Dev(path) => f.write_str(path),
            FaceUri::Udp(at)
            | FaceUri::Tcp(at)
            | FaceUri::WebSocket(at)
            | FaceUri::SecureWebSocket(at)
            | FaceUri::WebSocketClient(at)
            | FaceUri::Xylem(at)
            | FaceUri::Carried(_, at) => at.fmt(f),
            FaceUri::Ether([a, b, c, d, e, g]) => {
                write!(f, "[{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}]")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_to_dial_is_no_part_of_a_face_uri() {
        for (text, uri) in [
            ("xylem://a5a5@192.0.2.1:7", "xylem://192.0.2.1:7"),
            ("xylem://192.0.2.1", "xylem://192.0.2.1:7348"),
            ("xylem+tls://a5a5@[2001:db8::1]?sni=cdn.example", "xylem+tls://[2001:db8::1]:443"),
            ("wss://192.0.2.1?sni=ndn.example", "wss://192.0.2.1:443"),
            ("udp4://192.0.2.1", "udp4://192.0.2.1:6363"),
            ("ether://[08:00:27:01:02:0F%eth0]", "ether://[08:00:27:01:02:0f]"),
        ] {
            assert_eq!(FaceUri::of_dialled(text).unwrap().to_string(), uri);
        }
        for wrong in [
            "udp4://a5a5@192.0.2.1",
            "xylem://a5a5@",
            "xylem://a@b@c",
            "xylem",
            "ether://[08:00:27:01:02:0f%]",
            "ether://[08:00:27:01:02:0f%a/b]",
            "ether://[08:00:27:01:02:0f%eth0",
        ] {
            assert!(FaceUri::of_dialled(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn text_is_read_and_written_canonically() {
        for (text, canonical) in [
            ("unix:///run/x.sock", "unix:///run/x.sock"),
            ("fd://7", "fd://7"),
            ("internal://", "internal://"),
            ("null://", "null://"),
            ("dev://eth0", "dev://eth0"),
            ("ether://[08:00:27:01:02:0F]", "ether://[08:00:27:01:02:0f]"),
            ("udp4://192.0.2.1:6363", "udp4://192.0.2.1:6363"),
            ("udp://192.0.2.1", "udp4://192.0.2.1:6363"),
            ("udp://host.example", "udp://host.example:6363"),
            ("tcp://[2001:db8::1]:1", "tcp6://[2001:db8::1]:1"),
            ("tcp6://[2001:DB8:0::1]", "tcp6://[2001:db8::1]:6363"),
            ("udp6://[fe80::1%25eth0]:6363", "udp6://[fe80::1%eth0]:6363"),
            ("udp6://[fe80::1%eth0]", "udp6://[fe80::1%eth0]:6363"),
            ("ws://127.0.0.1:9696/", "ws://127.0.0.1:9696"),
            ("wss://ndn.example/", "wss://ndn.example:443"),
            ("wsclient://[::1]:50000", "wsclient://[::1]:50000"),
            ("xylem://host", "xylem://host:7348"),
            ("xylem+tls://host", "xylem+tls://host:443"),
            ("xylem+ws://[::1]/", "xylem+ws://[::1]:80"),
            ("xylem+wss://host:8443", "xylem+wss://host:8443"),
            ("xylem+doh://192.0.2.1", "xylem+doh://192.0.2.1:443"),
        ] {
            let uri: FaceUri = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(uri.to_string(), canonical);
            assert_eq!(canonical.parse(), Ok(uri));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        use FaceUriError::*;
        for (text, error) in [
            ("", Scheme),
            ("udp4:/x", Scheme),
            ("http://x", Scheme),
            ("xylem+udp://x", Scheme),
            ("udp4://", Address),
            ("udp4://:6363", Address),
            ("udp4://1.2.3.4:", Address),
            ("udp4://1.2.3.4:+1", Address),
            ("udp4://1.2.3.4:65536", Address),
            ("udp4://1.2.3.4:1:2", Address),
            ("udp4://[::1]:1", Version),
            ("udp6://1.2.3.4", Version),
            ("udp6://[::1", Address),
            ("udp6://[::1]1", Address),
            ("udp6://[::1%]", Address),
            ("udp://a b", Address),
            ("unix://relative", Address),
            ("unix:///a\nb", Address),
            ("fd://x", Address),
            ("internal://x", Address),
            ("ether://[08:00:27:01:02]", Address),
            ("ether://[08:00:27:01:02:03:04]", Address),
            ("ether://[8:00:27:01:02:03]", Address),
        ] {
            assert_eq!(text.parse::<FaceUri>(), Err(error), "{text:?}");
        }
        assert_eq!(format!("unix:///{}", "x".repeat(1024)).parse::<FaceUri>(), Err(TooLong));
    }
}
