//! Growing files: [`Grower`] publishes one as others append to it, [`Followed`] keeps what a reader of
//! one has verified, [`Watch`] what it hears of newer versions.

mod error;

mod log;

mod checkpoints;
mod grow;
mod input;

mod followed;
mod shown;
mod watch;

pub use error::{GrowError, Rewritten};
pub use followed::{FollowError, Followed, begins_with};
pub use grow::{Author, FollowOptions, Grower, Input};
pub(crate) use log::damaged;
pub use shown::Shown;
pub use watch::Watch;
