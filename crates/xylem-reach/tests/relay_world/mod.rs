//! A simulated relay, its clients, and the network between them.

use std::net::SocketAddr;
use std::time::Duration;

use xylem_reach::relay::{
    CircuitTag, ConnectTarget, ControlSession, DatagramKind, HEADER, RelayClient, RelayConfig,
    RelayEvent, RelayPeer, RelayPort, RelayServer, Relayed, VouchedName,
};
pub(crate) use xylem_sim::Conditions;
use xylem_sim::{EventQueue, Path};

enum Event {
    /// A datagram for the relay.
    Up(RelayPort, SocketAddr, Vec<u8>),
    /// A datagram for the client at an address.
    Down(RelayPort, SocketAddr, Vec<u8>),
    /// Bytes of a client's control stream, which the link retransmits until they arrive.
    Asks(usize, Vec<u8>),
    Answers(usize, Vec<u8>),
    Timer,
}

struct Member {
    client: RelayClient,
    session: ControlSession,
    at: SocketAddr,
    cut: bool,
    mute: bool,
    up: Path,
    down: Path,
    sent: Vec<Vec<u8>>,
    heard: Vec<(RelayPort, Vec<u8>)>,
    received: Vec<(CircuitTag, Vec<u8>)>,
    events: Vec<RelayEvent>,
}

pub(crate) struct World {
    pub(crate) relay: RelayServer,
    config: RelayConfig,
    conditions: Conditions,
    seed: u64,
    queue: EventQueue<Event>,
    members: Vec<Member>,
    cuts: bool,
    answers: bool,
    /// Bytes that came from, and went to, each address.
    seen: Vec<(SocketAddr, usize, usize)>,
}

pub(crate) fn key(client: usize) -> [u8; 32] {
    [100 + u8::try_from(client).expect("few"); 32]
}

pub(crate) fn at(client: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, u8::try_from(client).expect("few")], 5000))
}

impl World {
    pub(crate) fn new(config: RelayConfig, conditions: Conditions, seed: u64) -> Self {
        let config = RelayConfig { second_port: Some(7349), ..config };
        Self {
            relay: RelayServer::new(config.clone(), [1; 32]),
            config,
            conditions,
            seed,
            queue: EventQueue::new(),
            members: Vec::new(),
            cuts: false,
            answers: false,
            seen: Vec::new(),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.queue.now()
    }

    pub(crate) fn client(&mut self, listens: bool, names: Vec<VouchedName>) -> usize {
        let number = self.members.len();
        let secret = [200 + u8::try_from(number).expect("few"); 32];
        let seed = self.seed * 1_000 + number as u64;
        self.members.push(Member {
            client: RelayClient::new(secret, listens, names),
            session: ControlSession::default(),
            at: at(number),
            cut: false,
            mute: false,
            up: Path::new(self.conditions, seed),
            down: Path::new(self.conditions, seed + 500),
            sent: Vec::new(),
            heard: Vec::new(),
            received: Vec::new(),
            events: Vec::new(),
        });
        number
    }

    pub(crate) fn give_code(&mut self, client: usize) {
        let member = &mut self.members[client];
        let fresh = RelayClient::new([1; 32], true, vec![]);
        member.client = std::mem::replace(&mut member.client, fresh).with_code();
    }

    /// Registers over a new link and stream.
    pub(crate) fn register(&mut self, client: usize) {
        let member = &mut self.members[client];
        member.client.new_stream();
        member.session = ControlSession::default();
        let request = member.client.request();
        self.ask(client, request);
    }

    pub(crate) fn connect(&mut self, client: usize, target: ConnectTarget) -> CircuitTag {
        let (tag, message) = self.members[client].client.connect(target);
        self.ask(client, message);
        tag
    }

    pub(crate) fn connect_again(&mut self, client: usize, tag: CircuitTag, target: ConnectTarget) {
        let message = self.members[client].client.connect_again(tag, target);
        self.ask(client, message);
    }

    /// Sends a keep-alive now.
    pub(crate) fn refresh(&mut self, client: usize) {
        let now = self.now();
        self.members[client].client.refresh(now);
        self.settle();
    }

    pub(crate) fn register_and_connect(
        &mut self,
        client: usize,
        target: ConnectTarget,
    ) -> CircuitTag {
        self.register(client);
        self.connect(client, target)
    }

    /// Makes two connected clients. Also returns the tag of the one that requested the circuit.
    pub(crate) fn pair(&mut self) -> (usize, usize, CircuitTag) {
        let (a, b) = (self.client(false, vec![]), self.client(true, vec![]));
        self.register(b);
        self.run(self.now() + Duration::from_millis(100));
        let tag = self.register_and_connect(a, ConnectTarget::Key(key(b)));
        self.run(self.now() + Duration::from_millis(200));
        // Until each has received from the other.
        while self.members[b].received.is_empty() {
            self.send(a, tag, b"hello");
            self.run(self.now() + Duration::from_millis(200));
        }
        while self.members[a].received.is_empty() {
            let back = self.members[b].received[0].0;
            self.send(b, back, b"hello");
            self.run(self.now() + Duration::from_millis(200));
        }
        (a, b, tag)
    }

    fn ask(&mut self, client: usize, bytes: Vec<u8>) {
        let at = self.now() + self.conditions.delay;
        self.queue.schedule(at, Event::Asks(client, bytes));
    }

    pub(crate) fn header(&self, client: usize, tag: CircuitTag) -> [u8; HEADER] {
        self.members[client].client.header(tag)
    }

    pub(crate) fn send(&mut self, client: usize, tag: CircuitTag, datagram: &[u8]) {
        let now = self.now();
        let member = &mut self.members[client].client;
        let header = member.header(tag);
        member.on_sent(now);
        self.up(client, RelayPort::First, [&header[..], datagram].concat());
        self.settle();
    }

    /// The client's datagrams travel in a connection from now on.
    pub(crate) fn set_connected(&mut self, client: usize) {
        self.members[client].client.set_connected(true);
    }

    fn up(&mut self, client: usize, port: RelayPort, datagram: Vec<u8>) {
        let now = self.now();
        let member = &mut self.members[client];
        member.sent.push(datagram.clone());
        if member.cut || member.mute {
            return;
        }
        for delivery in member.up.send(now, datagram.len(), false) {
            let event = Event::Up(port, member.at, delivery.packet(&datagram));
            self.queue.schedule(delivery.at, event);
        }
    }

    /// Injects a datagram to the relay, as an attacker could.
    pub(crate) fn inject(&mut self, port: RelayPort, from: SocketAddr, datagram: Vec<u8>) {
        self.queue.schedule(self.now(), Event::Up(port, from, datagram));
    }

    /// Sends a keep-alive that arrives from another address.
    pub(crate) fn refresh_from(&mut self, client: usize, from: SocketAddr) {
        let now = self.now();
        let member = &mut self.members[client];
        member.client.refresh(now);
        while let Some((port, datagram)) = member.client.poll_transmit(now) {
            self.queue.schedule(now, Event::Up(port, from, datagram));
        }
    }

    /// All datagrams that the client has sent.
    pub(crate) fn sent(&self, client: usize) -> Vec<Vec<u8>> {
        self.members[client].sent.clone()
    }

    /// All datagrams that the client has received.
    pub(crate) fn heard(&self, client: usize) -> Vec<(RelayPort, Vec<u8>)> {
        self.members[client].heard.clone()
    }

    /// Delivers a datagram to the client as if the relay had sent it.
    pub(crate) fn hear(&mut self, client: usize, port: RelayPort, datagram: Vec<u8>) {
        let event = Event::Down(port, self.members[client].at, datagram);
        self.queue.schedule(self.now(), event);
    }

    /// Bytes that came from an address, and that went there.
    pub(crate) fn traffic_of(&self, address: SocketAddr) -> (usize, usize) {
        let seen = self.seen.iter().find(|(one, ..)| *one == address);
        seen.map_or((0, 0), |(_, from, to)| (*from, *to))
    }

    pub(crate) fn received(&self, client: usize) -> Vec<(CircuitTag, Vec<u8>)> {
        self.members[client].received.clone()
    }

    pub(crate) fn events(&self, client: usize) -> &[RelayEvent] {
        &self.members[client].events
    }

    pub(crate) fn cut(&mut self, client: usize, cut: bool) {
        self.members[client].cut = cut;
    }

    /// Nothing of this client arrives at the relay from now on.
    pub(crate) fn mute(&mut self, client: usize) {
        self.members[client].mute = true;
    }

    pub(crate) fn move_to(&mut self, client: usize, to: SocketAddr) {
        self.members[client].at = to;
    }

    pub(crate) fn leave(&mut self, client: usize) {
        let now = self.now();
        self.members[client].client.deregister(now);
        self.settle();
    }

    pub(crate) fn restart_relay(&mut self) {
        self.relay = RelayServer::new(self.config.clone(), [2; 32]);
        if self.answers {
            self.relay.enable_resets([3; 32]);
        }
    }

    /// Kills the relay, and starts it again with the stored clients.
    pub(crate) fn kill_relay(&mut self) {
        let kept = self.relay.clients();
        self.restart_relay();
        self.relay.notify_clients(self.now(), &kept);
        self.settle();
    }

    /// The relay answers unknown ids with resets, now and after a restart.
    pub(crate) fn answer_forgotten(&mut self) {
        self.answers = true;
        self.relay.enable_resets([3; 32]);
    }

    /// Ends the relay in good order. Nothing runs there afterwards.
    pub(crate) fn end_relay(&mut self) {
        self.relay.notify_end();
        self.settle();
        self.restart_relay();
    }

    pub(crate) fn cut_streams(&mut self) {
        self.cuts = true;
    }

    pub(crate) fn run(&mut self, until: Duration) {
        self.settle();
        while self.queue.next_at().is_some_and(|at| at <= until) {
            self.queue.advance(self.queue.next_at().expect("one"));
            while let Some(event) = self.queue.pop_due() {
                self.happen(event);
                self.settle();
            }
        }
        self.queue.advance(until);
        self.settle();
    }

    fn count(&mut self, address: SocketAddr, from: usize, to: usize) {
        match self.seen.iter_mut().find(|(one, ..)| *one == address) {
            Some(seen) => (seen.1, seen.2) = (seen.1 + from, seen.2 + to),
            None => self.seen.push((address, from, to)),
        }
    }

    fn happen(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Up(port, from, mut datagram) => {
                self.count(from, datagram.len(), 0);
                let became = self.relay.handle_datagram(now, port, from, &mut datagram);
                match became {
                    Relayed::Forward(to) => self.down(RelayPort::First, to, datagram),
                    Relayed::Not if port == RelayPort::First => {
                        if let Some(begin) = datagram.first_chunk() {
                            self.relay.reset(now, from, begin, datagram.len());
                        }
                    }
                    _ => {}
                }
            }
            Event::Down(port, to, mut datagram) => {
                let second = port == RelayPort::Second;
                let here = |member: &&mut Member| member.at == to && !member.cut;
                let Some(member) = self.members.iter_mut().find(here) else { return };
                member.heard.push((port, datagram.clone()));
                if let DatagramKind::Inner(tag) =
                    member.client.handle_datagram(now, second, &mut datagram)
                {
                    member.received.push((tag, datagram[HEADER..].to_vec()));
                }
            }
            Event::Asks(client, bytes) => {
                let member = &mut self.members[client];
                let peer = RelayPeer { key: key(client), at: member.at, host: member.at.ip() };
                let mut out = Vec::new();
                for piece in bytes.chunks(if self.cuts { 1 } else { usize::MAX }) {
                    let session = &mut member.session;
                    let done = self.relay.handle_request(now, session, &peer, piece, &mut out);
                    done.expect("a request");
                }
                let at = now + self.conditions.delay;
                self.queue.schedule(at, Event::Answers(client, out));
            }
            Event::Answers(client, bytes) => {
                for piece in bytes.chunks(if self.cuts { 1 } else { usize::MAX }) {
                    self.members[client].client.handle_control(now, piece).expect("an answer");
                }
            }
            Event::Timer => {}
        }
    }

    fn down(&mut self, port: RelayPort, to: SocketAddr, datagram: Vec<u8>) {
        self.count(to, 0, datagram.len());
        let now = self.now();
        let Some(member) = self.members.iter_mut().find(|member| member.at == to) else { return };
        for delivery in member.down.send(now, datagram.len(), false) {
            let event = Event::Down(port, to, delivery.packet(&datagram));
            self.queue.schedule(delivery.at, event);
        }
    }

    fn settle(&mut self) {
        let now = self.now();
        self.relay.handle_timeout(now);
        while let Some((port, to, datagram)) = self.relay.poll_transmit() {
            self.down(port, to, datagram);
        }
        let mut next = self.relay.poll_timeout();
        for client in 0..self.members.len() {
            let member = &mut self.members[client];
            if member.client.poll_timeout().is_some_and(|due| due <= now) {
                member.client.handle_timeout(now);
            }
            while let Some((port, datagram)) = self.members[client].client.poll_transmit(now) {
                self.up(client, port, datagram);
            }
            let member = &mut self.members[client];
            while let Some(event) = member.client.poll_event() {
                member.events.push(event);
            }
            next = [next, member.client.poll_timeout()].into_iter().flatten().min();
        }
        if let Some(next) = next.filter(|next| *next > now) {
            self.queue.schedule(next, Event::Timer);
        }
    }
}
