//! Whose turn it is: everybody with room is asked, each in proportion to what it can bring.
//!
//! A peer keeps its turn for a burst, so that Interests for one datagram's worth of Data travel together;
//! then comes whoever has been asked for least, measured in the time that it takes him (start-time fair
//! queueing; Goyal, Vin, Cheng 1996). While windows are what limits a transfer, all of them are full
//! anyway and turns decide nothing; under a rate limit, or with a slow reader, they decide who serves.

use core::time::Duration;

use crate::transfer::Transfer;

/// Bytes that one peer is asked for before another has its turn: a datagram's worth on a fast path.
pub(crate) const BURST: u64 = 65_536;

/// How much a peer has been asked for, in its own time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Served(u64);

impl Transfer {
    /// The turn has been used for `bytes` more.
    #[inline]
    pub(crate) fn turn_used(&mut self, bytes: u64) {
        self.turn_bytes += bytes;
    }

    /// Passes the turn on if the burst is over.
    #[inline]
    pub(crate) fn pass_turn(&mut self, now: Duration) {
        if self.turn_bytes < BURST || self.peers.len() < 2 {
            return;
        }
        self.end_turn();
        let able = self.peers.iter_mut().enumerate();
        let able = able.filter_map(|(p, peer)| {
            (!peer.starved && peer.may_ask(now)).then_some((peer.served.0, p))
        });
        if let Some((_, p)) = able.min() {
            self.turn = p;
            self.begin_turn();
        }
    }

    /// The peer whose turn it is has no room or no work: the next in the row.
    pub(crate) fn skip_turn(&mut self) {
        self.end_turn();
        self.turn = (self.turn + 1) % self.peers.len();
        self.begin_turn();
    }

    fn end_turn(&mut self) {
        let bytes = core::mem::take(&mut self.turn_bytes);
        if let Some(peer) = self.peers.get_mut(self.turn).filter(|_| bytes > 0) {
            let nanoseconds = bytes.saturating_mul(1_000_000_000) / peer.rate().max(1);
            peer.served.0 = peer.served.0.saturating_add(nanoseconds);
        }
    }

    /// Time that was not used is not saved up.
    fn begin_turn(&mut self) {
        let peer = &mut self.peers[self.turn];
        peer.served.0 = peer.served.0.max(self.served_at_least);
        self.served_at_least = peer.served.0;
    }
}
