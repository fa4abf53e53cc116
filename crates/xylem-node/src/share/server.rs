//! [`ShareServer`]: the program that a share runs on its engine.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use xylem_base::Stop;
use xylem_client::satisfies;
use xylem_files::{LibraryEvent, SkipReason};
use xylem_forward::FaceId;
use xylem_link::Level;
use xylem_object::Ticket;
use xylem_object::fetched::parse_notice;
use xylem_object::{PublisherKey, ServeOutcome};
use xylem_packet::{Data, Interest, Packet};
use xylem_peers::announcers::Announcers;
use xylem_peers::reachable::{FaceAddress, Relay, WayTaken};
use xylem_publish::publications::{PublicationId, Publications, ReceivedInterest, ServedContent};
use xylem_publish::served::{GetterTraffic, ServedStats};
use xylem_reach::kind::{ReachMonitor, ReachWay, Reachability};
use xylem_reach::names::dht_knock;
use xylem_reach::relay::VouchedName;

use super::mesh::Mesh;
use super::service::ShareCommand;
use super::{ServiceSnapshot, ShareEndpoint, ShareError, ShareOptions, publisher_of};
use crate::addresses::of_tickets;
use crate::code::{CodeServer, Offered, ShowOptions};
use crate::discovery::{DhtRoom, MAX_PUBLIC, Publicity, ShareAnnouncer};
use crate::event::of_registrar;
use crate::event::{Event, FetchReport, GetterReport, GetterState, from_library};
use crate::mail::MailServer;
use crate::meeting::CodeDht;
use crate::peers::linked_at;
use crate::reaching;
use crate::shaping;
use crate::ticket_meeting::{MAX_LISTED_TICKETS, TicketListings};
use crate::waking::wake_of;
use xylem_app::Registrar;
use xylem_engine::wall_clock;
use xylem_engine::{Engine, EngineEvent, Program, advertised};
use xylem_witness::Cosigned;

/// Time for last answers to leave after a share has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// Interval of link statistics. [`MOST_LOOKED_AT`]: most links included.
const LINK_STATISTICS_EVERY: Duration = Duration::from_secs(1);
const MOST_LOOKED_AT: usize = 256;

/// Answers Interests for all publications, and receives mail.
pub(super) struct ShareServer<'a> {
    at: ShareEndpoint,
    publications: Publications,
    served: ServedStats,
    /// Commands of a service; a share has none.
    pub(super) commands: Option<mpsc::Receiver<ShareCommand>>,
    /// One for each object name, with all forwarders.
    pub(super) registrars: Vec<Registrar>,
    /// The shaping level requested for links.
    wanted_level: Level,
    /// Files that can't be read and were reported; one warning each is enough.
    warned_of: HashSet<PathBuf>,
    /// Faces that are up.
    peers: HashMap<FaceId, FaceAddress>,
    /// Receives mail.
    mail_server: MailServer,
    /// The certificate of the signing key, as a packet; empty: none.
    pub(super) certificate: Vec<u8>,
    /// Shows a code for a ticket.
    code: Option<CodeServer>,
    /// The group in which this service is a member.
    pub(super) mesh: Option<Mesh>,
    /// Witnesses' co-signatures of the publications.
    cosigned: Cosigned,
    /// For each publication, peers that announced that they serve what they fetched of it.
    announcers: HashMap<PublicationId, Announcers>,
    /// Announces the share elsewhere.
    beside: ShareAnnouncer,
    /// Lists a public share by its tickets in the DHT.
    tickets: Option<TicketListings>,
    /// Publications in these listings.
    by_ticket: HashSet<PublicationId>,
    /// Whether it was reported that a ticket is not listed.
    told_unlisted: bool,
    /// The key that signs records of names for the DHT.
    signs: Option<PublisherKey>,
    /// Buffer of the current answer, kept for its allocation.
    answer: Vec<u8>,
    /// How this end is reached.
    standing: Option<ReachMonitor>,
    /// The last report, if addresses alone lead no peer from elsewhere here and the DHT may.
    near: Option<Reachability>,
    /// Whether tickets name the router's mapped address. Otherwise no peer uses it.
    pub(super) names_mapped: bool,
    /// Raised when the shared content has been fetched.
    ends: &'a Stop,
    /// Time until which last answers may leave, once `ends` is raised.
    last_answers: Option<Duration>,
    /// When the next link statistics are due.
    look: Duration,
    /// Events of the thread that delivers mail.
    events: &'a mpsc::Receiver<Event>,
    on_event: &'a mut dyn FnMut(Event),
}

impl<'a> ShareServer<'a> {
    /// Makes a server without publications.
    pub(super) fn new(
        engine: &mut Engine,
        at: ShareEndpoint,
        options: &ShareOptions,
        ends: &'a Stop,
        events: &'a mpsc::Receiver<Event>,
        on_event: &'a mut dyn FnMut(Event),
    ) -> Result<Self, ShareError> {
        let signs = options.beside.public.as_ref().map(|_| publisher_of(options)).transpose()?;
        let mut publications = Publications::of_publisher(at.vouch);
        let wake = wake_of(engine)?;
        publications.wake_by(wake.clone());
        let start = options.beside.public.clone();
        let dht = start.map(|start| CodeDht::new(start, &options.store));
        let tickets = dht.and_then(|dht| TicketListings::new(engine, &dht));
        Ok(Self {
            beside: ShareAnnouncer::new(&options.beside, &options.store, &at.listen),
            tickets,
            by_ticket: HashSet::new(),
            told_unlisted: false,
            signs,
            publications,
            at,
            served: ServedStats::default(),
            commands: None,
            registrars: Vec::new(),
            wanted_level: options.links.shaping.level,
            warned_of: HashSet::new(),
            peers: HashMap::new(),
            mail_server: MailServer::open(&options.store, None, wake)?,
            certificate: Vec::new(),
            code: None,
            mesh: None,
            cosigned: Cosigned::by(&options.store, &options.witnesses)?,
            announcers: HashMap::new(),
            answer: Vec::new(),
            standing: None,
            near: None,
            names_mapped: false,
            ends,
            last_answers: None,
            look: Duration::ZERO,
            events,
            on_event,
        })
    }

    /// Waits `most` for the router, so that tickets name its mapping. Returns the event that lists the tickets'
    /// addresses.
    pub(super) fn wait_for_router(&mut self, most: Duration) -> Event {
        self.beside.wait_for_router(most, self.on_event);
        self.at.mapped = self.beside.mapped();
        self.names_mapped = self.at.mapped.is_some();
        of_tickets(&self.at.announced(), &self.at.listen).1
    }

    /// Registers with relays, by our link key and by the publisher.
    pub(super) fn register(&mut self, engine: &mut Engine, relays: &[Relay], code: bool) {
        let ShareEndpoint { publisher, relay_vouch: vouch, .. } = self.at;
        let names = [VouchedName { publisher, vouch }];
        reaching::register(engine, relays, &names, code, self.on_event);
        engine.introduce();
        self.at.announce_own_addresses(engine);
        let keys: Vec<[u8; 32]> = relays.iter().map(|relay| relay.at.key).collect();
        let (own, announced) = (advertised(&self.at.listen), !self.at.announce.is_empty());
        let mut standing = ReachMonitor::new(engine.now(), own, announced, &keys);
        standing.mapped(self.at.mapped.filter(|_| self.names_mapped));
        self.standing = Some(standing);
    }

    /// Adds a publication. `lan`: whether it may be announced on the LAN. Returns its event.
    pub(super) fn add(
        &mut self,
        engine: &mut Engine,
        path: &Path,
        content: ServedContent,
        lan: bool,
    ) -> Result<(PublicationId, Event), ShareError> {
        let publication = content.publication();
        let (root, prefix) = (publication.manifest().root, publication.prefix());
        let twin = self.publications.finds_other(&root, &self.at.link_key, prefix);
        let shared = self.at.shared(path, &content, twin);
        // A ticket may lack our link key. Any peer that has the ticket knows the publisher.
        let signed_by = content.signed_by();
        let publisher = signed_by.unwrap_or(self.at.publisher);
        if !engine.answer_knock(&publisher.0) {
            return Err(ShareError::TooManyPublishers { path: path.to_path_buf() });
        }
        engine.serve(prefix.parent())?;
        let mut room = self.beside.room_for(&content);
        if room == DhtRoom::Free && !engine.answer_knock(&dht_knock(&root)) {
            room = DhtRoom::Full;
        }
        if room == DhtRoom::Full {
            let what = format!(
                "{}: not announced in the DHT, as at most {MAX_PUBLIC} publications are; peers that have the \
                 ticket can fetch it",
                path.display()
            );
            (self.on_event)(Event::warning(what));
        }
        let id = self.publications.add(content);
        let vouch = signed_by.is_none().then_some(self.at.vouch);
        self.publications.add_find(id, &self.at.link_key, vouch);
        if room == DhtRoom::Free {
            let listed = self.tickets.as_mut().map(|it| it.add(engine, &root));
            if listed.is_some() {
                self.by_ticket.insert(id);
            }
            if listed == Some(false) && !std::mem::replace(&mut self.told_unlisted, true) {
                let (path, most) = (path.display(), MAX_LISTED_TICKETS);
                let what = format!(
                    "{path}: the DHT lists this machine by {most} tickets already: by this one, and by further ones, once others end"
                );
                (self.on_event)(Event::Library(LibraryEvent::Warning { what }));
            }
            self.publications.add_public_find(id, &self.at.link_key, publisher, vouch);
        }
        if let Some(content) = self.publications.get(id) {
            let (signs, told) = (self.signs.as_ref(), Publicity { lan, dht: room });
            self.beside.add(engine.now(), id, content, signs, publisher, told);
        }
        Ok((id, shared))
    }

    /// Shows a code for a ticket, if none is shown.
    pub(super) fn show_code(
        &mut self,
        engine: &mut Engine,
        ticket: &Ticket,
        how: &ShowOptions,
    ) -> Result<(), ShareError> {
        if self.code.is_none() {
            let (text, at) = (ticket.to_string(), ticket.addresses.clone());
            let ShareEndpoint { publisher, relay_vouch: vouch, .. } = self.at;
            let how = ShowOptions { names: vec![VouchedName { publisher, vouch }], ..how.clone() };
            self.code = Some(CodeServer::new(engine, Offered::Ticket, text, at, &how)?);
        }
        Ok(())
    }

    /// Removes a publication.
    fn remove(&mut self, engine: &mut Engine, id: PublicationId) {
        let ended = self.served.withdrawn(engine.now(), id);
        self.report_getters(GetterState::Ended, ended);
        let Some(content) = self.publications.remove(id) else { return };
        let object = content.publication().prefix().parent();
        if !self.publications.has_object(object) {
            engine.no_longer_serve(object);
        }
        self.announcers.remove(&id);
        self.beside.remove(id);
        // Free the link's knocks for others. That of our own publisher stays: a getter of removed content then gets a
        // refusal.
        let (root, signed_by) = (content.publication().manifest().root, content.signed_by());
        if self.by_ticket.remove(&id) {
            self.tickets.iter_mut().for_each(|it| it.remove(engine, &root));
        }
        if !self.beside.shares(&root) {
            engine.forget_knock(&dht_knock(&root));
        }
        let other = signed_by.filter(|other| !self.beside.shares_of(other));
        if let Some(other) = other.filter(|other| *other != self.at.publisher) {
            engine.forget_knock(&other.0);
        }
    }

    /// Counts of what was served so far.
    pub(super) fn snapshot(&mut self) -> ServiceSnapshot {
        ServiceSnapshot { counts: self.served.counts().clone(), peers: self.peers.len() }
    }

    fn handle_commands(&mut self, engine: &mut Engine) {
        let Some(commands) = self.commands.take() else { return };
        for command in commands.try_iter() {
            // The thread that asked may be gone by now.
            match command {
                ShareCommand::Add { path, content, lan, answer } => {
                    let _ = answer.send(self.add(engine, &path, *content, lan));
                }
                ShareCommand::Remove(id) => self.remove(engine, id),
                ShareCommand::Say(said, roles) => {
                    if let Some(mesh) = &mut self.mesh {
                        mesh.send_own_statement(engine, said, roles);
                    }
                }
                ShareCommand::Adopt(adopted) => {
                    if let Some(mesh) = &mut self.mesh {
                        mesh.send_adopted(engine, &adopted);
                    }
                }
                ShareCommand::Count(answer) => {
                    let _ = answer.send(self.snapshot());
                }
            }
        }
        self.commands = Some(commands);
    }

    /// When link statistics are due. A service has a command for them instead.
    fn next_look(&self) -> Option<Duration> {
        (self.commands.is_none() && !self.peers.is_empty()).then_some(self.look)
    }

    /// Reports an event to the caller of the share.
    pub(super) fn report(&mut self, event: Event) {
        (self.on_event)(event);
    }

    /// Reports getters of publications that are shared, over faces that are known.
    fn report_getters(&mut self, state: GetterState, all: impl IntoIterator<Item = GetterTraffic>) {
        for getter in all {
            let GetterTraffic { publication, face, number, sent, complete, elapsed } = getter;
            let content = self.publications.get(publication);
            let Some((peer, content)) = self.peers.get(&face).zip(content) else { continue };
            let (name, manifest) = content.newest();
            let (peer, way, bytes) = (peer.clone(), WayTaken::to(peer), manifest.total_size);
            let told =
                GetterReport { number, state, peer, way, name, bytes, sent, complete, elapsed };
            (self.on_event)(Event::Getter(told));
        }
    }

    /// Reports that the share ends for each getter.
    pub(super) fn report_ends(&mut self, now: Duration) {
        let ended = self.served.all_down(now);
        self.report_getters(GetterState::Ended, ended);
    }

    /// Whether the Interest asks for the certificate.
    fn asks_for_certificate(&self, interest: &Interest<'_>) -> bool {
        let certificate = Data::decode(&self.certificate);
        certificate.is_ok_and(|data| satisfies(&data, interest))
    }

    fn handle_packet(&mut self, engine: &mut Engine, from: FaceId, packet: &[u8]) {
        let interest = match Packet::decode(packet) {
            Ok(Packet::Interest(interest)) => interest,
            Ok(Packet::Data(data)) => {
                for registrar in &mut self.registrars {
                    registrar.answered(engine.now(), &data, &mut of_registrar(self.on_event));
                }
                return;
            }
            _ => return,
        };
        self.answer.clear();
        let now = engine.now();
        let asked = ReceivedInterest { now, by: from.0, interest: &interest, packet };
        let (id, answer) = self.publications.answer(&asked, &mut self.answer);
        match answer {
            Ok(ServeOutcome::Data) => {
                engine.answer(packet, &self.answer);
                if let Some(id) = id {
                    let began = self.served.sent(now, id, from, self.answer.len());
                    self.report_getters(GetterState::Began, began);
                }
            }
            Ok(ServeOutcome::NotYet) => {}
            Ok(ServeOutcome::NoSuch | ServeOutcome::OtherPublication) => {
                let (clock, by) = (wall_clock(), self.at.publisher);
                let shared = &self.publications;
                if let Some((answer, told)) =
                    self.cosigned.answer(now, clock, from, &interest, shared, by)
                {
                    told.into_iter().for_each(|event| self.report(Event::Library(event)));
                    return engine.answer(packet, &answer);
                }
                let content = id.and_then(|id| self.publications.get(id));
                let Some((id, content)) = id.zip(content) else {
                    return match self.asks_for_certificate(&interest) {
                        true => engine.answer(packet, &self.certificate),
                        false => engine.refuse(packet),
                    };
                };
                let prefix = content.publication().prefix();
                if let Some((_, fetched)) = parse_notice(prefix, interest.name()) {
                    if let Some((sent, elapsed)) = self.served.fetched(now, id, from)
                        && let Some(peer) = self.peers.get(&from).cloned()
                    {
                        let (name, manifest) = content.newest();
                        let bytes = manifest.total_size;
                        let told = FetchReport { peer, name, bytes, fetched, sent, elapsed };
                        (self.on_event)(Event::Fetched(told));
                    }
                    return engine.refuse(packet);
                }
                let announcers = self.announcers.entry(id).or_default();
                let seen = linked_at(engine, from);
                match announcers.answer(now, from, seen, prefix, &interest) {
                    Some(hints) => engine.answer(packet, &hints),
                    // A producer knows its names: refuse others at once, so that no peer waits.
                    None => engine.refuse(packet),
                }
            }
            Err(e) => {
                engine.refuse(packet);
                if self.warned_of.insert(e.path().to_path_buf()) {
                    let why = SkipReason::of_served(&e);
                    let path = e.path().to_path_buf();
                    (self.on_event)(Event::Library(LibraryEvent::Skipped { path, why }));
                }
            }
        }
    }
}

/// The text for a machine to which no address leads from elsewhere, but the DHT.
const BY_DHT: &str = "from elsewhere through the DHT, where the NATs on both sides let it; else name a relay (--relay)";

/// The event for how other peers reach this machine. The DHT leads takers of a code here as well (`code`: whether it does
/// already), and those with a ticket if it lists the share (`by_ticket`).
fn said_of(reach: Reachability, code: Option<bool>, by_ticket: bool) -> Event {
    let near = matches!(reach.way, ReachWay::Lan | ReachWay::Here);
    let mut event = Event::from(reach);
    let Event::Reach(status) = &mut event else { return event };
    if near && by_ticket {
        status.says = BY_DHT.to_owned();
    } else if let (Some(listed), true) = (code, near) {
        let by_code = if listed { "; by the code from elsewhere too, through the DHT" } else { "" };
        status.says = format!("by the ticket {}{by_code}", status.says);
    }
    event
}

impl Program for ShareServer<'_> {
    type Error = ShareError;

    fn handle(&mut self, engine: &mut Engine, event: EngineEvent) -> Result<(), ShareError> {
        match event {
            EngineEvent::Packet { from, packet, nack: None, .. } => {
                self.handle_packet(engine, from, &packet);
            }
            // A Nack: this program sends Interests only to forwarders, as commands.
            EngineEvent::Packet { packet, .. } => {
                if let Ok(interest) = Interest::decode(&packet) {
                    for registrar in &mut self.registrars {
                        registrar.refused(
                            engine.now(),
                            &interest,
                            &mut of_registrar(self.on_event),
                        );
                    }
                }
            }
            // This program chooses no strategy.
            EngineEvent::OtherKey { .. } | EngineEvent::LearnedRoute { .. } => {}
            EngineEvent::Moved { face, to } => {
                if let Some(known) = self.peers.get_mut(&face) {
                    let peer = std::mem::replace(known, to.clone());
                    (self.on_event)(Event::Moved { peer, to });
                }
            }
            EngineEvent::Relay { relay, at, what } => {
                if let Some(standing) = &mut self.standing {
                    standing.on_relay_report(engine.now(), relay, at, reaching::news(&what));
                }
                if self.code.as_mut().is_some_and(|code| code.handle_relay(engine, relay, &what)) {
                    return Ok(());
                }
                self.at.announce_own_addresses(engine);
                Event::of_relay(at, what).into_iter().for_each(&mut *self.on_event);
            }
            EngineEvent::Trouble { what } => self.report(Event::warning(what)),
            EngineEvent::FaceUp { face, peer } => {
                for registrar in &mut self.registrars {
                    registrar.came_up(engine, face)?;
                }
                if let (Some(standing), FaceAddress::Link(from)) = (&mut self.standing, &peer) {
                    standing.on_direct_link(*from);
                }
                self.peers.insert(face, peer.clone());
                (self.on_event)(Event::PeerConnected { peer: peer.clone() });
                self.mesh.iter_mut().for_each(|mesh| mesh.came_up(engine, face));
                shaping::report(engine, face, self.wanted_level, &peer, self.on_event);
            }
            EngineEvent::Stream { face, stream, what }
                if (self.code.as_mut())
                    .is_some_and(|code| code.handle(engine, face, stream, what)) => {}
            EngineEvent::Stream { face, stream, what }
                if (self.mesh.as_mut())
                    .is_some_and(|mesh| mesh.handle(engine, face, stream, &what)) => {}
            EngineEvent::Stream { face, stream, what } => {
                self.mail_server.handle(engine, face, stream, what);
            }
            EngineEvent::FaceDown { face, peer, why, .. } => {
                let why = why.to_string();
                for registrar in &mut self.registrars {
                    registrar.went_down(face, &why, &mut of_registrar(self.on_event));
                }
                let ended = self.served.face_down(engine.now(), face);
                self.report_getters(GetterState::Ended, ended);
                self.peers.remove(&face);
                self.mail_server.face_down(face);
                self.code.iter_mut().for_each(|code| code.face_down(face));
                self.mesh.iter_mut().for_each(|mesh| mesh.face_down(engine.now(), face));
                self.announcers.values_mut().for_each(|known| known.went_down(face));
                self.cosigned.face_went_down(face);
                (self.on_event)(Event::PeerGone { peer, why });
            }
        }
        Ok(())
    }

    fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) -> Result<(), ShareError> {
        self.handle_commands(engine);
        for (by, packet) in self.publications.ready(now) {
            self.handle_packet(engine, FaceId(by), &packet);
        }
        for registrar in &mut self.registrars {
            registrar.handle_timeout(engine, &mut of_registrar(self.on_event))?;
        }
        for grower in self.publications.growing() {
            let events = &mut from_library(self.on_event);
            if let Some(pointer) = grower.poll(now, wall_clock(), events)? {
                engine.send(&pointer);
            }
        }
        self.code.iter_mut().for_each(|code| code.handle_timeout(engine, now, self.on_event));
        self.mesh.iter_mut().for_each(|mesh| mesh.handle_timeout(engine, now));
        self.mail_server.poll(engine, self.on_event);
        self.events.try_iter().for_each(&mut *self.on_event);
        self.beside.handle_timeout(now, self.on_event);
        let mapped = self.beside.mapped();
        if std::mem::replace(&mut self.at.mapped, mapped) != mapped {
            self.at.announce_own_addresses(engine);
        }
        let mapped = mapped.filter(|_| self.names_mapped);
        if let Some(standing) = &mut self.standing {
            standing.mapped(mapped);
        }
        self.tickets.iter_mut().for_each(|tickets| tickets.handle_timeout(engine));
        let by_ticket = self.tickets.as_ref().is_some_and(TicketListings::is_listed);
        let changed = self.standing.as_mut().and_then(|standing| standing.poll(now));
        // The report from before the DHT listed the share is corrected.
        if let Some(reach) = changed.or(self.near.take_if(|_| by_ticket)) {
            let is_near = matches!(reach.way, ReachWay::Lan | ReachWay::Here);
            self.near = (is_near && !by_ticket && self.tickets.is_some()).then_some(reach);
            let code = self.code.as_ref().and_then(CodeServer::in_dht);
            (self.on_event)(said_of(reach, code, by_ticket));
        }
        let changed = self.served.report(now);
        self.report_getters(GetterState::Continues, changed);
        if self.next_look().is_some_and(|next| now >= next) {
            self.look = now + LINK_STATISTICS_EVERY;
            let links = self.peers.iter().take(MOST_LOOKED_AT);
            let links = links.filter_map(|(face, p)| Some((p.clone(), engine.link_stats(*face)?)));
            let links = links.collect();
            self.report(Event::Serving { links });
        }
        Ok(())
    }

    fn is_done(&mut self, engine: &Engine, stopped: bool) -> bool {
        let (now, peers) = (engine.now(), self.peers.len());
        if stopped {
            let mut busy = false;
            // Each peer has to receive the final checkpoint.
            self.publications.growing().for_each(|grower| busy |= !grower.may_end(now, peers));
            if !busy {
                return true;
            }
        }
        if !self.ends.raised() {
            return false;
        }
        // The notice that ended the share came over a stream. Its last answer still has to leave.
        let until = *self.last_answers.get_or_insert(engine.now() + LAST_ANSWERS);
        self.mail_server.is_empty() || engine.now() >= until
    }

    fn poll_timeout(&mut self, now: Duration) -> Option<Duration> {
        if self.publications.has_ready() {
            return Some(now);
        }
        let registrars = self.registrars.iter().filter_map(Registrar::poll_timeout);
        let growers = self.publications.growing().filter_map(|grower| grower.poll_timeout());
        let standing = self.standing.as_ref().and_then(ReachMonitor::poll_timeout);
        let code = self.code.as_ref().and_then(CodeServer::poll_timeout);
        let beside = self.beside.poll_timeout();
        let mesh = self.mesh.as_ref().and_then(Mesh::poll_timeout);
        let tickets = self.tickets.as_ref().and_then(TicketListings::poll_timeout);
        let code = code.into_iter().chain(tickets);
        let timers =
            registrars.chain(growers).chain(standing).chain(code).chain(beside).chain(mesh);
        timers.min().into_iter().chain(self.next_look()).chain(self.served.poll_timeout()).min()
    }
}
