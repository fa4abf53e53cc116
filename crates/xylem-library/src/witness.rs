//! Witnesses on this machine: what one of them has seen and said ([`Record`]), what a share keeps of those that it has named
//! ([`Cosigned`]), and how many of whose words somebody wants ([`Demand`]).
//!
//! [`watch`] is the witness, [`witnessed`] and [`extends`] ask for what witnesses say. What they need of a network they ask of
//! [`Versions`]. Packets and rules are `xylem_object::witness`.

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

pub use ask::{Witnessed, shown_by, witnessed};
pub use demand::{Demand, Said};
pub use error::WitnessError;
pub use extends::{ExtendsOptions, ExtendsSummary, extends};
pub use kept::{Cosigned, Taken, Version};
pub use newest::{ASK_EVERY, Newest, POINTER_LIFETIME};
pub use record::{AGAIN, Record, keep_evidence};
pub use versions::{Dial, Versions};
pub use watch::{WatchOptions, watch};

use serde::Serialize;
use xylem_object::witness::Statement;
use xylem_packet::Name;

use crate::json;

/// A clock may be ahead of another by so much.
pub(crate) const MAX_AHEAD_MS: u64 = 300_000;

/// That a witness has co-signed a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Testimony {
    /// Who.
    #[serde(serialize_with = "json::text")]
    pub witness: Name,
    /// The version.
    pub version: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Whether it was proven to begin with what was seen before.
    pub proven: bool,
    /// When, by the witness's clock: milliseconds since 1970.
    pub time_ms: u64,
    /// When its unbroken record began.
    pub since_ms: u64,
    /// With which version.
    pub first: u64,
}

impl Testimony {
    /// What `witness` says.
    #[must_use]
    pub fn new(witness: Name, said: &Statement) -> Self {
        let Statement { version, size, proven, time_ms, since_ms, first, .. } = *said;
        Self { witness, version, bytes: size, proven, time_ms, since_ms, first }
    }
}
