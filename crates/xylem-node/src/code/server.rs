//! [`CodeServer`]: answers peers that try a code.

use std::collections::HashMap;
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_keys::KeyFileError;
use xylem_link::{StaticKey, StreamId, StreamRead, purpose};
use xylem_object::ticket::Address;
use xylem_peers::reachable::Relay;
use xylem_reach::code::{
    CodeEnd, CodeOffer, CodeOfferEvent, LIFETIME, SpokenCode, knock, meeting_publisher,
};
use xylem_reach::relay::VouchedName;

use super::dht::{ListingReport, OfferMeeting};
use super::{CodeEvent, Offered, nearby};
use crate::event::Event;
use crate::meeting::CodeDht;
use crate::volunteers;
use xylem_engine::{Engine, RelayNotice, StreamEvent};

/// Error code that resets a stream with invalid frames.
const NOT_UNDERSTOOD: u32 = 1;
/// Most streams with bytes that the link does not take yet; more are reset.
const MAX_LATER: usize = 32;

/// Message for a link that can answer no more knocks ([`xylem_link::MAX_KNOCKS`]).
const FULL: &str = "too many publishers are shared here: no peer can reach this code; show it from a separate \
     `xylem share --code`";
/// Message for a DHT that answers and takes no announcement.
const NOT_STORED: &str =
    "no node of the DHT lists this code: only peers on this network find it; it is tried again";
/// Time limit for a relay to assign a number.
const NUMBER: Duration = Duration::from_secs(3);

type Id = (FaceId, StreamId);

/// How peers find this machine by the code's number, besides naming an address.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShowOptions {
    /// A relay that assigns the number and leads peers here. The engine registers with it.
    pub(crate) relay: Option<Relay>,
    /// Whether to announce the code on the LAN.
    pub(crate) lan: bool,
    /// How to list it in the DHT. That is done if no relay assigns a number.
    pub(crate) dht: Option<CodeDht>,
    /// Names by which the content is asked for at a relay, besides the link key.
    pub(crate) names: Vec<VouchedName>,
}

/// Shows a code and answers peers that try it.
pub(crate) struct CodeServer {
    state: CodeServerState,
    /// Bytes that the streams' windows did not take yet.
    later: HashMap<Id, Vec<u8>>,
}

enum CodeServerState {
    /// Waits for a relay to assign a number.
    Waits {
        what: CodeContent,
        until: Duration,
    },
    /// Checks in the DHT whether a number is free.
    Checks {
        what: CodeContent,
        /// `None` once it has ended.
        meeting: Option<Box<OfferMeeting>>,
        /// Whether it was reported that the DHT is used.
        told: bool,
    },
    Shown(Box<ShownCode>),
}

/// The content of a code, and how peers find it.
struct CodeContent {
    of: Offered,
    text: String,
    at: Vec<Address>,
    how: ShowOptions,
}

impl CodeContent {
    /// Moves the content out; what stays is not used any more.
    fn take(&mut self) -> Self {
        let (at, text) = (std::mem::take(&mut self.at), std::mem::take(&mut self.text));
        Self { of: self.of, text, at, how: std::mem::take(&mut self.how) }
    }
}

struct ShownCode {
    offer: CodeOffer<Id>,
    /// Event to report when the code is shown.
    told: Option<CodeEvent>,
    /// Warning to report then, if the link can answer no more knocks.
    full: Option<Event>,
    lan: Option<nearby::CodeAnnouncement>,
    /// Lists it in the DHT, as long as it is good.
    meeting: Option<Box<OfferMeeting>>,
    /// Keys of volunteer relays at which takers find it, and whether each has registered this end.
    volunteers: HashMap<[u8; 32], bool>,
    /// Names by which the content is asked for there.
    names: Vec<VouchedName>,
    /// The key of the relay that has assigned the number.
    relay: Option<[u8; 32]>,
}

/// How peers find a code by its number.
#[derive(Default)]
struct CodeFinding {
    /// The number, if it is not to be drawn.
    number: Option<u32>,
    /// Whether a relay has assigned it.
    by_relay: bool,
    meeting: Option<Box<OfferMeeting>>,
}

impl CodeServer {
    /// Shows a code for a ticket or a card, given as text. Peers reach this machine at the addresses `at`, and as `how`
    /// states.
    pub(crate) fn new(
        engine: &mut Engine,
        of: Offered,
        text: String,
        at: Vec<Address>,
        how: &ShowOptions,
    ) -> Result<Self, KeyFileError> {
        let what = CodeContent { of, text, at, how: how.clone() };
        let state = match what.how.relay {
            Some(_) => CodeServerState::Waits { what, until: engine.now() + NUMBER },
            None => CodeServerState::without_relay(engine, what)?,
        };
        Ok(Self { state, later: HashMap::new() })
    }

    /// Handles the report of a relay with which the engine is registered. Returns whether it is a volunteer's, which
    /// concerns nothing else.
    pub(crate) fn handle_relay(
        &mut self,
        engine: &mut Engine,
        relay: [u8; 32],
        what: &RelayNotice,
    ) -> bool {
        let (offered, until) = match &mut self.state {
            CodeServerState::Waits { what, until } => (what, until),
            CodeServerState::Shown(shown) if shown.volunteers.contains_key(&relay) => {
                let registered = shown.volunteers.entry(relay).or_default();
                match what {
                    RelayNotice::Registered { .. } => *registered = true,
                    // One that has served may be restarting.
                    RelayNotice::Failed { .. } if !*registered => engine.leave_relay(&relay),
                    RelayNotice::Failed { .. } | RelayNotice::Observed { .. } => {}
                }
                return true;
            }
            _ => return false,
        };
        if offered.how.relay.as_ref().is_none_or(|ours| ours.at.key != relay) {
            return false;
        }
        match what {
            RelayNotice::Registered { code: Some(number), .. } => self.show(engine, Some(*number)),
            // Without a number of its own, the relay leads no peer here.
            RelayNotice::Registered { code: None, .. } | RelayNotice::Failed { .. } => {
                *until = engine.now();
            }
            RelayNotice::Observed { .. } => {}
        }
        false
    }

    fn show(&mut self, engine: &mut Engine, number: Option<u32>) {
        let CodeServerState::Waits { what, until } = &mut self.state else { return };
        let what = what.take();
        let state = match number {
            Some(_) => {
                let found = CodeFinding { number, by_relay: true, meeting: None };
                let shown = ShownCode::new(engine, found, what);
                shown.map(|shown| CodeServerState::Shown(Box::new(shown)))
            }
            None => CodeServerState::without_relay(engine, what),
        };
        match state {
            Ok(state) => self.state = state,
            // The system has no randomness: nothing else works then either.
            Err(_) => *until = Duration::MAX,
        }
    }

    /// Shows the code once its number is checked. Returns an event for the first call.
    fn check(&mut self, engine: &mut Engine) -> Option<Event> {
        let CodeServerState::Checks { what, meeting, told } = &mut self.state else { return None };
        if !std::mem::replace(told, true) {
            // The engine sends nothing before this is printed.
            return Some(Event::Code(CodeEvent::InDht));
        }
        let number = meeting.as_mut()?.check(engine)?;
        let found = CodeFinding { number: Some(number), by_relay: false, meeting: meeting.take() };
        // Without randomness nothing else works either.
        if let Ok(shown) = ShownCode::new(engine, found, what.take()) {
            self.state = CodeServerState::Shown(Box::new(shown));
        }
        None
    }

    /// Why the code is no longer valid; `None` while it is.
    pub(crate) fn over(&self) -> Option<CodeEnd> {
        match &self.state {
            CodeServerState::Waits { .. } | CodeServerState::Checks { .. } => None,
            CodeServerState::Shown(shown) => shown.offer.over(),
        }
    }

    /// The key of the relay that is asked for the number, or has assigned it. The text that takers receive names it as well.
    pub(crate) fn relay(&self) -> Option<[u8; 32]> {
        match &self.state {
            CodeServerState::Waits { what, .. } => what.how.relay.as_ref().map(|it| it.at.key),
            CodeServerState::Checks { .. } => None,
            CodeServerState::Shown(shown) => shown.relay,
        }
    }

    /// Whether the DHT leads peers here; `None`: it is not asked.
    pub(crate) fn in_dht(&self) -> Option<bool> {
        match &self.state {
            CodeServerState::Waits { what, .. } => what.how.dht.as_ref().map(|_| false),
            CodeServerState::Checks { .. } => Some(false),
            CodeServerState::Shown(shown) => shown.meeting.as_ref().map(|it| it.is_listed()),
        }
    }

    /// Handles an event of a peer's stream. Returns false if the stream is not for a code.
    pub(crate) fn handle(
        &mut self,
        engine: &mut Engine,
        face: FaceId,
        stream: StreamId,
        what: StreamEvent,
    ) -> bool {
        let Self { state: CodeServerState::Shown(shown), later } = self else { return false };
        let (id, now, offer) = ((face, stream), engine.now(), &mut shown.offer);
        match what {
            StreamEvent::Opened { purpose: purpose::CODE } => {
                let Some(peer) = engine.link_peer(face) else { return false };
                offer.opened(now, id, peer);
            }
            _ if !offer.is_tracked(id) && !later.contains_key(&id) => return false,
            StreamEvent::Opened { .. } => return false,
            StreamEvent::Delivered => {
                offer.delivered(now, id);
                return true;
            }
            StreamEvent::Reset | StreamEvent::Stopped => {
                later.remove(&id);
                offer.on_stream_gone(id);
                return true;
            }
            StreamEvent::Readable | StreamEvent::Writable => {}
        }
        read(engine, offer, id);
        send(engine, offer, later);
        write(engine, offer, later, id);
        true
    }

    /// Drops the streams of a face that is gone.
    pub(crate) fn face_down(&mut self, face: FaceId) {
        self.later.retain(|(of, _), _| *of != face);
        if let CodeServerState::Shown(shown) = &mut self.state {
            shown.offer.on_streams_gone(|(of, _)| of == face);
        }
    }

    /// Does what is due, and reports events.
    pub(crate) fn handle_timeout(
        &mut self,
        engine: &mut Engine,
        now: Duration,
        on_event: &mut dyn FnMut(Event),
    ) {
        if let CodeServerState::Waits { what, until } = &mut self.state
            && now >= *until
        {
            let relay = what.how.relay.take().map(|relay| relay.to_string()).unwrap_or_default();
            let why =
                format!("relay {relay} assigned no number: the code cannot be found through it");
            on_event(Event::warning(why));
            self.show(engine, None);
        }
        self.check(engine).into_iter().for_each(&mut *on_event);
        let CodeServerState::Shown(shown) = &mut self.state else { return };
        let told = shown.told.take().map(Event::Code);
        told.into_iter().chain(shown.full.take()).for_each(&mut *on_event);
        shown.offer.handle_timeout(now);
        match shown.meeting.as_mut().and_then(|meeting| meeting.poll(engine)) {
            Some(ListingReport::Listed) => on_event(Event::Code(CodeEvent::Listed)),
            Some(ListingReport::NotStored) => on_event(Event::warning(NOT_STORED)),
            None => {}
        }
        shown.ask_volunteers(engine, on_event);
        send(engine, &mut shown.offer, &mut self.later);
        while let Some(event) = shown.offer.poll_event() {
            match event {
                CodeOfferEvent::Wrong { left } => on_event(Event::Code(CodeEvent::Wrong { left })),
                CodeOfferEvent::Ended(why) => {
                    shown.meeting.take().into_iter().for_each(|meeting| meeting.leave(engine));
                    on_event(Event::Code(CodeEvent::Ended { why }));
                }
                CodeOfferEvent::Forget => {
                    shown.lan = None;
                    engine.forget_knock(&knock(shown.offer.code().number()));
                }
            }
        }
    }

    /// When [`CodeServer::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        match &self.state {
            CodeServerState::Waits { until, .. } => Some(*until),
            CodeServerState::Checks { told: false, .. } => Some(Duration::ZERO),
            CodeServerState::Checks { meeting, .. } => {
                meeting.as_ref().map(|meeting| meeting.check_timeout())
            }
            CodeServerState::Shown(shown) if shown.told.is_some() => Some(Duration::ZERO),
            CodeServerState::Shown(shown) => {
                let meeting = shown.meeting.as_ref().and_then(|meeting| meeting.poll_timeout());
                shown.offer.poll_timeout().into_iter().chain(meeting).min()
            }
        }
    }
}

impl CodeServerState {
    /// Shows the content by a number that is drawn, after that was checked in the DHT if it is used.
    fn without_relay(engine: &mut Engine, what: CodeContent) -> Result<Self, KeyFileError> {
        let number = SpokenCode::draw_number(&xylem_base::random()?);
        let dht = what.how.dht.as_ref();
        Ok(match dht.and_then(|dht| OfferMeeting::new(engine, dht, number)) {
            Some(meeting) => Self::Checks { what, meeting: Some(Box::new(meeting)), told: false },
            None => Self::Shown(Box::new(ShownCode::new(engine, CodeFinding::default(), what)?)),
        })
    }
}

impl ShownCode {
    /// Registers with volunteer relays, if takers reach this machine in no other way.
    fn ask_volunteers(&mut self, engine: &mut Engine, on_event: &mut dyn FnMut(Event)) {
        let found = self.meeting.as_mut().map(|meeting| meeting.poll_volunteers(engine));
        let Some((found, number, window)) = found.filter(|(found, ..)| !found.is_empty()) else {
            return;
        };
        let relays = found.iter().map(volunteers::as_relay).collect();
        on_event(Event::Volunteers { relays });
        let common = meeting_publisher(number, window);
        let new = volunteers::register(engine, &found, &self.names, &common);
        self.volunteers.extend(new.into_iter().map(|key| (key, false)));
    }

    fn new(
        engine: &mut Engine,
        found: CodeFinding,
        what: CodeContent,
    ) -> Result<Self, KeyFileError> {
        let CodeContent { of, text, at, how } = what;
        let CodeFinding { number, by_relay, mut meeting } = found;
        let number = match number {
            Some(number) => number,
            None => SpokenCode::draw_number(&xylem_base::random()?),
        };
        let code = SpokenCode::draw(number, &xylem_base::random()?);
        // The number can be guessed. A peer that guesses it learns only this key, which serves no other purpose.
        let own = StaticKey::generate(xylem_base::random()?);
        let listens = engine.link_addresses().into_iter().find(|at| !at.ip().is_loopback());
        let port = listens.filter(|_| how.lan).map(|at| at.port());
        let lan = port.and_then(|port| nearby::CodeAnnouncement::new(number, port));
        let dht = meeting.as_mut().map(|meeting| meeting.show(engine));
        let relay = how.relay.filter(|_| by_relay);
        let relay_key = relay.as_ref().map(|relay| relay.at.key);
        let told = CodeEvent::Shown {
            code: code.clone(),
            of,
            seconds: LIFETIME.as_secs(),
            lan: lan.is_some(),
            dht: dht == Some(true),
            dht_waits: dht == Some(false),
            relay,
            at,
        };
        let offer = CodeOffer::new(engine.now(), code, text, own.public(), &xylem_base::random()?);
        let full = !engine.answer_knock_by(&knock(number), own);
        let full = full.then(|| Event::warning(FULL));
        Ok(Self {
            offer,
            told: Some(told),
            full,
            lan,
            meeting,
            volunteers: HashMap::new(),
            names: how.names,
            relay: relay_key,
        })
    }
}

fn read(engine: &mut Engine, offer: &mut CodeOffer<Id>, id: Id) {
    let (face, stream) = id;
    while offer.is_tracked(id) {
        let now = engine.now();
        match engine.read_stream(face, stream) {
            Ok(StreamRead::Data(bytes)) if offer.received(now, id, &bytes) => {}
            Ok(StreamRead::Pending) => return,
            // A peer that has received the content confirms that by ending its half. Any other peer has given up.
            Ok(StreamRead::Finished) if !offer.is_trying(id) => return offer.delivered(now, id),
            _ => {
                offer.on_stream_gone(id);
                return engine.abandon_stream(face, stream, NOT_UNDERSTOOD);
            }
        }
    }
}

fn send(engine: &mut Engine, offer: &mut CodeOffer<Id>, later: &mut HashMap<Id, Vec<u8>>) {
    while let Some((id, bytes)) = offer.poll_transmit() {
        later.entry(id).or_default().extend(bytes);
        write(engine, offer, later, id);
    }
}

fn write(engine: &mut Engine, offer: &mut CodeOffer<Id>, later: &mut HashMap<Id, Vec<u8>>, id: Id) {
    let (face, stream) = id;
    let Some(out) = later.get_mut(&id) else { return };
    match engine.write_stream(face, stream, out) {
        Ok(taken) => drop(out.drain(..taken)),
        Err(_) => out.clear(),
    }
    if out.is_empty() {
        later.remove(&id);
        if !offer.is_trying(id) {
            // A stream that is gone is finished as well.
            let _ = engine.finish_stream(face, stream);
        }
    } else if later.len() > MAX_LATER {
        later.remove(&id);
        offer.on_stream_gone(id);
        engine.abandon_stream(face, stream, NOT_UNDERSTOOD);
    }
}
