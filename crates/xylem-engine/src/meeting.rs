//! The mainline DHT, and the punching of codes, over the sockets of encrypted links: what the DHT lists is then the
//! mapping that a NAT gives these very sockets (docs/spec/dht.md; docs/spec/reach.md, "Codes").
//!
//! Both are sans-io. Their datagrams are told from those of links by what they answer: an answer of the DHT has the
//! transaction and the source of a query in progress, and a datagram of punching has a mac. All others are the link's.

use std::net::SocketAddr;
use std::time::Duration;

use xylem_dht::{DhtClient, DhtConfig};
use xylem_reach::code::{CodePunching, PUNCH_LEN};
use xylem_sockets::Udp;

use crate::{Engine, Network};

/// First byte of every datagram of the DHT: a dictionary in bencode.
const DICTIONARY: u8 = b'd';

/// What shares the sockets with links.
#[derive(Default)]
pub(crate) struct SocketSharers {
    dht: Option<Box<DhtClient>>,
    punching: Option<Box<CodePunching>>,
}

impl SocketSharers {
    /// Takes a datagram that is not for a link; returns false if it may be for one.
    #[inline]
    pub(crate) fn take_in(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) -> bool {
        if self.dht.is_none() && self.punching.is_none() {
            return false;
        }
        let dht = self.dht.as_mut().filter(|_| datagram.first() == Some(&DICTIONARY));
        let punching = self.punching.as_mut().filter(|_| datagram.len() == PUNCH_LEN);
        dht.is_some_and(|dht| dht.handle_datagram(now, from, datagram))
            || punching.is_some_and(|punching| punching.handle_datagram(now, from, datagram))
    }

    /// Like [`SocketSharers::take_in`], for datagrams of `stride` bytes that arrived as one train.
    pub(crate) fn take_in_train(
        &mut self,
        now: Duration,
        from: SocketAddr,
        train: &[u8],
        stride: usize,
    ) -> bool {
        let mut datagrams = train.chunks(stride.max(1));
        if !datagrams.next().is_some_and(|first| self.take_in(now, from, first)) {
            return false;
        }
        // Those of one length in a row are of one protocol, except an attacker's, which are lost this way.
        for datagram in datagrams {
            self.take_in(now, from, datagram);
        }
        true
    }

    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        let dht = self.dht.as_ref().and_then(|dht| dht.poll_timeout());
        let punching = self.punching.as_ref().and_then(|punching| punching.poll_timeout());
        dht.into_iter().chain(punching).min()
    }
}

impl Engine {
    /// Enters the DHT at these addresses over the sockets for links that there are now. Nothing is sent before the first
    /// lookup. One more call replaces the client. `seed`: 32 random bytes.
    pub fn enter_dht(&mut self, bootstrap: Vec<SocketAddr>, seed: [u8; 32]) {
        let has = |v4: bool| self.net.link_sockets.iter().any(|at| at.local().is_ipv4() == v4);
        let config = DhtConfig { bootstrap, ipv4: has(true), ipv6: has(false) };
        self.net.sharers.dht = Some(Box::new(DhtClient::new(config, seed)));
    }

    /// The client of the DHT, if it was entered. The engine sends and receives for it, and calls it when it is due.
    pub fn dht(&mut self) -> Option<&mut DhtClient> {
        self.net.sharers.dht.as_deref_mut()
    }

    /// Uses this from now on.
    pub fn punch_for_code(&mut self, punching: CodePunching) {
        self.net.sharers.punching = Some(Box::new(punching));
    }

    /// The punching for a code, if there is one.
    pub fn code_punching(&mut self) -> Option<&mut CodePunching> {
        self.net.sharers.punching.as_deref_mut()
    }

    /// Ends both: nothing of them is sent any more.
    pub fn leave_dht(&mut self) {
        self.net.sharers = SocketSharers::default();
    }
}

impl Network {
    /// Sends what the DHT's client and punching have to send.
    pub(crate) fn flush_sharers(&mut self, now: Duration) {
        if let Some(mut dht) = self.sharers.dht.take() {
            while let Some(transmit) = dht.poll_transmit(now) {
                if !self.send_beside_links(transmit.to, &transmit.bytes) {
                    dht.handle_unreachable(now, transmit.to);
                }
            }
            self.sharers.dht = Some(dht);
        }
        if let Some(mut punching) = self.sharers.punching.take() {
            while let Some((to, datagram)) = punching.poll_transmit(now) {
                self.send_beside_links(to, &datagram);
            }
            self.sharers.punching = Some(punching);
        }
    }

    /// Sends a datagram of another protocol from the socket that links to this address use; false if there is no way.
    fn send_beside_links(&self, to: SocketAddr, datagram: &[u8]) -> bool {
        let socket: Option<&Udp> =
            self.link_socket_for(to).and_then(|place| self.link_sockets.get(place));
        socket.is_some_and(|socket| socket.send_one(to, datagram).is_ok())
    }
}

#[cfg(test)]
mod tests;
