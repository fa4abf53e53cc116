//! Datagrams to relays, to peers at them, and from sockets of one attempt.

use std::net::SocketAddr;
use std::time::Duration;

use xylem_link::Transmit;
use xylem_reach::relay::{HEADER, RelayPort};
use xylem_sockets::EcnCapability;

use super::state::RelayConnections;
use crate::Network;

impl Network {
    /// Sends the endpoint's datagrams to a synthetic address.
    pub(crate) fn send_to_synthetic(&mut self, now: Duration, transmit: &Transmit) {
        if let Some((socket, to)) = self.reaching.socket_at(transmit.to) {
            let ecn = if transmit.ecn { EcnCapability::Capable } else { EcnCapability::NotCapable };
            let contents = &self.datagram[..transmit.len];
            return socket.send(to, contents, transmit.segment_size, ecn);
        }
        let Some((relay, tag)) = self.reaching.peer_at(transmit.to) else {
            return self.carry(now, transmit);
        };
        let RelayConnections { relays, headed, .. } = &mut self.reaching;
        let Some(at) = relays[relay].at() else { return };
        let client = &mut relays[relay].client;
        let header = client.header(tag);
        client.on_sent(now);
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

    /// Sends over a socket or, if that is the way to the relay, over a carrier. Datagrams are not ECN-capable: a mark
    /// on the path to the relay would not reach the peer, so routers are to drop instead.
    fn send_to_relay(
        &mut self,
        now: Duration,
        at: SocketAddr,
        contents: &[u8],
        size: Option<usize>,
    ) {
        if self.carriers.is_synthetic(at) {
            if let Some(id) = self.carriers.of_address(at) {
                self.carriers.queue(now, id, contents, size.unwrap_or(contents.len()));
            }
        } else {
            self.link_sockets.send(at, contents, size, EcnCapability::NotCapable);
        }
    }

    /// Sends the datagrams that keep registrations alive.
    pub(crate) fn flush_relays(&mut self, now: Duration) {
        for i in 0..self.reaching.relays.len() {
            while let Some((port, datagram)) = self.reaching.relays[i].client.poll_transmit(now) {
                let relay = &self.reaching.relays[i];
                let to = match port {
                    RelayPort::First => relay.at(),
                    RelayPort::Second => relay.second(),
                };
                if let Some(to) = to {
                    self.send_to_relay(now, to, &datagram, None);
                }
            }
        }
    }
}
