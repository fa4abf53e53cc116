//! Growing objects: [`follow`] fetches a stream as it grows, [`Dialling`] brings versions for who compares them;
//! publishing one is [`crate::share`]'s with [`xylem_library::follow::FollowOptions`].
//!
//! A growing object is a series of ordinary publications (docs/spec/object.md, "Growing objects"), so
//! that everything else here can fetch one checkpoint of it. This module finds the newest, and holds
//! each against what is here already before a byte of it is written.

mod consume;
mod newest;
mod versions;

pub use consume::follow;
pub(crate) use newest::continues;
pub use newest::newest;
pub use versions::{Asked, Dialling};
