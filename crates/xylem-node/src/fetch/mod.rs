//! [`Fetch`]: peers, network and transfer of one ticket. Its caller saves the content.
//!
//! A fetch is the engine's [`Program`]. [`Fetch::run_until`] passes what has arrived to its caller after each sleep,
//! until the caller has what it needs.

mod error;
mod failed;
mod leaving;
mod waiting;
mod work;

pub use error::{AddressCount, FetchError, NotPublic};
pub use waiting::TriedPeer;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::shaping::LinkOptions;
use bytes::Bytes;
use mio::Waker;
use xylem_base::Stop;
use xylem_files::held::Holdings;
use xylem_files::signed::SignedPublication;
use xylem_forward::{FaceId, Forwarder, ForwarderConfig, ForwarderSeed};
use xylem_link::{CongestionAlgorithm, Endpoint, StaticKey};
use xylem_object::naming::ObjectId;
use xylem_object::{Manifest, Ticket};
use xylem_packet::Name;
use xylem_peers::reachable::{PeerAddress, PeerWay, Relay};
use xylem_publish::served::fetched_interest;
use xylem_sink::follow::PointerWatch;
use xylem_sink::{PeerBytes, Tally};
use xylem_store::StoreError;
use xylem_transfer::{PeerId, Transfer, TransferEvent, TransferSpec};

use crate::dial::Dialler;
use crate::event::Event;
use crate::meeting::CodeDht;
use crate::peers::{HostOffer, Swarm};
use leaving::LinkHold;
use work::FetchState;
use xylem_engine::{Engine, EngineEvent, Program, dial_from};

/// Least time between progress reports.
const TICK: Duration = Duration::from_millis(100);

/// A fetch of one ticket that its caller drives; [`get`](crate::get) is one.
pub struct Fetch {
    engine: Engine,
    work: FetchState,
}

/// Whether a fetch goes on.
pub enum FetchNext {
    /// The caller has what it needs.
    Done,
    /// Call again when something has arrived, or at this time.
    Wait(Option<Duration>),
}

/// A fetch between two sleeps, as its caller gets it.
pub struct FetchView<'a> {
    engine: &'a mut Engine,
    work: &'a mut FetchState,
    pub(crate) on_event: &'a mut dyn FnMut(Event),
}

impl FetchView<'_> {
    /// The next transfer event. Events about peers are handled here.
    pub fn next_event(&mut self) -> Result<Option<TransferEvent>, FetchError> {
        self.work.next_event(self.engine, self.on_event)
    }

    /// The transfer: which segments are requested from which peer.
    pub fn transfer(&mut self) -> &mut Transfer {
        &mut self.work.transfer
    }

    /// Objects of which named peers have refused a piece since the last call.
    pub(crate) fn take_refused(&mut self) -> HashSet<ObjectId> {
        std::mem::take(&mut self.work.refused_now)
    }

    /// Reports an event to the caller of the fetch.
    pub fn report_event(&mut self, event: Event) {
        (self.on_event)(event);
    }

    /// The parts that a sink works with: the transfer, the holdings that are served meanwhile, the event callback, the
    /// time.
    pub(crate) fn parts(
        &mut self,
    ) -> (&mut Transfer, Option<&Holdings>, &mut dyn FnMut(Event), Duration) {
        let FetchState { transfer, swarm, .. } = &mut *self.work;
        let holdings = swarm.as_ref().and_then(Swarm::holdings);
        (transfer, holdings, self.on_event, self.engine.now())
    }

    /// Reports progress, ten times a second at most.
    pub(crate) fn report(&mut self, tally: &Tally) {
        let now = self.engine.now();
        if now >= self.work.last_reported + TICK {
            self.work.last_reported = now;
            let FetchState { dialler, transfer, .. } = &*self.work;
            let picture = tally.picture(transfer.peers(now).map(|stats| {
                let face = face_of(stats.peer);
                (dialler.address(face), stats, self.engine.link_stats(face))
            }));
            let (peers, relayed) = (dialler.count(), dialler.relayed());
            let (verified, total) = (tally.verified(), tally.total);
            (self.on_event)(Event::Progress { verified, total, peers, relayed, picture });
        }
    }
}

impl Fetch {
    /// Dials the peers in `from`. If there are none, dials the ticket's.
    pub(crate) fn new(
        ticket: &Ticket,
        from: &[PeerAddress],
        give_up: Duration,
        limit_rate: Option<u64>,
        links: &LinkOptions,
        ask_who_answers: bool,
    ) -> Result<Self, FetchError> {
        Self::through(ticket, from, &[], give_up, limit_rate, links, ask_who_answers)
    }

    /// As `new`, through these relays too.
    pub fn through(
        ticket: &Ticket,
        from: &[PeerAddress],
        relays: &[Relay],
        give_up: Duration,
        limit_rate: Option<u64>,
        links: &LinkOptions,
        ask_who_answers: bool,
    ) -> Result<Self, FetchError> {
        // Use a key for this run alone: peers need not know the getter.
        tracing::info!(root = %ticket.root, "fetching");
        let link_key = StaticKey::from_bytes(xylem_base::random()?);
        let wanted_level = links.shaping.level;
        let link_config = xylem_link::LinkConfig {
            accept_incoming: false,
            ask_who_answers,
            // Detects a restarted peer within seconds, and dials it anew.
            keep_alive: Some(Duration::from_secs(1)),
            ..links.config()
        };
        let endpoint = Endpoint::new(link_config, link_key, xylem_base::random()?);
        let seed = ForwarderSeed::from_random(xylem_base::random()?);
        let mut engine = Engine::new(endpoint, Forwarder::new(ForwarderConfig::end_host(), seed))?;
        dial_from(&mut engine, links.port);
        // Even a peer dialled without its key has to know the publication's publisher.
        engine.set_knock(ticket.publisher.0);
        let mut dialler = Dialler::new(ticket, from, relays)?;
        if ticket.name.is_none() && !dialler.has_links() {
            return Err(FetchError::NoName);
        }
        dialler.dial(&mut engine);

        let work = FetchState::new(ticket, dialler, &engine, give_up, limit_rate, wanted_level)?;
        Ok(Self { engine, work })
    }

    /// Makes the fetch yield to all other traffic. Call it before any peer is up.
    pub fn in_background(mut self) -> Self {
        self.work.config.congestion = Some(CongestionAlgorithm::Ledbat);
        self.work.transfer.set_congestion(CongestionAlgorithm::Ledbat);
        self
    }

    /// Also searches the LAN for the sharer while no peer is up, unless the caller named peers.
    pub fn asking_the_lan(mut self, ticket: &Ticket) -> Self {
        self.work.dialler.ask_the_lan(ticket, self.engine.now());
        self
    }

    /// Also searches the DHT for the sharer when every address and relay of the ticket is silent, unless the caller named
    /// peers.
    pub fn asking_the_dht(mut self, ticket: &Ticket, how: Option<&CodeDht>) -> Self {
        if let Some(how) = how {
            self.work.dialler.ask_the_dht(&mut self.engine, ticket, how);
        }
        self
    }

    /// With `waits`, keeps asking for a sharer that its relays report absent, until the fetch gives up.
    pub fn waiting(mut self, waits: bool) -> Self {
        self.work.waits = waits;
        self
    }

    /// Runs until `look`, which is called before each sleep, returns [`FetchNext::Done`].
    ///
    /// # Errors
    /// Those of `look`, sockets that fail, and [`FetchError::Interrupted`] if `stop` is raised first.
    pub fn run_until(
        &mut self,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
        look: impl FnMut(&mut FetchView<'_>) -> Result<FetchNext, FetchError>,
    ) -> Result<(), FetchError> {
        let Self { engine, work } = self;
        let mut running = RunningFetch { work, on_event, look, next: FetchNext::Wait(None) };
        engine.run(&mut running, stop)?;
        match running.next {
            FetchNext::Done => Ok(()),
            FetchNext::Wait(_) => Err(FetchError::Interrupted),
        }
    }

    /// The next transfer event. Events about peers are handled here.
    pub(crate) fn next_event(
        &mut self,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Option<TransferEvent>, FetchError> {
        self.work.next_event(&mut self.engine, on_event)
    }

    /// Sends requests, sleeps until something arrives or `deadline` passes, and processes it.
    pub(crate) fn run_once(
        &mut self,
        deadline: Option<Duration>,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), FetchError> {
        let mut slept = false;
        self.run_until(stop, on_event, |_| match std::mem::replace(&mut slept, true) {
            false => Ok(FetchNext::Wait(deadline)),
            true => Ok(FetchNext::Done),
        })
    }

    /// Fetches the signed manifest from any peer. Its tree must be BLAKE3, as the store re-hashes and serves nothing
    /// else.
    pub fn manifest(
        &mut self,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Manifest, FetchError> {
        let manifest = self.manifest_of_any_tree(stop, on_event)?;
        match manifest.tree {
            xylem_tree::TreeKind::Blake3 => Ok(manifest),
            xylem_tree::TreeKind::Sha256 => Err(FetchError::OtherTree),
        }
    }

    /// Fetches the signed manifest from any peer.
    pub(crate) fn manifest_of_any_tree(
        &mut self,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Manifest, FetchError> {
        let mut found = None;
        self.run_until(stop, on_event, |look| {
            while let Some(event) = look.next_event()? {
                if let TransferEvent::Manifest { manifest, .. } = event {
                    found = Some(manifest);
                    return Ok(FetchNext::Done);
                }
            }
            Ok(FetchNext::Wait(None))
        })?;
        Ok(found.expect("a run that was not interrupted has brought it"))
    }

    /// Runs until nothing is left to fetch, and passes all events to `keep`.
    pub(crate) fn drain(
        &mut self,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
        keep: &mut dyn FnMut(TransferEvent) -> Result<(), StoreError>,
    ) -> Result<(), FetchError> {
        self.run_until(stop, on_event, |look| {
            while let Some(event) = look.next_event()? {
                keep(event)?;
            }
            if !look.transfer().is_idle() {
                return Ok(FetchNext::Wait(None));
            }
            look.transfer().flush_nodes();
            while let Some(event) = look.next_event()? {
                keep(event)?;
            }
            Ok(FetchNext::Done)
        })
    }

    /// Calls `look` as [`Fetch::run_until`] does, without running.
    pub(crate) fn look<T>(
        &mut self,
        on_event: &mut dyn FnMut(Event),
        look: impl FnOnce(&mut FetchView<'_>) -> T,
    ) -> T {
        look(&mut FetchView { engine: &mut self.engine, work: &mut self.work, on_event })
    }

    /// Changes to another publication, fetched from the connected peers.
    pub(crate) fn change_publication(&mut self, spec: TransferSpec) -> Result<(), FetchError> {
        self.work.change_publication(self.engine.now(), spec)
    }

    /// Sets aside packets under an object's name that belong to none of its versions, for [`Fetch::next_pointer`].
    pub(crate) fn watch(&mut self, object: Name) {
        self.work.watch = Some(PointerWatch::new(object));
    }

    /// The next packet that was set aside.
    pub(crate) fn next_pointer(&mut self) -> Option<Bytes> {
        self.work.watch.as_mut()?.next_pointer()
    }

    /// Sends an Interest to all connected peers. Returns false if there are none.
    pub(crate) fn ask_all(&mut self, interest: &[u8]) -> bool {
        let faces: Vec<FaceId> = self.work.dialler.ups().map(|(face, _)| face).collect();
        faces.iter().for_each(|face| self.engine.ask(*face, interest));
        !faces.is_empty()
    }

    /// Sends a separate Interest to each connected peer.
    pub(crate) fn ask_each<E>(
        &mut self,
        make: &mut dyn FnMut() -> Result<Vec<u8>, E>,
    ) -> Result<(), E> {
        let faces: Vec<FaceId> = self.work.dialler.ups().map(|(face, _)| face).collect();
        for face in faces {
            self.engine.ask(face, &make()?);
        }
        Ok(())
    }

    /// Reports to the peers that the fetch is complete, with `bytes` fetched in this run. A lost report is not
    /// repeated: nothing depends on it.
    pub(crate) fn report_fetched(&mut self, bytes: u64) {
        let Some(interest) = fetched_interest(self.name().as_ref(), bytes) else { return };
        let links: Vec<FaceId> = self.work.dialler.links().collect();
        links.into_iter().for_each(|face| self.engine.ask(face, &interest));
    }

    /// Objects of which named peers have refused a piece: they were changed or are missing there.
    pub(crate) fn refused(&self) -> HashSet<ObjectId> {
        self.work.refused_objects.clone()
    }

    /// Number of connected peers.
    pub(crate) fn peers(&self) -> usize {
        self.work.dialler.count()
    }

    /// Time since the fetch began.
    pub(crate) fn now(&self) -> Duration {
        self.engine.now()
    }

    /// The transfer: which segments are requested from which peer.
    pub(crate) fn transfer(&mut self) -> &mut Transfer {
        &mut self.work.transfer
    }

    /// Serves the fetched content under `name` (P) if there is an `offer`, and finds other getters and sharers.
    ///
    /// # Errors
    /// If serving starts `at_once`, those of its sockets.
    pub(crate) fn join(
        &mut self,
        name: Name,
        ticket: &Ticket,
        offer: Option<HostOffer>,
        at_once: bool,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), FetchError> {
        let mut swarm = self.swarm_of(name, ticket, self.engine.now(), offer);
        if at_once {
            swarm.serve_now(on_event)?;
        }
        self.work.swarm = Some(swarm);
        Ok(())
    }

    /// Uses a stored manifest; no peer is asked for it.
    ///
    /// # Errors
    /// The manifest is not signed by the publisher, or the ticket names something else.
    pub fn offer(&mut self, signed: &SignedPublication) -> Result<(), FetchError> {
        let packet = Bytes::from(signed.packet.clone());
        if signed.manifest.growing.is_some() {
            // The ticket may name an earlier checkpoint.
            let SignedPublication { prefix, publisher, .. } = signed;
            self.watch(prefix.as_ref().parent().to_name());
            let (root, size) = (Some(signed.manifest.root), Some(signed.manifest.size));
            let spec = TransferSpec { prefix: prefix.clone(), publisher: *publisher, root, size };
            self.change_publication(spec)?;
        }
        let offered = self.work.transfer.offer_manifest(self.engine.now(), &packet);
        offered.map_err(FetchError::Manifest)?;
        self.work.name = Some(signed.prefix.clone());
        Ok(())
    }

    /// As [`Fetch::offer`], for a result of which all may be here. If it is not, and no sharer is found, the fetch ends
    /// as early and with the same error as without the manifest.
    ///
    /// # Errors
    /// See [`Fetch::offer`].
    pub(crate) fn offer_whole(&mut self, signed: &SignedPublication) -> Result<(), FetchError> {
        self.offer(signed)?;
        self.work.only_offered = true;
        Ok(())
    }

    /// Asks the connected peers for other sharers. Call it after the manifest has arrived.
    pub fn find_others(&mut self, ticket: &Ticket) {
        let (now, name) = (self.engine.now(), self.name());
        self.work.swarm = Some(self.swarm_of(name, ticket, now, None));
    }

    fn swarm_of(
        &self,
        name: Name,
        ticket: &Ticket,
        now: Duration,
        offer: Option<HostOffer>,
    ) -> Swarm {
        let keys = self.work.dialler.links().filter_map(|face| self.engine.link_peer(face));
        let keys = keys.map(|key| key.0).chain(ticket.link_key).collect();
        Swarm::new(name, keys, &self.work.dialler, now, offer)
    }

    /// A waker that wakes [`Fetch::run_until`] from another thread.
    ///
    /// # Errors
    /// The system's.
    pub fn waker(&mut self) -> Result<Arc<Waker>, FetchError> {
        Ok(self.engine.waker()?)
    }

    /// Drops peers that prove this key, which is our own.
    pub(crate) fn drop_own_key(&mut self, key: Option<[u8; 32]>) {
        self.work.own_key = key;
    }

    /// The ticket, completed by the manifest. Call it after the manifest has arrived.
    pub(crate) fn completed(&self, ticket: &Ticket, manifest: &Manifest) -> Ticket {
        Ticket {
            name: Some(self.name()),
            size: Some(manifest.size),
            kind: Some(manifest.kind),
            // The root of the newest checkpoint; the ticket may name an earlier one.
            root: manifest.root,
            ..ticket.clone()
        }
    }

    /// P, the publication's versioned name.
    ///
    /// # Panics
    /// If the manifest has not arrived.
    pub fn name(&self) -> Name {
        self.work.name.clone().expect("the manifest has brought it")
    }

    /// The signed packet of the manifest; empty before it has arrived.
    pub fn manifest_packet(&self) -> &[u8] {
        &self.work.manifest
    }

    /// Other getters of the same publication. `None` before [`Fetch::join`].
    pub(crate) fn swarm(&mut self) -> &mut Option<Swarm> {
        &mut self.work.swarm
    }

    /// Bytes of content by the peer that sent them.
    pub(crate) fn bytes_by_peer(&mut self) -> Vec<PeerBytes> {
        let stats: Vec<_> = self.work.transfer.peers(self.engine.now()).collect();
        let Some(swarm) = &mut self.work.swarm else { return Vec::new() };
        for stats in stats {
            swarm.count(&self.work.dialler.address(face_of(stats.peer)), stats.bytes);
        }
        swarm.bytes()
    }

    /// The paths by which peers were reached.
    pub(crate) fn ways(&self) -> Vec<PeerWay> {
        self.work.dialler.ways()
    }

    /// Closes all links. Links with cover traffic (`--shape high` and above) first go on until the next of 4, 8, 16 …
    /// seconds after their beginning, so that their duration shows less about the fetch. Once `stop` is raised they end
    /// at once.
    pub fn leave(&mut self, stop: &Stop, on_event: &mut dyn FnMut(Event)) {
        let mut leaving = LinkHold::new(&self.engine);
        if let Some(until) = leaving.until().filter(|_| !stop.raised()) {
            let seconds = until.saturating_sub(self.engine.now()).as_secs_f64();
            on_event(Event::Holding { seconds });
            // If sockets fail, the links end as well.
            let _ = self.engine.run(&mut leaving, stop);
        }
        self.engine.close();
    }

    /// Closes all links at once, after a failure.
    pub fn close(&mut self) {
        self.engine.close();
    }
}

/// Face numbers start at 0 and stay far below 2^32 in one run. A wrapped number would merely be attributed to another
/// peer.
fn peer_of(face: FaceId) -> PeerId {
    PeerId(face.0 as u32)
}

fn face_of(peer: PeerId) -> FaceId {
    FaceId(u64::from(peer.0))
}

/// A fetch as a program of the engine.
struct RunningFetch<'a, L> {
    work: &'a mut FetchState,
    on_event: &'a mut dyn FnMut(Event),
    look: L,
    next: FetchNext,
}

impl<L: FnMut(&mut FetchView<'_>) -> Result<FetchNext, FetchError>> Program
    for RunningFetch<'_, L>
{
    type Error = FetchError;

    fn handle(&mut self, engine: &mut Engine, event: EngineEvent) -> Result<(), FetchError> {
        self.work.handle(engine, event, self.on_event);
        Ok(())
    }

    fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) -> Result<(), FetchError> {
        self.work.note_paths(engine);
        self.work.handle_timeout(engine, now, self.on_event);
        let mut look = FetchView { engine, work: self.work, on_event: self.on_event };
        self.next = (self.look)(&mut look)?;
        Ok(())
    }

    fn is_done(&mut self, _engine: &Engine, stopped: bool) -> bool {
        stopped || matches!(self.next, FetchNext::Done)
    }

    fn before_wait(&mut self, engine: &mut Engine) {
        self.work.ask(engine);
    }

    fn poll_timeout(&mut self, now: Duration) -> Option<Duration> {
        let again = match self.next {
            FetchNext::Wait(again) => again,
            FetchNext::Done => None,
        };
        again.into_iter().chain(self.work.poll_timeout(now)).min()
    }
}

#[cfg(test)]
mod tests;
