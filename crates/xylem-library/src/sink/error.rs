//! [`SaveError`]: why what is fetched was not kept.

use std::path::PathBuf;

use xylem_object::ManifestError;
use xylem_object::listing::PathError;
use xylem_store::StoreError;
use xylem_transfer::AddError;
use xylem_tree::VerifyError;

use crate::error::{Blame, Failure, advised, blame_of};
use crate::exclude::ExcludeError;
use crate::hashing::HashError;
use crate::listed::ListedError;
use crate::ordered::WriteError;
use crate::ours::OwnError;

/// Why what is fetched was not kept. What was verified before stays for the next run.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// A file can't be written or read back.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// What goes out in order was not written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// More is wanted at once than the transfer can hold.
    #[error(transparent)]
    Add(#[from] AddError),
    /// A pattern of what is left out is none.
    #[error(transparent)]
    Exclude(#[from] ExcludeError),
    /// The listing can't be used, or read.
    #[error(transparent)]
    Listed(#[from] ListedError),
    /// The signed totals are not those of the signed listing.
    #[error("the publisher signed a listing that can't be used: {0}")]
    Totals(#[from] ManifestError),
    /// An empty file has a root that is not that of nothing.
    #[error("the publisher signed a listing that can't be used: {0}")]
    NotEmpty(#[from] VerifyError),
    /// A name that this system cannot have.
    #[error("{}: {source}; leave it out with --exclude", path.display())]
    NameHere {
        /// The path below the directory.
        path: PathBuf,
        /// What is wrong with it.
        source: PathError,
    },
    /// The listing has something else at a path than what somebody said of it.
    #[error("{}: the listing has something else there than was said of it", .0.display())]
    NotAsSaid(PathBuf),
    /// The result's path ends in no name.
    #[error("{}: not a name to write to; give -o PATH", .0.display())]
    NotAName(PathBuf),
    /// The directory that the result goes to is not there.
    #[error("{}: no such directory to write into", .0.display())]
    NoDirectory(PathBuf),
    /// What is there could not be hashed.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// A store of ours would be changed.
    #[error(transparent)]
    Own(#[from] OwnError),
    /// Another program has changed what was to stay, or what was fetched.
    #[error("{}: changed by another program meanwhile; run it again", .0.display())]
    ChangedMeanwhile(PathBuf),
    /// Something is to be put where another file system begins.
    #[error("{}: on another file system than the directory; leave it out with --exclude", .0.display())]
    Elsewhere(PathBuf),
    /// The disk is too small, before anything was fetched.
    #[error(
        "{}: {needs} bytes are to be written there, and {room} are free; make room, or give --no-space-check if much of it is zeros, which take none",
        path.display()
    )]
    NoRoom {
        /// Where the result was to be.
        path: PathBuf,
        /// Bytes that are missing there.
        needs: u64,
        /// Bytes that are free.
        room: u64,
    },
    /// What a dry run does not tell of.
    #[error("--dry-run is for files and directories, and not for {0}")]
    NoDryRun(&'static str),
    /// A range of a directory.
    #[error("--range is for files; this ticket is a directory")]
    RangeOfDirectory,
    /// A directory to standard output.
    #[error("a directory can't go to standard output; leave `-o -` away")]
    DirectoryToStdout,
    /// A range that has nothing in it.
    #[error("--range {start}..{}: the file has {size} bytes", end.map_or_else(String::new, |e| e.to_string()))]
    EmptyRange {
        /// First byte that was asked for.
        start: u64,
        /// The end that was asked for.
        end: Option<u64>,
        /// Bytes of the file.
        size: u64,
    },
}

impl SaveError {
    /// What kept a result from its name.
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
            Self::Totals(_) | Self::NotEmpty(_) | Self::NotAsSaid(_) => Blame::Data,
            Self::NameHere { .. } => Blame::Local,
            _ => Blame::Usage,
        }
    }
}
