//! One WebSocket connection (RFC 6455): each binary message is one NDN packet. For the pages of a [`Site`] a message is
//! a train of packets, end to end, since a message costs a browser more than a packet.
//!
//! `tungstenite` does the framing and the opening handshake, over a socket that never blocks, within TLS or not. Messages that are not
//! binary are ignored, as in NFD.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use mio::net::TcpStream;
use mio::{Interest, Poll, Token};
use tungstenite::handshake::client::ClientHandshake;
use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response, ServerHandshake};
use tungstenite::handshake::{HandshakeError, HandshakeRole, MidHandshake};
use tungstenite::http::Uri;
use tungstenite::protocol::{Message, Role, WebSocketConfig};
use tungstenite::{Error, WebSocket};
use xylem_carriers::Paced;
use xylem_packet::{MAX_FRAME, frame_len};

use crate::pipe::Pipe;
use crate::site::{Site, SiteConnection, VisitOutcome};
use crate::{WebTlsServer, WebTlsSession};

/// Bytes that may wait for a slow reader before packets to it are dropped.
const MAX_UNSENT: usize = 4 << 20;
/// Bytes of a train after which it is sent.
const TRAIN: usize = 64 * 1024;
/// Messages taken in one turn, so that one face does not keep the others waiting.
const BATCH: usize = 256;
/// Bytes taken in one turn, whether messages become complete by them or not.
const TURN: usize = 128 * 1024;
/// Bytes requested from the connection at once.
const READ_AHEAD: usize = 64 * 1024;
/// Bytes that may come without a message becoming complete: twice the longest one, and the bytes read ahead. A peer
/// that sends more is sending endless nearly empty pieces (continuation frames may be empty).
const MAX_UNFINISHED: u64 = 2 * MAX_FRAME as u64 + READ_AHEAD as u64;

enum WebSocketState {
    /// The TCP connection is being made and, with TLS, the session.
    Opening(Box<Pipe>, WebSocketRole),
    Dialling(MidHandshake<ClientHandshake<Paced<Pipe>>>),
    Accepting(MidHandshake<ServerHandshake<Paced<Pipe>, PageOrigin>>),
    /// A connection at a site, which may ask for a page.
    Visiting(Box<SiteConnection>),
    Open(Box<WebSocket<Paced<Pipe>>>),
    Broken,
}

/// Which end of a connection this is.
enum WebSocketRole {
    /// The end that dialled, to this host and port.
    Client(String),
    Server(PageOrigin),
}

/// The target of a dial.
#[derive(Debug, Clone, Copy)]
pub struct WebSocketDial<'a> {
    /// The address that listens.
    pub address: SocketAddr,
    /// The host's name, if it is known.
    pub name: Option<&'a str>,
}

/// A connection, perhaps still being made.
pub struct WebSocketFace {
    state: WebSocketState,
    token: Token,
    /// The train under construction, where messages hold trains.
    train: Option<BytesMut>,
    /// Bytes that had been read when the last message was complete.
    whole: u64,
    page: PageOrigin,
}

/// Whether a page of another machine opened the connection: browsers send the origin of the page (RFC 6455, section
/// 10.2), other programs send none or what they like.
#[derive(Clone, Default)]
struct PageOrigin {
    is_foreign: Arc<AtomicBool>,
}

impl Callback for PageOrigin {
    #[allow(clippy::result_large_err)] // the library's
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        let mut origins = request.headers().get_all("origin").iter();
        let is_foreign = origins.any(|origin| !is_of_this_machine(origin.as_bytes()));
        self.is_foreign.store(is_foreign, Ordering::Relaxed);
        Ok(response)
    }
}

/// Whether an origin names this machine by itself. A name that leads here is no proof, as its owner can let it lead
/// anywhere.
fn is_of_this_machine(origin: &[u8]) -> bool {
    let Ok(uri) = Uri::try_from(origin) else { return false };
    let host = uri.host().unwrap_or_default();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host == "localhost" || address.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
}

fn settings() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_AHEAD)
        .write_buffer_size(64 * 1024)
        .max_write_buffer_size(MAX_UNSENT)
        .max_message_size(Some(MAX_FRAME))
        .max_frame_size(Some(MAX_FRAME))
}

impl WebSocketFace {
    fn new(state: WebSocketState, token: Token) -> Self {
        Self { state, token, train: None, whole: 0, page: PageOrigin::default() }
    }

    /// Takes an accepted connection; the handshake follows.
    pub fn accepted(
        mut socket: TcpStream,
        tls: Option<&WebTlsServer>,
        token: Token,
        poll: &Poll,
    ) -> io::Result<Self> {
        register(&mut socket, token, poll)?;
        let session = tls.map(WebTlsServer::session).transpose()?;
        let pipe = Pipe::new(socket, session.map(Into::into));
        let page = PageOrigin::default();
        let role = WebSocketRole::Server(page.clone());
        Ok(Self { page, ..Self::new(WebSocketState::Opening(Box::new(pipe), role), token) })
    }

    /// Takes a connection accepted by a site: it becomes a WebSocket, or is over when a page was served.
    pub fn visiting(
        mut socket: TcpStream,
        site: Arc<Site>,
        token: Token,
        poll: &Poll,
    ) -> io::Result<Self> {
        register(&mut socket, token, poll)?;
        Ok(Self::new(WebSocketState::Visiting(Box::new(SiteConnection::new(socket, site))), token))
    }

    /// Takes a connection that is being dialled, to the path `/`.
    ///
    /// # Errors
    /// The system's.
    pub fn dialled(
        mut socket: TcpStream,
        to: WebSocketDial<'_>,
        tls: Option<WebTlsSession>,
        token: Token,
        poll: &Poll,
    ) -> io::Result<Self> {
        register(&mut socket, token, poll)?;
        let WebSocketDial { address, name } = to;
        let authority = match name {
            Some(name) => format!("{name}:{}", address.port()),
            None => address.to_string(),
        };
        let pipe = Pipe::new(socket, tls.map(|tls| tls.0.into()));
        let opening = WebSocketState::Opening(Box::new(pipe), WebSocketRole::Client(authority));
        Ok(Self::new(opening, token))
    }

    /// The token of its readiness events.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Whether a page in a browser opened the connection, and came from another machine. Known once it has come up.
    pub fn is_of_foreign_page(&self) -> bool {
        self.page.is_foreign.load(Ordering::Relaxed)
    }

    /// Continues connecting. `Ok(true)`: it has just come up.
    ///
    /// # Errors
    /// The connection could not be made, or the other end speaks no WebSocket.
    pub fn finish_connect(&mut self) -> io::Result<bool> {
        let (state, came_up) = match std::mem::replace(&mut self.state, WebSocketState::Broken) {
            WebSocketState::Opening(pipe, role) => opening(pipe, role)?,
            WebSocketState::Dialling(handshake) => {
                continue_handshake(handshake, |(ws, _)| ws, WebSocketState::Dialling)?
            }
            WebSocketState::Accepting(handshake) => {
                continue_handshake(handshake, |ws| ws, WebSocketState::Accepting)?
            }
            WebSocketState::Visiting(visit) => match visit.advance()? {
                VisitOutcome::Waits(visit) => (WebSocketState::Visiting(Box::new(visit)), false),
                VisitOutcome::Upgraded { socket, read, trains } => {
                    self.train = trains.then(BytesMut::new);
                    let socket = Paced::new(Pipe::new(socket, None), TURN);
                    let config = Some(settings());
                    let socket = WebSocket::from_partially_read(socket, read, Role::Server, config);
                    (WebSocketState::Open(Box::new(socket)), true)
                }
            },
            open @ (WebSocketState::Open(_) | WebSocketState::Broken) => (open, false),
        };
        self.state = state;
        Ok(came_up)
    }

    /// Takes the packets that have arrived; returns whether more may be waiting.
    ///
    /// # Errors
    /// The connection ended.
    pub fn receive(&mut self, into: &mut Vec<Bytes>) -> io::Result<bool> {
        let WebSocketState::Open(socket) = &mut self.state else { return Ok(false) };
        socket.get_mut().next_turn();
        socket.get_mut().get_mut().next_turn();
        for _ in 0..BATCH {
            match socket.read() {
                Ok(Message::Binary(packet)) if self.train.is_none() => into.push(packet),
                Ok(Message::Binary(train)) => split_train(train, into)?,
                Ok(_) => {}
                Err(Error::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => {
                    let socket = socket.get_mut();
                    if socket.total() - self.whole > MAX_UNFINISHED {
                        let what = "a message is too long";
                        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                    }
                    return Ok(socket.is_spent() || socket.get_mut().is_spent());
                }
                Err(e) => return Err(ended(e)),
            }
            self.whole = socket.get_mut().total();
        }
        Ok(true)
    }

    /// Queues a packet; a reader that does not keep up loses it, as on a datagram face.
    pub fn queue(&mut self, packet: &[u8]) -> bool {
        let WebSocketState::Open(socket) = &mut self.state else { return false };
        let Some(train) = &mut self.train else {
            return write(socket, Bytes::copy_from_slice(packet));
        };
        train.extend_from_slice(packet);
        train.len() < TRAIN || write(socket, train.split().freeze())
    }

    /// Writes as much as the socket accepts; the rest follows when it is writable again.
    ///
    /// # Errors
    /// The connection ended.
    pub fn flush(&mut self) -> io::Result<()> {
        let WebSocketState::Open(socket) = &mut self.state else { return Ok(()) };
        if let Some(train) = self.train.as_mut().filter(|train| !train.is_empty()) {
            write(socket, train.split().freeze());
        }
        match socket.flush() {
            Ok(()) => Ok(()),
            Err(Error::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(e) => Err(ended(e)),
        }
    }
}

/// False: the reader does not keep up, and the message was dropped.
fn write(socket: &mut WebSocket<Paced<Pipe>>, message: Bytes) -> bool {
    match socket.write(Message::Binary(message)) {
        Ok(()) => true,
        // The message is queued nevertheless, and the socket is full.
        Err(Error::Io(e)) => e.kind() == io::ErrorKind::WouldBlock,
        // Other errors are returned again by the flush at the turn's end.
        Err(_) => false,
    }
}

/// Splits a train into its packets.
fn split_train(mut train: Bytes, into: &mut Vec<Bytes>) -> io::Result<()> {
    while !train.is_empty() {
        match frame_len(&train) {
            Ok(Some(len)) => into.push(train.split_to(len)),
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a message holds no valid packets",
                ));
            }
        }
    }
    Ok(())
}

fn register(socket: &mut TcpStream, token: Token, poll: &Poll) -> io::Result<()> {
    let _ = socket.set_nodelay(true);
    // Writability is edge-triggered: one event when there is room again.
    poll.registry().register(socket, token, Interest::READABLE | Interest::WRITABLE)
}

fn opening(mut pipe: Box<Pipe>, role: WebSocketRole) -> io::Result<(WebSocketState, bool)> {
    if !pipe.open()? {
        return Ok((WebSocketState::Opening(pipe, role), false));
    }
    let socket = Paced::new(*pipe, TURN);
    let authority = match role {
        WebSocketRole::Client(authority) => authority,
        WebSocketRole::Server(page) => {
            let handshake = ServerHandshake::start(socket, page, Some(settings()));
            return continue_handshake(handshake, |ws| ws, WebSocketState::Accepting);
        }
    };
    // The scheme does not reach the server.
    let url = format!("ws://{authority}/");
    match tungstenite::client::client_with_config(url, socket, Some(settings())) {
        Ok((socket, _)) => Ok((WebSocketState::Open(Box::new(socket)), true)),
        Err(HandshakeError::Interrupted(handshake)) => {
            Ok((WebSocketState::Dialling(handshake), false))
        }
        Err(HandshakeError::Failure(e)) => Err(ended(e)),
    }
}

fn continue_handshake<R: HandshakeRole>(
    handshake: MidHandshake<R>,
    socket: impl FnOnce(R::FinalResult) -> WebSocket<Paced<Pipe>>,
    again: impl FnOnce(MidHandshake<R>) -> WebSocketState,
) -> io::Result<(WebSocketState, bool)> {
    match handshake.handshake() {
        Ok(result) => Ok((WebSocketState::Open(Box::new(socket(result))), true)),
        Err(HandshakeError::Interrupted(handshake)) => Ok((again(handshake), false)),
        Err(HandshakeError::Failure(e)) => Err(ended(e)),
    }
}

fn ended(e: Error) -> io::Error {
    match e {
        Error::Io(e) => e,
        Error::ConnectionClosed | Error::AlreadyClosed => {
            io::Error::new(io::ErrorKind::UnexpectedEof, "closed")
        }
        other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_origins_by_loopback_are_of_this_machine() {
        for origin in
            ["http://localhost", "http://localhost:8080", "https://127.0.0.1", "http://[::1]:80"]
        {
            assert!(is_of_this_machine(origin.as_bytes()), "{origin}");
        }
        for origin in [
            "https://example.org",
            "http://localhost.example.org",
            "http://127.0.0.1.example.org:80",
            "null",
            "",
            "http://",
            "\u{e9}",
        ] {
            assert!(!is_of_this_machine(origin.as_bytes()), "{origin}");
        }
    }
}
