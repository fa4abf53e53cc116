//! [`FollowError`]: why a growing file is not followed any further.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use xylem_base::{Blame, Failure, advised, blame_of};
use xylem_object::ManifestError;
use xylem_object::naming::PrefixError;
use xylem_sink::follow::FollowedStreamError;
use xylem_store::StoreError;
use xylem_transfer::AddError;
use xylem_tree::consistency::ConsistencyError;
use xylem_witness::{NotCosigned, QuestionError, WitnessedError, evidence_hint};

use crate::fetch::FetchError;

/// Why a growing file is not followed any further. Verified content stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The ticket names a directory.
    #[error("the ticket names a directory, which does not grow")]
    Directory,
    /// The ticket names a complete file.
    #[error("the ticket names a file that does not grow; get it without --follow")]
    NotGrowing,
    /// The publisher is silent.
    #[error(
        "the publisher has sent nothing for {} s; what was verified is kept: run the same command to continue",
        .after.as_secs_f64()
    )]
    Silent {
        /// Time without a newer checkpoint, or without an answer.
        after: Duration,
    },
    /// The file in its place did not come from this publication.
    #[error(
        "{} exists and is not the beginning of the fetched file; choose --overwrite or -o PATH",
        .0.display()
    )]
    OtherFile(PathBuf),
    /// The file in its place begins with the ticket's checkpoint and continues differently.
    #[error(
        "{} begins with the ticket's checkpoint and is longer than the newest one: it is not truncated; choose \
         -o PATH",
        .0.display()
    )]
    Longer(PathBuf),
    /// The publisher has signed another history.
    #[error(
        "the publisher has signed another history: checkpoint v={version} does not continue {before} ({why}); what \
         was verified before is kept{evidence}"
    )]
    OtherHistory {
        /// The checkpoint.
        version: u64,
        /// The content that it does not continue.
        before: VerifiedBefore,
        /// How that is known.
        why: NotContinued,
        /// Whether evidence was kept.
        evidence: EvidenceKept,
    },
    /// Failures of peers, or it was stopped.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A checkpoint cannot be read as a version of its object.
    #[error("{0}")]
    Version(ManifestError),
    /// No checkpoint can have this name.
    #[error("{0}")]
    Name(PrefixError),
    /// Nothing can be asked about newer checkpoints.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// Segments of a checkpoint cannot be requested.
    #[error("{0}")]
    Object(AddError),
    /// Co-signatures cannot be collected.
    #[error(transparent)]
    Witnessed(#[from] WitnessedError<FetchError>),
    /// A checkpoint has too few co-signatures.
    #[error(transparent)]
    NotCosigned(#[from] NotCosigned),
    /// The result cannot be written, or read back.
    #[error(transparent)]
    Output(#[from] FollowedStreamError),
    /// The store fails.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
}

/// The content that a checkpoint has to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifiedBefore {
    /// A checkpoint of this run, by its version.
    #[error("checkpoint v={0}")]
    Checkpoint(u64),
    /// The file of an earlier run.
    #[error("the bytes that are here")]
    File,
}

/// How it is known that a checkpoint does not continue the content before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotContinued {
    /// Its manifest is not that of a growing file.
    #[error("it is not a checkpoint of a growing file")]
    NotGrowing,
    /// Its bytes do not have the root in its manifest.
    #[error("its bytes do not match its root")]
    OtherRoot,
    /// The proof does not hold.
    #[error(transparent)]
    Proof(ConsistencyError),
}

/// Whether evidence of two histories was kept. Its `Display` continues an error's text.
#[derive(Debug)]
pub enum EvidenceKept {
    /// There is no evidence that convinces others.
    None,
    /// It is in this file.
    At(PathBuf),
    /// It could not be saved.
    Unsaved(StoreError),
}

impl fmt::Display for EvidenceKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::At(path) => f.write_str(&evidence_hint(path)),
            Self::Unsaved(e) => write!(f, "; cannot save the evidence: {e}"),
        }
    }
}

impl Failure for FollowError {
    fn blame(&self) -> Blame {
        match self {
            Self::Directory
            | Self::NotGrowing
            | Self::OtherFile(_)
            | Self::Longer(_)
            | Self::Name(_) => Blame::Usage,
            Self::Silent { .. } | Self::Object(_) => Blame::Network,
            Self::OtherHistory { .. } | Self::Version(_) => Blame::Data,
            Self::Fetch(e) => e.blame(),
            Self::Question(e) => e.blame(),
            Self::Witnessed(e) => e.blame(),
            Self::NotCosigned(e) => e.blame(),
            Self::Output(e) => e.blame(),
            Self::Store(e) => blame_of(e),
        }
    }
}
