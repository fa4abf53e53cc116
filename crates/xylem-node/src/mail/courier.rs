//! The asking side of the mail protocol: [`deliver`] hands over what waits in the outbox, [`collect`]
//! fetches from a node what waits there for us. Each call has sockets and a loop of its own.
//!
//! Deliveries dial with a key made for the purpose, so that a node that keeps mail for somebody does
//! not learn from whom; who the sender is stands inside the envelope.

use std::collections::VecDeque;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use xylem_forward::{FaceId, Forwarder, Seed};
use xylem_link::{Endpoint, StaticKey, purpose};
use xylem_mail::EnvelopeId;
use xylem_mail::protocol::{Frame, Status};
use xylem_mgmt::Persistency;

use super::line::Line;
use super::room::tell;
use super::{delivered, waiting};
use crate::api::{Event, Peer};
use crate::engine::{Engine, Happening, StreamEvent};
use crate::failure;
use xylem_library::identity;
use xylem_library::mail::entries::{Parcel, Route};
use xylem_library::mail::store::{Incoming, MailStore};
use xylem_library::{Error, Stop};

/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long one attempt to reach somebody may take, where nobody waits for it.
const ATTEMPT: Duration = Duration::from_secs(10);
/// How long to wait for an answer, and for the last acknowledgement.
const ANSWER: Duration = Duration::from_secs(10);
const GOODBYE: Duration = Duration::from_secs(2);

/// One stream to one node, and everything below it.
struct Call {
    engine: Engine,
    line: Line,
    gone: bool,
    delivered: bool,
}

/// Why a call came to nothing.
enum Failed {
    /// Nobody answers, or not rightly.
    Peer(String),
    /// Trouble of this machine.
    Local(Error),
}

impl From<Error> for Failed {
    fn from(e: Error) -> Self {
        Self::Local(e)
    }
}

impl Call {
    /// Dials all of them; the first that answers is the one.
    fn dial(
        peers: &[Peer],
        key: StaticKey,
        give_up: Duration,
        stop: &Stop,
    ) -> Result<Self, Failed> {
        let local = |e| failure::local("cannot start the event loop", &e);
        let config = xylem_link::Config { accept_incoming: false, ..Default::default() };
        let endpoint = Endpoint::new(config, key, identity::random()?);
        let forwarder = Forwarder::new(Default::default(), Seed::from_random(identity::random()?));
        let mut engine = Engine::new(endpoint, forwarder).map_err(local)?;
        let (mut dialled, mut why) = (Vec::new(), String::from("it has no address"));
        for peer in peers {
            match engine.dial(peer, Persistency::Persistent) {
                Ok(face) => dialled.push(face),
                Err(e) => why = e.to_string(),
            }
        }
        let deadline = engine.now() + give_up;
        let up = loop {
            if dialled.is_empty() {
                return Err(Failed::Peer(why));
            }
            if engine.now() >= deadline || stop.raised() {
                return Err(Failed::Peer("nobody answers there".into()));
            }
            engine.flush();
            engine.wait(Some(deadline)).map_err(|e| failure::local("network", &e))?;
            match engine.next_happening() {
                Some(Happening::FaceUp { face, .. }) => break face,
                Some(Happening::FaceDown { face, why: because, .. }) => {
                    dialled.retain(|other| *other != face);
                    why = because;
                }
                _ => {}
            }
        };
        for other in dialled.into_iter().filter(|face| *face != up) {
            engine.drop_face(other, "another address of the same node answered first");
        }
        let stream =
            engine.open_stream(up, purpose::MAIL).map_err(|e| Failed::Peer(e.to_string()))?;
        Ok(Self { engine, line: Line::new(up, stream), gone: false, delivered: false })
    }

    /// Lets the network run once.
    fn turn(&mut self, deadline: Duration) -> Result<(), Failed> {
        self.gone |= !self.line.write(&mut self.engine);
        self.engine.flush();
        self.engine.wait(Some(deadline)).map_err(|e| failure::local("network", &e))?;
        while let Some(happening) = self.engine.next_happening() {
            let ours = |face: FaceId, stream| face == self.line.face && stream == self.line.stream;
            match happening {
                Happening::FaceDown { face, .. } => self.gone |= face == self.line.face,
                Happening::Stream { face, stream, what } if ours(face, stream) => match what {
                    StreamEvent::Reset | StreamEvent::Stopped => self.gone = true,
                    StreamEvent::Delivered => self.delivered = true,
                    _ => {}
                },
                Happening::Stream { face, stream, what } => {
                    self.engine.refuse_stream(face, stream, what);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Waits for the other side's next frame.
    fn answer(&mut self, stop: &Stop) -> Result<Frame, Failed> {
        let deadline = self.engine.now() + ANSWER;
        loop {
            match self.line.next_frame(&mut self.engine) {
                Ok(Some(frame)) => return Ok(frame),
                Ok(None) if !self.line.ended && !self.gone => {}
                _ => return Err(Failed::Peer("it does not take or keep mail".into())),
            }
            if self.engine.now() >= deadline || stop.raised() {
                return Err(Failed::Peer("it does not answer".into()));
            }
            self.turn(deadline)?;
        }
    }

    /// Says goodbye, when all that was written has arrived or it takes too long.
    fn finish(mut self) {
        let deadline = self.engine.now() + GOODBYE;
        while !self.delivered && !self.gone && self.engine.now() < deadline {
            self.line.finish(&mut self.engine);
            if self.turn(deadline).is_err() {
                break;
            }
        }
        self.engine.close();
    }
}

/// Whom a parcel's route leads to.
fn peers(parcel: &Parcel) -> Vec<Peer> {
    let (key, addresses) = match &parcel.route {
        Route::Direct(addresses) => (Some(parcel.to.link.0), addresses),
        Route::Via(key, addresses) => (*key, addresses),
    };
    addresses.iter().map(|address| Peer::Link { address: *address, key }).collect()
}

/// Hands over what waits, `first` before the others. Returns how much still waits.
pub(crate) fn deliver(
    store: &MailStore,
    first: Option<EnvelopeId>,
    give_up: Duration,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<usize, Error> {
    let (parcels, old) = store.parcels()?;
    for parcel in &old {
        on_event(waiting(parcel, "it found nobody for 30 days and was given up", true));
    }
    let mut by_target: Vec<(Vec<Peer>, VecDeque<Parcel>)> = Vec::new();
    for parcel in parcels {
        let target = peers(&parcel);
        match by_target.iter_mut().find(|(there, _)| *there == target) {
            Some((_, parcels)) => parcels.push_back(parcel),
            None => by_target.push((target, [parcel].into())),
        }
    }
    let is_first = |parcels: &VecDeque<Parcel>| parcels.iter().any(|p| Some(p.id()) == first);
    by_target.sort_by_key(|(_, parcels)| !is_first(parcels));
    let mut left = 0;
    for (target, mut parcels) in by_target {
        if stop.raised() {
            left += parcels.len();
            continue;
        }
        match hand_over(store, &target, &mut parcels, give_up, stop, on_event) {
            Ok(()) => {}
            Err(Failed::Local(e)) => return Err(e),
            Err(Failed::Peer(why)) => {
                for parcel in &parcels {
                    on_event(waiting(parcel, &why, false));
                }
            }
        }
        left += parcels.len();
    }
    Ok(left)
}

/// Hands parcels to one node; those that it took are gone from `parcels`.
fn hand_over(
    store: &MailStore,
    target: &[Peer],
    parcels: &mut VecDeque<Parcel>,
    give_up: Duration,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<(), Failed> {
    let key = StaticKey::from_bytes(identity::random()?);
    let mut call = Call::dial(target, key, give_up, stop)?;
    for _ in 0..parcels.len() {
        let Some(parcel) = parcels.pop_front() else { break };
        call.line.send(&Frame::Deliver(parcel.envelope.clone()));
        let status = match call.answer(stop) {
            Ok(Frame::Receipt(id, status)) if id == parcel.id() => status,
            other => {
                parcels.push_back(parcel);
                let odd = || Failed::Peer("it answers oddly".into());
                return Err(other.err().unwrap_or_else(odd));
            }
        };
        let settled = store.settle(&parcel, status)?;
        match status {
            Status::Stored => on_event(delivered(&parcel)),
            Status::Full => on_event(waiting(&parcel, "there is no room for it now", false)),
            Status::NotHere => {
                on_event(waiting(&parcel, "nobody there takes mail for them", false))
            }
            Status::Stale => {
                on_event(waiting(&parcel, "their card is too old, ask for a new one", true));
            }
            Status::Refused => on_event(waiting(&parcel, "it was refused; send it again", true)),
        }
        if !settled {
            parcels.push_back(parcel);
        }
    }
    call.finish();
    Ok(())
}

/// Runs something while, in a thread of its own, what waits is handed over; what happens there comes
/// out of the receiver. The stop flag ends the courier, and is raised when `run` is done.
pub(crate) fn beside<R>(
    mail: Option<&MailStore>,
    run: impl FnOnce(&mpsc::Receiver<Event>, &Stop) -> R,
) -> R {
    let ends = Stop::new();
    let (events, from_courier) = mpsc::channel();
    thread::scope(|scope| {
        if let Some(mail) = mail {
            let ends = &ends;
            scope.spawn(move || keep_delivering(mail, None, ATTEMPT, ends, &events));
        }
        let done = run(&from_courier, &ends);
        ends.raise();
        done
    })
}

/// Goes on handing over until nothing waits or `stop` is raised.
pub(crate) fn keep_delivering(
    store: &MailStore,
    first: Option<EnvelopeId>,
    give_up: Duration,
    stop: &Stop,
    events: &mpsc::Sender<Event>,
) {
    // Nobody listens any more only when all is over.
    let tell = &mut |event| drop(events.send(event));
    let mut pause = Duration::from_secs(1);
    loop {
        match deliver(store, first, give_up, stop, tell) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) => return tell(Event::warning(e.message)),
        }
        let until = Instant::now() + pause;
        while Instant::now() < until && !stop.raised() {
            thread::sleep(Duration::from_millis(50));
        }
        if stop.raised() {
            return;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Fetches what waits for us at a node. Returns how many messages were new.
pub(crate) fn collect(
    store: &MailStore,
    link: StaticKey,
    from: &[Peer],
    give_up: Duration,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<usize, Error> {
    let unreachable = |why: String| Error {
        blame: xylem_library::Blame::Network,
        message: format!("no mail from the node: {why}"),
    };
    let fetched = || -> Result<usize, Failed> {
        let mut call = Call::dial(from, link, give_up, stop)?;
        call.line.send(&Frame::Fetch);
        let mut new = 0;
        loop {
            let envelope = match call.answer(stop)? {
                Frame::Envelope(envelope) => envelope,
                Frame::End => break,
                _ => return Err(Failed::Peer("it answers oddly".into())),
            };
            let incoming = store.receive(&envelope)?;
            new += usize::from(matches!(incoming, Incoming::New(..)));
            tell(store, &incoming, on_event)?;
            // What nobody can read would only wait there for ever.
            if incoming != Incoming::Not(Status::Full) {
                call.line.send(&Frame::Taken(EnvelopeId::of(&envelope)));
            }
        }
        call.finish();
        Ok(new)
    };
    fetched().map_err(|failed| match failed {
        Failed::Local(e) => e,
        Failed::Peer(why) => unreachable(why),
    })
}

/// Hands one envelope over and keeps nothing: true if it was taken.
pub(crate) fn hand_one(
    envelope: Vec<u8>,
    target: &[Peer],
    give_up: Duration,
    stop: &Stop,
) -> Result<bool, Error> {
    let handed = || -> Result<bool, Failed> {
        let key = StaticKey::from_bytes(identity::random()?);
        let mut call = Call::dial(target, key, give_up, stop)?;
        call.line.send(&Frame::Deliver(envelope));
        let taken = matches!(call.answer(stop)?, Frame::Receipt(_, Status::Stored));
        call.finish();
        Ok(taken)
    };
    match handed() {
        Ok(taken) => Ok(taken),
        Err(Failed::Peer(_)) => Ok(false),
        Err(Failed::Local(e)) => Err(e),
    }
}
