//! [`Transfer`], the entry type: its parts and what its caller does. Module `ask` decides what to ask for, `arrive`
//! judges what arrives.

mod arrive;
mod ask;
mod demand;
mod together;

pub use demand::Urgency;

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use bytes::Bytes;
use xylem_congestion::{CongestionAlgorithm, SplitMix64};
use xylem_hash::Hash;
use xylem_object::{ObjectId, naming};
use xylem_packet::{Data, Name, NameRef};
use xylem_tree::{Geometry, TreeVerifier};

use crate::event::{
    AddError, FailReason, Misbehaviour, PathReport, PeerId, PeerStats, TransferConfig,
    TransferEvent, TransferProgress, TransferSpec,
};
use crate::key::ItemKey;
use crate::limits::{ProgressTimeout, RateLimit};
use crate::object::TransferObject;
use crate::objects::ObjectTable;
use crate::peer::{PeerKind, TransferPeer};
use crate::peers::TransferPeers;

/// `wants_objects` holds while less than this many windows of segments are queued.
const QUEUED_WINDOWS: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferPhase {
    /// The caller has to find the manifest, which gives the name to ask by.
    Unnamed,
    Manifest,
    Objects,
    Over,
}

/// The consumer of one publication.
///
/// Call [`new`](Self::new) and [`add_peer`](Self::add_peer) first. Then, whenever a packet arrives or
/// [`poll_timeout`](Self::poll_timeout) is due:
///
/// 1. Hand in every packet with [`handle_data`](Self::handle_data). [`queue_data`](Self::queue_data), followed by
///    [`prove_queued`](Self::prove_queued), is faster.
/// 2. Call [`handle_timeout`](Self::handle_timeout).
/// 3. Call [`poll_event`](Self::poll_event) until it returns `None`.
/// 4. Call [`poll_transmit`](Self::poll_transmit) until it returns `None`.
///
/// After [`TransferEvent::Manifest`], state what is wanted with [`add_object`](Self::add_object). All `now` count from
/// one epoch and do not go back.
#[derive(Debug)]
pub struct Transfer {
    spec: TransferSpec,
    config: TransferConfig,
    phase: TransferPhase,
    peers: TransferPeers,
    objects: ObjectTable,
    /// How many segments past the first missing one may be asked for, if they are to arrive in order.
    in_order: Option<u64>,
    patience: ProgressTimeout,
    rate_limit: RateLimit,
    rng: SplitMix64,
    events: VecDeque<TransferEvent>,
    progress: TransferProgress,
    last_misbehaviour: Option<Misbehaviour>,
    /// Segments that are not judged yet. Empty except while packets are queued.
    unproven: Vec<together::QueuedSegment>,
    /// While several segments are judged: the objects with nodes to report afterwards.
    nodes_due: Option<Vec<ObjectId>>,
}

impl Transfer {
    /// A transfer without peers. `seed` seeds its nonces and random choices.
    pub fn new(spec: TransferSpec, config: TransferConfig, seed: u64) -> Self {
        Self {
            spec,
            phase: TransferPhase::Manifest,
            peers: TransferPeers::default(),
            objects: ObjectTable::default(),
            in_order: None,
            patience: ProgressTimeout::new(config.give_up),
            rate_limit: RateLimit::default(),
            rng: SplitMix64::new(seed),
            events: VecDeque::new(),
            progress: TransferProgress::default(),
            last_misbehaviour: None,
            unproven: Vec::new(),
            nodes_due: None,
            config,
        }
    }

    /// A transfer without a name. It asks no peer until [`offer_manifest`](Self::offer_manifest) has taken a manifest
    /// with the publisher, root and size of `spec`. The prefix of `spec` is not used.
    pub fn unnamed(spec: TransferSpec, config: TransferConfig, seed: u64) -> Self {
        Self { phase: TransferPhase::Unnamed, ..Self::new(spec, config, seed) }
    }

    /// Takes a manifest packet that the caller obtained by other means. Nothing happens if the transfer has a manifest
    /// of the same name already.
    ///
    /// # Errors
    /// The manifest is not the publisher's, or is of something else. Nothing has changed.
    pub fn offer_manifest(&mut self, now: Duration, packet: &Bytes) -> Result<(), Misbehaviour> {
        let data = Data::decode(packet).map_err(|_| Misbehaviour::Undecodable)?;
        let prefix = data.name().parent();
        match self.phase {
            TransferPhase::Over => return Ok(()),
            TransferPhase::Unnamed => {
                naming::check_prefix(prefix).map_err(|_| Misbehaviour::OtherManifest)?;
            }
            _ if prefix != self.spec.prefix.as_ref() => return Err(Misbehaviour::OtherManifest),
            TransferPhase::Manifest | TransferPhase::Objects => {}
        }
        self.take_manifest(now, packet, &data, prefix)?;
        self.spec.prefix = prefix.to_name();
        Ok(())
    }

    // ---- peers ----------------------------------------------------------------------------

    /// Adds a peer to ask. Returns false, and does nothing, if the number is in use or there are [`TransferConfig::max_peers`]
    /// already.
    pub fn add_peer(&mut self, now: Duration, peer: PeerId) -> bool {
        self.add(now, peer, PeerKind::Plain)
    }

    /// As [`Self::add_peer`], for a forwarder. A cache on the way may cause bad Data while good Data exists behind it.
    /// An item that arrived wrong is asked for again past caches (MustBeFresh) if no other peer can be asked. Only an
    /// item that is still wrong then counts against the forwarder, once for each rest that follows.
    pub fn add_forwarder(&mut self, now: Duration, peer: PeerId) -> bool {
        self.add(now, peer, PeerKind::Forwarder)
    }

    /// As [`Self::add_peer`], for the peer at the other end of a link with no forwarder between. It is asked which
    /// segments of the publication it has, and then for those. Until it answers it counts as having everything.
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

    /// Sets the name under which `peer` has the content in the same pieces, if it is not the transfer's. Call it before
    /// the peer is asked for anything. Nothing happens if there is no such peer.
    pub fn set_prefix(&mut self, peer: PeerId, prefix: Name) {
        if let Some(p) = self.peers.place(peer) {
            self.peers[p].set_prefix(prefix);
        }
    }

    /// Sets the size in bytes of the largest datagram on the path to `peer`. A larger Data is cut into several, and
    /// arrives only if all of them do, so a lost Data stands for one lost datagram among several. Without this a Data
    /// counts as one datagram. The size may change at any time. Nothing happens if there is no such peer.
    pub fn set_datagram_size(&mut self, peer: PeerId, bytes: usize) {
        if let Some(p) = self.peers.place(peer) {
            self.peers[p].flow_mut().set_datagram(bytes as u64);
        }
    }

    /// Sets the round trip to `peer` that its link has measured. Until an answer is measured, requests are repeated
    /// after this time instead of 1 s. Nothing happens if there is no such peer.
    pub fn expect_round_trip(&mut self, peer: PeerId, rtt: Option<Duration>) {
        if let (Some(p), Some(rtt)) = (self.peers.place(peer), rtt) {
            self.peers[p].flow_mut().expect_round_trip(rtt);
        }
    }

    /// Takes the counters of `peer`'s link. Call it whenever packets arrived, before they are handed in. Congestion
    /// control takes rates and losses from these counters, because the link repairs its losses.
    pub fn note_path(&mut self, now: Duration, peer: PeerId, report: PathReport) {
        if let Some(p) = self.peers.place(peer) {
            self.peers[p].flow_mut().note_path(now, report);
        }
    }

    /// Removes a peer, for example because its link closed. Its requests are made to others.
    pub fn remove_peer(&mut self, _now: Duration, peer: PeerId) {
        for key in self.peers.remove(peer) {
            self.objects.ask_again(key);
        }
    }

    /// Handles one proven misbehaviour. The item is asked of another peer. After too many the peer is dropped.
    fn on_misbehaviour(&mut self, now: Duration, p: usize, key: ItemKey, what: Misbehaviour) {
        if self.peers[p].is_dropped() {
            return self.objects.ask_again(key); // the item waited for a tile while the peer was dropped
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
    /// Objects are fetched in the order of addition, and segments in ascending order. A range past the object's end is
    /// cut off. `verifier` may hold proven nodes from an earlier run; no wanted segment may have been reported complete
    /// to it. When every wanted segment is verified, or none was wanted, [`TransferEvent::ObjectComplete`] follows.
    ///
    /// # Errors
    /// See [`AddError`]. The transfer is unchanged.
    pub fn add_object(
        &mut self,
        id: ObjectId,
        root: Hash,
        geometry: Geometry,
        wanted: impl IntoIterator<Item = Range<u64>>,
        have: impl IntoIterator<Item = Range<u64>>,
        verifier: Option<TreeVerifier>,
    ) -> Result<(), AddError> {
        self.may_add(id)?;
        let limit = self.config.max_segments;
        let object = TransferObject::new(id, root, geometry, wanted, have, verifier, limit)?;
        if object.missing() == 0 {
            self.events.push_back(TransferEvent::ObjectComplete(id));
            return Ok(());
        }
        if self.objects.is_idle() {
            self.patience.restart(); // no segment was wanted until now
        }
        self.progress.wanted_segments += object.missing();
        self.progress.wanted_bytes += object.missing_bytes();
        self.objects.add(object);
        self.progress.objects = self.objects.len();
        Ok(())
    }

    /// Stops fetching an object. Nothing of it is asked for or reported any more. Returns false if it is not under way.
    pub fn give_up_object(&mut self, id: ObjectId) -> bool {
        let there = self.objects.give_up(id);
        if there {
            // A peer that refused this object may have all the others.
            self.peers.iter_mut().for_each(TransferPeer::reset_refusals);
        }
        self.progress.objects = self.objects.len();
        there
    }

    /// Whether so few segments are queued that the caller should add more objects, if it has more.
    pub fn wants_objects(&self) -> bool {
        let windows: u64 = self.peers.iter().map(|peer| peer.flow().window_in_requests()).sum();
        self.phase == TransferPhase::Objects
            && self.objects.unasked() < QUEUED_WINDOWS * windows.max(64)
            && self.objects.len() < self.config.max_objects
    }

    /// Whether every wanted segment is here.
    pub fn is_idle(&self) -> bool {
        self.phase == TransferPhase::Objects && self.objects.is_idle()
    }

    /// Makes `TransferEvent::Nodes` events of all nodes proven so far, so that an early end loses none.
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

    /// Pauses the transfer, or resumes it. While paused it asks for nothing, but answers may still arrive. Time spent
    /// paused does not count towards [`TransferConfig::give_up`].
    pub fn set_paused(&mut self, now: Duration, paused: bool) {
        self.patience.set_paused(now, paused);
    }

    /// Restarts the wait of [`TransferConfig::give_up`]: a peer may come up that was not known before.
    pub fn restart_wait(&mut self) {
        self.patience.restart();
    }

    /// Asks for no segment at `segments` or more past the first missing one, and for one object at a time. This bounds
    /// what an in-order reader has to buffer. `None`: no bound.
    pub fn in_order_window(&mut self, segments: Option<u64>) {
        self.in_order = segments.map(|n| n.max(1));
    }

    /// Limits the bytes of content that are asked for in a second. `None`: no limit.
    pub fn set_rate_limit(&mut self, bytes_per_second: Option<u64>) {
        self.rate_limit.set(bytes_per_second);
    }

    /// Sets the congestion algorithm of each peer that is added from now on. See [`TransferConfig::congestion`].
    pub fn set_congestion(&mut self, algorithm: CongestionAlgorithm) {
        self.config.congestion = Some(algorithm);
    }

    /// The request to `peer` that `name` makes, if it is one of this transfer's.
    pub fn request_of(
        &self,
        peer: PeerId,
        name: NameRef<'_>,
    ) -> Option<naming::PublicationRequest> {
        naming::parse(self.prefix_at(self.peers.place(peer)?), name)
    }

    /// The name under which the peer at place `p` is asked.
    fn prefix_at(&self, p: usize) -> NameRef<'_> {
        self.peers[p].prefix().unwrap_or(&self.spec.prefix).as_ref()
    }

    fn is_held_back(&self) -> bool {
        self.patience.is_paused()
            || matches!(self.phase, TransferPhase::Over | TransferPhase::Unnamed)
    }

    fn gives_up_at(&self, now: Duration) -> Option<Duration> {
        self.patience.ends(now).filter(|_| !self.is_idle() && self.phase != TransferPhase::Over)
    }

    // ---- timers, events, numbers ------------------------------------------------------------

    /// When to call [`handle_timeout`](Self::handle_timeout) at the latest, or when
    /// [`poll_transmit`](Self::poll_transmit) has something again. `None`: not before something arrives.
    pub fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        if self.phase == TransferPhase::Over {
            return None;
        }
        let timers = self.peers.iter().filter_map(|peer| peer.flow().next_timer());
        let tokens = self.peers.iter().filter_map(|peer| peer.next_token(now));
        let has_work = !self.patience.is_paused()
            && (self.phase == TransferPhase::Manifest || self.objects.has_work());
        timers
            .chain(tokens.filter(|_| has_work))
            .chain(self.rate_limit.next().filter(|_| has_work))
            .chain(self.next_question())
            .chain(self.objects.next_postponed())
            .chain(self.gives_up_at(now))
            .min()
    }

    /// When a peer is to be asked which segments it has. `None` while nothing is wanted.
    fn next_question(&self) -> Option<Duration> {
        self.peers.next_question().filter(|_| !self.is_held_back() && !self.is_idle())
    }

    /// Detects losses and silent peers, and ends the transfer if it is time to give up. Hand in every packet that has
    /// arrived first, otherwise unread packets count as lost.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.phase == TransferPhase::Over {
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

    /// Ends the transfer if every peer that is not dropped has refused the manifest often enough.
    fn on_manifest_refused(&mut self) {
        if self.peers.iter().filter(|peer| !peer.is_dropped()).all(TransferPeer::lacks_manifest) {
            self.fail(FailReason::NobodyHasIt { peers: self.peers.len() });
        }
    }

    fn fail(&mut self, reason: FailReason) {
        if self.phase == TransferPhase::Over {
            return;
        }
        self.flush_nodes();
        self.phase = TransferPhase::Over;
        self.peers.stop();
        self.objects.clear();
        self.progress.objects = 0;
        self.events.push_back(TransferEvent::Failed(reason));
    }

    /// Takes the oldest event. While too many events are unread, nothing more is asked for.
    pub fn poll_event(&mut self) -> Option<TransferEvent> {
        self.events.pop_front()
    }

    /// Counts of the transfer's progress.
    pub fn progress(&self) -> TransferProgress {
        self.progress
    }

    /// Statistics of the peers, in no particular order.
    pub fn peers(&self, now: Duration) -> impl Iterator<Item = PeerStats> + '_ {
        self.peers.iter().map(move |peer| peer.stats(now))
    }
}
