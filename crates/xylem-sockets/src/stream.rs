//! One TCP or Unix connection that carries NDN packets back to back.
//!
//! A read takes one system call for all that has arrived and no allocation: bytes land in a buffer that all streams of
//! an engine share, after the incomplete packet of the last read. Writes collect the packets of an event loop's turn
//! for this face and pass them on in one call.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes, BytesMut};
use mio::net::TcpStream;
#[cfg(unix)]
use mio::net::UnixStream;
use mio::{Interest, Poll, Token};

use crate::BufferPool;
#[cfg(target_os = "linux")]
use crate::shared::SharedStream;

/// Bytes requested from the kernel in one read.
const READ_LEN: usize = 128 * 1024;

/// Bytes that may wait for a slow reader before packets to it are dropped.
const MAX_UNSENT: usize = 4 << 20;
/// Bytes after which a write happens before the turn ends, so that the reader works meanwhile.
const WRITE_AT: usize = 128 * 1024;

/// The transport of a stream.
pub enum StreamSocket {
    /// A TCP connection.
    Tcp(TcpStream),
    #[cfg(unix)]
    /// A Unix socket.
    Unix(UnixStream),
    #[cfg(target_os = "linux")]
    /// Memory shared with the other end.
    Shared(Box<SharedStream>),
}

impl StreamSocket {
    fn source(&mut self) -> &mut dyn mio::event::Source {
        match self {
            Self::Tcp(stream) => stream,
            #[cfg(unix)]
            Self::Unix(stream) => stream,
            #[cfg(target_os = "linux")]
            Self::Shared(shared) => shared.socket(),
        }
    }

    /// Returns whether the transport has ended without a further wake-up.
    fn ended(&self) -> bool {
        #[cfg(target_os = "linux")]
        return matches!(self, Self::Shared(shared) if shared.ended());
        #[cfg(not(target_os = "linux"))]
        false
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self {
            Self::Tcp(stream) => stream.take_error(),
            #[cfg(unix)]
            Self::Unix(stream) => stream.take_error(),
            // Shared memory is connected from the beginning; a read reports its end.
            #[cfg(target_os = "linux")]
            Self::Shared(_) => Ok(None),
        }
    }

    /// An error of kind `NotConnected` while the connection is being made.
    fn check_peer(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().map(drop),
            #[cfg(unix)]
            Self::Unix(stream) => stream.peer_addr().map(drop),
            // Shared memory is connected from the beginning; a read reports its end.
            #[cfg(target_os = "linux")]
            Self::Shared(_) => Ok(()),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            #[cfg(unix)]
            Self::Unix(stream) => stream.read(into),
            #[cfg(target_os = "linux")]
            Self::Shared(shared) => shared.read(into),
        }
    }

    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(from),
            #[cfg(unix)]
            Self::Unix(stream) => stream.write(from),
            #[cfg(target_os = "linux")]
            Self::Shared(shared) => shared.write(from),
        }
    }
}

/// The result of one read.
pub struct ReadResult {
    /// Bytes from the buffer's beginning: the rest of the read before, then new ones.
    pub filled: usize,
    /// More may be waiting.
    pub more: bool,
}

/// A connection, perhaps still being made.
pub struct PacketStream {
    socket: StreamSocket,
    token: Token,
    connected: bool,
    waiting_to_write: bool,
    /// The beginning of an incomplete packet.
    rest: Vec<u8>,
    outgoing: BytesMut,
}

impl PacketStream {
    /// Wraps a connection; `connected` is false for one that is being dialled.
    pub fn new(
        mut socket: StreamSocket,
        token: Token,
        connected: bool,
        poll: &Poll,
    ) -> io::Result<Self> {
        match &socket {
            StreamSocket::Tcp(stream) => drop(stream.set_nodelay(true)),
            #[cfg(unix)]
            StreamSocket::Unix(_) => {}
            #[cfg(target_os = "linux")]
            StreamSocket::Shared(_) => {}
        }
        let both = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(socket.source(), token, both)?;
        Ok(Self {
            socket,
            token,
            connected,
            waiting_to_write: true,
            rest: Vec::new(),
            outgoing: BytesMut::new(),
        })
    }

    /// The token of its readiness events.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns whether the connection is established.
    pub fn connected(&self) -> bool {
        self.connected
    }

    /// Returns whether it goes through shared memory.
    pub fn is_shared(&self) -> bool {
        #[cfg(target_os = "linux")]
        return matches!(self.socket, StreamSocket::Shared(_));
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Bytes that wait for the other end to read.
    pub fn unsent(&self) -> usize {
        self.outgoing.len()
    }

    /// Takes the outcome of dialling once the socket is writable. `Ok(true)`: it has just come up.
    ///
    /// # Errors
    /// The connection could not be made.
    pub fn finish_connect(&mut self) -> io::Result<bool> {
        if self.connected {
            return Ok(false);
        }
        if let Some(e) = self.socket.take_error()? {
            return Err(e);
        }
        match self.socket.check_peer() {
            Ok(()) => {
                self.connected = true;
                Ok(true)
            }
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Reads once, after the bytes that [`PacketStream::keep`] was given.
    ///
    /// # Errors
    /// The connection ended.
    pub fn read(&mut self, buffer: &mut ReadBuffer) -> io::Result<ReadResult> {
        let room = buffer.room();
        let held = self.rest.len();
        room[..held].copy_from_slice(&self.rest);
        self.rest.clear();
        loop {
            match self.socket.read(&mut room[held..]) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed")),
                Ok(n) => {
                    // A short read has emptied a Unix socket; on other systems only an error shows that. An end that
                    // came together with the last bytes shows only in another read.
                    let emptied = held + n < room.len() && cfg!(unix);
                    let more = !emptied || self.socket.ended();
                    return Ok(ReadResult { filled: held + n, more });
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(ReadResult { filled: held, more: false });
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Keeps the beginning of a packet (shorter than one) for the next read.
    pub fn keep(&mut self, rest: &[u8]) {
        self.rest.extend_from_slice(rest);
    }

    /// Queues a packet; a reader that does not keep up loses it, as on a datagram face.
    pub fn queue(&mut self, packet: &[u8]) -> bool {
        let room = self.connected && self.outgoing.len() + packet.len() <= MAX_UNSENT;
        if room {
            self.outgoing.extend_from_slice(packet);
            if self.outgoing.len() >= WRITE_AT && !self.waiting_to_write {
                // An error is returned again by the flush at the turn's end.
                let _ = self.write();
            }
        }
        room
    }

    fn write(&mut self) -> io::Result<()> {
        while self.connected && !self.outgoing.is_empty() {
            match self.socket.write(&self.outgoing) {
                Ok(n) => self.outgoing.advance(n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Writes as much as the socket accepts.
    ///
    /// # Errors
    /// The connection ended.
    pub fn flush(&mut self, poll: &Poll) -> io::Result<()> {
        self.write()?;
        let wait = !self.connected || !self.outgoing.is_empty();
        // For shared memory the socket becomes readable when there is room.
        #[cfg(target_os = "linux")]
        if let StreamSocket::Shared(_) = self.socket {
            self.waiting_to_write = wait;
            return Ok(());
        }
        if wait != self.waiting_to_write {
            let interest =
                if wait { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            poll.registry().reregister(self.socket.source(), self.token, interest)?;
            self.waiting_to_write = wait;
        }
        Ok(())
    }
}

/// The memory that streams are read into, one at a time. It is reused; while a slice of it is held, the next read gets
/// other memory.
#[derive(Default)]
pub struct ReadBuffer {
    now: BytesMut,
    used: BufferPool,
}

impl ReadBuffer {
    /// All of it, to be overwritten.
    fn room(&mut self) -> &mut [u8] {
        if self.now.len() < READ_LEN {
            self.now = self.used.buffer(READ_LEN);
        }
        &mut self.now
    }

    /// Gives out the bytes that were read, to be sliced.
    pub fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.now).freeze()
    }

    /// Takes back the bytes of [`ReadBuffer::take`].
    pub fn give_back(&mut self, bytes: Bytes) {
        match bytes.try_into_mut() {
            Ok(mine) => self.now = mine,
            Err(bytes) => self.used.keep(bytes),
        }
    }
}
