//! Listening sockets, and the faces made from what arrives at them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mio::Interest;
use mio::event::Source;
use mio::net::{TcpListener, TcpStream};
use xylem_forward::{FaceId, FaceScope, FaceSettings, LinkType};
use xylem_mgmt::{Carrier, FaceUri, Persistency, UriAuthority, UriHost};
use xylem_packet::NameRef;
use xylem_peers::admission::{self, FaceKind};
use xylem_peers::reachable::{FaceAddress, PeerAddress, endpoint};

use super::{Engine, FaceLimits, Network, PollSource};
use crate::error::EngineError;
use crate::faces::{EngineFace, Transport};
use xylem_sockets::Multicast;
#[cfg(target_os = "linux")]
use xylem_sockets::shared::{self, SharedStream};
#[cfg(unix)]
use xylem_sockets::unix;
use xylem_sockets::{Oversize, ReceivedTrain, Udp};
use xylem_sockets::{PacketStream, StreamSocket, listen_tcp};
use xylem_sockets::{Site, WebSocketFace, WebTlsServer};

/// Most faces through shared memory. Each takes 2 MiB and one extra descriptor, which the division of descriptors does
/// not count. So there are few where descriptors are few.
#[cfg(target_os = "linux")]
fn max_shared() -> usize {
    (xylem_sockets::descriptors() / 64).min(64)
}

/// Connections that one listener accepts in one turn, so that a peer that connects without pause holds up no other.
const ACCEPTS_A_TURN: usize = 64;

/// The protocol on an accepted TCP connection.
enum TcpProtocol {
    Packets,
    WebSocket(Option<WebTlsServer>),
    Http(Arc<Site>),
}

/// A listening socket, with the protocol of its connections.
pub(crate) enum FaceListener {
    Tcp(TcpListener),
    WebSocket(TcpListener),
    SecureWebSocket(WebTlsServer, TcpListener),
    Site(Arc<Site>, TcpListener),
    Carrier(Carrier, TcpListener),
    #[cfg(unix)]
    Unix(unix::UnixSocketListener),
    /// Hands out shared memory to programs that connect (docs/spec/faces.md, "Shared memory").
    #[cfg(target_os = "linux")]
    Ring(unix::UnixSocketListener),
}

impl FaceListener {
    /// Returns whether it accompanies another listener; the other's address is the announced one.
    pub(super) fn is_beside(&self) -> bool {
        #[cfg(target_os = "linux")]
        return matches!(self, Self::Ring(_));
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Face URI of this end.
    pub(super) fn uri(&self) -> Option<FaceUri> {
        match self {
            Self::Tcp(listener) => Some(FaceUri::Tcp(endpoint(listener.local_addr().ok()?))),
            Self::WebSocket(listener) | Self::Site(_, listener) => {
                Some(FaceUri::WebSocket(endpoint(listener.local_addr().ok()?)))
            }
            Self::SecureWebSocket(_, listener) => {
                Some(FaceUri::SecureWebSocket(endpoint(listener.local_addr().ok()?)))
            }
            Self::Carrier(carrier, listener) => {
                Some(FaceUri::Carried(*carrier, endpoint(listener.local_addr().ok()?)))
            }
            #[cfg(unix)]
            Self::Unix(listener) => {
                Some(FaceUri::Unix(listener.path().to_string_lossy().into_owned()))
            }
            #[cfg(target_os = "linux")]
            Self::Ring(listener) => {
                Some(FaceUri::Unix(listener.path().to_string_lossy().into_owned()))
            }
        }
    }
}

impl Engine {
    /// Routes a prefix to the program.
    ///
    /// # Errors
    /// The forwarder's table is full.
    pub fn serve(&mut self, prefix: NameRef<'_>) -> Result<(), EngineError> {
        self.forwarder.add_route(prefix, self.program, 0).map_err(EngineError::Route)
    }

    /// Removes the route of a prefix to the program.
    pub fn no_longer_serve(&mut self, prefix: NameRef<'_>) {
        self.forwarder.remove_route(prefix, self.program);
    }

    /// Listens at an address; returns the bound address.
    ///
    /// # Errors
    /// Those of the system, here and in the functions below.
    pub fn listen(&mut self, at: &PeerAddress) -> io::Result<FaceAddress> {
        let uri = match at {
            PeerAddress::Link { address, .. } => {
                FaceUri::Xylem(endpoint(self.bind_link(*address)?))
            }
            PeerAddress::Udp(address) => FaceUri::Udp(endpoint(self.bind_udp(*address)?)),
            PeerAddress::Tcp(address) => FaceUri::Tcp(endpoint(self.bind_tcp(*address)?)),
            PeerAddress::WebSocket(address) => {
                FaceUri::WebSocket(endpoint(self.bind_web_socket(*address)?))
            }
            PeerAddress::SecureWebSocket { address, .. } => {
                FaceUri::SecureWebSocket(endpoint(self.bind_secure_web_socket(*address)?))
            }
            PeerAddress::Carried { carrier, address, .. } => {
                FaceUri::Carried(*carrier, endpoint(self.bind_carrier(*carrier, *address)?))
            }
            PeerAddress::Unix(path) => {
                self.bind_unix(path)?;
                return Ok(FaceAddress::Unix(path.clone()));
            }
            PeerAddress::Ethernet { .. } => {
                let what = "interfaces for Ethernet stand in the settings, [node.ethernet] devices";
                return Err(io::Error::new(io::ErrorKind::Unsupported, what));
            }
            PeerAddress::Relayed { .. } => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(FaceAddress::Uri(uri))
    }

    /// Binds a socket for encrypted links; returns the bound address.
    pub fn bind_link(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        self.add_link_socket(Udp::bind(address, Oversize::Lose)?)
    }

    /// Receives encrypted links at a bound socket; returns its address.
    pub(crate) fn add_link_socket(&mut self, socket: Udp) -> io::Result<SocketAddr> {
        let local = self.net.link_sockets.add(socket, &mut self.net.polling)?;
        tracing::debug!(%local, "listening for links");
        Ok(local)
    }

    /// Binds a socket for plain NDN over UDP.
    pub fn bind_udp(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        self.add_udp_socket(Udp::bind(address, Oversize::Fragment)?)
    }

    /// Receives plain NDN at a bound UDP socket; returns its address.
    pub(crate) fn add_udp_socket(&mut self, socket: Udp) -> io::Result<SocketAddr> {
        let local = self.net.plain_sockets.add(socket, &mut self.net.polling)?;
        tracing::debug!(%local, "listening for plain NDN over UDP");
        Ok(local)
    }

    /// Listens for plain NDN over TCP.
    pub fn bind_tcp(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        self.bind_stream(address, FaceListener::Tcp)
    }

    /// Listens for NDN over WebSocket.
    pub fn bind_web_socket(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        self.bind_stream(address, FaceListener::WebSocket)
    }

    /// Listens for NDN over WebSocket within TLS.
    ///
    /// # Errors
    /// There is no certificate ([`Self::set_certificate`]), besides those of the system.
    pub fn bind_secure_web_socket(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let tls = self.net.carriers.web_tls()?;
        self.bind_stream(address, |listener| FaceListener::SecureWebSocket(tls, listener))
    }

    /// Serves a site's pages, and NDN over WebSocket at the same port.
    pub fn bind_site(&mut self, address: SocketAddr, site: Arc<Site>) -> io::Result<SocketAddr> {
        self.bind_stream(address, |listener| FaceListener::Site(site, listener))
    }

    pub(super) fn bind_stream(
        &mut self,
        address: SocketAddr,
        kind: impl FnOnce(TcpListener) -> FaceListener,
    ) -> io::Result<SocketAddr> {
        self.add_listener(listen_tcp(address)?, kind)
    }

    /// Accepts connections of this kind at a listener; returns its address.
    pub(crate) fn add_listener(
        &mut self,
        mut listener: TcpListener,
        kind: impl FnOnce(TcpListener) -> FaceListener,
    ) -> io::Result<SocketAddr> {
        self.register_listener(&mut listener)?;
        let local = listener.local_addr()?;
        self.net.listeners.push(kind(listener));
        tracing::debug!(%local, "listening for connections");
        Ok(local)
    }

    /// Has the poll report connections at the listener that is added next.
    fn register_listener(&mut self, listener: &mut impl Source) -> io::Result<()> {
        let Network { polling, listeners, .. } = &mut self.net;
        polling.register(PollSource::Listener(listeners.len()), |token, poll| {
            poll.registry().register(listener, token, Interest::READABLE)
        })
    }

    /// Listens on a Unix socket; its file goes with the engine.
    #[cfg(unix)]
    pub fn bind_unix(&mut self, path: &Path) -> io::Result<()> {
        let mut listener = unix::UnixSocketListener::bind(path)?;
        self.register_listener(&mut listener.io)?;
        self.net.listeners.push(FaceListener::Unix(listener));
        #[cfg(target_os = "linux")]
        if let Err(e) = self.bind_ring(&shared::ring_path(path)) {
            tracing::debug!(path = %path.display(), error = %e, "no shared memory here");
        }
        Ok(())
    }

    /// Failure is tolerated, where a path is too long or taken: programs work without shared memory.
    #[cfg(target_os = "linux")]
    fn bind_ring(&mut self, path: &Path) -> io::Result<()> {
        let mut listener = unix::UnixSocketListener::bind(path)?;
        self.register_listener(&mut listener.io)?;
        self.net.listeners.push(FaceListener::Ring(listener));
        Ok(())
    }

    /// Fails: this system has no Unix sockets.
    #[cfg(not(unix))]
    pub fn bind_unix(&mut self, _path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Joins a multicast group on the interface with this address, and makes one face for it, with this type of link.
    pub fn join(
        &mut self,
        group: SocketAddrV4,
        interface: Ipv4Addr,
        link_type: LinkType,
    ) -> io::Result<FaceId> {
        let far = FaceUri::Udp(endpoint(group.into()));
        let multicast = Multicast::join(group, interface)?;
        self.add_group(multicast, far, interface.into(), link_type)
    }

    /// Joins a multicast group on the interface of this number and name, which has this link-local address, and makes one
    /// face for it, with this type of link.
    pub fn join_v6(
        &mut self,
        group: SocketAddrV6,
        index: u32,
        name: &str,
        interface: Ipv6Addr,
        link_type: LinkType,
    ) -> io::Result<FaceId> {
        let host = UriHost::Zoned(*group.ip(), name.to_owned());
        let far = FaceUri::Udp(UriAuthority { host, port: group.port() });
        let multicast = Multicast::join_v6(group, index, interface)?;
        self.add_group(multicast, far, interface.into(), link_type)
    }

    fn add_group(
        &mut self,
        multicast: Multicast,
        far: FaceUri,
        interface: IpAddr,
        link_type: LinkType,
    ) -> io::Result<FaceId> {
        let local = multicast.local();
        let number = self.net.plain_sockets.add_group(multicast, &mut self.net.polling)?;
        let address = FaceAddress::Group(far.clone(), interface);
        let here = FaceUri::Udp(endpoint(local));
        let mut face = EngineFace::new(Transport::Multicast(number), address, far, here);
        face.link_type = link_type;
        face.persistency = Persistency::Permanent;
        face.came_up = true;
        Ok(self.add_face(face))
    }

    /// Adds a face to the forwarder, and keeps it under the number that it gets.
    pub(super) fn add_face(&mut self, face: EngineFace) -> FaceId {
        let settings = self.settings_of(face.scope, face.link_type);
        let id = self.forwarder.add_face(settings);
        self.net.faces.insert(id, face);
        id
    }

    /// The settings of a face in the forwarder.
    pub(super) fn settings_of(&self, scope: FaceScope, link_type: LinkType) -> FaceSettings {
        let FaceLimits { interests_per_second, pit_quota, .. } = self.net.limits;
        FaceSettings { scope, link_type, interests_per_second, pit_quota }
    }

    /// Handles a UDP peer's first packets: makes a face if one of them is an Interest.
    pub(super) fn accept_udp(
        &mut self,
        socket: usize,
        train: &ReceivedTrain,
        now: Duration,
    ) -> Option<FaceId> {
        let remote = train.from;
        let asks = train.bytes.chunks(train.stride).any(admission::opens);
        if !asks || !self.admits(FaceKind::Datagrams, remote.ip()) {
            return None;
        }
        let far = FaceUri::Udp(endpoint(remote));
        let here = FaceUri::Udp(endpoint(self.net.plain_sockets.local(socket)));
        let unproven = self.net.limits.prove.demanded_of(remote.ip()).then(Box::default);
        let transport = Transport::Udp { socket, remote, unproven };
        let mut face = EngineFace::new(transport, FaceAddress::Udp(remote), far, here);
        face.persistency = Persistency::OnDemand;
        face.last_received = now;
        let id = self.add_face(face);
        self.seat(id, FaceKind::Datagrams, remote.ip());
        self.came_up(id);
        Some(id)
    }

    /// Accepts waiting connections. If the system refuses one (too many open files), that is reported, and the next
    /// housekeeping tries again.
    pub(super) fn accept(&mut self, i: usize) {
        for _ in 0..ACCEPTS_A_TURN {
            let accepted = match &mut self.net.listeners[i] {
                FaceListener::Tcp(listener) => {
                    listener.accept().map(|(s, from)| (s, from, TcpProtocol::Packets))
                }
                FaceListener::WebSocket(listener) => {
                    listener.accept().map(|(s, from)| (s, from, TcpProtocol::WebSocket(None)))
                }
                FaceListener::SecureWebSocket(tls, listener) => {
                    let tls = Some(tls.clone());
                    listener.accept().map(|(s, from)| (s, from, TcpProtocol::WebSocket(tls)))
                }
                FaceListener::Site(site, listener) => {
                    let site = Arc::clone(site);
                    listener.accept().map(|(s, from)| (s, from, TcpProtocol::Http(site)))
                }
                FaceListener::Carrier(carrier, listener) => {
                    let carrier = *carrier;
                    match listener.accept() {
                        Ok((stream, from)) => self.accept_carrier(carrier, stream, from),
                        Err(e) if self.can_accept_more(&e) => {}
                        Err(_) => return,
                    }
                    continue;
                }
                #[cfg(unix)]
                FaceListener::Unix(listener) => {
                    match listener.io.accept() {
                        Ok((stream, _)) => self.accept_unix(i, stream),
                        Err(e) if self.can_accept_more(&e) => {}
                        Err(_) => return,
                    }
                    continue;
                }
                #[cfg(target_os = "linux")]
                FaceListener::Ring(listener) => {
                    match listener.io.accept() {
                        Ok((stream, _)) => self.accept_ring(i, stream),
                        Err(e) if self.can_accept_more(&e) => {}
                        Err(_) => return,
                    }
                    continue;
                }
            };
            match accepted {
                Ok((stream, from, speaks)) => self.accept_tcp(stream, from, speaks),
                Err(e) if self.can_accept_more(&e) => {}
                Err(_) => return,
            }
        }
        self.net.polling.unfinished(PollSource::Listener(i));
    }

    fn accept_tcp(&mut self, stream: TcpStream, from: SocketAddr, speaks: TcpProtocol) {
        let scope = scope_of(from);
        let kind = if scope == FaceScope::Local { FaceKind::Local } else { FaceKind::Connection };
        if !self.admits(kind, from.ip()) {
            return;
        }
        let ip = from.ip();
        let Ok(local) = stream.local_addr() else { return };
        let (from, local) = (endpoint(from), endpoint(local));
        let comes_up = matches!(speaks, TcpProtocol::Packets);
        let (far, here) = match &speaks {
            TcpProtocol::Packets => (FaceUri::Tcp(from), FaceUri::Tcp(local)),
            TcpProtocol::WebSocket(None) | TcpProtocol::Http(_) => {
                (FaceUri::WebSocketClient(from), FaceUri::WebSocket(local))
            }
            TcpProtocol::WebSocket(Some(_)) => {
                (FaceUri::WebSocketClient(from), FaceUri::SecureWebSocket(local))
            }
        };
        let face = self.add_accepted(scope, far, here, |token, poll| {
            let web = match speaks {
                TcpProtocol::Packets => {
                    let socket = StreamSocket::Tcp(stream);
                    return Ok(Transport::Stream(Box::new(PacketStream::new(
                        socket, token, true, poll,
                    )?)));
                }
                TcpProtocol::WebSocket(tls) => {
                    WebSocketFace::accepted(stream, tls.as_ref(), token, poll)?
                }
                TcpProtocol::Http(site) => WebSocketFace::visiting(stream, site, token, poll)?,
            };
            Ok(Transport::WebSocket(Box::new(web)))
        });
        let Some(face) = face else { return };
        self.seat(face, kind, ip);
        // A WebSocket comes up with its handshake.
        if comes_up {
            self.came_up(face);
        }
    }

    /// A connection that can't be served is closed; its program then connects to the plain socket.
    #[cfg(target_os = "linux")]
    fn accept_ring(&mut self, i: usize, stream: mio::net::UnixStream) {
        let shared = |face: &&EngineFace| match &face.transport {
            Transport::Stream(stream) => stream.is_shared(),
            _ => false,
        };
        if self.net.faces.iter().map(|(_, face)| face).filter(shared).count() < max_shared() {
            self.accept_local(i, stream, |stream| {
                SharedStream::host(stream).map(|shared| StreamSocket::Shared(Box::new(shared)))
            });
        }
    }

    #[cfg(unix)]
    fn accept_unix(&mut self, i: usize, stream: mio::net::UnixStream) {
        self.accept_local(i, stream, |stream| Ok(StreamSocket::Unix(stream)));
    }

    #[cfg(unix)]
    fn accept_local(
        &mut self,
        i: usize,
        stream: mio::net::UnixStream,
        socket_of: impl FnOnce(mio::net::UnixStream) -> io::Result<StreamSocket>,
    ) {
        use std::os::fd::AsRawFd;
        let here = Ipv4Addr::LOCALHOST.into();
        if !self.admits(FaceKind::Local, here) {
            return;
        }
        let Some(local) = self.net.listeners[i].uri() else { return };
        let far = FaceUri::Fd(u64::try_from(stream.as_raw_fd()).unwrap_or_default());
        let face = self.add_accepted(FaceScope::Local, far, local, |token, poll| {
            let socket = socket_of(stream)?;
            Ok(Transport::Stream(Box::new(PacketStream::new(socket, token, true, poll)?)))
        });
        if let Some(face) = face {
            self.seat(face, FaceKind::Local, here);
            self.came_up(face);
        }
    }

    /// Makes a transport that has a poll token of its own, for a face with this number.
    pub(super) fn open(
        &mut self,
        id: FaceId,
        make: impl FnOnce(mio::Token, &mio::Poll) -> io::Result<Transport>,
    ) -> io::Result<Transport> {
        self.net.polling.register(PollSource::Face(id), make)
    }

    /// Adds the face of an accepted connection; `None` if the system refuses.
    fn add_accepted(
        &mut self,
        scope: FaceScope,
        far: FaceUri,
        here: FaceUri,
        make: impl FnOnce(mio::Token, &mio::Poll) -> io::Result<Transport>,
    ) -> Option<FaceId> {
        // The token needs the number before the face exists.
        let id = self.forwarder.add_face(self.settings_of(scope, LinkType::PointToPoint));
        let Ok(transport) = self.open(id, make) else {
            self.forwarder.remove_face(id);
            return None;
        };
        let mut face = EngineFace::new(transport, FaceAddress::Uri(far.clone()), far, here);
        face.scope = scope;
        face.persistency = Persistency::OnDemand;
        face.last_received = self.now();
        self.net.faces.insert(id, face);
        Some(id)
    }
}

/// The scope of a peer: connections over loopback are local, as with NFD.
pub(super) fn scope_of(peer: SocketAddr) -> FaceScope {
    if peer.ip().to_canonical().is_loopback() { FaceScope::Local } else { FaceScope::NonLocal }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
