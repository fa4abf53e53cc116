//! Who is where, asked of networks that others run: [`Lan`] (mDNS), [`Dht`] (the BitTorrent mainline DHT), [`PortMap`]
//! (routers that map ports, by PCP, NAT-PMP and UPnP).
//!
//! Other libraries do the work, on threads of their own, and what comes of it waits in a bounded channel; [`Wake`] is
//! called when something does. No call here waits for a network, but for the end of a handle, which takes
//! back what was told others and waits for that a second at most. Nothing that comes is believed: addresses are only
//! ever dialled, and who answers there has to prove a key or the content (docs/spec/reach.md).
//!
//! It has no clock: who asks again, and when, is the caller's.

mod dht;
mod gateway;
mod lan;
mod nodes;
mod portmap;

use std::sync::Arc;

pub use dht::{Dht, DhtEvent, DhtOptions, MAX_QUESTIONS, Question, SignedItem};
pub use gateway::default_gateway;
pub use lan::{Lan, LanFound};
pub use nodes::{is_local, keep_nodes, known_nodes};
pub use portmap::{MapEvent, Mapped, PortMap, PortMapOptions, Protocol};

/// Called, on any thread, when there is something to take from a handle.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Why one of these does not work here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The system gives no thread.
    #[error("no thread: {0}")]
    Thread(#[from] std::io::Error),
    /// mDNS.
    #[error("mDNS: {0}")]
    Lan(String),
    /// As many questions as may be under way, or presences as may be announced, are.
    #[error("too much is asked at once")]
    Busy,
}
