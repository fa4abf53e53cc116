//! [`CosigningError`]: why no version is co-signed, or no witness can be asked.

use std::path::PathBuf;

use xylem_base::{Blame, Failure, NoRandomness, advised, blame_of};
use xylem_keys::KeyFileError;
use xylem_object::witness::{HistorySplit, MAX_COSIGNATURES, StepError};
use xylem_packet::{EncodeError, Name};
use xylem_store::StoreError;

/// Why no version is co-signed, or no witness can be asked.
#[derive(Debug, thiserror::Error)]
pub enum CosigningError {
    /// A file cannot be read or written.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// A key or a certificate cannot be used.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// A certificate cannot be a witness's.
    #[error("{}: {why}", path.display())]
    NoWitness {
        /// The file.
        path: PathBuf,
        /// The defect.
        why: xylem_object::witness::WitnessCertificateError,
    },
    /// A witness is named twice: one key is one witness.
    #[error("{}: this witness has been named already: one key counts once", .0.display())]
    Twice(PathBuf),
    /// Too many witnesses are named.
    #[error("at most {MAX_COSIGNATURES} witnesses can be named")]
    TooMany,
    /// The threshold is 0, or more than the named witnesses.
    #[error("--threshold {wanted}: {named} witnesses are named; give 1 to {named}")]
    Threshold {
        /// The threshold.
        wanted: usize,
        /// Number of named witnesses.
        named: usize,
    },
    /// The record is not as it was written.
    #[error("{}: the record of what was seen is damaged; nothing is co-signed. Restore it, or remove it: the next co-signature then states \
             that a new record begins", .0.display())]
    Damaged(PathBuf),
    /// Another process uses the record: two processes could sign two histories.
    #[error("{}: another process witnesses this publication with this key", .0.display())]
    Busy(PathBuf),
    /// The clock was set back.
    #[error("the clock is {0} s before the last co-signature; set the clock")]
    ClockBack(u64),
    /// The record is older than this witness's last statement.
    #[error(
        "a share has a co-signature of v={version} by this key, {seconds} s newer than the last in this store's record: the store is an \
             older copy, or another store has this key; nothing is co-signed. Restore the newer store, or witness with a new key"
    )]
    SetBack {
        /// The co-signed version.
        version: u64,
        /// Seconds between the two co-signatures.
        seconds: u64,
    },
    /// The copy of the record in another place is newer.
    #[error("{}: this copy of the record is newer than {}: the store is an older copy, or its record was lost; nothing is co-signed. Copy \
             the newer file over the other", copy.display(), record.display())]
    OlderThanCopy {
        /// The store's record.
        record: PathBuf,
        /// The newer copy.
        copy: PathBuf,
    },
    /// A signer's name is not a key name.
    #[error("{0} is not the name of a key")]
    KeyName(Name),
    /// The names are too long for a packet.
    #[error("cannot make the co-signature: {0}")]
    TooLong(#[from] EncodeError),
    /// The publisher has signed two histories.
    #[error("TWO HISTORIES: {0}")]
    Split(HistorySplit),
    /// The version does not continue what was seen.
    #[error("not co-signed: {0}")]
    NotNext(StepError),
}

impl From<StepError> for CosigningError {
    fn from(e: StepError) -> Self {
        match e {
            StepError::Split(split) => Self::Split(split),
            other => Self::NotNext(other),
        }
    }
}

impl From<NoRandomness> for CosigningError {
    fn from(e: NoRandomness) -> Self {
        Self::Key(e.into())
    }
}

impl Failure for CosigningError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store(e) => blame_of(e),
            Self::Key(e) => e.blame(),
            Self::NoWitness { .. }
            | Self::Twice(_)
            | Self::TooMany
            | Self::Threshold { .. }
            | Self::KeyName(_)
            | Self::TooLong(_) => Blame::Usage,
            Self::Damaged(_)
            | Self::Busy(_)
            | Self::ClockBack(_)
            | Self::SetBack { .. }
            | Self::OlderThanCopy { .. } => Blame::Local,
            Self::Split(_) | Self::NotNext(_) => Blame::Data,
        }
    }
}
