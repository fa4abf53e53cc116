//! [`MirrorError`]: why a publication did not get into a bucket, or out of one.

use std::io;
use std::path::{Path, PathBuf};

use xylem_base::{Blame, Failure, advised, blame_of};
use xylem_bucket::{BucketError, BucketPlace};
use xylem_check::verify::VerificationError;
use xylem_files::ListedError;
use xylem_object::KeyId;
use xylem_object::ticket::VersionsError;
use xylem_packet::Name;
use xylem_publish::PublishError;
use xylem_reader::ReaderError;
use xylem_store::StoreError;

/// The next step after an upload that ended early.
const AGAIN: &str = "run the same command again to continue the upload";

/// Why a publication did not get into a bucket, or out of one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MirrorError {
    /// The bucket fails as a whole, or the error names the place already.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// The bucket fails at this place.
    #[error("{}: {why}", at.display())]
    At {
        /// The place, as a path that begins with `s3:`.
        at: PathBuf,
        /// The bucket's answer.
        #[source]
        why: BucketError,
    },
    /// Another publication is kept there.
    #[error(
        "{place} mirrors another publication already, {kept}; give this one a place of its own"
    )]
    OtherPublication {
        /// Where.
        place: BucketPlace,
        /// Its name without the version.
        kept: Name,
    },
    /// A newer version is kept there.
    #[error("{place}: the mirror already has a newer version, {kept}")]
    Newer {
        /// Where.
        place: BucketPlace,
        /// The name of that version.
        kept: Name,
    },
    /// What was uploaded was read back as something else.
    #[error("{0}: the bucket returns other bytes than were uploaded")]
    ReadBack(BucketPlace),
    /// Names of the publication cannot be keys of a bucket, so nothing was uploaded.
    #[error("{0} names in the publication cannot be keys of a bucket; nothing was uploaded")]
    NotKeys(u64),
    /// The same, and all else was uploaded.
    #[error("{0} names cannot be keys of a bucket and were left out; everything else is uploaded")]
    LeftOut(u64),
    /// Another object has the name.
    #[error("{0} exists and is something else; --overwrite replaces it")]
    Exists(BucketPlace),
    /// The list of versions cannot be read.
    #[error("{list}: {why}")]
    List {
        /// Where it is.
        list: BucketPlace,
        /// The error.
        why: VersionsError,
    },
    /// A version's manifest is not the signed one.
    #[error("{manifest}: this is not the manifest that {by} signed")]
    Manifest {
        /// Where it is.
        manifest: BucketPlace,
        /// The publisher's key.
        by: KeyId,
    },
    /// A version's listing cannot be used.
    #[error("{}: {why}", at.display())]
    Listing {
        /// Where it is, as a path that begins with `s3:`.
        at: PathBuf,
        /// The error.
        #[source]
        why: ListedError,
    },
    /// No version is kept there.
    #[error("{0}: the mirror is empty; `xylem mirror TICKET {0}` fills it")]
    Empty(BucketPlace),
    /// The call was asked to stop.
    #[error("interrupted; {AGAIN}")]
    Stopped,
    /// Peers did not send what was to be uploaded.
    #[error("{0}; {AGAIN}")]
    Unread(io::Error),
    /// The thread that reads the publication ended.
    #[error("the thread that reads the publication ended; run the command again")]
    Ended,
    /// The publication cannot be read.
    #[error(transparent)]
    Reader(#[from] ReaderError),
    /// The bucket's content cannot be compared with the ticket.
    #[error(transparent)]
    Verify(#[from] VerificationError),
    /// Hash trees of the bucket's content cannot be rebuilt.
    #[error(transparent)]
    Rebuild(#[from] PublishError),
    /// The place cannot be looked at.
    #[error("{}: {source}", at.display())]
    Place {
        /// The place, as a path that begins with `s3:`.
        at: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The store fails.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
}

impl MirrorError {
    /// A bucket's failure at a place.
    pub(crate) fn at(path: &Path, why: BucketError) -> Self {
        match why {
            // The text names the place already, or the place does not matter.
            BucketError::NoPlace { .. } | BucketError::NoCredentials => Self::Bucket(why),
            why => Self::At { at: path.to_path_buf(), why },
        }
    }
}

fn blame_of_bucket(error: &BucketError) -> Blame {
    match error {
        BucketError::NoPlace { .. }
        | BucketError::NoCredentials
        | BucketError::NotThere
        | BucketError::Settings(_) => Blame::Usage,
        BucketError::Stopped => Blame::Interrupted,
        BucketError::Short | BucketError::Failed(_) | BucketError::Endless(_) => Blame::Network,
        BucketError::Changed | BucketError::Incomplete(_) | BucketError::TooLarge => Blame::Data,
        _ => Blame::Local,
    }
}

impl Failure for MirrorError {
    fn blame(&self) -> Blame {
        match self {
            Self::Bucket(why) | Self::At { why, .. } => blame_of_bucket(why),
            Self::OtherPublication { .. }
            | Self::Newer { .. }
            | Self::NotKeys(_)
            | Self::LeftOut(_)
            | Self::Exists(_)
            | Self::Empty(_) => Blame::Usage,
            Self::ReadBack(_)
            | Self::List { .. }
            | Self::Manifest { .. }
            | Self::Listing { .. } => Blame::Data,
            Self::Stopped => Blame::Interrupted,
            Self::Unread(_) => Blame::Network,
            Self::Ended => Blame::Local,
            Self::Reader(e) => e.blame(),
            Self::Verify(e) => e.blame(),
            Self::Rebuild(e) => e.blame(),
            Self::Store(e) => blame_of(e),
            Self::Place { .. } => Blame::Local,
        }
    }
}
