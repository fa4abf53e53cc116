//! [`SaveError`]: why fetched content was not saved.

use std::path::PathBuf;

use xylem_base::{Blame, Failure, advised, blame_of};
use xylem_files::hashing::HashError;
use xylem_files::ours::OwnError;
use xylem_files::{ExcludeError, ListedError};
use xylem_object::ManifestError;
use xylem_object::listing::PathError;
use xylem_store::StoreError;
use xylem_transfer::AddError;
use xylem_tree::ProofError;

use crate::ordered::WriteError;

/// Why fetched content was not saved. Verified content stays for the next run.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// A file cannot be written or read back.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// Output in order cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// More is wanted at once than the transfer can hold.
    #[error(transparent)]
    Add(#[from] AddError),
    /// An exclusion pattern is not valid.
    #[error(transparent)]
    Exclude(#[from] ExcludeError),
    /// The listing cannot be used or read.
    #[error(transparent)]
    Listed(#[from] ListedError),
    /// The signed totals are not those of the signed listing.
    #[error("the publisher signed a listing that can't be used: {0}")]
    Totals(#[from] ManifestError),
    /// The listed root of an empty file is wrong.
    #[error("the publisher signed a listing that can't be used: {0}")]
    NotEmpty(#[from] ProofError),
    /// A name is invalid on this system.
    #[error("{}: {source}; leave it out with --exclude", path.display())]
    NameHere {
        /// The path below the directory.
        path: PathBuf,
        /// Why it is invalid.
        source: PathError,
    },
    /// An entry of the listing does not have the expected root.
    #[error("{}: the listing has another root for it than was expected", .0.display())]
    UnexpectedRoot(PathBuf),
    /// The result's path does not end in a name.
    #[error("{}: not a name to write to; give -o PATH", .0.display())]
    NotAName(PathBuf),
    /// The directory for the result does not exist.
    #[error("{}: no such directory to write into", .0.display())]
    NoDirectory(PathBuf),
    /// Existing files could not be hashed.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// A store or other folder of xylem would be changed.
    #[error(transparent)]
    Own(#[from] OwnError),
    /// Another program changed a file that was to stay, or a fetched one.
    #[error("{}: changed by another program meanwhile; run it again", .0.display())]
    ChangedMeanwhile(PathBuf),
    /// An entry lies on another file system than the directory.
    #[error("{}: on another file system than the directory; leave it out with --exclude", .0.display())]
    Elsewhere(PathBuf),
    /// The disk has too little room; nothing was fetched.
    #[error(
        "{}: {needs} bytes are to be written there, and {room} are free; make room, or give --no-space-check if much of it is zeros, which take none",
        path.display()
    )]
    NoRoom {
        /// Where the result was to be.
        path: PathBuf,
        /// Bytes needed there.
        needs: u64,
        /// Bytes free.
        room: u64,
    },
    /// A dry run does not support this request.
    #[error("--dry-run is for whole files and directories, not for {0}")]
    NoDryRun(&'static str),
    /// A range of a directory was requested.
    #[error("--range is for files; this ticket names a directory")]
    RangeOfDirectory,
    /// A directory was requested on standard output.
    #[error("a directory can't go to standard output; leave out `-o -`")]
    DirectoryToStdout,
    /// The requested range is empty.
    #[error("--range {start}..{}: nothing to fetch, as the file has {size} bytes", end.map_or_else(String::new, |e| e.to_string()))]
    EmptyRange {
        /// First requested byte.
        start: u64,
        /// Requested end.
        end: Option<u64>,
        /// Size of the file, bytes.
        size: u64,
    },
}

impl SaveError {
    /// Converts an error of the final rename.
    pub(super) fn at_the_end(e: StoreError) -> Self {
        match e {
            StoreError::Changed { path, .. } => Self::ChangedMeanwhile(path),
            other => other.into(),
        }
    }
}

impl Failure for SaveError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store(e) => blame_of(e),
            Self::Write(e) => e.blame(),
            Self::Listed(e) => e.blame(),
            Self::Own(e) => e.blame(),
            Self::Hash(e) => e.blame(),
            Self::ChangedMeanwhile(_) | Self::Elsewhere(_) | Self::NoRoom { .. } => Blame::Local,
            Self::Totals(_) | Self::NotEmpty(_) | Self::UnexpectedRoot(_) => Blame::Data,
            Self::NameHere { .. } => Blame::Local,
            _ => Blame::Usage,
        }
    }
}
