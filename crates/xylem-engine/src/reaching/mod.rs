//! Peers that are reached through a relay (docs/spec/reach.md): between the relays' clients of `xylem-reach` and the
//! link's endpoint.
//!
//! The endpoint knows nothing of relays: each peer at a relay has a made-up address under which the endpoint sends and
//! receives, as links within TCP have. What goes there gets the relay's header and is sent to the relay; what comes from a
//! relay loses it. An engine without relays pays one comparison a datagram.

mod handle;
mod observed;
mod punching;
mod relays;
mod sending;
mod state;
mod talking;

pub use handle::RelayHandle;
pub(crate) use state::Reaching;
pub use state::{RelayNews, RelayUse};
