//! All peers of a transfer: which is asked next, which items each is not asked for, and which have only a part.

use core::ops::{Index, IndexMut};
use core::time::Duration;

use xylem_object::Have;

use crate::available::SegmentRuns;
use crate::event::{PeerId, TransferConfig};
use crate::fair_queue::FairQueue;
use crate::key::{ItemKey, ItemKeyMap, RequestedItem, object_number};
use crate::peer::{PeerKind, TransferPeer};
use crate::question::QueryNonce;

/// Maximum number of items with peers that should not be asked for them. Past that no more are noted.
const MAX_AVOIDED: usize = 4_096;

/// The peers, each at a place below [`TransferPeers::len`]. Places change when a peer is removed.
#[derive(Debug, Default)]
pub(crate) struct TransferPeers {
    all: Vec<TransferPeer>,
    places: ItemKeyMap<u32, usize>,
    queue: FairQueue,
    /// For each item, the peers that sent it wrong or refused it.
    avoided: ItemKeyMap<ItemKey, Vec<PeerId>>,
    dropped: usize,
    /// Some peer that is asked has only a part.
    some_are_partial: bool,
    /// Grows when a peer leaves or announces something new of what it has.
    version: u64,
    /// When the next question to any peer is due.
    next_question: Option<Duration>,
}

impl Index<usize> for TransferPeers {
    type Output = TransferPeer;

    #[inline]
    fn index(&self, place: usize) -> &TransferPeer {
        &self.all[place]
    }
}

impl IndexMut<usize> for TransferPeers {
    #[inline]
    fn index_mut(&mut self, place: usize) -> &mut TransferPeer {
        &mut self.all[place]
    }
}

impl TransferPeers {
    // ---- membership ----

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &TransferPeer> {
        self.all.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut TransferPeer> {
        self.all.iter_mut()
    }

    /// The place of the peer with this number.
    pub(crate) fn place(&self, id: PeerId) -> Option<usize> {
        self.places.get(&id.0).copied()
    }

    /// Adds a peer. Returns false if the number is in use or there are [`TransferConfig::max_peers`] already.
    pub(crate) fn add(
        &mut self,
        now: Duration,
        id: PeerId,
        kind: PeerKind,
        c: &TransferConfig,
    ) -> bool {
        if self.places.contains_key(&id.0) || self.all.len() >= c.max_peers {
            return false;
        }
        self.places.insert(id.0, self.all.len());
        self.all.push(TransferPeer::new(now, id, kind, c));
        self.queue.push();
        self.plan_questions();
        true
    }

    /// Removes a peer. Returns what it was asked for, oldest first.
    pub(crate) fn remove(&mut self, id: PeerId) -> Vec<ItemKey> {
        let Some(place) = self.places.remove(&id.0) else { return Vec::new() };
        let mut gone = self.all.swap_remove(place);
        self.queue.swap_remove(place);
        self.dropped -= usize::from(gone.is_dropped());
        if let Some(moved) = self.all.get(place) {
            self.places.insert(moved.id().0, place);
        }
        self.on_change();
        gone.drop_out()
    }

    /// Stops asking the peer at this place. Returns what it was asked for, oldest first.
    pub(crate) fn drop_out(&mut self, place: usize) -> Vec<ItemKey> {
        let keys = self.all[place].drop_out();
        self.dropped += 1;
        self.on_change();
        keys
    }

    /// Whether every peer was dropped for misbehaviour.
    pub(crate) fn are_all_dropped(&self) -> bool {
        self.dropped == self.all.len()
    }

    /// Empties all tables because the transfer has ended.
    pub(crate) fn stop(&mut self) {
        for peer in &mut self.all {
            peer.flow_mut().drain();
        }
        self.avoided.clear();
    }

    /// Notes that blocks have to be counted again.
    fn on_change(&mut self) {
        self.version += 1;
        self.some_are_partial = self.all.iter().any(|peer| !peer.is_dropped() && peer.has_part());
        self.plan_questions();
    }

    // ---- turns ----

    /// The place of the peer that is asked next.
    #[inline]
    pub(crate) fn current(&self) -> usize {
        self.queue.current()
    }

    /// Records that the current peer was asked for `bytes`.
    #[inline]
    pub(crate) fn on_asked(&mut self, bytes: u64) {
        self.queue.on_used(bytes);
    }

    /// Passes the turn on if the burst is over.
    #[inline]
    pub(crate) fn pass_turn(&mut self, now: Duration) {
        if !self.queue.is_burst_over() {
            return;
        }
        let rate = self.all[self.queue.current()].flow().rate();
        let all = &mut self.all;
        self.queue.pass(|_| rate, |p| !all[p].is_starved() && all[p].may_ask(now));
    }

    /// Passes the turn on because the current peer has no room or no work.
    pub(crate) fn skip_turn(&mut self) {
        self.queue.skip(|place| self.all[place].flow().rate());
    }

    // ---- which items a peer is not asked for ----

    /// Whether `peer` has sent `key` wrong, or refused it.
    pub(crate) fn has_failed(&self, key: ItemKey, peer: PeerId) -> bool {
        self.avoided.get(&key).is_some_and(|peers| peers.contains(&peer))
    }

    /// Notes that `peer` should not be asked for `key` while another peer can be. Returns whether there is room for
    /// such notes.
    pub(crate) fn avoid(&mut self, key: ItemKey, peer: PeerId) -> bool {
        if self.avoided.len() >= MAX_AVOIDED {
            return false;
        }
        let peers = self.avoided.entry(key).or_default();
        if !peers.contains(&peer) {
            peers.push(peer);
        }
        true
    }

    /// Forgets the notes on `key`, which has arrived.
    pub(crate) fn forget_avoided(&mut self, key: ItemKey) {
        if !self.avoided.is_empty() {
            self.avoided.remove(&key);
        }
    }

    fn must_skip(&self, now: Duration, key: ItemKey, place: usize) -> bool {
        let peer = &self.all[place];
        if peer.flow().flight().is_outstanding(key) {
            return true;
        }
        if self.avoided.is_empty() {
            return false;
        }
        let Some(spared) = self.avoided.get(&key) else { return false };
        spared.contains(&peer.id()) && self.is_another_left(now, key, spared)
    }

    /// Whether every peer that could be asked for `key` has refused it or brought it wrong.
    pub(crate) fn have_all_failed(&self, now: Duration, key: ItemKey) -> bool {
        self.avoided.get(&key).is_some_and(|spared| !self.is_another_left(now, key, spared))
    }

    /// Whether an active peer that is not among `spared` may have `key`.
    fn is_another_left(&self, now: Duration, key: ItemKey, spared: &[PeerId]) -> bool {
        let has = |other: &TransferPeer| match key.wanted() {
            RequestedItem::Segment(id, i) => other.runs(object_number(id)).meets(i.0..i.0 + 1),
            // A peer with some part may have the tile; otherwise it refuses.
            RequestedItem::Tile(id, _) => !other.runs(object_number(id)).is_empty(),
            RequestedItem::Manifest => true,
        };
        let can = |other: &TransferPeer| {
            other.is_active(now) && !spared.contains(&other.id()) && has(other)
        };
        self.all.iter().any(can)
    }

    /// The peer at `place`, as the one for which something to ask is searched.
    pub(crate) fn asker(&self, now: Duration, place: usize) -> PeerView<'_> {
        PeerView { peers: self, now, place }
    }

    // ---- which peer has which segments ----

    /// Whether some peer that is asked has only a part.
    pub(crate) fn some_are_partial(&self) -> bool {
        self.some_are_partial
    }

    /// Grows when a peer leaves or announces something new of what it has.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// When the next peer is to be asked which segments it has.
    pub(crate) fn next_question(&self) -> Option<Duration> {
        self.next_question
    }

    fn plan_questions(&mut self) {
        self.next_question = self.all.iter().filter_map(TransferPeer::next_question).min();
    }

    /// The peer to ask now which segments it has. Records the question with its nonce.
    pub(crate) fn next_availability_query(
        &mut self,
        now: Duration,
        nonce: QueryNonce,
    ) -> Option<PeerId> {
        let mut due = self.all.iter_mut();
        let peer = due.find(|peer| peer.next_question().is_some_and(|at| at <= now));
        let id = peer.map(|peer| {
            peer.on_question(now, nonce);
            peer.id()
        });
        self.plan_questions();
        id
    }

    /// Takes the list of what the peer at `place` has.
    pub(crate) fn on_have(&mut self, now: Duration, place: usize, have: Have) {
        if self.all[place].on_have(now, have) {
            self.on_change();
        } else {
            self.plan_questions();
        }
    }

    /// Records that a search of this supply found nothing to ask the peer at `place` for.
    pub(crate) fn on_empty_search(&mut self, place: usize, until: Duration, supply: u64) {
        self.all[place].on_empty_search(until, supply);
        self.plan_questions();
    }
}

/// One peer, with all others at hand, while something to ask it for is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerView<'a> {
    peers: &'a TransferPeers,
    now: Duration,
    place: usize,
}

impl<'a> PeerView<'a> {
    pub(crate) fn now(self) -> Duration {
        self.now
    }

    /// Whether the peer has only a part, as far as is known.
    pub(crate) fn has_part(self) -> bool {
        self.peers[self.place].has_part()
    }

    /// The segments of an object that the peer has, as far as is known.
    #[inline]
    pub(crate) fn runs(self, object: u64) -> SegmentRuns<'a> {
        self.peers[self.place].runs(object)
    }

    /// Whether the peer is not to be asked for `key`: it is asked already, or it failed with this and another peer that
    /// can be asked did not.
    #[inline]
    pub(crate) fn must_skip(self, key: ItemKey) -> bool {
        self.peers.must_skip(self.now, key, self.place)
    }

    /// See [`TransferPeers::version`].
    pub(crate) fn version(self) -> u64 {
        self.peers.version
    }

    /// The segments of an object that each partial peer has, for all such peers that are asked.
    pub(crate) fn parts_of(self, object: u64) -> impl Iterator<Item = SegmentRuns<'a>> {
        let partial = self.peers.all.iter().filter(|peer| !peer.is_dropped() && peer.has_part());
        partial.map(move |peer| peer.runs(object))
    }
}
