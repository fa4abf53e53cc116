//! Peers, as far as no packet of content is concerned. [`reachable`] reads the addresses that people write, and chooses our
//! own for a ticket. [`admission`] decides which newcomers get a face, and which face gives way to them.
//!
//! Among the peers of one publication, whose links belong to the caller, which identifies them by face: [`FindExchange`] is
//! the first exchange over a fresh link, and [`Finder`] asks for further peers. Addresses of other peers are hints: the
//! tree proves pieces, and the link proves a dialled peer's key (docs/spec/peers.md, docs/threat-model.md).
//!
//! There is no socket and no clock here. [`command_times`] and [`relay_clients`] keep what a restart must not lose.

pub mod reachable;

pub mod admission;

pub mod announcers;
mod finder;
mod finding;
mod gone;
mod seed;

pub mod code;

pub mod list_file;
mod node_file;

pub mod command_times;
pub mod relay_bans;
pub mod relay_clients;
pub mod relay_list;

pub use finder::{Finder, PeerToDial};
pub use finding::{AskedLink, FindExchange, FindOutcome, NOT_THERE, NamedManifest};
pub use gone::{PeerRefusal, PeerRefusals, REFUSES_PIECES, RefusalReason, RefusedPart};
pub use seed::port_of;
