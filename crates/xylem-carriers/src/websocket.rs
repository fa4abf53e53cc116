//! A carrier that is a WebSocket (RFC 6455): each binary message is one datagram.
//!
//! `tungstenite` does the framing and the client's opening. The server parses the opening request itself, so that other
//! requests get a web server's answers.

use std::io::{self, Read, Write};

use bytes::{Bytes, BytesMut};
use tungstenite::handshake::client::ClientHandshake;
use tungstenite::handshake::{HandshakeError, MidHandshake, derive_accept_key};
use tungstenite::protocol::{Message, Role, WebSocketConfig};
use tungstenite::{Error, WebSocket};

use crate::http::{self, HttpRefusal};
use crate::{CarrierRead, MAX_UNSENT, Paced, closed};

/// Path of the WebSocket.
const PATH: &str = "/socket";
/// Longest message that is accepted: the longest datagram, in bytes.
const MAX_MESSAGE: usize = 65_535;
/// Messages that [`CarrierWebSocket::receive`] takes, so that one connection does not keep the others waiting.
const BATCH: usize = 256;
/// Bytes that [`CarrierWebSocket::receive`] reads in one turn, whether messages become complete by them or not.
const TURN: usize = 128 * 1024;
/// Bytes that may come without a message becoming complete: twice the longest one, and the bytes read ahead. A peer
/// that sends more is sending endless nearly empty pieces (continuation frames may be empty).
const MAX_UNFINISHED: u64 = 2 * MAX_MESSAGE as u64 + READ_AHEAD as u64;
/// Bytes requested from the connection at once.
const READ_AHEAD: usize = 64 * 1024;
/// Refused requests after which a connection ends.
const MAX_REFUSED: u64 = 100;

fn settings() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_AHEAD)
        .write_buffer_size(128 * 1024)
        .max_write_buffer_size(MAX_UNSENT)
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
}

/// An open WebSocket.
pub struct CarrierWebSocket<S> {
    inner: Box<WebSocket<Paced<S>>>,
    /// Bytes that had been read when the last message was complete.
    whole: u64,
}

/// The result of continuing an opening handshake.
pub enum WebSocketOpening<S, T> {
    /// The WebSocket is open.
    Open(CarrierWebSocket<S>),
    /// It waits for data, or for room to write.
    Waits(T),
}

/// The client's side of the opening.
pub type ClientOpening<S> = MidHandshake<ClientHandshake<Paced<S>>>;

/// Asks for a WebSocket.
///
/// # Errors
/// The connection ended, or the other end is none of ours; so for all below.
pub fn ask<S: Read + Write>(
    pipe: S,
    authority: &str,
) -> io::Result<WebSocketOpening<S, Box<ClientOpening<S>>>> {
    let (uri, pipe) = (format!("ws://{authority}{PATH}"), Paced::new(pipe, TURN));
    asked(tungstenite::client::client_with_config(uri, pipe, Some(settings())))
}

/// Continues asking.
///
/// # Errors
/// As [`ask`].
pub fn continue_asking<S: Read + Write>(
    asking: ClientOpening<S>,
) -> io::Result<WebSocketOpening<S, Box<ClientOpening<S>>>> {
    asked(asking.handshake())
}

/// The result of a client's handshake: the open socket with the server's answer `R`, or why there is none yet.
type Shaken<S, R> = Result<(WebSocket<Paced<S>>, R), HandshakeError<ClientHandshake<Paced<S>>>>;

fn asked<S: Read + Write, R>(
    outcome: Shaken<S, R>,
) -> io::Result<WebSocketOpening<S, Box<ClientOpening<S>>>> {
    match outcome {
        Ok((socket, _)) => Ok(WebSocketOpening::Open(CarrierWebSocket::new(socket))),
        Err(HandshakeError::Interrupted(asking)) => Ok(WebSocketOpening::Waits(Box::new(asking))),
        Err(HandshakeError::Failure(e)) => Err(ended(e)),
    }
}

/// The server's side of the opening.
pub struct ServerOpening<S> {
    pipe: S,
    input: Vec<u8>,
    output: BytesMut,
    /// The request was accepted; the bytes that followed it.
    accepted: Option<Vec<u8>>,
    /// A refusal has been written that ends the connection.
    ends: bool,
    refused: u64,
}

impl<S: Read + Write> ServerOpening<S> {
    /// Makes one before any request.
    pub fn new(pipe: S) -> Self {
        let (input, output) = (Vec::new(), BytesMut::new());
        Self { pipe, input, output, accepted: None, ends: false, refused: 0 }
    }

    /// The connection.
    pub fn pipe(&mut self) -> &mut S {
        &mut self.pipe
    }

    /// Number of refused requests.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Reads requests and answers them, until one is for a WebSocket.
    ///
    /// # Errors
    /// The connection ended.
    pub fn advance(mut self: Box<Self>) -> io::Result<WebSocketOpening<S, Box<Self>>> {
        loop {
            if !self.write()? {
                return Ok(WebSocketOpening::Waits(self));
            }
            if self.ends {
                return Err(closed());
            }
            if let Some(tail) = self.accepted.take() {
                let role = Role::Server;
                let pipe = Paced::new(self.pipe, TURN);
                let socket = WebSocket::from_partially_read(pipe, tail, role, Some(settings()));
                return Ok(WebSocketOpening::Open(CarrierWebSocket::new(socket)));
            }
            if self.answer_one() {
                continue;
            }
            // Never holds more than a head.
            let held = self.input.len();
            self.input.resize(http::MAX_HEAD.max(held + 1), 0);
            let read = self.pipe.read(&mut self.input[held..]);
            self.input.truncate(held + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) => return Err(closed()),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(WebSocketOpening::Waits(self));
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Answers a request, if one is complete.
    fn answer_one(&mut self) -> bool {
        let (request, head_len) = match http::read_request(&self.input) {
            Ok(Some(found)) => found,
            Ok(None) if self.input.len() < http::MAX_HEAD => return false,
            Ok(None) | Err(_) => {
                self.refuse(HttpRefusal::BadRequest, &http::RequestHead::default());
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
                self.refuse(HttpRefusal::NotFound, &request);
                self.input.drain(..head_len);
            }
            // A body is not read.
            _ => self.refuse(HttpRefusal::NotAllowed, &http::RequestHead::default()),
        }
        true
    }

    fn refuse(&mut self, refusal: HttpRefusal, request: &http::RequestHead) {
        self.refused += 1;
        refusal.write(request.method == "HEAD", request.keep_alive, &mut self.output);
        self.ends = !request.keep_alive || self.refused >= MAX_REFUSED;
    }

    /// Returns whether all is written.
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

impl<S: Read + Write> CarrierWebSocket<S> {
    fn new(inner: WebSocket<Paced<S>>) -> Self {
        Self { inner: Box::new(inner), whole: 0 }
    }

    /// The connection.
    pub fn pipe(&mut self) -> &mut S {
        self.inner.get_mut().get_mut()
    }

    /// Queues a datagram, or drops it where there is no room, as a full router would.
    pub fn queue(&mut self, datagram: &[u8]) {
        // Errors are returned again by the next flush.
        let _ = self.inner.write(Message::Binary(Bytes::copy_from_slice(datagram)));
    }

    /// Takes arrived messages, and hands out their datagrams.
    ///
    /// # Errors
    /// The connection ended, or the other end is no carrier of ours.
    pub fn receive(&mut self, each: &mut dyn FnMut(BytesMut)) -> io::Result<CarrierRead> {
        self.inner.get_mut().next_turn();
        for _ in 0..BATCH {
            match self.inner.read() {
                Ok(Message::Binary(datagram)) if !datagram.is_empty() => {
                    each(BytesMut::from(datagram));
                }
                // The library answers pings; texts are ignored.
                Ok(_) => {}
                Err(Error::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => {
                    let pipe = self.inner.get_mut();
                    if pipe.total() - self.whole > MAX_UNFINISHED {
                        let what = "WebSocket: a message is too long";
                        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                    }
                    return Ok(CarrierRead { more: pipe.is_spent(), refused: 0 });
                }
                Err(e) => return Err(ended(e)),
            }
            self.whole = self.inner.get_mut().total();
        }
        Ok(CarrierRead { more: true, refused: 0 })
    }

    /// Writes as much as the connection accepts.
    ///
    /// # Errors
    /// The connection ended.
    pub fn flush(&mut self) -> io::Result<()> {
        match self.inner.flush() {
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

#[cfg(test)]
mod tests;
