//! [`PublishError`]: why content was not published.

use std::path::PathBuf;

use xylem_base::{Blame, Failure, advised, blame_of};
use xylem_files::hashing::HashError;
use xylem_files::ours::OwnError;
use xylem_files::walk::WalkError;
use xylem_files::{ExcludeError, ListedError};
use xylem_mail::sealed::{SealedError, SealedListError};
use xylem_object::ManifestError;
use xylem_object::listing::ListingError;
use xylem_object::naming::PrefixError;
use xylem_packet::Name;
use xylem_store::StoreError;

/// Why content was not published. Nothing has changed, except that outboards may have been stored.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// A file cannot be read, or the store not written.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// An exclusion pattern is not valid.
    #[error(transparent)]
    Exclude(#[from] ExcludeError),
    /// The record of the directory is damaged.
    #[error("{}: its record in the store is damaged, so the paths that its last share left out are unknown; name them with \
             --exclude, or share all with --no-exclude", .0.display())]
    ExclusionsLost(PathBuf),
    /// The path is a store, or lies in one.
    #[error(transparent)]
    Own(#[from] OwnError),
    /// The directory could not be walked.
    #[error(transparent)]
    Walk(#[from] WalkError),
    /// Its files could not be hashed.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// It has an entry that cannot be listed.
    #[error(transparent)]
    Listing(#[from] ListingError),
    /// The listing just written cannot be read back.
    #[error(transparent)]
    Listed(#[from] ListedError),
    /// The path is a socket, a device or the like.
    #[error("{}: not a file or directory", .0.display())]
    Kind(PathBuf),
    /// Nothing can be published under the object name.
    #[error("{name}: {source}")]
    Name {
        /// The object name.
        name: Name,
        /// Why it is not valid.
        source: PrefixError,
    },
    /// It cannot be encrypted to its recipients.
    #[error(transparent)]
    Sealed(#[from] SealedError),
    /// The manifest cannot be signed.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl Failure for PublishError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store(e) => blame_of(e),
            Self::Own(e) => e.blame(),
            Self::Exclude(e) => e.blame(),
            Self::Walk(e) => e.blame(),
            Self::Hash(e) => e.blame(),
            Self::Listed(e) => e.blame(),
            Self::ExclusionsLost(_) => Blame::Local,
            Self::Listing(_)
            | Self::Kind(_)
            | Self::Name { .. }
            | Self::Sealed(_)
            | Self::Manifest(_) => Blame::Usage,
        }
    }
}

impl From<SealedListError> for PublishError {
    fn from(e: SealedListError) -> Self {
        Self::Sealed(e.into())
    }
}
