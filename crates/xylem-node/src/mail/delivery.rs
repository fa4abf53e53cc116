//! The client side of the mail protocol: [`deliver`] hands over messages from the outbox, [`collect`] fetches messages
//! that a node keeps for us. Each [`MailDelivery`] has sockets and an engine of its own.
//!
//! A delivery dials with a fresh key, so that a node that keeps mail for a receiver does not learn the sender. The
//! sender's identity is inside the envelope.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use xylem_base::Stop;
use xylem_forward::{FaceId, Forwarder, ForwarderConfig, ForwarderSeed};
use xylem_link::{Endpoint, StaticKey, purpose};
use xylem_mail::protocol::{DeliveryStatus, MailFrame};
use xylem_mail::{EnvelopeId, Party};
use xylem_mailbox::{MailEvent, MailRoute, MailStore, Parcel, ReachEffort, report};
use xylem_mgmt::Persistency;
use xylem_peers::reachable::{PeerAddress, Relay};

use super::error::{InboxError, MailPeerError};
use super::framed_stream::FramedStream;
use crate::event::Event;
use crate::reaching;
use xylem_engine::EngineError;
use xylem_engine::wall_clock;
use xylem_engine::{Engine, EngineEvent, Program, StreamEvent, dial_from};
use xylem_reach::relay::ConnectTarget;

/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Time limit of one attempt to reach a peer in the background.
const ATTEMPT: ReachEffort = ReachEffort::within(Duration::from_secs(10));
/// Time limit for an answer. [`GOODBYE`]: for the last acknowledgement.
const ANSWER: Duration = Duration::from_secs(10);
const GOODBYE: Duration = Duration::from_secs(2);

/// How to reach other peers.
#[derive(Clone, Copy)]
pub(crate) struct DeliveryReach<'a> {
    /// Time limit, and whether to query in the clear.
    pub(crate) reach: ReachEffort,
    /// Relays at which peers may be, besides their own addresses.
    pub(crate) relays: &'a [Relay],
}

impl From<ReachEffort> for DeliveryReach<'_> {
    fn from(reach: ReachEffort) -> Self {
        Self { reach, relays: &[] }
    }
}

/// One stream of the mail protocol to one node, and everything below it.
struct MailDelivery {
    engine: Engine,
    stream: FramedStream,
    /// The stream or its link has ended.
    gone: bool,
    /// All written bytes have arrived.
    delivered: bool,
}

/// Why a delivery failed.
enum DeliveryError {
    /// No peer answers, or it answers incorrectly.
    Peer(MailPeerError),
    /// An error of this machine.
    Local(InboxError),
}

impl<E: Into<InboxError>> From<E> for DeliveryError {
    fn from(e: E) -> Self {
        Self::Local(e.into())
    }
}

/// Dials addresses of one node until the first answers.
struct MailDial {
    dialled: Vec<FaceId>,
    up: Option<FaceId>,
    deadline: Duration,
    /// Reason of the latest failure.
    why: MailPeerError,
}

impl Program for MailDial {
    type Error = DeliveryError;

    fn handle(&mut self, _engine: &mut Engine, event: EngineEvent) -> Result<(), DeliveryError> {
        match event {
            EngineEvent::FaceUp { face, .. } => drop(self.up.get_or_insert(face)),
            EngineEvent::FaceDown { face, why, .. } => {
                self.dialled.retain(|other| *other != face);
                self.why = why.into();
            }
            _ => {}
        }
        Ok(())
    }

    fn is_done(&mut self, engine: &Engine, stopped: bool) -> bool {
        let over = stopped || self.dialled.is_empty() || engine.now() >= self.deadline;
        over || self.up.is_some()
    }

    fn poll_timeout(&mut self, _now: Duration) -> Option<Duration> {
        Some(self.deadline)
    }
}

/// Writes and reads the stream of a delivery until `step` is done.
struct MailExchange<'a, S> {
    stream: &'a mut FramedStream,
    gone: &'a mut bool,
    delivered: &'a mut bool,
    deadline: Duration,
    step: S,
    done: bool,
}

impl<S: FnMut(&mut FramedStream, &mut Engine, bool) -> Result<bool, DeliveryError>> Program
    for MailExchange<'_, S>
{
    type Error = DeliveryError;

    fn handle(&mut self, engine: &mut Engine, event: EngineEvent) -> Result<(), DeliveryError> {
        let ours = |face, stream| face == self.stream.face && stream == self.stream.stream;
        match event {
            EngineEvent::FaceDown { face, .. } => *self.gone |= face == self.stream.face,
            EngineEvent::Stream { face, stream, what } if ours(face, stream) => match what {
                StreamEvent::Reset | StreamEvent::Stopped => *self.gone = true,
                StreamEvent::Delivered => *self.delivered = true,
                _ => {}
            },
            EngineEvent::Stream { face, stream, what } => engine.refuse_stream(face, stream, what),
            _ => {}
        }
        Ok(())
    }

    fn handle_timeout(&mut self, engine: &mut Engine, _now: Duration) -> Result<(), DeliveryError> {
        let over = *self.gone || *self.delivered;
        self.done = (self.step)(self.stream, engine, over)?;
        Ok(())
    }

    fn is_done(&mut self, engine: &Engine, stopped: bool) -> bool {
        self.done || stopped || engine.now() >= self.deadline
    }

    fn before_wait(&mut self, engine: &mut Engine) {
        *self.gone |= !self.stream.write(engine);
    }

    fn poll_timeout(&mut self, _now: Duration) -> Option<Duration> {
        Some(self.deadline)
    }
}

impl MailDelivery {
    /// Dials all of `peers` and uses the first that answers.
    fn dial(
        peers: &[PeerAddress],
        key: StaticKey,
        ways: DeliveryReach<'_>,
        stop: &Stop,
    ) -> Result<Self, DeliveryError> {
        let DeliveryReach { reach: ReachEffort { give_up, ask_who_answers, port }, relays } = ways;
        let config = xylem_link::LinkConfig {
            accept_incoming: false,
            ask_who_answers,
            ..Default::default()
        };
        let endpoint = Endpoint::new(config, key, xylem_base::random()?);
        let forwarder = Forwarder::new(
            ForwarderConfig::end_host(),
            ForwarderSeed::from_random(xylem_base::random()?),
        );
        let mut engine = Engine::new(endpoint, forwarder)?;
        dial_from(&mut engine, port);
        let (mut dialled, mut why) = (Vec::new(), MailPeerError::NoAddress);
        for relay in relays {
            let used = reaching::to_dial(relay);
            let used = used.map_err(MailPeerError::from);
            let used = used.and_then(|uses| Ok(engine.use_relay(uses)?));
            used.map(drop).unwrap_or_else(|error| why = error);
        }
        for peer in peers {
            match engine.dial(peer, Persistency::Persistent) {
                Ok(face) => dialled.push(face),
                Err(e) => why = e.into(),
            }
        }
        let deadline = engine.now() + give_up;
        let mut dialling = MailDial { dialled, up: None, deadline, why };
        engine.run(&mut dialling, stop)?;
        let MailDial { dialled, up, why, .. } = dialling;
        let Some(up) = up else {
            let keyless = peers.iter().any(PeerAddress::is_keyless);
            return Err(DeliveryError::Peer(match dialled.is_empty() {
                true => why,
                false if keyless => MailPeerError::Keyless,
                false => MailPeerError::NoAnswer,
            }));
        };
        for other in dialled.into_iter().filter(|face| *face != up) {
            engine.drop_face(other, "another address of the same node answered first");
        }
        let stream =
            engine.open_stream(up, purpose::MAIL).map_err(|e| DeliveryError::Peer(e.into()))?;
        Ok(Self { engine, stream: FramedStream::new(up, stream), gone: false, delivered: false })
    }

    /// Writes and reads until `step` is done. The argument of `step` is whether the stream is over.
    fn exchange(
        &mut self,
        patience: Duration,
        stop: &Stop,
        step: impl FnMut(&mut FramedStream, &mut Engine, bool) -> Result<bool, DeliveryError>,
    ) -> Result<(), DeliveryError> {
        let Self { engine, stream, gone, delivered } = self;
        let deadline = engine.now() + patience;
        engine.run(&mut MailExchange { stream, gone, delivered, deadline, step, done: false }, stop)
    }

    /// Waits for the other side's next frame.
    fn answer(&mut self, stop: &Stop) -> Result<MailFrame, DeliveryError> {
        let mut answer = None;
        self.exchange(ANSWER, stop, |stream, engine, over| {
            match stream.next_frame(engine) {
                Ok(Some(frame)) => answer = Some(frame),
                Ok(None) if !stream.ended && !over => {}
                _ => return Err(DeliveryError::Peer(MailPeerError::NoMail)),
            }
            Ok(answer.is_some())
        })?;
        answer.ok_or(DeliveryError::Peer(MailPeerError::Silent))
    }

    /// Closes the stream once all written bytes have arrived, or after [`GOODBYE`].
    fn finish(mut self) {
        // The next attempt sends again what has not arrived by now.
        let _ = self.exchange(GOODBYE, &Stop::new(), |stream, engine, over| {
            stream.finish(engine);
            Ok(over)
        });
        self.engine.close();
    }
}

/// The peers to dial for a route.
fn peers(to: &Party, route: &MailRoute, relays: &[Relay]) -> Vec<PeerAddress> {
    let (key, addresses) = match route {
        MailRoute::Direct(addresses) | MailRoute::AtRelay(_, addresses) => {
            (Some(to.link.0), addresses)
        }
        MailRoute::Via(key, addresses) => (*key, addresses),
    };
    let mut peers: Vec<PeerAddress> =
        addresses.iter().map(|address| PeerAddress::Link { address: *address, key }).collect();
    if !matches!(route, MailRoute::Via(..)) {
        peers.extend(through(relays, to.link.0));
    }
    peers
}

/// The peer with this key, through each of these relays.
pub(crate) fn through(relays: &[Relay], key: [u8; 32]) -> impl Iterator<Item = PeerAddress> {
    let uses = relays.iter().filter_map(|relay| reaching::to_dial(relay).ok());
    uses.filter_map(move |uses| reaching::through(&uses, Some(key), ConnectTarget::Key(key)))
}

/// Hands over the outbox, `first` before the others, and asks nodes for receipts of the messages that they keep.
/// Returns how many messages are not known to have reached their receivers.
pub(crate) fn deliver(
    store: &MailStore,
    first: Option<EnvelopeId>,
    ways: DeliveryReach<'_>,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<usize, InboxError> {
    let again = Cell::new(false);
    let mut tell = |event: MailEvent| {
        again.set(again.get() || matches!(event, MailEvent::Again { .. }));
        on_event(Event::Mail(event));
    };
    let due = store.receipts_due(wall_clock())?;
    hand_over_all(store, first, ways, stop, &mut tell)?;
    for due in due {
        let take = |envelope: &[u8]| {
            let events = store.take_receipt(due.session, envelope, wall_clock())?;
            events.into_iter().for_each(&mut tell);
            Ok((true, None))
        };
        match fetch(&peers(&due.to, &due.route, ways.relays), due.key, ways, stop, take) {
            Err(DeliveryError::Local(e)) => return Err(e),
            // A node that is away now is asked again in the next run.
            Ok(()) | Err(DeliveryError::Peer(_)) => {}
        }
    }
    if again.get() {
        hand_over_all(store, None, ways, stop, &mut tell)?;
    }
    let left = store.outbox(wall_clock())?;
    Ok(left.waiting.len() + left.stored.len())
}

/// Hands over the outbox, one target after the other.
fn hand_over_all(
    store: &MailStore,
    first: Option<EnvelopeId>,
    ways: DeliveryReach<'_>,
    stop: &Stop,
    tell: &mut dyn FnMut(MailEvent),
) -> Result<(), InboxError> {
    let mut outbox = store.outbox(wall_clock())?;
    outbox.old.iter().for_each(|parcel| tell(report::expired(parcel)));
    for mut parcels in outbox.by_target(first) {
        if stop.raised() {
            break;
        }
        match hand_over(store, &mut parcels, ways, stop, tell) {
            Ok(()) => {}
            Err(DeliveryError::Local(e)) => return Err(e),
            Err(DeliveryError::Peer(why)) => {
                let why = why.to_string();
                parcels.iter().for_each(|parcel| tell(report::waiting(parcel, &why)));
            }
        }
    }
    Ok(())
}

/// Hands parcels to one node. Removes those that it accepted from `parcels`.
fn hand_over(
    store: &MailStore,
    parcels: &mut VecDeque<Parcel>,
    ways: DeliveryReach<'_>,
    stop: &Stop,
    tell: &mut dyn FnMut(MailEvent),
) -> Result<(), DeliveryError> {
    let key = StaticKey::from_bytes(xylem_base::random()?);
    let mut relays = ways.relays.to_vec();
    if let Some(MailRoute::AtRelay(relay, _)) = parcels.front().map(|parcel| &parcel.route) {
        relays.push(relay.clone().into());
    }
    let ways = DeliveryReach { relays: &relays, ..ways };
    let target = parcels.front().map(|to| peers(&to.to, &to.route, &relays)).unwrap_or_default();
    let mut delivery = MailDelivery::dial(&target, key, ways, stop)?;
    tracing::debug!(messages = parcels.len(), "delivering messages");
    for _ in 0..parcels.len() {
        let Some(parcel) = parcels.pop_front() else { break };
        delivery.stream.send(&MailFrame::Deliver(parcel.envelope.clone()));
        let (status, lost) = match delivery.answer(stop) {
            Ok(MailFrame::Receipt(id, status, lost)) if id == parcel.id() => (status, lost),
            other => {
                parcels.push_back(parcel);
                let odd = || DeliveryError::Peer(MailPeerError::Unexpected);
                return Err(other.err().unwrap_or_else(odd));
            }
        };
        let (settled, events) = store.settle(&parcel, status, lost, wall_clock())?;
        events.into_iter().for_each(&mut *tell);
        if !settled {
            parcels.push_back(parcel);
        }
    }
    delivery.finish();
    Ok(())
}

/// Runs `run` while a second thread hands over the outbox. `run` gets a receiver of that thread's events and a stop
/// flag that ends the delivery. The flag is raised when `run` returns.
pub(crate) fn while_delivering<R, E: From<EngineError>>(
    mail: Option<&MailStore>,
    relays: &[Relay],
    run: impl FnOnce(&mpsc::Receiver<Event>, &Stop) -> Result<R, E>,
) -> Result<R, E> {
    let ends = Stop::new();
    let (events, from_delivery) = mpsc::channel();
    thread::scope(|scope| {
        if let Some(mail) = mail {
            let ends = &ends;
            let deliver = move || {
                keep_delivering(mail, None, DeliveryReach { reach: ATTEMPT, relays }, ends, &events)
            };
            thread::Builder::new().spawn_scoped(scope, deliver).map_err(EngineError::Thread)?;
        }
        let done = run(&from_delivery, &ends);
        ends.raise();
        done
    })
}

/// Hands over the outbox again and again until it is empty or `stop` is raised.
pub(crate) fn keep_delivering(
    store: &MailStore,
    first: Option<EnvelopeId>,
    ways: DeliveryReach<'_>,
    stop: &Stop,
    events: &mpsc::Sender<Event>,
) {
    // The receiver is gone only at the end, so a failed send is no loss.
    let tell = &mut |event| drop(events.send(event));
    let mut pause = Duration::from_secs(1);
    loop {
        match deliver(store, first, ways, stop, tell) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) => return tell(Event::warning(e.to_string())),
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

/// Fetches the messages that a node keeps for us. Returns how many are new.
pub(crate) fn collect(
    store: &MailStore,
    link: StaticKey,
    from: &[PeerAddress],
    ways: DeliveryReach<'_>,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<usize, InboxError> {
    let mut new = 0;
    let take = |envelope: &[u8]| {
        let answer = report::take_in(store, envelope, wall_clock())?;
        new += usize::from(answer.is_new);
        answer.events.into_iter().for_each(|event| on_event(Event::Mail(event)));
        // An envelope that cannot be opened would otherwise stay there for ever.
        Ok((answer.status != DeliveryStatus::Full, answer.receipt))
    };
    match fetch(from, link, ways, stop, take) {
        Ok(()) => Ok(new),
        Err(DeliveryError::Local(e)) => Err(e),
        Err(DeliveryError::Peer(why)) => Err(InboxError::Unreachable(why)),
    }
}

/// Fetches the envelopes that a node keeps for the owner of `key`. `take` returns whether an envelope may be removed
/// there, and a receipt to leave in return.
fn fetch(
    from: &[PeerAddress],
    key: StaticKey,
    ways: DeliveryReach<'_>,
    stop: &Stop,
    mut take: impl FnMut(&[u8]) -> Result<(bool, Option<Vec<u8>>), DeliveryError>,
) -> Result<(), DeliveryError> {
    let mut delivery = MailDelivery::dial(from, key, ways, stop)?;
    delivery.stream.send(&MailFrame::Fetch);
    let (mut ended, mut unanswered) = (false, 0);
    while !ended || unanswered > 0 {
        match delivery.answer(stop)? {
            MailFrame::Envelope(envelope) if !ended => {
                let (goes, receipt) = take(&envelope)?;
                if let Some(receipt) = receipt {
                    delivery.stream.send(&MailFrame::Deliver(receipt));
                    unanswered += 1;
                }
                if goes {
                    delivery.stream.send(&MailFrame::Taken(EnvelopeId::of(&envelope)));
                }
            }
            MailFrame::End => ended = true,
            // If the node has no room for a receipt, the sender does not get one.
            MailFrame::Receipt(..) if unanswered > 0 => unanswered -= 1,
            _ => return Err(DeliveryError::Peer(MailPeerError::Unexpected)),
        }
    }
    delivery.finish();
    Ok(())
}

/// Hands over one envelope and keeps no copy. Returns whether it was accepted.
pub(crate) fn hand_one(
    envelope: Vec<u8>,
    target: &[PeerAddress],
    ways: DeliveryReach<'_>,
    stop: &Stop,
) -> Result<bool, InboxError> {
    let handed = || -> Result<bool, DeliveryError> {
        let key = StaticKey::from_bytes(xylem_base::random()?);
        let mut delivery = MailDelivery::dial(target, key, ways, stop)?;
        delivery.stream.send(&MailFrame::Deliver(envelope));
        let taken =
            matches!(delivery.answer(stop)?, MailFrame::Receipt(_, DeliveryStatus::Stored, _));
        delivery.finish();
        Ok(taken)
    };
    match handed() {
        Ok(taken) => Ok(taken),
        Err(DeliveryError::Peer(_)) => Ok(false),
        Err(DeliveryError::Local(e)) => Err(e),
    }
}
