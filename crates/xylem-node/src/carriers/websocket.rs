//! A carrier that is a WebSocket (RFC 6455): each binary message is one datagram.
//!
//! Framing and the client's opening are `tungstenite`'s. The server reads the opening request
//! itself, so that whoever asks for something else gets what a web server would say.

use std::io::{self, Read, Write};

use bytes::{Bytes, BytesMut};
use tungstenite::handshake::client::ClientHandshake;
use tungstenite::handshake::{HandshakeError, MidHandshake, derive_accept_key};
use tungstenite::protocol::{Message, Role, WebSocketConfig};
use tungstenite::{Error, WebSocket};

use super::http::{self, Refusal};
use super::pipe::{Pipe, closed};
use super::{MAX_UNSENT, Turn};

/// Where the WebSocket is.
const PATH: &str = "/socket";
/// Longest message that is taken: the longest datagram.
const MAX_MESSAGE: usize = 65_535;
/// Messages taken in one turn, so that one connection does not keep the others waiting.
const BATCH: usize = 256;
/// Requests that one connection may have refused before it ends.
const MAX_REFUSED: u64 = 100;

fn settings() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(64 * 1024)
        .write_buffer_size(128 * 1024)
        .max_write_buffer_size(MAX_UNSENT)
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
}

/// An open WebSocket.
pub(super) struct Socket(Box<WebSocket<Pipe>>);

/// What came of going on with an opening handshake.
pub(super) enum Opening<T> {
    Open(Socket),
    Waits(T),
}

/// The client's side of the opening.
pub(super) type Asking = MidHandshake<ClientHandshake<Pipe>>;

/// Asks for a WebSocket.
pub(super) fn ask(pipe: Pipe, authority: &str) -> io::Result<Opening<Box<Asking>>> {
    let uri = format!("ws://{authority}{PATH}");
    asked(tungstenite::client::client_with_config(uri, pipe, Some(settings())))
}

/// Goes on with asking.
pub(super) fn ask_on(asking: Box<Asking>) -> io::Result<Opening<Box<Asking>>> {
    asked(asking.handshake())
}

fn asked<R>(
    outcome: Result<(WebSocket<Pipe>, R), HandshakeError<ClientHandshake<Pipe>>>,
) -> io::Result<Opening<Box<Asking>>> {
    match outcome {
        Ok((socket, _)) => Ok(Opening::Open(Socket(Box::new(socket)))),
        Err(HandshakeError::Interrupted(asking)) => Ok(Opening::Waits(Box::new(asking))),
        Err(HandshakeError::Failure(e)) => Err(ended(e)),
    }
}

/// The server's side of the opening.
pub(super) struct Greeting {
    pipe: Pipe,
    input: Vec<u8>,
    output: BytesMut,
    /// The request was good, and this is left of what came behind it.
    accepted: Option<Vec<u8>>,
    /// A refusal has been written that ends the connection.
    ends: bool,
    refused: u64,
}

impl Greeting {
    pub(super) fn new(pipe: Pipe) -> Self {
        let (input, output) = (Vec::new(), BytesMut::new());
        Self { pipe, input, output, accepted: None, ends: false, refused: 0 }
    }

    pub(super) fn pipe(&mut self) -> &mut Pipe {
        &mut self.pipe
    }

    /// Requests that were refused.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Goes on: reads requests and answers them, until one is for a WebSocket.
    pub(super) fn go_on(mut self: Box<Self>) -> io::Result<Opening<Box<Self>>> {
        loop {
            if !self.write()? {
                return Ok(Opening::Waits(self));
            }
            if self.ends {
                return Err(closed());
            }
            if let Some(tail) = self.accepted.take() {
                let role = Role::Server;
                let socket =
                    WebSocket::from_partially_read(self.pipe, tail, role, Some(settings()));
                return Ok(Opening::Open(Socket(Box::new(socket))));
            }
            if self.answer_one() {
                continue;
            }
            // No more than a head is ever held.
            let held = self.input.len();
            self.input.resize(http::MAX_HEAD.max(held + 1), 0);
            let read = self.pipe.read(&mut self.input[held..]);
            self.input.truncate(held + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) => return Err(closed()),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Opening::Waits(self));
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Answers the request that is whole, if one is.
    fn answer_one(&mut self) -> bool {
        let (request, head_len) = match http::read_request(&self.input) {
            Ok(Some(found)) => found,
            Ok(None) if self.input.len() < http::MAX_HEAD => return false,
            Ok(None) | Err(_) => {
                self.refuse(Refusal::BadRequest, &http::Request::default());
                return true;
            }
        };
        let path = request.target.split('?').next().unwrap_or_default();
        let key = request.web_socket_key.as_deref();
        match (request.method.as_str(), key) {
            ("GET", Some(key)) if path == PATH && request.body_len == 0 => {
                let answer = format!(
                    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                     Upgrade: websocket\r\nSec-WebSocket-Accept: {}\r\n\r\n",
                    derive_accept_key(key.as_bytes())
                );
                self.output.extend_from_slice(answer.as_bytes());
                self.accepted = Some(self.input.split_off(head_len));
            }
            ("GET" | "HEAD", _) if request.body_len == 0 => {
                self.refuse(Refusal::NotFound, &request);
                self.input.drain(..head_len);
            }
            // A body that nobody wants to read.
            _ => self.refuse(Refusal::NotAllowed, &http::Request::default()),
        }
        true
    }

    fn refuse(&mut self, refusal: Refusal, request: &http::Request) {
        self.refused += 1;
        refusal.write(request.method == "HEAD", request.keep_alive, &mut self.output);
        self.ends = !request.keep_alive || self.refused >= MAX_REFUSED;
    }

    /// Whether all is written.
    fn write(&mut self) -> io::Result<bool> {
        let wrote = (|| {
            while !self.output.is_empty() {
                let len = self.pipe.write(&self.output)?;
                let _ = self.output.split_to(len);
            }
            self.pipe.flush()
        })();
        match wrote {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(e),
        }
    }
}

impl Socket {
    pub(super) fn pipe(&mut self) -> &mut Pipe {
        self.0.get_mut()
    }

    /// Queues a datagram, or loses it where there is no room, as a full router would.
    pub(super) fn queue(&mut self, datagram: &[u8]) {
        // Errors come again when the turn's end flushes.
        let _ = self.0.write(Message::Binary(Bytes::copy_from_slice(datagram)));
    }

    /// Takes what has arrived.
    pub(super) fn receive(&mut self, each: &mut dyn FnMut(BytesMut)) -> io::Result<Turn> {
        let mut turn = Turn::default();
        for _ in 0..BATCH {
            match self.0.read() {
                Ok(Message::Binary(datagram)) if !datagram.is_empty() => {
                    each(BytesMut::from(datagram));
                }
                // Pings are answered by the library; texts are nobody's.
                Ok(_) => {}
                Err(Error::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => return Ok(turn),
                Err(e) => return Err(ended(e)),
            }
        }
        turn.more = true;
        Ok(turn)
    }

    /// Writes what the socket takes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Ok(()) => Ok(()),
            Err(Error::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(e) => Err(ended(e)),
        }
    }
}

fn ended(e: Error) -> io::Error {
    match e {
        Error::Io(e) => e,
        Error::ConnectionClosed | Error::AlreadyClosed => closed(),
        other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
    }
}
