//! [`FolderError`]: why a folder cannot be kept in step.

use std::io;
use std::path::{Path, PathBuf};

use xylem_base::{Blame, Failure, advised, blame_of};
use xylem_files::ours::OWN;
use xylem_files::{ExcludeError, ListedError};
use xylem_store::StoreError;

use super::index::IndexError;
use super::rules::NoRules;

/// Why a folder cannot be kept in step.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// An error of the system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path concerned.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder's own directory is missing: most likely another file system is, or is not, mounted there.
    #[error("{}: its directory {OWN} is missing, so this may be another folder; mount the right one, or create {OWN} if this is it", .0.display())]
    NotThere(PathBuf),
    /// The stored index cannot be read.
    #[error("{}: {why}", path.display())]
    Index {
        /// The file of the index.
        path: PathBuf,
        /// The defect.
        why: IndexError,
    },
    /// The log of this member's statements is not as it was written.
    #[error("{}: the log of this member's statements is damaged or out of date; nothing is sent, as other members would see a \
             second history. Restore the file, or remove its folder and join again", .0.display())]
    BadLog(PathBuf),
    /// The statement would be too long, or other members would parse it differently.
    #[error("the statement of this member is longer than other members accept ({0} bytes)")]
    Unsayable(usize),
    /// The rules are invalid, and none were in force before.
    #[error("{}: {why}; nothing is shared or fetched until this is corrected", path.display())]
    Rules {
        /// The file of the rules.
        path: PathBuf,
        /// The defect.
        why: NoRules,
    },
    /// An error of the rules as a whole.
    #[error(transparent)]
    Exclude(#[from] ExcludeError),
    /// An error of the store.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// An error of the published listing.
    #[error(transparent)]
    Listed(#[from] ListedError),
}

impl Failure for FolderError {
    fn blame(&self) -> Blame {
        match self {
            Self::Io { .. }
            | Self::NotThere(_)
            | Self::Index { .. }
            | Self::BadLog(_)
            | Self::Unsayable(_) => Blame::Local,
            Self::Rules { .. } | Self::Exclude(_) => Blame::Usage,
            Self::Store(e) => blame_of(e),
            Self::Listed(e) => e.blame(),
        }
    }
}

/// Makes the error of a path.
pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    move |source| FolderError::Io { path: path.to_path_buf(), source }
}
