//! Decides which peer to ask for what, one Interest at a time.
//!
//! The order of precedence:
//!
//! 1. the manifest;
//! 2. urgent items: tiles that were lost, and segments that a reader waits for;
//! 3. the objects in order, or rare blocks first where some peers have only a part; within each, tiles before the
//!    segments that they prove;
//! 4. for a peer with nothing else to do: items asked of other peers that this peer can send sooner. The end of a
//!    transfer then does not wait for the slowest peer.

use core::time::Duration;

use xylem_object::naming::{self, PublicationRequest};
use xylem_packet::InterestBuilder;

use super::{Transfer, TransferPhase};
use crate::event::PeerId;
use crate::flow::DATA_BYTES;
use crate::key::{ItemKey, RequestedItem};
use crate::peer::TransferPeer;

/// Number of peers asked for the manifest at the same time. It is small, and each answer measures a peer.
const MANIFEST_COPIES: usize = 4;
/// Number of unread events from which nothing more is asked for.
const MAX_EVENTS: usize = 4_096;
/// How long no new search is made for a partial peer for which nothing was found, if nothing changed.
const EMPTY_SEARCH_BACKOFF: Duration = Duration::from_millis(50);
/// InterestLifetime in milliseconds: how long a forwarder keeps the path back open.
const LIFETIME_MS: u64 = 4_000;
/// Bytes that a segment's packet carries besides its content: names, proof, and headers.
const SEGMENT_OVERHEAD_BYTES: u64 = 512;

impl Transfer {
    /// Writes the next Interest into `packet`, replacing its contents, and returns the peer to send it to. `None`:
    /// nothing to send now.
    pub fn poll_transmit(&mut self, now: Duration, packet: &mut Vec<u8>) -> Option<PeerId> {
        // The caller asks only after it has handed in all packets that arrived together.
        self.peers.iter_mut().for_each(|peer| peer.flow_mut().end_acks(now));
        if let Some(peer) = self.write_availability_query(now, packet) {
            return Some(peer);
        }
        if self.is_held_back() || self.events.len() >= MAX_EVENTS || !self.rate_limit.is_ready(now)
        {
            self.peers.iter_mut().for_each(|peer| peer.on_idle(now));
            return None;
        }
        self.peers.pass_turn(now);
        for _ in 0..self.peers.len() {
            let p = self.peers.current();
            if let Some((key, copied)) = self.next_for(now, p) {
                let content = self.content_of(key);
                let bytes = content.map_or(DATA_BYTES, |n| n + SEGMENT_OVERHEAD_BYTES);
                self.peers[p].on_sent(now, key, copied, bytes);
                self.peers.on_asked(bytes);
                self.progress.interests += 1;
                self.rate_limit.spend(content.unwrap_or(0));
                let id = self.peers[p].id();
                self.write_request(key, p, packet);
                return Some(id);
            }
            self.peers[p].on_idle(now);
            self.peers.skip_turn();
        }
        None
    }

    /// Bytes of content in the answer, known for a segment only.
    fn content_of(&self, key: ItemKey) -> Option<u64> {
        let RequestedItem::Segment(object, index) = key.wanted() else { return None };
        Some(self.objects.geometry(object)?.segment_len(index) as u64)
    }

    fn write_request(&mut self, key: ItemKey, p: usize, packet: &mut Vec<u8>) {
        let request = match key.wanted() {
            RequestedItem::Manifest => PublicationRequest::Manifest,
            RequestedItem::Segment(object, index) => PublicationRequest::Segment { object, index },
            RequestedItem::Tile(object, tile) => PublicationRequest::Tile { object, tile },
        };
        // A wrong answer may lie in a cache on the way, so ask past it.
        let fresh = self.peers.has_failed(key, self.peers[p].id());
        self.write_interest(p, &request, fresh, packet);
    }

    fn write_interest(
        &mut self,
        p: usize,
        request: &PublicationRequest,
        fresh: bool,
        packet: &mut Vec<u8>,
    ) {
        let name = naming::encode(self.prefix_at(p), request);
        packet.clear();
        InterestBuilder::new(name.as_ref())
            .nonce((self.rng.next_u64() as u32).to_be_bytes())
            .lifetime_ms(LIFETIME_MS)
            .must_be_fresh(fresh)
            .encode(packet)
            .expect("a prefix that a manifest can have leaves room for any name under it");
    }

    /// Asks one peer which segments it has, if a question is due.
    fn write_availability_query(&mut self, now: Duration, packet: &mut Vec<u8>) -> Option<PeerId> {
        self.next_question().filter(|at| *at <= now)?;
        let nonce = self.rng.next_u64().to_be_bytes();
        let id = self.peers.next_availability_query(now, nonce)?;
        let p = self.peers.place(id)?;
        self.write_interest(p, &PublicationRequest::Have { nonce }, false, packet);
        Some(id)
    }

    /// The item to ask peer `p` for now, and whether another peer is or may be asked for the same item.
    fn next_for(&mut self, now: Duration, p: usize) -> Option<(ItemKey, bool)> {
        if !self.peers[p].may_ask(now) {
            return None;
        }
        if self.phase == TransferPhase::Manifest {
            return self.manifest_for(p).map(|key| (key, true));
        }
        // A peer that has just begun to fetch, too, has next to nothing. It would refuse what it is asked for before its
        // list is here, and rest for seconds after that.
        let is_known = |peer: &TransferPeer| peer.is_active(now) && peer.is_known();
        if !self.peers[p].is_known() && self.peers.iter().any(is_known) {
            return None;
        }
        if self.peers[p].flow().is_silent() && self.peers.iter().any(|peer| peer.is_active(now)) {
            // Other peers are active, so a silent peer must not delay anything. It gets one item as a trial, which
            // other peers may still be asked for.
            let trial = self.search(now, p).or_else(|| self.copy_for(now, p));
            return trial.map(|key| (key, true));
        }
        let urgent = self.objects.next_urgent(self.peers.asker(now, p));
        let key = urgent.or_else(|| self.work_for(now, p));
        let found = key.map(|key| (key, false)).or_else(|| Some((self.copy_for(now, p)?, true)));
        self.peers[p].set_starved(found.is_none());
        found
    }

    fn manifest_for(&mut self, p: usize) -> Option<ItemKey> {
        let key = ItemKey::from(RequestedItem::Manifest);
        let is_asked = |p: usize| self.peers[p].flow().flight().is_outstanding(key);
        let asked = (0..self.peers.len()).filter(|p| is_asked(*p)).count();
        (!is_asked(p) && asked < MANIFEST_COPIES).then_some(key)
    }

    /// An item that no peer is asked for. If nothing is found for a partial peer, that is remembered until something
    /// changes.
    fn work_for(&mut self, now: Duration, p: usize) -> Option<ItemKey> {
        let supply = self.peers.version() + self.objects.version();
        let has_part = self.peers[p].has_part();
        if has_part && self.peers[p].would_search_be_empty(now, supply) {
            return None;
        }
        let key = self.search(now, p);
        match key {
            Some(key) => self.objects.on_asked(key),
            None if has_part => self.peers.on_empty_search(p, now + EMPTY_SEARCH_BACKOFF, supply),
            None => {}
        }
        key
    }

    /// An item that no peer is asked for and that peer `p` may be asked for: the first in order, or one of a rare
    /// block.
    fn search(&mut self, now: Duration, p: usize) -> Option<ItemKey> {
        // Whether more may be asked for before the tiles that prove it have arrived.
        let room = self.objects.held() < self.config.max_held / 2;
        if !self.peers.some_are_partial() || self.in_order.is_some() {
            let asker = self.peers.asker(now, p);
            return self.objects.next_in_order(asker, self.in_order, room);
        }
        // The peer stays with its block while something of it is left.
        let asker = self.peers.asker(now, p);
        let of_block = |block| self.objects.next_of_block(asker, block, room);
        if let Some(key) = self.peers[p].block().and_then(of_block) {
            return Some(key);
        }
        let block = self.objects.rare_block(asker, &mut self.rng);
        let key = block.and_then(|block| self.objects.next_of_block(asker, block, room));
        self.peers[p].set_block(block);
        key
    }

    /// An item that another peer was asked for and that peer `p` can send sooner. While items are left that no peer is
    /// asked for and peer `p` does not have, only long overdue ones are copied.
    fn copy_for(&mut self, now: Duration, p: usize) -> Option<ItemKey> {
        let mine = now + self.peers[p].flow().round_trip()? * 5 / 4;
        let at_the_end = self.objects.unasked() == 0
            || self.in_order.is_some()
            || !self.peers.some_are_partial();
        let count = self.peers.len();
        for q in (1..count).map(|step| (p + step) % count) {
            let theirs = self.peers[q].flow_mut();
            let Some((key, sent_at)) = theirs.oldest_uncopied() else { continue };
            let is_late = match theirs.round_trip() {
                Some(rtt) if !theirs.is_silent() && at_the_end => {
                    sent_at + rtt > mine || sent_at + rtt < now
                }
                Some(_) if !theirs.is_silent() => sent_at + theirs.overdue_after() < now,
                _ => true,
            };
            if !is_late || !self.objects.has(self.peers.asker(now, p), key) {
                continue;
            }
            self.peers[q].flow_mut().mark_copied();
            if self.is_missing(key) && !self.peers.asker(now, p).must_skip(key) {
                return Some(key);
            }
        }
        None
    }
}
