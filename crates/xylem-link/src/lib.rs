//! [`Endpoint`]: encrypted datagram links to peers, many over one socket; opaque packets in, opaque
//! packets out. Under construction: this is the public interface.

mod config;
mod endpoint;
mod keys;

pub use config::{
    AesOffer, BASE_DATAGRAM, CloseReason, Config, EndpointStats, Event, LinkId, LinkStats,
    MAX_DATAGRAM, MAX_PACKET, RekeyLimits, SendError, Transmit,
};
pub use endpoint::Endpoint;
pub use keys::{PeerKey, StaticKey};
