//! Peers of one publication: a fetching node serves what it has verified, and peers find each other.
//!
//! ```text
//! sinks → Holdings (what is verified and written) → Answers (read back, proven anew) → Host, a thread
//! with an engine of its own → links that others dial
//! links that we dial → Finder (who else is there?) ⇄ Announcers (who has told where it listens)
//! ```
//!
//! Bytes come from the files that a fetch writes, and go out as the publication's packets. What is said
//! here of other peers are hints: the tree proves pieces, and the link a dialled peer's key
//! (docs/spec/peers.md, docs/threat-model.md). It does not decide what to fetch from whom, which
//! xylem-transfer does, and writes no file.
//!
//! The host's engine is apart from the one that fetches: no Interest of a stranger meets our own in
//! one PIT, no packet on its way in can answer a stranger before it is verified, and a slow disk read
//! for others does not hold the fetch up.

mod host;
mod swarm;

pub use host::HostError;
pub(crate) use host::Offer;
pub(crate) use swarm::Swarm;

use std::net::IpAddr;

use xylem_forward::FaceId;
use xylem_mgmt::{FaceUri, UriHost};

use xylem_engine::Engine;

/// The address that the other end of a link is seen at.
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

/// Where the other end of an encrypted link is seen that is up.
pub(crate) fn linked_at(engine: &Engine, face: FaceId) -> Option<IpAddr> {
    engine.link_peer(face)?;
    address_of(engine, face)
}
