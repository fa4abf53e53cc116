//! [`RelayClient`]: one registration with one relay.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;

use super::wire::{
    self, CircuitTag, ConnectTarget, DatagramId, ENDS, HEADER, KeepAlive, PROVE, Register,
    RelayPort, RelayRefusal, RelayReply, TOKEN, VouchedName, WireError,
};

mod ids;
mod keep;
mod second_port;
mod traffic;

use ids::ClientIds;
use keep::{KeepAliveTimer, Unanswered};
use second_port::SecondPort;
use traffic::{PathTest, RelayTraffic};

/// Minimum time between two keep-alives.
const SHORTEST: Duration = Duration::from_secs(5);
/// Time after which an unanswered keep-alive is repeated, three times. The next wait is twice as long, and each further
/// one four times.
const RETRY: Duration = Duration::from_millis(700);
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
    ids: ClientIds,
    listens: bool,
    wants_code: bool,
    names: Vec<VouchedName>,
    proof: Option<[u8; 32]>,
    state: RegistrationState,
    keep: KeepAliveTimer,
    /// Token to return in the next keep-alive.
    token: [u8; TOKEN],
    /// Token that ends a reset in answer to ids of this epoch.
    reset: Option<[u8; TOKEN]>,
    /// Token that ends the relay's notification after it was killed and started again.
    restart_token: Option<[u8; TOKEN]>,
    leaves: bool,
    second: SecondPort,
    observed: [Option<SocketAddr>; 2],
    traffic: RelayTraffic,
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
        Self {
            ids: ClientIds::new(secret),
            listens,
            wants_code: false,
            names,
            proof: None,
            state: RegistrationState::Asked,
            keep: KeepAliveTimer::new(),
            token: [0; TOKEN],
            reset: None,
            restart_token: None,
            leaves: false,
            second: SecondPort::default(),
            observed: [None; 2],
            traffic: RelayTraffic::default(),
            connected: false,
            next_tag: 0,
            reached: VecDeque::new(),
            incoming: Vec::new(),
            events: VecDeque::new(),
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
        self.leaves = false;
        self.restart_token = Some(self.ids.restart_token());
        let register = Register {
            secret: self.ids.secret().clone(),
            listens: self.listens,
            wants_code: self.wants_code,
            epoch: self.ids.epoch(),
            number: self.keep.number(),
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
                self.keep.begin(now, Duration::from_secs(lifetime.into()));
                if self.leaves {
                    self.keep.send_now(now);
                }
                self.traffic.begin(now);
                self.second.set(second);
                self.reset = None;
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

    /// The header before a datagram for the peer with this tag.
    #[must_use]
    pub fn header(&self, tag: CircuitTag) -> [u8; HEADER] {
        self.ids.header(tag)
    }

    /// Notes that inner datagrams were sent. If none comes back for 0.7 s, a keep-alive shows whether the relay or the
    /// peer is silent.
    pub fn on_sent(&mut self, now: Duration) {
        self.traffic.on_sent(now);
    }

    /// Sets whether datagrams travel in a connection. What arrives over it shows that keep-alives pass, too.
    pub fn set_connected(&mut self, connected: bool) {
        self.connected = connected;
    }

    /// The number of the relay's second port, meant by [`RelayPort::Second`].
    #[must_use]
    pub fn second_port(&self) -> Option<u16> {
        self.second.port()
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
        let Some(head) = self.ids.head_of(id) else { return DatagramKind::Not };
        let Some(tag) = CircuitTag::new(head.tag(datagram)) else {
            // A datagram that does not decrypt is dropped. It had this client's id, so it belongs to no other part of
            // the program.
            if let Some(answer) = self.ids.open(datagram) {
                self.handle_answer(now, from_second, &answer);
            }
            return DatagramKind::Control;
        };
        if from_second {
            return DatagramKind::Control;
        }
        self.traffic.on_received(now);
        if self.connected && self.keep.waits() {
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
        let asked = self.keep.is_new_answer(answer.number, answer.second);
        if asked {
            self.observe(now, answer.observed, by);
            self.ids.confirm(now, answer.epoch);
        }
        if by == RelayPort::Second || from_second {
            if asked {
                self.second.on_answer();
            }
            return;
        }
        if answer.flags & ENDS != 0
            && answer.number == 0
            && self.state == RegistrationState::Registered
        {
            return self.on_registration_lost();
        }
        if asked && answer.flags & PROVE == 0 && answer.epoch == self.ids.epoch() {
            self.reset = Some(answer.token).filter(|token| *token != [0; TOKEN]);
        }
        if asked {
            self.traffic.on_answer(now);
            self.on_answer(now);
        }
        // The relay does not send to a new address until the client proves that it receives there. A repeated token is
        // answered again, but only one answer is sent for each datagram of the relay.
        let asks = asked || answer.number == 0;
        if asks && answer.flags & PROVE != 0 && self.state == RegistrationState::Registered {
            self.token = answer.token;
            self.keep.send_now(now);
        }
    }

    /// Schedules the next keep-alive, as the relay is there.
    fn on_answer(&mut self, now: Duration) {
        if self.keep.on_answer(now) {
            self.events.push_back(RelayEvent::Answers);
        }
    }

    /// The relay has lost the registration. New ids make replays of its message ineffective.
    fn on_registration_lost(&mut self) {
        self.ids.renew();
        self.reset = None;
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
        if self.state == RegistrationState::Registered {
            self.second.ask(now);
        }
    }

    /// Sends a keep-alive now, because the client's address may have changed.
    pub fn refresh(&mut self, now: Duration) {
        if self.state == RegistrationState::Registered {
            self.keep.send_now(now);
        }
    }

    /// Ends the registration. One last datagram notifies the relay; if the relay has not answered the request yet, that is
    /// sent after its answer.
    pub fn deregister(&mut self, now: Duration) {
        self.leaves = self.state != RegistrationState::Lost;
        if self.state == RegistrationState::Registered {
            self.keep.send_now(now);
        }
    }

    /// Whether the registration ends, or has ended, by [`RelayClient::deregister`].
    #[must_use]
    pub fn leaves(&self) -> bool {
        self.leaves
    }

    /// Also registers by these names and for incoming circuits, from the next [`RelayClient::request`] on.
    pub fn listen_as(&mut self, names: Vec<VouchedName>) {
        (self.listens, self.names) = (true, names);
    }

    /// The next datagram for the relay, and the port to send it to.
    pub fn poll_transmit(&mut self, now: Duration) -> Option<(RelayPort, Vec<u8>)> {
        if self.state != RegistrationState::Registered {
            return None;
        }
        if self.second.poll(now) {
            return Some((RelayPort::Second, self.keep_alive(self.ids.epoch())));
        }
        if self.keep.due() > now {
            return None;
        }
        let epoch = self.ids.propose(now, !self.leaves);
        let datagram = self.keep_alive(epoch);
        self.token = [0; TOKEN];
        self.keep.on_sent(now);
        if self.leaves {
            self.state = RegistrationState::Lost;
        }
        Some((RelayPort::First, datagram))
    }

    fn keep_alive(&mut self, epoch: u32) -> Vec<u8> {
        let flags = if self.leaves { wire::LEAVES } else { 0 };
        let (number, token) = (self.keep.next_number(), self.token);
        self.ids.seal(&KeepAlive { flags, number, epoch, token, ..KeepAlive::default() })
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
        let due = [Some(self.keep.due()), self.second.due(), self.traffic.next_timeout()];
        due.into_iter().flatten().min()
    }

    /// Handles due timers. [`RelayClient::poll_transmit`] may have something afterwards.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.state != RegistrationState::Registered {
            return;
        }
        for test in self.traffic.poll(now) {
            // A keep-alive that is unanswered is repeated in any case.
            if test == PathTest::Silence || !self.keep.waits() {
                self.keep.send_soon(now);
            }
        }
        match self.keep.judge(now) {
            Some(Unanswered::Lost) => self.lost(),
            Some(Unanswered::Silent) => self.events.push_back(RelayEvent::Silent),
            None => {}
        }
    }
}

impl fmt::Debug for RelayClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayClient")
            .field("state", &self.state)
            .field("epoch", &self.ids.epoch())
            .field("observed", &self.observed)
            .finish_non_exhaustive()
    }
}
