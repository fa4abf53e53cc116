//! Growing files: [`Grower`] publishes one as others append to it, [`Followed`] keeps what a reader of
//! one has verified.

mod error;

mod log;

mod checkpoints;
mod grow;
mod input;

mod followed;

pub use error::{GrowError, Rewritten};
pub use followed::{FollowError, Followed};
pub use grow::{Author, FollowOptions, Grower, Input};
