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
use xylem_object::ticket::RelayContact;
use xylem_object::{PublisherKey, ServeOutcome};
use xylem_packet::{Data, Interest, Packet};
use xylem_peers::announcers::Announcers;
use xylem_peers::reachable::{FaceAddress, Relay};
use xylem_publish::publications::{PublicationId, Publications, ReceivedInterest, ServedContent};
use xylem_reach::kind::ReachMonitor;
use xylem_reach::names::dht_knock;
use xylem_reach::relay::VouchedName;

use super::getters::ShareGetters;
use super::listed::ListedShares;
use super::mesh::Mesh;
use super::reach::{ListingState, ShareReach};
use super::service::ShareCommand;
use super::streams::ShareStreams;
use super::{ServiceSnapshot, ShareEndpoint, ShareError, ShareOptions, publisher_of};
use crate::addresses::of_tickets;
use crate::code::{CodeServer, Offered, ShowOptions};
use crate::discovery::{DhtRoom, MAX_PUBLIC, Publicity, ShareAnnouncer};
use crate::event::of_registrar;
use crate::event::{Event, from_library};
use crate::mail::MailServer;
use crate::meeting::CodeDht;
use crate::peers::linked_at;
use crate::reaching;
use crate::relay_list::{LookedUpList, OLD_LIST, RelayListError, RelayWatch};
use crate::shaping;
use crate::ticket_meeting::{MAX_LISTED_TICKETS, TicketListings};
use crate::waking::wake_of;
use xylem_app::Registrar;
use xylem_engine::wall_clock;
use xylem_engine::{Engine, EngineEvent, Program, advertised};
use xylem_witness::Cosigned;

/// Time for last answers to leave after a share has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Answers Interests for all publications, and receives mail.
pub(super) struct ShareServer<'a> {
    at: ShareEndpoint,
    publications: Publications,
    getters: ShareGetters,
    /// Commands of a service; a share has none.
    commands: Option<mpsc::Receiver<ShareCommand>>,
    /// One for each object name, with all forwarders.
    pub(super) registrars: Vec<Registrar>,
    /// The shaping level requested for links.
    wanted_level: Level,
    /// Files that can't be read and were reported; one warning each is enough.
    warned_of: HashSet<PathBuf>,
    streams: ShareStreams,
    /// The certificate of the signing key, as a packet; empty: none.
    pub(super) certificate: Vec<u8>,
    /// Witnesses' co-signatures of the publications.
    cosigned: Cosigned,
    /// For each publication, peers that announced that they serve what they fetched of it.
    announcers: HashMap<PublicationId, Announcers>,
    /// Announces the share elsewhere.
    beside: ShareAnnouncer,
    listed: ListedShares,
    /// The key that signs records of names for the DHT.
    signs: Option<PublisherKey>,
    /// Buffer of the current answer, kept for its allocation.
    answer: Vec<u8>,
    reach: ShareReach,
    relays: RelayWatch,
    /// Raised when the shared content has been fetched.
    ends: &'a Stop,
    /// Time until which last answers may leave, once `ends` is raised.
    last_answers: Option<Duration>,
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
            listed: ListedShares::new(tickets),
            signs,
            publications,
            at,
            getters: ShareGetters::default(),
            commands: None,
            registrars: Vec::new(),
            wanted_level: options.links.shaping.level,
            warned_of: HashSet::new(),
            streams: ShareStreams::new(MailServer::open(&options.store, None, wake)?),
            certificate: Vec::new(),
            cosigned: Cosigned::by(&options.store, &options.witnesses)?,
            announcers: HashMap::new(),
            answer: Vec::new(),
            reach: ShareReach::default(),
            relays: RelayWatch::new(options.relay_list.clone(), engine.now(), wake_of(engine)?),
            ends,
            last_answers: None,
            events,
            on_event,
        })
    }

    /// Waits `most` for the router, so that tickets name its mapping. Returns the event that lists the tickets'
    /// addresses.
    pub(super) fn wait_for_router(&mut self, most: Duration) -> Event {
        self.beside.wait_for_router(most, self.on_event);
        self.at.mapped = self.beside.mapped();
        self.reach.name_mapped(self.at.mapped.is_some());
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
        let monitor = ReachMonitor::new(engine.now(), own, announced, &keys);
        self.reach.watch(monitor, self.at.mapped);
    }

    /// Uses the relays of a list that has been read again. Those that it no longer names are left, and later tickets name the new
    /// ones. A relay that cannot be used is tried at the next reading, too; without any that can be used, all stays as it is. The relay of a code
    /// stays as well.
    fn use_listed(&mut self, engine: &mut Engine, read: Result<LookedUpList, RelayListError>) {
        let LookedUpList { is_old, relays } = match read {
            Ok(read) => read,
            Err(why) => {
                let what = format!("{why}; the relays that it named before stay in use");
                return self.report(Event::warning(what));
            }
        };
        if is_old {
            self.report(Event::warning(OLD_LIST.to_owned()));
        }
        let ShareEndpoint { publisher, relay_vouch: vouch, .. } = self.at;
        let names = [VouchedName { publisher, vouch }];
        let (mut now, mut any): (Vec<RelayContact>, bool) = (Vec::new(), false);
        for (relay, ways) in relays {
            let known = self.at.relays.iter().find(|known| known.key == relay.at.key);
            match (reaching::listen_at(engine, ways, &names), known) {
                (Ok(()), _) => {
                    any = true;
                    now.push(relay.at);
                }
                // It is used at the addresses that it had before.
                (Err(_), Some(known)) => now.push(known.clone()),
                (Err(why), None) => self.report(Event::warning(format!(
                    "relay {relay} is not used: {why}; it is tried again when the list is read next"
                ))),
            }
        }
        if !any || self.at.relays == now {
            return;
        }
        let keys: Vec<[u8; 32]> = now.iter().map(|relay| relay.key).collect();
        let before = std::mem::replace(&mut self.at.relays, now);
        // By that relay getters find the code, and then the content: the ticket that they receive was made before.
        let by_code = self.streams.code_relay();
        let is_gone = |key: &[u8; 32]| !keys.contains(key) && by_code != Some(*key);
        for gone in before.iter().filter(|relay| is_gone(&relay.key)) {
            engine.leave_relay(&gone.key);
        }
        self.reach.use_relays(&keys);
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
            if self.listed.add(engine, id, &root) {
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
        if !self.streams.shows_code() {
            let (text, at) = (ticket.to_string(), ticket.addresses.clone());
            let ShareEndpoint { publisher, relay_vouch: vouch, .. } = self.at;
            let how = ShowOptions { names: vec![VouchedName { publisher, vouch }], ..how.clone() };
            self.streams.show(CodeServer::new(engine, Offered::Ticket, text, at, &how)?);
        }
        Ok(())
    }

    /// Follows the commands of a service. Its tickets are made later, and name the router's mapped address.
    pub(super) fn serve(&mut self, commands: mpsc::Receiver<ShareCommand>) {
        self.commands = Some(commands);
        self.reach.name_mapped(true);
    }

    /// Speaks with the members of a group from now on.
    pub(super) fn join(&mut self, mesh: Mesh) {
        self.streams.join(mesh);
    }

    /// Removes a publication.
    fn remove(&mut self, engine: &mut Engine, id: PublicationId) {
        self.getters.withdraw(engine.now(), id, &self.publications, self.on_event);
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
        self.listed.remove(engine, id, &root);
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
        self.getters.snapshot()
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
                    if let Some(mesh) = self.streams.mesh() {
                        mesh.send_own_statement(engine, said, roles);
                    }
                }
                ShareCommand::Adopt(adopted) => {
                    if let Some(mesh) = self.streams.mesh() {
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
    fn next_statistics(&self) -> Option<Duration> {
        self.getters.next_statistics().filter(|_| self.commands.is_none())
    }

    /// Reports an event to the caller of the share.
    pub(super) fn report(&mut self, event: Event) {
        (self.on_event)(event);
    }

    /// Reports that the share ends for each getter.
    pub(super) fn report_ends(&mut self, now: Duration) {
        self.getters.end(now, &self.publications, self.on_event);
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
                    let (bytes, of) = (self.answer.len(), &self.publications);
                    self.getters.sent(now, id, from, bytes, of, self.on_event);
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
                    let told = self.getters.fetched(now, id, from, content, fetched);
                    told.into_iter().for_each(&mut *self.on_event);
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
                if let Some(peer) = self.getters.moved(face, to.clone()) {
                    (self.on_event)(Event::Moved { peer, to });
                }
            }
            EngineEvent::Relay { relay, at, what } => {
                self.reach.on_relay(engine.now(), relay, at, &what);
                if self.streams.handle_relay(engine, relay, &what)
                    || self.listed.handle_relay(engine, &relay, &what)
                {
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
                if let FaceAddress::Link(from) = &peer {
                    self.reach.on_direct_link(*from);
                }
                self.getters.face_up(face, peer.clone());
                (self.on_event)(Event::PeerConnected { peer: peer.clone() });
                self.streams.face_up(engine, face);
                shaping::report(engine, face, self.wanted_level, &peer, self.on_event);
            }
            EngineEvent::Stream { face, stream, what } => {
                self.streams.handle(engine, face, stream, what);
            }
            EngineEvent::FaceDown { face, peer, why, .. } => {
                let why = why.to_string();
                for registrar in &mut self.registrars {
                    registrar.went_down(face, &why, &mut of_registrar(self.on_event));
                }
                let now = engine.now();
                self.getters.face_down(now, face, &self.publications, self.on_event);
                self.streams.face_down(now, face);
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
        self.streams.handle_timeout(engine, now, self.on_event);
        self.events.try_iter().for_each(&mut *self.on_event);
        self.beside.handle_timeout(now, self.on_event);
        let mapped = self.beside.mapped();
        if std::mem::replace(&mut self.at.mapped, mapped) != mapped {
            self.at.announce_own_addresses(engine);
        }
        self.reach.mapped(mapped);
        if let Some(listed) = self.relays.poll(now) {
            self.use_listed(engine, listed);
        }
        let ShareEndpoint { publisher, relay_vouch: vouch, .. } = self.at;
        let names = [VouchedName { publisher, vouch }];
        let is_relayed = self.getters.is_relayed();
        self.listed.handle_timeout(engine, &names, is_relayed, self.on_event);
        let dht = ListingState {
            code: self.streams.code_in_dht(),
            may_list_tickets: self.listed.may_list(),
            lists_tickets: self.listed.is_listed(),
        };
        self.reach.poll(now, dht).into_iter().for_each(&mut *self.on_event);
        self.getters.handle_timeout(now, &self.publications, self.on_event);
        if self.next_statistics().is_some() {
            let due = self.getters.statistics(engine, now);
            due.into_iter().for_each(&mut *self.on_event);
        }
        Ok(())
    }

    fn is_done(&mut self, engine: &Engine, stopped: bool) -> bool {
        let (now, peers) = (engine.now(), self.getters.count());
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
        self.streams.mail_is_idle() || engine.now() >= until
    }

    fn poll_timeout(&mut self, now: Duration) -> Option<Duration> {
        if self.publications.has_ready() {
            return Some(now);
        }
        let statistics = self.next_statistics();
        let registrars = self.registrars.iter().filter_map(Registrar::poll_timeout);
        let growers = self.publications.growing().filter_map(|grower| grower.poll_timeout());
        let parts = [
            self.reach.poll_timeout(),
            self.relays.poll_timeout(),
            self.streams.poll_timeout(),
            self.listed.poll_timeout(),
            self.beside.poll_timeout(),
            self.getters.poll_timeout(),
            statistics,
        ];
        registrars.chain(growers).chain(parts.into_iter().flatten()).min()
    }
}
