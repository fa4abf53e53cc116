//! Finds peers through services that others run: [`Lan`] (mDNS), [`Dht`] (the BitTorrent mainline DHT), [`PortMap`]
//! (routers that map ports, by PCP, NAT-PMP and UPnP).
//!
//! Other libraries do the work, on threads of their own; the DHT is our own crate `xylem-dht`, around which [`Dht`] has
//! sockets and a thread. Results wait in a bounded channel; [`Wake`] is called when one arrives. No call here waits for a network, except that dropping a handle withdraws its announcements and
//! waits for that, a second at most. No result is trusted: addresses are only dialled, and a peer there has to prove a
//! key or the content (docs/spec/reach.md).
//!
//! The caller decides when to ask again.

mod dht;
mod first_nodes;
mod gateway;
mod lan;
mod mapping;
#[cfg(not(feature = "portmap"))]
mod no_portmap;
mod nodes;
#[cfg(feature = "portmap")]
mod portmap;

use std::sync::Arc;

pub use dht::{
    Dht, DhtEvent, DhtFailure, DhtOptions, DhtQuestion, ListenPorts, MAX_QUESTIONS, SignedItem,
};
pub use first_nodes::FirstNodes;
pub use gateway::default_gateway;
pub use lan::{Lan, LanFound};
pub use mapping::{MapEvent, PortMapOptions, Protocol, RouterMapping};
#[cfg(not(feature = "portmap"))]
pub use no_portmap::{PortMap, PortMapError};
pub use nodes::{MAX_KEPT_NODES, is_local, keep_nodes, known_nodes, nodes_to_keep};
#[cfg(feature = "portmap")]
pub use portmap::{PortMap, PortMapError, UpnpError};

/// Called on any thread when a handle has an event.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Why discovery fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The system starts no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
    /// mDNS failed.
    #[error("mDNS: {0}")]
    Lan(String),
    /// The limit of questions in progress, or of announcements, is reached.
    #[error("too many questions or announcements at once")]
    Busy,
}
