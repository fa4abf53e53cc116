//! [`PublishError`]: why something was not published.

use std::path::PathBuf;

use xylem_mail::sealed::{ListError, SealedError};
use xylem_object::ManifestError;
use xylem_object::listing::ListingError;
use xylem_object::naming::PrefixError;
use xylem_packet::Name;
use xylem_store::StoreError;

use crate::error::{Blame, Failure, advised, blame_of};
use crate::exclude::ExcludeError;
use crate::hashing::HashError;
use crate::listed::ListedError;
use crate::ours::OwnError;
use crate::walk::WalkError;

/// Why something was not published. Nothing was changed but that outboards may have been kept.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// A file can't be read, or the store not written.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// A pattern of what is left out is none.
    #[error(transparent)]
    Exclude(#[from] ExcludeError),
    /// It is a store, or lies in one.
    #[error(transparent)]
    Own(#[from] OwnError),
    /// The directory could not be walked.
    #[error(transparent)]
    Walk(#[from] WalkError),
    /// Its files could not be hashed.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// Something in it that a listing can't have.
    #[error(transparent)]
    Listing(#[from] ListingError),
    /// The listing that was just written can't be read back.
    #[error(transparent)]
    Listed(#[from] ListedError),
    /// A socket, a device or the like.
    #[error("{}: not a file or directory", .0.display())]
    Kind(PathBuf),
    /// The object name is none under which something can be published.
    #[error("{name}: {source}")]
    Name {
        /// The object name.
        name: Name,
        /// What is wrong with it.
        source: PrefixError,
    },
    /// It can't be encrypted to those whom it is for.
    #[error(transparent)]
    Sealed(#[from] SealedError),
    /// The manifest can't be signed.
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
            Self::Listing(_)
            | Self::Kind(_)
            | Self::Name { .. }
            | Self::Sealed(_)
            | Self::Manifest(_) => Blame::Usage,
        }
    }
}

impl From<ListError> for PublishError {
    fn from(e: ListError) -> Self {
        Self::Sealed(e.into())
    }
}
