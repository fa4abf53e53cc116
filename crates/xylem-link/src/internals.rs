//! Doors to the inside, for fuzz targets, benchmarks and hostile tests: compiled only in the package
//! xylem-link-internals (`crates/xylem-link/internals`), which the program does not depend on.

use core::net::SocketAddr;

use crate::config::LinkId;
use crate::endpoint::Endpoint;

impl Endpoint {
    /// A datagram of these bytes in place of frames, sealed in the link's own session, and where it
    /// belongs: what a peer could send that keeps to no rule. `None`: no such link is up.
    pub fn seal_frames(&mut self, link: LinkId, frames: &[u8]) -> Option<(SocketAddr, Vec<u8>)> {
        let up = self.link_mut(link)?;
        Some((up.remote(), up.seal_frames(frames)))
    }
}
