//! Witnesses on this machine (docs/spec/witness.md). [`WitnessRecord`] is what a witness has seen and co-signed. [`Cosigned`]
//! holds the co-signatures that a share keeps of the witnesses that it names. [`CosignatureDemand`] is how many co-signatures a
//! getter requires, and of which witnesses.
//!
//! [`watch`] is the witness; [`witnessed`] and [`extends`] request co-signatures and proofs. Network access goes
//! through [`VersionSource`]. Packets and rules are in `xylem_object::witness`.

mod error;
mod versions;

mod demand;
mod newest;
mod questions;
mod record;

mod ask;
mod extends;

mod hand_over;
mod watch;

mod answer;
mod kept;

pub use ask::{NotCosigned, Witnessed, WitnessedError, evidence_hint, witnessed};
pub use demand::{CosignatureDemand, NamedStatement};
pub use error::CosigningError;
pub use extends::{ExtendsError, ExtendsOptions, ExtendsSummary, extends};
pub use kept::{Cosigned, SharedVersion, SubmissionResult};
pub use newest::{ASK_EVERY, NewestQuery, POINTER_LIFETIME, QuestionError};
pub use record::{COSIGN_AGAIN, WitnessRecord, keep_evidence};
pub use versions::{DialVersions, VersionSource};
pub use watch::{NotHandedOver, SupersededVersion, WatchError, WatchOptions, watch};

/// Milliseconds by which another clock may be ahead of ours.
pub(crate) const MAX_AHEAD_MS: u64 = 300_000;
