//! [`RelayClient`]: one registration with one relay.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;

use xylem_hash::keyed_hash;
use zeroize::Zeroizing;

use super::wire::{
    self, ENDS, Epoch, HEADER, Head, Id, Keep, Keys, Name, PADDING, PROVE, Port, Refusal, Register,
    Reply, TOKEN, Tag, Target, WireError,
};

/// A keep-alive goes so many times in a registration's life.
const KEEPS: u32 = 6;
/// The shortest time between two of them.
const SHORTEST: Duration = Duration::from_secs(5);
/// After how long an unanswered keep-alive is sent again, [`SOON`] times; then twice as long after the next one, and four times
/// after each further one.
const RETRY: Duration = Duration::from_millis(700);
/// So many without an answer and the relay is silent: it is dialled beside. A handshake for nothing costs less than to be
/// lost and not to know it.
const SOON: u32 = 3;
/// So many and the registration is lost: after some 25 seconds.
const TRIES: u32 = 12;
/// Questions to the relay's second port.
const SECOND_TRIES: u32 = 3;
/// So many inner datagrams are traffic; when it stops for [`RETRY`], the way to the
/// relay may be broken, and is looked at at once.
const TRAFFIC: u32 = 16;
/// Ids do not change more often than this, so that a datagram that comes late is still known.
const SAME_IDS: Duration = Duration::from_secs(15);
/// Peers that asked for us and are known to have done so.
const REACHED: usize = 256;

/// What a datagram from the relay is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    /// None of this registration.
    Not,
    /// One of the peer with this tag: the bytes from [`HEADER`] on.
    Inner(Tag),
    /// The relay's own, and dealt with.
    Control,
}

/// What a registration reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelayEvent {
    /// The relay has us.
    Registered {
        /// The short number that was asked for.
        code: Option<u32>,
    },
    /// What is sent with this tag arrives at the peer that was asked for.
    Connected(Tag),
    /// It does not. Without a tag, the registration itself is refused.
    Refused(Option<Tag>, Refusal),
    /// The relay sees us there: reported again when it changes.
    Observed {
        /// As what it sees us.
        address: SocketAddr,
        /// Which of its ports; where they see different ones, we are behind a symmetric NAT.
        by: Port,
    },
    /// A peer has asked for us: its first datagram is there.
    Reached(Tag),
    /// The relay has not answered for a moment: [`RelayClient::request`] over another link is worth a try. It goes on
    /// asking meanwhile.
    Silent,
    /// The relay answers no more, or says that it has lost us. [`RelayClient::request`] over another link registers again;
    /// tags of before are worth nothing then, unless the relay still has us: [`RelayClient::connect_again`].
    Lost,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Asked,
    Registered,
    Lost,
}

/// One registration with one relay.
///
/// Over a link to the relay, on a stream of its own: [`RelayClient::request`] first, [`RelayClient::connect`] at any time
/// after it, in the same flight too; what comes on the stream goes to [`RelayClient::handle_control`]. Datagrams outside of the link:
/// [`RelayClient::header`] before what leaves, [`RelayClient::handle_datagram`] for what comes, as soon as the request is
/// sent. [`RelayClient::poll_transmit`] and [`RelayClient::poll_event`] after each of these and after
/// [`RelayClient::handle_timeout`].
pub struct RelayClient {
    secret: Zeroizing<[u8; 32]>,
    keys: Keys,
    listens: bool,
    wants_code: bool,
    names: Vec<Name>,
    state: State,
    /// Whose ids we send with.
    epoch: u32,
    heads: Epoch,
    before: Option<Head>,
    /// What the relay may have gone on to already.
    after: Option<(u32, Epoch)>,
    rotated: Duration,
    /// Of the last keep-alive.
    number: u32,
    /// The last number that each port has answered.
    answered: [u32; 2],
    lifetime: Duration,
    /// When the next keep-alive is due, and how many of those before were not answered.
    due: Duration,
    unanswered: u32,
    /// To be sent back by the next keep-alive.
    token: [u8; TOKEN],
    /// With what a reset ends that answers ids of this epoch.
    reset: Option<[u8; TOKEN]>,
    /// With what the relay says once that it is back.
    back: Option<[u8; TOKEN]>,
    leaves: bool,
    second: Option<u16>,
    second_due: Option<Duration>,
    second_tries: u32,
    observed: [Option<SocketAddr>; 2],
    heard: Duration,
    traffic: u32,
    next_tag: u32,
    reached: VecDeque<Tag>,
    incoming: Vec<u8>,
    events: VecDeque<RelayEvent>,
}

impl RelayClient {
    /// A registration with this secret, which is drawn at random for each relay and run. `listens`: others may ask for us, by
    /// our link key or by one of the `names`.
    #[must_use]
    pub fn new(secret: [u8; 32], listens: bool, names: Vec<Name>) -> Self {
        let secret = Zeroizing::new(secret);
        Self {
            keys: Keys::new(&secret),
            listens,
            wants_code: false,
            names,
            state: State::Asked,
            epoch: 0,
            heads: Epoch::new(&secret, 0),
            before: None,
            after: None,
            rotated: Duration::ZERO,
            number: 0,
            answered: [0; 2],
            lifetime: Duration::ZERO,
            due: Duration::MAX,
            unanswered: 0,
            token: [0; TOKEN],
            reset: None,
            back: None,
            leaves: false,
            second: None,
            second_due: None,
            second_tries: 0,
            observed: [None; 2],
            heard: Duration::ZERO,
            traffic: 0,
            next_tag: 0,
            reached: VecDeque::new(),
            incoming: Vec::new(),
            events: VecDeque::new(),
            secret,
        }
    }

    /// Asks for a short number too, by which others may ask for us ([`Target::Code`]).
    #[must_use]
    pub fn with_code(mut self) -> Self {
        self.wants_code = true;
        self
    }

    /// First message of the control stream. Again, on the stream of another link, it keeps a registration or, after
    /// [`RelayEvent::Lost`], renews it.
    #[must_use]
    pub fn request(&mut self) -> Vec<u8> {
        self.back = Some(wire::back(&self.secret, self.epoch));
        let register = Register {
            secret: self.secret.clone(),
            listens: self.listens,
            wants_code: self.wants_code,
            epoch: self.epoch,
            number: self.number,
            names: self.names.clone(),
        };
        register.encode()
    }

    /// Asks for a peer: its tag from now on, and the message for the control stream, behind the request.
    pub fn connect(&mut self, target: Target) -> (Tag, Vec<u8>) {
        // Two thousand million of one registration, then from the beginning.
        self.next_tag = self.next_tag.wrapping_add(1) & (u32::MAX >> 1);
        self.next_tag = self.next_tag.max(1);
        let tag = Tag::new(self.next_tag).expect("at least 1");
        (tag, wire::connect(tag, target))
    }

    /// Asks once more for a peer that had this tag, which goes on standing for it: of a relay that has lost its state.
    #[must_use]
    pub fn connect_again(&self, tag: Tag, target: Target) -> Vec<u8> {
        wire::connect(tag, target)
    }

    /// A new control stream follows: what a broken one left is forgotten.
    pub fn new_stream(&mut self) {
        self.incoming.clear();
    }

    /// What came on the control stream, in any cut.
    ///
    /// # Errors
    /// The relay does not speak this protocol; the stream is of no more use.
    pub fn handle_control(&mut self, now: Duration, bytes: &[u8]) -> Result<(), WireError> {
        let mut incoming = core::mem::take(&mut self.incoming);
        incoming.extend_from_slice(bytes);
        let mut rest = &incoming[..];
        while let Some((reply, len)) = wire::take_reply(rest)? {
            rest = rest.get(len..).unwrap_or_default();
            self.handle_reply(now, reply);
        }
        self.incoming = rest.to_vec();
        Ok(())
    }

    fn handle_reply(&mut self, now: Duration, reply: Reply) {
        match reply {
            Reply::Registered { lifetime, observed, second, code } => {
                self.state = State::Registered;
                self.lifetime = Duration::from_secs(lifetime.into());
                // The first one brings what a reset would end with.
                self.due = now.saturating_add(RETRY);
                (self.unanswered, self.heard, self.traffic) = (0, now, 0);
                (self.second, self.reset) = (second, None);
                self.events.push_back(RelayEvent::Registered { code });
                self.observe(now, observed, Port::First);
                self.ask_second(now);
            }
            Reply::Connected(tag) => self.events.push_back(RelayEvent::Connected(tag)),
            Reply::Refused(tag, why) => {
                if tag.is_none() {
                    self.state = State::Lost;
                }
                self.events.push_back(RelayEvent::Refused(tag, why));
            }
        }
    }

    fn interval(&self) -> Duration {
        let part = self.lifetime.checked_div(KEEPS).unwrap_or(SHORTEST);
        part.max(SHORTEST)
    }

    /// What goes before a datagram for the peer of this tag.
    #[must_use]
    pub fn header(&self, tag: Tag) -> [u8; HEADER] {
        self.heads.up.header(Some(tag))
    }

    /// The relay's second port, which [`Port::Second`] means.
    #[must_use]
    pub fn second_port(&self) -> Option<u16> {
        self.second
    }

    /// As what the two ports of the relay see us.
    #[must_use]
    pub fn observed(&self) -> [Option<SocketAddr>; 2] {
        self.observed
    }

    /// A datagram that came from the relay; `from_second`: from its second port.
    pub fn handle_datagram(
        &mut self,
        now: Duration,
        from_second: bool,
        datagram: &mut [u8],
    ) -> Came {
        let Some(id) = Id::of(datagram) else { return Came::Not };
        if let Some(token) = &self.reset
            && !from_second
            && wire::is_reset(datagram, token)
        {
            self.forgotten();
            return Came::Control;
        }
        if !from_second && self.back.take_if(|token| wire::is_reset(datagram, token)).is_some() {
            // The answer to a keep-alive shows whether it has lost us: said by anybody else, this costs one.
            self.refresh(now);
            return Came::Control;
        }
        let after = self.after.map(|(_, epoch)| epoch.down);
        let heads = [Some(self.heads.down), after, self.before];
        let Some(head) = heads.into_iter().flatten().find(|head| head.id == id) else {
            return Came::Not;
        };
        let Some(tag) = Tag::new(head.tag(datagram)) else {
            // What does not open is dropped, but it had our id: it is nobody else's.
            if let Some(answer) = wire::open(&self.keys.down, datagram) {
                self.handle_answer(now, from_second, &answer);
            }
            return Came::Control;
        };
        if from_second {
            return Came::Control;
        }
        self.heard = now;
        self.traffic = self.traffic.saturating_add(1);
        if tag.is_of_relay() && !self.reached.contains(&tag) {
            if self.reached.len() >= REACHED {
                self.reached.pop_front();
            }
            self.reached.push_back(tag);
            self.events.push_back(RelayEvent::Reached(tag));
        }
        Came::Inner(tag)
    }

    fn handle_answer(&mut self, now: Duration, from_second: bool, answer: &Keep) {
        let by = if answer.second { Port::Second } else { Port::First };
        // An answer that was kept and sent again says nothing new.
        let [first, second] = &mut self.answered;
        let answered = if answer.second { second } else { first };
        let asked = answer.number > *answered && answer.number <= self.number;
        if asked {
            *answered = answer.number;
            self.observe(now, answer.observed, by);
            if let Some((next, epoch)) = self.after.take_if(|(next, _)| *next == answer.epoch) {
                self.before = Some(self.heads.down);
                (self.epoch, self.heads, self.rotated) = (next, epoch, now);
            }
        }
        if by == Port::Second || from_second {
            if asked {
                self.second_due = None;
            }
            return;
        }
        if answer.flags & ENDS != 0 && answer.number == 0 && self.state == State::Registered {
            return self.forgotten();
        }
        if asked && answer.flags & PROVE == 0 && answer.epoch == self.epoch {
            self.reset = Some(answer.token).filter(|token| *token != [0; TOKEN]);
        }
        if asked {
            // Traffic goes on being that: the way may break right behind this answer.
            (self.heard, self.unanswered) = (now, 0);
            self.due = now.saturating_add(self.interval());
        }
        // The relay does not send to where we are until we show that we hear it there. A token that comes again is answered
        // again, but not one after the other for nothing: it takes a datagram of the relay for each of ours.
        let asks = asked || answer.number == 0;
        if asks && answer.flags & PROVE != 0 && self.state == State::Registered {
            self.token = answer.token;
            self.due = now;
        }
    }

    /// The relay knows nothing of us any more. What it or somebody else may repeat of this goes by ids that end now.
    fn forgotten(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.heads = Epoch::new(&self.secret, self.epoch);
        (self.before, self.after, self.reset) = (None, None, None);
        self.lost();
    }

    fn lost(&mut self) {
        self.state = State::Lost;
        self.events.push_back(RelayEvent::Lost);
    }

    fn observe(&mut self, now: Duration, address: Option<SocketAddr>, by: Port) {
        let Some(address) = address else { return };
        let place = usize::from(by == Port::Second);
        let [first, second] = &mut self.observed;
        let known = if by == Port::Second { second } else { first };
        if *known == Some(address) {
            return;
        }
        *known = Some(address);
        self.events.push_back(RelayEvent::Observed { address, by });
        // The two are compared as of one time.
        if place == 0 {
            self.ask_second(now);
        }
    }

    fn ask_second(&mut self, now: Duration) {
        if self.second.is_some() && self.state == State::Registered {
            (self.second_due, self.second_tries) = (Some(now), 0);
        }
    }

    /// A keep-alive now: our address may have changed.
    pub fn refresh(&mut self, now: Duration) {
        if self.state == State::Registered {
            self.due = now;
        }
    }

    /// The registration ends; one last datagram tells the relay.
    pub fn leave(&mut self, now: Duration) {
        if self.state == State::Registered {
            self.leaves = true;
            self.due = now;
        }
    }

    /// The next datagram for the relay, and for which of its ports.
    pub fn poll_transmit(&mut self, now: Duration) -> Option<(Port, Vec<u8>)> {
        if self.state != State::Registered {
            return None;
        }
        if self.second_due.is_some_and(|due| due <= now) {
            self.second_tries = self.second_tries.saturating_add(1);
            let again = self.second_tries < SECOND_TRIES;
            self.second_due = again.then(|| now.saturating_add(RETRY));
            return Some((Port::Second, self.keep_alive(self.epoch)));
        }
        if self.due > now {
            return None;
        }
        let rotates = now >= self.rotated.saturating_add(SAME_IDS) && !self.leaves;
        let (next, _) = match self.after {
            Some(after) => after,
            None if rotates => {
                let next = self.epoch.wrapping_add(1);
                *self.after.insert((next, Epoch::new(&self.secret, next)))
            }
            None => (self.epoch, self.heads),
        };
        let datagram = self.keep_alive(next);
        self.token = [0; TOKEN];
        let longer = self.unanswered.saturating_sub(SOON.saturating_sub(1)).min(2);
        self.due = now.saturating_add(RETRY.saturating_mul(1 << longer));
        self.unanswered = self.unanswered.saturating_add(1);
        if self.leaves {
            self.state = State::Lost;
        }
        Some((Port::First, datagram))
    }

    fn keep_alive(&mut self, epoch: u32) -> Vec<u8> {
        self.number = self.number.saturating_add(1);
        let flags = if self.leaves { wire::LEAVES } else { 0 };
        let (number, token) = (self.number, self.token);
        let keep = Keep { flags, number, epoch, token, ..Keep::default() };
        let random = keyed_hash(&self.keys.up, &number.to_be_bytes()).as_bytes()[0];
        let padding = random.checked_rem(PADDING).unwrap_or(0);
        wire::seal(&self.keys.up, self.heads.up, &keep, padding)
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<RelayEvent> {
        self.events.pop_front()
    }

    /// When [`RelayClient::handle_timeout`] has something to do.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        if self.state != State::Registered {
            return None;
        }
        let silence = (self.traffic >= TRAFFIC).then(|| self.heard.saturating_add(RETRY));
        [Some(self.due), self.second_due, silence].into_iter().flatten().min()
    }

    /// Time has passed; [`RelayClient::poll_transmit`] may have something.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.state != State::Registered {
            return;
        }
        if self.traffic >= TRAFFIC && now >= self.heard.saturating_add(RETRY) {
            self.traffic = 0;
            self.due = self.due.min(now);
        }
        if self.due <= now && self.unanswered >= TRIES {
            self.lost();
        } else if self.due <= now && self.unanswered == SOON {
            self.events.push_back(RelayEvent::Silent);
        }
    }
}

impl fmt::Debug for RelayClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayClient")
            .field("state", &self.state)
            .field("epoch", &self.epoch)
            .field("observed", &self.observed)
            .finish_non_exhaustive()
    }
}
