//! One TCP connection that carries NDN packets back to back.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use bytes::{Buf, Bytes, BytesMut};
use mio::net::TcpStream;
use mio::{Interest, Poll, Token};
use xylem_packet::{MAX_PACKET, frame_len};

/// Bytes that may wait for a slow reader before packets to it are dropped.
const MAX_UNSENT: usize = 4 << 20;
/// Bytes asked of the kernel in one read.
const READ_LEN: usize = 128 * 1024;

/// A connection, perhaps still being made.
pub(crate) struct Tcp {
    stream: TcpStream,
    token: Token,
    remote: SocketAddr,
    connected: bool,
    waiting_to_write: bool,
    incoming: BytesMut,
    outgoing: BytesMut,
}

impl Tcp {
    /// Wraps a connection; `connected` is false for one that is being dialled.
    pub(crate) fn new(
        mut stream: TcpStream,
        remote: SocketAddr,
        token: Token,
        connected: bool,
        poll: &Poll,
    ) -> io::Result<Self> {
        let _ = stream.set_nodelay(true);
        poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self {
            stream,
            token,
            remote,
            connected,
            waiting_to_write: true,
            incoming: BytesMut::new(),
            outgoing: BytesMut::new(),
        })
    }

    /// The other end.
    pub(crate) fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Whether the connection stands.
    pub(crate) fn connected(&self) -> bool {
        self.connected
    }

    /// Takes the outcome of dialling once the socket is writable. `Ok(true)`: it has just come up.
    pub(crate) fn finish_connect(&mut self) -> io::Result<bool> {
        if self.connected {
            return Ok(false);
        }
        if let Some(e) = self.stream.take_error()? {
            return Err(e);
        }
        match self.stream.peer_addr() {
            Ok(_) => {
                self.connected = true;
                Ok(true)
            }
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Reads what is there and hands over each whole packet.
    ///
    /// # Errors
    /// The connection ended, or what it carries is not NDN.
    pub(crate) fn receive(&mut self, each: &mut dyn FnMut(Bytes)) -> io::Result<()> {
        loop {
            let held = self.incoming.len();
            self.incoming.resize(held + READ_LEN, 0);
            let read = self.stream.read(&mut self.incoming[held..]);
            self.incoming.truncate(held + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed")),
                Ok(_) => self.split(each)?,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn split(&mut self, each: &mut dyn FnMut(Bytes)) -> io::Result<()> {
        let not_ndn = |_| io::Error::new(io::ErrorKind::InvalidData, "not an NDN packet");
        while let Some(len) = frame_len(&self.incoming).map_err(not_ndn)? {
            if len > self.incoming.len() {
                break;
            }
            each(self.incoming.split_to(len).freeze());
        }
        // A packet that can't end within the limit would make the buffer grow for ever.
        if self.incoming.len() > 2 * MAX_PACKET {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "oversized packet"));
        }
        Ok(())
    }

    /// Queues a packet; a reader that does not keep up loses it, as on a datagram face.
    pub(crate) fn queue(&mut self, packet: &[u8]) {
        if self.connected && self.outgoing.len() + packet.len() <= MAX_UNSENT {
            self.outgoing.extend_from_slice(packet);
        }
    }

    /// Writes what the socket takes.
    pub(crate) fn flush(&mut self, poll: &Poll) -> io::Result<()> {
        while self.connected && !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(n) => self.outgoing.advance(n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let wait = !self.connected || !self.outgoing.is_empty();
        if wait != self.waiting_to_write {
            let interest =
                if wait { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            poll.registry().reregister(&mut self.stream, self.token, interest)?;
            self.waiting_to_write = wait;
        }
        Ok(())
    }
}
