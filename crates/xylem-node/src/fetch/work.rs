//! [`FetchState`]: the state of a fetch: what it requests from which peer, and how it handles what arrives.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use xylem_forward::FaceId;
use xylem_link::Level;
use xylem_object::Ticket;
use xylem_object::naming::{ObjectId, PublicationRequest};
use xylem_packet::{Data, Interest, NackReason, Name};
use xylem_peers::reachable::FaceAddress;
use xylem_peers::{
    FindExchange, FindOutcome, NOT_THERE, PeerRefusals, REFUSES_PIECES, RefusedPart,
};
use xylem_sink::follow::PointerWatch;
use xylem_transfer::{FailReason, PathReport, Transfer, TransferEvent, TransferSpec};

use super::waiting::UnansweredPeers;
use super::{FetchError, face_of, peer_of};
use crate::dial::Dialler;
use crate::event::Event;
use crate::peers::Swarm;
use crate::reaching::announce_own_addresses;
use crate::shaping;
use xylem_engine::{Engine, EngineEvent, wall_clock};

/// Divisor of the kernel's receive buffer: a third may fill with outstanding answers. The buffer's own bookkeeping and
/// retransmissions need the rest.
const BUFFER_SHARE: usize = 3;

/// Time within which an introduced peer has to be reached by a path of its own.
const DIRECT_PATH_WITHIN: Duration = Duration::from_secs(10);

/// A fetch without its engine.
pub(super) struct FetchState {
    pub(super) transfer: Transfer,
    pub(super) dialler: Dialler,
    /// Links to reported peers through an introducer, and the time until which each may find a path of its own.
    introduced: Vec<(FaceId, Duration)>,
    pub(super) swarm: Option<Swarm>,
    /// The signed manifest; empty before it has arrived.
    pub(super) manifest: Vec<u8>,
    /// Whether the manifest is the store's, and no peer was admitted since.
    pub(super) only_offered: bool,
    /// Reports unanswered peers until the manifest has arrived.
    pub(super) waiting: UnansweredPeers,
    /// Peers that do not have the publication, or have it no longer.
    pub(super) gone: PeerRefusals,
    /// Objects of which named peers have refused a piece.
    pub(super) refused_objects: HashSet<ObjectId>,
    /// The part of `refused_objects` that was not passed on yet.
    pub(super) refused_now: HashSet<ObjectId>,
    /// P, once it is known.
    pub(super) name: Option<Name>,
    /// Links to peers that have to prove their identity, or to send the name, before anything is requested.
    finding: FindExchange,
    key_of_ticket: Option<[u8; 32]>,
    /// Our own key. A peer that proves it is dropped.
    pub(super) own_key: Option<[u8; 32]>,
    /// The shaping level requested for links.
    wanted_level: Level,
    pub(super) watch: Option<PointerWatch>,
    pub(super) config: xylem_transfer::TransferConfig,
    /// Whether to keep asking for a sharer that is absent.
    pub(super) waits: bool,
    limit_rate: Option<u64>,
    /// Buffer of the current Interest, kept for its allocation.
    interest: Vec<u8>,
    /// When progress was last reported.
    pub(super) last_reported: Duration,
}

impl FetchState {
    pub(super) fn new(
        ticket: &Ticket,
        dialler: Dialler,
        engine: &Engine,
        give_up: Duration,
        limit_rate: Option<u64>,
        wanted_level: Level,
    ) -> Result<Self, FetchError> {
        let spec = TransferSpec {
            prefix: ticket.name.clone().unwrap_or_default(),
            publisher: ticket.publisher,
            root: Some(ticket.root),
            size: ticket.size,
        };
        let mut config = xylem_transfer::TransferConfig { give_up, ..Default::default() };
        let window = engine.receive_capacity() / BUFFER_SHARE / xylem_packet::MAX_PACKET;
        config.max_window = u32::try_from(window).unwrap_or(u32::MAX).clamp(16, config.max_window);
        let seed = u64::from_le_bytes(xylem_base::random()?);
        let mut transfer = match ticket.name {
            Some(_) => Transfer::new(spec, config.clone(), seed),
            None => Transfer::unnamed(spec, config.clone(), seed),
        };
        transfer.set_rate_limit(limit_rate);
        Ok(Self {
            transfer,
            dialler,
            introduced: Vec::new(),
            swarm: None,
            manifest: Vec::new(),
            only_offered: false,
            waiting: UnansweredPeers::default(),
            gone: PeerRefusals::new(ticket),
            refused_objects: HashSet::new(),
            refused_now: HashSet::new(),
            wanted_level,
            watch: None,
            name: ticket.name.clone(),
            finding: FindExchange::new(ticket),
            key_of_ticket: ticket.link_key,
            own_key: None,
            config,
            waits: false,
            limit_rate,
            interest: Vec::new(),
            last_reported: Duration::ZERO,
        })
    }

    /// Changes to another publication, fetched from the connected peers.
    pub(super) fn change_publication(
        &mut self,
        now: Duration,
        spec: TransferSpec,
    ) -> Result<(), FetchError> {
        let seed = u64::from_le_bytes(xylem_base::random()?);
        self.name = Some(spec.prefix.clone());
        let mut transfer = Transfer::new(spec, self.config.clone(), seed);
        transfer.set_rate_limit(self.limit_rate);
        for (face, is_link) in self.dialler.ups() {
            if is_link {
                transfer.add_direct_peer(now, peer_of(face));
            } else {
                transfer.add_forwarder(now, peer_of(face));
            }
        }
        self.transfer = transfer;
        Ok(())
    }

    pub(super) fn next_event(
        &mut self,
        engine: &mut Engine,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Option<TransferEvent>, FetchError> {
        while let Some(event) = self.transfer.poll_event() {
            match event {
                TransferEvent::PeerMisbehaved { peer, what } => {
                    let peer = self.dialler.address(face_of(peer));
                    tracing::warn!(%peer, %what, "peer misbehaved");
                    on_event(Event::PeerMisbehaved { peer, what: what.to_string() });
                }
                TransferEvent::PeerDropped { peer } => {
                    engine.drop_face(face_of(peer), "it misbehaved");
                }
                TransferEvent::Failed(reason) => {
                    tracing::warn!(%reason, "transfer has failed");
                    return Err(self.failed(reason));
                }
                event => {
                    if let TransferEvent::Manifest { packet, .. } = &event {
                        self.manifest = packet.to_vec();
                        tracing::debug!(bytes = packet.len(), "manifest is verified");
                    }
                    return Ok(Some(event));
                }
            }
        }
        if self.awaits_a_peer()
            && self.dialler.count() == 0
            && self.finding.is_refused(engine.now(), self.dialler.is_dialling())
        {
            return Err(
                self.failed(FailReason::NobodyHasIt { peers: self.dialler.tried().count() })
            );
        }
        if self.awaits_a_peer() && !self.waits && self.dialler.is_hopeless(engine.now()) {
            return Err(
                self.failed(FailReason::NobodyHasIt { peers: self.dialler.tried().count() })
            );
        }
        Ok(None)
    }

    /// Whether nothing that is wanted can come before a peer does, and none has.
    pub(super) fn awaits_a_peer(&self) -> bool {
        self.manifest.is_empty() || (self.only_offered && !self.transfer.is_idle())
    }

    pub(super) fn poll_timeout(&mut self, now: Duration) -> Option<Duration> {
        let swarm = self.swarm.as_ref().and_then(Swarm::poll_timeout);
        let waiting = self.awaits_a_peer().then(|| self.waiting.poll_timeout()).flatten();
        let asks = [self.transfer.poll_timeout(now), self.finding.poll_timeout()];
        let (dials, meets) = (self.dialler.poll_start(), self.dialler.poll_meeting(now));
        let introduced = self.introduced.iter().map(|(_, until)| *until).min();
        let timers = [dials, meets, swarm, waiting, introduced];
        asks.into_iter().chain(timers).flatten().min()
    }

    pub(super) fn handle_timeout(
        &mut self,
        engine: &mut Engine,
        now: Duration,
        on_event: &mut dyn FnMut(Event),
    ) {
        self.transfer.prove_queued(now);
        if self.transfer.poll_timeout(now).is_some_and(|t| t <= now) {
            self.transfer.handle_timeout(now);
        }
        let late: Vec<_> = self.introduced.extract_if(.., |(_, until)| now >= *until).collect();
        late.into_iter()
            .for_each(|(face, _)| engine.drop_face(face, "no direct path to it was found"));
        if self.dialler.poll_start().is_some_and(|t| t <= now) {
            self.dialler.dial_next(engine);
        }
        if self.dialler.meet(engine, on_event) {
            self.transfer.restart_wait();
        }
        let silent = self.finding.handle_timeout(now, &mut |face, asked| engine.ask(face, asked));
        silent.into_iter().for_each(|(face, why)| engine.drop_face(face, why));
        if let Some(swarm) = &mut self.swarm {
            swarm.handle_timeout(engine, &mut self.dialler, on_event);
        }
        if self.awaits_a_peer()
            && let Some(waited) = self.waiting.handle_timeout(now, self.dialler.tried())
        {
            let seconds = waited.as_secs_f64();
            on_event(Event::Unanswered { peers: self.tried(), seconds });
        }
    }

    /// Whether an introduced peer is now reached without its introducer, for the first time.
    fn has_direct_path(&mut self, face: FaceId, to: &FaceAddress) -> bool {
        let relayed = matches!(to, FaceAddress::Relayed(_));
        let met = |(of, _): &mut (FaceId, Duration)| *of == face && !relayed;
        self.introduced.extract_if(.., met).count() > 0
    }

    /// Passes on what the links know about their paths: round trips, datagram sizes, and how many of the peer's
    /// datagrams arrived or are missing, which drives congestion control. Our datagram size stands for the peer's,
    /// which sends the Data. This comes before Data is judged.
    pub(super) fn note_paths(&mut self, engine: &Engine) {
        let now = engine.now();
        for face in self.dialler.links() {
            if let Some(path) = engine.link_stats(face) {
                let (brought, missing) = (path.content_received, path.datagrams_missing);
                self.transfer.set_datagram_size(peer_of(face), path.datagram_size);
                self.transfer.expect_round_trip(peer_of(face), path.rtt);
                self.transfer.note_path(now, peer_of(face), PathReport { brought, missing });
            }
        }
    }

    /// Sends the Interests that the congestion windows allow.
    pub(super) fn ask(&mut self, engine: &mut Engine) {
        let now = engine.now();
        while let Some(peer) = self.transfer.poll_transmit(now, &mut self.interest) {
            engine.ask(face_of(peer), &self.interest);
        }
    }

    pub(super) fn handle(
        &mut self,
        engine: &mut Engine,
        event: EngineEvent,
        on_event: &mut dyn FnMut(Event),
    ) {
        let now = engine.now();
        if !matches!(event, EngineEvent::Packet { nack: None, .. }) {
            self.transfer.prove_queued(now);
        }
        match event {
            EngineEvent::Packet { from, packet, nack: Some(reason), .. } => {
                self.handle_nack(engine, from, &packet, reason, on_event);
            }
            EngineEvent::Packet { from, packet, marked, .. } => {
                if !self.handle_found(engine, now, &packet, on_event) {
                    self.handle_data(engine, now, from, packet, marked);
                }
            }
            EngineEvent::FaceUp { face, peer } => {
                self.came_up(engine, face, peer, on_event);
            }
            EngineEvent::OtherKey { face } => {
                if self.dialler.other_key(face) {
                    let (peers, seconds) = (self.tried(), now.as_secs_f64());
                    on_event(Event::Unanswered { peers, seconds });
                }
            }
            EngineEvent::Trouble { .. } | EngineEvent::LearnedRoute { .. } => {}
            EngineEvent::Moved { face, to } if self.has_direct_path(face, &to) => {
                self.came_up(engine, face, to, on_event);
            }
            EngineEvent::Moved { face, to } => {
                if let Some(peer) = self.dialler.moved(now, face, to.clone()) {
                    on_event(Event::Moved { peer, to });
                }
            }
            EngineEvent::Relay { at, what, .. } => {
                announce_own_addresses(engine, std::iter::empty());
                Event::of_relay(at, what).into_iter().for_each(on_event);
            }
            // A fetch neither opens nor accepts streams.
            EngineEvent::Stream { face, stream, what } => {
                engine.refuse_stream(face, stream, what);
            }
            EngineEvent::FaceDown { face, peer, why, .. } => {
                self.finding.went_down(face);
                self.introduced.retain(|(of, _)| *of != face);
                if let Some(swarm) = &mut self.swarm {
                    swarm.went_down(now, &self.dialler, face);
                    let stats = self.transfer.peers(now).find(|s| s.peer == peer_of(face));
                    stats.into_iter().for_each(|stats| swarm.count(&peer, stats.bytes));
                }
                let told = why.to_string();
                if self.dialler.went_down(now, face, why) {
                    self.transfer.remove_peer(now, peer_of(face));
                    on_event(Event::PeerGone { peer, why: told });
                }
            }
        }
    }

    /// Handles Data. It may answer a question about other peers, or point to the next version of a growing object. All
    /// else goes to the transfer, which verifies simultaneous arrivals together. `marked`: the packet carries a
    /// congestion mark.
    fn handle_data(
        &mut self,
        engine: &Engine,
        now: Duration,
        from: FaceId,
        packet: Bytes,
        marked: bool,
    ) {
        if let Some(swarm) = &mut self.swarm
            && swarm.handle_answer(engine, now, from, &packet)
        {
            return;
        }
        if self.watch.as_mut().is_some_and(|watch| watch.keep(&packet)) {
            return;
        }
        if self.gone.handle_data(from, &packet) {
            return;
        }
        self.transfer.queue_data(now, peer_of(from), packet, marked);
    }

    fn handle_nack(
        &mut self,
        engine: &mut Engine,
        from: FaceId,
        packet: &[u8],
        reason: NackReason,
        on_event: &mut dyn FnMut(Event),
    ) {
        let now = engine.now();
        let Ok(interest) = Interest::decode(packet) else { return };
        if let Some((face, asked)) = self.finding.handle_nack(now, &interest) {
            // For example a node between us and the publisher. It may forward, as the name is known.
            if !asked.must_vouch && self.name.is_some() {
                return self.admit(engine, face, on_event);
            }
            // A peer that has not proven its identity is asked for nothing by name.
            self.note_refusal(engine, face, RefusedPart::Manifest);
            return engine.drop_face(face, NOT_THERE);
        }
        let mut asked = None;
        let part = match self.transfer.request_of(peer_of(from), interest.name()) {
            Some(PublicationRequest::Manifest) => RefusedPart::Manifest,
            Some(
                PublicationRequest::Segment { object, .. }
                | PublicationRequest::Tile { object, .. },
            ) => {
                asked = Some(object);
                RefusedPart::Pieces
            }
            _ => return self.pass_nack(engine, from, &interest, reason),
        };
        // Among several named peers, one may have only a part.
        let whole = part == RefusedPart::Manifest || self.dialler.may_find();
        if reason == NackReason::NO_ROUTE && whole && self.dialler.is_named(from) {
            self.refused_objects.extend(asked);
            self.refused_now.extend(asked);
            self.refused(engine, from, part, on_event);
        }
        // While other peers are still being dialled, one refusal does not mean that no peer has it.
        if part == RefusedPart::Pieces || !self.dialler.is_reaching() {
            self.pass_nack(engine, from, &interest, reason);
        }
    }

    /// Records that a peer refused a part. Asks one that refuses the manifest what it has instead.
    fn refused(
        &mut self,
        engine: &mut Engine,
        face: FaceId,
        part: RefusedPart,
        on_event: &mut dyn FnMut(Event),
    ) {
        let Some(peer) = self.note_refusal(engine, face, part) else { return };
        match part {
            RefusedPart::Pieces => {
                on_event(Event::warning(format!("{peer} {REFUSES_PIECES}; still asking")));
            }
            RefusedPart::Manifest => {
                if let Some(question) = self.gone.question() {
                    engine.ask(face, &question);
                }
            }
        }
    }

    /// Records that a peer refused a part. Returns the peer, in words, the first time.
    fn note_refusal(&mut self, engine: &Engine, face: FaceId, part: RefusedPart) -> Option<String> {
        let face_here = engine.face(face)?;
        let peer = match &face_here.address {
            FaceAddress::Relayed(_) => format!("the peer at {}", face_here.address.for_people()),
            direct => direct.to_string(),
        };
        self.gone.refused(face, peer.clone(), part).then_some(peer)
    }

    fn pass_nack(
        &mut self,
        engine: &Engine,
        from: FaceId,
        interest: &Interest<'_>,
        reason: NackReason,
    ) {
        self.transfer.handle_nack(engine.now(), peer_of(from), interest.name(), reason);
    }

    /// Handles a face that came up. If its peer has to prove its identity or to send the name, asks for that first.
    fn came_up(
        &mut self,
        engine: &mut Engine,
        face: FaceId,
        peer: FaceAddress,
        on_event: &mut dyn FnMut(Event),
    ) {
        self.dialler.adopt(face, &peer);
        let key = engine.link_peer(face).map(|key| key.0);
        if key.is_some() && key == self.own_key {
            return engine.drop_face(face, "it is this machine itself");
        }
        if self.dialler.is_introduced(face, &peer) {
            self.introduced.push((face, engine.now() + DIRECT_PATH_WITHIN));
            return;
        }
        let must_vouch = self.dialler.must_vouch(face);
        match key {
            Some(key) if must_vouch || self.name.is_none() => {
                let rtt = engine.link_stats(face).and_then(|path| path.rtt);
                self.finding.ask(engine.now(), face, key, must_vouch, rtt);
            }
            _ if self.name.is_none() => self.finding.wait(face),
            _ => {
                self.report_key(face, key, &peer, on_event);
                self.admit(engine, face, on_event);
            }
        }
    }

    /// Adds a face to those that may be asked for content.
    fn admit(&mut self, engine: &mut Engine, face: FaceId, on_event: &mut dyn FnMut(Event)) {
        let now = engine.now();
        let Some((peer, at)) = self.dialler.leads_to(engine, face) else { return };
        if !self.dialler.came_up(engine, face, &peer) {
            return;
        }
        self.only_offered = false;
        if let Some(swarm) = &mut self.swarm {
            swarm.came_up(&self.dialler, face);
        }
        if self.dialler.is_link(face) {
            self.transfer.add_direct_peer(now, peer_of(face));
        } else {
            self.transfer.add_forwarder(now, peer_of(face));
        }
        self.dialler.admitted(now, face, peer, &at).for_each(&mut *on_event);
        shaping::report(engine, face, self.wanted_level, &at, on_event);
    }

    /// Reports the key of a peer at an address where any key is accepted, unless it is the ticket's.
    fn report_key(
        &self,
        face: FaceId,
        key: Option<[u8; 32]>,
        peer: &FaceAddress,
        on_event: &mut dyn FnMut(Event),
    ) {
        if let Some(key) = key
            && self.dialler.is_anybody(face)
            && self.key_of_ticket != Some(key)
        {
            on_event(Event::OtherKey { peer: peer.clone(), key });
        }
    }

    /// Handles an answer to the first question on a link. Returns whether the packet is one.
    fn handle_found(
        &mut self,
        engine: &mut Engine,
        now: Duration,
        packet: &Bytes,
        on_event: &mut dyn FnMut(Event),
    ) -> bool {
        let Some(answered) = self.finding.handle_answer(now, wall_clock(), packet) else {
            return false;
        };
        self.transfer.prove_queued(now);
        let (face, key, manifest, vouched) = match answered {
            // A getter that follows an object accepts any version.
            FindOutcome::Absent(face) if self.watch.is_some() => {
                self.admit(engine, face, on_event);
                return true;
            }
            FindOutcome::Absent(face) => {
                self.refused(engine, face, RefusedPart::Manifest, on_event);
                if self.name.is_none() {
                    engine.drop_face(face, NOT_THERE);
                }
                return true;
            }
            FindOutcome::Left(face, why) => {
                engine.drop_face(face, why);
                return true;
            }
            FindOutcome::Found { face, key, manifest, vouched } => {
                (face, key, Bytes::from(manifest), vouched)
            }
        };
        let Some(peer) = engine.face(face).map(|face| face.address.clone()) else { return true };
        // A peer may serve an earlier version than the one that is followed.
        let prefix = Data::decode(&manifest).ok().map(|d| d.name().parent().to_name());
        if self.watch.is_some() && self.name.is_some() && prefix != self.name {
            self.admit(engine, face, on_event);
            return true;
        }
        if self.name.is_some()
            && self.name != prefix
            && let Some(found) = self.finding.verify(&manifest)
        {
            // Content may be published under several names, of which a peer answers with one.
            if !vouched {
                self.report_key(face, Some(key), &peer, on_event);
            }
            self.admit(engine, face, on_event);
            if self.finding.is_another_name(&self.manifest, &found) {
                self.transfer.set_prefix(peer_of(face), found.prefix);
            }
            return true;
        }
        if let Err(what) = self.transfer.offer_manifest(now, &manifest) {
            on_event(Event::PeerMisbehaved { peer, what: what.to_string() });
            engine.drop_face(face, "it misbehaved");
            return true;
        }
        if self.name.is_none() {
            self.name = prefix;
        }
        if !vouched {
            self.report_key(face, Some(key), &peer, on_event);
        }
        self.admit(engine, face, on_event);
        for face in self.finding.take_waiting() {
            self.admit(engine, face, on_event);
        }
        true
    }
}
