//! Peers of one publication: a fetching node serves what it has verified, and peers find each other.
//!
//! ```text
//! sinks → Holdings (verified and written) → Answers (read back by threads, proven anew) → Host, a
//! thread with an engine of its own → incoming links
//! outgoing links → Finder (which other peers are there?) ⇄ Announcers (which peers announced an address)
//! ```
//!
//! Answers are read from the files that a fetch writes, and sent as the publication's packets. Reports about other
//! peers are hints only: the tree proves pieces, and the link proves a dialled peer's key (docs/spec/peers.md,
//! docs/threat-model.md). This module does not decide what to fetch from which peer (`xylem-transfer` does), and writes
//! no file.
//!
//! The host has an engine apart from the fetching one. So no stranger's Interest meets our own in one PIT, no incoming
//! packet answers a stranger before it is verified, and a slow disk read for others does not delay the fetch.

mod host;
mod swarm;

pub use host::HostError;
pub(crate) use host::HostOffer;
pub(crate) use swarm::Swarm;

use std::net::IpAddr;

use xylem_forward::FaceId;
use xylem_mgmt::{FaceUri, UriHost};

use xylem_engine::Engine;

/// The address at which the other end of a link is seen.
fn address_of(engine: &Engine, face: FaceId) -> Option<IpAddr> {
    let host = match &engine.face(face)?.remote {
        FaceUri::Xylem(at) | FaceUri::Carried(_, at) => &at.host,
        _ => return None,
    };
    match host {
        UriHost::Ip(ip) => Some(ip.to_canonical()),
        _ => None,
    }
}

/// The address at which the other end of an encrypted link is seen, if that is up.
pub(crate) fn linked_at(engine: &Engine, face: FaceId) -> Option<IpAddr> {
    engine.link_peer(face)?;
    address_of(engine, face)
}
