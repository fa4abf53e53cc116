//! A carrier that is a stream of bytes with messages of ours in it: datagrams with their length, or
//! DNS over HTTPS. Between a connection and the link it holds what is not whole yet, and what
//! that does not take yet; both are bounded.

use std::io::{self, Read, Write};
use std::time::Duration;

use bytes::{Buf, BytesMut};

use crate::{MAX_UNSENT, MAX_UNWRITTEN, Malformed, Received, closed, doh, framing};

/// Bytes that [`Stream::receive`] takes, so that one connection does not keep the others waiting.
const MAX_RECEIVED: usize = 1 << 20;
/// Memory that is read into: of a connection that is busy, and of one that is not. Datagrams are slices
/// of it, so that each is copied once, from the session's memory.
const BUSY_LEN: usize = 256 * 1024;
const QUIET_LEN: usize = 16 * 1024;
/// With less room than this there is new memory.
const MIN_ROOM: usize = 4 * 1024;
/// Bytes that are written before all are queued, so that the reader works meanwhile.
const WRITE_AT: usize = 128 * 1024;

/// What the bytes mean.
pub enum Codec {
    /// Datagrams with their length.
    Framed,
    /// DNS over HTTPS, at the end that asks.
    Client(doh::Client),
    /// DNS over HTTPS, at the end that answers.
    Server(doh::Server),
}

/// See the module's documentation.
pub struct Stream<S> {
    pipe: S,
    codec: Codec,
    /// What has come and is not whole yet, then room to read into.
    input: BytesMut,
    filled: usize,
    /// The last [`Stream::receive`] brought much.
    busy: bool,
    output: BytesMut,
    /// The socket took no more, and has not said since that it does.
    blocked: bool,
}

impl<S: Read + Write> Stream<S> {
    /// Over a connection that stands.
    pub fn new(pipe: S, codec: Codec) -> Self {
        let (input, output) = (BytesMut::new(), BytesMut::new());
        Self { pipe, codec, input, filled: 0, busy: false, output, blocked: false }
    }

    /// The connection.
    pub fn pipe(&mut self) -> &mut S {
        &mut self.pipe
    }

    /// Bytes that wait here.
    pub fn unsent(&self) -> usize {
        let waiting = match &self.codec {
            Codec::Framed => 0,
            Codec::Client(client) => client.waiting(),
            Codec::Server(server) => server.waiting(),
        };
        waiting + self.output.len()
    }

    /// Queues a datagram, or loses it where there is no room, as a full router would.
    pub fn queue(&mut self, now: Duration, datagram: &[u8]) {
        let room = self.output.len() + datagram.len() <= MAX_UNSENT;
        let queued = match &mut self.codec {
            Codec::Framed => room && framing::wrap(datagram, &mut self.output),
            Codec::Client(client) => client.queue(datagram),
            Codec::Server(server) => server.queue(datagram),
        };
        if queued && !self.blocked && self.unsent() >= WRITE_AT {
            // An error comes again with the next flush.
            let _ = self.flush(now);
        }
    }

    /// Takes what has arrived, and hands out its datagrams.
    ///
    /// # Errors
    /// The connection ended, or the other end is no carrier of ours.
    pub fn receive(
        &mut self,
        now: Duration,
        each: &mut dyn FnMut(BytesMut),
    ) -> io::Result<Received> {
        let mut received = Received::default();
        self.blocked = false;
        self.flush(now)?;
        let mut taken = 0;
        loop {
            received.refused += u64::from(self.decode(now, each)?);
            // Whoever does not take our answers is not read either.
            if self.is_full() {
                self.flush(now)?;
                if self.is_full() {
                    break;
                }
                continue;
            }
            if taken >= MAX_RECEIVED {
                received.more = true;
                break;
            }
            self.make_room();
            match self.pipe.read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(closed()),
                Ok(len) => {
                    self.filled += len;
                    taken += len;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        self.busy = taken >= QUIET_LEN;
        if self.filled == 0 && !self.busy {
            // A connection that is idle holds no memory for what may come.
            self.input = BytesMut::new();
        }
        self.flush(now)?;
        Ok(received)
    }

    /// Whether more answers wait for the socket than should.
    fn is_full(&self) -> bool {
        matches!(self.codec, Codec::Server(_)) && self.output.len() >= MAX_UNWRITTEN
    }

    /// Sees that there is room to read into, behind what is not whole.
    fn make_room(&mut self) {
        if self.input.len() - self.filled < MIN_ROOM {
            let room = if self.busy { BUSY_LEN } else { QUIET_LEN };
            // What is not whole is shorter than a message of any kind, so this doubles at most.
            let mut fresh = BytesMut::zeroed(room.max(2 * self.filled + MIN_ROOM));
            fresh[..self.filled].copy_from_slice(&self.input[..self.filled]);
            self.input = fresh;
            self.busy = true;
        }
    }

    /// Whether there was something that is not ours.
    fn decode(&mut self, now: Duration, each: &mut dyn FnMut(BytesMut)) -> io::Result<bool> {
        let broken = |Malformed(what)| io::Error::new(io::ErrorKind::InvalidData, what);
        let room = self.input.split_off(self.filled);
        let mut refused = false;
        match &mut self.codec {
            Codec::Framed => {
                while let Some(datagram) = framing::unwrap(&mut self.input).map_err(broken)? {
                    each(datagram);
                }
            }
            Codec::Client(client) => client.receive(&mut self.input, each).map_err(broken)?,
            Codec::Server(server) => {
                refused = server.receive(now, &mut self.input, &mut self.output, each);
            }
        }
        // Both are of one piece of memory, so nothing is copied.
        self.filled = self.input.len();
        self.input.unsplit(room);
        Ok(refused)
    }

    /// Writes what the connection takes.
    ///
    /// # Errors
    /// The connection ended.
    pub fn flush(&mut self, now: Duration) -> io::Result<()> {
        loop {
            match &mut self.codec {
                Codec::Framed => {}
                Codec::Client(client) => client.poll(&mut self.output),
                Codec::Server(server) => server.poll(now, &mut self.output),
            }
            while !self.output.is_empty() {
                match self.pipe.write(&self.output) {
                    Ok(len) => self.output.advance(len),
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                        self.blocked = true;
                        return Ok(());
                    }
                    Err(e) => return Err(e),
                }
            }
            match self.pipe.flush() {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(());
                }
                other => other?,
            }
            match &self.codec {
                Codec::Server(server) if server.ends() => return Err(closed()),
                // There is room again for what waited.
                Codec::Client(client) if client.can_poll() => {}
                Codec::Server(server) if server.can_poll(now) => {}
                _ => return Ok(()),
            }
        }
    }
}
