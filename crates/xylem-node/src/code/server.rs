//! [`CodeServer`]: answers those who try a code.

use std::collections::HashMap;
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_link::{StreamId, StreamRead, purpose};
use xylem_object::ticket::Address;
use xylem_reach::code::{Code, LIFETIME, Offer, OfferEvent, Over, knock};

use super::{CodeEvent, Offered};
use crate::event::Event;
use xylem_engine::{Engine, StreamEvent};
use xylem_library::keys::{self, KeyError};

/// What a stream that is not understood is reset with.
const NOT_UNDERSTOOD: u32 = 1;
/// Streams with bytes that their links take later; more are given up.
const MAX_LATER: usize = 32;

type Id = (FaceId, StreamId);

/// See the module's documentation.
pub(crate) struct CodeServer {
    offer: Offer<Id>,
    /// What is told when it is shown.
    shown: Option<CodeEvent>,
    /// What the window of a stream did not take yet.
    later: HashMap<Id, Vec<u8>>,
}

impl CodeServer {
    /// Shows a ticket or a card as text, under a code of a number that is drawn, to those who reach this machine
    /// `at` these addresses.
    pub(crate) fn new(
        engine: &mut Engine,
        of: Offered,
        text: String,
        at: Vec<Address>,
    ) -> Result<Self, KeyError> {
        let number = Code::draw_number(&keys::random()?);
        let (code, own) = (Code::draw(number, &keys::random()?), engine.link_key());
        let seconds = LIFETIME.as_secs();
        let shown = Some(CodeEvent::Shown { code: code.clone(), of, seconds, at });
        let offer = Offer::new(engine.now(), code, text, own, &keys::random()?);
        engine.answer_knock(&knock(number));
        Ok(Self { offer, shown, later: HashMap::new() })
    }

    /// Why nobody gets anything by it any more.
    pub(crate) fn over(&self) -> Option<Over> {
        self.offer.over()
    }

    /// Something happened to a stream of a peer; false if it is none of ours.
    pub(crate) fn handle(
        &mut self,
        engine: &mut Engine,
        face: FaceId,
        stream: StreamId,
        what: StreamEvent,
    ) -> bool {
        let (id, now) = ((face, stream), engine.now());
        match what {
            StreamEvent::Opened { purpose: purpose::CODE } => {
                let Some(peer) = engine.link_peer(face) else { return false };
                self.offer.opened(now, id, peer);
            }
            _ if !self.offer.knows(id) && !self.later.contains_key(&id) => return false,
            StreamEvent::Opened { .. } => return false,
            StreamEvent::Delivered => {
                self.offer.delivered(now, id);
                return true;
            }
            StreamEvent::Reset | StreamEvent::Stopped => {
                self.later.remove(&id);
                self.offer.gone(id);
                return true;
            }
            StreamEvent::Readable | StreamEvent::Writable => {}
        }
        self.read(engine, id);
        self.send(engine);
        self.write(engine, id);
        true
    }

    /// A face is gone, and its streams with it.
    pub(crate) fn face_down(&mut self, face: FaceId) {
        self.later.retain(|(of, _), _| *of != face);
        self.offer.all_gone(|(of, _)| of == face);
    }

    /// Does what is due, and tells what happened.
    pub(crate) fn handle_timeout(
        &mut self,
        engine: &mut Engine,
        now: Duration,
        on_event: &mut dyn FnMut(Event),
    ) {
        if let Some(shown) = self.shown.take() {
            on_event(Event::Code(shown));
        }
        self.offer.handle_timeout(now);
        self.send(engine);
        while let Some(event) = self.offer.poll_event() {
            match event {
                OfferEvent::Wrong { left } => on_event(Event::Code(CodeEvent::Wrong { left })),
                OfferEvent::Ended(why) => on_event(Event::Code(CodeEvent::Ended { why })),
                OfferEvent::Forget => engine.forget_knock(&knock(self.offer.code().number())),
            }
        }
    }

    /// When [`CodeServer::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        if self.shown.is_some() { Some(Duration::ZERO) } else { self.offer.poll_timeout() }
    }

    fn read(&mut self, engine: &mut Engine, id: Id) {
        let (face, stream) = id;
        while self.offer.knows(id) {
            let now = engine.now();
            match engine.read_stream(face, stream) {
                Ok(StreamRead::Data(bytes)) if self.offer.received(now, id, &bytes) => {}
                Ok(StreamRead::Pending) => return,
                // Who has been handed it says so by ending its half; anybody else has given up.
                Ok(StreamRead::Finished) if !self.offer.is_trying(id) => {
                    return self.offer.delivered(now, id);
                }
                _ => {
                    self.offer.gone(id);
                    return engine.abandon_stream(face, stream, NOT_UNDERSTOOD);
                }
            }
        }
    }

    fn send(&mut self, engine: &mut Engine) {
        while let Some((id, bytes)) = self.offer.poll_transmit() {
            self.later.entry(id).or_default().extend(bytes);
            self.write(engine, id);
        }
    }

    fn write(&mut self, engine: &mut Engine, id: Id) {
        let (face, stream) = id;
        let Some(out) = self.later.get_mut(&id) else { return };
        match engine.write_stream(face, stream, out) {
            Ok(taken) => drop(out.drain(..taken)),
            Err(_) => out.clear(),
        }
        if out.is_empty() {
            self.later.remove(&id);
            if !self.offer.is_trying(id) {
                // One that is gone is as good as finished.
                let _ = engine.finish_stream(face, stream);
            }
        } else if self.later.len() > MAX_LATER {
            self.later.remove(&id);
            self.offer.gone(id);
            engine.abandon_stream(face, stream, NOT_UNDERSTOOD);
        }
    }
}
