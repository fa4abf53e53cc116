//! One socket to a forwarder, which reads and writes many frames at a time.
//!
//! Frames wait in a [`FrameQueue`] and are sent many to a system call: one write for a stream, trains of equal
//! datagrams by segment offload for UDP. Input is read in large pieces and split into frames. The content of frames is
//! not examined here.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use xylem_client::{Connection, FrameQueue};
use xylem_packet::frame_len;
use xylem_peers::reachable::PeerAddress;

use xylem_engine::EngineError;
#[cfg(target_os = "linux")]
use xylem_sockets::shared::SharedStream;
use xylem_sockets::{Oversize, Udp};

use crate::error::{ConnectionError, ConnectionLoss};

/// Time limit for making a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for a forwarder that accepts no data.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes requested of the kernel in one read.
const READ_LEN: usize = 256 * 1024;
/// Most bytes that wait before they are written in any case.
const HIGH_WATER: usize = 512 * 1024;
const TOKEN: Token = Token(0);

/// Gets each arriving frame, with its connection.
type OnFrame<'a> = dyn FnMut(&mut Connection, &[u8]) + 'a;

enum Io {
    Tcp(mio::net::TcpStream),
    #[cfg(unix)]
    Unix(mio::net::UnixStream),
    /// Through memory shared with a xylem node on this machine.
    #[cfg(target_os = "linux")]
    Shared(Box<SharedStream>),
    Udp {
        socket: Box<Udp>,
        remote: SocketAddr,
    },
}

impl Io {
    /// Whether no further readiness events will come.
    fn ended(&self) -> bool {
        #[cfg(target_os = "linux")]
        return matches!(self, Self::Shared(shared) if shared.ended());
        #[cfg(not(target_os = "linux"))]
        false
    }
}

/// A connection, or a datagram socket with one peer.
pub(super) struct ForwarderSocket {
    io: Io,
    poll: Poll,
    events: Events,
    /// Bytes read and not passed on: `buffer[start..end]`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Whether the last read emptied the kernel's buffer.
    drained: bool,
}

impl ForwarderSocket {
    /// Connects.
    ///
    /// # Errors
    /// No forwarder answers, or it is a kind of peer that only nodes reach.
    pub(super) fn connect(to: &PeerAddress) -> Result<Self, ConnectionError> {
        let poll = Poll::new().map_err(ConnectionError::Poll)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        let unreachable = |error| ConnectionError::Refused { at: Box::new(to.clone()), error };
        let io = match to {
            #[cfg(unix)]
            PeerAddress::Unix(path) => {
                #[cfg(target_os = "linux")]
                if let Some(mut shared) = shared_with(path) {
                    poll.registry()
                        .register(shared.socket(), TOKEN, interest)
                        .map_err(ConnectionError::Poll)?;
                    return Ok(Self::over(Io::Shared(Box::new(shared)), poll));
                }
                let stream = std::os::unix::net::UnixStream::connect(path).map_err(unreachable)?;
                stream.set_nonblocking(true).map_err(ConnectionError::Poll)?;
                let mut stream = mio::net::UnixStream::from_std(stream);
                poll.registry()
                    .register(&mut stream, TOKEN, interest)
                    .map_err(ConnectionError::Poll)?;
                Io::Unix(stream)
            }
            PeerAddress::Tcp(address) => {
                let stream = std::net::TcpStream::connect_timeout(address, CONNECT_TIMEOUT)
                    .map_err(unreachable)?;
                stream.set_nonblocking(true).map_err(ConnectionError::Poll)?;
                // Frames are batched here already; the kernel's batching would only add delay.
                let _ = stream.set_nodelay(true);
                let mut stream = mio::net::TcpStream::from_std(stream);
                poll.registry()
                    .register(&mut stream, TOKEN, interest)
                    .map_err(ConnectionError::Poll)?;
                Io::Tcp(stream)
            }
            PeerAddress::Udp(remote) => {
                let any: SocketAddr = match remote {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let mut socket =
                    Udp::bind(any, Oversize::Fragment).map_err(EngineError::listen(any))?;
                socket.register(&poll, TOKEN).map_err(ConnectionError::Poll)?;
                Io::Udp { socket: Box::new(socket), remote: *remote }
            }
            other => return Err(ConnectionError::Kind(Box::new(other.clone()))),
        };
        Ok(Self::over(io, poll))
    }

    fn over(io: Io, poll: Poll) -> Self {
        let datagrams = matches!(io, Io::Udp { .. });
        Self {
            io,
            poll,
            events: Events::with_capacity(4),
            buffer: vec![0; if datagrams { 0 } else { READ_LEN }],
            start: 0,
            end: 0,
            drained: false,
        }
    }

    /// Whether each frame is a datagram.
    pub(super) fn is_datagram(&self) -> bool {
        matches!(self.io, Io::Udp { .. })
    }

    /// Whether frames are datagrams across a network, which may fragment or drop large ones.
    pub(super) fn cuts_datagrams(&self) -> bool {
        matches!(&self.io, Io::Udp { remote, .. } if !remote.ip().is_loopback())
    }

    /// Passes all frames that have arrived to `each`, which may queue answers. If there are none, waits for the first,
    /// `wait` at most. Returns whether any came. Writes all that was queued.
    ///
    /// # Errors
    /// The connection ended, or carries no NDN.
    pub(super) fn receive(
        &mut self,
        connection: &mut Connection,
        wait: Duration,
        each: &mut OnFrame<'_>,
    ) -> Result<bool, ConnectionError> {
        self.flush(connection.queue())?;
        let deadline = Instant::now() + wait;
        loop {
            let came = match &mut self.io {
                Io::Udp { .. } => self.receive_datagrams(connection, each)?,
                _ => self.receive_stream(connection, each)?,
            };
            if came {
                self.flush(connection.queue())?;
                return Ok(true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.wait_readable(left)? {
                return Ok(false);
            }
        }
    }

    /// Waits at most `left` for the socket to be readable.
    fn wait_readable(&mut self, left: Duration) -> Result<bool, ConnectionError> {
        match self.poll.poll(&mut self.events, Some(left)) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(false),
            Err(e) => return Err(ConnectionError::Wait(e)),
        }
        if self.events.iter().any(|e| e.is_readable() || e.is_read_closed() || e.is_error()) {
            self.drained = false;
            return Ok(true);
        }
        // Only writable: keep waiting.
        Ok(!self.events.is_empty())
    }

    fn receive_datagrams(
        &mut self,
        connection: &mut Connection,
        each: &mut OnFrame<'_>,
    ) -> Result<bool, ConnectionError> {
        let Io::Udp { socket, remote } = &mut self.io else { return Ok(false) };
        if self.drained {
            return Ok(false);
        }
        let mut came = false;
        let more = socket
            .receive(&mut |from, _, datagram| {
                if from == *remote {
                    came = true;
                    each(connection, &datagram);
                }
            })
            .map_err(lost)?;
        // Read until the queue is empty, as readiness is edge-triggered.
        self.drained = !more && !came;
        Ok(came)
    }

    fn receive_stream(
        &mut self,
        connection: &mut Connection,
        each: &mut OnFrame<'_>,
    ) -> Result<bool, ConnectionError> {
        while !self.drained {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            let room = &mut self.buffer[self.end..];
            let asked = room.len();
            let read = match &mut self.io {
                Io::Tcp(stream) => stream.read(room),
                #[cfg(unix)]
                Io::Unix(stream) => stream.read(room),
                #[cfg(target_os = "linux")]
                Io::Shared(shared) => shared.read(room),
                Io::Udp { .. } => return Ok(false),
            };
            match read {
                Ok(0) => {
                    return Err(lost(ConnectionLoss::Closed));
                }
                Ok(n) => {
                    self.end += n;
                    // A short read of a stream has emptied the buffer (epoll(7)).
                    self.drained = n < asked && !self.io.ended();
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.drained = true,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(lost(e)),
            }
            if self.cut(connection, each)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Passes on the complete frames of the buffer.
    fn cut(
        &mut self,
        connection: &mut Connection,
        each: &mut OnFrame<'_>,
    ) -> Result<bool, ConnectionError> {
        let mut came = false;
        loop {
            let rest = &self.buffer[self.start..self.end];
            let len = frame_len(rest).map_err(|e| lost(ConnectionLoss::NotNdn(e)))?;
            let Some(len) = len else { return Ok(came) };
            each(connection, &rest[..len]);
            came = true;
            self.start += len;
            if connection.queue().waiting().len() > HIGH_WATER {
                self.flush(connection.queue())?;
            }
        }
    }

    /// Writes all that is queued.
    ///
    /// # Errors
    /// The connection ended, or accepts no more data. Datagrams that the kernel has no room for
    /// are lost, as on the network.
    pub(super) fn flush(&mut self, queue: &mut FrameQueue) -> Result<(), ConnectionError> {
        let mut stuck_since = None;
        while !queue.waiting().is_empty() {
            let wrote = match &mut self.io {
                Io::Udp { socket, remote } => {
                    queue.drain_datagrams(|datagram| socket.queue(*remote, datagram));
                    socket.flush();
                    Ok(0)
                }
                Io::Tcp(stream) => stream.write(queue.waiting()),
                #[cfg(unix)]
                Io::Unix(stream) => stream.write(queue.waiting()),
                #[cfg(target_os = "linux")]
                Io::Shared(shared) => shared.write(queue.waiting()),
            };
            match wrote {
                Ok(n) => {
                    queue.written(n);
                    stuck_since = None;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let since = *stuck_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > WRITE_TIMEOUT {
                        return Err(lost(ConnectionLoss::Stuck));
                    }
                    // Readiness for reading may be reported here, and must be recorded.
                    self.wait_readable(Duration::from_millis(100))?;
                }
                Err(e) => return Err(lost(e)),
            }
        }
        Ok(())
    }
}

/// Shared memory with a xylem node. Other forwarders offer only the plain socket, which also serves if no memory can be
/// shared.
#[cfg(target_os = "linux")]
fn shared_with(path: &std::path::Path) -> Option<SharedStream> {
    let joined = SharedStream::join(path);
    if let Err(e) = &joined {
        tracing::debug!(path = %path.display(), error = %e, "no shared memory, a plain socket");
    }
    joined.ok()
}

fn lost(how: impl Into<ConnectionLoss>) -> ConnectionError {
    ConnectionError::Lost(how.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
