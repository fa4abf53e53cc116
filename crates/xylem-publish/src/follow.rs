//! Growing files: [`Grower`] publishes a file while another program appends to it.

mod error;

mod checkpoints;
mod grow;
mod growth;
mod input;

pub use error::{GrowError, Rewritten};
pub use grow::{Author, FollowInput, FollowOptions, Grower};
