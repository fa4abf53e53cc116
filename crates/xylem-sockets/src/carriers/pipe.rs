//! One TCP connection that never blocks, with a TLS session on it or without: [`Read`] and
//! [`Write`] of what is inside.

use std::io::{self, Read, Write};

use mio::event::Source;
use mio::net::TcpStream;
use rustls::Connection as Session;
use xylem_carriers::{Paced, closed};

/// Bytes asked of the kernel in one read under a TLS session: whole records, several at once.
const READ_LEN: usize = 64 * 1024;
/// Pieces of records (4 KiB each) that may follow one another without a byte in them for us: whoever
/// sends more wants to keep us busy. A whole record is five.
const MAX_EMPTY: usize = 64;
/// Bytes read in one turn, whatever the session and what runs on it make of them.
const TURN: usize = 1 << 20;
/// Sealed bytes that wait for the socket before the session takes no more.
const MAX_SEALED: usize = 256 * 1024;

/// See the module's documentation.
pub(super) struct Pipe {
    socket: Paced<TcpStream>,
    session: Option<Box<Session>>,
    connected: bool,
    /// What came from the socket and has not been read as records yet, from `read` on.
    raw: Vec<u8>,
    read: usize,
}

impl Pipe {
    /// A connection that has been accepted or is being dialled.
    pub(super) fn new(socket: TcpStream, session: Option<Session>) -> Self {
        let session = session.map(|mut session| {
            session.set_buffer_limit(Some(MAX_SEALED));
            Box::new(session)
        });
        let socket = Paced::new(socket, TURN);
        Self { socket, session, connected: false, raw: Vec::new(), read: 0 }
    }

    /// What readiness is registered for.
    pub(super) fn source(&mut self) -> &mut impl Source {
        self.socket.get_mut()
    }

    /// Begins the next turn of the loop.
    pub(super) fn next_turn(&mut self) {
        self.socket.next_turn();
    }

    /// Whether this turn has read as much as it may: more may have come.
    pub(super) fn is_spent(&self) -> bool {
        self.socket.is_spent()
    }

    /// Goes on with connecting and the TLS handshake: whether both are done.
    ///
    /// # Errors
    /// No connection, or the other end speaks no TLS that we speak.
    pub(super) fn open(&mut self) -> io::Result<bool> {
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

    /// Says that nothing follows, as far as the socket takes that.
    pub(super) fn say_goodbye(&mut self) {
        if let Some(session) = &mut self.session {
            session.send_close_notify();
        }
        // The other end sees the connection's end in any case.
        let _ = self.push();
        let _ = self.socket.get_mut().shutdown(std::net::Shutdown::Write);
    }

    /// Takes records from the socket into the session; 0 at the connection's end.
    fn pull(&mut self) -> io::Result<usize> {
        let Some(session) = &mut self.session else { return Ok(0) };
        if self.read == self.raw.len() {
            self.raw.resize(READ_LEN, 0);
            self.read = 0;
            match read(&mut self.socket, &mut self.raw) {
                Ok(len) => self.raw.truncate(len),
                Err(e) => {
                    // A connection that is idle holds no memory for what may come.
                    self.raw = Vec::new();
                    return Err(e);
                }
            }
        }
        let mut rest = &self.raw[self.read..];
        let taken = session.read_tls(&mut rest)?;
        self.read += taken;
        if let Err(e) = session.process_new_packets() {
            // The alert that says why.
            let _ = self.push();
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {e}")));
        }
        Ok(taken)
    }

    /// Gives the socket what the session has sealed, as far as it takes that.
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
