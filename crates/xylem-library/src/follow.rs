//! Growing files: [`Grower`] publishes one as others append to it; [`log`] and [`output`] keep what a
//! follower has verified.

pub mod grow;
pub mod log;
pub mod output;

pub use grow::{FollowOptions, Grower, Input};
