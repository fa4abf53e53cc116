//! [`Client`]: a program's connection to any NDN forwarder. It adds the socket and the clock to `xylem-client`'s
//! [`Connection`] and [`Application`]s.
//!
//! It is one blocking connection over a Unix, TCP or UDP socket, or over memory shared with a xylem node on this
//! machine. There is no event loop: it waits for the one socket, and checks [`Stop`] meanwhile.

mod error;

mod endpoint;
mod register;
mod socket;
mod validator;

pub mod object;

pub use endpoint::{default_socket, make_socket_directory};
pub use error::{ConnectionError, ConnectionLoss, RunError};
pub use register::{RegisterError, Registrar, RegistrationNews};
pub use xylem_keys::{KeyFile, SignWith, VerifyWith};

use std::time::Instant;

use xylem_base::{NoRandomness, Stop};
use xylem_client::{Application, Connection, Driver, RunEnd, STOP_CHECK_EVERY};
use xylem_engine::now_ms;
use xylem_packet::{MAX_FRAME, Name};
use xylem_peers::reachable::{PeerAddress, PeerUri};

use socket::ForwarderSocket;

/// Longest datagram to another machine in bytes. It fits every IPv6 network, tunnels included.
const DATAGRAM: usize = 1232;

/// A connection to a forwarder that runs one [`Application`] after the other.
pub struct Client {
    socket: ForwarderSocket,
    connection: Connection,
    at: String,
    peer: PeerAddress,
    started: Instant,
    stop: Stop,
}

impl Client {
    /// Connects to the forwarder at `at` (`unix:///path`, `tcp://host:port`, `udp://host:port`). Without `at`, to the
    /// one that `NDN_CLIENT_TRANSPORT` names, or else to the one that runs on this machine. Runs end when `stop` is
    /// raised.
    ///
    /// # Errors
    /// See [`ConnectionError`].
    pub fn connect(at: Option<&PeerUri>, stop: &Stop) -> Result<Self, ConnectionError> {
        let mut last = Err(ConnectionError::NoAddress);
        for peer in endpoint::choose(at)? {
            last = Self::connect_to(&peer, stop);
            if last.is_ok() {
                break;
            }
        }
        last
    }

    fn connect_to(peer: &PeerAddress, stop: &Stop) -> Result<Self, ConnectionError> {
        let socket = ForwarderSocket::connect(peer)?;
        let mtu = if socket.cuts_datagrams() { DATAGRAM } else { MAX_FRAME };
        let connection = Connection::new(mtu, socket.is_datagram(), random_seed()?);
        let (at, peer, started) = (peer.to_string(), peer.clone(), Instant::now());
        Ok(Self { socket, connection, at, peer, started, stop: stop.clone() })
    }

    /// The forwarder.
    fn peer(&self) -> &PeerAddress {
        &self.peer
    }
}

impl Driver for Client {
    type Error = RunError;

    fn run(&mut self, application: &mut impl Application) -> Result<RunEnd, RunError> {
        loop {
            let now = self.started.elapsed();
            application.transmit(now, &mut self.connection.outbox(now))?;
            if application.is_done() || self.stop.raised() {
                self.socket.flush(self.connection.queue())?;
                let ended = if application.is_done() { RunEnd::Done } else { RunEnd::Stopped };
                return Ok(ended);
            }
            self.connection.handle_timeout(now);
            let due = application.poll_timeout(now);
            let wait =
                due.map_or(STOP_CHECK_EVERY, |due| due.saturating_sub(now).min(STOP_CHECK_EVERY));
            let (started, mut came_at, mut outcome) = (self.started, None, Ok(()));
            self.socket.receive(&mut self.connection, wait, &mut |connection, frame| {
                // One time for each batch: packets of one read arrived together.
                let now = *came_at.get_or_insert_with(|| started.elapsed());
                connection.handle_frame(now, frame, &mut |message, outbox| {
                    if outcome.is_ok() {
                        outcome = application.handle_message(now, message, outbox);
                    }
                });
            })?;
            outcome?;
        }
    }

    fn seed(&mut self) -> Result<u64, RunError> {
        Ok(random_seed()?)
    }

    fn now_ms(&self) -> u64 {
        now_ms()
    }

    fn at(&self) -> &str {
        &self.at
    }
}

/// Parses a name.
///
/// # Errors
/// Text that is no name, and the empty name.
pub fn parse_name(uri: &str) -> Result<Name, RunError> {
    Ok(xylem_client::parse_name(uri)?)
}

/// A random number from which nonces start.
fn random_seed() -> Result<u64, NoRandomness> {
    Ok(u64::from_le_bytes(xylem_base::random()?))
}
