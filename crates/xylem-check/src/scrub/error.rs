//! [`ScrubError`]: why not all files were checked.

use std::io;
use std::path::PathBuf;

use xylem_base::{Blame, Failure, advised, blame_of};
use xylem_files::ExcludeError;
use xylem_store::StoreError;

/// Why not all files were checked. Damage is no error.
#[derive(Debug, thiserror::Error)]
pub enum ScrubError {
    /// The store cannot be read, or a disk refuses writes.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// A pattern in the record of a fetch is not valid.
    #[error(transparent)]
    Exclude(#[from] ExcludeError),
    /// A path cannot be found or made absolute.
    #[error("{}: {source}", path.display())]
    Path {
        /// The path as given.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no record or ticket that defines the path's content.
    #[error("{}: neither shared nor fetched here; give its ticket with --from TICKET", .0.display())]
    Unknown(PathBuf),
    /// Several tickets could define the path's content.
    #[error("{}: the store has no record of it, and several --from tickets could be for it; give one", .0.display())]
    SeveralTickets(PathBuf),
    /// The path was added to a shared or fetched directory later.
    #[error("{}: not part of what was shared or fetched: it was added later", .0.display())]
    AddedLater(PathBuf),
    /// The listing that was checked just before is gone.
    #[error("the listing was removed from the store meanwhile; run it again")]
    ListingVanished,
    /// Asked to stop; with the progress so far.
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
    /// An error of fetching ended the run.
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
