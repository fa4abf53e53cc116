//! [`RelayClient`]: one registration with one relay.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;

use xylem_hash::keyed_hash;
use zeroize::Zeroizing;

use super::wire::{
    self, CircuitTag, ConnectTarget, DatagramHead, DatagramId, ENDS, HEADER, IdEpoch, KeepAlive,
    KeepAliveKeys, PADDING, PROVE, Register, RelayPort, RelayRefusal, RelayReply, TOKEN,
    VouchedName, WireError,
};

/// Keep-alives sent per lifetime of a registration.
const KEEP_ALIVES_PER_LIFETIME: u32 = 6;
/// Minimum time between two keep-alives.
const SHORTEST: Duration = Duration::from_secs(5);
/// Time after which an unanswered keep-alive is repeated, [`SILENT_AFTER`] times. The next wait is twice as long, and each
/// further one four times.
const RETRY: Duration = Duration::from_millis(700);
/// Number of unanswered keep-alives after which the relay counts as silent and is also dialled anew. An unnecessary
/// handshake costs less than a registration that is lost without notice.
const SILENT_AFTER: u32 = 3;
/// Number of unanswered keep-alives after which the registration is lost: some 25 seconds.
const LOST_AFTER: u32 = 12;
/// Maximum number of questions to the relay's second port.
const SECOND_TRIES: u32 = 3;
/// This many inner datagrams count as traffic. When traffic stops for [`RETRY`], the path to the relay may be broken,
/// and a keep-alive tests it at once. So does one when nothing comes back of what was sent, at most every [`SHORTEST`].
const TRAFFIC: u32 = 16;
/// Minimum lifetime of ids, so that a late datagram is still recognised.
const MIN_EPOCH_LIFETIME: Duration = Duration::from_secs(15);
/// Maximum number of remembered tags of peers that have connected to this client.
const MAX_REACHED: usize = 256;

/// The kind of a datagram from the relay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DatagramKind {
    /// It does not belong to this registration.
    Not,
    /// A datagram from the peer with this tag: the bytes from [`HEADER`] on.
    Inner(CircuitTag),
    /// A control datagram, which is handled.
    Control,
}

/// An event of a registration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelayEvent {
    /// The relay has registered this client.
    Registered {
        /// The short number, if one was requested.
        code: Option<u32>,
    },
    /// The circuit exists: datagrams with this tag are forwarded to the requested peer.
    Connected(CircuitTag),
    /// The request was refused. Without a tag, the registration itself is refused.
    Refused(Option<CircuitTag>, RelayRefusal),
    /// The address at which the relay observes this client. Reported again when it changes.
    Observed {
        /// The observed address.
        address: SocketAddr,
        /// The relay's port that observed it. If the two ports observe different addresses, this client is behind a
        /// symmetric NAT.
        by: RelayPort,
    },
    /// A peer has connected to this client: its first datagram has arrived.
    Reached(CircuitTag),
    /// Several keep-alives are unanswered. Send [`RelayClient::request`] over another link; meanwhile keep-alives go
    /// on.
    Silent,
    /// The relay, which was silent, has answered a keep-alive.
    Answers,
    /// The relay does not answer any more, or has reported that it lost the registration. [`RelayClient::request`] over
    /// another link registers again. Earlier tags are then invalid, unless the relay still has the registration: see
    /// [`RelayClient::connect_again`].
    Lost,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RegistrationState {
    Asked,
    Registered,
    Lost,
}

/// One registration with one relay.
///
/// On a stream of a link to the relay: send [`RelayClient::request`] first. Send [`RelayClient::connect`] at any time
/// after it, in the same flight too. Pass what arrives on the stream to [`RelayClient::handle_control`].
///
/// Outside of the link, as soon as the request is sent: put [`RelayClient::header`] before each outgoing datagram, and
/// pass incoming ones to [`RelayClient::handle_datagram`].
///
/// Drain [`RelayClient::poll_transmit`] and [`RelayClient::poll_event`] after each of these and after
/// [`RelayClient::handle_timeout`].
pub struct RelayClient {
    secret: Zeroizing<[u8; 32]>,
    keys: KeepAliveKeys,
    listens: bool,
    wants_code: bool,
    names: Vec<VouchedName>,
    proof: Option<[u8; 32]>,
    state: RegistrationState,
    /// The epoch of the ids in outgoing datagrams.
    epoch: u32,
    heads: IdEpoch,
    before: Option<DatagramHead>,
    /// The next epoch, to which the relay may have moved already.
    after: Option<(u32, IdEpoch)>,
    rotated: Duration,
    /// Number of the last keep-alive.
    number: u32,
    /// The highest number that each port has answered.
    answered: [u32; 2],
    lifetime: Duration,
    /// When the next keep-alive is due. `unanswered` counts those sent since the last answer.
    due: Duration,
    unanswered: u32,
    /// Token to return in the next keep-alive.
    token: [u8; TOKEN],
    /// Token that ends a reset in answer to ids of this epoch.
    reset: Option<[u8; TOKEN]>,
    /// Token that ends the relay's notification after it was killed and started again.
    restart_token: Option<[u8; TOKEN]>,
    leaves: bool,
    second: Option<u16>,
    second_due: Option<Duration>,
    second_tries: u32,
    observed: [Option<SocketAddr>; 2],
    heard: Duration,
    traffic: u32,
    /// When the first inner datagram was sent after the last one that has come from the relay.
    sent: Option<Duration>,
    /// Until when unanswered inner datagrams cause no keep-alive.
    tested: Duration,
    /// Whether datagrams travel in a connection, which is up in both directions or in none.
    connected: bool,
    next_tag: u32,
    reached: VecDeque<CircuitTag>,
    incoming: Vec<u8>,
    events: VecDeque<RelayEvent>,
}

impl RelayClient {
    /// A registration with this secret, which has to be random for each relay and run. `listens`: other clients may
    /// connect to this one, by its link key or by one of the `names`.
    #[must_use]
    pub fn new(secret: [u8; 32], listens: bool, names: Vec<VouchedName>) -> Self {
        let secret = Zeroizing::new(secret);
        Self {
            keys: KeepAliveKeys::new(&secret),
            listens,
            wants_code: false,
            names,
            proof: None,
            state: RegistrationState::Asked,
            epoch: 0,
            heads: IdEpoch::new(&secret, 0),
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
            restart_token: None,
            leaves: false,
            second: None,
            second_due: None,
            second_tries: 0,
            observed: [None; 2],
            heard: Duration::ZERO,
            traffic: 0,
            sent: None,
            tested: Duration::ZERO,
            connected: false,
            next_tag: 0,
            reached: VecDeque::new(),
            incoming: Vec::new(),
            events: VecDeque::new(),
            secret,
        }
    }

    /// Also requests a short number by which other clients may connect to this one ([`ConnectTarget::Code`]).
    #[must_use]
    pub fn with_code(mut self) -> Self {
        self.wants_code = true;
        self
    }

    /// Sends this proof that the client knows a token of the relay ([`TeamToken::proof`](super::TeamToken::proof)).
    #[must_use]
    pub fn with_proof(mut self, proof: [u8; 32]) -> Self {
        self.proof = Some(proof);
        self
    }

    /// The first message of the control stream. On the stream of another link it keeps the registration or, after
    /// [`RelayEvent::Lost`], renews it.
    #[must_use]
    pub fn request(&mut self) -> Vec<u8> {
        self.restart_token = Some(wire::restart_token(&self.secret, self.epoch));
        let register = Register {
            secret: self.secret.clone(),
            listens: self.listens,
            wants_code: self.wants_code,
            epoch: self.epoch,
            number: self.number,
            names: self.names.clone(),
            proof: self.proof,
        };
        register.encode()
    }

    /// Requests a circuit to a peer. Returns the peer's tag, valid from now on, and the message for the control stream
    /// after the request.
    pub fn connect(&mut self, target: ConnectTarget) -> (CircuitTag, Vec<u8>) {
        // After some two thousand million requests the tags start again.
        self.next_tag = self.next_tag.wrapping_add(1) & (u32::MAX >> 1);
        self.next_tag = self.next_tag.max(1);
        let tag = CircuitTag::new(self.next_tag).expect("at least 1");
        (tag, wire::connect(tag, target))
    }

    /// Requests a circuit again under its earlier tag, because the relay has lost its state.
    #[must_use]
    pub fn connect_again(&self, tag: CircuitTag, target: ConnectTarget) -> Vec<u8> {
        wire::connect(tag, target)
    }

    /// Starts a new control stream: drops the partial message of the last one.
    pub fn new_stream(&mut self) {
        self.incoming.clear();
    }

    /// Takes bytes of the control stream, cut anywhere.
    ///
    /// # Errors
    /// The relay does not speak this protocol, and the stream cannot be used any more.
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

    fn handle_reply(&mut self, now: Duration, reply: RelayReply) {
        match reply {
            RelayReply::Registered { lifetime, observed, second, code } => {
                self.state = RegistrationState::Registered;
                self.lifetime = Duration::from_secs(lifetime.into());
                // The first keep-alive fetches the token that a reset would end with.
                self.due = now.saturating_add(RETRY);
                (self.unanswered, self.heard, self.traffic) = (0, now, 0);
                (self.sent, self.tested) = (None, now);
                (self.second, self.reset) = (second, None);
                self.events.push_back(RelayEvent::Registered { code });
                self.observe(now, observed, RelayPort::First);
                self.ask_second(now);
            }
            RelayReply::Connected(tag) => self.events.push_back(RelayEvent::Connected(tag)),
            RelayReply::Refused(tag, why) => {
                if tag.is_none() {
                    self.state = RegistrationState::Lost;
                }
                self.events.push_back(RelayEvent::Refused(tag, why));
            }
        }
    }

    fn interval(&self) -> Duration {
        let part = self.lifetime.checked_div(KEEP_ALIVES_PER_LIFETIME).unwrap_or(SHORTEST);
        part.max(SHORTEST)
    }

    /// The header before a datagram for the peer with this tag.
    #[must_use]
    pub fn header(&self, tag: CircuitTag) -> [u8; HEADER] {
        self.heads.up.header(Some(tag))
    }

    /// Notes that inner datagrams were sent. If none comes back for 0.7 s, a keep-alive shows whether the relay or the
    /// peer is silent.
    pub fn on_sent(&mut self, now: Duration) {
        if self.sent.is_none() && now >= self.tested {
            self.sent = Some(now);
        }
    }

    /// Sets whether datagrams travel in a connection. What arrives over it shows that keep-alives pass, too.
    pub fn set_connected(&mut self, connected: bool) {
        self.connected = connected;
    }

    /// The number of the relay's second port, meant by [`RelayPort::Second`].
    #[must_use]
    pub fn second_port(&self) -> Option<u16> {
        self.second
    }

    /// The addresses at which the two ports of the relay observe this client.
    #[must_use]
    pub fn observed(&self) -> [Option<SocketAddr>; 2] {
        self.observed
    }

    /// Takes a datagram that came from the relay; `from_second`: from its second port.
    pub fn handle_datagram(
        &mut self,
        now: Duration,
        from_second: bool,
        datagram: &mut [u8],
    ) -> DatagramKind {
        let Some(id) = DatagramId::of(datagram) else { return DatagramKind::Not };
        if let Some(token) = &self.reset
            && !from_second
            && wire::is_reset(datagram, token)
        {
            self.on_registration_lost();
            return DatagramKind::Control;
        }
        if !from_second
            && self.restart_token.take_if(|token| wire::is_reset(datagram, token)).is_some()
        {
            // The answer to a keep-alive shows whether the relay has lost the registration. A forged notification costs
            // one keep-alive.
            self.refresh(now);
            return DatagramKind::Control;
        }
        let after = self.after.map(|(_, epoch)| epoch.down);
        let heads = [Some(self.heads.down), after, self.before];
        let Some(head) = heads.into_iter().flatten().find(|head| head.id == id) else {
            return DatagramKind::Not;
        };
        let Some(tag) = CircuitTag::new(head.tag(datagram)) else {
            // A datagram that does not decrypt is dropped. It had this client's id, so it belongs to no other part of
            // the program.
            if let Some(answer) = wire::open(&self.keys.down, datagram) {
                self.handle_answer(now, from_second, &answer);
            }
            return DatagramKind::Control;
        };
        if from_second {
            return DatagramKind::Control;
        }
        (self.heard, self.sent) = (now, None);
        self.traffic = self.traffic.saturating_add(1);
        if self.connected && self.unanswered > 0 {
            self.on_answer(now);
        }
        if tag.is_of_relay() && !self.reached.contains(&tag) {
            if self.reached.len() >= MAX_REACHED {
                self.reached.pop_front();
            }
            self.reached.push_back(tag);
            self.events.push_back(RelayEvent::Reached(tag));
        }
        DatagramKind::Inner(tag)
    }

    fn handle_answer(&mut self, now: Duration, from_second: bool, answer: &KeepAlive) {
        let by = if answer.second { RelayPort::Second } else { RelayPort::First };
        // A replayed answer contains nothing new.
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
        if by == RelayPort::Second || from_second {
            if asked {
                self.second_due = None;
            }
            return;
        }
        if answer.flags & ENDS != 0
            && answer.number == 0
            && self.state == RegistrationState::Registered
        {
            return self.on_registration_lost();
        }
        if asked && answer.flags & PROVE == 0 && answer.epoch == self.epoch {
            self.reset = Some(answer.token).filter(|token| *token != [0; TOKEN]);
        }
        if asked {
            // Traffic is not reset: the path may break right after this answer.
            self.heard = now;
            // The peer may stay silent: it is not the relay's.
            (self.sent, self.tested) = (None, now.saturating_add(SHORTEST));
            self.on_answer(now);
        }
        // The relay does not send to a new address until the client proves that it receives there. A repeated token is
        // answered again, but only one answer is sent for each datagram of the relay.
        let asks = asked || answer.number == 0;
        if asks && answer.flags & PROVE != 0 && self.state == RegistrationState::Registered {
            self.token = answer.token;
            self.due = now;
        }
    }

    /// Schedules the next keep-alive, as the relay is there.
    fn on_answer(&mut self, now: Duration) {
        if core::mem::take(&mut self.unanswered) > SILENT_AFTER {
            self.events.push_back(RelayEvent::Answers);
        }
        self.due = now.saturating_add(self.interval());
    }

    /// The relay has lost the registration. New ids make replays of its message ineffective.
    fn on_registration_lost(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.heads = IdEpoch::new(&self.secret, self.epoch);
        (self.before, self.after, self.reset) = (None, None, None);
        self.lost();
    }

    fn lost(&mut self) {
        self.state = RegistrationState::Lost;
        self.events.push_back(RelayEvent::Lost);
    }

    fn observe(&mut self, now: Duration, address: Option<SocketAddr>, by: RelayPort) {
        let Some(address) = address else { return };
        let place = usize::from(by == RelayPort::Second);
        let [first, second] = &mut self.observed;
        let known = if by == RelayPort::Second { second } else { first };
        if *known == Some(address) {
            return;
        }
        *known = Some(address);
        self.events.push_back(RelayEvent::Observed { address, by });
        // The two observations have to be from the same time.
        if place == 0 {
            self.ask_second(now);
        }
    }

    fn ask_second(&mut self, now: Duration) {
        if self.second.is_some() && self.state == RegistrationState::Registered {
            (self.second_due, self.second_tries) = (Some(now), 0);
        }
    }

    /// Sends a keep-alive now, because the client's address may have changed.
    pub fn refresh(&mut self, now: Duration) {
        if self.state == RegistrationState::Registered {
            self.due = now;
        }
    }

    /// Ends the registration. One last datagram notifies the relay.
    pub fn deregister(&mut self, now: Duration) {
        if self.state == RegistrationState::Registered {
            self.leaves = true;
            self.due = now;
        }
    }

    /// The next datagram for the relay, and the port to send it to.
    pub fn poll_transmit(&mut self, now: Duration) -> Option<(RelayPort, Vec<u8>)> {
        if self.state != RegistrationState::Registered {
            return None;
        }
        if self.second_due.is_some_and(|due| due <= now) {
            self.second_tries = self.second_tries.saturating_add(1);
            let again = self.second_tries < SECOND_TRIES;
            self.second_due = again.then(|| now.saturating_add(RETRY));
            return Some((RelayPort::Second, self.keep_alive(self.epoch)));
        }
        if self.due > now {
            return None;
        }
        let rotates = now >= self.rotated.saturating_add(MIN_EPOCH_LIFETIME) && !self.leaves;
        let (next, _) = match self.after {
            Some(after) => after,
            None if rotates => {
                let next = self.epoch.wrapping_add(1);
                *self.after.insert((next, IdEpoch::new(&self.secret, next)))
            }
            None => (self.epoch, self.heads),
        };
        let datagram = self.keep_alive(next);
        self.token = [0; TOKEN];
        let longer = self.unanswered.saturating_sub(SILENT_AFTER.saturating_sub(1)).min(2);
        self.due = now.saturating_add(RETRY.saturating_mul(1 << longer));
        self.unanswered = self.unanswered.saturating_add(1);
        if self.leaves {
            self.state = RegistrationState::Lost;
        }
        Some((RelayPort::First, datagram))
    }

    fn keep_alive(&mut self, epoch: u32) -> Vec<u8> {
        self.number = self.number.saturating_add(1);
        let flags = if self.leaves { wire::LEAVES } else { 0 };
        let (number, token) = (self.number, self.token);
        let keep = KeepAlive { flags, number, epoch, token, ..KeepAlive::default() };
        let random = keyed_hash(&self.keys.up, &number.to_be_bytes()).as_bytes()[0];
        let padding = random.checked_rem(PADDING).unwrap_or(0);
        wire::seal(&self.keys.up, self.heads.up, &keep, padding)
    }

    /// Takes the oldest event.
    pub fn poll_event(&mut self) -> Option<RelayEvent> {
        self.events.pop_front()
    }

    /// When to call [`RelayClient::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        if self.state != RegistrationState::Registered {
            return None;
        }
        let silence = (self.traffic >= TRAFFIC).then(|| self.heard.saturating_add(RETRY));
        let unanswered = self.sent.map(|sent| sent.saturating_add(RETRY));
        [Some(self.due), self.second_due, silence, unanswered].into_iter().flatten().min()
    }

    /// Handles due timers. [`RelayClient::poll_transmit`] may have something afterwards.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.state != RegistrationState::Registered {
            return;
        }
        if self.traffic >= TRAFFIC && now >= self.heard.saturating_add(RETRY) {
            self.traffic = 0;
            self.due = self.due.min(now);
        }
        if self.sent.is_some_and(|sent| now >= sent.saturating_add(RETRY)) {
            (self.sent, self.tested) = (None, now.saturating_add(SHORTEST));
            // A keep-alive that is unanswered is repeated in any case.
            if self.unanswered == 0 {
                self.due = self.due.min(now);
            }
        }
        if self.due <= now && self.unanswered >= LOST_AFTER {
            self.lost();
        } else if self.due <= now && self.unanswered == SILENT_AFTER {
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
