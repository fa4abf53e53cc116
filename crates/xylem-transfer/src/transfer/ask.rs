//! Whom to ask for what: one Interest at a time.
//!
//! In order of precedence: the manifest; tiles that were lost; then the objects in order (or, where some
//! peers have a part only, blocks that few have), in each the tiles before the segments they prove;
//! then, for a peer with nothing left to do, what others were asked and would bring later than this
//! one can (the end of a transfer should not wait for the slowest).

use core::time::Duration;

use xylem_object::naming::{self, Request};
use xylem_packet::InterestBuilder;

use super::{Phase, Transfer};
use crate::event::PeerId;
use crate::flow::DATA_BYTES;
use crate::key::{Key, Wanted};

/// Peers asked for the manifest at the same time: it is small, and each answer measures a peer.
const MANIFEST_COPIES: usize = 4;
/// Events that may wait unread before asking stops.
const MAX_EVENTS: usize = 4_096;
/// How long a peer with a part is not searched again for something to ask it for, if nothing changed.
const STARVED_FOR: Duration = Duration::from_millis(50);
/// InterestLifetime: how long a forwarder keeps the way back open.
const LIFETIME_MS: u64 = 4_000;
/// What a segment weighs beside its content: names, proof, and headers on the way.
const AROUND_CONTENT: u64 = 512;

impl Transfer {
    /// The next Interest to send and to whom; it replaces what `packet` holds. `None`: nothing now.
    pub fn poll_transmit(&mut self, now: Duration, packet: &mut Vec<u8>) -> Option<PeerId> {
        // All that arrived together has been handed in, or nothing would be asked yet.
        self.peers.iter_mut().for_each(|peer| peer.flow_mut().end_acks(now));
        if let Some(peer) = self.ask_what_is_there(now, packet) {
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
                let bytes = content.map_or(DATA_BYTES, |n| n + AROUND_CONTENT);
                self.peers[p].on_sent(now, key, copied, bytes);
                self.peers.on_asked(bytes);
                self.progress.interests += 1;
                self.rate_limit.spend(content.unwrap_or(0));
                let id = self.peers[p].id();
                self.write_request(key, id, packet);
                return Some(id);
            }
            self.peers[p].on_idle(now);
            self.peers.skip_turn();
        }
        None
    }

    /// Bytes of content that the answer will carry: what a segment's length is, is known.
    fn content_of(&self, key: Key) -> Option<u64> {
        let Wanted::Segment(object, index) = key.wanted() else { return None };
        Some(self.objects.geometry(object)?.segment_len(index) as u64)
    }

    fn write_request(&mut self, key: Key, peer: PeerId, packet: &mut Vec<u8>) {
        let request = match key.wanted() {
            Wanted::Manifest => Request::Manifest,
            Wanted::Segment(object, index) => Request::Segment { object, index },
            Wanted::Tile(object, tile) => Request::Tile { object, tile },
        };
        // What came wrong from there may lie in a cache on the way: ask past it.
        let fresh = self.peers.has_failed(key, peer);
        self.write_interest(&request, fresh, packet);
    }

    fn write_interest(&mut self, request: &Request, fresh: bool, packet: &mut Vec<u8>) {
        let name = naming::encode(self.spec.prefix.as_ref(), request);
        packet.clear();
        InterestBuilder::new(name.as_ref())
            .nonce((self.chance.next_u64() as u32).to_be_bytes())
            .lifetime_ms(LIFETIME_MS)
            .must_be_fresh(fresh)
            .encode(packet)
            .expect("a prefix that a manifest can have leaves room for any name under it");
    }

    /// Asks somebody what it has, if that is due.
    fn ask_what_is_there(&mut self, now: Duration, packet: &mut Vec<u8>) -> Option<PeerId> {
        self.next_question().filter(|at| *at <= now)?;
        let nonce = self.chance.next_u64().to_be_bytes();
        let id = self.peers.ask_what_is_there(now, nonce);
        self.write_interest(&Request::Have { nonce }, false, packet);
        id
    }

    /// What to ask peer `p` for now, and whether somebody else is or may be asked for it as well.
    fn next_for(&mut self, now: Duration, p: usize) -> Option<(Key, bool)> {
        if !self.peers[p].may_ask(now) {
            return None;
        }
        if self.phase == Phase::Manifest {
            return self.manifest_for(p).map(|key| (key, true));
        }
        if self.peers[p].flow().is_silent() && self.peers.iter().any(|peer| peer.is_active(now)) {
            // Others work: a silent peer must not hold anything up. Something to find out with whether
            // it is back; others stay free to be asked for it.
            let trial = self.search(now, p).or_else(|| self.copy_for(now, p));
            return trial.map(|key| (key, true));
        }
        let urgent = self.objects.next_urgent(self.peers.asker(now, p));
        let key = urgent.or_else(|| self.work_for(now, p));
        let found = key.map(|key| (key, false)).or_else(|| Some((self.copy_for(now, p)?, true)));
        self.peers[p].set_starved(found.is_none());
        found
    }

    fn manifest_for(&mut self, p: usize) -> Option<Key> {
        let key = Key::from(Wanted::Manifest);
        let is_asked = |p: usize| self.peers[p].flow().flight().is_outstanding(key);
        let asked = (0..self.peers.len()).filter(|p| is_asked(*p)).count();
        (!is_asked(p) && asked < MANIFEST_COPIES).then_some(key)
    }

    /// Something that nobody is asked for. A peer with a part may well have nothing to ask it for: that
    /// is remembered until there may be.
    fn work_for(&mut self, now: Duration, p: usize) -> Option<Key> {
        let supply = self.peers.version() + self.objects.version();
        let has_part = self.peers[p].has_part();
        if has_part && self.peers[p].is_search_useless(now, supply) {
            return None;
        }
        let key = self.search(now, p);
        match key {
            Some(key) => self.objects.on_asked(key),
            None if has_part => self.peers.on_useless_search(p, now + STARVED_FOR, supply),
            None => {}
        }
        key
    }

    /// What nobody is asked for and peer `p` may be: the first in order, or something rare.
    fn search(&mut self, now: Duration, p: usize) -> Option<Key> {
        // Whether more may be asked for before the tiles came that prove it.
        let room = self.objects.held() < self.config.max_held / 2;
        if !self.peers.some_are_partial() || self.in_order.is_some() {
            let asker = self.peers.asker(now, p);
            return self.objects.next_in_order(asker, self.in_order, room);
        }
        // It stays with one block while there is something left of it.
        let asker = self.peers.asker(now, p);
        let of_block = |block| self.objects.next_of_block(asker, block, room);
        if let Some(key) = self.peers[p].block().and_then(of_block) {
            return Some(key);
        }
        let block = self.objects.rare_block(asker, &mut self.chance);
        let key = block.and_then(|block| self.objects.next_of_block(asker, block, room));
        self.peers[p].set_block(block);
        key
    }

    /// Something that another peer was asked for and would bring later than peer `p` can; while there is
    /// something left that nobody is asked for (and peer `p` does not have), only what is long overdue.
    fn copy_for(&mut self, now: Duration, p: usize) -> Option<Key> {
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
                Some(_) if !theirs.is_silent() => sent_at + theirs.patience() < now,
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
