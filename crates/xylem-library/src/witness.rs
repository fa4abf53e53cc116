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

pub use ask::{Witnessed, evidence_hint, witnessed};
pub use demand::{CosignatureDemand, NamedStatement};
pub use error::CosigningError;
pub use extends::{ExtendsOptions, ExtendsSummary, extends};
pub use kept::{Cosigned, SharedVersion, SubmissionResult};
pub use newest::{ASK_EVERY, NewestQuery, POINTER_LIFETIME};
pub use record::{COSIGN_AGAIN, WitnessRecord, keep_evidence};
pub use versions::{DialVersions, VersionSource};
pub use watch::{WatchOptions, watch};

use serde::Serialize;
use xylem_object::witness::WitnessStatement;
use xylem_packet::Name;

use crate::json;

/// Milliseconds by which another clock may be ahead of ours.
pub(crate) const MAX_AHEAD_MS: u64 = 300_000;

/// Co-signature of a version by a witness, as reported to the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Testimony {
    /// The witness.
    #[serde(serialize_with = "json::text")]
    pub witness: Name,
    /// The version.
    pub version: u64,
    /// Size of the version in bytes.
    pub bytes: u64,
    /// Whether the witness verified that the version begins with what it saw before.
    pub proven: bool,
    /// Time of the co-signature, by the witness's clock, in milliseconds since 1970.
    pub time_ms: u64,
    /// Start of the witness's unbroken record, in milliseconds since 1970.
    pub since_ms: u64,
    /// First version of that record.
    pub first: u64,
}

impl Testimony {
    /// Makes the report of a statement by `witness`.
    #[must_use]
    pub fn new(witness: Name, said: &WitnessStatement) -> Self {
        let WitnessStatement { version, size, proven, time_ms, since_ms, first, .. } = *said;
        Self { witness, version, bytes: size, proven, time_ms, since_ms, first }
    }
}
