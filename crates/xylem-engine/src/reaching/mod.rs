//! Peers that are reached through a relay (docs/spec/reach.md): connects the relay clients of `xylem-reach` with the
//! link's endpoint.
//!
//! The endpoint knows nothing of relays. Each peer at a relay has a synthetic address under which the endpoint sends
//! and receives, as links within TCP have. A datagram to such an address gets the relay's header and is sent to the
//! relay; one from a relay loses its header. An engine without relays pays one comparison a datagram.

mod handle;
mod observed;
mod punching;
mod relays;
mod sending;
mod state;
mod talking;

pub use handle::RelayHandle;
pub(crate) use state::{PunchSocketUser, RelayConnections, address_of};
pub use state::{RelayNotice, RelayUse};
