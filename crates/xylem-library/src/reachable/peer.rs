//! [`Peer`]: where a node can be reached or can listen. [`FaceAddress`]: the same as people see it.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Serialize, Serializer};
use xylem_forward::FaceId;
use xylem_link::PeerKey;
use xylem_mgmt::{Carrier, FaceUri};
use xylem_reach::relay::Target;

/// Where a node can be reached, or can listen: what a face URI ([`PeerUri`](super::PeerUri)) comes to once
/// its host name has been looked up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Encrypted link, `[KEY@]HOST:PORT` or `xylem://[KEY@]HOST:PORT`.
    Link {
        /// Where it listens.
        address: SocketAddr,
        /// X25519 key that the peer must prove; `None`: any, unless the ticket names the address.
        key: Option<[u8; 32]>,
    },
    /// Ordinary NDN over UDP, `udp://HOST:PORT`.
    Udp(SocketAddr),
    /// Ordinary NDN over TCP, `tcp://HOST:PORT`.
    Tcp(SocketAddr),
    /// NDN over WebSocket, `ws://HOST:PORT`.
    WebSocket(SocketAddr),
    /// NDN over a Unix socket, `unix:///PATH`.
    Unix(PathBuf),
    /// Encrypted link whose datagrams travel in a TCP connection, such as
    /// `xylem+tls://[KEY@]HOST:PORT` (docs/spec/carriers.md).
    Carried {
        /// What the connection looks like.
        carrier: Carrier,
        /// Where it listens.
        address: SocketAddr,
        /// Host name that the server is told, in TLS and HTTP; `None`: its address.
        name: Option<String>,
        /// As for [`Peer::Link`].
        key: Option<[u8; 32]>,
    },
    /// Encrypted link through a relay that the engine was told of (docs/spec/reach.md).
    Relayed {
        /// The key of the relay.
        relay: [u8; 32],
        /// Where it is tried first, for people.
        at: SocketAddr,
        /// Whom the relay is asked for.
        target: Target,
        /// As for [`Peer::Link`].
        key: Option<[u8; 32]>,
    },
}

/// Why a link that is dialled without a key does not come up.
pub const KEYLESS: &str = "nobody answers there without a key: give KEY@HOST:PORT, or have it run \
     with --accept-open (and `get` with --ask-who-answers)";

impl Peer {
    /// Where an encrypted link is to be dialled, carried or not.
    pub fn link_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Link { address, .. } | Self::Carried { address, .. } => Some(*address),
            _ => None,
        }
    }

    /// Whether it is an encrypted link that is dialled without knowing the key.
    pub fn is_keyless(&self) -> bool {
        self.is_link() && self.link_key().is_none()
    }

    /// Whether it is an encrypted link, carried, relayed or neither.
    pub fn is_link(&self) -> bool {
        matches!(self, Self::Link { .. } | Self::Carried { .. } | Self::Relayed { .. })
    }

    /// The key that the peer must prove, where this is an encrypted link and says one.
    pub fn link_key(&self) -> Option<[u8; 32]> {
        match self {
            Self::Link { key, .. } | Self::Carried { key, .. } | Self::Relayed { key, .. } => *key,
            _ => None,
        }
    }

    /// The key that the peer must prove, where this is an encrypted link, carried or not.
    pub fn link_key_mut(&mut self) -> Option<&mut Option<[u8; 32]>> {
        match self {
            Self::Link { key, .. } | Self::Carried { key, .. } | Self::Relayed { key, .. } => {
                Some(key)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        FaceAddress::from(self).fmt(f)
    }
}

/// One end of a face, or a place where something listens. `Display`, and the JSON of events, is
/// `HOST:PORT` for an encrypted link and a face URI for all else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaceAddress {
    /// An encrypted link over UDP.
    Link(SocketAddr),
    /// Ordinary NDN over UDP, that was dialled or has sent something.
    Udp(SocketAddr),
    /// Ordinary NDN over TCP that was dialled.
    Tcp(SocketAddr),
    /// NDN over WebSocket that was dialled.
    WebSocket(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
    /// An encrypted link in a carrier that was dialled.
    Carried(Carrier, SocketAddr),
    /// An encrypted link through the relay that is there.
    Relayed(SocketAddr),
    /// A connection that came in, or where something listens.
    Uri(FaceUri),
    /// Where encrypted links come in, and the key by which they are dialled.
    Keyed(FaceUri, PeerKey),
    /// A multicast group on the interface that has this address.
    Group(FaceUri, Ipv4Addr),
    /// A face that is gone, by its number.
    Gone(FaceId),
}

impl FaceAddress {
    /// With the key, if encrypted links come in there.
    pub fn with_key(self, key: PeerKey) -> Self {
        match self {
            Self::Uri(uri @ (FaceUri::Xylem(_) | FaceUri::Carried(..))) => Self::Keyed(uri, key),
            other => other,
        }
    }

    /// In a sentence.
    pub fn for_people(&self) -> String {
        match self {
            Self::Relayed(relay) => format!("relay {relay}"),
            other => other.to_string(),
        }
    }
}

impl From<SocketAddr> for FaceAddress {
    /// That of an encrypted link.
    fn from(address: SocketAddr) -> Self {
        Self::Link(address)
    }
}

impl From<&Peer> for FaceAddress {
    fn from(peer: &Peer) -> Self {
        match peer {
            Peer::Link { address, .. } => Self::Link(*address),
            Peer::Udp(address) => Self::Udp(*address),
            Peer::Tcp(address) => Self::Tcp(*address),
            Peer::WebSocket(address) => Self::WebSocket(*address),
            Peer::Unix(path) => Self::Unix(path.clone()),
            Peer::Carried { carrier, address, .. } => Self::Carried(*carrier, *address),
            Peer::Relayed { at, .. } => Self::Relayed(*at),
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
            Self::Gone(face) => face.fmt(f),
        }
    }
}

impl Serialize for FaceAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
