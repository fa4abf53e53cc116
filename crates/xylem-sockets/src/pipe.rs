//! One TCP connection that never blocks, with or without a TLS session: [`Read`] and [`Write`] of the plaintext.

use std::io::{self, Read, Write};

use mio::event::Source;
use mio::net::TcpStream;
use rustls::Connection as Session;
use xylem_carriers::{Paced, closed};

/// Bytes requested from the kernel in one read under a TLS session: several whole records at once.
const READ_LEN: usize = 64 * 1024;
/// Most consecutive pieces of records (4 KiB each) without a byte for this program: a peer that sends more only wants
/// to keep it busy. A whole record is five pieces.
const MAX_EMPTY: usize = 64;
/// Most bytes read in one turn, however many the session and its user make of them.
const TURN: usize = 1 << 20;
/// Sealed bytes that wait for the socket before the session accepts no more.
const MAX_SEALED: usize = 256 * 1024;

/// See the module's documentation.
pub(crate) struct Pipe {
    socket: Paced<TcpStream>,
    session: Option<Box<Session>>,
    connected: bool,
    /// Bytes from the socket that the session has not read as records yet, from index `read` on.
    raw: Vec<u8>,
    read: usize,
}

impl Pipe {
    /// Wraps a connection that has been accepted or is being dialled.
    pub(crate) fn new(socket: TcpStream, session: Option<Session>) -> Self {
        let session = session.map(|mut session| {
            session.set_buffer_limit(Some(MAX_SEALED));
            Box::new(session)
        });
        let socket = Paced::new(socket, TURN);
        Self { socket, session, connected: false, raw: Vec::new(), read: 0 }
    }

    /// The socket to register for readiness.
    pub(crate) fn source(&mut self) -> &mut impl Source {
        self.socket.get_mut()
    }

    /// Begins the next turn of the loop.
    pub(crate) fn next_turn(&mut self) {
        self.socket.next_turn();
    }

    /// Returns whether this turn has read its limit: more data may wait.
    pub(crate) fn is_spent(&self) -> bool {
        self.socket.is_spent()
    }

    /// Continues connecting and the TLS handshake; returns whether both are done.
    ///
    /// # Errors
    /// No connection, or the other end speaks no TLS that we speak.
    pub(crate) fn open(&mut self) -> io::Result<bool> {
        if !self.connected {
            let socket = self.socket.get_mut();
            if let Some(e) = socket.take_error()? {
                return Err(e);
            }
            match socket.peer_addr() {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::NotConnected => return Ok(false),
                Err(e) => return Err(e),
            }
            let _ = socket.set_nodelay(true);
            self.connected = true;
        }
        loop {
            let handshaking = self.session.as_ref().is_some_and(|s| s.is_handshaking());
            self.push()?;
            if !handshaking {
                return Ok(true);
            }
            match self.pull() {
                Ok(0) => return Err(closed()),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
    }

    /// Signals that nothing follows, as far as the socket accepts that.
    pub(crate) fn send_close(&mut self) {
        if let Some(session) = &mut self.session {
            session.send_close_notify();
        }
        // This may fail: the other end sees the connection's end in any case.
        let _ = self.push();
        let _ = self.socket.get_mut().shutdown(std::net::Shutdown::Write);
    }

    /// Reads records from the socket into the session; 0 at the connection's end.
    fn pull(&mut self) -> io::Result<usize> {
        let Some(session) = &mut self.session else { return Ok(0) };
        if self.read == self.raw.len() {
            self.raw.resize(READ_LEN, 0);
            self.read = 0;
            match read(&mut self.socket, &mut self.raw) {
                Ok(len) => self.raw.truncate(len),
                Err(e) => {
                    // An idle connection holds no receive buffer.
                    self.raw = Vec::new();
                    return Err(e);
                }
            }
        }
        let mut rest = &self.raw[self.read..];
        let taken = session.read_tls(&mut rest)?;
        self.read += taken;
        if let Err(e) = session.process_new_packets() {
            // Sends the alert with the reason.
            let _ = self.push();
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {e}")));
        }
        Ok(taken)
    }

    /// Writes sealed bytes of the session to the socket, as far as it accepts them.
    fn push(&mut self) -> io::Result<()> {
        let Some(session) = &mut self.session else { return Ok(()) };
        while session.wants_write() {
            match session.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        for _ in 0..MAX_EMPTY {
            let Some(session) = &mut self.session else { return read(&mut self.socket, into) };
            match session.reader().read(into) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            if self.pull()? == 0 {
                return Err(closed());
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "TLS: records with nothing in them"))
    }
}

impl Write for Pipe {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let Some(session) = &mut self.session else {
            loop {
                match self.socket.write(from) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    done => return done,
                }
            }
        };
        match session.writer().write(from)? {
            0 if !from.is_empty() => {}
            taken => return Ok(taken),
        }
        self.push()?;
        let Some(session) = &mut self.session else { return Ok(0) };
        match session.writer().write(from)? {
            0 if !from.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            taken => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push()?;
        match &self.session {
            Some(session) if session.wants_write() => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    }
}

fn read(socket: &mut Paced<TcpStream>, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket.read(into) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
