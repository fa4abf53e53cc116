//! [`NodeError`]: why a node does not run.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use xylem_forward::RouteError;
use xylem_library::{Blame, Error, Failure};
use xylem_packet::Name;

use xylem_engine::EngineError;

/// Why [`crate::run_node`] ends early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// No place for the Unix socket is known.
    #[error("XDG_RUNTIME_DIR is not set; name a socket with `listen` in --config")]
    NoSocket,
    /// A place to listen at that is none.
    #[error("{0}")]
    Place(String),
    /// An interface that the settings name does not take part in multicast.
    #[error("cannot join {group} on {interface}: {why}")]
    Multicast {
        /// The group.
        group: SocketAddrV4,
        /// The interface, by its address.
        interface: Ipv4Addr,
        /// What the system says.
        why: io::Error,
    },
    /// A route of the settings that the tables don't take.
    #[error("route {prefix}: {why}")]
    Route {
        /// Its prefix.
        prefix: Name,
        /// Why.
        why: RouteError,
    },
    /// A strategy of the settings that the tables don't take.
    #[error("strategy of {prefix}: {why}")]
    Strategy {
        /// Its prefix.
        prefix: Name,
        /// Why.
        why: RouteError,
    },
    /// A region of the settings that the tables don't take.
    #[error("region {region}: {why}")]
    Region {
        /// Its name.
        region: Name,
        /// Why.
        why: RouteError,
    },
    /// A file that holds no certificate to trust.
    #[error("anchor {}: {why}", path.display())]
    Anchor {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The directory of the node's keys.
    #[error("cannot make {}: {why}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// The directory of cached packets.
    #[error("cannot keep a cache in {}: {why}", path.display())]
    Cache {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// Of the sockets.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Of keys, mail, and the system's randomness.
    #[error("{0}")]
    Library(#[from] Error),
}

impl Failure for NodeError {
    fn blame(&self) -> Blame {
        match self {
            Self::NoSocket
            | Self::Place(_)
            | Self::Multicast { .. }
            | Self::Route { .. }
            | Self::Strategy { .. }
            | Self::Region { .. }
            | Self::Anchor { .. } => Blame::Usage,
            Self::Directory { .. } | Self::Cache { .. } => Blame::Local,
            Self::Engine(e) => e.blame(),
            Self::Library(e) => e.blame,
        }
    }
}

crate::failure::of_library!(NodeError: xylem_library::keys::KeyError, xylem_library::mail::MailStoreError);
