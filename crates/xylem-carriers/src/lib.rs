//! [`Stream`] and [`Socket`]: a link's datagrams within a TCP connection, unchanged, where UDP does
//! not pass or should not be seen. Three kinds, each real in the sense that a library which others
//! use, or an analyser, takes it for what it looks like (docs/spec/carriers.md): TLS 1.3, WebSocket
//! (over TLS or not) and DNS over HTTPS.
//!
//! Datagrams come from the link and go to it; bytes come from and go to whatever is [`std::io::Read`]
//! and [`std::io::Write`] and answers `WouldBlock` where it would have to wait. There is no socket and
//! no clock here, and nothing proves who is there: the link inside does. A datagram that a slow
//! connection has no room for is lost, as on a network.

pub mod dns;
pub mod doh;
pub mod framing;
pub mod http;
pub mod tls;

mod paced;
mod stream;
mod websocket;

pub use paced::Paced;
pub use stream::{Codec, Stream};
pub use websocket::{Asking, Greeting, Opening, Socket, ask, ask_on};

use std::io;

/// Bytes of datagrams that wait for one connection; more are lost.
pub const MAX_UNSENT: usize = 1 << 20;
/// Bytes of finished messages that wait for one connection before no more are made or read.
pub const MAX_UNWRITTEN: usize = 256 * 1024;

/// Why bytes are none of a carrier's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// What came of taking in what had arrived.
#[derive(Debug, Clone, Copy, Default)]
pub struct Received {
    /// More may have arrived.
    pub more: bool,
    /// Requests that were not ours, and were answered as a web server does.
    pub refused: u64,
}

/// The other end has ended the connection.
pub fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "closed")
}
