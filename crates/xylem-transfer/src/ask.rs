//! Whom to ask for what: one Interest at a time.
//!
//! In order of precedence: the manifest; tiles that were lost; what the caller prefers; then the objects
//! in order (or, where some peers have a part only, blocks that few have: `rarest.rs`), in each the tiles
//! before the segments they prove; then, for a peer with nothing left to do, what others were
//! asked and would bring later than this one can (the end of a transfer should not wait for the
//! slowest).

use core::time::Duration;

use xylem_object::naming::{self, Request};
use xylem_packet::InterestBuilder;

use crate::event::PeerId;
use crate::key::{Key, KeyMap, Wanted, object_number};
use crate::peer::{DATA_BYTES, Peer};
use crate::transfer::{Phase, Transfer};

/// Peers asked for the manifest at the same time: it is small, and each answer measures a peer.
const MANIFEST_COPIES: usize = 4;
/// Events that may wait unread before asking stops.
const MAX_EVENTS: usize = 4_096;
/// Urgent tiles looked at for one that this peer may be asked for.
const URGENT_LOOK: usize = 8;
/// How long a peer with a part is not searched again for something to ask it for, if nothing changed.
const STARVED_FOR: Duration = Duration::from_millis(50);
/// InterestLifetime: how long a forwarder keeps the way back open.
const LIFETIME_MS: u64 = 4_000;
/// What a segment weighs beside its content: names, proof, and headers on the way.
const AROUND_CONTENT: u64 = 512;

/// Bytes that may be asked for at once under a rate limit: a tenth of a second, 4 segments at least.
pub(crate) fn rate_burst(rate: u64) -> u64 {
    (rate / 10).max(32_768)
}

impl Transfer {
    /// The next Interest to send and to whom; it replaces what `packet` holds. `None`: nothing now.
    pub fn poll_transmit(&mut self, now: Duration, packet: &mut Vec<u8>) -> Option<PeerId> {
        // All that arrived together has been handed in, or nothing would be asked yet.
        self.peers.iter_mut().for_each(|peer| peer.after_answers(now));
        if let Some(peer) = self.ask_what_is_there(now, packet) {
            return Some(peer);
        }
        if self.is_held_back()
            || self.events.len() >= MAX_EVENTS
            || self.rate.is_some_and(|rate| !self.rate_pacer.ready(now, rate, rate_burst(rate)))
        {
            self.peers.iter_mut().for_each(|peer| peer.idle(now));
            return None;
        }
        self.pass_turn(now);
        for _ in 0..self.peers.len() {
            if let Some((key, copied)) = self.next_for(now, self.turn) {
                let content = self.content_of(key);
                let bytes = content.map_or(DATA_BYTES, |n| n + AROUND_CONTENT);
                let peer = &mut self.peers[self.turn];
                peer.sent(now, key, copied, bytes);
                peer.starved = false;
                let id = peer.id;
                self.turn_used(bytes);
                self.progress.interests += 1;
                self.rate_pacer.spend(content.unwrap_or(0));
                self.write_interest(key, id, packet);
                return Some(id);
            }
            self.peers[self.turn].idle(now);
            self.skip_turn();
        }
        None
    }

    /// Bytes of content that the answer will carry: what a segment's length is, is known.
    fn content_of(&self, key: Key) -> Option<u64> {
        let Wanted::Segment(object, index) = key.wanted() else { return None };
        let object = self.objects.get(&object_number(object))?;
        Some(object.geometry().segment_len(index) as u64)
    }

    fn write_interest(&mut self, key: Key, peer: PeerId, packet: &mut Vec<u8>) {
        let request = match key.wanted() {
            Wanted::Manifest => Request::Manifest,
            Wanted::Segment(object, index) => Request::Segment { object, index },
            Wanted::Tile(object, tile) => Request::Tile { object, tile },
        };
        let name = naming::encode(self.spec.prefix.as_ref(), &request);
        packet.clear();
        InterestBuilder::new(name.as_ref())
            .nonce(self.prng.nonce())
            .lifetime_ms(LIFETIME_MS)
            // What came wrong from there may lie in a cache on the way: ask past it.
            .must_be_fresh(self.has_failed(key, peer))
            .encode(packet)
            .expect("a prefix that a manifest can have leaves room for any name under it");
    }

    /// What to ask peer `p` for now, and whether somebody else is or may be asked for it as well.
    fn next_for(&mut self, now: Duration, p: usize) -> Option<(Key, bool)> {
        if !self.peers[p].may_ask(now) {
            return None;
        }
        if self.phase == Phase::Manifest {
            return self.manifest_for(p).map(|key| (key, true));
        }
        if self.peers[p].silent && self.peers.iter().any(|peer| peer.is_active(now)) {
            // Others work: a silent peer must not hold anything up.
            return self.trial_for(now, p).map(|key| (key, true));
        }
        let key = self.urgent_for(now, p).or_else(|| self.work_for(now, p));
        let found = key.map(|key| (key, false)).or_else(|| Some((self.copy_for(now, p)?, true)));
        self.peers[p].starved = found.is_none();
        found
    }

    fn manifest_for(&mut self, p: usize) -> Option<Key> {
        let key = Key::from(Wanted::Manifest);
        let asked = self.peers.iter().filter(|peer| peer.flight.is_outstanding(key)).count();
        let again = self.peers[p].flight.is_outstanding(key);
        (!again && asked < MANIFEST_COPIES).then_some(key)
    }

    fn urgent_for(&mut self, now: Duration, p: usize) -> Option<Key> {
        for _ in 0..self.urgent.len().min(URGENT_LOOK) {
            let key = self.urgent.pop_front()?;
            let Wanted::Tile(object, tile) = key.wanted() else { continue };
            if !self.objects.get(&object_number(object)).is_some_and(|o| o.is_tile_missing(tile)) {
                continue; // it came meanwhile, or its object is done
            }
            if !self.has(p, key) || must_skip(now, &self.avoided, &self.peers, key, p) {
                self.urgent.push_back(key);
                continue;
            }
            return Some(key);
        }
        None
    }

    fn work_for(&mut self, now: Duration, p: usize) -> Option<Key> {
        if self.peers[p].available.is_some() {
            return self.part_for(now, p);
        }
        let key = self.look_for_work(now, p)?;
        self.take_up(key);
        Some(key)
    }

    /// As [`Self::work_for`], for a peer with a part, which may well have nothing to ask it for: that is
    /// remembered until there may be.
    fn part_for(&mut self, now: Duration, p: usize) -> Option<Key> {
        let (until, supply) = self.peers[p].starved_until;
        if supply == self.supply && now < until {
            return None;
        }
        if let Some(key) = self.look_for_work(now, p) {
            self.take_up(key);
            return Some(key);
        }
        self.peers[p].starved_until = (now + STARVED_FOR, self.supply);
        self.peers[p].questions.hurry();
        self.plan_questions();
        None
    }

    /// Somebody is asked for it now.
    fn take_up(&mut self, key: Key) {
        let wanted = key.wanted();
        if let Wanted::Segment(id, _) | Wanted::Tile(id, _) = wanted
            && let Some(object) = self.objects.get_mut(&object_number(id))
        {
            let before = object.unasked();
            object.asked(wanted);
            self.unasked -= before - object.unasked();
        }
    }

    /// Whether more may be asked for before the tiles came that prove it.
    pub(crate) fn has_room_to_hold(&self) -> bool {
        self.held < self.config.max_held / 2
    }

    /// Whether peer `p` has `key`, as far as is known.
    fn has(&self, p: usize, key: Key) -> bool {
        let Some(available) = &self.peers[p].available else { return true };
        match key.wanted() {
            Wanted::Manifest => true,
            Wanted::Segment(id, i) => available.runs(object_number(id)).meets(i.0..i.0 + 1),
            Wanted::Tile(id, tile) => {
                let number = object_number(id);
                let object = self.objects.get(&number);
                object.is_some_and(|object| available.runs(number).meets(object.under(tile)))
            }
        }
    }

    /// What nobody is asked for and peer `p` may be: what is preferred, then the first in order, or
    /// something rare.
    fn look_for_work(&mut self, now: Duration, p: usize) -> Option<Key> {
        if !self.preferred.is_empty()
            && let Some(key) = self.look_for_preferred(now, p)
        {
            return Some(key);
        }
        if self.rarest_first() {
            return self.look_for_rare_work(now, p);
        }
        let room = self.has_room_to_hold();
        let first = self.in_order.and_then(|_| self.first_object());
        while let Some(number) = self.work.front() {
            match self.objects.get_mut(number) {
                Some(object) if object.unasked() > 0 => {
                    if first.is_some_and(|first| first != *number) {
                        return None;
                    }
                    let (peers, avoided) = (&self.peers, &self.avoided);
                    let (end, runs) = (object.end_of_order(self.in_order), peers[p].runs(*number));
                    return object
                        .next(0..end, room, runs, |key| must_skip(now, avoided, peers, key, p));
                }
                Some(object) => object.queued = false,
                None => {}
            }
            self.work.pop_front();
        }
        None
    }

    /// The oldest object that is not complete.
    fn first_object(&mut self) -> Option<u64> {
        while let Some(number) = self.order.front() {
            if self.objects.contains_key(number) {
                return Some(*number);
            }
            self.order.pop_front();
        }
        None
    }

    /// Something that another peer was asked for and would bring later than peer `p` can; while there is
    /// something left that nobody is asked for (and peer `p` does not have), only what is long overdue.
    fn copy_for(&mut self, now: Duration, p: usize) -> Option<Key> {
        let mine = now + self.peers[p].rtt.smoothed()? * 5 / 4;
        let at_the_end = self.unasked == 0 || self.in_order.is_some() || !self.some_are_partial;
        let count = self.peers.len();
        for q in (1..count).map(|step| (p + step) % count) {
            let theirs = &self.peers[q];
            let (rtt, silent) = (theirs.rtt.smoothed(), theirs.silent);
            let patience = theirs.rtt.probe_timeout(Duration::ZERO, 0);
            let late = |sent_at: Duration| match rtt {
                Some(rtt) if !silent && at_the_end => sent_at + rtt > mine || sent_at + rtt < now,
                Some(_) if !silent => sent_at + patience < now,
                _ => true,
            };
            let Some((key, sent_at)) = self.peers[q].flight.oldest_uncopied() else { continue };
            if !late(sent_at) || !self.has(p, key) {
                continue;
            }
            self.peers[q].flight.mark_copied();
            if self.is_missing(key) && !must_skip(now, &self.avoided, &self.peers, key, p) {
                return Some(key);
            }
        }
        None
    }

    pub(crate) fn is_missing(&self, key: Key) -> bool {
        match key.wanted() {
            Wanted::Manifest => self.phase == Phase::Manifest,
            Wanted::Segment(id, i) => {
                self.objects.get(&object_number(id)).is_some_and(|o| o.is_missing(i))
            }
            Wanted::Tile(id, tile) => {
                self.objects.get(&object_number(id)).is_some_and(|o| o.is_tile_missing(tile))
            }
        }
    }

    /// Something to find out with whether a silent peer is back: others stay free to be asked for it.
    fn trial_for(&mut self, now: Duration, p: usize) -> Option<Key> {
        self.look_for_work(now, p).or_else(|| self.copy_for(now, p))
    }
}

/// Whether peer `p` is not to be asked for `key`: it was already, or should be spared, as it failed with
/// this and somebody else who can be asked did not.
pub(crate) fn must_skip(
    now: Duration,
    avoided: &KeyMap<Key, Vec<PeerId>>,
    peers: &[Peer],
    key: Key,
    p: usize,
) -> bool {
    if peers[p].flight.is_outstanding(key) {
        return true;
    }
    if avoided.is_empty() {
        return false;
    }
    let Some(spared) = avoided.get(&key) else { return false };
    let has = |q: &Peer| match key.wanted() {
        Wanted::Segment(id, i) => q.runs(object_number(id)).meets(i.0..i.0 + 1),
        // A peer with some part may have the tile, and says so if it does not.
        Wanted::Tile(id, _) => !q.runs(object_number(id)).is_empty(),
        Wanted::Manifest => true,
    };
    spared.contains(&peers[p].id)
        && peers.iter().any(|q| q.is_active(now) && !spared.contains(&q.id) && has(q))
}
