//! The event loop's machinery: sockets and faces around one [`Forwarder`] and one [`Endpoint`].
//!
//! Datagrams and streams come in, packets go through the forwarder, and what is meant for the
//! application waits as [`Happening`]s. One thread owns it all. The caller's loop is
//!
//! 1. [`Engine::wait`] until something arrives or a deadline passes,
//! 2. [`Engine::next_happening`] until there is none, answering through [`Engine::send`],
//! 3. [`Engine::flush`].

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use xylem_forward::{FaceId, FaceScope, Forwarder, Incoming, Outgoing, Outlet};
use xylem_link::{Endpoint, Event as LinkEvent, LinkId, PeerKey};
use xylem_packet::{LpPacket, NameRef};

use crate::tcp::Tcp;
use crate::udp::{Oversize, Udp};

/// Faces of plain UDP and TCP peers that are kept; more are ignored or refused.
const MAX_PLAIN_FACES: usize = 1_024;
/// A plain UDP peer that says nothing for this long loses its face.
const UDP_FACE_IDLE: Duration = Duration::from_secs(60);
/// Longest sleep, so that a raised stop flag is seen.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// What the application hears from the engine.
#[derive(Debug)]
pub(crate) enum Happening {
    /// A face can be used from now on.
    FaceUp { face: FaceId, peer: String },
    /// A face is gone, or a dialled one never came up.
    FaceDown { face: FaceId, peer: String, why: String },
    /// A packet for the application; `from` is the face that it came over.
    Packet { from: FaceId, packet: Bytes },
}

/// What a face is made of.
enum Transport {
    Application,
    Link(LinkId),
    Udp { socket: usize, remote: SocketAddr, heard: Duration },
    Tcp(Token),
}

/// What a poll token stands for.
#[derive(Clone, Copy)]
enum Source {
    Link(usize),
    Udp(usize),
    Listener(usize),
    Stream(FaceId),
}

/// See the module's documentation.
pub(crate) struct Engine {
    epoch: Instant,
    poll: Poll,
    events: Events,
    tokens: HashMap<Token, Source>,
    next_token: usize,
    unfinished: Vec<Source>,
    endpoint: Endpoint,
    link_sockets: Vec<Udp>,
    udp_sockets: Vec<Udp>,
    listeners: Vec<TcpListener>,
    streams: HashMap<FaceId, Tcp>,
    pub(crate) forwarder: Forwarder,
    application: FaceId,
    faces: HashMap<FaceId, (Transport, String)>,
    by_link: HashMap<LinkId, FaceId>,
    dialled: HashMap<LinkId, (FaceId, String)>,
    by_udp: HashMap<(usize, SocketAddr), FaceId>,
    heard_on: HashMap<SocketAddr, usize>,
    happenings: VecDeque<Happening>,
    forwarded: Vec<(FaceId, Bytes)>,
    datagram: Vec<u8>,
}

impl Engine {
    /// An engine without sockets.
    pub(crate) fn new(endpoint: Endpoint, mut forwarder: Forwarder) -> io::Result<Self> {
        let application = forwarder.add_face(FaceScope::Local);
        let faces = HashMap::from([(application, (Transport::Application, String::new()))]);
        Ok(Self {
            epoch: Instant::now(),
            poll: Poll::new()?,
            events: Events::with_capacity(256),
            tokens: HashMap::new(),
            next_token: 0,
            unfinished: Vec::new(),
            endpoint,
            link_sockets: Vec::new(),
            udp_sockets: Vec::new(),
            listeners: Vec::new(),
            streams: HashMap::new(),
            forwarder,
            application,
            faces,
            by_link: HashMap::new(),
            dialled: HashMap::new(),
            by_udp: HashMap::new(),
            heard_on: HashMap::new(),
            happenings: VecDeque::new(),
            forwarded: Vec::new(),
            datagram: Vec::new(),
        })
    }

    /// Time since the engine was made: the `now` of every sans-io part.
    pub(crate) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    fn token(&mut self, source: Source) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        self.tokens.insert(token, source);
        token
    }

    /// Binds a socket for encrypted links; returns what was bound.
    pub(crate) fn bind_link(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let mut socket = Udp::bind(address, Oversize::Lose)?;
        let token = self.token(Source::Link(self.link_sockets.len()));
        socket.register(&self.poll, token)?;
        let local = socket.local();
        self.link_sockets.push(socket);
        Ok(local)
    }

    /// Makes sure that there is a socket from which `to` can be dialled.
    pub(crate) fn open_link_socket(&mut self, to: SocketAddr) -> io::Result<()> {
        if self.socket_for(to).is_none() {
            self.bind_link(wildcard(to))?;
        }
        Ok(())
    }

    /// Binds a socket for plain NDN over UDP.
    pub(crate) fn bind_udp(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let mut socket = Udp::bind(address, Oversize::Fragment)?;
        let token = self.token(Source::Udp(self.udp_sockets.len()));
        socket.register(&self.poll, token)?;
        let local = socket.local();
        self.udp_sockets.push(socket);
        Ok(local)
    }

    /// Listens for plain NDN over TCP.
    pub(crate) fn bind_tcp(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let mut listener = TcpListener::bind(address)?;
        let token = self.token(Source::Listener(self.listeners.len()));
        self.poll.registry().register(&mut listener, token, Interest::READABLE)?;
        let local = listener.local_addr()?;
        self.listeners.push(listener);
        Ok(local)
    }

    /// Bytes that the link sockets' receive buffers hold before the kernel drops.
    pub(crate) fn receive_capacity(&self) -> usize {
        let capacities = self.link_sockets.iter().chain(&self.udp_sockets);
        capacities.map(Udp::receive_capacity).min().unwrap_or(usize::MAX)
    }

    /// Routes a prefix to the application.
    pub(crate) fn serve(&mut self, prefix: NameRef<'_>) {
        self.forwarder
            .add_route(prefix, self.application, 0)
            .expect("the first route of a forwarder to a face that it has just made");
    }

    /// Dials an encrypted link; the outcome comes as a happening for the face that is returned.
    pub(crate) fn dial_link(&mut self, to: SocketAddr, key: Option<PeerKey>) -> FaceId {
        let link = self.endpoint.connect(self.now(), to, key);
        let face = self.forwarder.add_face(FaceScope::NonLocal);
        self.dialled.insert(link, (face, to.to_string()));
        face
    }

    /// Makes a face to a plain NDN peer over UDP; it can be used at once.
    pub(crate) fn dial_udp(&mut self, to: SocketAddr) -> io::Result<FaceId> {
        let family = |s: &Udp| s.local().is_ipv4() == to.is_ipv4();
        let socket = match self.udp_sockets.iter().position(family) {
            Some(socket) => socket,
            None => {
                self.bind_udp(wildcard(to))?;
                self.udp_sockets.len() - 1
            }
        };
        let face = self.add_udp_face(socket, to, Duration::MAX);
        let peer = format!("udp://{to}");
        self.happenings.push_back(Happening::FaceUp { face, peer });
        Ok(face)
    }

    /// Dials a plain NDN peer over TCP.
    pub(crate) fn dial_tcp(&mut self, to: SocketAddr) -> io::Result<FaceId> {
        let stream = TcpStream::connect(to)?;
        self.add_stream(stream, to, false)
    }

    fn add_udp_face(&mut self, socket: usize, remote: SocketAddr, heard: Duration) -> FaceId {
        let face = self.forwarder.add_face(FaceScope::NonLocal);
        let transport = Transport::Udp { socket, remote, heard };
        self.faces.insert(face, (transport, format!("udp://{remote}")));
        self.by_udp.insert((socket, remote), face);
        face
    }

    fn add_stream(
        &mut self,
        stream: TcpStream,
        remote: SocketAddr,
        connected: bool,
    ) -> io::Result<FaceId> {
        let face = self.forwarder.add_face(FaceScope::NonLocal);
        let token = self.token(Source::Stream(face));
        let tcp = Tcp::new(stream, remote, token, connected, &self.poll)?;
        self.streams.insert(face, tcp);
        self.faces.insert(face, (Transport::Tcp(token), format!("tcp://{remote}")));
        Ok(face)
    }

    /// Sleeps until something arrives, `deadline` passes or a part's own timer is due, then takes
    /// in what came.
    pub(crate) fn wait(&mut self, deadline: Option<Duration>) -> io::Result<()> {
        let now = self.now();
        let timers = [deadline, self.endpoint.poll_timeout(), self.forwarder.poll_timeout()];
        let due = timers.into_iter().flatten().min().map(|t| t.saturating_sub(now));
        let idle = self.unfinished.is_empty() && self.happenings.is_empty();
        let sleep = if idle { due.unwrap_or(MAX_SLEEP).min(MAX_SLEEP) } else { Duration::ZERO };
        match self.poll.poll(&mut self.events, Some(sleep)) {
            Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
            _ => {}
        }
        let mut ready = std::mem::take(&mut self.unfinished);
        ready.extend(self.events.iter().filter_map(|e| self.tokens.get(&e.token())));
        for source in ready {
            match source {
                Source::Link(i) => self.receive_link(i, source)?,
                Source::Udp(i) => self.receive_udp(i, source)?,
                Source::Listener(i) => self.accept(i),
                Source::Stream(face) => self.receive_stream(face),
            }
        }
        let now = self.now();
        if self.endpoint.poll_timeout().is_some_and(|t| t <= now) {
            self.endpoint.handle_timeout(now);
            self.drain_endpoint(now);
        }
        if self.forwarder.poll_timeout().is_some_and(|t| t <= now) {
            self.forwarder.handle_timeout(now, &mut Queue(&mut self.forwarded, None));
            self.dispatch(self.application);
            self.forget_idle_udp(now);
        }
        Ok(())
    }

    fn receive_link(&mut self, i: usize, source: Source) -> io::Result<()> {
        let now = self.now();
        let Self { link_sockets, endpoint, heard_on, .. } = self;
        let many = link_sockets.len() > 1;
        let more = link_sockets[i].receive(&mut |from, datagram| {
            if many && (heard_on.len() < MAX_PLAIN_FACES || heard_on.contains_key(&from)) {
                heard_on.insert(from, i);
            }
            endpoint.handle_datagram(now, from, datagram);
        })?;
        self.drain_endpoint(now);
        if more {
            self.unfinished.push(source);
        }
        Ok(())
    }

    fn drain_endpoint(&mut self, now: Duration) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                LinkEvent::Packet { link, packet } => {
                    if let Some(&face) = self.by_link.get(&link) {
                        self.forward(now, face, packet);
                    }
                }
                LinkEvent::Connected { link, remote, .. } => {
                    let (face, peer) = self.dialled.remove(&link).unwrap_or_else(|| {
                        (self.forwarder.add_face(FaceScope::NonLocal), remote.to_string())
                    });
                    self.by_link.insert(link, face);
                    self.faces.insert(face, (Transport::Link(link), peer.clone()));
                    self.happenings.push_back(Happening::FaceUp { face, peer });
                }
                LinkEvent::Closed { link, reason } => {
                    if let Some((face, peer)) = self.dialled.remove(&link) {
                        self.forwarder.remove_face(face);
                        let why = reason.to_string();
                        self.happenings.push_back(Happening::FaceDown { face, peer, why });
                    } else if let Some(face) = self.by_link.remove(&link) {
                        self.drop_face(face, &reason.to_string());
                    }
                }
            }
        }
    }

    fn receive_udp(&mut self, i: usize, source: Source) -> io::Result<()> {
        let mut packets = Vec::new();
        let more = self.udp_sockets[i]
            .receive(&mut |from, datagram| packets.push((from, datagram.freeze())))?;
        let now = self.now();
        for (from, packet) in packets {
            let known = self.by_udp.get(&(i, from)).copied();
            let face = match known {
                Some(face) => face,
                None if self.by_udp.len() < MAX_PLAIN_FACES => self.add_udp_face(i, from, now),
                None => continue,
            };
            if let Some((Transport::Udp { heard, .. }, _)) = self.faces.get_mut(&face) {
                // Dialled faces (heard == MAX) stay until they are closed.
                *heard = (*heard).max(now);
            }
            self.forward(now, face, packet);
        }
        if more {
            self.unfinished.push(source);
        }
        Ok(())
    }

    fn forget_idle_udp(&mut self, now: Duration) {
        let idle = |t: &Transport| matches!(t, Transport::Udp { heard, .. } if *heard + UDP_FACE_IDLE < now);
        if self.by_udp.len() < MAX_PLAIN_FACES / 2 {
            return;
        }
        let gone: Vec<FaceId> =
            self.faces.iter().filter(|(_, (t, _))| idle(t)).map(|(f, _)| *f).collect();
        for face in gone {
            self.drop_face(face, "idle");
        }
    }

    fn accept(&mut self, i: usize) {
        while let Ok((stream, remote)) = self.listeners[i].accept() {
            if self.streams.len() < MAX_PLAIN_FACES {
                let _ = self.add_stream(stream, remote, true);
            }
        }
    }

    fn receive_stream(&mut self, face: FaceId) {
        let Some(tcp) = self.streams.get_mut(&face) else { return };
        let mut packets = Vec::new();
        let outcome = tcp.finish_connect().and_then(|up| {
            if up {
                let peer = format!("tcp://{}", tcp.remote());
                self.happenings.push_back(Happening::FaceUp { face, peer });
            }
            if tcp.connected() { tcp.receive(&mut |p| packets.push(p)) } else { Ok(()) }
        });
        let now = self.now();
        for packet in packets {
            self.forward(now, face, packet);
        }
        if let Err(e) = outcome {
            self.drop_face(face, &e.to_string());
        }
    }

    /// Closes a face and tells the application.
    pub(crate) fn drop_face(&mut self, face: FaceId, why: &str) {
        self.forwarder.remove_face(face);
        let Some((transport, peer)) = self.faces.remove(&face) else { return };
        match transport {
            Transport::Application => {}
            Transport::Link(link) => {
                self.by_link.remove(&link);
                self.endpoint.close(link);
            }
            Transport::Udp { socket, remote, .. } => {
                self.by_udp.remove(&(socket, remote));
            }
            Transport::Tcp(token) => {
                self.tokens.remove(&token);
                self.streams.remove(&face);
            }
        }
        self.happenings.push_back(Happening::FaceDown { face, peer, why: why.to_owned() });
    }

    fn forward(&mut self, now: Duration, from: FaceId, packet: Bytes) {
        // A dropped packet is counted by the forwarder; whoever sent it learns nothing.
        if let Some(incoming) = take_headers(&packet) {
            let mut queue = Queue(&mut self.forwarded, Some(&packet));
            let _ = self.forwarder.handle_packet(now, from, incoming, &mut queue);
        }
        self.dispatch(from);
    }

    /// Gives a packet of the application to the forwarder.
    pub(crate) fn send(&mut self, packet: Bytes) {
        let now = self.now();
        self.forward(now, self.application, packet);
    }

    fn dispatch(&mut self, from: FaceId) {
        for (to, packet) in self.forwarded.drain(..) {
            match self.faces.get(&to) {
                Some((Transport::Application, _)) => {
                    self.happenings.push_back(Happening::Packet { from, packet });
                }
                Some((Transport::Link(link), _)) => {
                    // A full queue drops the packet as a full router would.
                    let _ = self.endpoint.send(*link, &packet);
                }
                Some((Transport::Udp { socket, remote, .. }, _)) => {
                    self.udp_sockets[*socket].send(*remote, &packet, None);
                }
                Some((Transport::Tcp(_), _)) => {
                    if let Some(tcp) = self.streams.get_mut(&to) {
                        tcp.queue(&packet);
                    }
                }
                None => {}
            }
        }
    }

    /// What the application has to look at next.
    pub(crate) fn next_happening(&mut self) -> Option<Happening> {
        self.happenings.pop_front()
    }

    /// Hands everything that waits to the kernel.
    pub(crate) fn flush(&mut self) {
        self.flush_links();
        if self.streams.is_empty() {
            return;
        }
        let mut broken = Vec::new();
        for (face, tcp) in &mut self.streams {
            if let Err(e) = tcp.flush(&self.poll) {
                broken.push((*face, e.to_string()));
            }
        }
        for (face, why) in broken {
            self.drop_face(face, &why);
        }
    }

    /// Seals and sends what waits on encrypted links; called in the middle of long answers too, so
    /// that queues stay short and the peer works in parallel.
    pub(crate) fn flush_links(&mut self) {
        let now = self.now();
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.datagram) {
            let socket = self.socket_for(transmit.to);
            if let Some(socket) = socket {
                let contents = &self.datagram[..transmit.len];
                self.link_sockets[socket].send(transmit.to, contents, transmit.segment_size);
            }
        }
    }

    fn socket_for(&self, to: SocketAddr) -> Option<usize> {
        let family = |s: &Udp| s.local().is_ipv4() == to.is_ipv4();
        let heard = self.heard_on.get(&to).copied();
        heard.or_else(|| self.link_sockets.iter().position(family))
    }

    /// Says goodbye on every link, so that peers need not wait for a time-out.
    pub(crate) fn close(&mut self) {
        let links: Vec<LinkId> = self.by_link.keys().copied().collect();
        for link in links {
            self.endpoint.close(link);
        }
        self.flush();
    }
}

/// The packet within a frame, and what the frame says around it; `None` if there is none.
fn take_headers(frame: &Bytes) -> Option<Incoming<'_>> {
    if frame.first() != Some(&0x64) {
        return Some(Incoming::bare(frame));
    }
    let lp = LpPacket::decode(frame).ok().filter(|lp| !lp.is_fragmented())?;
    Some(Incoming {
        packet: lp.fragment?,
        pit_token: lp.pit_token,
        nack: lp.nack,
        congestion_mark: lp.congestion_mark,
        next_hop: lp.next_hop_face_id.map(FaceId),
        no_cache: false,
    })
}

/// What the forwarder sends, with the frame that came in, of which it may be a part.
struct Queue<'a>(&'a mut Vec<(FaceId, Bytes)>, Option<&'a Bytes>);

impl Outlet for Queue<'_> {
    fn send(&mut self, to: FaceId, leaving: Outgoing<'_>) {
        let bytes = leaving.packet.as_ptr_range();
        let bare = leaving.pit_token.is_none()
            && leaving.nack.is_none()
            && leaving.congestion_mark.is_none();
        let within = |frame: &&Bytes| {
            let whole = frame.as_ptr_range();
            whole.start <= bytes.start && bytes.end <= whole.end
        };
        let frame = match self.1.filter(within) {
            Some(frame) if bare => frame.slice_ref(leaving.packet),
            _ if bare => Bytes::copy_from_slice(leaving.packet),
            _ => {
                let mut out = Vec::new();
                LpPacket {
                    fragment: Some(leaving.packet),
                    pit_token: leaving.pit_token,
                    nack: leaving.nack,
                    congestion_mark: leaving.congestion_mark,
                    ..Default::default()
                }
                .encode(&mut out);
                out.into()
            }
        };
        self.0.push((to, frame));
    }
}

/// Any address of this machine and any port, in the family of `to`.
fn wildcard(to: SocketAddr) -> SocketAddr {
    match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}
