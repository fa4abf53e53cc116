//! [`Client`]: a program's connection to a forwarder, ours or another: the socket and the clock around
//! `xylem-client`'s [`Connection`] and [`Application`]s.
//!
//! One blocking connection over a Unix, TCP or UDP socket, or memory shared with a node of ours on this machine. There is no event loop here: time
//! is spent waiting for the one socket, and [`Stop`] is looked at meanwhile.

mod endpoint;
mod register;
mod socket;
mod validator;

pub mod object;

pub use endpoint::default_socket;
pub use register::{RegisterError, Registrar, Registration};
pub use xylem_library::keys::{Believe, KeyFile, Sign};

use std::time::Instant;

use xylem_client::{Application, ClientError, Connection, Driver, Ended, GLANCE};
use xylem_engine::now_ms;
use xylem_library::{Blame, Error, Stop};
use xylem_packet::{MAX_FRAME, Name};

use socket::Socket;
use xylem_library::reachable::{Peer, PeerUri};

/// Longest datagram to another machine: fits every network that IPv6 does, tunnels included.
const DATAGRAM: usize = 1232;

/// A connection to a forwarder, over which one [`Application`] after the other runs.
pub struct Client {
    socket: Socket,
    connection: Connection,
    at: String,
    peer: Peer,
    started: Instant,
    stop: Stop,
}

impl Client {
    /// Connects to the forwarder at `at` (`unix:///path`, `tcp://host:port`, `udp://host:port`),
    /// or to the one that `NDN_CLIENT_TRANSPORT` names, or to the one that runs here. Runs end when
    /// `stop` is raised.
    ///
    /// # Errors
    /// [`Blame::Usage`] for a URI that can't be used, [`Blame::Network`] if nobody is there.
    pub fn connect(at: Option<&PeerUri>, stop: &Stop) -> Result<Self, Error> {
        let mut last = Err(Error::usage("no address"));
        for peer in endpoint::choose(at)? {
            last = Self::connect_to(&peer, stop);
            if last.is_ok() {
                break;
            }
        }
        last
    }

    fn connect_to(peer: &Peer, stop: &Stop) -> Result<Self, Error> {
        let socket = Socket::connect(peer)?;
        let mtu = if socket.cuts_datagrams() { DATAGRAM } else { MAX_FRAME };
        let connection = Connection::new(mtu, socket.is_datagram(), random_seed()?);
        let (at, peer, started) = (peer.to_string(), peer.clone(), Instant::now());
        Ok(Self { socket, connection, at, peer, started, stop: stop.clone() })
    }

    /// Where it is connected.
    fn peer(&self) -> &Peer {
        &self.peer
    }
}

impl Driver for Client {
    type Error = RunError;

    fn run(&mut self, application: &mut impl Application) -> Result<Ended, RunError> {
        loop {
            let now = self.started.elapsed();
            application.transmit(now, &mut self.connection.outbox(now))?;
            if application.is_done() || self.stop.raised() {
                self.socket.flush(self.connection.queue())?;
                let ended = if application.is_done() { Ended::Done } else { Ended::Stopped };
                return Ok(ended);
            }
            self.connection.handle_timeout(now);
            let due = application.poll_timeout(now);
            let wait = due.map_or(GLANCE, |due| due.saturating_sub(now).min(GLANCE));
            let (started, mut came_at, mut outcome) = (self.started, None, Ok(()));
            self.socket.receive(&mut self.connection, wait, &mut |connection, frame| {
                // Once a batch: what is read together came together.
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

/// Why a run ended early: the application's reason or the connection's, and who has to act.
#[derive(Debug)]
pub struct RunError(Error);

impl From<ClientError> for RunError {
    fn from(e: ClientError) -> Self {
        let blame = match &e {
            ClientError::BadName { .. } | ClientError::TooLong { .. } => Blame::Usage,
            // What was asked is wrong, and not who asked.
            ClientError::Refused { code: 400..=402 | 404..=499, .. } => Blame::Usage,
            ClientError::Content(_) => Blame::Local,
            ClientError::Output(e) => return Self(object::output_error(e)),
            ClientError::NotBelieved { .. } | ClientError::Contradiction(_) => Blame::Data,
            ClientError::Interrupted => Blame::Interrupted,
            _ => Blame::Network,
        };
        Self(Error { blame, message: e.to_string() })
    }
}

impl From<Error> for RunError {
    fn from(e: Error) -> Self {
        Self(e)
    }
}

impl From<RunError> for Error {
    fn from(RunError(e): RunError) -> Self {
        e
    }
}

/// A name from what was typed.
///
/// # Errors
/// [`Blame::Usage`] for what is no name, or the empty one.
pub fn parse_name(uri: &str) -> Result<Name, RunError> {
    Ok(xylem_client::parse_name(uri)?)
}

/// Randomness that nonces begin with.
fn random_seed() -> Result<u64, Error> {
    Ok(u64::from_le_bytes(xylem_library::keys::random()?))
}
