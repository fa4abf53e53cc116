//! [`MailStoreError`]: why mail was not stored, found or written.

use xylem_base::{Blame, Failure, NoRandomness, advised, blame_of};
use xylem_keys::KeyFileError;
use xylem_mail::MailError;
use xylem_store::StoreError;

/// Why mail was not stored, found or written.
#[derive(Debug, thiserror::Error)]
pub enum MailStoreError {
    /// A file cannot be read or written.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// Our keys cannot be read or made.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// A file is not as it was written.
    #[error("mail/{0} in the store is damaged; move it away to go on without it")]
    Damaged(String),
    /// The state of a session is damaged, and was moved away.
    #[error(
        "mail/{file} in the store is damaged; it was moved to mail/{aside}, and the next message starts a \
         new conversation"
    )]
    SetAside {
        /// Its name.
        file: String,
        /// Its new name.
        aside: String,
    },
    /// A message cannot be sealed.
    #[error("the message can't be encrypted: {0}")]
    Seal(#[from] MailError),
    /// The outbox is full of undelivered messages.
    #[error(
        "{0} messages wait for delivery, the most that are kept; `xylem inbox` tries to deliver them"
    )]
    TooMany(usize),
    /// No message has this number.
    #[error("there is no message {0}; `xylem inbox` lists them")]
    NoMessage(u32),
    /// A text is not allowed as a person's name.
    #[error("a name has 1 to 64 letters, digits, -, _ or ., and does not begin with - or .")]
    BadName,
    /// Another person has the name.
    #[error(
        "{0} is already the name of a person with other keys; to replace it, run \
         `xylem inbox forget {0}` first"
    )]
    NameTaken(String),
    /// No person has the name.
    #[error("no person is named {0} here; see `xylem inbox people`")]
    Nobody(String),
}

impl From<NoRandomness> for MailStoreError {
    fn from(e: NoRandomness) -> Self {
        Self::Key(e.into())
    }
}

impl Failure for MailStoreError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store(e) => blame_of(e),
            Self::Key(e) => e.blame(),
            Self::Damaged(_) | Self::SetAside { .. } | Self::TooMany(_) => Blame::Local,
            _ => Blame::Usage,
        }
    }
}
