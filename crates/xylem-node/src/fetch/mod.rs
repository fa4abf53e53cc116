//! [`Fetch`]: peers, network and transfer of one ticket, for whoever keeps what it brings.
//!
//! A fetch is the engine's [`Program`]. [`Fetch::run_until`] shows what has come to its caller after
//! each sleep, until the caller has what it wants.

mod error;
mod failed;
mod leaving;
mod waiting;
mod work;

pub use error::{Addresses, FetchError, NotPublic};
pub use waiting::Tried;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::shaping::LinkOptions;
use bytes::Bytes;
use mio::Waker;
use xylem_forward::{Config, FaceId, Forwarder, Seed};
use xylem_link::{Algorithm, Endpoint, StaticKey};
use xylem_object::naming::ObjectId;
use xylem_object::{Manifest, Ticket};
use xylem_packet::Name;
use xylem_transfer::{PeerId, Spec, Transfer, TransferEvent};

use crate::dial::Dialler;
use crate::event::Event;
use crate::peers::{Offer, Swarm};
use leaving::Leaving;
use work::Work;
use xylem_engine::{Engine, EngineEvent, Program};
use xylem_library::PeerBytes;
use xylem_library::follow::Watch;
use xylem_library::held::Holdings;
use xylem_library::keys;
use xylem_library::reachable::PeerWay;
use xylem_library::reachable::{Peer, Relay};
use xylem_library::served::fetched_interest;
use xylem_library::signed::Signed;
use xylem_library::sink::Tally;
use xylem_library::{Blame, Error, Stop};

/// How often progress is reported, and links are asked for their datagrams' size.
const TICK: Duration = Duration::from_millis(100);

/// A fetch of one ticket that its caller drives; [`get`](crate::get) is one.
pub struct Fetch {
    engine: Engine,
    work: Work,
}

/// Whether a fetch goes on.
pub enum Next {
    /// The caller has what it wants.
    Done,
    /// Look again when something has come, or at this time.
    Wait(Option<Duration>),
}

/// What a fetch shows between two sleeps.
pub struct Look<'a> {
    engine: &'a mut Engine,
    work: &'a mut Work,
    pub(crate) on_event: &'a mut dyn FnMut(Event),
}

impl Look<'_> {
    /// The next of what has come; events about peers are dealt with here.
    pub fn next_event(&mut self) -> Result<Option<TransferEvent>, FetchError> {
        self.work.next_event(self.engine, self.on_event)
    }

    /// What is asked of whom.
    pub fn transfer(&mut self) -> &mut Transfer {
        &mut self.work.transfer
    }

    /// Objects of which those who should have them have refused a piece since this was asked last.
    pub(crate) fn take_refused(&mut self) -> HashSet<ObjectId> {
        std::mem::take(&mut self.work.refused_now)
    }

    /// Tells the caller of the fetch.
    pub fn tell(&mut self, event: Event) {
        (self.on_event)(event);
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
    pub(crate) fn report(&mut self, tally: &Tally) {
        let now = self.engine.now();
        if now >= self.work.last_reported + TICK {
            self.work.last_reported = now;
            let Work { dialler, transfer, .. } = &*self.work;
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
    /// Dials the peers of `from`, or else those of the ticket.
    pub(crate) fn new(
        ticket: &Ticket,
        from: &[Peer],
        give_up: Duration,
        limit_rate: Option<u64>,
        links: &LinkOptions,
        ask_who_answers: bool,
    ) -> Result<Self, FetchError> {
        Self::through(ticket, from, &[], give_up, limit_rate, links, ask_who_answers)
    }

    /// The same, through these relays too.
    pub fn through(
        ticket: &Ticket,
        from: &[Peer],
        relays: &[Relay],
        give_up: Duration,
        limit_rate: Option<u64>,
        links: &LinkOptions,
        ask_who_answers: bool,
    ) -> Result<Self, FetchError> {
        // Nobody needs to know who fetches: a key for this run alone.
        tracing::info!(root = %ticket.root, "fetching");
        let link_key = StaticKey::from_bytes(keys::random()?);
        let wanted_level = links.shaping.level;
        let link_config = xylem_link::Config {
            accept_incoming: false,
            ask_who_answers,
            // A peer that was restarted is found out, and dialled anew, within seconds.
            keep_alive: Some(Duration::from_secs(1)),
            ..links.config()
        };
        let endpoint = Endpoint::new(link_config, link_key, keys::random()?);
        let seed = Seed::from_random(keys::random()?);
        let mut engine = Engine::new(endpoint, Forwarder::new(Config::end_host(), seed))?;
        // Who is dialled without its key is still somebody who knows whose publication it is.
        engine.set_knock(ticket.publisher.0);
        let mut dialler = Dialler::new(ticket, from, relays)?;
        if ticket.name.is_none() && !dialler.has_links() {
            return Err(FetchError::NoName);
        }
        dialler.dial(&mut engine);

        let work = Work::new(ticket, dialler, &engine, give_up, limit_rate, wanted_level)?;
        Ok(Self { engine, work })
    }

    /// Leaves the paths to all other traffic; before anybody is up.
    pub fn in_background(mut self) -> Self {
        self.work.config.congestion = Some(Algorithm::Ledbat);
        self.work.transfer.set_congestion(Algorithm::Ledbat);
        self
    }

    /// Finds the sharer on the LAN, too, while nobody is up; not where somebody named the peers.
    pub fn asking_the_lan(mut self, ticket: &Ticket) -> Self {
        self.work.dialler.ask_the_lan(ticket, self.engine.now());
        self
    }

    /// Goes on asking for a sharer that is not at its relays, until it gives up.
    pub fn waiting(mut self, waits: bool) -> Self {
        self.work.waits = waits;
        self
    }

    /// Runs until `look`, which is called before each sleep, is done.
    ///
    /// # Errors
    /// Those of `look`, sockets that fail, and [`FetchError::Interrupted`] if `stop` is raised first.
    pub fn run_until(
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

    /// The signed manifest of a BLAKE3 tree, from whoever has it: what the store re-hashes, and what is served, is that.
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

    /// The signed manifest, from whoever has it.
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
                    return Ok(Next::Done);
                }
            }
            Ok(Next::Wait(None))
        })?;
        Ok(found.expect("a run that was not interrupted has brought it"))
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
        self.work.turn_to(self.engine.now(), spec)
    }

    /// Sets aside what comes under an object's name and is of none of its versions, for
    /// [`Fetch::next_pointer`].
    pub(crate) fn watch(&mut self, object: Name) {
        self.work.watch = Some(Watch::new(object));
    }

    /// The next packet that was set aside.
    pub(crate) fn next_pointer(&mut self) -> Option<Bytes> {
        self.work.watch.as_mut()?.next_pointer()
    }

    /// Sends an Interest to everybody who is here; false if nobody is.
    pub(crate) fn ask_all(&mut self, interest: &[u8]) -> bool {
        let faces: Vec<FaceId> = self.work.dialler.ups().map(|(face, _)| face).collect();
        faces.iter().for_each(|face| self.engine.ask(*face, interest));
        !faces.is_empty()
    }

    /// Sends everybody who is here an Interest of their own.
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

    /// Tells those it came from that all of it is here now, `bytes` of it fetched in this run. What the
    /// network loses is not repeated: nothing depends on it.
    pub(crate) fn tell_fetched(&mut self, bytes: u64) {
        let Some(interest) = fetched_interest(self.name().as_ref(), bytes) else { return };
        let links: Vec<FaceId> = self.work.dialler.links().collect();
        links.into_iter().for_each(|face| self.engine.ask(face, &interest));
    }

    /// Objects of which those who should have them refused a piece: they were changed there, or are not there.
    pub(crate) fn refused(&self) -> HashSet<ObjectId> {
        self.work.refused_objects.clone()
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

    /// Serves what is fetched, P being `name`, if there is something to `offer`, and finds others who do.
    ///
    /// # Errors
    /// Where serving was asked for (`at_once`), those of its sockets.
    pub(crate) fn join(
        &mut self,
        name: Name,
        ticket: &Ticket,
        offer: Option<Offer>,
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

    /// Goes on with a manifest that was kept: nobody is asked for it.
    ///
    /// # Errors
    /// It is not the publisher's, or of something else than the ticket names.
    pub fn offer(&mut self, signed: &Signed) -> Result<(), FetchError> {
        let packet = Bytes::from(signed.packet.clone());
        if signed.manifest.growing.is_some() {
            // The ticket may name an earlier one.
            let Signed { prefix, publisher, .. } = signed;
            self.watch(prefix.as_ref().parent().to_name());
            let (root, size) = (Some(signed.manifest.root), Some(signed.manifest.size));
            let spec = Spec { prefix: prefix.clone(), publisher: *publisher, root, size };
            self.turn_to(spec)?;
        }
        let offered = self.work.transfer.offer_manifest(self.engine.now(), &packet);
        offered.map_err(|what| Error { blame: Blame::Data, message: what.to_string() })?;
        self.work.name = Some(signed.prefix.clone());
        Ok(())
    }

    /// Finds others who have it by way of those who are here; once the manifest has come.
    pub fn find_others(&mut self, ticket: &Ticket) {
        let (now, name) = (self.engine.now(), self.name());
        self.work.swarm = Some(self.swarm_of(name, ticket, now, None));
    }

    fn swarm_of(&self, name: Name, ticket: &Ticket, now: Duration, offer: Option<Offer>) -> Swarm {
        let keys = self.work.dialler.links().filter_map(|face| self.engine.link_peer(face));
        let keys = keys.map(|key| key.0).chain(ticket.link_key).collect();
        Swarm::new(name, keys, &self.work.dialler, now, offer)
    }

    /// What wakes [`Fetch::run_until`] from another thread.
    ///
    /// # Errors
    /// The system's.
    pub fn waker(&mut self) -> Result<Arc<Waker>, FetchError> {
        Ok(self.engine.waker()?)
    }

    /// Leaves whoever proves this key, which is our own.
    pub(crate) fn avoid(&mut self, key: Option<[u8; 32]>) {
        self.work.avoided = key;
    }

    /// The ticket that was fetched with, and what the manifest says beyond it; once that has come.
    pub(crate) fn completed(&self, ticket: &Ticket, manifest: &Manifest) -> Ticket {
        Ticket {
            name: Some(self.name()),
            size: Some(manifest.size),
            kind: Some(manifest.kind),
            // That of the newest checkpoint, where it names an earlier one.
            root: manifest.root,
            ..ticket.clone()
        }
    }

    /// P, once the manifest has come.
    pub fn name(&self) -> Name {
        self.work.name.clone().expect("the manifest has brought it")
    }

    /// The signed packet of the manifest; empty before it has come.
    pub fn manifest_packet(&self) -> &[u8] {
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

    /// How peers were reached.
    pub(crate) fn ways(&self) -> Vec<PeerWay> {
        self.work.dialler.ways()
    }

    /// Says goodbye on every link. Those under cover (`--shape high` and above) go on first until the next of 4, 8, 16 … seconds after
    /// their beginning, so that how long they last tells less of what was fetched; not once `stop` is raised.
    pub fn leave(&mut self, stop: &Stop, on_event: &mut dyn FnMut(Event)) {
        let mut leaving = Leaving::new(&self.engine);
        if let Some(until) = leaving.until().filter(|_| !stop.raised()) {
            let seconds = until.saturating_sub(self.engine.now()).as_secs_f64();
            on_event(Event::Holding { seconds });
            // Sockets that fail end the links as well.
            let _ = self.engine.run(&mut leaving, stop);
        }
        self.engine.close();
    }

    /// Says goodbye on every link at once, as something has failed.
    pub fn close(&mut self) {
        self.engine.close();
    }
}

/// Faces are counted from 0 and far from 2^32 in one run; a wrapped number would only misattribute.
fn peer_of(face: FaceId) -> PeerId {
    PeerId(face.0 as u32)
}

fn face_of(peer: PeerId) -> FaceId {
    FaceId(u64::from(peer.0))
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
        self.work.note_paths(engine);
        self.work.handle_timeout(engine, now, self.on_event);
        let mut look = Look { engine, work: self.work, on_event: self.on_event };
        self.next = (self.look)(&mut look)?;
        Ok(())
    }

    fn is_done(&mut self, _engine: &Engine, stopped: bool) -> bool {
        stopped || matches!(self.next, Next::Done)
    }

    fn before_wait(&mut self, engine: &mut Engine) {
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

#[cfg(test)]
mod tests;
