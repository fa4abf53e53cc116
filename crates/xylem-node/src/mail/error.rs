//! [`InboxError`]: why an operation on received mail fails. [`MailPeerError`]: why a node takes or gives no mail now.

use std::io;

use xylem_base::{Blame, Failure};
use xylem_engine::{EngineError, FaceEnd};
use xylem_link::StreamError;
use xylem_peers::reachable::{HostLookupError, KEYLESS};

/// Why an operation on received mail fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    /// The card of the message's sender never came.
    #[error("the sender's card is not known; ask the sender for it")]
    NoCard,
    /// The node that keeps our mail is unreachable.
    #[error("cannot fetch mail from the node: {0}")]
    Unreachable(MailPeerError),
    /// Failures of sockets.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The system gives no random numbers.
    #[error(transparent)]
    Randomness(#[from] xylem_base::NoRandomness),
    /// A key of the store cannot be read or made.
    #[error(transparent)]
    Key(#[from] xylem_keys::KeyFileError),
    /// The store of mail fails.
    #[error(transparent)]
    MailStore(#[from] xylem_mailbox::MailStoreError),
}

/// Why a node takes or gives no mail now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MailPeerError {
    /// Nothing leads to it.
    #[error("it has no address")]
    NoAddress,
    /// The host of a relay does not resolve.
    #[error(transparent)]
    Host(#[from] HostLookupError),
    /// It cannot be dialled, nor a relay on the way.
    #[error(transparent)]
    Dial(#[from] io::Error),
    /// The connection ended before it was up.
    #[error(transparent)]
    Ended(#[from] FaceEnd),
    /// No peer answers in time.
    #[error("no peer answers there")]
    NoAnswer,
    /// No peer answers in time at an address without a key.
    #[error("{KEYLESS}")]
    Keyless,
    /// No stream can be opened.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// It ends the stream.
    #[error("it does not take or keep mail")]
    NoMail,
    /// It does not answer a message in time.
    #[error("it does not answer")]
    Silent,
    /// It answers something else than was asked.
    #[error("it sent an unexpected answer")]
    Unexpected,
}

impl Failure for InboxError {
    fn blame(&self) -> Blame {
        match self {
            Self::NoCard => Blame::Usage,
            Self::Unreachable(_) => Blame::Network,
            Self::Engine(e) => e.blame(),
            Self::Randomness(e) => e.blame(),
            Self::Key(e) => e.blame(),
            Self::MailStore(e) => e.blame(),
        }
    }
}
