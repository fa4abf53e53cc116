//! [`CodeServer`]: answers those who try a code.

use std::collections::HashMap;
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_link::{StaticKey, StreamId, StreamRead, purpose};
use xylem_object::ticket::Address;
use xylem_reach::code::{Code, LIFETIME, Offer, OfferEvent, Over, knock};

use super::{CodeEvent, Offered, nearby};
use crate::event::Event;
use xylem_engine::{Engine, RelayNews, StreamEvent};
use xylem_library::keys::{self, KeyError};
use xylem_library::reachable::Relay;

/// What a stream that is not understood is reset with.
const NOT_UNDERSTOOD: u32 = 1;
/// Streams with bytes that their links take later; more are given up.
const MAX_LATER: usize = 32;

/// What is told where the link answers no more knocks ([`xylem_link::MAX_KNOCKS`]).
const FULL: &str = "more publishers are shared here than links answer at once: this code leads nobody here; show it by a share \
    of its own";
/// How long a relay may take to give a number.
const NUMBER: Duration = Duration::from_secs(3);

type Id = (FaceId, StreamId);

/// Who is led here by the number, beside those who name an address.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShowOptions {
    /// Who asks at this relay, with which the engine registers, and which gives the number.
    pub(crate) relay: Option<Relay>,
    /// Who asks on the LAN.
    pub(crate) lan: bool,
}

/// See the module's documentation.
pub(crate) struct CodeServer {
    state: State,
    /// What the windows of streams did not take yet.
    later: HashMap<Id, Vec<u8>>,
}

enum State {
    /// A relay is to give a number.
    Waits {
        what: What,
        until: Duration,
    },
    Shown(Box<Shown>),
}

/// What a code stands for, and how it is found.
struct What {
    of: Offered,
    text: String,
    at: Vec<Address>,
    how: ShowOptions,
}

struct Shown {
    offer: Offer<Id>,
    /// What is told when it is shown.
    told: Option<CodeEvent>,
    /// That nobody is led here by it, which is told then as well.
    full: Option<Event>,
    lan: Option<nearby::Shown>,
}

impl CodeServer {
    /// Shows a ticket or a card as text, to those who reach this machine `at` these addresses, and `how` else.
    pub(crate) fn new(
        engine: &mut Engine,
        (of, text): (Offered, String),
        at: Vec<Address>,
        how: &ShowOptions,
    ) -> Result<Self, KeyError> {
        let what = What { of, text, at, how: how.clone() };
        let state = match what.how.relay {
            Some(_) => State::Waits { what, until: engine.now() + NUMBER },
            None => State::Shown(Box::new(Shown::new(engine, None, what)?)),
        };
        Ok(Self { state, later: HashMap::new() })
    }

    /// Something about a relay with which the engine is registered.
    pub(crate) fn relay_said(&mut self, engine: &mut Engine, relay: [u8; 32], what: &RelayNews) {
        let State::Waits { what: offered, until } = &mut self.state else { return };
        if offered.how.relay.as_ref().is_none_or(|ours| ours.at.key != relay) {
            return;
        }
        match what {
            RelayNews::Registered { code: Some(number), .. } => self.show(engine, Some(*number)),
            // Without a number of its own it leads nobody here.
            RelayNews::Registered { code: None, .. } | RelayNews::Failed { .. } => {
                *until = engine.now();
            }
            RelayNews::Observed { .. } => {}
        }
    }

    fn show(&mut self, engine: &mut Engine, number: Option<u32>) {
        let State::Waits { what, until } = &mut self.state else { return };
        let (of, at) = (what.of, std::mem::take(&mut what.at));
        let (text, how) = (std::mem::take(&mut what.text), what.how.clone());
        match Shown::new(engine, number, What { of, text, at, how }) {
            Ok(shown) => self.state = State::Shown(Box::new(shown)),
            // A system without randomness: nothing else works then either.
            Err(_) => *until = Duration::MAX,
        }
    }

    /// Why nobody gets anything by it any more.
    pub(crate) fn over(&self) -> Option<Over> {
        match &self.state {
            State::Waits { .. } => None,
            State::Shown(shown) => shown.offer.over(),
        }
    }

    /// Something happened to a stream of a peer; false if it is none of ours.
    pub(crate) fn handle(
        &mut self,
        engine: &mut Engine,
        face: FaceId,
        stream: StreamId,
        what: StreamEvent,
    ) -> bool {
        let Self { state: State::Shown(shown), later } = self else { return false };
        let (id, now, offer) = ((face, stream), engine.now(), &mut shown.offer);
        match what {
            StreamEvent::Opened { purpose: purpose::CODE } => {
                let Some(peer) = engine.link_peer(face) else { return false };
                offer.opened(now, id, peer);
            }
            _ if !offer.knows(id) && !later.contains_key(&id) => return false,
            StreamEvent::Opened { .. } => return false,
            StreamEvent::Delivered => {
                offer.delivered(now, id);
                return true;
            }
            StreamEvent::Reset | StreamEvent::Stopped => {
                later.remove(&id);
                offer.gone(id);
                return true;
            }
            StreamEvent::Readable | StreamEvent::Writable => {}
        }
        read(engine, offer, id);
        send(engine, offer, later);
        write(engine, offer, later, id);
        true
    }

    /// A face is gone, and its streams with it.
    pub(crate) fn face_down(&mut self, face: FaceId) {
        self.later.retain(|(of, _), _| *of != face);
        if let State::Shown(shown) = &mut self.state {
            shown.offer.all_gone(|(of, _)| of == face);
        }
    }

    /// Does what is due, and tells what happened.
    pub(crate) fn handle_timeout(
        &mut self,
        engine: &mut Engine,
        now: Duration,
        on_event: &mut dyn FnMut(Event),
    ) {
        if let State::Waits { what, until } = &mut self.state
            && now >= *until
        {
            let relay = what.how.relay.take().map(|relay| relay.to_string()).unwrap_or_default();
            let why = format!("relay {relay} has given no number: the code does not lead there");
            on_event(Event::warning(why));
            self.show(engine, None);
        }
        let State::Shown(shown) = &mut self.state else { return };
        let told = shown.told.take().map(Event::Code);
        told.into_iter().chain(shown.full.take()).for_each(&mut *on_event);
        shown.offer.handle_timeout(now);
        send(engine, &mut shown.offer, &mut self.later);
        while let Some(event) = shown.offer.poll_event() {
            match event {
                OfferEvent::Wrong { left } => on_event(Event::Code(CodeEvent::Wrong { left })),
                OfferEvent::Ended(why) => on_event(Event::Code(CodeEvent::Ended { why })),
                OfferEvent::Forget => {
                    shown.lan = None;
                    engine.forget_knock(&knock(shown.offer.code().number()));
                }
            }
        }
    }

    /// When [`CodeServer::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        match &self.state {
            State::Waits { until, .. } => Some(*until),
            State::Shown(shown) if shown.told.is_some() => Some(Duration::ZERO),
            State::Shown(shown) => shown.offer.poll_timeout(),
        }
    }
}

impl Shown {
    fn new(engine: &mut Engine, given: Option<u32>, what: What) -> Result<Self, KeyError> {
        let What { of, text, at, how } = what;
        let number = match given {
            Some(number) => number,
            None => Code::draw_number(&keys::random()?),
        };
        let code = Code::draw(number, &keys::random()?);
        // The number can be guessed: who guesses it learns a key that is good for nothing else.
        let own = StaticKey::generate(keys::random()?);
        let listens = engine.link_addresses().into_iter().find(|at| !at.ip().is_loopback());
        let port = listens.filter(|_| how.lan).map(|at| at.port());
        let lan = port.and_then(|port| nearby::Shown::new(number, port));
        let told = CodeEvent::Shown {
            code: code.clone(),
            of,
            seconds: LIFETIME.as_secs(),
            lan: lan.is_some(),
            relay: how.relay.filter(|_| given.is_some()),
            at,
        };
        let offer = Offer::new(engine.now(), code, text, own.public(), &keys::random()?);
        let full = !engine.answer_knock_by(&knock(number), own);
        let full = full.then(|| Event::warning(FULL));
        Ok(Self { offer, told: Some(told), full, lan })
    }
}

fn read(engine: &mut Engine, offer: &mut Offer<Id>, id: Id) {
    let (face, stream) = id;
    while offer.knows(id) {
        let now = engine.now();
        match engine.read_stream(face, stream) {
            Ok(StreamRead::Data(bytes)) if offer.received(now, id, &bytes) => {}
            Ok(StreamRead::Pending) => return,
            // Who has been handed it says so by ending its half; anybody else has given up.
            Ok(StreamRead::Finished) if !offer.is_trying(id) => return offer.delivered(now, id),
            _ => {
                offer.gone(id);
                return engine.abandon_stream(face, stream, NOT_UNDERSTOOD);
            }
        }
    }
}

fn send(engine: &mut Engine, offer: &mut Offer<Id>, later: &mut HashMap<Id, Vec<u8>>) {
    while let Some((id, bytes)) = offer.poll_transmit() {
        later.entry(id).or_default().extend(bytes);
        write(engine, offer, later, id);
    }
}

fn write(engine: &mut Engine, offer: &mut Offer<Id>, later: &mut HashMap<Id, Vec<u8>>, id: Id) {
    let (face, stream) = id;
    let Some(out) = later.get_mut(&id) else { return };
    match engine.write_stream(face, stream, out) {
        Ok(taken) => drop(out.drain(..taken)),
        Err(_) => out.clear(),
    }
    if out.is_empty() {
        later.remove(&id);
        if !offer.is_trying(id) {
            // One that is gone is as good as finished.
            let _ = engine.finish_stream(face, stream);
        }
    } else if later.len() > MAX_LATER {
        later.remove(&id);
        offer.gone(id);
        engine.abandon_stream(face, stream, NOT_UNDERSTOOD);
    }
}
