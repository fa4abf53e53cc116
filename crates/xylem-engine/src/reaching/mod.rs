//! Peers that are reached through a relay (docs/spec/reach.md): between the relays' clients of `xylem-reach` and the
//! link's endpoint.
//!
//! The endpoint knows nothing of relays: each peer at a relay has a made-up address under which the endpoint sends and
//! receives, as links within TCP have. What goes there gets the relay's header and is sent to the relay; what comes from a
//! relay loses it. An engine without relays pays one comparison a datagram.

mod punching;
mod relays;
mod talking;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use xylem_link::Transmit;
use xylem_reach::relay::{Came, HEADER, Port, Tag};
use xylem_sockets::Ecn;

use super::Network;
use punching::Punching;
use relays::Relay;
pub use relays::{RelayNews, RelayUse};

/// Relays of one engine, those that peers are for each other included.
const MAX_RELAYS: usize = 64;

/// All relays of an engine.
pub(super) struct Reaching {
    /// What made-up addresses of peers at relays begin with. Those of carriers' end one below, those of sockets one
    /// above.
    prefix: [u8; 6],
    relays: Vec<Relay>,
    punching: Punching,
    /// Where datagrams of relays come from: of which relay, and whether from its second port.
    sources: Vec<(SocketAddr, usize, bool)>,
    /// Datagrams behind their headers; kept for its allocation.
    headed: Vec<u8>,
}

impl Reaching {
    /// None yet; `random` is that of the carriers' made-up addresses.
    pub(super) fn new(random: [u8; 5]) -> Self {
        let [a, b, c, d, e] = random;
        Self {
            prefix: [0xfd, a, b, c, d, e.wrapping_add(1)],
            relays: Vec::new(),
            punching: Punching::default(),
            sources: Vec::new(),
            headed: Vec::new(),
        }
    }

    /// What made-up addresses of peers at relays begin with.
    pub(super) fn relay_prefix(&self) -> [u8; 6] {
        self.prefix
    }

    /// What made-up addresses begin with that stand for a socket beside the usual ones.
    pub(super) fn socket_prefix(&self) -> [u8; 6] {
        let [a, b, c, d, e, f] = self.prefix;
        [a, b, c, d, e, f.wrapping_add(1)]
    }

    /// Whether an address is made up here. None of these is ever seen on a network.
    pub(super) fn made_up(&self, address: SocketAddr) -> bool {
        let IpAddr::V6(ip) = address.ip() else { return false };
        let octets = ip.octets();
        octets[..6] == self.prefix || octets[..6] == self.socket_prefix()
    }

    /// The made-up address of a peer at a relay.
    fn address(&self, relay: usize, tag: Tag) -> SocketAddr {
        let mut octets = [0; 16];
        octets[..6].copy_from_slice(&self.prefix);
        octets[7] = u8::try_from(relay).unwrap_or(u8::MAX);
        octets[12..].copy_from_slice(&tag.number().to_be_bytes());
        SocketAddr::from((Ipv6Addr::from(octets), 1))
    }

    /// Who is at a made-up address.
    fn peer_at(&self, address: SocketAddr) -> Option<(usize, Tag)> {
        let IpAddr::V6(ip) = address.ip() else { return None };
        let octets = ip.octets();
        if octets[..6] != self.prefix {
            return None;
        }
        let tag = Tag::new(u32::from_be_bytes(*octets.last_chunk::<4>()?))?;
        let relay = usize::from(octets[7]);
        (relay < self.relays.len()).then_some((relay, tag))
    }

    /// The relay of a made-up address, as people know it.
    pub(super) fn relay_at(&self, address: SocketAddr) -> Option<SocketAddr> {
        let (relay, _) = self.peer_at(address)?;
        Some(self.relays[relay].named_at())
    }

    /// Takes what came from `from`: gives what is for the endpoint, and as from where.
    #[inline]
    pub(super) fn take_in(
        &mut self,
        now: Duration,
        from: SocketAddr,
        datagram: BytesMut,
    ) -> Option<(SocketAddr, BytesMut)> {
        if self.sources.is_empty() {
            return Some((from, datagram));
        }
        self.take_in_from_relay(now, from, datagram)
    }

    fn take_in_from_relay(
        &mut self,
        now: Duration,
        from: SocketAddr,
        mut datagram: BytesMut,
    ) -> Option<(SocketAddr, BytesMut)> {
        // One address may be that of several relays' registrations: an id says whose datagram it is.
        for (_, relay, second) in self.sources.iter().filter(|(at, ..)| *at == from) {
            match self.relays[*relay].client.handle_datagram(now, *second, &mut datagram) {
                Came::Not => {}
                Came::Control => return None,
                Came::Inner(tag) => {
                    datagram.advance(HEADER);
                    return Some((self.address(*relay, tag), datagram));
                }
            }
        }
        Some((from, datagram))
    }

    /// When something of relays is due.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        let relays = self.relays.iter().filter_map(Relay::poll_timeout);
        relays.chain(self.punching.poll_timeout()).min()
    }
}

impl Network {
    /// Sends to a made-up address what the endpoint has written.
    pub(super) fn send_made_up(&mut self, now: Duration, transmit: &Transmit) {
        if let Some((socket, to)) = self.reaching.socket_at(transmit.to) {
            let ecn = if transmit.ecn { Ecn::Capable } else { Ecn::NotCapable };
            let contents = &self.datagram[..transmit.len];
            return socket.send(to, contents, transmit.segment_size, ecn);
        }
        let Some((relay, tag)) = self.reaching.peer_at(transmit.to) else {
            return self.carry(now, transmit);
        };
        let Reaching { relays, headed, .. } = &mut self.reaching;
        let Some(at) = relays[relay].at() else { return };
        let header = relays[relay].client.header(tag);
        let size = transmit.segment_size.unwrap_or(transmit.len).max(1);
        headed.clear();
        for datagram in self.datagram[..transmit.len].chunks(size) {
            headed.extend_from_slice(&header);
            headed.extend_from_slice(datagram);
        }
        let segments = transmit.segment_size.map(|size| size + HEADER);
        let headed = std::mem::take(headed);
        self.send_to_relay(now, at, &headed, segments);
        self.reaching.headed = headed;
    }

    /// Over a socket, or where that is the way to the relay, over a carrier. A mark of the network on its way to the relay
    /// does not come to the peer: routers are to drop instead.
    fn send_to_relay(
        &mut self,
        now: Duration,
        at: SocketAddr,
        contents: &[u8],
        size: Option<usize>,
    ) {
        if self.carriers.made_up(at) {
            if let Some(id) = self.carriers.of_address(at) {
                self.carriers.queue(now, id, contents, size.unwrap_or(contents.len()));
            }
        } else if let Some(socket) = self.link_socket_for(at) {
            self.link_sockets[socket].send(at, contents, size, Ecn::NotCapable);
        }
    }

    /// Sends what registrations need to stay.
    pub(super) fn flush_relays(&mut self, now: Duration) {
        for i in 0..self.reaching.relays.len() {
            while let Some((port, datagram)) = self.reaching.relays[i].client.poll_transmit(now) {
                let relay = &self.reaching.relays[i];
                let to = match port {
                    Port::First => relay.at(),
                    Port::Second => relay.second(),
                };
                if let Some(to) = to {
                    self.send_to_relay(now, to, &datagram, None);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
