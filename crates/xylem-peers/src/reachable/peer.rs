//! [`PeerAddress`]: an address to dial or listen at. [`FaceAddress`]: an address as shown.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Serialize, Serializer};
use xylem_forward::FaceId;
use xylem_link::PeerKey;
use xylem_mgmt::{Carrier, FaceUri};
use xylem_reach::relay::ConnectTarget;

/// An address to dial or listen at: a face URI ([`PeerUri`](super::PeerUri)) after its host name is resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PeerAddress {
    /// Encrypted link, `[KEY@]HOST:PORT` or `xylem://[KEY@]HOST:PORT`.
    Link {
        /// Where it listens.
        address: SocketAddr,
        /// X25519 key that the peer must prove; `None`: any, unless the ticket names the address.
        key: Option<[u8; 32]>,
    },
    /// Plain NDN over UDP, `udp://HOST:PORT`.
    Udp(SocketAddr),
    /// Plain NDN over TCP, `tcp://HOST:PORT`.
    Tcp(SocketAddr),
    /// NDN over WebSocket, `ws://HOST:PORT`.
    WebSocket(SocketAddr),
    /// NDN over WebSocket within TLS, `wss://HOST:PORT`.
    SecureWebSocket {
        /// Where it listens.
        address: SocketAddr,
        /// The host's name, for which the certificate has to be; `None`: its address.
        name: Option<String>,
    },
    /// NDN over a Unix socket, `unix:///PATH`.
    Unix(PathBuf),
    /// NDN over Ethernet, `ether://[ADDRESS%DEVICE]`.
    Ethernet {
        /// The name of this machine's interface.
        device: String,
        /// The Ethernet address of the other end, or of a group.
        address: [u8; 6],
    },
    /// Encrypted link with its datagrams in a TCP connection, such as `xylem+tls://[KEY@]HOST:PORT`
    /// (docs/spec/carriers.md).
    Carried {
        /// The carrier.
        carrier: Carrier,
        /// Where it listens.
        address: SocketAddr,
        /// Host name sent to the server in TLS and HTTP; `None`: its address.
        name: Option<String>,
        /// As for [`PeerAddress::Link`].
        key: Option<[u8; 32]>,
    },
    /// Encrypted link through a relay that the engine knows (docs/spec/reach.md).
    Relayed {
        /// The key of the relay.
        relay: [u8; 32],
        /// The relay's first address, for display.
        at: SocketAddr,
        /// The peer requested from the relay.
        target: ConnectTarget,
        /// As for [`PeerAddress::Link`].
        key: Option<[u8; 32]>,
    },
}

/// Why a link that is dialled without a key does not come up.
pub const KEYLESS: &str = "no peer answers there without a key: give KEY@HOST:PORT, or run that peer \
     with --accept-open (and `xylem get` with --ask-who-answers)";

impl PeerAddress {
    /// Returns the address at which an encrypted link is dialled, carried or not.
    pub fn link_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Link { address, .. } | Self::Carried { address, .. } => Some(*address),
            _ => None,
        }
    }

    /// Returns whether this is an encrypted link that is dialled without a known key.
    pub fn is_keyless(&self) -> bool {
        self.is_link() && self.link_key().is_none()
    }

    /// Returns whether this is an encrypted link: plain, carried or relayed.
    pub fn is_link(&self) -> bool {
        matches!(self, Self::Link { .. } | Self::Carried { .. } | Self::Relayed { .. })
    }

    /// Returns the key that the peer must prove, if this is an encrypted link with a key.
    pub fn link_key(&self) -> Option<[u8; 32]> {
        match self {
            Self::Link { key, .. } | Self::Carried { key, .. } | Self::Relayed { key, .. } => *key,
            _ => None,
        }
    }

    /// Writes the URI by which this peer is dialled, with the key of an encrypted link and the name for the server:
    /// [`PeerUri`](super::PeerUri) reads it. `None` for a peer behind a relay.
    pub fn dialled(&self) -> Option<String> {
        let name = match self {
            Self::Relayed { .. } => return None,
            Self::Ethernet { device, .. } => {
                let uri = self.face_uri().to_string();
                return Some(uri.replace(']', &format!("%{device}]")));
            }
            Self::Carried { name, .. } | Self::SecureWebSocket { name, .. } => name.as_ref(),
            _ => None,
        };
        let uri = self.face_uri();
        let mut text = match self.link_key() {
            Some(key) => FaceAddress::Keyed(uri, PeerKey(key)).to_string(),
            None => uri.to_string(),
        };
        if let Some(name) = name {
            text.push_str("?sni=");
            text.push_str(name);
        }
        Some(text)
    }

    /// Returns the field of that key, if this is an encrypted link.
    pub fn link_key_mut(&mut self) -> Option<&mut Option<[u8; 32]>> {
        match self {
            Self::Link { key, .. } | Self::Carried { key, .. } | Self::Relayed { key, .. } => {
                Some(key)
            }
            _ => None,
        }
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        FaceAddress::from(self).fmt(f)
    }
}

/// One end of a face, or a place to listen. `Display` and the JSON of events are `HOST:PORT` for an encrypted link, and
/// a face URI otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaceAddress {
    /// An encrypted link over UDP.
    Link(SocketAddr),
    /// Plain NDN over UDP, dialled or incoming.
    Udp(SocketAddr),
    /// Plain NDN over TCP, dialled.
    Tcp(SocketAddr),
    /// NDN over WebSocket, dialled.
    WebSocket(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
    /// An encrypted link in a carrier, dialled.
    Carried(Carrier, SocketAddr),
    /// An encrypted link through the relay at this address.
    Relayed(SocketAddr),
    /// An incoming connection, or a place to listen.
    Uri(FaceUri),
    /// A place to listen for encrypted links, and the key with which they are dialled.
    Keyed(FaceUri, PeerKey),
    /// A multicast group on the interface of this address.
    Group(FaceUri, IpAddr),
    /// An Ethernet address on the interface of this name.
    Ethernet(FaceUri, String),
    /// A face that has ended, by its number.
    Gone(FaceId),
}

impl FaceAddress {
    /// Adds the key, if this is a place for encrypted links.
    pub fn with_key(self, key: PeerKey) -> Self {
        match self {
            Self::Uri(uri @ (FaceUri::Xylem(_) | FaceUri::Carried(..))) => Self::Keyed(uri, key),
            other => other,
        }
    }

    /// Returns the address as a part of a sentence.
    pub fn for_people(&self) -> String {
        match self {
            Self::Relayed(relay) => format!("relay {relay}"),
            Self::Uri(uri @ FaceUri::WebSocketClient(_)) => {
                let uri = uri.to_string();
                format!("web client {}", uri.split_once("://").map_or(uri.as_str(), |(_, at)| at))
            }
            other => other.to_string(),
        }
    }
}

impl From<SocketAddr> for FaceAddress {
    /// Makes the address of an encrypted link.
    fn from(address: SocketAddr) -> Self {
        Self::Link(address)
    }
}

impl From<&PeerAddress> for FaceAddress {
    fn from(peer: &PeerAddress) -> Self {
        match peer {
            PeerAddress::Link { address, .. } => Self::Link(*address),
            PeerAddress::Udp(address) => Self::Udp(*address),
            PeerAddress::Tcp(address) => Self::Tcp(*address),
            PeerAddress::WebSocket(address) => Self::WebSocket(*address),
            PeerAddress::Unix(path) => Self::Unix(path.clone()),
            PeerAddress::SecureWebSocket { .. } => Self::Uri(peer.face_uri()),
            PeerAddress::Ethernet { device, .. } => Self::Ethernet(peer.face_uri(), device.clone()),
            PeerAddress::Carried { carrier, address, .. } => Self::Carried(*carrier, *address),
            PeerAddress::Relayed { at, .. } => Self::Relayed(*at),
        }
    }
}

impl fmt::Display for FaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(address) => write!(f, "{address}"),
            Self::Udp(address) => write!(f, "udp://{address}"),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::WebSocket(address) => write!(f, "ws://{address}"),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Carried(carrier, address) => write!(f, "{}://{address}", carrier.scheme()),
            Self::Relayed(relay) => write!(f, "xylem+relay://{relay}"),
            Self::Uri(uri) => uri.fmt(f),
            Self::Keyed(uri, key) => match uri.to_string().split_once("://") {
                Some((scheme, at)) => write!(f, "{scheme}://{key}@{at}"),
                None => uri.fmt(f),
            },
            Self::Group(uri, interface) => write!(f, "{uri} on {interface}"),
            Self::Ethernet(uri, device) => write!(f, "{uri} on {device}"),
            Self::Gone(face) => face.fmt(f),
        }
    }
}

impl Serialize for FaceAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
