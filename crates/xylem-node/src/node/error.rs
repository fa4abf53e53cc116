//! [`NodeError`]: why a node does not run.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use xylem_base::{Blame, Failure, advised};
use xylem_forward::RouteError;
use xylem_object::PublisherIdError;
use xylem_packet::Name;
use xylem_peers::list_file::ListFileError;
use xylem_peers::reachable::ResolveError;
use xylem_store::StoreError;
use xylem_trust::{CertificateError, TrustError};

use xylem_engine::EngineError;

/// Why [`crate::run_node`] ends early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// No path for the Unix socket is known.
    #[error(
        "no path for a Unix socket is known here; name one with --listen, or with `listen` in --config"
    )]
    NoSocket,
    /// The directory of the default socket is not this user's alone.
    #[error(
        "{}: {why}: it has to be a directory of this user that no other can enter; remove it, set XDG_RUNTIME_DIR, or \
         name a socket with --listen",
        path.display()
    )]
    SocketDirectory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// An invalid listening address.
    #[error(transparent)]
    Place(ResolveError),
    /// An interface from the settings cannot join the multicast group.
    #[error("cannot join {group} on {interface}: {why}")]
    Multicast {
        /// The group.
        group: SocketAddr,
        /// The interface's address.
        interface: IpAddr,
        /// The system's error.
        why: io::Error,
    },
    /// An interface of the settings cannot be used for NDN over Ethernet.
    #[error("cannot use {device} ([node.ethernet] devices): {why}")]
    Ethernet {
        /// Its name.
        device: String,
        /// The system's error.
        why: io::Error,
    },
    /// The settings name an interface for multicast that is not here.
    #[error("no interface of this machine has the address {address} ([node.multicast] interfaces)")]
    NoInterface {
        /// The address.
        address: IpAddr,
    },
    /// The system does not list its interfaces.
    #[error("cannot list this machine's interfaces: {0}")]
    Interfaces(io::Error),
    /// The tables refuse a route of the settings.
    #[error("route {prefix}: {why}")]
    Route {
        /// Its prefix.
        prefix: Name,
        /// Reason.
        why: RouteError,
    },
    /// The tables refuse a strategy of the settings.
    #[error("strategy of {prefix}: {why}")]
    Strategy {
        /// Its prefix.
        prefix: Name,
        /// Reason.
        why: RouteError,
    },
    /// The tables refuse a region of the settings.
    #[error("region {region}: {why}")]
    Region {
        /// Its name.
        region: Name,
        /// Reason.
        why: RouteError,
    },
    /// A file holds no certificate to trust.
    #[error("anchor {}: {why}", path.display())]
    Anchor {
        /// The file.
        path: PathBuf,
        /// Reason.
        why: AnchorFlaw,
    },
    /// The list of a relay's clients cannot be used.
    #[error("the list of the relay's clients {}: {why}", path.display())]
    Clients {
        /// The file.
        path: PathBuf,
        /// Reason.
        why: ClientListError,
    },
    /// The clients that a relay keeps away are not known.
    #[error(
        "{0}; this relay does not start, because it would serve clients that are banned; mend the file, or remove it to \
         end all bans"
    )]
    Bans(StoreError),
    /// The directory of the node's keys cannot be used.
    #[error("{}", advised(.0))]
    Directory(StoreError),
    /// The directory of cached packets cannot be used.
    #[error("cannot keep a cache in {}: {why}", path.display())]
    Cache {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// The directory of the repository cannot be used.
    #[error("cannot use the repository in {}: {why}", path.display())]
    Repository {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// Failures of sockets.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The system gives no random numbers.
    #[error(transparent)]
    Randomness(#[from] xylem_base::NoRandomness),
    /// A key of the store cannot be read or made.
    #[error(transparent)]
    Key(#[from] xylem_keys::KeyFileError),
    /// The store of mail fails.
    #[error(transparent)]
    MailStore(#[from] xylem_mailbox::MailStoreError),
}

/// Why a certificate is not one to trust.
#[derive(Debug, thiserror::Error)]
pub enum AnchorFlaw {
    /// It is malformed.
    #[error(transparent)]
    Form(#[from] CertificateError),
    /// The anchors do not vouch for it.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// Why a list of link keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientListError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] ListFileError),
    /// A line holds something else than a link key.
    #[error("line {number} is no link key: {why}")]
    Line {
        /// Number of the line, from 1.
        number: usize,
        /// The defect.
        why: PublisherIdError,
    },
}

impl Failure for NodeError {
    fn blame(&self) -> Blame {
        match self {
            Self::NoSocket
            | Self::Place(_)
            | Self::Multicast { .. }
            | Self::NoInterface { .. }
            | Self::Route { .. }
            | Self::Strategy { .. }
            | Self::Region { .. }
            | Self::Anchor { .. }
            | Self::Clients { .. } => Blame::Usage,
            Self::Interfaces(_)
            | Self::Ethernet { .. }
            | Self::Directory(_)
            | Self::Cache { .. }
            | Self::Repository { .. }
            | Self::SocketDirectory { .. }
            | Self::Bans(_) => Blame::Local,
            Self::Engine(e) => e.blame(),
            Self::Randomness(e) => e.blame(),
            Self::Key(e) => e.blame(),
            Self::MailStore(e) => e.blame(),
        }
    }
}
