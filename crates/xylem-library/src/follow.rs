//! Growing files. [`Grower`] publishes a file while another program appends to it, [`FollowedStream`] keeps what a reader has
//! verified, and [`PointerWatch`] collects packets about newer versions.

mod error;

mod log;

mod checkpoints;
mod grow;
mod growth;
mod input;

mod followed;
mod shown;
mod watch;

pub use error::{GrowError, Rewritten};
pub use followed::{FollowError, FollowedStream, begins_with};
pub use grow::{Author, FollowInput, FollowOptions, Grower};
pub(crate) use log::damaged;
pub use shown::ContinuationProof;
pub use watch::PointerWatch;
