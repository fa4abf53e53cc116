//! [`InboxError`]: why an operation on received mail fails.

use xylem_base::{Blame, Failure};
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
