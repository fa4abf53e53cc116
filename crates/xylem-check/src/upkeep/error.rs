//! [`UpkeepError`]: why a maintenance call failed.

use std::path::PathBuf;

use xylem_base::{Blame, Failure, advised, blame_of};
use xylem_hash::Hash;
use xylem_store::StoreError;

/// Why a maintenance call failed. Damage is no error.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// The store cannot be read or written.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// There is no store.
    #[error("{}: no store there yet; share or get something, or name another with --store", .0.display())]
    NoStore(PathBuf),
    /// The path or root to be unpinned is not pinned.
    #[error("{} is not pinned", .0.display())]
    NotPinned(PathBuf),
    /// The path to be unpinned is pinned by its root.
    #[error("{} is pinned by its root; run `xylem store unpin {root}`", path.display())]
    PinnedByRoot {
        /// The path.
        path: PathBuf,
        /// The pinned root.
        root: Hash,
    },
    /// The path to be pinned or unpinned has no record.
    #[error("the store does not know {}; `xylem store list` shows what it knows", .0.display())]
    Unknown(PathBuf),
    /// Asked to stop.
    #[error("interrupted; nothing was changed")]
    Interrupted,
}

impl Failure for UpkeepError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store(e) => blame_of(e),
            Self::Interrupted => Blame::Interrupted,
            _ => Blame::Usage,
        }
    }
}
