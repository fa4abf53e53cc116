//! The entry type: its parts, and what the caller does with it. Asking is in `ask`, judging in `arrive`.

mod arrive;
mod ask;
mod demand;
mod together;

pub use demand::Urgency;

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use bytes::Bytes;
use xylem_congestion::{Algorithm, SplitMix64};
use xylem_hash::Hash;
use xylem_object::{ObjectId, naming};
use xylem_packet::{Data, NameRef};
use xylem_tree::{Geometry, Verifier};

use crate::event::{
    AddError, Config, FailReason, Misbehaviour, PathReport, PeerId, PeerStats, Progress, Spec,
    TransferEvent,
};
use crate::key::Key;
use crate::limits::{Patience, RateLimit};
use crate::object::Object;
use crate::objects::Objects;
use crate::peer::{Peer, PeerKind};
use crate::peers::Peers;

/// `wants_objects` holds while less than this many windows of segments are queued.
const QUEUED_WINDOWS: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The manifest is found by other means, and with it the name to ask by.
    Unnamed,
    Manifest,
    Objects,
    Over,
}

/// The consumer of one publication.
///
/// Order of calls: [`new`](Self::new), [`add_peer`](Self::add_peer); then, whenever something arrives
/// or [`poll_timeout`](Self::poll_timeout) is due: every packet that has arrived to
/// [`handle_data`](Self::handle_data) (or [`queue_data`](Self::queue_data), which is faster, and
/// [`prove_queued`](Self::prove_queued)), then [`handle_timeout`](Self::handle_timeout), then
/// [`poll_event`](Self::poll_event) until `None`, then [`poll_transmit`](Self::poll_transmit) until
/// `None`. After [`TransferEvent::Manifest`], [`add_object`](Self::add_object) says what is wanted. All `now`
/// count from one epoch and do not go back.
#[derive(Debug)]
pub struct Transfer {
    spec: Spec,
    config: Config,
    phase: Phase,
    peers: Peers,
    objects: Objects,
    /// How far past the first missing segment may be asked for, if things are to come in order.
    in_order: Option<u64>,
    patience: Patience,
    rate_limit: RateLimit,
    chance: SplitMix64,
    events: VecDeque<TransferEvent>,
    progress: Progress,
    last_misbehaviour: Option<Misbehaviour>,
    /// Empty but while packets are queued.
    unproven: Vec<together::Unproven>,
    /// While several segments are judged: the objects whose nodes are to be reported behind them.
    due: Option<Vec<ObjectId>>,
}

impl Transfer {
    /// A transfer that asks nobody yet. `seed` makes its nonces.
    pub fn new(spec: Spec, config: Config, seed: u64) -> Self {
        Self {
            spec,
            phase: Phase::Manifest,
            peers: Peers::default(),
            objects: Objects::default(),
            in_order: None,
            patience: Patience::new(config.give_up),
            rate_limit: RateLimit::default(),
            chance: SplitMix64::new(seed),
            events: VecDeque::new(),
            progress: Progress::default(),
            last_misbehaviour: None,
            unproven: Vec::new(),
            due: None,
            config,
        }
    }

    /// A transfer of what has no name yet: asks nobody before [`offer_manifest`](Self::offer_manifest)
    /// has taken a manifest whose publisher, root and size are those of `spec`; its prefix does not
    /// count.
    pub fn unnamed(spec: Spec, config: Config, seed: u64) -> Self {
        Self { phase: Phase::Unnamed, ..Self::new(spec, config, seed) }
    }

    /// Takes a manifest packet that the caller came by without having asked for it through this
    /// transfer. Nothing happens if the transfer has one already, of the same name.
    ///
    /// # Errors
    /// It is not the publisher's, or of something else; nothing has changed.
    pub fn offer_manifest(&mut self, now: Duration, packet: &Bytes) -> Result<(), Misbehaviour> {
        let data = Data::decode(packet).map_err(|_| Misbehaviour::Undecodable)?;
        let prefix = data.name().parent();
        match self.phase {
            Phase::Over => return Ok(()),
            Phase::Unnamed => {
                naming::check_prefix(prefix).map_err(|_| Misbehaviour::OtherManifest)?;
            }
            _ if prefix != self.spec.prefix.as_ref() => return Err(Misbehaviour::OtherManifest),
            Phase::Manifest | Phase::Objects => {}
        }
        self.take_manifest(now, packet, &data, prefix)?;
        self.spec.prefix = prefix.to_name();
        Ok(())
    }

    // ---- peers ----------------------------------------------------------------------------

    /// Adds somebody to ask. False, and nothing done, if the number is in use or there are
    /// [`Config::max_peers`] already.
    pub fn add_peer(&mut self, now: Duration, peer: PeerId) -> bool {
        self.add(now, peer, PeerKind::Plain)
    }

    /// As [`Self::add_peer`], for a forwarder: bad Data may be the fault of a cache on the way, and
    /// good Data stand behind it. What it brought wrong once is asked of it again past caches
    /// (MustBeFresh) if nobody else is there; only what is still wrong then counts against it, once
    /// for each rest that follows.
    pub fn add_forwarder(&mut self, now: Duration, peer: PeerId) -> bool {
        self.add(now, peer, PeerKind::Forwarder)
    }

    /// As [`Self::add_peer`], for the peer at the other end of a link, with nobody between: it is asked
    /// what it has of the publication, and then for that. Without an answer it counts as having
    /// everything.
    pub fn add_direct_peer(&mut self, now: Duration, peer: PeerId) -> bool {
        self.add(now, peer, PeerKind::Direct)
    }

    fn add(&mut self, now: Duration, peer: PeerId, kind: PeerKind) -> bool {
        let is_first = self.peers.is_empty();
        let added = self.peers.add(now, peer, kind, &self.config);
        self.objects.ask_all_postponed();
        if added && is_first {
            self.patience.on_first_peer(now);
        }
        added
    }

    /// The way to `peer` carries `bytes` in one datagram, and cuts a Data that is larger into several,
    /// all of which have to arrive: so a lost Data tells of one lost datagram among them. Without this
    /// a Data counts as one. May change at any time; does nothing for a peer that is not there.
    pub fn set_datagram_size(&mut self, peer: PeerId, bytes: usize) {
        if let Some(p) = self.peers.place(peer) {
            self.peers[p].flow_mut().set_datagram(bytes as u64);
        }
    }

    /// A round trip to `peer` takes so long, if its link has measured it. What nothing has been fetched from yet is
    /// asked again by this, else after 1 s; does nothing for other peers.
    pub fn expect_round_trip(&mut self, peer: PeerId, rtt: Option<Duration>) {
        if let (Some(p), Some(rtt)) = (self.peers.place(peer), rtt) {
            self.peers[p].flow_mut().expect_round_trip(rtt);
        }
    }

    /// What `peer`'s link has brought and missed until now. Told whenever something came, before it is handed in:
    /// congestion control takes rates and losses from this, as the link repairs what it loses.
    pub fn note_path(&mut self, now: Duration, peer: PeerId, report: PathReport) {
        if let Some(p) = self.peers.place(peer) {
            self.peers[p].flow_mut().note_path(now, report);
        }
    }

    /// Takes a peer out, say because its link closed; what it was asked is asked of others.
    pub fn remove_peer(&mut self, _now: Duration, peer: PeerId) {
        for key in self.peers.remove(peer) {
            self.objects.ask_again(key);
        }
    }

    /// One misbehaviour, with proof. The thing is asked of somebody else; too many, and the peer goes.
    fn on_misbehaviour(&mut self, now: Duration, p: usize, key: Key, what: Misbehaviour) {
        if self.peers[p].is_dropped() {
            return self.objects.ask_again(key); // what of it waited for a tile is judged after it went
        }
        let id = self.peers[p].id();
        let again = self.peers.has_failed(key, id);
        let noted = self.peers.avoid(key, id);
        let limit = self.config.max_misbehaviour;
        let too_often = self.peers[p].on_misbehaviour(now, again, noted, limit);
        self.last_misbehaviour = Some(what.clone());
        self.events.push_back(TransferEvent::PeerMisbehaved { peer: id, what });
        self.objects.ask_again(key);
        if too_often {
            self.drop_peer(p);
        }
    }

    fn drop_peer(&mut self, p: usize) {
        let keys = self.peers.drop_out(p);
        self.events.push_back(TransferEvent::PeerDropped { peer: self.peers[p].id() });
        for key in keys {
            self.objects.ask_again(key);
        }
        if let Some(reason) = self.all_misbehaved() {
            self.fail(reason);
        }
    }

    fn all_misbehaved(&self) -> Option<FailReason> {
        let last = self.last_misbehaviour.clone().filter(|_| self.peers.are_all_dropped())?;
        Some(FailReason::AllPeersMisbehaved { peers: self.peers.len(), last })
    }

    // ---- objects --------------------------------------------------------------------------

    /// Wants the segments `wanted` of an object, except those in `have`, which were verified before.
    ///
    /// Objects are fetched in the order of addition, segments in ascending order; a range past the
    /// object's end is cut off. `verifier` is one that knows proven nodes from an earlier run; what is
    /// wanted must not have been reported complete to it. When all is verified, or nothing was wanted, [`TransferEvent::ObjectComplete`] follows.
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
        self.may_add(id)?;
        let limit = self.config.max_segments;
        let object = Object::new(id, root, geometry, wanted, have, verifier, limit)?;
        if object.missing() == 0 {
            self.events.push_back(TransferEvent::ObjectComplete(id));
            return Ok(());
        }
        if self.objects.is_idle() {
            self.patience.restart(); // nothing was wanted until now
        }
        self.progress.wanted_segments += object.missing();
        self.progress.wanted_bytes += object.missing_bytes();
        self.objects.add(object);
        self.progress.objects = self.objects.len();
        Ok(())
    }

    /// Wants an object no longer: nothing of it is asked for or reported any more. False if it is not
    /// under way.
    pub fn give_up_object(&mut self, id: ObjectId) -> bool {
        let there = self.objects.give_up(id);
        if there {
            // Whoever has refused it may have all the others.
            self.peers.iter_mut().for_each(Peer::forgive);
        }
        self.progress.objects = self.objects.len();
        there
    }

    /// Whether so little is queued that more objects should be added, if there are more.
    pub fn wants_objects(&self) -> bool {
        let windows: u64 = self.peers.iter().map(|peer| peer.flow().window_in_requests()).sum();
        self.phase == Phase::Objects
            && self.objects.unasked() < QUEUED_WINDOWS * windows.max(64)
            && self.objects.len() < self.config.max_objects
    }

    /// Whether nothing is wanted any more: all that was is here.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Objects && self.objects.is_idle()
    }

    /// Makes `TransferEvent::Nodes` of all nodes proven until now, so that an earlier end loses nothing.
    pub fn flush_nodes(&mut self) {
        for id in self.objects.ids() {
            self.report_nodes(id);
        }
    }

    fn report_nodes(&mut self, object: ObjectId) {
        if let Some(nodes) = self.objects.take_proven(object) {
            self.events.push_back(TransferEvent::Nodes { object, nodes });
        }
    }

    // ---- flow -----------------------------------------------------------------------------

    /// Stops asking (what was asked may still come), or goes on. Time paused is not held against
    /// anybody.
    pub fn set_paused(&mut self, now: Duration, paused: bool) {
        self.patience.set_paused(now, paused);
    }

    /// Asks for nothing at `segments` or more past the first segment that is missing, and for one
    /// object at a time: bounds what a reader in order has to keep. `None`: no such bound.
    pub fn in_order_window(&mut self, segments: Option<u64>) {
        self.in_order = segments.map(|n| n.max(1));
    }

    /// Asks for at most so many bytes of content a second. `None`: no such bound.
    pub fn set_rate_limit(&mut self, bytes_per_second: Option<u64>) {
        self.rate_limit.set(bytes_per_second);
    }

    /// Has the rate of each peer that is added from now on be found so; see [`Config::congestion`].
    pub fn set_congestion(&mut self, algorithm: Algorithm) {
        self.config.congestion = Some(algorithm);
    }

    /// What a name asks for, if it is one of those that this asks for.
    pub fn request_of(&self, name: NameRef<'_>) -> Option<naming::Request> {
        naming::parse(self.spec.prefix.as_ref(), name)
    }

    fn is_held_back(&self) -> bool {
        self.patience.is_paused() || matches!(self.phase, Phase::Over | Phase::Unnamed)
    }

    fn gives_up_at(&self, now: Duration) -> Option<Duration> {
        self.patience.ends(now).filter(|_| !self.is_idle() && self.phase != Phase::Over)
    }

    // ---- timers, events, numbers ------------------------------------------------------------

    /// When [`handle_timeout`](Self::handle_timeout) is to be called at the latest, or
    /// [`poll_transmit`](Self::poll_transmit) has something again; `None`: not before something arrives.
    pub fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        if self.phase == Phase::Over {
            return None;
        }
        let timers = self.peers.iter().filter_map(|peer| peer.flow().next_timer());
        let tokens = self.peers.iter().filter_map(|peer| peer.next_token(now));
        let has_work = !self.patience.is_paused()
            && (self.phase == Phase::Manifest || self.objects.has_work());
        timers
            .chain(tokens.filter(|_| has_work))
            .chain(self.rate_limit.next().filter(|_| has_work))
            .chain(self.next_question())
            .chain(self.objects.next_postponed())
            .chain(self.gives_up_at(now))
            .min()
    }

    /// When somebody is to be asked what it has; not while nothing is wanted.
    fn next_question(&self) -> Option<Duration> {
        self.peers.next_question().filter(|_| !self.is_held_back() && !self.is_idle())
    }

    /// Finds what is lost, who is silent, and whether it is time to give up. Hand in every packet
    /// that has arrived first, or what lies unread counts as lost.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.phase == Phase::Over {
            return;
        }
        for p in 0..self.peers.len() {
            self.find_lost(p, now);
            let flow = self.peers[p].flow_mut();
            flow.end_acks(now);
            for key in flow.on_probe_timer(now) {
                self.progress.lost += 1;
                self.objects.ask_again(key);
            }
        }
        self.objects.ask_postponed(now);
        self.patience.begin(now);
        if self.gives_up_at(now).is_some_and(|at| now >= at) {
            let peers = self.peers.len();
            let timed_out = FailReason::TimedOut { after: self.config.give_up };
            self.fail(match self.all_misbehaved() {
                _ if peers == 0 => FailReason::NobodyHasIt { peers },
                reason => reason.unwrap_or(timed_out),
            });
        }
    }

    fn find_lost(&mut self, p: usize, now: Duration) {
        while let Some(key) = self.peers[p].flow_mut().take_lost(now) {
            self.progress.lost += 1;
            self.objects.ask_again(key);
        }
    }

    /// Ends the transfer if every peer that could be asked has refused the manifest often enough.
    fn on_manifest_refused(&mut self) {
        if self.peers.iter().filter(|peer| !peer.is_dropped()).all(Peer::lacks_manifest) {
            self.fail(FailReason::NobodyHasIt { peers: self.peers.len() });
        }
    }

    fn fail(&mut self, reason: FailReason) {
        if self.phase == Phase::Over {
            return;
        }
        self.flush_nodes();
        self.phase = Phase::Over;
        self.peers.stop();
        self.objects.clear();
        self.progress.objects = 0;
        self.events.push_back(TransferEvent::Failed(reason));
    }

    /// What happened, oldest first. While events wait unread, nothing more is asked for.
    pub fn poll_event(&mut self) -> Option<TransferEvent> {
        self.events.pop_front()
    }

    /// How far the transfer is.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// The peers in numbers, in no particular order.
    pub fn peers(&self, now: Duration) -> impl Iterator<Item = PeerStats> + '_ {
        self.peers.iter().map(move |peer| peer.stats(now))
    }
}
