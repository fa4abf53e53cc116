//! [`SendError`] and [`InboxError`].

use xylem_library::{Blame, Error, Failure};
use xylem_mail::MAX_NOTE;

use crate::error::EngineError;
use crate::peer::FaceAddress;
use crate::share::ShareError;

/// Why [`super::send`] ends early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// Nobody has this name here.
    #[error(
        "nobody is called {0} here; give a card (xylem-peer:...), or name its owner with \
         `xylem inbox trust {0} CARD`"
    )]
    Unknown(String),
    /// More than a note may have.
    #[error("a note has {MAX_NOTE} bytes at most")]
    LongNote,
    /// A way for mail that is no encrypted link.
    #[error("{0}: mail goes over the encrypted link only")]
    NotLink(FaceAddress),
    /// Nowhere to deliver it.
    #[error(
        "the peer's card names no address; give --at ADDR, or --via NODE for a node that keeps the \
         message for them"
    )]
    NoAddress,
    /// It was asked to stop between delivery and the end of the fetch.
    #[error("stopped before the peer had fetched it; share it again for the peer to go on")]
    NotFetched,
    /// It was asked to stop before delivery.
    #[error("stopped before the message was delivered; it waits for the next run")]
    NotDelivered,
    /// Of sharing what is sent.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// Of keys and stored mail.
    #[error("{0}")]
    Library(#[from] Error),
}

impl Failure for SendError {
    fn blame(&self) -> Blame {
        match self {
            Self::Unknown(_) | Self::LongNote | Self::NotLink(_) | Self::NoAddress => Blame::Usage,
            Self::NotFetched | Self::NotDelivered => Blame::Interrupted,
            Self::Share(e) => e.blame(),
            Self::Library(e) => e.blame,
        }
    }
}

/// Why something about mail that came cannot be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    /// A message whose sender's card never came.
    #[error("the card of who wrote it is not known; ask for one")]
    NoCard,
    /// The node that keeps our mail.
    #[error("no mail from the node: {0}")]
    Unreachable(String),
    /// Of the sockets.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Of keys and stored mail.
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
