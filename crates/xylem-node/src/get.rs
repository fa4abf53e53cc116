//! [`get`]: fetch what a ticket names, prove it, and put it in its place.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use xylem_forward::{FaceId, Forwarder, Seed};
use xylem_link::{Endpoint, Level, Shaping, StaticKey};
use xylem_object::{Kind, Manifest, Ticket, naming};
use xylem_packet::{Interest, NackReason, Name, Packet};
use xylem_store::Store;
use xylem_transfer::{Event as TransferEvent, PeerId, Spec, Transfer};

use crate::api::{Event, GetOptions, GetSummary, from_library};
use crate::dial::Dialler;
use crate::engine::{Engine, Happening, end_host};
use crate::peers::{Company, Offer};
use crate::{failure, shaping};
use xylem_library::held::Holdings;
use xylem_library::publish::{disk, root_of};
use xylem_library::sink::{self, Context, Destination, Sink, Tally};
use xylem_library::{Blame, Error, Existing, LibraryEvent, Stop};
use xylem_library::{identity, record};

/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);
/// Share of the kernel's receive buffer that answers under way may fill: its own bookkeeping and
/// retransmissions need the rest.
const BUFFER_SHARE: usize = 3;

/// Fetches one ticket.
///
/// # Errors
/// [`Blame::Usage`] for a ticket or option that can't be used or a name that is taken,
/// [`Blame::Network`] if nobody reachable has it, [`Blame::Local`] for trouble of this machine,
/// [`Blame::Interrupted`] if `stop` was raised. What was verified is kept in all cases.
pub fn get(
    options: &GetOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<GetSummary, Error> {
    let started = Instant::now();
    let ticket: Ticket = parse_ticket(&options.ticket)?;
    let store = Store::open(disk(), &options.store).map_err(|e| failure::store(&e))?;
    let store = if options.fsync { store.durable() } else { store };
    let shaping = options.shaping.clone();
    let mut fetch =
        Fetch::new(&ticket, &options.from, options.give_up, options.limit_rate, shaping)?;
    let mut summary = fetch.run(&ticket, options, &store, stop, on_event)?;
    summary.elapsed = started.elapsed();
    if options.serve.as_ref().is_some_and(|serve| serve.seed) {
        fetch.seed(&mut summary, stop, on_event)?;
    }
    fetch.engine.close();
    Ok(summary)
}

/// A ticket from what was pasted.
pub(crate) fn parse_ticket(text: &str) -> Result<Ticket, Error> {
    text.parse().map_err(|e: xylem_object::TicketError| failure::usage(e.to_string()))
}

/// Peers, network and transfer of one ticket.
pub(crate) struct Fetch {
    pub(crate) engine: Engine,
    pub(crate) transfer: Transfer,
    dialler: Dialler,
    company: Option<Company>,
    /// The signed manifest, once it is there.
    manifest: Vec<u8>,
    /// The shaping level that links are to have.
    wants: Level,
    /// What is set aside for whoever follows a growing object.
    pub(crate) watch: Option<Watch>,
    config: xylem_transfer::Config,
    limit_rate: Option<u64>,
    interest: Vec<u8>,
    told: Duration,
    /// When the links' datagrams were last looked at.
    looked: Duration,
}

/// Packets under an object's name that are of none of its versions: pointers to them.
pub(crate) struct Watch {
    object: Name,
    came: VecDeque<Bytes>,
}

impl Watch {
    /// More than this many that nobody has looked at are thrown away.
    const MOST: usize = 64;

    pub(crate) fn new(object: Name) -> Self {
        Self { object, came: VecDeque::new() }
    }

    /// Keeps a packet if it is one; whether it did.
    fn takes(&mut self, packet: &Bytes) -> bool {
        let Ok(Packet::Data(data)) = Packet::decode(packet) else { return false };
        let under = data.name().strip_prefix(self.object.as_ref());
        let is_one = under.is_some_and(|rest| naming::version(rest.prefix(1)).is_none());
        if is_one && self.came.len() < Self::MOST {
            self.came.push_back(packet.clone());
        }
        is_one
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        self.came.pop_front()
    }
}

/// What came of one look at the transfer's events.
pub(crate) enum Step {
    Nothing,
    Manifest(Manifest),
    Sink(TransferEvent),
}

impl Fetch {
    pub(crate) fn new(
        ticket: &Ticket,
        from: &[crate::Peer],
        give_up: Duration,
        limit_rate: Option<u64>,
        shaping: Shaping,
    ) -> Result<Self, Error> {
        let local = |e| failure::local("cannot start the event loop", &e);
        // Nobody needs to know who fetches: a key for this run alone.
        let link_key = StaticKey::from_bytes(identity::random()?);
        let wants = shaping.level;
        let link_config =
            xylem_link::Config { accept_incoming: false, shaping, ..Default::default() };
        let endpoint = Endpoint::new(link_config, link_key, identity::random()?);
        let seed = Seed::from_random(identity::random()?);
        let mut engine = Engine::new(endpoint, Forwarder::new(end_host(), seed)).map_err(local)?;
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
        Ok(Self {
            engine,
            transfer,
            dialler,
            company: None,
            manifest: Vec::new(),
            wants,
            watch: None,
            config,
            limit_rate,
            interest: Vec::new(),
            told: Duration::ZERO,
            looked: Duration::ZERO,
        })
    }

    /// Goes on with another publication, asked of the peers that are here.
    pub(crate) fn turn_to(&mut self, spec: Spec) -> Result<(), Error> {
        let seed = u64::from_le_bytes(identity::random()?);
        let mut transfer = Transfer::new(spec, self.config.clone(), seed);
        transfer.set_rate_limit(self.limit_rate);
        let now = self.engine.now();
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

    /// Sends an Interest to everybody who is here; false if nobody is.
    pub(crate) fn ask_all(&mut self, interest: &[u8]) -> bool {
        let faces: Vec<FaceId> = self.dialler.ups().map(|(face, _)| face).collect();
        faces.iter().for_each(|face| self.engine.ask(*face, interest));
        !faces.is_empty()
    }

    /// Peers that are here.
    pub(crate) fn peers(&self) -> usize {
        self.dialler.count()
    }

    fn run(
        &mut self,
        ticket: &Ticket,
        options: &GetOptions,
        store: &Store,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<GetSummary, Error> {
        let manifest = self.manifest(stop, on_event)?;
        on_event(found(&manifest));
        let destination = Destination::choose(&options.save, &manifest)?;
        if let Some(to) = &destination
            && options.save.existing == Existing::Refuse
            && to.path.symlink_metadata().is_ok()
        {
            return self.already_there(&to.path, ticket, options, (store, &manifest), on_event);
        }
        let on_disk = destination.is_some() && options.save.range.is_none();
        let mut sink = sink::make(&options.save, &manifest, destination, store)?;
        self.join(ticket, options, on_disk, on_event)?;
        let mut tally = Tally::default();
        let outcome = self.fetch(&mut *sink, &mut tally, stop, on_event);
        if outcome.is_err() {
            self.keep_what_is_proven(&mut *sink, &mut tally);
        }
        outcome?;
        let path = sink.finish()?;
        sink.troubles().into_iter().for_each(|what| on_event(Event::warning(what)));
        let mut told = from_library(on_event);
        record::fetched(store, &options.save, ticket, &manifest, path.as_deref(), &mut told);
        drop(told);
        let holdings = self.company.as_ref().and_then(Company::holdings);
        if let (Some(holdings), Some(path)) = (holdings, &path) {
            holdings.moved(path);
        }
        self.count_bytes();
        let company = self.company.as_ref();
        Ok(GetSummary {
            root: manifest.root.to_string(),
            path,
            bytes: tally.total,
            files: tally.files,
            fetched: tally.fetched,
            resumed: tally.resumed,
            peers: company.map(Company::bytes).unwrap_or_default(),
            served: company.map_or(0, Company::served),
            ..GetSummary::default()
        })
    }

    /// Serves what is fetched, where that is wanted and possible, and finds others who do.
    fn join(
        &mut self,
        ticket: &Ticket,
        options: &GetOptions,
        on_disk: bool,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Error> {
        let serve = options.serve.as_ref().filter(|_| on_disk);
        let offer = serve.map(|serve| Offer {
            listen: serve.listen.clone(),
            shaping: options.shaping.clone(),
            ticket: ticket.clone(),
            manifest: self.manifest.clone(),
            holdings: Holdings::default(),
        });
        let mut company = Company::new(ticket, &self.dialler, self.engine.now(), offer);
        if serve.is_some_and(|serve| serve.seed || !serve.listen.is_empty()) {
            company.serve_now(on_event)?;
        }
        self.company = Some(company);
        Ok(())
    }

    /// The fetch is complete: serves on until asked to stop.
    fn seed(
        &mut self,
        summary: &mut GetSummary,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Error> {
        let Some(company) = &mut self.company else { return Ok(()) };
        if company.holdings().is_none() {
            return Ok(());
        }
        company.only_serves();
        on_event(Event::Seeding(Box::new(summary.clone())));
        while !stop.raised() {
            self.turn(None, &Stop::new(), on_event)?;
        }
        summary.served = self.company.as_ref().map_or(0, Company::served);
        Ok(())
    }

    /// Counts what the links that are up have brought.
    fn count_bytes(&mut self) {
        let stats: Vec<_> = self.transfer.peers(self.engine.now()).collect();
        for stats in stats {
            let name = self.dialler.name(face_of(stats.peer));
            if let Some(company) = &mut self.company {
                company.count(&name, stats.bytes);
            }
        }
    }

    /// The signed manifest, from whoever has it.
    pub(crate) fn manifest(
        &mut self,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Manifest, Error> {
        loop {
            if let Step::Manifest(manifest) = self.step(on_event)? {
                // The store re-hashes what an earlier run left as BLAKE3.
                if manifest.tree != xylem_tree::TreeKind::Blake3 {
                    let what = "it was published with a SHA-256 tree, which get does not fetch";
                    return Err(crate::failure::usage(what));
                }
                return Ok(manifest);
            }
            self.turn(None, stop, on_event)?;
        }
    }

    fn fetch(
        &mut self,
        sink: &mut dyn Sink,
        tally: &mut Tally,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Error> {
        sink.begin(&mut self.context(tally, &mut from_library(on_event)))?;
        loop {
            while let Step::Sink(event) = self.step(on_event)? {
                deliver(sink, event, &mut self.context(tally, &mut from_library(on_event)))?;
            }
            let again = sink.turn(&mut self.context(tally, &mut from_library(on_event)))?;
            if sink.is_done() {
                return Ok(());
            }
            self.tell_progress(tally, on_event);
            self.turn(again, stop, on_event)?;
        }
    }

    fn context<'a>(
        &'a mut self,
        tally: &'a mut Tally,
        on_event: &'a mut dyn FnMut(LibraryEvent),
    ) -> Context<'a> {
        let now = self.engine.now();
        let holdings = self.company.as_ref().and_then(Company::holdings);
        Context { transfer: &mut self.transfer, tally, on_event, now, holdings }
    }

    /// Looks at the transfer's next event; those that concern peers are dealt with here.
    pub(crate) fn step(&mut self, on_event: &mut dyn FnMut(Event)) -> Result<Step, Error> {
        while let Some(event) = self.transfer.poll_event() {
            match event {
                TransferEvent::Manifest { manifest, packet } => {
                    self.manifest = packet.to_vec();
                    return Ok(Step::Manifest(manifest));
                }
                TransferEvent::PeerMisbehaved { peer, what } => {
                    let peer = self.dialler.name(face_of(peer));
                    on_event(Event::PeerMisbehaved { peer, what: what.to_string() });
                }
                TransferEvent::PeerDropped { peer } => {
                    self.engine.drop_face(face_of(peer), "it misbehaved");
                }
                TransferEvent::Failed(reason) => {
                    let troubles = self.dialler.troubles();
                    let troubles =
                        if troubles.is_empty() { troubles } else { format!(" ({troubles})") };
                    let message = format!("{reason}{troubles}; what was verified is kept");
                    return Err(Error { blame: Blame::Network, message });
                }
                event => return Ok(Step::Sink(event)),
            }
        }
        Ok(Step::Nothing)
    }

    /// Asks, sleeps until something happens, and takes it in.
    pub(crate) fn turn(
        &mut self,
        deadline: Option<Duration>,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Error> {
        if stop.raised() {
            let message =
                "interrupted; what was verified is kept, run it again to go on".to_owned();
            return Err(Error { blame: Blame::Interrupted, message });
        }
        self.tell_datagrams();
        self.ask();
        let company = self.company.as_ref().and_then(Company::due);
        let transfer = self.transfer.poll_timeout(self.engine.now());
        let timers = [deadline, transfer, self.dialler.redial_at(), company];
        let due = timers.into_iter().flatten().min();
        self.engine.wait(due).map_err(|e| failure::local("network", &e))?;
        while let Some(happening) = self.engine.next_happening() {
            self.take(happening, on_event);
        }
        let now = self.engine.now();
        if self.transfer.poll_timeout(now).is_some_and(|t| t <= now) {
            self.transfer.handle_timeout(now);
        }
        if self.dialler.redial_at().is_some_and(|t| t <= now) {
            self.dialler.dial(&mut self.engine);
        }
        if let Some(company) = &mut self.company {
            company.turn(&mut self.engine, &mut self.dialler, on_event);
        }
        Ok(())
    }

    /// What a link has found out of its path says how much one lost datagram costs. Ours stands for the
    /// peer's, which sends the Data: both look for the same path's.
    fn tell_datagrams(&mut self) {
        let now = self.engine.now();
        if now < self.looked + TICK {
            return;
        }
        self.looked = now;
        for face in self.dialler.links() {
            if let Some(bytes) = self.engine.datagram_of(face) {
                self.transfer.set_datagram_size(peer_of(face), bytes);
            }
        }
    }

    /// Sends the Interests that the windows allow.
    fn ask(&mut self) {
        let now = self.engine.now();
        while let Some(peer) = self.transfer.poll_transmit(now, &mut self.interest) {
            self.engine.ask(face_of(peer), &self.interest);
        }
        self.engine.flush();
    }

    fn take(&mut self, happening: Happening, on_event: &mut dyn FnMut(Event)) {
        let now = self.engine.now();
        match happening {
            Happening::Packet { from, packet, nack: None, marked: true } => {
                self.transfer.handle_marked_data(now, peer_of(from), packet);
            }
            Happening::Packet { from, packet, nack, .. } => {
                if let Some(company) = &mut self.company
                    && company.take(&self.engine, from, &packet)
                {
                    return;
                }
                self.packet(now, from, packet, nack);
            }
            Happening::FaceUp { face, peer } => {
                if self.dialler.came_up(&mut self.engine, face, &peer) {
                    if let Some(company) = &mut self.company {
                        company.came_up(&self.dialler, face);
                    }
                    if self.dialler.is_link(face) {
                        self.transfer.add_direct_peer(now, peer_of(face));
                    } else {
                        self.transfer.add_forwarder(now, peer_of(face));
                    }
                    on_event(Event::PeerConnected { peer: peer.clone() });
                    shaping::tell(&self.engine, face, self.wants, &peer, on_event);
                }
            }
            // Nobody was asked for any.
            Happening::Stream { face, stream, what } => {
                self.engine.refuse_stream(face, stream, what);
            }
            Happening::FaceDown { face, peer, why, .. } => {
                if let Some(company) = &mut self.company {
                    company.went_down(now, &self.dialler, face);
                    let stats = self.transfer.peers(now).find(|s| s.peer == peer_of(face));
                    stats.into_iter().for_each(|stats| company.count(&peer, stats.bytes));
                }
                if self.dialler.went_down(now, face, &why) {
                    self.transfer.remove_peer(now, peer_of(face));
                    on_event(Event::PeerGone { peer, why });
                }
            }
        }
    }

    fn packet(&mut self, now: Duration, from: FaceId, packet: Bytes, nack: Option<NackReason>) {
        let Some(reason) = nack else {
            if self.watch.as_mut().is_some_and(|watch| watch.takes(&packet)) {
                return;
            }
            return self.transfer.handle_data(now, peer_of(from), packet);
        };
        if let Ok(interest) = Interest::decode(&packet) {
            self.transfer.handle_nack(now, peer_of(from), interest.name(), reason);
        }
    }

    fn tell_progress(&mut self, tally: &Tally, on_event: &mut dyn FnMut(Event)) {
        let now = self.engine.now();
        if now >= self.told + TICK {
            self.told = now;
            let verified = (tally.resumed + tally.fetched).min(tally.total);
            let peers = self.dialler.count();
            on_event(Event::Progress { verified, total: tally.total, peers });
        }
    }

    /// After a failure: nodes that were proven and not yet handed over go to the sink too. An error
    /// here costs what a kill would.
    fn keep_what_is_proven(&mut self, sink: &mut dyn Sink, tally: &mut Tally) {
        self.transfer.flush_nodes();
        while let Some(event) = self.transfer.poll_event() {
            let mut ignored = |_| {};
            let mut cx = self.context(tally, &mut ignored);
            if deliver(sink, event, &mut cx).is_err() {
                break;
            }
        }
        self.engine.close();
    }

    /// The final name is taken: fine if what is there is what was asked for.
    fn already_there(
        &mut self,
        path: &Path,
        ticket: &Ticket,
        options: &GetOptions,
        (store, manifest): (&Store, &Manifest),
        on_event: &mut dyn FnMut(Event),
    ) -> Result<GetSummary, Error> {
        let seeds = options.serve.as_ref().is_some_and(|serve| serve.seed);
        if !seeds {
            self.engine.close();
        }
        let same = options.save.range.is_none()
            && root_of(path, &mut from_library(on_event))? == manifest.root;
        if !same {
            let path = path.display();
            return Err(failure::usage(format!(
                "{path} exists and is something else; choose --overwrite, --rename or -o PATH"
            )));
        }
        if seeds {
            self.join(ticket, options, true, on_event)?;
            let holdings = self.company.as_ref().and_then(Company::holdings);
            if !holdings.is_some_and(|holdings| holdings.finished(store, manifest, path)) {
                self.company = None;
                let what = "what was there already is not served: only files are, whose tree the \
                            store has kept";
                on_event(Event::warning(what.to_owned()));
            }
        }
        Ok(GetSummary {
            root: manifest.root.to_string(),
            path: Some(path.to_path_buf()),
            bytes: manifest.total_size,
            files: manifest.file_count,
            resumed: manifest.total_size,
            already_complete: true,
            ..GetSummary::default()
        })
    }
}

fn found(manifest: &Manifest) -> Event {
    Event::Found {
        name: String::from_utf8_lossy(&manifest.file_name).into_owned(),
        directory: manifest.kind == Kind::Directory,
        root: manifest.root.to_string(),
        bytes: manifest.total_size,
        files: manifest.file_count,
    }
}

fn deliver(sink: &mut dyn Sink, event: TransferEvent, cx: &mut Context<'_>) -> Result<(), Error> {
    match event {
        TransferEvent::Segment { object, segment } => sink.segment(object, segment, cx),
        TransferEvent::Nodes { object, nodes } => sink.nodes(object, nodes),
        TransferEvent::ObjectComplete(object) => sink.complete(object, cx),
        _ => Ok(()),
    }
}

/// Faces are counted from 0 and far from 2^32 in one run; a wrapped number would only misattribute.
fn peer_of(face: FaceId) -> PeerId {
    PeerId(face.0 as u32)
}

fn face_of(peer: PeerId) -> FaceId {
    FaceId(u64::from(peer.0))
}
