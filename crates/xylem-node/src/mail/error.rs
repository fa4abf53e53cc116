//! [`InboxError`]: why an operation on received mail fails.

use xylem_base::{Blame, Error, Failure};
use xylem_engine::EngineError;

/// Why an operation on received mail fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    /// The card of the message's sender never came.
    #[error("the sender's card is not known; ask the sender for it")]
    NoCard,
    /// The node that keeps our mail is unreachable.
    #[error("cannot fetch mail from the node: {0}")]
    Unreachable(String),
    /// Failures of sockets.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Failures of keys and stored mail.
    #[error("{0}")]
    Library(#[from] Error),
}

impl Failure for InboxError {
    fn blame(&self) -> Blame {
        match self {
            Self::NoCard => Blame::Usage,
            Self::Unreachable(_) => Blame::Network,
            Self::Engine(e) => e.blame(),
            Self::Library(e) => e.blame,
        }
    }
}

crate::failure::of_library!(InboxError: xylem_base::NoRandomness, xylem_keys::KeyFileError, xylem_mailbox::MailStoreError);
