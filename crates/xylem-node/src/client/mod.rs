//! [`Client`]: a program's connection to a forwarder, ours or another: the socket and the clock around
//! `xylem-client`'s [`Connection`] and [`Application`]s.
//!
//! One blocking connection over a Unix, TCP or UDP socket. This module has no event loop of a node:
//! time is spent waiting for the one socket, and [`Stop`] is looked at meanwhile.

mod endpoint;
mod socket;

pub mod manage;
pub mod object;
pub mod peek;
pub mod ping;
pub mod put;
pub mod traffic;

pub use xylem_client::Histogram;
pub use xylem_library::key_files::{Believe, KeyFile, Sign};
pub use xylem_trust::Verdict;

use std::time::{Duration, Instant};

use xylem_client::{Application, ClientError, Connection, Exchange, GLANCE, Reply};
use xylem_library::{Blame, Error, Stop};
use xylem_packet::{MAX_FRAME, Name};

use crate::failure;
use crate::peer::Peer;
use crate::uri::PeerUri;
use socket::Socket;

/// Longest datagram to another machine: fits every network that IPv6 does, tunnels included.
const DATAGRAM: usize = 1232;

/// A connection to a forwarder, over which one [`Application`] after the other runs.
pub struct Client {
    socket: Socket,
    connection: Connection,
    at: String,
    peer: Peer,
    started: Instant,
}

/// How a run of an application ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was done.
    Done,
    /// It was asked to stop.
    Stopped,
}

impl Client {
    /// Connects to the forwarder at `at` (`unix:///path`, `tcp://host:port`, `udp://host:port`),
    /// or to the one that `NDN_CLIENT_TRANSPORT` names, or to the one that runs here.
    ///
    /// # Errors
    /// [`Blame::Usage`] for a URI that can't be used, [`Blame::Network`] if nobody is there.
    pub fn connect(at: Option<&PeerUri>) -> Result<Self, Error> {
        let mut last = Err(failure::usage("no address"));
        for peer in endpoint::choose(at)? {
            last = Self::connect_to(&peer);
            if last.is_ok() {
                break;
            }
        }
        last
    }

    fn connect_to(peer: &Peer) -> Result<Self, Error> {
        let socket = Socket::connect(peer)?;
        let mtu = if socket.cuts_datagrams() { DATAGRAM } else { MAX_FRAME };
        let connection = Connection::new(mtu, socket.is_datagram(), random_seed()?);
        let (at, peer, started) = (peer.to_string(), peer.clone(), Instant::now());
        Ok(Self { socket, connection, at, peer, started })
    }

    /// Where it is connected, as a URI.
    pub fn at(&self) -> &str {
        &self.at
    }

    /// The same as an address.
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Runs an application until it is done or `stop` is raised; what it queued is written.
    ///
    /// # Errors
    /// [`Blame::Network`] if the connection ended, and what ends the application.
    pub fn run(&mut self, application: &mut impl Application, stop: &Stop) -> Result<Ended, Error> {
        loop {
            let now = self.started.elapsed();
            application.transmit(now, &mut self.connection.outbox(now)).map_err(client_error)?;
            if application.is_done() || stop.raised() {
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
            outcome.map_err(client_error)?;
        }
    }

    /// Sends one Interest and waits for its answer.
    ///
    /// # Errors
    /// [`Blame::Network`] if the connection ended, [`Blame::Interrupted`] if `stop` was raised,
    /// [`Blame::Usage`] if `interest` is none.
    pub fn fetch(
        &mut self,
        interest: Vec<u8>,
        timeout: Duration,
        stop: &Stop,
    ) -> Result<Reply, Error> {
        let mut exchange = Exchange::new(interest, timeout).map_err(client_error)?;
        match self.run(&mut exchange, stop)? {
            Ended::Done => Ok(exchange.into_reply()),
            Ended::Stopped => Err(interrupted()),
        }
    }
}

/// An application's error, and who has to act.
pub(crate) fn client_error(e: ClientError) -> Error {
    let blame = match &e {
        ClientError::BadName { .. } | ClientError::TooLong { .. } => Blame::Usage,
        ClientError::Content(_) => Blame::Local,
        ClientError::Output(e) => return object::output_error(e),
        ClientError::NotBelieved { .. } | ClientError::Contradiction(_) => Blame::Data,
        _ => Blame::Network,
    };
    Error { blame, message: e.to_string() }
}

pub(crate) fn interrupted() -> Error {
    Error { blame: Blame::Interrupted, message: "interrupted".to_owned() }
}

/// A name from what was typed.
///
/// # Errors
/// [`Blame::Usage`] for what is no name, or the empty one.
pub fn parse_name(uri: &str) -> Result<Name, Error> {
    xylem_client::parse_name(uri).map_err(client_error)
}

/// The error of a packet that is not believed.
pub(crate) fn refused(what: &str, why: &str) -> Error {
    Error { blame: Blame::Data, message: format!("{what}: {why}") }
}

/// Randomness that nonces begin with.
fn random_seed() -> Result<u64, Error> {
    Ok(u64::from_le_bytes(xylem_library::identity::random()?))
}
