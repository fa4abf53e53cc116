//! A growing file of another publisher: [`FollowedStream`] keeps what a reader has verified, and [`PointerWatch`] collects
//! packets about newer versions.

mod followed;
mod shown;
mod watch;

pub use followed::{FollowedStream, FollowedStreamError, begins_with};
pub use shown::ContinuationProof;
pub use watch::PointerWatch;
