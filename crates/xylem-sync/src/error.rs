//! [`SyncError`].

use std::io;
use std::path::{Path, PathBuf};

use xylem_base::{Blame, Failure, advised, blame_of};
use xylem_folder::{FolderError, HomeError, IndexError, PartTooLong};
use xylem_keys::KeyFileError;
use xylem_node::{GetError, HostLookupError, HostPortError, ResolveError, ShareError};
use xylem_object::TicketError;
use xylem_store::StoreError;

/// Why a folder is not kept in step any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// The group's own files, or its roles.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Serving the folder.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// A fetch from another member. It ends a turn, and not the run.
    #[error(transparent)]
    Get(#[from] GetError),
    /// The folder's path.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// A key, or a certificate.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The certificates do not make this member one.
    #[error(transparent)]
    Presentation(#[from] PartTooLong),
    /// A member's index that is refused. It ends a turn, and not the run.
    #[error("{member}: its index is not used: {why}")]
    Index {
        /// The member's name.
        member: String,
        /// Why it is refused.
        why: IndexRefusal,
    },
    /// A member cannot have this name.
    #[error("{0:?}: a member's name is up to 64 bytes of letters, digits, -, _ and @")]
    Name(String),
    /// A remembered address to listen at is of no use any more.
    #[error("cannot listen at {at}, as the last run did: {why}")]
    Listen {
        /// The address.
        at: String,
        /// Why it is of no use.
        why: OldPlaceError,
    },
    /// Changes of the folder cannot be watched.
    #[error("{}: changes can't be watched: {error}{}", path.display(), advice(error))]
    Unwatched {
        /// The folder.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The system refuses an operation on a file of ours.
    #[error("{}: {error}", path.display())]
    Disk {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The system starts no thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// Others have statements signed with our key that our log lacks.
    #[error(
        "other members have statements signed by this member that its store {} lacks: the store was copied, or restored \
         from a backup; remove it, and join again with a ticket",
        store.display()
    )]
    Copied {
        /// The group's directory in the store.
        store: PathBuf,
    },
    /// The loop that serves the folder has given no ticket for it.
    #[error("nothing was shared")]
    NothingShared,
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => "; raise fs.inotify.max_user_watches with sysctl",
        _ => "",
    }
}

impl SyncError {
    /// Makes an error of an operation on a file of ours.
    pub(crate) fn disk(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        |error| Self::Disk { path: path.to_path_buf(), error }
    }
}

/// Why a member's index is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexRefusal {
    /// Its ticket names another publisher than the member.
    #[error("another member has published it")]
    OtherPublisher,
    /// The ticket of the content names another publisher than the member.
    #[error("another member has published its content")]
    OtherContent,
    /// It is larger than an index may be.
    #[error("it is too large")]
    TooLarge,
    /// It does not belong to the member's statement.
    #[error("it does not have the state that the member has announced")]
    OtherState,
    /// It is malformed.
    #[error(transparent)]
    Form(#[from] IndexError),
    /// It cannot be read.
    #[error(transparent)]
    Unread(#[from] FolderError),
    /// The ticket of the content is malformed.
    #[error(transparent)]
    Ticket(#[from] TicketError),
}

/// Why a remembered address to listen at is of no use any more.
#[derive(Debug, thiserror::Error)]
pub enum OldPlaceError {
    /// It is malformed.
    #[error(transparent)]
    Form(#[from] HostPortError),
    /// Its host has no address.
    #[error(transparent)]
    Host(#[from] HostLookupError),
    /// Its URI leads to no address.
    #[error(transparent)]
    Uri(#[from] ResolveError),
    /// It leads nowhere.
    #[error("it has no address")]
    NoAddress,
}

impl Failure for SyncError {
    fn blame(&self) -> Blame {
        match self {
            Self::Home(e) => e.blame(),
            Self::Folder(e) => e.blame(),
            Self::Share(e) => e.blame(),
            Self::Get(e) => e.blame(),
            Self::Store(e) => blame_of(e),
            Self::Key(e) => e.blame(),
            Self::Presentation(_) | Self::Name(_) | Self::Listen { .. } => Blame::Usage,
            Self::Index { .. } => Blame::Data,
            Self::Unwatched { .. }
            | Self::Disk { .. }
            | Self::Thread(_)
            | Self::Copied { .. }
            | Self::NothingShared => Blame::Local,
        }
    }
}
