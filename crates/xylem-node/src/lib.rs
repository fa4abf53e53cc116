//! Entry points [`share`], [`get`] and [`verify`]: sockets, clock and threads around the sans-io
//! crates, so that a command (or another program) can publish and fetch with one call each.
//!
//! Bytes come from the file system (`xylem-store`) and leave through UDP or TCP sockets, and the
//! other way round. This crate never prints and never exits: it reports [`Event`]s and returns
//! [`Error`]s whose [`Blame`] a caller maps to an exit code.

mod api;

pub use api::{
    Blame, Error, Event, Existing, GetOptions, GetSummary, Output, Peer, ShareOptions, Stop,
    VerifyOptions, VerifySummary,
};

use std::path::Path;

/// Publishes one file or directory and serves it until `stop` is raised.
pub fn share(
    _options: &ShareOptions,
    _stop: &Stop,
    _on_event: &mut dyn FnMut(Event),
) -> Result<(), Error> {
    Err(Error { blame: Blame::Local, message: "not wired yet".into() })
}

/// Fetches one ticket.
pub fn get(
    _options: &GetOptions,
    _stop: &Stop,
    _on_event: &mut dyn FnMut(Event),
) -> Result<GetSummary, Error> {
    Err(Error { blame: Blame::Local, message: "not wired yet".into() })
}

/// Compares what is on disk with a ticket.
pub fn verify(
    _options: &VerifyOptions,
    _stop: &Stop,
    _on_event: &mut dyn FnMut(Event),
) -> Result<VerifySummary, Error> {
    Err(Error { blame: Blame::Local, message: "not wired yet".into() })
}

/// The root that [`share`] would publish for `path`, hexadecimal; nothing is kept or served.
pub fn tree_root(_path: &Path, _on_event: &mut dyn FnMut(Event)) -> Result<String, Error> {
    Err(Error { blame: Blame::Local, message: "not wired yet".into() })
}
