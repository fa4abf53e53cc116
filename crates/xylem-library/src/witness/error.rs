//! [`WitnessError`]: why nothing is co-signed, or nobody can be asked for it.

use std::path::PathBuf;

use xylem_object::witness::{MAX_COSIGNATURES, NotNext, Split};
use xylem_packet::{EncodeError, Name};
use xylem_store::StoreError;

use crate::error::{Blame, Failure, advised, blame_of};
use crate::keys::KeyError;

/// Why nothing is co-signed, or nobody can be asked for it.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// A file can't be read or written.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// A key or a certificate.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A certificate that can't be a witness's.
    #[error("{}: {why}", path.display())]
    NoWitness {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: xylem_object::witness::WitnessError,
    },
    /// One key is one witness.
    #[error("{}: this witness has been named already: one key counts once", .0.display())]
    Twice(PathBuf),
    /// More than anybody asks.
    #[error("at most {MAX_COSIGNATURES} witnesses can be named")]
    TooMany,
    /// More than there are, or nobody.
    #[error(
        "--threshold {wanted}: {named} witnesses are named; 1 to {named} of them can be wanted"
    )]
    Threshold {
        /// How many are wanted.
        wanted: usize,
        /// How many are named.
        named: usize,
    },
    /// The record is not what was written.
    #[error("{}: the record of what was seen is damaged; nothing is co-signed. Restore it, or remove it: the next co-signature then says \
             that the record begins anew", .0.display())]
    Damaged(PathBuf),
    /// Two processes with one record could sign two histories.
    #[error("{}: another process witnesses this publication with this key", .0.display())]
    Busy(PathBuf),
    /// The clock has been set back.
    #[error("the clock says a time {0} s before that of the last co-signature; set it right")]
    ClockBack(u64),
    /// The record is older than what this witness has said.
    #[error(
        "a share has what this witness said of v={version} {seconds} s after the last that its record knows: the store is an older \
             one, or another store has this key; nothing is co-signed. Bring back the newer store, or witness with a new key"
    )]
    SetBack {
        /// Of which version.
        version: u64,
        /// How much later.
        seconds: u64,
    },
    /// Names itself in no certificate's form.
    #[error("{0} is no name of a key")]
    KeyName(Name),
    /// The names are too long.
    #[error("the co-signature: {0}")]
    TooLong(#[from] EncodeError),
    /// The publisher has signed two histories.
    #[error("TWO HISTORIES: {0}")]
    Split(Split),
    /// What came does not follow what was seen.
    #[error("not co-signed: {0}")]
    NotNext(NotNext),
}

impl From<NotNext> for WitnessError {
    fn from(e: NotNext) -> Self {
        match e {
            NotNext::Split(split) => Self::Split(split),
            other => Self::NotNext(other),
        }
    }
}

impl Failure for WitnessError {
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
            Self::Damaged(_) | Self::Busy(_) | Self::ClockBack(_) | Self::SetBack { .. } => {
                Blame::Local
            }
            Self::Split(_) | Self::NotNext(_) => Blame::Data,
        }
    }
}
