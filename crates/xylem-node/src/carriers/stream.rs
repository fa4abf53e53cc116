//! A carrier that is a stream of bytes with messages of ours in it: datagrams with their length, or
//! DNS over HTTPS. Between a [`Pipe`] and the endpoint it holds what is not whole yet, and what the
//! socket does not take yet; both are bounded.

use std::io::{self, Read, Write};
use std::time::Duration;

use bytes::{Buf, BytesMut};

use super::pipe::{Pipe, closed};
use super::{MAX_UNSENT, MAX_UNWRITTEN, Malformed, Turn, doh, framing};

/// Bytes taken in one turn, so that one connection does not keep the others waiting.
const TURN_LEN: usize = 1 << 20;
/// Bytes asked of the pipe in one read.
const READ_LEN: usize = 64 * 1024;
/// Bytes that are written before the turn ends, so that the reader works meanwhile.
const WRITE_AT: usize = 128 * 1024;

/// What the bytes mean.
pub(super) enum Codec {
    Framed,
    Client(doh::Client),
    Server(doh::Server),
}

/// See the module's documentation.
pub(super) struct Stream {
    pipe: Pipe,
    codec: Codec,
    input: BytesMut,
    output: BytesMut,
    /// The socket took no more, and has not said since that it does.
    blocked: bool,
}

impl Stream {
    pub(super) fn new(pipe: Pipe, codec: Codec) -> Self {
        Self { pipe, codec, input: BytesMut::new(), output: BytesMut::new(), blocked: false }
    }

    pub(super) fn pipe(&mut self) -> &mut Pipe {
        &mut self.pipe
    }

    /// Bytes that wait here.
    pub(super) fn unsent(&self) -> usize {
        let waiting = match &self.codec {
            Codec::Framed => 0,
            Codec::Client(client) => client.waiting(),
            Codec::Server(server) => server.waiting(),
        };
        waiting + self.output.len()
    }

    /// Queues a datagram, or loses it where there is no room, as a full router would.
    pub(super) fn queue(&mut self, now: Duration, datagram: &[u8]) {
        let room = self.output.len() + datagram.len() <= MAX_UNSENT;
        let queued = match &mut self.codec {
            Codec::Framed => room && framing::wrap(datagram, &mut self.output),
            Codec::Client(client) => client.queue(datagram),
            Codec::Server(server) => server.queue(datagram),
        };
        if queued && !self.blocked && self.unsent() >= WRITE_AT {
            // An error comes again when the turn's end flushes.
            let _ = self.flush(now);
        }
    }

    /// Takes what has arrived.
    pub(super) fn receive(
        &mut self,
        now: Duration,
        each: &mut dyn FnMut(BytesMut),
    ) -> io::Result<Turn> {
        let mut turn = Turn::default();
        self.blocked = false;
        self.flush(now)?;
        let mut taken = 0;
        loop {
            turn.refused += u64::from(self.decode(now, each)?);
            // Whoever does not take our answers is not read either.
            if self.is_full() {
                self.flush(now)?;
                if self.is_full() {
                    break;
                }
                continue;
            }
            if taken >= TURN_LEN {
                turn.more = true;
                break;
            }
            let held = self.input.len();
            self.input.resize(held + READ_LEN, 0);
            let read = self.pipe.read(&mut self.input[held..]);
            self.input.truncate(held + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) => return Err(closed()),
                Ok(len) => taken += len,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        if self.input.is_empty() {
            // A connection that is idle holds no memory for what may come.
            self.input = BytesMut::new();
        }
        self.flush(now)?;
        Ok(turn)
    }

    /// Whether more answers wait for the socket than should.
    fn is_full(&self) -> bool {
        matches!(self.codec, Codec::Server(_)) && self.output.len() >= MAX_UNWRITTEN
    }

    /// Whether there was something that is not ours.
    fn decode(&mut self, now: Duration, each: &mut dyn FnMut(BytesMut)) -> io::Result<bool> {
        let broken = |Malformed(what)| io::Error::new(io::ErrorKind::InvalidData, what);
        match &mut self.codec {
            Codec::Framed => {
                while let Some(datagram) = framing::unwrap(&mut self.input).map_err(broken)? {
                    each(datagram);
                }
                Ok(false)
            }
            Codec::Client(client) => {
                client.receive(&mut self.input, each).map_err(broken)?;
                Ok(false)
            }
            Codec::Server(server) => {
                Ok(server.receive(now, &mut self.input, &mut self.output, each))
            }
        }
    }

    /// Writes what the socket takes.
    pub(super) fn flush(&mut self, now: Duration) -> io::Result<()> {
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
