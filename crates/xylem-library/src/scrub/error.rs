//! [`ScrubError`]: why files were not all checked.

use std::io;
use std::path::PathBuf;

use xylem_store::StoreError;

use crate::error::{Blame, Failure, advised, blame_of};
use crate::exclude::ExcludeError;

/// Why files were not all checked. Damage is no error.
#[derive(Debug, thiserror::Error)]
pub enum ScrubError {
    /// The store can't be read, or a disk takes no writes.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// A pattern that the record of a fetch has is none.
    #[error(transparent)]
    Exclude(#[from] ExcludeError),
    /// A path can't be found, or not made absolute.
    #[error("{}: {source}", path.display())]
    Path {
        /// As it was given.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Nothing says what a path should be.
    #[error("{}: it was neither shared nor fetched here; --from TICKET says what it should be", .0.display())]
    Unknown(PathBuf),
    /// More than one ticket could say what a path should be.
    #[error("{}: nothing is known of it, and several tickets could mean it; give one --from", .0.display())]
    SeveralTickets(PathBuf),
    /// It lies in a directory that was shared or fetched, and was not there then.
    #[error("{}: is not in what was shared or fetched: it was added later", .0.display())]
    AddedLater(PathBuf),
    /// The listing that was checked just before is gone.
    #[error("the listing vanished from the store")]
    ListingVanished,
    /// Asked to stop; how far it was.
    #[error(
        "interrupted; {bytes} bytes were read, {files} files checked, {places} bad places found, \
         {mended} bytes mended"
    )]
    Interrupted {
        /// Bytes read.
        bytes: u64,
        /// Files checked.
        files: u64,
        /// Bad places found.
        places: u64,
        /// Bytes mended.
        mended: u64,
    },
    /// Asking peers ended the run.
    #[error("{0}")]
    Remote(Box<dyn Failure>),
}

impl From<Box<dyn Failure>> for ScrubError {
    fn from(e: Box<dyn Failure>) -> Self {
        Self::Remote(e)
    }
}

impl Failure for ScrubError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store(e) => blame_of(e),
            Self::Interrupted { .. } => Blame::Interrupted,
            Self::Remote(e) => e.blame(),
            _ => Blame::Usage,
        }
    }
}
