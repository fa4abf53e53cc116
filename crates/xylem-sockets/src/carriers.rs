//! Carriers: the TCP connections that carry a link's datagrams where UDP does not pass or should not be seen.
//! `xylem-carriers` implements their formats.
//!
//! The link's endpoint knows nothing of them: each connection has a synthetic address, made up here, under which the
//! endpoint sends and receives.

mod connection;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use mio::net::TcpStream;
use mio::{Interest, Poll, Token};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use xylem_carriers::tls::{self, TlsIdentity};
use xylem_link::{LinkId, source};
use xylem_mgmt::Carrier;

use crate::WebTlsServer;
use crate::pipe::Pipe;
use connection::{CarrierConnection, CarrierRole};

/// Most accepted connections without a link (strangers), if there is room for twice as many connections. When one more
/// comes, the oldest ends.
const MAX_STRANGERS: usize = 128;
/// One host gets at most one in this many of these places; its further connections are refused.
const STRANGERS_OF_HOST: usize = 4;
/// Time limit until a link runs over a connection.
const OPENING: Duration = Duration::from_secs(10);
/// How long a connection stays after its link has ended, for the link's close.
const ENDING: Duration = Duration::from_secs(2);

/// The target of a dial.
#[derive(Debug, Clone, Copy)]
pub struct CarrierDial<'a> {
    /// The kind of connection.
    pub carrier: Carrier,
    /// The address that listens.
    pub address: SocketAddr,
    /// Host name sent to the server; `None`: its address.
    pub name: Option<&'a str>,
}

/// A host has as many connections without a link as one host may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostIsFull;

/// Identifies a connection of [`Carriers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CarrierId(u64);

/// All carrier connections of an engine.
pub struct Carriers {
    /// A unique local prefix (RFC 4193), drawn at random, for synthetic addresses.
    prefix: [u8; 6],
    next: u64,
    live: HashMap<CarrierId, CarrierConnection>,
    by_link: HashMap<LinkId, CarrierId>,
    unflushed: Vec<CarrierId>,
    identity: Option<TlsIdentity>,
    /// The certificate is one that the user named.
    certified: bool,
    server: Option<Arc<ServerConfig>>,
    client: Option<Arc<ClientConfig>>,
    /// Counts refused requests, connections with other data than a carrier's, and connections that never had a link.
    refused: u64,
}

/// An accepted connection.
#[derive(Debug)]
pub struct CarrierAccept {
    /// The kind of carrier that its listener takes.
    pub carrier: Carrier,
    /// The connection.
    pub socket: TcpStream,
    /// The address that it comes from.
    pub far: SocketAddr,
}

impl Carriers {
    /// Makes an empty set; `random` makes the addresses of this engine unique.
    pub fn new(random: [u8; 5]) -> Self {
        let [a, b, c, d, e] = random;
        Self {
            prefix: [0xfd, a, b, c, d, e],
            next: 0,
            live: HashMap::new(),
            by_link: HashMap::new(),
            unflushed: Vec::new(),
            identity: None,
            certified: false,
            server: None,
            client: None,
            refused: 0,
        }
    }

    /// Sets the certificate to present, before anything listens.
    pub fn set_identity(&mut self, identity: TlsIdentity) {
        self.identity = Some(identity);
        self.certified = true;
    }

    /// Prepares to accept connections of this kind.
    ///
    /// # Errors
    /// A certificate that can't be used.
    pub fn prepare(&mut self, carrier: Carrier) -> io::Result<()> {
        if carrier.is_tls() && self.server.is_none() {
            self.server = Some(tls::server(self.identity.take())?);
        }
        Ok(())
    }

    /// TLS for a listener of WebSockets, with the certificate that the user named: browsers accept no generated one.
    ///
    /// # Errors
    /// There is no such certificate, or it can't be used.
    pub fn web_tls(&mut self) -> io::Result<WebTlsServer> {
        if !self.certified {
            let what = "wss:// needs a certificate: set tls_certificate and tls_key in the settings, [node]";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let config = match self.server.take() {
            Some(config) => config,
            None => tls::server(self.identity.take())?,
        };
        self.server = Some(Arc::clone(&config));
        Ok(WebTlsServer::new(config))
    }

    /// The id of the next connection, from which its token is made.
    pub fn next_id(&mut self) -> CarrierId {
        self.next += 1;
        CarrierId(self.next)
    }

    /// The synthetic address of a connection, for the link's endpoint.
    pub fn address(&self, id: CarrierId) -> SocketAddr {
        let mut octets = [0; 16];
        octets[..6].copy_from_slice(&self.prefix);
        octets[8..].copy_from_slice(&id.0.to_be_bytes());
        SocketAddr::from((Ipv6Addr::from(octets), 1))
    }

    /// The prefix of synthetic addresses.
    pub fn prefix(&self) -> [u8; 6] {
        self.prefix
    }

    /// Returns whether an address is synthetic. No such address appears on a network.
    pub fn is_synthetic(&self, address: SocketAddr) -> bool {
        matches!(address.ip(), IpAddr::V6(ip) if ip.octets()[..6] == self.prefix)
    }

    /// The connection of a synthetic address, if it still exists.
    pub fn of_address(&self, address: SocketAddr) -> Option<CarrierId> {
        let IpAddr::V6(ip) = address.ip() else { return None };
        let number = *ip.octets().last_chunk::<8>()?;
        let id = CarrierId(u64::from_be_bytes(number));
        (self.address(id) == address && self.live.contains_key(&id)).then_some(id)
    }

    /// Takes an accepted connection; `false`: there are too many.
    ///
    /// # Errors
    /// Those of the system.
    pub fn accept(
        &mut self,
        now: Duration,
        id: CarrierId,
        token: Token,
        accepted: CarrierAccept,
        poll: &Poll,
    ) -> io::Result<()> {
        let CarrierAccept { carrier, socket, far } = accepted;
        let session = match &self.server {
            Some(config) if carrier.is_tls() => {
                let session = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
                Some(session.into())
            }
            _ => None,
        };
        let near = socket.local_addr()?;
        let pipe = Pipe::new(socket, session);
        self.insert(
            id,
            CarrierConnection::new(pipe, CarrierRole::Server, carrier, token, far, near, now),
            poll,
        )
    }

    /// Checks whether one more connection may come from that host, given room for `room` connections. If so, returns
    /// the oldest stranger that has to give way, if there are too many.
    pub fn make_room(
        &mut self,
        from: IpAddr,
        room: usize,
    ) -> Result<Option<CarrierId>, HostIsFull> {
        let most = MAX_STRANGERS.min(room / 2).max(1);
        let is_stranger = |connection: &CarrierConnection| connection.link.is_none();
        let strangers = || self.live.iter().filter(|(_, connection)| is_stranger(connection));
        let of_host = strangers().filter(|(_, c)| source(c.far.ip()) == source(from)).count();
        if of_host >= (most / STRANGERS_OF_HOST).max(1) {
            self.refused += 1;
            return Err(HostIsFull);
        }
        let full = strangers().count() >= most;
        Ok(if full { strangers().map(|(id, _)| *id).min() } else { None })
    }

    /// Dials a carrier connection.
    ///
    /// # Errors
    /// Those of the system, and an invalid name.
    pub fn dial(
        &mut self,
        now: Duration,
        id: CarrierId,
        token: Token,
        to: CarrierDial<'_>,
        poll: &Poll,
    ) -> io::Result<()> {
        let CarrierDial { carrier, address, name } = to;
        let session = match carrier.is_tls() {
            true => Some(self.client_session(name, address.ip())?.into()),
            false => None,
        };
        let port = address.port();
        let authority = match name {
            Some(name) if port == carrier.default_port() => name.to_owned(),
            Some(name) => format!("{name}:{port}"),
            None => address.to_string(),
        };
        let pipe = Pipe::new(TcpStream::connect(address)?, session);
        let near = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        let role = CarrierRole::Client { authority };
        self.insert(
            id,
            CarrierConnection::new(pipe, role, carrier, token, address, near, now),
            poll,
        )
    }

    fn client_session(&mut self, name: Option<&str>, ip: IpAddr) -> io::Result<ClientConnection> {
        let config = match &self.client {
            Some(config) => config.clone(),
            None => self.client.insert(tls::client()?).clone(),
        };
        let name = tls::server_name(name, ip)?;
        ClientConnection::new(config, name).map_err(io::Error::other)
    }

    fn insert(
        &mut self,
        id: CarrierId,
        mut connection: CarrierConnection,
        poll: &Poll,
    ) -> io::Result<()> {
        // Writability is edge-triggered: one event when there is room again.
        let both = Interest::READABLE | Interest::WRITABLE;
        connection.register(poll, both)?;
        self.live.insert(id, connection);
        Ok(())
    }

    /// Handles a ready connection: hands out datagrams; returns whether more may have arrived.
    ///
    /// # Errors
    /// It ended; [`Carriers::remove`] it.
    pub fn receive(
        &mut self,
        now: Duration,
        id: CarrierId,
        each: &mut dyn FnMut(BytesMut),
    ) -> io::Result<bool> {
        let Some(connection) = self.live.get_mut(&id) else { return Ok(false) };
        let received = connection.receive(now, each)?;
        self.refused += received.refused;
        Ok(received.more)
    }

    /// Queues datagrams of this size (the last may be shorter) for a connection.
    pub fn queue(&mut self, now: Duration, id: CarrierId, contents: &[u8], size: usize) {
        let Some(connection) = self.live.get_mut(&id) else { return };
        for datagram in contents.chunks(size.max(1)) {
            connection.queue(now, datagram);
        }
        if !connection.unflushed {
            connection.unflushed = true;
            self.unflushed.push(id);
        }
    }

    /// Bytes that wait for the other end of a link's carrier to read; 0 if it has none.
    pub fn unsent(&self, link: LinkId) -> usize {
        let id = self.by_link.get(&link);
        id.and_then(|id| self.live.get(id)).map_or(0, CarrierConnection::unsent)
    }

    /// Writes waiting bytes to the kernel; returns the connections that ended, and why.
    pub fn flush(&mut self, now: Duration) -> Vec<(CarrierId, io::Error)> {
        let mut ended = Vec::new();
        for id in self.unflushed.drain(..) {
            let Some(connection) = self.live.get_mut(&id) else { continue };
            connection.unflushed = false;
            if let Err(e) = connection.flush(now) {
                ended.push((id, e));
            }
        }
        ended
    }

    /// Assigns a link to this connection; `false`: it is gone, or has one already.
    pub fn attach(&mut self, id: CarrierId, link: LinkId) -> bool {
        let Some(connection) = self.live.get_mut(&id) else { return false };
        let free = connection.link.is_none() && connection.ends.is_none();
        if free {
            connection.link = Some(link);
            self.by_link.insert(link, id);
        }
        free
    }

    /// Ends the connection of an ended link, once the link's close is sent.
    pub fn release(&mut self, now: Duration, link: LinkId) {
        let Some(id) = self.by_link.remove(&link) else { return };
        if let Some(connection) = self.live.get_mut(&id) {
            connection.link = None;
            connection.ends = Some(now + ENDING);
        }
    }

    /// Ends a connection; returns its token and the link that ran over it.
    pub fn remove(&mut self, id: CarrierId) -> Option<(Token, Option<LinkId>)> {
        let mut connection = self.live.remove(&id)?;
        connection.send_close();
        match connection.link {
            Some(link) => drop(self.by_link.remove(&link)),
            None if connection.ends.is_none() => self.refused += 1,
            None => {}
        }
        Some((connection.token, connection.link))
    }

    /// Connections past their time limit. The others are flushed soon: answers may be due.
    pub fn overdue(&mut self, now: Duration) -> Vec<CarrierId> {
        let mut over = Vec::new();
        for (id, connection) in &mut self.live {
            let until = match (connection.link, connection.ends) {
                (_, Some(ends)) => Some(ends),
                (None, None) => Some(connection.since + OPENING),
                (Some(_), None) => None,
            };
            if until.is_some_and(|until| until <= now) {
                over.push(*id);
            } else if !connection.unflushed {
                connection.unflushed = true;
                self.unflushed.push(*id);
            }
        }
        over
    }

    /// The kind of a connection, its remote address and its local one.
    pub fn ends(&self, id: CarrierId) -> Option<(Carrier, SocketAddr, SocketAddr)> {
        self.live.get(&id).map(|c| (c.carrier, c.far, c.near))
    }

    /// Signals the end on all connections.
    pub fn close(&mut self) {
        self.live.values_mut().for_each(CarrierConnection::send_close);
    }

    /// Number of connections.
    pub fn count(&self) -> usize {
        self.live.len()
    }

    /// Number of refusals so far.
    #[cfg(test)]
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests;
