//! Faces that this end makes, and the end of faces.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use mio::net::TcpStream;
use xylem_forward::{FaceId, FaceScope, LinkType};
use xylem_link::{LinkId, PeerKey, StaticKey};
use xylem_mgmt::{FaceUri, Persistency};
use xylem_peers::reachable::{PeerAddress, endpoint};

use super::listening::scope_of;
use super::{Engine, EngineEvent, FaceEnd, Network, PollSource};
use crate::faces::{EngineFace, Transport};
use xylem_sockets::{CarrierDial, ETHERNET_GROUP};
use xylem_sockets::{PacketStream, StreamSocket};
use xylem_sockets::{WebSocketDial, WebSocketFace};

/// Pause before a permanent face is dialled again.
const REDIAL: Duration = Duration::from_secs(1);
/// A connection that is not up after this time is given up.
const OPENING: Duration = Duration::from_secs(15);

/// Whether a WebSocket is within TLS.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encryption {
    None,
    Tls,
}

impl Engine {
    /// Also answers dialers that know this knock instead of our key; see [`xylem_link::Endpoint::answer_knock`]. False
    /// past the limit of knocks: then only dialers that know the key are answered, or any dialer where the
    /// configuration allows that.
    #[must_use]
    pub fn answer_knock(&mut self, knock: &[u8; 32]) -> bool {
        self.net.endpoint.answer_knock(knock)
    }

    /// Like [`Self::answer_knock`], by a key made for that knock; see [`xylem_link::Endpoint::answer_knock_by`].
    #[must_use]
    pub fn answer_knock_by(&mut self, knock: &[u8; 32], key: StaticKey) -> bool {
        self.net.endpoint.answer_knock_by(knock, key)
    }

    /// Stops answering this knock.
    pub fn forget_knock(&mut self, knock: &[u8; 32]) {
        self.net.endpoint.forget_knock(knock);
    }

    /// The key that this end proves on its links.
    pub fn link_key(&self) -> PeerKey {
        self.net.endpoint.public_key()
    }

    /// Whether a face is an encrypted link to the peer with this key: proven, or dialled as such.
    pub fn leads_to(&self, id: FaceId, key: &[u8; 32]) -> bool {
        let Some(face) = self.net.faces.get(id) else { return false };
        let proven = match &face.transport {
            Transport::Link(link) => self.net.endpoint.link(*link).map(|link| link.peer().0),
            _ => None,
        };
        proven.or_else(|| face.peer.as_ref()?.link_key()).as_ref() == Some(key)
    }

    /// Sets the knock for dials of peers with an unknown key; see [`xylem_link::Endpoint::answer_knock`].
    pub fn set_knock(&mut self, knock: [u8; 32]) {
        self.net.beside.set_knock(knock);
    }

    /// Reads the authorities for dials of `wss://` now, so that no later dial delays packets for that.
    pub fn prepare_secure_dials(&mut self) {
        let now = self.now();
        self.net.web_tls.prepare(now);
    }

    /// Makes a face to a peer. It can be used after [`EngineEvent::FaceUp`]; a permanent face is kept and dialled again
    /// after every failure.
    ///
    /// # Errors
    /// Those of the system that are known at once; never for a permanent face.
    pub fn dial(&mut self, peer: &PeerAddress, persistency: Persistency) -> io::Result<FaceId> {
        if let PeerAddress::Udp(group) = peer
            && group.ip().is_multicast()
        {
            return self.face_of_group(*group);
        }
        if let PeerAddress::Ethernet { address: ETHERNET_GROUP, .. } = peer {
            return self.face_of_ethernet_group(peer);
        }
        self.make_face(peer, persistency, LinkType::PointToPoint)
    }

    /// As [`Self::dial`], also for a group, with this type of link.
    pub(super) fn make_face(
        &mut self,
        peer: &PeerAddress,
        persistency: Persistency,
        link_type: LinkType,
    ) -> io::Result<FaceId> {
        let id = self.face_to(peer, persistency, link_type);
        match self.connect(id, peer) {
            Ok(()) => Ok(id),
            Err(e) if persistency == Persistency::Permanent => {
                self.fail_face(id, e);
                Ok(id)
            }
            Err(e) => {
                self.net.faces.remove(id);
                self.forwarder.remove_face(id);
                Err(e)
            }
        }
    }

    /// Makes a face to a peer, without a connection.
    fn face_to(
        &mut self,
        peer: &PeerAddress,
        persistency: Persistency,
        link_type: LinkType,
    ) -> FaceId {
        let now = self.now();
        let scope = scope_to(peer);
        let id = self.forwarder.add_face(self.settings_of(scope, link_type));
        let (remote, local) = (peer.face_uri(), FaceUri::Null);
        let mut face = EngineFace::new(Transport::Down(now), peer.into(), remote, local);
        face.peer = Some(peer.clone());
        face.scope = scope;
        face.link_type = link_type;
        face.persistency = persistency;
        face.last_received = now;
        if let PeerAddress::Udp(_) | PeerAddress::Ethernet { .. } = peer {
            face.set_datagrams();
        }
        self.net.faces.insert(id, face);
        tracing::debug!(face = %id, %peer, ?persistency, "dialling");
        id
    }

    /// Makes a face to a peer that the endpoint reaches at a synthetic address.
    pub(crate) fn dial_link(&mut self, peer: &PeerAddress, to: SocketAddr) -> io::Result<FaceId> {
        if self.net.link_sockets.is_empty() {
            self.bind_link(wildcard(SocketAddr::from(([0; 4], 0))))?;
        }
        let id = self.face_to(peer, Persistency::Persistent, LinkType::PointToPoint);
        let now = self.now();
        let link = self.net.connect_link(now, to, peer.link_key().map(PeerKey));
        self.net.beside.note_dial(now, link, peer);
        self.net.faces.replace_transport(id, Transport::Link(link));
        Ok(id)
    }

    /// A group is not dialled: its face was made when it was joined.
    fn face_of_group(&self, group: SocketAddr) -> io::Result<FaceId> {
        let is_it = |face: &EngineFace| match face.transport {
            Transport::Multicast(number) => {
                let joined = self.net.plain_sockets.group(number);
                // Without an interface any of them will do.
                let is_there = matches!((joined, group), (SocketAddr::V6(joined), SocketAddr::V6(wanted))
                    if wanted.scope_id() == 0 && joined.ip() == wanted.ip());
                joined == group || (is_there && joined.port() == group.port())
            }
            _ => false,
        };
        let found = self.net.faces.iter().find(|(_, face)| is_it(face)).map(|(id, _)| id);
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "not in this multicast group"))
    }

    /// Gives a face that is down a new connection.
    fn connect(&mut self, id: FaceId, peer: &PeerAddress) -> io::Result<()> {
        let transport = match peer {
            PeerAddress::Link { address, key } => {
                if self.net.link_sockets.socket_for(*address).is_none() {
                    self.bind_link(wildcard(*address))?;
                }
                let now = self.now();
                let link = self.net.connect_link(now, *address, key.map(PeerKey));
                self.net.beside.note_dial(now, link, peer);
                Transport::Link(link)
            }
            PeerAddress::Udp(address) => {
                let socket = self.udp_socket_for(*address)?;
                let local = self.net.plain_sockets.local(socket);
                self.note_local(id, FaceUri::Udp(endpoint(local)));
                // This end has chosen the address, so it counts as proven.
                Transport::Udp { socket, remote: *address, unproven: None }
            }
            PeerAddress::Tcp(address) => self.connect_tcp(id, *address)?,
            PeerAddress::WebSocket(address) => {
                let to = WebSocketDial { address: *address, name: None };
                self.connect_web_socket(id, to, Encryption::None)?
            }
            PeerAddress::SecureWebSocket { address, name } => {
                let to = WebSocketDial { address: *address, name: name.as_deref() };
                self.connect_web_socket(id, to, Encryption::Tls)?
            }
            PeerAddress::Unix(path) => self.connect_unix(id, path)?,
            PeerAddress::Ethernet { device, address } => {
                self.connect_ethernet(id, device, *address)?
            }
            PeerAddress::Carried { carrier, address, name, key } => {
                let to =
                    CarrierDial { carrier: *carrier, address: *address, name: name.as_deref() };
                self.connect_carrier(to, key.map(PeerKey))?
            }
            PeerAddress::Relayed { relay, target, key, .. } => {
                self.dial_through(id, *relay, *target, key.map(PeerKey))?;
                // The relay is asked first; until then there is no link.
                Transport::Down(Duration::MAX)
            }
        };
        let at_once = matches!(transport, Transport::Udp { .. } | Transport::Ethernet { .. });
        self.net.faces.replace_transport(id, transport);
        if at_once {
            self.came_up(id);
        }
        Ok(())
    }

    fn udp_socket_for(&mut self, to: SocketAddr) -> io::Result<usize> {
        if let Some(socket) = self.net.plain_sockets.socket_for(to) {
            return Ok(socket);
        }
        self.bind_udp(wildcard(to))?;
        let bound = self.net.plain_sockets.socket_for(to);
        bound.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Records the address of this end of a dialled face.
    pub(super) fn note_local(&mut self, id: FaceId, local: FaceUri) {
        if let Some(face) = self.net.faces.get_mut(id) {
            face.local = local;
        }
    }

    fn connect_tcp(&mut self, id: FaceId, to: SocketAddr) -> io::Result<Transport> {
        let stream = TcpStream::connect(to)?;
        if let Ok(local) = stream.local_addr() {
            self.note_local(id, FaceUri::Tcp(endpoint(local)));
        }
        self.open(id, |token, poll| {
            let stream = PacketStream::new(StreamSocket::Tcp(stream), token, false, poll)?;
            Ok(Transport::Stream(Box::new(stream)))
        })
    }

    fn connect_web_socket(
        &mut self,
        id: FaceId,
        to: WebSocketDial<'_>,
        encryption: Encryption,
    ) -> io::Result<Transport> {
        let now = self.now();
        let tls = match encryption {
            Encryption::Tls => Some(self.net.web_tls.session(now, to)?),
            Encryption::None => None,
        };
        let stream = TcpStream::connect(to.address)?;
        self.net.polling.register(PollSource::Face(id), |token, poll| {
            let face = WebSocketFace::dialled(stream, to, tls, token, poll)?;
            Ok(Transport::WebSocket(Box::new(face)))
        })
    }

    #[cfg(unix)]
    fn connect_unix(&mut self, id: FaceId, path: &std::path::Path) -> io::Result<Transport> {
        let stream = mio::net::UnixStream::connect(path)?;
        self.open(id, |token, poll| {
            let stream = PacketStream::new(StreamSocket::Unix(stream), token, false, poll)?;
            Ok(Transport::Stream(Box::new(stream)))
        })
    }

    #[cfg(not(unix))]
    fn connect_unix(&mut self, _id: FaceId, _path: &std::path::Path) -> io::Result<Transport> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Handles the end of a face's connection, or its failure to come up.
    pub(super) fn fail_face(&mut self, id: FaceId, why: impl Into<FaceEnd>) {
        let again = self.now() + REDIAL;
        let Some(face) = self.net.faces.get_mut(id) else { return };
        if face.persistency != Persistency::Permanent {
            return self.drop_face(id, why);
        }
        let peer = face.address.clone();
        let known = std::mem::replace(&mut face.reported_down, true);
        if let Some(old) = self.net.faces.replace_transport(id, Transport::Down(again)) {
            self.close_transport(&old);
        }
        if !known {
            let why = why.into();
            tracing::info!(face = %id, %peer, %why, "face is down; it is dialled again");
            self.net.pending.push(EngineEvent::FaceDown { face: id, peer, why, gone: false });
        }
    }

    /// Ends a face for good and reports that to the program.
    pub fn drop_face(&mut self, id: FaceId, why: impl Into<FaceEnd>) {
        let Some(face) = self.net.faces.remove(id) else { return };
        self.forwarder.remove_face(id);
        self.close_transport(&face.transport);
        if let Some(seat) = face.seat {
            self.net.admission.leave(seat);
        }
        let came_by = matches!(face.transport, Transport::WebSocket(_)) && face.peer.is_none();
        if came_by && !face.came_up {
            return; // it was never reported: a visitor that only loaded a page, for example
        }
        let (peer, why) = (face.address, why.into());
        tracing::info!(face = %id, %peer, %why, "face is gone");
        self.net.pending.push(EngineEvent::FaceDown { face: id, peer, why, gone: true });
    }

    /// Closes every link, after all waiting data, so that peers need not wait for a timeout.
    pub fn close(&mut self) {
        self.leave_relays();
        self.net.end_relay();
        self.flush();
        let link = |(_, face): (FaceId, &EngineFace)| match face.transport {
            Transport::Link(link) => Some(link),
            _ => None,
        };
        let links: Vec<_> = self.net.faces.iter().filter_map(link).collect();
        for link in links {
            self.net.endpoint.close(link);
        }
        self.flush();
        self.net.carriers.close();
    }

    pub(super) fn close_transport(&mut self, transport: &Transport) {
        match transport {
            Transport::Link(link) => {
                let now = self.now();
                self.net.endpoint.close(*link);
                self.net.carriers.release(now, *link);
            }
            Transport::Stream(stream) => self.net.polling.forget(stream.token()),
            Transport::WebSocket(socket) => self.net.polling.forget(socket.token()),
            _ => {}
        }
    }

    /// Ends idle faces, and connections that do not come up.
    pub(super) fn forget_idle(&mut self, now: Duration) {
        let net = &self.net;
        let limit = |face: &EngineFace| match face.transport {
            Transport::Stream(_) | Transport::WebSocket(_) if !face.came_up => Some(OPENING),
            _ => net.admission.patience(face.seat?, net.limits.idle),
        };
        let over =
            |face: &EngineFace| limit(face).is_some_and(|limit| face.last_received + limit < now);
        let gone: Vec<FaceId> =
            self.net.faces.iter().filter(|(_, face)| over(face)).map(|(id, _)| id).collect();
        for face in gone {
            self.fail_face(face, "idle");
        }
    }

    /// Dials permanent faces again that are down.
    pub(super) fn redial(&mut self, now: Duration) {
        let due = |face: &EngineFace| matches!(face.transport, Transport::Down(at) if at <= now);
        let down: Vec<(FaceId, PeerAddress)> = (self.net.faces.iter())
            .filter(|(_, face)| due(face))
            .filter_map(|(id, face)| Some((id, face.peer.clone()?)))
            .collect();
        let missing = self.missing_interfaces(down.iter().map(|(_, peer)| peer));
        for (id, peer) in &down {
            if let Some(face) = self.net.faces.get_mut(*id) {
                face.last_received = now;
                face.came_up = false;
            }
            let why = match peer {
                PeerAddress::Ethernet { device, .. } => missing.get(&**device),
                _ => None,
            };
            let connected = match why {
                Some(why) => Err(io::Error::new(why.kind(), why.to_string())),
                None => self.connect(*id, peer),
            };
            if let Err(e) = connected {
                self.fail_face(*id, e);
            }
        }
    }
}

impl Network {
    /// Dials a link; without a key it uses the knock, if one is set.
    pub(super) fn connect_link(
        &mut self,
        now: Duration,
        to: SocketAddr,
        key: Option<PeerKey>,
    ) -> LinkId {
        match (key, self.beside.knock()) {
            (None, Some(knock)) => self.endpoint.connect_by_knock(now, to, knock),
            (key, _) => self.endpoint.connect(now, to, key),
        }
    }
}

/// The scope of a face: datagrams and links count as non-local, connections over loopback as local, as with NFD.
fn scope_to(peer: &PeerAddress) -> FaceScope {
    match peer {
        PeerAddress::Link { .. }
        | PeerAddress::Carried { .. }
        | PeerAddress::Relayed { .. }
        | PeerAddress::Udp(_)
        | PeerAddress::Ethernet { .. } => FaceScope::NonLocal,
        PeerAddress::Tcp(address)
        | PeerAddress::WebSocket(address)
        | PeerAddress::SecureWebSocket { address, .. } => scope_of(*address),
        PeerAddress::Unix(_) => FaceScope::Local,
    }
}

/// Any address of this machine and any port, in the family of `to`.
pub(super) fn wildcard(to: SocketAddr) -> SocketAddr {
    match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}
