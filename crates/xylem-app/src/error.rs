//! [`ConnectionError`]: why there is no connection to a forwarder. [`RunError`]: why a run over one ended early.

use std::io;

use xylem_base::{Blame, Failure, NoRandomness};
use xylem_client::ClientError;
use xylem_engine::EngineError;
use xylem_packet::DecodeError;
use xylem_peers::reachable::{PeerAddress, PeerUriError, ResolveError};

use crate::endpoint::TRANSPORT_VARIABLE;

/// Why there is no connection to a forwarder, or no longer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// None of the usual sockets exists.
    #[error("no forwarder runs here; start `xylem ndn node`, or give --at URI")]
    NoForwarder,
    /// The environment variable holds no URI of a forwarder.
    #[error("{TRANSPORT_VARIABLE}: {0}")]
    Variable(PeerUriError),
    /// The forwarder's host does not resolve.
    #[error("{0}")]
    Unresolved(ResolveError),
    /// The host has no address.
    #[error("no address")]
    NoAddress,
    /// Programs do not connect to this kind of address.
    #[error(
        "programs reach a forwarder by unix://, tcp:// or udp://, not at {0}; a node can connect to it"
    )]
    Kind(Box<PeerAddress>),
    /// No forwarder accepts a connection there.
    #[error("no forwarder at {at}: {error}")]
    Refused {
        /// The address.
        at: Box<PeerAddress>,
        /// The system's reason.
        error: io::Error,
    },
    /// No UDP socket can be had.
    #[error(transparent)]
    Udp(#[from] EngineError),
    /// The system does not let sockets be waited for.
    #[error("cannot wait for sockets: {0}")]
    Poll(io::Error),
    /// Waiting for the forwarder failed.
    #[error("cannot wait for the forwarder: {0}")]
    Wait(io::Error),
    /// The connection ended.
    #[error("lost the connection to the forwarder: {0}")]
    Lost(ConnectionLoss),
    /// The system gives no random numbers.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

/// How a connection to a forwarder ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionLoss {
    /// The forwarder closed it.
    #[error("it closed the connection")]
    Closed,
    /// The forwarder sends bytes that are no NDN packets.
    #[error("it sends data that is not NDN ({0})")]
    NotNdn(DecodeError),
    /// The forwarder does not read.
    #[error("it accepts no more data")]
    Stuck,
    /// The system reports an error.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl Failure for ConnectionError {
    fn blame(&self) -> Blame {
        match self {
            Self::Variable(_) | Self::NoAddress | Self::Kind(_) => Blame::Usage,
            Self::NoForwarder | Self::Unresolved(_) | Self::Refused { .. } | Self::Lost(_) => {
                Blame::Network
            }
            Self::Udp(e) => e.blame(),
            Self::Poll(_) | Self::Wait(_) => Blame::Local,
            Self::Randomness(e) => e.blame(),
        }
    }
}

/// Why a run ended early: the application's error or the connection's.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The application's.
    #[error("{}", line(.0))]
    Application(#[source] ClientError),
    /// The connection's.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
}

/// One line. Empty if the output's reader is gone: a closed pipe means that it needs no more.
fn line(error: &ClientError) -> String {
    match error {
        ClientError::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => String::new(),
        ClientError::Output(e) => format!("cannot write the content: {e}"),
        error => error.to_string(),
    }
}

impl From<ClientError> for RunError {
    fn from(e: ClientError) -> Self {
        Self::Application(e)
    }
}

impl From<NoRandomness> for RunError {
    fn from(e: NoRandomness) -> Self {
        Self::Connection(e.into())
    }
}

impl Failure for RunError {
    fn blame(&self) -> Blame {
        let e = match self {
            Self::Application(e) => e,
            Self::Connection(e) => return e.blame(),
        };
        match e {
            ClientError::BadName { .. } | ClientError::TooLong { .. } => Blame::Usage,
            // The request is wrong, not the requester's rights.
            ClientError::Refused { code: 400..=402 | 404..=499, .. } => Blame::Usage,
            ClientError::Content(_) | ClientError::NoRandomness(_) => Blame::Local,
            ClientError::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => Blame::Interrupted,
            ClientError::Output(_) => Blame::Local,
            ClientError::NotBelieved { .. } | ClientError::Contradiction(_) => Blame::Data,
            ClientError::Interrupted => Blame::Interrupted,
            _ => Blame::Network,
        }
    }
}
