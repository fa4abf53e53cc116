//! Where a link's peer may be reached, too: told, asked, moved to. What is behind the calls: `link/path.rs`,
//! `link/probe.rs`, `link/candidates.rs`; what may be asked of whom: docs/spec/link.md, "Paths".

use core::net::SocketAddr;
use core::time::Duration;

use super::{Endpoint, State};
use crate::event::LinkId;
use crate::link::{Link, Pace};
use crate::way::{Mapping, Way};

impl Endpoint {
    /// Addresses that begin with this prefix stand for something of the program's own: see [`Way`]. They are
    /// told to no peer, nor taken from one. `false`: four kinds are known already.
    ///
    /// A link over a way that is worse than another one moves to that as soon as it has been proven, and back
    /// when it falls silent.
    pub fn set_made_up(&mut self, prefix: [u8; 6], way: Way) -> bool {
        let added = self.ways.add(prefix, way);
        for entry in self.links.values_mut() {
            if let State::Up(link) = &mut entry.state {
                link.set_ways(self.ways);
            }
        }
        added
    }

    /// Tells the peer where this side may be reached besides, until it says that it knows: 16 addresses at
    /// most, the best first. They replace those that were told before. Made-up ones are left out.
    pub fn tell_candidates(&mut self, link: LinkId, addresses: &[SocketAddr], mapping: Mapping) {
        if let Some(up) = self.up(link) {
            up.tell_candidates(addresses, mapping);
            self.mark_ready(link);
        }
    }

    /// Asks at these addresses whether the link's peer is there, as [`Pace`] says. Where it is, and by a better
    /// [`Way`] than the one in use, or while that is silent, the link goes on there
    /// ([`crate::LinkEvent::Moved`]). Gives how many of them are asked: 24 addresses, of one source four, at a time;
    /// with [`Pace::Search`] 1,024, once in 30 s, where one side alone has told a symmetric NAT: then ports of a
    /// host that the peer has named, or made-up addresses of [`Way::Direct`], by which the program means
    /// sockets of its own that send to one.
    ///
    /// It is for the program to judge which of a peer's candidates may be asked at all: a peer on another
    /// network may name 127.0.0.1.
    pub fn probe(
        &mut self,
        now: Duration,
        link: LinkId,
        addresses: &[SocketAddr],
        pace: Pace,
    ) -> usize {
        let count = self.up(link).map_or(0, |up| up.probe(now, addresses, pace));
        self.mark_ready(link);
        count
    }

    #[cfg(internals)]
    pub(crate) fn link_mut(&mut self, link: LinkId) -> Option<&mut Link> {
        match &mut self.links.get_mut(&link)?.state {
            State::Up(up) => Some(up),
            _ => None,
        }
    }

    fn up(&mut self, link: LinkId) -> Option<&mut Link> {
        match &mut self.links.get_mut(&link)?.state {
            State::Up(up) if !up.is_closing() => Some(up),
            _ => None,
        }
    }
}
