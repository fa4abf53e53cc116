//! Face URIs as written: `--from`, `--via`, settings, and `ctl face create`.
//!
//! Parsing needs no network. Host names are resolved later by [`PeerUri::resolve`], because a name that does not
//! resolve is a network failure and not wrong usage.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use xylem_mgmt::{Carrier, FaceUri, FaceUriError, UriAuthority, UriHost};

use super::peer::PeerAddress;
use super::place::{HostPort, HostPortError, LinkKeyError, ServerNameError, split_key, split_sni};

/// The port that IANA lists for NDN over UDP and TCP.
pub const NDN_PORT: u16 = 6363;
/// Port at which NDN forwarders serve WebSockets.
pub const WEB_SOCKET_PORT: u16 = 9696;
/// Port of encrypted links; it is fixed so that a ticket survives a restart of the publisher.
pub const LINK_PORT: u16 = xylem_object::ticket::LINK_PORT;

/// Resolves a host name and a port to addresses, or returns why there are none.
pub type LookUp<'a> = &'a dyn Fn(&str, u16) -> Result<Vec<SocketAddr>, HostLookupError>;

/// Why a host name leads to no address.
#[derive(Debug, thiserror::Error)]
pub enum HostLookupError {
    /// The system does not resolve it: no such name, or no answer from a name server.
    #[error("cannot look up {host}: {why}")]
    Failed {
        /// The name.
        host: String,
        /// The system's error.
        why: io::Error,
    },
    /// It resolves to nothing.
    #[error("{0} has no address")]
    NoAddress(String),
}

/// A face URI of a kind that no program can dial.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} cannot be dialled")]
pub struct NotDiallable(pub FaceUri);

/// Why a text is no [`PeerUri`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerUriError {
    /// Its key is malformed.
    #[error(transparent)]
    Key(#[from] LinkKeyError),
    /// Its name for the server is malformed.
    #[error(transparent)]
    ServerName(#[from] ServerNameError),
    /// It has no scheme, and is no host with a port.
    #[error(transparent)]
    Place(#[from] HostPortError),
    /// Its scheme is unknown.
    #[error(
        "{0:?}: use HOST:PORT, xylem://, udp://, tcp://, ws://, wss://, unix:///, xylem+tls://, xylem+ws://, \
         xylem+wss:// or xylem+doh://"
    )]
    Scheme(String),
    /// Its address is malformed.
    #[error("{text:?}: {why}")]
    Address {
        /// The text.
        text: String,
        /// The defect.
        why: FaceUriError,
    },
    /// An Ethernet address without the interface that it is reached by.
    #[error("{0:?}: which interface? Write ether://[ADDRESS%eth0]")]
    Device(String),
    /// It is a face URI, but of a kind that cannot be dialled.
    #[error(transparent)]
    NotDiallable(#[from] NotDiallable),
}

/// Why a [`PeerUri`] leads to no address.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// It is of a kind that cannot be dialled.
    #[error(transparent)]
    NotDiallable(#[from] NotDiallable),
    /// Its host has no address.
    #[error(transparent)]
    Host(#[from] HostLookupError),
}

/// A place to dial or listen: `[KEY@]HOST:PORT` (encrypted link), or a [`FaceUri`] that can be dialled:
/// `xylem://[KEY@]HOST[:PORT]`, `udp://`, `udp4://`, `udp6://`, `tcp://`, `tcp4://`, `tcp6://`, `ws://HOST[:PORT]`,
/// `wss://HOST[:PORT][?sni=NAME]` or `unix:///PATH`; or an encrypted link within a TCP connection: `xylem+tls://[KEY@]HOST[:PORT][?sni=NAME]`,
/// `xylem+ws://`, `xylem+wss://`, `xylem+doh://`. `NAME` is the host name sent to the server if it differs from HOST.
/// `ether://[ADDRESS%DEVICE]` is an Ethernet address that this interface reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerUri {
    pub(super) key: Option<[u8; 32]>,
    pub(super) sni: Option<String>,
    /// The interface of an Ethernet address.
    pub(super) device: Option<String>,
    pub(super) face: FaceUri,
}

impl PeerUri {
    /// Makes the URI of the Unix socket at `path`; a path that is not text is approximated.
    pub fn unix(path: &Path) -> Self {
        let face = FaceUri::Unix(path.to_string_lossy().into_owned());
        Self { key: None, sni: None, device: None, face }
    }

    /// Whether an encrypted link is at the other end, over UDP or within TCP.
    pub fn is_encrypted(&self) -> bool {
        matches!(self.face, FaceUri::Xylem(_) | FaceUri::Carried(..))
    }

    /// Returns one [`PeerAddress`] for each address of the host.
    ///
    /// # Errors
    /// Why there is none.
    pub fn resolve(&self, look_up: LookUp<'_>) -> Result<Vec<PeerAddress>, ResolveError> {
        if let (FaceUri::Ether(address), Some(device)) = (&self.face, &self.device) {
            let (device, address) = (device.clone(), *address);
            return Ok(vec![PeerAddress::Ethernet { device, address }]);
        }
        let (peer, endpoint): (&dyn Fn(SocketAddr) -> PeerAddress, _) = match &self.face {
            FaceUri::Unix(path) => return Ok(vec![PeerAddress::Unix(PathBuf::from(path))]),
            FaceUri::Xylem(at) => (&|address| PeerAddress::Link { address, key: self.key }, at),
            FaceUri::Udp(at) => (&PeerAddress::Udp, at),
            FaceUri::Tcp(at) => (&PeerAddress::Tcp, at),
            FaceUri::WebSocket(at) => (&PeerAddress::WebSocket, at),
            FaceUri::Carried(carrier, at) => return self.resolve_carried(*carrier, at, look_up),
            FaceUri::SecureWebSocket(at) => {
                let name = self.server_name(at);
                let secure = |address| PeerAddress::SecureWebSocket { address, name: name.clone() };
                return Ok(self.addresses(at, look_up)?.into_iter().map(secure).collect());
            }
            other => return Err(NotDiallable(other.clone()).into()),
        };
        Ok(self.addresses(endpoint, look_up)?.into_iter().map(peer).collect())
    }

    /// Reads `ether://[ADDRESS%DEVICE]`.
    fn ethernet(text: &str) -> Result<Self, PeerUriError> {
        let wrong = |why| PeerUriError::Address { text: text.to_owned(), why };
        let face = FaceUri::of_dialled(text).map_err(wrong)?;
        let device = FaceUri::split_device(text).map(|(_, device)| device.to_owned());
        let device = device.ok_or_else(|| PeerUriError::Device(text.to_owned()))?;
        Ok(Self { key: None, sni: None, device: Some(device), face })
    }

    /// The name of a server within TLS: the one that is stated, or else its host's.
    fn server_name(&self, at: &UriAuthority) -> Option<String> {
        match (&self.sni, &at.host) {
            (Some(name), _) | (None, UriHost::Name(name)) => Some(name.clone()),
            _ => None,
        }
    }

    fn resolve_carried(
        &self,
        carrier: Carrier,
        at: &UriAuthority,
        look_up: LookUp<'_>,
    ) -> Result<Vec<PeerAddress>, ResolveError> {
        let name = self.server_name(at);
        let peer =
            |address| PeerAddress::Carried { carrier, address, name: name.clone(), key: self.key };
        Ok(self.addresses(at, look_up)?.into_iter().map(peer).collect())
    }

    fn addresses(
        &self,
        endpoint: &UriAuthority,
        look_up: LookUp<'_>,
    ) -> Result<Vec<SocketAddr>, HostLookupError> {
        match &endpoint.host {
            UriHost::Ip(ip) => Ok(vec![SocketAddr::new(*ip, endpoint.port)]),
            UriHost::Name(name) => look_up(name, endpoint.port),
            // The system resolves the zone to the interface's number.
            UriHost::Zoned(ip, zone) => look_up(&format!("{ip}%{zone}"), endpoint.port),
        }
    }
}

impl TryFrom<FaceUri> for PeerUri {
    type Error = NotDiallable;

    fn try_from(face: FaceUri) -> Result<Self, NotDiallable> {
        match face {
            FaceUri::Unix(_)
            | FaceUri::Xylem(_)
            | FaceUri::Udp(_)
            | FaceUri::Tcp(_)
            | FaceUri::WebSocket(_)
            | FaceUri::SecureWebSocket(_)
            | FaceUri::Carried(..) => Ok(Self { key: None, sni: None, device: None, face }),
            other => Err(NotDiallable(other)),
        }
    }
}

impl FromStr for PeerUri {
    type Err = PeerUriError;

    fn from_str(text: &str) -> Result<Self, PeerUriError> {
        if text.starts_with("ether://") {
            return Self::ethernet(text);
        }
        let (key, sni, uri) = match text.split_once("://") {
            None => {
                let (key, at) = split_key(text)?;
                // Without a scheme the port is required: a bare name could be anything.
                (key, None, format!("xylem://{}", at.parse::<HostPort>()?))
            }
            Some(("xylem", rest)) => {
                let (key, at) = split_key(rest)?;
                (key, None, format!("xylem://{at}"))
            }
            Some((scheme, rest)) if Carrier::of_scheme(scheme).is_some() => {
                let (key, at) = split_key(rest)?;
                let (at, sni) = split_sni(at)?;
                (key, sni, format!("{scheme}://{at}"))
            }
            Some(("wss", rest)) => {
                let (at, sni) = split_sni(rest)?;
                (None, sni, format!("wss://{at}"))
            }
            Some(_) => (None, None, text.to_owned()),
        };
        let face: FaceUri = uri.parse().map_err(|why: FaceUriError| match why {
            FaceUriError::Scheme => PeerUriError::Scheme(text.to_owned()),
            why => PeerUriError::Address { text: text.to_owned(), why },
        })?;
        Ok(Self { key, sni, ..face.try_into()? })
    }
}

impl PeerAddress {
    /// Returns the face URI of the far end.
    pub fn face_uri(&self) -> FaceUri {
        match self {
            Self::Link { address, .. } => FaceUri::Xylem(endpoint(*address)),
            Self::Udp(address) => FaceUri::Udp(endpoint(*address)),
            Self::Tcp(address) => FaceUri::Tcp(endpoint(*address)),
            Self::WebSocket(address) => FaceUri::WebSocket(endpoint(*address)),
            Self::Unix(path) => FaceUri::Unix(path.to_string_lossy().into_owned()),
            Self::SecureWebSocket { address, .. } => FaceUri::SecureWebSocket(endpoint(*address)),
            Self::Ethernet { address, .. } => FaceUri::Ether(*address),
            Self::Carried { carrier, address, .. } => {
                FaceUri::Carried(*carrier, endpoint(*address))
            }
            // The peer behind a relay has no address of its own.
            Self::Relayed { .. } => FaceUri::Null,
        }
    }
}

/// Converts an address to the form of face URIs.
pub fn endpoint(address: SocketAddr) -> UriAuthority {
    UriAuthority { host: UriHost::Ip(address.ip()), port: address.port() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<PeerAddress> {
        let uri: PeerUri = text.parse().expect(text);
        uri.resolve(&|_, port| Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))])).expect(text)
    }

    #[test]
    fn a_peer_is_written_as_it_is_dialled() {
        let key = "a5".repeat(32);
        for (text, written) in [
            (format!("xylem://{key}@192.0.2.1:7"), format!("xylem://{key}@192.0.2.1:7")),
            (format!("{key}@192.0.2.1:7"), format!("xylem://{key}@192.0.2.1:7")),
            ("xylem://[2001:db8::1]".to_owned(), "xylem://[2001:db8::1]:7348".to_owned()),
            (
                format!("xylem+tls://{key}@192.0.2.1?sni=cdn.example"),
                format!("xylem+tls://{key}@192.0.2.1:443?sni=cdn.example"),
            ),
            ("udp://192.0.2.1".to_owned(), "udp4://192.0.2.1:6363".to_owned()),
            ("tcp://[2001:db8::1]".to_owned(), "tcp6://[2001:db8::1]:6363".to_owned()),
            ("wss://192.0.2.1".to_owned(), "wss://192.0.2.1:443".to_owned()),
            (
                "wss://192.0.2.1:9?sni=ndn.example".to_owned(),
                "wss://192.0.2.1:9?sni=ndn.example".to_owned(),
            ),
            (
                "ether://[02:00:00:00:00:0A%eth0]".to_owned(),
                "ether://[02:00:00:00:00:0a%eth0]".to_owned(),
            ),
        ] {
            let peers = text.parse::<PeerUri>().unwrap().resolve(&|_, _| Ok(Vec::new())).unwrap();
            assert_eq!(peers[0].dialled(), Some(written.clone()));
            let again = written.parse::<PeerUri>().unwrap().resolve(&|_, _| Ok(Vec::new()));
            assert_eq!(again.unwrap(), peers);
        }
    }

    #[test]
    fn every_scheme() {
        let address: SocketAddr = "192.0.2.1:9".parse().expect("is an address");
        assert_eq!(of("192.0.2.1:9"), vec![PeerAddress::Link { address, key: None }]);
        assert_eq!(of("xylem://192.0.2.1:9"), vec![PeerAddress::Link { address, key: None }]);
        assert_eq!(of("udp://192.0.2.1:9"), vec![PeerAddress::Udp(address)]);
        assert_eq!(of("udp4://192.0.2.1:9"), vec![PeerAddress::Udp(address)]);
        assert_eq!(of("tcp4://192.0.2.1:9/"), vec![PeerAddress::Tcp(address)]);
        assert_eq!(of("ws://192.0.2.1:9/"), vec![PeerAddress::WebSocket(address)]);
        assert_eq!(of("unix:///run/x.sock"), vec![PeerAddress::Unix("/run/x.sock".into())]);
        let keyed = format!("{}@192.0.2.1:9", "a5".repeat(32));
        let peer = PeerAddress::Link { address, key: Some([0xa5; 32]) };
        assert_eq!(of(&keyed), vec![peer.clone()]);
        assert_eq!(of(&format!("xylem://{keyed}")), vec![peer]);
    }

    #[test]
    fn ports_have_usual_values() {
        let at = |port| SocketAddr::from(([192, 0, 2, 1], port));
        assert_eq!(of("udp://192.0.2.1"), vec![PeerAddress::Udp(at(6363))]);
        assert_eq!(of("ws://192.0.2.1"), vec![PeerAddress::WebSocket(at(9696))]);
        assert_eq!(of("tcp6://[::1]"), vec![PeerAddress::Tcp("[::1]:6363".parse().unwrap())]);
        assert_eq!(
            of("xylem://192.0.2.1"),
            vec![PeerAddress::Link { address: at(7348), key: None }]
        );
    }

    #[test]
    fn carrier_uris_contain_key_and_server_name() {
        let address = SocketAddr::from(([192, 0, 2, 1], 443));
        let plain = PeerAddress::Carried { carrier: Carrier::Tls, address, name: None, key: None };
        assert_eq!(of("xylem+tls://192.0.2.1"), vec![plain]);
        let named = PeerAddress::Carried {
            carrier: Carrier::Doh,
            address,
            name: Some("dns.example".into()),
            key: Some([0xa5; 32]),
        };
        let text = format!("xylem+doh://{}@192.0.2.1:443?sni=dns.example", "a5".repeat(32));
        assert_eq!(of(&text), vec![named]);
        assert_eq!(
            match &of("xylem+wss://localhost")[0] {
                PeerAddress::Carried { name, .. } => name.clone(),
                _ => None,
            },
            Some("localhost".to_owned())
        );
    }

    #[test]
    fn invalid_face_uris_are_refused() {
        for text in [
            "",
            "xylem+tls://h?sni=",
            "xylem+tls://h?sni=a b",
            "xylem+tls://h?x=y",
            "xylem+quic://h",
            "udp://h?sni=a",
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
            "udp6://192.0.2.1:9",
            "fd://3",
            "internal://",
            "ether://[01:02:03:04:05:06]",
        ] {
            assert!(text.parse::<PeerUri>().is_err(), "{text}");
        }
    }
}
