//! [`ReaderError`]: why something can't be opened.

use std::io;
use std::path::PathBuf;

use xylem_base::{Blame, Failure, advised, blame_of};
use xylem_files::ListedError;
use xylem_node::FetchError;
use xylem_object::ManifestError;
use xylem_store::StoreError;

/// Why a publication, or a file of it, can't be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReaderError {
    /// It is encrypted for certain recipients.
    #[error("it is encrypted for its recipients; `xylem get` fetches and decrypts it")]
    Sealed,
    /// The publication has no such path.
    #[error("{}: no such file in the publication", .0.display())]
    NotThere(PathBuf),
    /// The path is no regular file.
    #[error("{}: not a regular file", .0.display())]
    NoFile(PathBuf),
    /// Failures of peers.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The listing can't be used.
    #[error(transparent)]
    Listing(#[from] ListedError),
    /// The listing does not match the manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Failures of the store.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// The listing could not be read: its bytes did not arrive in time.
    #[error("cannot read the listing: {0}")]
    Unread(io::Error),
    /// The system starts no more threads.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The fetching thread has ended.
    #[error("the reader has ended")]
    Ended,
}

impl Failure for ReaderError {
    fn blame(&self) -> Blame {
        match self {
            Self::Sealed | Self::NotThere(_) | Self::NoFile(_) => Blame::Usage,
            Self::Fetch(e) => e.blame(),
            Self::Listing(e) => e.blame(),
            Self::Manifest(_) => Blame::Data,
            Self::Store(e) => blame_of(e),
            Self::Unread(_) => Blame::Network,
            Self::Thread(_) | Self::Ended => Blame::Local,
        }
    }
}

impl From<ReaderError> for io::Error {
    fn from(e: ReaderError) -> Self {
        let kind = match &e {
            ReaderError::NotThere(_) => io::ErrorKind::NotFound,
            ReaderError::NoFile(_) => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, e.to_string())
    }
}
