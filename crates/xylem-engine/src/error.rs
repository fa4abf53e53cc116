//! [`EngineError`]: errors common to all subcommands. Each subcommand has an enum of its own, which holds this one.
//! All are [`Failure`]s, so that one place can report how a run ended.

use std::io;
use std::path::Path;

use thiserror::Error;
use xylem_base::{Blame, Failure};
use xylem_carriers::tls::TlsIdentity;
use xylem_peers::reachable::FaceAddress;

/// Errors of sockets and their resources.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The system provides no poll.
    #[error("cannot start the event loop: {0}")]
    Start(io::Error),
    /// The system starts no more threads.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The sockets have failed.
    #[error("network: {0}")]
    Sockets(io::Error),
    /// An address that can't be listened on.
    #[error("cannot listen on {at}: {why}")]
    Listen {
        /// The address.
        at: FaceAddress,
        /// The system's error.
        why: io::Error,
    },
    /// The encrypted link does not listen there.
    #[error("{0} is not encrypted; `xylem share --plain-listen HOST:PORT` serves unencrypted NDN")]
    NotEncrypted(FaceAddress),
    /// A forwarder to which no face can be made.
    #[error("cannot reach {at}: {why}")]
    Dial {
        /// The forwarder.
        at: FaceAddress,
        /// The system's error.
        why: io::Error,
    },
    /// A name for which the forwarder has no room.
    #[error("cannot serve one more name: {0}")]
    Route(xylem_forward::RouteError),
    /// PEM files without a certificate and its key.
    #[error("TLS certificate: {0}")]
    Certificate(io::Error),
}

impl Failure for EngineError {
    fn blame(&self) -> Blame {
        match self {
            Self::Listen { why, .. } if why.kind() == io::ErrorKind::AddrNotAvailable => {
                Blame::Usage
            }
            Self::Certificate(_) | Self::NotEncrypted(_) => Blame::Usage,
            Self::Start(_)
            | Self::Thread(_)
            | Self::Sockets(_)
            | Self::Listen { .. }
            | Self::Dial { .. }
            | Self::Route(_) => Blame::Local,
        }
    }
}

impl EngineError {
    /// Makes the error of an address that can't be listened on.
    pub fn listen(at: impl Into<FaceAddress>) -> impl FnOnce(io::Error) -> Self {
        let at = at.into();
        |why| Self::Listen { at, why }
    }
}

/// Reads the certificate for carriers from the PEM files that the user named.
pub fn certificate(chain: &Path, key: &Path) -> Result<TlsIdentity, EngineError> {
    TlsIdentity::from_files(chain, key).map_err(EngineError::Certificate)
}
