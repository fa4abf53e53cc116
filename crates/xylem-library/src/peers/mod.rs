//! Questions among the peers of one publication, and the use of their answers. The links belong to the caller, which
//! identifies them by face.
//!
//! [`FindExchange`] is the first exchange over a fresh link. [`Finder`] asks for further peers. Addresses of other peers are
//! hints: the tree proves pieces, and the link proves a dialled peer's key (docs/spec/peers.md, docs/threat-model.md).

mod finder;
mod finding;
mod gone;
mod seed;

pub use finder::{Finder, PeerToDial};
pub use finding::{AskedLink, FindExchange, FindOutcome, NOT_THERE};
pub use gone::{PeerRefusals, REFUSES_PIECES};
pub use seed::port_of;
