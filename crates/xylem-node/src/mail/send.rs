//! [`send`]: shares content, notifies one peer, and serves until that peer has fetched it. [`listen`]: waits for mail.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use xylem_base::{Blame, Failure, Stop};
use xylem_forward::{Forwarder, ForwarderConfig, ForwarderSeed};
use xylem_link::{Endpoint, StaticKey};
use xylem_mail::{Card, EnvelopeId, MAX_NOTE, MailBody, MailContent};
use xylem_mailbox::report::{cut, name_of_ticket};
use xylem_mailbox::{
    MailEvent, MailRoute, MailStore, ReachEffort, Recipient, UnknownRecipient, find,
};
use xylem_mgmt::FaceUri;
use xylem_object::Ticket;
use xylem_object::ticket::{Address, MAX_RELAY_ADDRESSES, RelayContact};
use xylem_peers::reachable::{self, FaceAddress, PeerAddress, Relay};
use xylem_reach::code::CodeEnd;

use super::delivery::{self, DeliveryReach, while_delivering};
use super::error::InboxError;
use super::server::MailServer;
use crate::code::{CodeDht, CodeServer, Offered, ShowOptions};
use crate::event::Event;
use crate::reaching;
use crate::share::{ShareError, ShareOptions, share_with};
use crate::waking::wake_of;
use xylem_engine::EngineError;
use xylem_engine::{Engine, EngineEvent, Program, advertised, bind_links};
use xylem_engine::{now_ms, wall_clock};

/// Time for last answers to leave after a code has ended.
const LAST_ANSWERS: Duration = Duration::from_millis(300);

/// Why [`send`] ends early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MailSendError {
    /// No person has this name in the store.
    #[error(
        "no person is named {0} here; give a card (xylem-peer:...), or name its owner with \
         `xylem inbox trust {0} CARD`"
    )]
    Unknown(String),
    /// A note exceeds the size limit.
    #[error("a note has {MAX_NOTE} bytes at most")]
    LongNote,
    /// The peer for mail is not reached by an encrypted link.
    #[error("{0}: mail goes over the encrypted link only")]
    NotLink(FaceAddress),
    /// The card has no address, and no other was given.
    #[error(
        "the peer's card names no address; give --to ADDR, or --node NODE for a node that keeps the message for the \
         peer"
    )]
    NoAddress,
    /// The send was stopped after delivery and before the fetch was complete.
    #[error("stopped before the peer had fetched it; share it again so that the peer can continue")]
    NotFetched,
    /// The send was stopped before delivery.
    #[error(
        "stopped before the message was delivered; it waits, and the next `xylem send`, `share`, `ndn node` or \
         `inbox` tries again"
    )]
    NotDelivered,
    /// Failures of sharing.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// The system gives no random numbers.
    #[error(transparent)]
    Randomness(#[from] xylem_base::NoRandomness),
    /// A key of the store cannot be read or made.
    #[error(transparent)]
    Key(#[from] xylem_keys::KeyFileError),
    /// Failures of handing it over.
    #[error(transparent)]
    Delivery(#[from] InboxError),
    /// The store of mail fails.
    #[error(transparent)]
    MailStore(#[from] xylem_mailbox::MailStoreError),
}

impl Failure for MailSendError {
    fn blame(&self) -> Blame {
        match self {
            Self::Unknown(_) | Self::LongNote | Self::NotLink(_) | Self::NoAddress => Blame::Usage,
            Self::NotFetched | Self::NotDelivered => Blame::Interrupted,
            Self::Share(e) => e.blame(),
            Self::Randomness(e) => e.blame(),
            Self::Key(e) => e.blame(),
            Self::Delivery(e) => e.blame(),
            Self::MailStore(e) => e.blame(),
        }
    }
}

/// The content to send.
#[derive(Clone, Debug)]
pub enum Mail {
    /// A file or directory, which is shared until the peer has fetched it.
    Path(Box<ShareOptions>),
    /// A ticket; its sharer serves what it names.
    Ticket(Box<Ticket>),
    /// A note.
    Note(String),
}

/// Options of [`send`].
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// The content.
    pub mail: Mail,
    /// The receiver.
    pub to: Recipient,
    /// Where the peer listens, instead of at its card's addresses.
    pub at: Vec<SocketAddr>,
    /// Addresses of a node that keeps the message for the peer.
    pub via: Vec<PeerAddress>,
    /// Relays at which to reach the peer.
    pub relays: Vec<Relay>,
    /// How to reach peers.
    pub reach: ReachEffort,
    /// Directory of keys and mail.
    pub store: PathBuf,
}

/// Outcome of [`send`].
#[derive(Clone, Debug, Default)]
pub struct SendSummary {
    /// The peer has the message.
    pub delivered: bool,
    /// A node keeps the message for the peer.
    pub stored: bool,
    /// The peer has fetched what the message names.
    pub fetched: bool,
}

/// Sends. A path is shared until its receiver has fetched it or `stop` is raised. Anything else is tried once; what is
/// not delivered waits for the next run.
///
/// # Errors
/// See [`MailSendError`].
pub fn send(
    options: &SendOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<SendSummary, MailSendError> {
    let store = MailStore::open(&options.store)?;
    // Check the receiver before hashing anything.
    let (card, name) = find(&store, &options.to)?
        .map_err(|UnknownRecipient(name)| MailSendError::Unknown(name))?;
    let route = route(options, &card)?;
    let compose = |content: MailContent, called: String, size: u64, ours: &[SocketAddr]| {
        let called = cut(called);
        let body = MailBody { content, name: called, size, sent_ms: now_ms() };
        store.compose(&card, &name, &body, route.clone(), ours, wall_clock())
    };
    let share = match &options.mail {
        Mail::Path(share) if share.relays.is_empty() => {
            let relays = way_back(&card, &route).map(Relay::from).into_iter().collect();
            &Box::new(ShareOptions { relays, ..(**share).clone() })
        }
        Mail::Path(share) => share,
        Mail::Ticket(ticket) => {
            let (called, size) = (name_of_ticket(ticket), ticket.size.unwrap_or(0));
            let id = compose(MailContent::Ticket(ticket.clone()), called, size, &[])?;
            return once(&store, id, &name, options, stop, on_event);
        }
        Mail::Note(text) => {
            if text.len() > MAX_NOTE {
                return Err(MailSendError::LongNote);
            }
            let id =
                compose(MailContent::Note(text.clone()), String::new(), text.len() as u64, &[])?;
            return once(&store, id, &name, options, stop, on_event);
        }
    };
    let mut sent = SentMessage { id: None, summary: SendSummary::default(), error: None };
    let (events, from_delivery) = mpsc::channel();
    // Ends the share when the content has been fetched, and the delivery with the share.
    let ends = Stop::new();
    thread::scope(|scope| {
        let ended = share_with(share, stop, &ends, &from_delivery, &mut |event| {
            sent.note(&event);
            if sent.summary.fetched {
                ends.raise();
            }
            let ready = match &event {
                Event::Shared { ticket, bytes, listen, .. } => {
                    Some((ticket.clone(), *bytes, advertised(listen)))
                }
                _ => None,
            };
            on_event(event);
            let Some((ticket, bytes, ours)) = ready else { return };
            let path = share.paths.first().map_or(Path::new(""), PathBuf::as_path);
            let file = path.file_name().unwrap_or(path.as_os_str());
            let called = file.to_string_lossy().into_owned();
            match compose(MailContent::Ticket(ticket), called, bytes, &ours) {
                Err(e) => {
                    sent.error = Some(e.into());
                    ends.raise();
                }
                Ok(id) => {
                    on_event(queued(&name, id));
                    sent.id = Some(id);
                    let (events, ends, store) = (events.clone(), &ends, &store);
                    let deliver = move || {
                        let (ways, first) = (ways(options), Some(id));
                        delivery::keep_delivering(store, first, ways, ends, &events);
                    };
                    if let Err(e) = thread::Builder::new().spawn_scoped(scope, deliver) {
                        sent.error = Some(InboxError::from(EngineError::Thread(e)).into());
                        ends.raise();
                    }
                }
            }
        });
        ends.raise();
        ended
    })?;
    for event in from_delivery.try_iter() {
        sent.note(&event);
        on_event(event);
    }
    if let Some(e) = sent.error {
        return Err(e);
    }
    if !sent.summary.fetched {
        return Err(match sent.summary.delivered || sent.summary.stored {
            true => MailSendError::NotFetched,
            false => MailSendError::NotDelivered,
        });
    }
    Ok(sent.summary)
}

/// The relay by which a receiver that cannot reach us fetches: the one in its card, if any. Otherwise the receiver
/// itself, if we dial it directly: it introduces peers that have reached it, so our link to it leads back.
fn way_back(card: &Card, route: &MailRoute) -> Option<RelayContact> {
    let at = |addresses: &[SocketAddr]| {
        let some = addresses.iter().take(MAX_RELAY_ADDRESSES).copied();
        RelayContact { key: card.party.link.0, addresses: some.map(Address::Ip).collect() }
    };
    match (&card.relay, route) {
        (Some(relay), _) => Some(relay.clone()),
        (None, MailRoute::Direct(addresses)) if !addresses.is_empty() => Some(at(addresses)),
        _ => None,
    }
}

/// State of the message in transit.
struct SentMessage {
    id: Option<EnvelopeId>,
    summary: SendSummary,
    error: Option<MailSendError>,
}

impl SentMessage {
    fn note(&mut self, event: &Event) {
        let Event::Mail(event) = event else { return };
        match event {
            MailEvent::Delivered { id, .. } if Some(*id) == self.id => {
                self.summary.delivered = true;
            }
            MailEvent::Stored { id, .. } if Some(*id) == self.id => self.summary.stored = true,
            MailEvent::Again { id, was, .. } if Some(*was) == self.id => self.id = Some(*id),
            MailEvent::Fetched { id, .. } if Some(*id) == self.id => {
                self.summary.delivered = true;
                self.summary.fetched = true;
            }
            _ => {}
        }
    }
}

fn queued(name: &str, id: EnvelopeId) -> Event {
    Event::Mail(MailEvent::Queued { to: name.to_owned(), id })
}

/// One attempt to deliver a message that needs no share.
fn once(
    store: &MailStore,
    id: EnvelopeId,
    name: &str,
    options: &SendOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<SendSummary, MailSendError> {
    on_event(queued(name, id));
    let mut sent = SentMessage { id: Some(id), summary: SendSummary::default(), error: None };
    delivery::deliver(store, Some(id), ways(options), stop, &mut |event| {
        sent.note(&event);
        on_event(event);
    })?;
    Ok(sent.summary)
}

fn ways(options: &SendOptions) -> DeliveryReach<'_> {
    DeliveryReach { reach: options.reach, relays: &options.relays }
}

fn route(options: &SendOptions, card: &Card) -> Result<MailRoute, MailSendError> {
    let mut via = options.via.iter().map(|peer| match peer {
        PeerAddress::Link { address, key } => Ok((*address, *key)),
        other => Err(MailSendError::NotLink(other.into())),
    });
    if let Some(first) = via.next() {
        let (address, key) = first?;
        let mut all = vec![address];
        for other in via {
            all.push(other?.0);
        }
        return Ok(MailRoute::Via(key, all));
    }
    match (&card.relay, &options.at[..]) {
        (None, []) if card.addresses.is_empty() && options.relays.is_empty() => {
            Err(MailSendError::NoAddress)
        }
        (None, []) => Ok(MailRoute::Direct(card.addresses.clone())),
        (Some(relay), []) => Ok(MailRoute::AtRelay(relay.clone(), card.addresses.clone())),
        (_, at) => Ok(MailRoute::Direct(at.to_vec())),
    }
}

/// Waits for mail until `stop` is raised, through `relays` too, and hands over the outbox. With `accept_open`, also
/// answers peers that dial without our key.
///
/// # Errors
/// See [`InboxError`].
pub fn listen(
    store: &std::path::Path,
    at: &[SocketAddr],
    relays: &[Relay],
    accept_open: bool,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<(), InboxError> {
    listen_with(store, at, relays, accept_open, None, stop, on_event).map(drop)
}

/// Shows our card by a code, and receives mail meanwhile. Ends when the code ends, and returns why, or when `stop` is
/// raised. `at`: listening addresses, as for [`listen`]; empty: the usual port or a free one.
///
/// # Errors
/// See [`InboxError`].
pub fn show_card(
    store: &Path,
    at: &[SocketAddr],
    relays: &[Relay],
    how: ShowCard,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<Option<CodeEnd>, InboxError> {
    listen_with(store, at, relays, how.accept_open, Some(how), stop, on_event)
}

/// Options of [`show_card`].
#[derive(Clone, Debug)]
pub struct ShowCard {
    /// Whether to answer peers that dial without our key.
    pub accept_open: bool,
    /// Whether to stay after the code has ended.
    pub stay: bool,
    /// Whether the code is announced on the LAN.
    pub lan: bool,
    /// How the code is listed in the DHT, if no relay assigns a number.
    pub dht: Option<CodeDht>,
}

fn listen_with(
    store: &Path,
    at: &[SocketAddr],
    relays: &[Relay],
    accept_open: bool,
    show: Option<ShowCard>,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<Option<CodeEnd>, InboxError> {
    let mail = MailStore::open(store)?;
    let link = xylem_keys::load_or_create(&store.join("keys").join("link"))?;
    let config = xylem_link::LinkConfig { accept_open, ..Default::default() };
    let endpoint = Endpoint::new(config, StaticKey::from_bytes(link), xylem_base::random()?);
    let forwarder = Forwarder::new(
        ForwarderConfig::end_host(),
        ForwarderSeed::from_random(xylem_base::random()?),
    );
    let mut engine = Engine::new(endpoint, forwarder)?;
    let at: Vec<PeerAddress> =
        at.iter().map(|a| PeerAddress::Link { address: *a, key: None }).collect();
    let bound = bind_links(&mut engine, &at, None)?;
    for address in &bound {
        let at = FaceAddress::Uri(FaceUri::Xylem(reachable::endpoint(*address)));
        on_event(Event::Listening { uri: at });
    }
    let mail_server = MailServer::open(store, None, wake_of(&mut engine)?)?;
    reaching::register(&mut engine, relays, &[], show.is_some(), on_event);
    // A sender behind a NAT is reached by its link to this machine.
    engine.introduce();
    reaching::announce_own_addresses(&mut engine, std::iter::empty());
    let leaves = show.as_ref().is_some_and(|show| !show.stay);
    let code = match show {
        None => None,
        Some(show) => {
            let addresses = advertised(&bound);
            let card = mail
                .card(&addresses, relays.first().map(|relay| &relay.at), wall_clock())?
                .to_string();
            let at = addresses.into_iter().map(Into::into).collect();
            let relay = relays.first().cloned();
            let how = ShowOptions { relay, lan: show.lan, dht: show.dht, names: Vec::new() };
            Some(CodeServer::new(&mut engine, Offered::Card, card, at, &how)?)
        }
    };
    while_delivering(Some(&mail), relays, |events, _| {
        let mut listening =
            MailListener { mail_server, code, leaves, leave_at: None, events, on_event };
        engine.run(&mut listening, stop)?;
        engine.close();
        Ok(listening.code.and_then(|code| code.over()))
    })
}

/// The program that waits for mail.
struct MailListener<'a> {
    mail_server: MailServer,
    /// Shows our card by a code.
    code: Option<CodeServer>,
    /// Whether to end when the code ends.
    leaves: bool,
    /// Time until which last answers may leave after the code has ended.
    leave_at: Option<Duration>,
    /// Events of the thread that delivers mail.
    events: &'a mpsc::Receiver<Event>,
    on_event: &'a mut dyn FnMut(Event),
}

impl Program for MailListener<'_> {
    type Error = InboxError;

    fn handle(&mut self, engine: &mut Engine, event: EngineEvent) -> Result<(), InboxError> {
        match event {
            EngineEvent::FaceUp { peer, .. } => (self.on_event)(Event::PeerConnected { peer }),
            EngineEvent::FaceDown { face, peer, why, .. } => {
                self.mail_server.face_down(face);
                self.code.iter_mut().for_each(|code| code.face_down(face));
                (self.on_event)(Event::PeerGone { peer, why: why.to_string() });
            }
            EngineEvent::Stream { face, stream, what }
                if (self.code.as_mut())
                    .is_some_and(|code| code.handle(engine, face, stream, what)) => {}
            EngineEvent::Stream { face, stream, what } => {
                self.mail_server.handle(engine, face, stream, what);
            }
            EngineEvent::Relay { relay, at, what } => {
                if self.code.as_mut().is_some_and(|code| code.handle_relay(engine, relay, &what)) {
                    return Ok(());
                }
                Event::of_relay(at, what).into_iter().for_each(&mut *self.on_event);
            }
            // Nothing is served by name here.
            EngineEvent::Packet { .. }
            | EngineEvent::OtherKey { .. }
            | EngineEvent::Moved { .. }
            | EngineEvent::LearnedRoute { .. }
            | EngineEvent::Trouble { .. } => {}
        }
        Ok(())
    }

    fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) -> Result<(), InboxError> {
        self.code.iter_mut().for_each(|code| code.handle_timeout(engine, now, self.on_event));
        self.mail_server.poll(engine, self.on_event);
        self.events.try_iter().for_each(&mut *self.on_event);
        Ok(())
    }

    fn is_done(&mut self, engine: &Engine, stopped: bool) -> bool {
        let over = self.leaves && self.code.as_ref().is_some_and(|code| code.over().is_some());
        if stopped || !over {
            return stopped;
        }
        engine.now() >= *self.leave_at.get_or_insert(engine.now() + LAST_ANSWERS)
    }

    fn poll_timeout(&mut self, _now: Duration) -> Option<Duration> {
        self.leave_at.or(self.code.as_ref().and_then(CodeServer::poll_timeout))
    }
}
