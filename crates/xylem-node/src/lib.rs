//! Entry points [`share`], [`get`], [`verify`], [`scrub()`] and [`run_node`]: sockets, clock and threads around the
//! sans-io crates, so that a command (or another program) can publish, fetch and forward with one
//! call each.
//!
//! Bytes come from the file system (`xylem-store`) and leave through sockets of every kind that NDN
//! knows or an encrypted link, and the other way round. This crate never prints and never exits: it reports [`Event`]s and returns
//! [`Error`]s whose [`Blame`] a caller maps to an exit code.

mod api;
mod failure;

mod exclude;
mod hashing;
mod listed;
mod names;
mod publish;
mod record;
mod rescan;
mod walk;

mod addresses;
pub mod carriers;
mod dial;
mod engine;
mod faces;
mod identity;
mod keyring;
mod register;
mod shaping;
mod uri;

mod peers;
mod shelf;
mod sink;

pub mod client;
pub mod mail;

mod follow;
mod get;
mod node;
mod scrub;
mod share;
mod upkeep;
mod verify;

pub use api::{
    Blame, Error, Event, Existing, GetOptions, GetSummary, Output, Peer, PeerBytes, ServeOptions,
    ShareOptions, Stop, VerifyOptions, VerifySummary,
};
pub use follow::{ExtendsOptions, ExtendsSummary, FollowOptions, Input, extends, follow};
pub use get::get;
pub use keyring::{KeyEntry, KeyKind, Keyring};
pub use node::{NodeConfig, Route, default_socket, run_node};
pub use scrub::{BLOCK, Flaw, ScrubEvent, ScrubOptions, ScrubSummary, scrub};
pub use share::share;
pub use shelf::DiskShelf;
pub use upkeep::{
    CheckOptions, CheckSummary, Collected, Finding, FindingKind, Pinned, Standing, StoreEntry,
    check_store, collect_store, list_store, pin,
};
pub use uri::{HostPort, LINK_PORT, NDN_PORT, PeerUri, WEB_SOCKET_PORT};
pub use verify::verify;
pub use xylem_link::{Level as ShapeLevel, Shaping};
pub use xylem_mgmt::Carrier;

use std::path::Path;

/// The root that [`share`] would publish for `path`, hexadecimal; nothing is kept or served.
///
/// # Errors
/// [`Blame::Usage`] if there is no such path, [`Blame::Local`] if it can't be read.
pub fn tree_root(path: &Path, on_event: &mut dyn FnMut(Event)) -> Result<String, Error> {
    publish::root_of(path, on_event).map(|root| root.to_string())
}
