//! What callers say and hear: options, events, errors.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use xylem_library::{LibraryEvent, SaveOptions};
use xylem_link::{Level, Shaping};
use xylem_mgmt::Carrier;

/// How to publish one file or directory.
#[derive(Clone, Debug)]
pub struct ShareOptions {
    /// The file or directory; it stays where it is.
    pub path: PathBuf,
    /// Object name as an NDN URI (`/alice/model`); default: under the publisher's key id.
    pub name: Option<String>,
    /// A 32-byte Ed25519 secret key file; default: the store's own identity, made on first use.
    pub key_file: Option<PathBuf>,
    /// Share nothing if a name in it cannot be kept on every system, instead of telling it.
    pub portable: bool,
    /// Where the encrypted link listens, over UDP or in carriers; empty: UDP on all interfaces, the
    /// usual port or a free one.
    pub listen: Vec<Peer>,
    /// PEM files with the certificate chain and the key that carriers over TLS show; `None`: a
    /// certificate made up for this run.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Also serve unencrypted NDN over UDP and TCP at these addresses.
    pub plain: Vec<SocketAddr>,
    /// NDN forwarders through which to serve as well: the name is registered with each.
    pub via: Vec<Peer>,
    /// What sizes and times on the encrypted link show.
    pub shaping: Shaping,
    /// The path is a file that grows; when its checkpoints are made.
    pub follow: Option<xylem_library::follow::FollowOptions>,
    /// Where outboards and identities are kept.
    pub store: PathBuf,
}

/// Where a node can be reached, or can listen: what a face URI ([`crate::PeerUri`]) comes to once
/// its host name has been looked up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Encrypted link, `[KEY@]HOST:PORT` or `xylem://[KEY@]HOST:PORT`.
    Link {
        /// Where it listens.
        address: SocketAddr,
        /// X25519 key that the peer must prove; `None`: the ticket's, where there is one.
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
}

impl Peer {
    /// The key that the peer must prove, where this is an encrypted link, carried or not.
    pub(crate) fn link_key_mut(&mut self) -> Option<&mut Option<[u8; 32]>> {
        match self {
            Self::Link { key, .. } | Self::Carried { key, .. } => Some(key),
            _ => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link { address, .. } => write!(f, "{address}"),
            Self::Udp(address) => write!(f, "udp://{address}"),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::WebSocket(address) => write!(f, "ws://{address}"),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Carried { carrier, address, .. } => {
                write!(f, "{}://{address}", carrier.scheme())
            }
        }
    }
}

/// How to fetch one ticket.
#[derive(Clone, Debug)]
pub struct GetOptions {
    /// `xylem:…`
    pub ticket: String,
    /// What becomes of what is fetched.
    pub save: SaveOptions,
    /// Peers to ask besides the ticket's own addresses (if any is given, only these are asked).
    pub from: Vec<Peer>,
    /// Bytes per second at most.
    pub limit_rate: Option<u64>,
    /// What sizes and times on the encrypted link show.
    pub shaping: Shaping,
    /// Give up after this long without any verified progress.
    pub give_up: Duration,
    /// Where outboards of partial fetches are kept.
    pub store: PathBuf,
    /// Everything is on the device, names included, before the fetch counts as done.
    pub fsync: bool,
    /// Whether others are served meanwhile; not done for ranges and standard output.
    pub serve: Option<ServeOptions>,
}

/// How a fetch serves others what it has verified.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Where it listens for encrypted links over UDP; empty: on all interfaces, at a free port.
    pub listen: Vec<SocketAddr>,
    /// Go on when the fetch is complete, until asked to stop.
    pub seed: bool,
}

/// How to compare what is on disk with a ticket.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// File or directory.
    pub path: PathBuf,
    /// `xylem:…`
    pub ticket: String,
    /// Peers to ask for tree nodes, as in [`GetOptions::from`].
    pub from: Vec<Peer>,
    /// Give up on peers after this long.
    pub give_up: Duration,
    /// Where outboards are kept.
    pub store: PathBuf,
}

/// Outcome of [`crate::get`].
#[derive(Clone, Debug, Default)]
pub struct GetSummary {
    /// Root of the file or of the directory's listing, hexadecimal; what `xylem sum` prints.
    pub root: String,
    /// Final path; `None` for standard output.
    pub path: Option<PathBuf>,
    /// Verified bytes of content in the result.
    pub bytes: u64,
    /// Files in the result.
    pub files: u64,
    /// Bytes of content that came over the network in this run.
    pub fetched: u64,
    /// Bytes that an earlier run had left and that verified.
    pub resumed: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// The whole was there already; nothing was fetched.
    pub already_complete: bool,
    /// Bytes of content by the peer that they came from.
    pub peers: Vec<PeerBytes>,
    /// Bytes of content that others were sent meanwhile.
    pub served: u64,
}

/// What came from one peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerBytes {
    /// Its address.
    pub peer: String,
    /// Verified bytes of content.
    pub bytes: u64,
}

/// What happens while a call runs, in order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Something about files of this machine.
    Library(LibraryEvent),
    /// Ready to serve. The ticket is complete: give it to whoever should fetch.
    Shared {
        /// `xylem:…`
        ticket: String,
        /// Versioned NDN name, as URI.
        name: String,
        /// Root, hexadecimal.
        root: String,
        /// Bytes of content.
        bytes: u64,
        /// Files.
        files: u64,
        /// Encrypted-link addresses.
        listen: Vec<SocketAddr>,
        /// Plain NDN addresses.
        plain: Vec<SocketAddr>,
        /// Face URIs of carriers for the encrypted link; a ticket does not name them.
        carriers: Vec<String>,
    },
    /// A node or a share listens there.
    Listening {
        /// Face URI.
        uri: String,
    },
    /// A forwarder took the registration of what is shared: from now on it can be fetched there.
    Registered {
        /// The forwarder, as face URI.
        forwarder: String,
        /// The prefix, as NDN URI.
        prefix: String,
    },
    /// A link came up.
    PeerConnected {
        /// Who, as an address.
        peer: String,
    },
    /// Sizes and times of the link that came up are shaped, or this side wanted it.
    Shaped {
        /// Who the peer is, as an address.
        peer: String,
        /// The level that both sides agreed to.
        level: Level,
        /// What this side wanted.
        wanted: Level,
    },
    /// A link ended.
    PeerGone {
        /// Who.
        peer: String,
        /// Why.
        why: String,
    },
    /// A peer sent something that did not verify; it was dropped and counted.
    PeerMisbehaved {
        /// Who.
        peer: String,
        /// What it sent.
        what: String,
    },
    /// The signed manifest verified: what is about to be fetched.
    Found {
        /// Suggested file name.
        name: String,
        /// Whether it is a directory.
        directory: bool,
        /// Root, hexadecimal.
        root: String,
        /// Bytes of content.
        bytes: u64,
        /// Files.
        files: u64,
    },
    /// Progress of a fetch; at most ten a second.
    Progress {
        /// Verified bytes so far, resumed ones included.
        verified: u64,
        /// Bytes in all.
        total: u64,
        /// Peers that are being asked.
        peers: usize,
    },
    /// What a fetch has verified is served to others from now on.
    Offering {
        /// Where.
        listen: Vec<SocketAddr>,
        /// The key that links to there prove.
        key: [u8; 32],
    },
    /// The fetch is complete and goes on serving until it is asked to stop.
    Seeding(Box<GetSummary>),
    /// Something happened with mail.
    Mail(crate::mail::MailEvent),
}

impl Event {
    /// Something that was wanted could not be done; the run goes on.
    pub(crate) fn warning(what: impl Into<String>) -> Self {
        Self::Library(LibraryEvent::Warning { what: what.into() })
    }
}

/// Passes on what the library tells.
pub(crate) fn from_library(on_event: &mut dyn FnMut(Event)) -> impl FnMut(LibraryEvent) + use<'_> {
    move |event| on_event(Event::Library(event))
}
