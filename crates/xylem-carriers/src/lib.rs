//! [`CarrierStream`] and [`CarrierWebSocket`]: a link's datagrams within a TCP connection, unchanged, where UDP does not pass or should
//! not be seen. There are three kinds: TLS 1.3, WebSocket (over TLS or not) and DNS over HTTPS. Each is genuine: a
//! common library, or a protocol analyser, accepts it as what it looks like (docs/spec/carriers.md).
//!
//! Datagrams come from the link and go to it. Bytes come from and go to anything that is [`std::io::Read`] and
//! [`std::io::Write`] and answers `WouldBlock` where it would have to wait. This crate has no socket and no clock, and
//! does not authenticate the peer: the link inside does. A datagram for which a slow connection has no room is lost, as
//! on a network.

pub mod dns;
pub mod doh;
pub mod framing;
pub mod http;
pub mod tls;

mod paced;
mod stream;
mod websocket;

pub use paced::Paced;
pub use stream::{CarrierCodec, CarrierStream};
pub use websocket::{
    CarrierWebSocket, ClientOpening, ServerOpening, WebSocketOpening, ask, continue_asking,
};

use std::io;

/// Bytes of datagrams that may wait for one connection; further ones are lost.
pub const MAX_UNSENT: usize = 1 << 20;
/// Bytes of finished messages that may wait for one connection; beyond them no more are made or read.
pub const MAX_UNWRITTEN: usize = 256 * 1024;

/// Why bytes are not a carrier's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// The result of taking in arrived data.
#[derive(Debug, Clone, Copy, Default)]
pub struct CarrierRead {
    /// More may have arrived.
    pub more: bool,
    /// Requests that were not ours, and got a web server's answer.
    pub refused: u64,
}

/// The error for a connection that the other end has closed.
pub fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "closed")
}
