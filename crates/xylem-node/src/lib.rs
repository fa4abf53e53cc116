//! Entry points [`share`], [`get`] and [`verify`]: sockets, clock and threads around the sans-io
//! crates, so that a command (or another program) can publish and fetch with one call each.
//!
//! Bytes come from the file system (`xylem-store`) and leave through UDP or TCP sockets, and the
//! other way round. This crate never prints and never exits: it reports [`Event`]s and returns
//! [`Error`]s whose [`Blame`] a caller maps to an exit code.

mod api;
mod failure;

mod hashing;
mod publish;
mod record;
mod rescan;
mod walk;

mod addresses;
mod dial;
mod engine;
mod identity;
mod tcp;
mod udp;

mod shelf;
mod sink;

mod get;
mod share;
mod verify;

pub use api::{
    Blame, Error, Event, Existing, GetOptions, GetSummary, Output, Peer, ShareOptions, Stop,
    VerifyOptions, VerifySummary,
};
pub use get::get;
pub use share::share;
pub use shelf::DiskShelf;
pub use verify::verify;

use std::path::Path;

/// The root that [`share`] would publish for `path`, hexadecimal; nothing is kept or served.
///
/// # Errors
/// [`Blame::Usage`] if there is no such path, [`Blame::Local`] if it can't be read.
pub fn tree_root(path: &Path, on_event: &mut dyn FnMut(Event)) -> Result<String, Error> {
    publish::root_of(path, on_event).map(|root| root.to_string())
}
