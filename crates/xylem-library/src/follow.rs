//! Growing files. [`Grower`] publishes a file while another program appends to it, [`Followed`] keeps what a reader has
//! verified, and [`Watch`] collects packets about newer versions.

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
