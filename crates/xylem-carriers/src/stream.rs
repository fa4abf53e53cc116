//! A carrier that is a stream of bytes with messages in it: datagrams with their length, or DNS over HTTPS. Between a
//! connection and the link it holds incomplete messages, and bytes that the connection does not accept yet; both are
//! bounded.

use std::io::{self, Read, Write};
use std::time::Duration;

use bytes::{Buf, BytesMut};

use crate::{CarrierRead, MAX_UNSENT, MAX_UNWRITTEN, Malformed, closed, doh, framing};

/// Bytes that [`CarrierStream::receive`] takes, so that one connection does not keep the others waiting.
const MAX_RECEIVED: usize = 1 << 20;
/// Bytes of receive memory for a busy connection; `QUIET_LEN` is for a quiet one. Datagrams are slices of it, so that
/// each is copied once, from the session's memory.
const BUSY_LEN: usize = 256 * 1024;
const QUIET_LEN: usize = 16 * 1024;
/// With less room than this new memory is allocated.
const MIN_ROOM: usize = 4 * 1024;
/// Bytes after which a write happens before all are queued, so that the reader works meanwhile.
const WRITE_AT: usize = 128 * 1024;

/// The format of the bytes.
pub enum CarrierCodec {
    /// Datagrams with their length.
    Framed,
    /// DNS over HTTPS, at the end that sends queries.
    Client(doh::DohClient),
    /// DNS over HTTPS, at the end that answers.
    Server(doh::DohServer),
}

/// See the module's documentation.
pub struct CarrierStream<S> {
    pipe: S,
    codec: CarrierCodec,
    /// Data of incomplete messages, then room to read into.
    input: BytesMut,
    filled: usize,
    /// The last [`CarrierStream::receive`] brought much.
    busy: bool,
    output: BytesMut,
    /// The socket accepted no more, and has not reported room since.
    blocked: bool,
}

impl<S: Read + Write> CarrierStream<S> {
    /// Takes an established connection.
    pub fn new(pipe: S, codec: CarrierCodec) -> Self {
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
            CarrierCodec::Framed => 0,
            CarrierCodec::Client(client) => client.waiting(),
            CarrierCodec::Server(server) => server.waiting(),
        };
        waiting + self.output.len()
    }

    /// Queues a datagram, or drops it where there is no room, as a full router would.
    pub fn queue(&mut self, now: Duration, datagram: &[u8]) {
        let room = self.output.len() + datagram.len() <= MAX_UNSENT;
        let queued = match &mut self.codec {
            CarrierCodec::Framed => room && framing::wrap(datagram, &mut self.output),
            CarrierCodec::Client(client) => client.queue(datagram),
            CarrierCodec::Server(server) => server.queue(datagram),
        };
        if queued && !self.blocked && self.unsent() >= WRITE_AT {
            // An error is returned again by the next flush.
            let _ = self.flush(now);
        }
    }

    /// Takes arrived data, and hands out its datagrams.
    ///
    /// # Errors
    /// The connection ended, or the other end is no carrier of ours.
    pub fn receive(
        &mut self,
        now: Duration,
        each: &mut dyn FnMut(BytesMut),
    ) -> io::Result<CarrierRead> {
        let mut received = CarrierRead::default();
        self.blocked = false;
        self.flush(now)?;
        let mut taken = 0;
        loop {
            received.refused += u64::from(self.decode(now, each)?);
            // A peer that does not read our answers is not read either.
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
            // An idle connection holds no receive memory.
            self.input = BytesMut::new();
        }
        self.flush(now)?;
        Ok(received)
    }

    /// Returns whether too many answers wait for the socket.
    fn is_full(&self) -> bool {
        matches!(self.codec, CarrierCodec::Server(_)) && self.output.len() >= MAX_UNWRITTEN
    }

    /// Ensures room to read into, after the incomplete data.
    fn make_room(&mut self) {
        if self.input.len() - self.filled < MIN_ROOM {
            let room = if self.busy { BUSY_LEN } else { QUIET_LEN };
            // Incomplete data is shorter than a message of any kind, so this doubles at most.
            let mut fresh = BytesMut::zeroed(room.max(2 * self.filled + MIN_ROOM));
            fresh[..self.filled].copy_from_slice(&self.input[..self.filled]);
            self.input = fresh;
            self.busy = true;
        }
    }

    /// Decodes messages; returns whether there were requests that are not ours.
    fn decode(&mut self, now: Duration, each: &mut dyn FnMut(BytesMut)) -> io::Result<bool> {
        let broken = |Malformed(what)| io::Error::new(io::ErrorKind::InvalidData, what);
        let room = self.input.split_off(self.filled);
        let mut refused = false;
        match &mut self.codec {
            CarrierCodec::Framed => {
                while let Some(datagram) = framing::unwrap(&mut self.input).map_err(broken)? {
                    each(datagram);
                }
            }
            CarrierCodec::Client(client) => {
                client.receive(&mut self.input, each).map_err(broken)?
            }
            CarrierCodec::Server(server) => {
                refused = server.receive(now, &mut self.input, &mut self.output, each);
            }
        }
        // Both parts belong to one allocation, so nothing is copied.
        self.filled = self.input.len();
        self.input.unsplit(room);
        Ok(refused)
    }

    /// Writes as much as the connection accepts.
    ///
    /// # Errors
    /// The connection ended.
    pub fn flush(&mut self, now: Duration) -> io::Result<()> {
        loop {
            match &mut self.codec {
                CarrierCodec::Framed => {}
                CarrierCodec::Client(client) => client.poll(&mut self.output),
                CarrierCodec::Server(server) => server.poll(now, &mut self.output),
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
                CarrierCodec::Server(server) if server.ends() => return Err(closed()),
                // There is room again for waiting datagrams.
                CarrierCodec::Client(client) if client.can_poll() => {}
                CarrierCodec::Server(server) if server.can_poll(now) => {}
                _ => return Ok(()),
            }
        }
    }
}
