//! [`take`]: finds the peer that shows a code, and gets what the code stands for.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::time::Duration;

use xylem_base::{Blame, Failure, Stop};
use xylem_forward::{FaceId, Forwarder, ForwarderConfig, ForwarderSeed};
use xylem_link::{Endpoint, StaticKey, StreamError, StreamId, StreamRead, purpose};
use xylem_mgmt::Persistency;
use xylem_peers::reachable::{FaceAddress, HostLookupError, PeerAddress, Relay};
use xylem_reach::code::{
    CodeTake, CodeTakeStep, MAX_WRONG_GUESSES, PunchWay, SpokenCode, TakeError, knock,
    meeting_publisher,
};
use xylem_reach::relay::ConnectTarget;

use super::CodeEvent;
use super::dht::TakeMeeting;
use super::nearby::CodeSearch;
use crate::event::Event;
use crate::meeting::CodeDht;
use crate::reaching::{through, to_dial};
use crate::volunteers::{VolunteerDials, as_relay};
use xylem_engine::{Engine, EngineError, EngineEvent, FaceEnd, Program, StreamEvent};

/// Time for other peers to answer after one that has another code.
const OTHER_PEERS_WAIT: Duration = Duration::from_secs(1);
/// Pause before a busy peer is asked again.
const AGAIN: Duration = Duration::from_millis(300);
/// Time for a peer on the LAN or a relay to answer before the DHT is asked: most codes are taken in one room, and then the
/// DHT learns nothing of the taker. [`TURN`]: time that an address from there has beyond that.
const LAN_FIRST: Duration = Duration::from_millis(500);
const TURN: Duration = Duration::from_secs(2);
/// Time to wait for the other side's acknowledgement.
const GOODBYE: Duration = Duration::from_millis(500);

/// Why a code did not lead to its content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TakeCodeError {
    /// There is no relay, LAN or address to ask: a number alone leads nowhere.
    #[error(
        "no place to look for that code: give --relay URI, or --from HOST:PORT (`send`: --to) of the machine that \
         shows it"
    )]
    NoWay,
    /// No peer answers.
    #[error("{asked} ({why})")]
    Nobody {
        /// Where the code was looked up.
        asked: CodeLookup,
        /// Reason, as far as is known.
        why: CodeDialError,
    },
    /// The peers that answer do not have the code, or no longer.
    #[error("{0}; check the words, or ask for a new code")]
    Wrong(TakeError),
    /// The code has ended.
    #[error("{0}; ask for a new code")]
    Over(TakeError),
    /// The call was asked to stop.
    #[error("stopped")]
    Stopped,
    /// Failures of sockets.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The system gives no random numbers.
    #[error(transparent)]
    Randomness(#[from] xylem_base::NoRandomness),
    /// A key of the store cannot be read or made.
    #[error(transparent)]
    Key(#[from] xylem_keys::KeyFileError),
}

/// Why no peer was reached that shows a code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodeDialError {
    /// Nothing answers in time.
    #[error("no answer")]
    NoAnswer,
    /// A peer cannot be dialled.
    #[error(transparent)]
    Dial(#[from] io::Error),
    /// A relay cannot be used.
    #[error("relay {relay}: {why}")]
    Relay {
        /// The relay, without a token.
        relay: String,
        /// Reason.
        why: RelayDialError,
    },
    /// A connection ended.
    #[error(transparent)]
    Ended(#[from] FaceEnd),
    /// No stream can be opened.
    #[error(transparent)]
    Stream(#[from] StreamError),
}

/// Why a relay cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayDialError {
    /// Its host does not resolve.
    #[error(transparent)]
    Host(#[from] HostLookupError),
    /// It has no address.
    #[error("it has no address")]
    NoAddress,
    /// No socket leads to it.
    #[error(transparent)]
    Socket(#[from] io::Error),
}

/// Where a code was looked up without an answer. `Display` gives this, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeLookup {
    /// Named addresses.
    Named,
    /// The LAN alone.
    Lan,
    /// A relay, and perhaps the LAN.
    Relay(String),
    /// The DHT, and perhaps the LAN.
    Dht {
        /// Whether a node of the DHT has answered.
        answers: bool,
        /// Whether it listed a peer that shows a code of this number.
        listed: bool,
    },
}

impl fmt::Display for CodeLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named => f.write_str(
                "no peer at that address answers to the code: it has ended (after ten minutes or one use), or this \
                 is another machine; ask for a new code",
            ),
            Self::Lan => f.write_str(
                "no peer on this network answers to the code: if the other side is elsewhere, both sides have to \
                 name the same relay (--relay); otherwise the code has ended: ask for a new one",
            ),
            Self::Dht { answers: false, .. } => f.write_str(
                "no peer on this network answers to the code, and no node of the DHT answers, as where a network drops \
                 UDP (`xylem net reach --dht`): if the other side is elsewhere, both sides have to name the same relay \
                 (--relay), which is reached over TCP, too; otherwise the code has ended: ask for a new one",
            ),
            Self::Dht { listed: false, .. } => f.write_str(
                "no peer shows that code, neither on this network nor in the DHT: it has ended (after ten minutes or \
                 one use), the number is mistyped, or the other side uses --no-dht; ask for a new code",
            ),
            Self::Dht { .. } => f.write_str(
                "the DHT lists a peer that shows a code of that number, and it does not answer: a NAT or firewall on \
                 either side lets nothing in, and no volunteer relay connects the two; name the same relay on both \
                 sides (--relay)",
            ),
            Self::Relay(relay) => write!(
                f,
                "no peer answers to the code through relay {relay}: it has ended (after ten minutes or one use), \
                 or the other side uses another relay; ask for a new code"
            ),
        }
    }
}

impl Failure for TakeCodeError {
    fn blame(&self) -> Blame {
        match self {
            Self::NoWay | Self::Wrong(_) => Blame::Usage,
            Self::Nobody { .. } | Self::Over(_) => Blame::Network,
            Self::Stopped => Blame::Interrupted,
            Self::Engine(e) => e.blame(),
            Self::Randomness(e) => e.blame(),
            Self::Key(e) => e.blame(),
        }
    }
}

/// Where to look for the peer that shows a code.
#[derive(Clone, Debug)]
pub struct TakeOptions {
    /// The code.
    pub code: SpokenCode,
    /// Peers that may show it. If empty, peers found by the code's number are asked.
    pub from: Vec<PeerAddress>,
    /// Relays; only the first is asked for the number.
    pub relays: Vec<Relay>,
    /// Whether to ask on the LAN as well.
    pub lan: bool,
    /// How to ask the DHT, if no peer is named and neither the LAN nor a relay has an answer.
    pub dht: Option<CodeDht>,
    /// Give up after this long.
    pub give_up: Duration,
}

/// The content of a code.
#[derive(Clone, Debug)]
pub struct TakenCode {
    /// A ticket or a card.
    pub text: String,
    /// The peer that sent it. The key in it was made for this code and serves no other purpose.
    pub from: PeerAddress,
    /// If the peer was found in the DHT: the local UDP port by which it is reached. The NATs between the two let traffic of
    /// this port pass, and perhaps no other's.
    pub port: Option<u16>,
    /// If the two met at volunteer relays: those, first the one that has passed the text. The peer is registered there by its
    /// link key as well.
    pub relays: Vec<Relay>,
}

/// Gets what a code stands for.
///
/// # Errors
/// See [`TakeCodeError`].
pub fn take(
    options: &TakeOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<TakenCode, TakeCodeError> {
    let config = xylem_link::LinkConfig { accept_incoming: false, ..Default::default() };
    let endpoint =
        Endpoint::new(config, StaticKey::generate(xylem_base::random()?), xylem_base::random()?);
    let forwarder = Forwarder::new(
        ForwarderConfig::end_host(),
        ForwarderSeed::from_random(xylem_base::random()?),
    );
    let mut engine = Engine::new(endpoint, forwarder)?;
    let number = options.code.number();
    engine.set_knock(knock(number));
    let mut taking = CodeClient {
        code: &options.code,
        dialled: HashMap::new(),
        tries: HashMap::new(),
        tried: HashMap::new(),
        lan: None,
        dht_at: None,
        dht: None,
        volunteers: VolunteerDials::default(),
        found: HashMap::new(),
        again: Vec::new(),
        guesses: MAX_WRONG_GUESSES,
        deadline: engine.now() + options.give_up,
        others_until: None,
        taken: None,
        arrived: false,
        fate: None,
        why: CodeDialError::NoAnswer,
        on_event,
    };
    for peer in &options.from {
        taking.dial(&mut engine, peer.clone());
    }
    if options.from.is_empty() {
        if let Some(relay) = options.relays.first() {
            taking.ask_relay(&mut engine, relay, number);
        }
        taking.lan = options.lan.then(|| CodeSearch::new(number, engine.now())).flatten();
        let now = engine.now();
        let alone = taking.lan.is_none() && options.relays.is_empty();
        let first = if alone { Duration::ZERO } else { LAN_FIRST };
        let dht = options.dht.as_ref().filter(|_| options.code.may_be_drawn());
        taking.dht_at = dht.map(|dht| (now + first, dht));
        if taking.dialled.is_empty() && taking.lan.is_none() && dht.is_none() {
            return Err(TakeCodeError::NoWay);
        }
    }
    engine.run(&mut taking, stop)?;
    let asked = taking.asked(&mut engine, options);
    engine.close();
    let CodeClient { taken: told, fate, why, on_event, .. } = taking;
    match (told, fate) {
        (Some(told), _) => {
            on_event(Event::Code(CodeEvent::Taken { peer: FaceAddress::from(&told.from) }));
            Ok(told)
        }
        _ if stop.raised() => Err(TakeCodeError::Stopped),
        (None, Some(over @ (TakeError::Over(_) | TakeError::Busy))) => {
            Err(TakeCodeError::Over(over))
        }
        (None, Some(wrong)) => Err(TakeCodeError::Wrong(wrong)),
        (None, None) => Err(TakeCodeError::Nobody { asked, why }),
    }
}

/// Tries the code with the peers that answer, at most [`MAX_WRONG_GUESSES`] of them: a peer may only be guessing the code.
struct CodeClient<'a> {
    code: &'a SpokenCode,
    /// Faces that are dialled or up, and the peer of each.
    dialled: HashMap<FaceId, PeerAddress>,
    tries: HashMap<FaceId, (StreamId, CodeTake)>,
    /// Keys that were tried, and over which face. A node has one try, whatever its addresses.
    tried: HashMap<[u8; 32], FaceId>,
    lan: Option<CodeSearch>,
    /// When to ask the DHT, and how.
    dht_at: Option<(Duration, &'a CodeDht)>,
    dht: Option<TakeMeeting>,
    /// Dials through volunteer relays.
    volunteers: VolunteerDials,
    /// Ways that were found there, by the faces that were dialled over them.
    found: HashMap<FaceId, PunchWay>,
    /// Busy peers, and when to ask each again.
    again: Vec<(Duration, FaceId)>,
    /// Proofs that may still be sent. Each allows the receiving peer one guess.
    guesses: u8,
    deadline: Duration,
    /// Set once a peer with another code has answered: wait for others until then.
    others_until: Option<Duration>,
    taken: Option<TakenCode>,
    /// The other side has acknowledged the end.
    arrived: bool,
    fate: Option<TakeError>,
    /// Why the last dial failed.
    why: CodeDialError,
    on_event: &'a mut dyn FnMut(Event),
}

impl CodeClient<'_> {
    fn dial(&mut self, engine: &mut Engine, peer: PeerAddress) {
        match engine.dial(&peer, Persistency::Persistent) {
            Ok(face) => drop(self.dialled.insert(face, peer)),
            Err(e) => self.why = e.into(),
        }
    }

    fn ask_relay(&mut self, engine: &mut Engine, relay: &Relay, number: u32) {
        let used = to_dial(relay).map_err(RelayDialError::from).and_then(|uses| {
            let peer = through(&uses, None, ConnectTarget::Code(number));
            let peer = peer.ok_or(RelayDialError::NoAddress)?;
            engine.use_relay(uses)?;
            Ok(peer)
        });
        match used {
            Ok(peer) => self.dial(engine, peer),
            Err(why) => self.why = CodeDialError::Relay { relay: relay.to_string(), why },
        }
    }

    /// Asks the DHT once it is its turn, and dials what it lists and what answers.
    fn ask_dht(&mut self, engine: &mut Engine, now: Duration) {
        let due = self.dht_due().is_some_and(|due| due <= now);
        if let Some((_, how)) = self.dht_at.take_if(|_| due) {
            (self.on_event)(Event::Code(CodeEvent::InDht));
            self.dht = Some(TakeMeeting::new(engine, how, self.code.number()));
        }
        let found = self.dht.as_mut().map(|dht| dht.poll(engine)).unwrap_or_default();
        for way in found {
            match engine.dial_punched(way) {
                Ok(face) => {
                    self.found.insert(face, way);
                    let peer = PeerAddress::Link { address: way.at, key: None };
                    self.dialled.insert(face, peer);
                }
                Err(e) => self.why = e.into(),
            }
        }
    }

    /// Dials through volunteer relays, once punching leads nowhere.
    fn ask_volunteers(&mut self, engine: &mut Engine, now: Duration) {
        if self.taken.is_some() {
            return;
        }
        // A peer that tries the code has been reached.
        if let Some(dht) = self.dht.as_mut().filter(|_| self.tries.is_empty()) {
            let (found, windows) = dht.poll_volunteers(engine);
            if !found.is_empty() {
                let relays = found.iter().map(as_relay).collect();
                (self.on_event)(Event::Volunteers { relays });
                let target = |window: &u64| meeting_publisher(self.code.number(), *window).public();
                let targets = windows.iter().map(target).map(ConnectTarget::Publisher).collect();
                self.volunteers.begin(engine, found, targets);
            }
        }
        for face in self.volunteers.overdue(now) {
            if self.tries.contains_key(&face) {
                engine.drop_face(face, "the relay passes nothing more");
            }
        }
        self.dialled.extend(self.volunteers.poll(engine));
    }

    /// When the DHT is asked, if it is to be.
    fn dht_due(&self) -> Option<Duration> {
        let (at, _) = self.dht_at?;
        // A peer near by tries the code, is busy with another try, or has sent its content.
        if self.taken.is_some() || !self.tries.is_empty() || !self.again.is_empty() {
            return None;
        }
        // A peer that the LAN or a relay has listed has its turn first.
        Some(if self.dialled.is_empty() { at } else { at + TURN })
    }

    /// Where the code was looked up. The DHT is left.
    fn asked(&self, engine: &mut Engine, options: &TakeOptions) -> CodeLookup {
        let outcome = self.dht.as_ref().map(|dht| {
            let outcome = dht.outcome(engine);
            dht.leave(engine);
            outcome
        });
        match (options.relays.first(), outcome) {
            _ if !options.from.is_empty() => CodeLookup::Named,
            (Some(relay), _) => CodeLookup::Relay(relay.to_string()),
            (None, Some((answers, listed))) => CodeLookup::Dht { answers, listed },
            (None, None) => CodeLookup::Lan,
        }
    }

    /// The local port of the link to a peer that was found in the DHT.
    fn port_to(&self, engine: &Engine, face: FaceId, peer: &PeerAddress) -> Option<u16> {
        let at = peer.link_address()?;
        // A face of another answer to the same dial has no way of its own.
        let of_address = || self.found.values().find(|way| way.at == at);
        engine.punched_port(*self.found.get(&face).or_else(of_address)?)
    }

    fn begin(&mut self, engine: &mut Engine, face: FaceId) -> Result<(), TakeCodeError> {
        let Some(peer) = engine.link_peer(face) else { return Ok(()) };
        if *self.tried.entry(peer.0).or_insert(face) != face {
            engine.drop_face(face, "another address of the same node answered first");
            return Ok(());
        }
        let (take, hello) =
            CodeTake::new(self.code, engine.link_key(), peer, &xylem_base::random()?);
        // A new stream always has room for its first bytes.
        let opened = engine.open_stream(face, purpose::CODE).and_then(|stream| {
            engine.write_stream(face, stream, &hello)?;
            Ok(stream)
        });
        match opened {
            Ok(stream) => drop(self.tries.insert(face, (stream, take))),
            Err(e) => self.why = e.into(),
        }
        Ok(())
    }

    fn read(&mut self, engine: &mut Engine, face: FaceId) {
        while self.taken.is_none()
            && let Some((stream, take)) = self.tries.get_mut(&face)
        {
            let taken = match engine.read_stream(face, *stream) {
                Ok(StreamRead::Data(bytes)) => take.received(&bytes),
                Ok(StreamRead::Pending) => return,
                Ok(StreamRead::Finished) | Err(_) => Err(TakeError::Broken),
            };
            match taken {
                Ok(CodeTakeStep::Wait) => {}
                Ok(CodeTakeStep::Send(_)) if self.guesses == 0 => {
                    self.failed(engine, face, TakeError::Wrong)
                }
                Ok(CodeTakeStep::Send(bytes)) => {
                    self.guesses -= 1;
                    // If the stream is gone, the next read reports that.
                    let _ = engine.write_stream(face, *stream, &bytes);
                }
                Ok(CodeTakeStep::Text(text)) => {
                    let _ = engine.finish_stream(face, *stream);
                    let Some(from) = self.dialled.get(&face).cloned() else { return };
                    let port = self.port_to(engine, face, &from);
                    let relays = self.volunteers.relays_of(&from);
                    self.taken = Some(TakenCode { text, from, port, relays });
                    self.deadline = engine.now() + GOODBYE;
                }
                Err(why) => self.failed(engine, face, why),
            }
        }
    }

    /// Ends a try.
    fn failed(&mut self, engine: &mut Engine, face: FaceId, why: TakeError) {
        let now = engine.now();
        if why == TakeError::Busy {
            self.again.push((now + AGAIN, face));
        } else {
            self.others_until.get_or_insert(now + OTHER_PEERS_WAIT);
        }
        self.tries.remove(&face);
        // Keep the more specific reason: only a peer that knows the code reports its end, whereas any peer may have a
        // wrong code.
        if !matches!(self.fate, Some(TakeError::Over(_))) {
            self.fate = Some(why);
        }
    }
}

impl Program for CodeClient<'_> {
    type Error = TakeCodeError;

    fn handle(&mut self, engine: &mut Engine, event: EngineEvent) -> Result<(), TakeCodeError> {
        match event {
            EngineEvent::FaceUp { face, peer } => {
                // Another answer to a dial that expects no key.
                let dialled = self.dialled.values().find(|known| FaceAddress::from(*known) == peer);
                if let Some(known) = dialled.cloned() {
                    self.dialled.entry(face).or_insert(known);
                }
                self.volunteers.came_up(engine.now(), face);
                if self.taken.is_none() {
                    self.begin(engine, face)?;
                }
            }
            EngineEvent::FaceDown { face, why, .. } => {
                self.dialled.remove(&face);
                if self.tries.remove(&face).is_some() {
                    // Another path to the same node may work.
                    self.tried.retain(|_, by| *by != face);
                }
                self.again.retain(|(_, of)| *of != face);
                self.volunteers.went_down(engine.now(), face, &why);
                self.why = why.into();
            }
            EngineEvent::Stream { face, stream, what } => {
                if self.tries.get(&face).is_none_or(|(ours, _)| *ours != stream) {
                    engine.refuse_stream(face, stream, what);
                    return Ok(());
                }
                match what {
                    StreamEvent::Readable => self.read(engine, face),
                    StreamEvent::Delivered => self.arrived |= self.taken.is_some(),
                    StreamEvent::Reset | StreamEvent::Stopped if self.taken.is_none() => {
                        self.failed(engine, face, TakeError::Broken);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) -> Result<(), TakeCodeError> {
        let due: Vec<FaceId> =
            self.again.extract_if(.., |(at, _)| *at <= now).map(|(_, face)| face).collect();
        for address in self.lan.as_mut().map(|lan| lan.poll(now)).unwrap_or_default() {
            self.dial(engine, PeerAddress::Link { address, key: None });
        }
        self.ask_dht(engine, now);
        self.ask_volunteers(engine, now);
        due.into_iter().try_for_each(|face| self.begin(engine, face))
    }

    fn is_done(&mut self, engine: &Engine, stopped: bool) -> bool {
        let now = engine.now();
        if stopped || now >= self.deadline {
            return true;
        }
        if self.taken.is_some() {
            return self.arrived;
        }
        let asks = self.lan.as_ref().is_some_and(|lan| lan.is_hopeful(now))
            || self.dht_at.is_some()
            || self.dht.as_ref().is_some_and(|dht| dht.is_hopeful(now));
        let others = self.others_until.is_none_or(|until| now < until);
        let waits = !self.tries.is_empty() || !self.again.is_empty() || (asks && others);
        !waits && (self.dialled.is_empty() || self.others_until.is_some_and(|until| now >= until))
    }

    fn poll_timeout(&mut self, now: Duration) -> Option<Duration> {
        let again = self.again.iter().map(|(at, _)| *at).min();
        let lan = self.lan.as_ref().map(CodeSearch::poll_timeout);
        let waits = self.dht_due().filter(|_| self.tries.is_empty());
        let dht = self.dht.as_ref().and_then(|dht| dht.poll_timeout(now));
        let volunteers = self.volunteers.poll_timeout(now).filter(|_| self.taken.is_none());
        let ends = [Some(self.deadline), self.others_until];
        ends.into_iter().chain([again, lan, waits, dht, volunteers]).flatten().min()
    }
}
