//! Further addresses of a link's peer: announced, probed, moved to. The implementation is in `link/path.rs`,
//! `link/probe.rs` and `link/candidates.rs`; the limits on probes are in docs/spec/link.md, "Paths".

use core::net::SocketAddr;
use core::time::Duration;

use super::{Endpoint, LinkState};
use crate::event::LinkId;
use crate::link::{Link, ProbePace};
use crate::way::{NatMapping, PathKind};

impl Endpoint {
    /// Declares that addresses with this prefix are synthetic and stand for something of the program's own: see
    /// [`PathKind`]. They are never announced to a peer, nor accepted from one. `false`: four kinds are known already.
    ///
    /// A link over a worse way moves to a better one as soon as that has been proven, and back when the better one
    /// falls silent.
    pub fn add_synthetic_prefix(&mut self, prefix: [u8; 6], way: PathKind) -> bool {
        let added = self.ways.add(prefix, way);
        for entry in self.links.values_mut() {
            if let LinkState::Up(link) = &mut entry.state {
                link.set_ways(self.ways);
            }
        }
        added
    }

    /// Announces further addresses of this side to the peer, until the peer acknowledges them: 16 at most, the best
    /// first. They replace those announced before. Synthetic addresses are left out.
    pub fn announce_candidates(
        &mut self,
        link: LinkId,
        addresses: &[SocketAddr],
        mapping: NatMapping,
    ) {
        if let Some(up) = self.up(link) {
            up.tell_candidates(addresses, mapping);
            self.mark_ready(link);
        }
    }

    /// Probes these addresses for the link's peer, at the given [`ProbePace`]. The link moves to an address that answers
    /// ([`crate::LinkEvent::Moved`]) if its [`PathKind`] is better than the one in use, or while the one in use is silent.
    /// Returns how many addresses are probed: at a time 24, and four of one source. With [`ProbePace::Search`] the limit is
    /// 1,024, once in 30 s, and only if exactly one side has announced a symmetric NAT. The addresses are then ports of
    /// a host that the peer has named, or synthetic addresses of [`PathKind::Direct`], which stand for the program's own
    /// sockets that send to one address.
    ///
    /// The program decides which of a peer's candidates may be probed at all: a peer on another network may name
    /// 127.0.0.1.
    pub fn probe(
        &mut self,
        now: Duration,
        link: LinkId,
        addresses: &[SocketAddr],
        pace: ProbePace,
    ) -> usize {
        let count = self.up(link).map_or(0, |up| up.probe(now, addresses, pace));
        self.mark_ready(link);
        count
    }

    #[cfg(internals)]
    pub(crate) fn link_mut(&mut self, link: LinkId) -> Option<&mut Link> {
        match &mut self.links.get_mut(&link)?.state {
            LinkState::Up(up) => Some(up),
            _ => None,
        }
    }

    fn up(&mut self, link: LinkId) -> Option<&mut Link> {
        match &mut self.links.get_mut(&link)?.state {
            LinkState::Up(up) if !up.is_closing() => Some(up),
            _ => None,
        }
    }
}
