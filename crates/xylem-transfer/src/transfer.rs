//! The entry type: its parts, its peers and objects, its timers. Asking is in `ask`, judging in `arrive`.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use bytes::Bytes;
use xylem_congestion::Pacer;
use xylem_hash::Hash;
use xylem_object::naming::ObjectId;
use xylem_tree::{Geometry, Verifier};

use crate::event::{
    AddError, Config, Event, FailReason, Misbehaviour, PeerId, PeerStats, Progress, Spec,
};
use crate::key::{Key, KeyMap, Wanted, object_number};
use crate::object::Object;
use crate::peer::Peer;
use crate::prng::Prng;
use crate::rarest::Preferred;

/// Pairs of a thing and a peer not to ask for it, at most; past that, nobody is spared.
const MAX_AVOIDED: usize = 4_096;
/// A forwarder that brings the same wrong thing so often, past caches and with rests between (26 s in
/// all), stands before no good Data.
const FORWARDER_MISBEHAVIOUR: u32 = 10;
/// Refusals of the manifest by every peer after which nobody has it.
const MANIFEST_REFUSALS: u32 = 3;
/// `wants_objects` holds while less than this many windows of segments are queued.
const QUEUED_WINDOWS: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Manifest,
    Objects,
    Over,
}

/// The consumer of one publication.
///
/// Order of calls: [`new`](Self::new), [`add_peer`](Self::add_peer); then, whenever something arrives
/// or [`poll_timeout`](Self::poll_timeout) is due: every packet that has arrived to
/// [`handle_data`](Self::handle_data), then [`handle_timeout`](Self::handle_timeout), then
/// [`poll_event`](Self::poll_event) until `None`, then [`poll_transmit`](Self::poll_transmit) until
/// `None`. After [`Event::Manifest`], [`add_object`](Self::add_object) says what is wanted. All `now`
/// count from one epoch and do not go back.
#[derive(Debug)]
pub struct Transfer {
    pub(crate) spec: Spec,
    pub(crate) config: Config,
    pub(crate) prng: Prng,
    pub(crate) phase: Phase,
    pub(crate) peers: Vec<Peer>,
    places: KeyMap<u32, usize>,
    /// The peer that is asked next; it keeps its turn for a burst (`turns.rs`).
    pub(crate) turn: usize,
    /// Bytes asked for in this turn; and the start of the last turn, in the time of `Peer::served`.
    pub(crate) turn_bytes: u64,
    pub(crate) served_at_least: u64,
    /// Some peer that is asked has a part only.
    pub(crate) some_are_partial: bool,
    /// Grows when somebody says something new of what it has.
    pub(crate) have_changed: u64,
    /// Grows when there may be something to ask a peer for that had nothing to do.
    pub(crate) supply: u64,
    pub(crate) next_question: Option<Duration>,
    pub(crate) preferred: Preferred,
    pub(crate) objects: KeyMap<u64, Object>,
    /// Objects in the order of addition; those that are done are taken out when they come to the front.
    pub(crate) order: VecDeque<u64>,
    /// Objects that have segments nobody is asked for.
    pub(crate) work: VecDeque<u64>,
    /// Tiles to be asked for again, before anything else.
    pub(crate) urgent: VecDeque<Key>,
    pub(crate) avoided: KeyMap<Key, Vec<PeerId>>,
    /// Segments that nobody is asked for, of all objects.
    pub(crate) unasked: u64,
    /// Segments and tiles that wait for a tile, of all objects.
    pub(crate) held: usize,
    pub(crate) events: VecDeque<Event>,
    pub(crate) progress: Progress,
    /// `None`: patience begins when the time is next told.
    last_progress: Option<Duration>,
    paused: bool,
    pub(crate) in_order: Option<u64>,
    pub(crate) rate: Option<u64>,
    pub(crate) rate_pacer: Pacer,
    dropped_peers: usize,
    last_misbehaviour: Option<Misbehaviour>,
}

impl Transfer {
    /// A transfer that asks nobody yet. `seed` makes its nonces.
    pub fn new(spec: Spec, config: Config, seed: u64) -> Self {
        Self {
            spec,
            config,
            prng: Prng::new(seed),
            phase: Phase::Manifest,
            peers: Vec::new(),
            places: KeyMap::default(),
            turn: 0,
            turn_bytes: 0,
            served_at_least: 0,
            some_are_partial: false,
            have_changed: 0,
            supply: 0,
            next_question: None,
            preferred: Preferred::new(),
            objects: KeyMap::default(),
            order: VecDeque::new(),
            work: VecDeque::new(),
            urgent: VecDeque::new(),
            avoided: KeyMap::default(),
            unasked: 0,
            held: 0,
            events: VecDeque::new(),
            progress: Progress::default(),
            last_progress: None,
            paused: false,
            in_order: None,
            rate: None,
            rate_pacer: Pacer::default(),
            dropped_peers: 0,
            last_misbehaviour: None,
        }
    }

    // ---- peers ----------------------------------------------------------------------------

    /// Adds somebody to ask. False, and nothing done, if the number is in use or there are
    /// [`Config::max_peers`] already.
    pub fn add_peer(&mut self, now: Duration, peer: PeerId) -> bool {
        if self.places.contains_key(&peer.0) || self.peers.len() >= self.config.max_peers {
            return false;
        }
        if self.peers.is_empty() {
            self.touch(now);
        }
        self.places.insert(peer.0, self.peers.len());
        self.peers.push(Peer::new(now, peer, &self.config));
        true
    }

    /// As [`Self::add_peer`], for a forwarder: bad Data may be the fault of a cache on the way, and
    /// good Data stand behind it. What it brought wrong once is asked of it again past caches
    /// (MustBeFresh) if nobody else is there; only what is still wrong then counts against it, once
    /// for each rest that follows.
    pub fn add_forwarder(&mut self, now: Duration, peer: PeerId) -> bool {
        let added = self.add_peer(now, peer);
        if let Some(peer) = self.peers.last_mut().filter(|_| added) {
            peer.forwards = true;
        }
        added
    }

    /// The way to `peer` carries `bytes` in one datagram, and cuts a Data that is larger into several,
    /// all of which have to arrive: so a lost Data tells of one lost datagram among them. Without this
    /// a Data counts as one. May change at any time; does nothing for a peer that is not there.
    pub fn set_datagram_size(&mut self, peer: PeerId, bytes: usize) {
        if let Some(p) = self.place(peer) {
            self.peers[p].set_datagram(bytes as u64);
        }
    }

    /// Takes a peer out, say because its link closed; what it was asked is asked of others.
    pub fn remove_peer(&mut self, _now: Duration, peer: PeerId) {
        let Some(p) = self.places.remove(&peer.0) else { return };
        let keys = self.peers[p].flight.drain();
        if self.peers[p].dropped {
            self.dropped_peers -= 1;
        }
        self.peers.swap_remove(p);
        if let Some(moved) = self.peers.get(p) {
            self.places.insert(moved.id.0, p);
        }
        (self.turn, self.turn_bytes) = (0, 0);
        self.peers_changed();
        for key in keys {
            self.ask_again(key);
        }
    }

    /// A peer came or went: who has what is to be counted anew.
    fn peers_changed(&mut self) {
        self.have_changed += 1;
        self.supply += 1;
        self.count_partial();
        self.plan_questions();
    }

    pub(crate) fn place(&self, peer: PeerId) -> Option<usize> {
        self.places.get(&peer.0).copied()
    }

    /// One misbehaviour, with proof. The thing is asked of somebody else; too many, and the peer goes.
    pub(crate) fn misbehaved(&mut self, now: Duration, p: usize, key: Key, what: Misbehaviour) {
        let (id, again) = (self.peers[p].id, self.has_failed(key, self.peers[p].id));
        let room = self.avoided.len() < MAX_AVOIDED;
        let peer = &mut self.peers[p];
        if peer.dropped {
            return self.ask_again(key); // what of it waited for a tile is judged after it went
        }
        let limit = if peer.forwards {
            if again && peer.rest_until <= now {
                peer.misbehaviour += 1;
                peer.rest(now, peer.misbehaviour);
            } else if !again && !room {
                peer.misbehaviour += 1;
            }
            self.config.max_misbehaviour.max(FORWARDER_MISBEHAVIOUR)
        } else {
            peer.misbehaviour += 1;
            self.config.max_misbehaviour
        };
        let too_often = peer.misbehaviour >= limit;
        self.last_misbehaviour = Some(what.clone());
        self.events.push_back(Event::PeerMisbehaved { peer: id, what });
        self.avoid(key, id);
        self.ask_again(key);
        if too_often {
            self.drop_peer(p);
        }
    }

    fn drop_peer(&mut self, p: usize) {
        let peer = &mut self.peers[p];
        peer.dropped = true;
        let (id, keys) = (peer.id, peer.flight.drain());
        self.dropped_peers += 1;
        self.peers_changed();
        self.events.push_back(Event::PeerDropped { peer: id });
        for key in keys {
            self.ask_again(key);
        }
        if let (true, Some(last)) =
            (self.dropped_peers == self.peers.len(), self.last_misbehaviour.clone())
        {
            self.fail(FailReason::AllPeersMisbehaved { peers: self.dropped_peers, last });
        }
    }

    /// Whether `peer` has brought `key` wrong, or refused it.
    pub(crate) fn has_failed(&self, key: Key, peer: PeerId) -> bool {
        self.avoided.get(&key).is_some_and(|peers| peers.contains(&peer))
    }

    /// Notes that `peer` should not be asked for `key` while somebody else can be.
    pub(crate) fn avoid(&mut self, key: Key, peer: PeerId) {
        if self.avoided.len() >= MAX_AVOIDED {
            return;
        }
        let peers = self.avoided.entry(key).or_default();
        if !peers.contains(&peer) {
            peers.push(peer);
        }
    }

    // ---- objects --------------------------------------------------------------------------

    /// Wants the segments `wanted` of an object, except those in `have`, which were verified before.
    ///
    /// Objects are fetched in the order of addition, segments in ascending order; a range past the
    /// object's end is cut off. `verifier` is one that knows proven nodes from an earlier run; what is
    /// wanted must not have been reported complete to it. When all is verified, or nothing was wanted, [`Event::ObjectComplete`] follows.
    ///
    /// # Errors
    /// See [`AddError`]; the transfer is as it was.
    pub fn add_object(
        &mut self,
        id: ObjectId,
        root: Hash,
        geometry: Geometry,
        wanted: impl IntoIterator<Item = Range<u64>>,
        have: impl IntoIterator<Item = Range<u64>>,
        verifier: Option<Verifier>,
    ) -> Result<(), AddError> {
        if self.phase == Phase::Over {
            return Err(AddError::Over);
        }
        if self.objects.len() >= self.config.max_objects {
            return Err(AddError::TooMany(self.objects.len()));
        }
        let number = object_number(id);
        if self.objects.contains_key(&number) {
            return Err(AddError::AlreadyThere);
        }
        let limit = self.config.max_segments;
        let mut object = Object::new(id, root, geometry, wanted, have, verifier, limit)?;
        if object.missing() == 0 {
            self.events.push_back(Event::ObjectComplete(id));
            return Ok(());
        }
        if self.objects.is_empty() {
            self.last_progress = None; // nothing was wanted until now
        }
        self.unasked += object.unasked();
        self.progress.wanted_segments += object.missing();
        self.progress.wanted_bytes += object.missing_bytes();
        object.queued = true;
        self.supply += 1;
        self.objects.insert(number, object);
        self.progress.objects = self.objects.len();
        self.order.push_back(number);
        self.work.push_back(number);
        if self.order.len() > 2 * self.objects.len() + 64 {
            self.order.retain(|n| self.objects.contains_key(n));
        }
        Ok(())
    }

    /// Whether so little is queued that more objects should be added, if there are more.
    pub fn wants_objects(&self) -> bool {
        let windows: u64 = self.peers.iter().map(Peer::window_in_requests).sum();
        self.phase == Phase::Objects
            && self.unasked < QUEUED_WINDOWS * windows.max(64)
            && self.objects.len() < self.config.max_objects
    }

    /// Whether nothing is wanted any more: every object that was added is complete.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Objects && self.objects.is_empty()
    }

    /// Makes `Event::Nodes` of all nodes proven until now, so that an earlier end loses nothing.
    pub fn flush_nodes(&mut self) {
        let numbers: Vec<u64> =
            self.order.iter().copied().filter(|n| self.objects.contains_key(n)).collect();
        for number in numbers {
            self.report_nodes(number);
        }
    }

    pub(crate) fn report_nodes(&mut self, number: u64) {
        let Some(object) = self.objects.get_mut(&number) else { return };
        object.unreported = 0;
        let nodes = object.verifier.take_proven();
        if !nodes.is_empty() {
            self.events.push_back(Event::Nodes { object: object.id, nodes });
        }
    }

    /// Somebody has to be asked for `key`, unless it has come meanwhile.
    pub(crate) fn ask_again(&mut self, key: Key) {
        match key.wanted() {
            Wanted::Manifest => {}
            Wanted::Segment(id, i) => {
                let number = object_number(id);
                let Some(object) = self.objects.get_mut(&number) else { return };
                if object.ask_again(i) {
                    self.unasked += 1;
                    self.supply += 1;
                    if !object.queued {
                        object.queued = true;
                        self.work.push_front(number);
                    }
                }
            }
            Wanted::Tile(id, tile) => {
                let object = self.objects.get(&object_number(id));
                if object.is_some_and(|o| o.is_tile_missing(tile)) && !self.urgent.contains(&key) {
                    self.urgent.push_back(key);
                }
            }
        }
    }

    // ---- flow -----------------------------------------------------------------------------

    /// Stops asking (what was asked may still come), or goes on. Time paused is not held against
    /// anybody.
    pub fn set_paused(&mut self, now: Duration, paused: bool) {
        if self.paused && !paused {
            self.touch(now);
        }
        self.paused = paused;
    }

    /// Asks for nothing at `segments` or more past the first segment that is missing, and for one
    /// object at a time: bounds what a reader in order has to keep. `None`: no such bound.
    pub fn in_order_window(&mut self, segments: Option<u64>) {
        self.in_order = segments.map(|n| n.max(1));
    }

    /// Asks for at most so many bytes of content a second. `None`: no such bound.
    pub fn set_rate_limit(&mut self, bytes_per_second: Option<u64>) {
        self.rate = bytes_per_second.map(|r| r.max(1));
    }

    pub(crate) fn is_held_back(&self) -> bool {
        self.paused || self.phase == Phase::Over
    }

    /// Verified progress: the patience of [`Config::give_up`] begins anew.
    pub(crate) fn touch(&mut self, now: Duration) {
        self.last_progress = self.last_progress.max(Some(now));
    }

    fn gives_up_at(&self, now: Duration) -> Option<Duration> {
        (!self.paused && !self.is_idle() && self.phase != Phase::Over)
            .then(|| self.last_progress.map_or(now, |at| at + self.config.give_up))
    }

    // ---- timers, events, numbers ------------------------------------------------------------

    /// When [`handle_timeout`](Self::handle_timeout) is to be called at the latest, or
    /// [`poll_transmit`](Self::poll_transmit) has something again; `None`: not before something arrives.
    pub fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        if self.phase == Phase::Over {
            return None;
        }
        let timers = self.peers.iter().filter_map(Peer::next_timer);
        let tokens = self.peers.iter().filter_map(|p| p.next_token(now));
        let has_work = !self.paused && self.has_work();
        let rate = self.rate.and_then(|r| self.rate_pacer.next(r, crate::ask::rate_burst(r)));
        timers
            .chain(tokens.filter(|_| has_work))
            .chain(rate.filter(|_| has_work))
            .chain(self.question_at())
            .chain(self.gives_up_at(now))
            .min()
    }

    fn has_work(&self) -> bool {
        self.phase == Phase::Manifest || self.unasked > 0 || !self.urgent.is_empty()
    }

    /// Finds what is lost, who is silent, and whether it is time to give up. Hand in every packet
    /// that has arrived first, or what lies unread counts as lost.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.phase == Phase::Over {
            return;
        }
        for p in 0..self.peers.len() {
            self.find_lost(p, now);
            self.peers[p].after_answers(now);
            for key in self.peers[p].on_probe_timer(now).0 {
                self.progress.lost += 1;
                self.ask_again(key);
            }
        }
        self.last_progress.get_or_insert(now);
        if self.gives_up_at(now).is_some_and(|at| now >= at) {
            let peers = self.peers.len();
            self.fail(match self.last_misbehaviour.clone() {
                _ if peers == 0 => FailReason::NobodyHasIt { peers },
                Some(last) if self.dropped_peers == peers => {
                    FailReason::AllPeersMisbehaved { peers, last }
                }
                _ => FailReason::TimedOut { after: self.config.give_up },
            });
        }
    }

    pub(crate) fn find_lost(&mut self, p: usize, now: Duration) {
        while let Some(key) = self.peers[p].take_lost(now) {
            self.progress.lost += 1;
            self.ask_again(key);
        }
    }

    /// Ends the transfer if every peer that could be asked has refused the manifest often enough.
    pub(crate) fn manifest_refused(&mut self) {
        let mut rest = self.peers.iter().filter(|p| !p.dropped);
        if rest.all(|p| p.manifest_refusals >= MANIFEST_REFUSALS) {
            self.fail(FailReason::NobodyHasIt { peers: self.peers.len() });
        }
    }

    pub(crate) fn fail(&mut self, reason: FailReason) {
        if self.phase == Phase::Over {
            return;
        }
        self.flush_nodes();
        self.phase = Phase::Over;
        for peer in &mut self.peers {
            peer.flight.drain();
        }
        self.objects.clear();
        self.order.clear();
        self.work.clear();
        self.urgent.clear();
        self.avoided.clear();
        self.preferred.clear();
        (self.unasked, self.held, self.progress.objects) = (0, 0, 0);
        self.events.push_back(Event::Failed(reason));
    }

    /// What happened, oldest first. While events wait unread, nothing more is asked for.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// How far the transfer is.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// The peers in numbers, in no particular order.
    pub fn peers(&self, now: Duration) -> impl Iterator<Item = PeerStats> + '_ {
        self.peers.iter().map(move |p| p.stats(now))
    }

    /// Takes a manifest packet that was kept from an earlier run, as if a peer had sent it.
    ///
    /// # Errors
    /// What is wrong with it; the transfer goes on and asks peers for another.
    pub fn offer_manifest(&mut self, now: Duration, packet: Bytes) -> Result<(), Misbehaviour> {
        match xylem_packet::Packet::decode(&packet) {
            Ok(xylem_packet::Packet::Data(data)) => self.take_manifest(now, &packet, &data),
            _ => Err(Misbehaviour::Undecodable),
        }
    }
}
