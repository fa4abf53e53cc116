//! [`Fetch`]: peers, network and transfer of one ticket, for whoever keeps what it brings.
//!
//! A fetch is the engine's [`Program`]. [`Fetch::run_until`] shows what has come to its caller after
//! each sleep, until the caller has what it wants.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use xylem_forward::{FaceId, Forwarder};
use xylem_link::{Endpoint, Level, Shaping, StaticKey};
use xylem_object::{Manifest, Ticket, naming};
use xylem_packet::{Interest, NackReason, Name, Packet};
use xylem_transfer::{Event as TransferEvent, FailReason, PeerId, Spec, Transfer};

use crate::dial::Dialler;
use crate::engine::{Engine, EngineEvent, Program, end_host};
use crate::error::EngineError;
use crate::event::Event;
use crate::peer::Peer;
use crate::peers::{HostError, Offer, Swarm};
use crate::shaping;
use crate::summary::PeerBytes;
use xylem_library::held::Holdings;
use xylem_library::identity;
use xylem_library::{Blame, Error, Failure, Stop};

/// How often progress is reported, and links are asked for their datagrams' size.
const TICK: Duration = Duration::from_millis(100);
/// Share of the kernel's receive buffer that answers under way may fill: its own bookkeeping and
/// retransmissions need the rest.
const BUFFER_SHARE: usize = 3;

/// Why a fetch ends early. What was verified is kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// Nobody to ask.
    #[error("the ticket names no address; give --from ADDR")]
    NoAddress,
    /// The store re-hashes what an earlier run left as BLAKE3.
    #[error("it was published with a SHA-256 tree, which get does not fetch")]
    OtherTree,
    /// Nobody reachable has it.
    #[error("{reason}{warnings}; what was verified is kept")]
    Failed {
        /// Why the transfer gave up.
        reason: FailReason,
        /// What went wrong with which peer, in parentheses; empty: nothing.
        warnings: String,
    },
    /// It was asked to stop.
    #[error("interrupted; what was verified is kept, run it again to go on")]
    Interrupted,
    /// Of serving others, where that was asked for.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Of the sockets.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Of files, or of the system's randomness.
    #[error("{0}")]
    Library(#[from] Error),
}

impl Failure for FetchError {
    fn blame(&self) -> Blame {
        match self {
            Self::NoAddress | Self::OtherTree => Blame::Usage,
            Self::Failed { .. } => Blame::Network,
            Self::Interrupted => Blame::Interrupted,
            Self::Host(e) => e.blame(),
            Self::Engine(e) => e.blame(),
            Self::Library(e) => e.blame,
        }
    }
}

/// See the module's documentation.
pub(crate) struct Fetch {
    engine: Engine,
    work: Work,
}

/// A fetch without the engine that it runs on.
struct Work {
    transfer: Transfer,
    dialler: Dialler,
    swarm: Option<Swarm>,
    /// The signed manifest, once it is there.
    manifest: Vec<u8>,
    /// The shaping level that links are to have.
    wanted_level: Level,
    watch: Option<Watch>,
    config: xylem_transfer::Config,
    limit_rate: Option<u64>,
    /// The Interest in hand; kept for its allocation.
    interest: Vec<u8>,
    /// When progress was last reported.
    last_reported: Duration,
    /// When links were last asked for their datagrams' size.
    last_probed: Duration,
}

/// Packets under an object's name that are of none of its versions: pointers to them, for whoever
/// follows a growing object.
struct Watch {
    object: Name,
    came: VecDeque<Bytes>,
}

impl Watch {
    /// More than this many that nobody has looked at are thrown away.
    const MOST: usize = 64;

    /// Keeps a packet if it is a pointer; whether it is one.
    fn keep(&mut self, packet: &Bytes) -> bool {
        let Ok(Packet::Data(data)) = Packet::decode(packet) else { return false };
        let under = data.name().strip_prefix(self.object.as_ref());
        let is_one = under.is_some_and(|rest| naming::version(rest.prefix(1)).is_none());
        if is_one && self.came.len() < Self::MOST {
            self.came.push_back(packet.clone());
        }
        is_one
    }
}

/// Whether a fetch goes on.
pub(crate) enum Next {
    /// The caller has what it wants.
    Done,
    /// Look again when something has come, or at this time.
    Wait(Option<Duration>),
}

/// What a fetch shows between two sleeps.
pub(crate) struct Look<'a> {
    engine: &'a mut Engine,
    work: &'a mut Work,
    pub(crate) on_event: &'a mut dyn FnMut(Event),
}

impl Look<'_> {
    /// The next of what has come; events about peers are dealt with here.
    pub(crate) fn next_event(&mut self) -> Result<Option<TransferEvent>, FetchError> {
        self.work.next_event(self.engine, self.on_event)
    }

    /// What is asked of whom.
    pub(crate) fn transfer(&mut self) -> &mut Transfer {
        &mut self.work.transfer
    }

    /// What a sink works with: the transfer, what is served meanwhile, events, the time.
    pub(crate) fn parts(
        &mut self,
    ) -> (&mut Transfer, Option<&Holdings>, &mut dyn FnMut(Event), Duration) {
        let Work { transfer, swarm, .. } = &mut *self.work;
        let holdings = swarm.as_ref().and_then(Swarm::holdings);
        (transfer, holdings, self.on_event, self.engine.now())
    }

    /// Reports progress, ten times a second at most.
    pub(crate) fn report(&mut self, verified: u64, total: u64) {
        let now = self.engine.now();
        if now >= self.work.last_reported + TICK {
            self.work.last_reported = now;
            let peers = self.work.dialler.count();
            (self.on_event)(Event::Progress { verified, total, peers });
        }
    }
}

impl Fetch {
    /// Dials the peers of `from`, or else those of the ticket.
    pub(crate) fn new(
        ticket: &Ticket,
        from: &[Peer],
        give_up: Duration,
        limit_rate: Option<u64>,
        shaping: Shaping,
    ) -> Result<Self, FetchError> {
        // Nobody needs to know who fetches: a key for this run alone.
        tracing::info!(root = %ticket.root, size = ticket.size, "fetching");
        let link_key = StaticKey::from_bytes(identity::random()?);
        let wanted_level = shaping.level;
        let link_config =
            xylem_link::Config { accept_incoming: false, shaping, ..Default::default() };
        let endpoint = Endpoint::new(link_config, link_key, identity::random()?);
        let mut forward_config = end_host();
        forward_config.seed = u64::from_le_bytes(identity::random()?);
        let mut engine = Engine::new(endpoint, Forwarder::new(forward_config))?;
        let mut dialler = Dialler::new(ticket, from)?;
        dialler.dial(&mut engine);

        let spec = Spec {
            prefix: ticket.name.clone(),
            publisher: ticket.publisher,
            root: Some(ticket.root),
            size: Some(ticket.size),
        };
        let mut config = xylem_transfer::Config { give_up, ..Default::default() };
        let window = engine.receive_capacity() / BUFFER_SHARE / xylem_packet::MAX_PACKET;
        config.max_window = u32::try_from(window).unwrap_or(u32::MAX).clamp(16, config.max_window);
        let seed = u64::from_le_bytes(identity::random()?);
        let mut transfer = Transfer::new(spec, config.clone(), seed);
        transfer.set_rate_limit(limit_rate);
        let work = Work {
            transfer,
            dialler,
            swarm: None,
            manifest: Vec::new(),
            wanted_level,
            watch: None,
            config,
            limit_rate,
            interest: Vec::new(),
            last_reported: Duration::ZERO,
            last_probed: Duration::ZERO,
        };
        Ok(Self { engine, work })
    }

    /// Runs until `look`, which is called before each sleep, is done.
    ///
    /// # Errors
    /// Those of `look`, sockets that fail, and [`FetchError::Interrupted`] if `stop` is raised first.
    pub(crate) fn run_until(
        &mut self,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
        look: impl FnMut(&mut Look<'_>) -> Result<Next, FetchError>,
    ) -> Result<(), FetchError> {
        let Self { engine, work } = self;
        let mut running = Running { work, on_event, look, next: Next::Wait(None) };
        engine.run(&mut running, stop)?;
        match running.next {
            Next::Done => Ok(()),
            Next::Wait(_) => Err(FetchError::Interrupted),
        }
    }

    /// What has come since; events about peers are dealt with here.
    pub(crate) fn next_event(
        &mut self,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Option<TransferEvent>, FetchError> {
        self.work.next_event(&mut self.engine, on_event)
    }

    /// Asks, sleeps until something comes or `deadline` passes, and takes it in.
    pub(crate) fn run_once(
        &mut self,
        deadline: Option<Duration>,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), FetchError> {
        let mut slept = false;
        self.run_until(stop, on_event, |_| match std::mem::replace(&mut slept, true) {
            false => Ok(Next::Wait(deadline)),
            true => Ok(Next::Done),
        })
    }

    /// The signed manifest, from whoever has it.
    pub(crate) fn manifest(
        &mut self,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Manifest, FetchError> {
        let mut found = None;
        self.run_until(stop, on_event, |look| {
            while let Some(event) = look.next_event()? {
                if let TransferEvent::Manifest { manifest, .. } = event {
                    found = Some(manifest);
                    return Ok(Next::Done);
                }
            }
            Ok(Next::Wait(None))
        })?;
        let manifest = found.expect("a run that was not interrupted has brought it");
        // The store re-hashes what an earlier run left as BLAKE3.
        if manifest.tree != xylem_tree::TreeKind::Blake3 {
            return Err(FetchError::OtherTree);
        }
        Ok(manifest)
    }

    /// Runs until nothing is wanted any more, and hands all that comes to `keep`.
    pub(crate) fn drain(
        &mut self,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
        keep: &mut dyn FnMut(TransferEvent) -> Result<(), Error>,
    ) -> Result<(), FetchError> {
        self.run_until(stop, on_event, |look| {
            while let Some(event) = look.next_event()? {
                keep(event)?;
            }
            if !look.transfer().is_idle() {
                return Ok(Next::Wait(None));
            }
            look.transfer().flush_nodes();
            while let Some(event) = look.next_event()? {
                keep(event)?;
            }
            Ok(Next::Done)
        })
    }

    /// What [`Fetch::run_until`] shows, without running.
    pub(crate) fn look<T>(
        &mut self,
        on_event: &mut dyn FnMut(Event),
        look: impl FnOnce(&mut Look<'_>) -> T,
    ) -> T {
        look(&mut Look { engine: &mut self.engine, work: &mut self.work, on_event })
    }

    /// Goes on with another publication, asked of the peers that are here.
    pub(crate) fn turn_to(&mut self, spec: Spec) -> Result<(), FetchError> {
        let seed = u64::from_le_bytes(identity::random()?);
        let mut transfer = Transfer::new(spec, self.work.config.clone(), seed);
        transfer.set_rate_limit(self.work.limit_rate);
        let now = self.engine.now();
        for (face, is_link) in self.work.dialler.ups() {
            if is_link {
                transfer.add_direct_peer(now, peer_of(face));
            } else {
                transfer.add_forwarder(now, peer_of(face));
            }
        }
        self.work.transfer = transfer;
        Ok(())
    }

    /// Sets aside what comes under an object's name and is of none of its versions, for
    /// [`Fetch::next_pointer`].
    pub(crate) fn watch(&mut self, object: Name) {
        self.work.watch = Some(Watch { object, came: VecDeque::new() });
    }

    /// The next packet that was set aside.
    pub(crate) fn next_pointer(&mut self) -> Option<Bytes> {
        self.work.watch.as_mut()?.came.pop_front()
    }

    /// Sends an Interest to everybody who is here; false if nobody is.
    pub(crate) fn ask_all(&mut self, interest: &[u8]) -> bool {
        let faces: Vec<FaceId> = self.work.dialler.ups().map(|(face, _)| face).collect();
        faces.iter().for_each(|face| self.engine.ask(*face, interest));
        !faces.is_empty()
    }

    /// Peers that are here.
    pub(crate) fn peers(&self) -> usize {
        self.work.dialler.count()
    }

    /// Time since the fetch began.
    pub(crate) fn now(&self) -> Duration {
        self.engine.now()
    }

    /// What is asked of whom.
    pub(crate) fn transfer(&mut self) -> &mut Transfer {
        &mut self.work.transfer
    }

    /// Serves what is fetched if there is something to `offer`, and finds others who do.
    ///
    /// # Errors
    /// Where serving was asked for (`at_once`), those of its sockets.
    pub(crate) fn join(
        &mut self,
        ticket: &Ticket,
        offer: Option<Offer>,
        at_once: bool,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), FetchError> {
        let mut swarm = Swarm::new(ticket, &self.work.dialler, self.engine.now(), offer);
        if at_once {
            swarm.serve_now(on_event)?;
        }
        self.work.swarm = Some(swarm);
        Ok(())
    }

    /// The signed packet of the manifest; empty before it has come.
    pub(crate) fn manifest_packet(&self) -> &[u8] {
        &self.work.manifest
    }

    /// The others who fetch the same, once it has been joined.
    pub(crate) fn swarm(&mut self) -> &mut Option<Swarm> {
        &mut self.work.swarm
    }

    /// Bytes of content by the peer that they came from.
    pub(crate) fn bytes_by_peer(&mut self) -> Vec<PeerBytes> {
        let stats: Vec<_> = self.work.transfer.peers(self.engine.now()).collect();
        let Some(swarm) = &mut self.work.swarm else { return Vec::new() };
        for stats in stats {
            swarm.count(&self.work.dialler.address(face_of(stats.peer)), stats.bytes);
        }
        swarm.bytes()
    }

    /// Says goodbye on every link.
    pub(crate) fn close(&mut self) {
        self.engine.close();
    }
}

/// A fetch while it runs.
struct Running<'a, L> {
    work: &'a mut Work,
    on_event: &'a mut dyn FnMut(Event),
    look: L,
    next: Next,
}

impl<L: FnMut(&mut Look<'_>) -> Result<Next, FetchError>> Program for Running<'_, L> {
    type Error = FetchError;

    fn handle(&mut self, engine: &mut Engine, event: EngineEvent) -> Result<(), FetchError> {
        self.work.handle(engine, event, self.on_event);
        Ok(())
    }

    fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) -> Result<(), FetchError> {
        self.work.handle_timeout(engine, now, self.on_event);
        let mut look = Look { engine, work: self.work, on_event: self.on_event };
        self.next = (self.look)(&mut look)?;
        Ok(())
    }

    fn is_done(&mut self, _engine: &Engine, stopped: bool) -> bool {
        stopped || matches!(self.next, Next::Done)
    }

    fn before_wait(&mut self, engine: &mut Engine) {
        self.work.note_datagram_sizes(engine);
        self.work.ask(engine);
    }

    fn poll_timeout(&mut self, now: Duration) -> Option<Duration> {
        let again = match self.next {
            Next::Wait(again) => again,
            Next::Done => None,
        };
        again.into_iter().chain(self.work.poll_timeout(now)).min()
    }
}

impl Work {
    fn next_event(
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
                    let warnings = self.dialler.warnings();
                    let warnings =
                        if warnings.is_empty() { warnings } else { format!(" ({warnings})") };
                    return Err(FetchError::Failed { reason, warnings });
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
        Ok(None)
    }

    fn poll_timeout(&mut self, now: Duration) -> Option<Duration> {
        let swarm = self.swarm.as_ref().and_then(Swarm::poll_timeout);
        let timers = [self.transfer.poll_timeout(now), self.dialler.redial_at(), swarm];
        timers.into_iter().flatten().min()
    }

    fn handle_timeout(
        &mut self,
        engine: &mut Engine,
        now: Duration,
        on_event: &mut dyn FnMut(Event),
    ) {
        if self.transfer.poll_timeout(now).is_some_and(|t| t <= now) {
            self.transfer.handle_timeout(now);
        }
        if self.dialler.redial_at().is_some_and(|t| t <= now) {
            self.dialler.dial(engine);
        }
        if let Some(swarm) = &mut self.swarm {
            swarm.handle_timeout(engine, &mut self.dialler, on_event);
        }
    }

    /// What a link has found out of its path says how much one lost datagram costs. Ours stands for the
    /// peer's, which sends the Data: both look for the same path's.
    fn note_datagram_sizes(&mut self, engine: &Engine) {
        let now = engine.now();
        if now < self.last_probed + TICK {
            return;
        }
        self.last_probed = now;
        for face in self.dialler.links() {
            if let Some(bytes) = engine.datagram_of(face) {
                self.transfer.set_datagram_size(peer_of(face), bytes);
            }
        }
    }

    /// Sends the Interests that the windows allow.
    fn ask(&mut self, engine: &mut Engine) {
        let now = engine.now();
        while let Some(peer) = self.transfer.poll_transmit(now, &mut self.interest) {
            engine.ask(face_of(peer), &self.interest);
        }
    }

    fn handle(&mut self, engine: &mut Engine, event: EngineEvent, on_event: &mut dyn FnMut(Event)) {
        let now = engine.now();
        match event {
            EngineEvent::Packet { from, packet, nack: Some(reason), .. } => {
                self.handle_nack(now, from, &packet, reason);
            }
            EngineEvent::Packet { from, packet, marked, .. } => {
                self.handle_data(engine, from, packet, marked);
            }
            EngineEvent::FaceUp { face, peer } => {
                if self.dialler.came_up(engine, face, &peer) {
                    if let Some(swarm) = &mut self.swarm {
                        swarm.came_up(&self.dialler, face);
                    }
                    if self.dialler.is_link(face) {
                        self.transfer.add_direct_peer(now, peer_of(face));
                    } else {
                        self.transfer.add_forwarder(now, peer_of(face));
                    }
                    on_event(Event::PeerConnected { peer: peer.clone() });
                    shaping::report(engine, face, self.wanted_level, &peer, on_event);
                }
            }
            // A fetch opens no streams and takes none.
            EngineEvent::Stream { face, stream, what } => {
                engine.refuse_stream(face, stream, what);
            }
            EngineEvent::FaceDown { face, peer, why, .. } => {
                if let Some(swarm) = &mut self.swarm {
                    swarm.went_down(now, &self.dialler, face);
                    let stats = self.transfer.peers(now).find(|s| s.peer == peer_of(face));
                    stats.into_iter().for_each(|stats| swarm.count(&peer, stats.bytes));
                }
                if self.dialler.went_down(now, face, &why) {
                    self.transfer.remove_peer(now, peer_of(face));
                    on_event(Event::PeerGone { peer, why });
                }
            }
        }
    }

    /// Data may answer a question about other peers, or point to the next version of a growing
    /// object; all else is the transfer's. `marked`: it met congestion on its way.
    fn handle_data(&mut self, engine: &Engine, from: FaceId, packet: Bytes, marked: bool) {
        if let Some(swarm) = &mut self.swarm
            && swarm.handle_answer(engine, from, &packet)
        {
            return;
        }
        if self.watch.as_mut().is_some_and(|watch| watch.keep(&packet)) {
            return;
        }
        let (now, peer) = (engine.now(), peer_of(from));
        if marked {
            self.transfer.handle_marked_data(now, peer, packet);
        } else {
            self.transfer.handle_data(now, peer, packet);
        }
    }

    fn handle_nack(&mut self, now: Duration, from: FaceId, packet: &[u8], reason: NackReason) {
        if let Ok(interest) = Interest::decode(packet) {
            self.transfer.handle_nack(now, peer_of(from), interest.name(), reason);
        }
    }
}

/// Faces are counted from 0 and far from 2^32 in one run; a wrapped number would only misattribute.
fn peer_of(face: FaceId) -> PeerId {
    PeerId(face.0 as u32)
}

fn face_of(peer: PeerId) -> FaceId {
    FaceId(u64::from(peer.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_object::{Kind, PublisherKey};
    use xylem_packet::{Component, DataBuilder};
    use xylem_trust::Signer;

    fn fetch() -> Fetch {
        let ticket = Ticket {
            name: Name::from_uri("/a/v=1").unwrap(),
            root: xylem_hash::hash(b"x"),
            size: 1,
            kind: Kind::File,
            publisher: PublisherKey::from_bytes(&[1; 32]).public(),
            link_key: None,
            addresses: vec!["127.0.0.1:1".parse().unwrap()],
        };
        let give_up = Duration::from_secs(1);
        Fetch::new(&ticket, &[], give_up, None, Shaping::default()).unwrap()
    }

    /// Queues on the way mark what passes them. Such a packet is no other packet for that.
    #[test]
    fn a_pointer_that_met_congestion_is_still_one() {
        let mut fetch = fetch();
        let object = Name::from_uri("/a").unwrap();
        fetch.watch(object.clone());
        let name = object.child(Component::keyword(b"metadata"));
        let mut packet = Vec::new();
        Signer::digest_sha256().data(DataBuilder::new(name.as_ref()), b"", &mut packet).unwrap();
        let packet = Bytes::from(packet);
        for marked in [false, true] {
            let event =
                EngineEvent::Packet { from: FaceId(7), packet: packet.clone(), nack: None, marked };
            let Fetch { engine, work } = &mut fetch;
            work.handle(engine, event, &mut |_| {});
            assert_eq!(fetch.next_pointer(), Some(packet.clone()), "marked: {marked}");
        }
    }
}
