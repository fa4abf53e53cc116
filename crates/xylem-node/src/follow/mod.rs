//! Growing objects. [`follow`] fetches a stream as it grows. [`VersionDialer`] supplies versions for comparison.
//! [`crate::share`] publishes one, with [`xylem_publish::follow::FollowOptions`].
//!
//! A growing object is a series of ordinary publications (docs/spec/object.md, "Growing objects"), so that all other
//! code can fetch one of its checkpoints. This module finds the newest checkpoint, and compares it with the local bytes
//! before it writes any.

mod error;

mod consume;
mod newest;
mod versions;

pub use consume::follow;
pub use error::{EvidenceKept, FollowError, NotContinued, VerifiedBefore};
pub(crate) use newest::continues;
pub use newest::newest;
pub use versions::{Asked, VersionDialer};
