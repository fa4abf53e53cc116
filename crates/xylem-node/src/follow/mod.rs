//! Growing objects: [`follow`] fetches a stream as it grows, [`extends`] proves that one checkpoint
//! begins another; publishing one is [`crate::share`]'s with [`xylem_library::follow::FollowOptions`].
//!
//! A growing object is a series of ordinary publications (docs/spec/object.md, "Growing objects"), so
//! that everything else here can fetch one checkpoint of it. This module finds the newest, and holds
//! each against what is here already before a byte of it is written.

mod consume;
mod extends;
mod newest;
mod prove;

pub use consume::follow;
pub use extends::{ExtendsOptions, ExtendsSummary, extends};
pub(crate) use newest::{ASK_EVERY, Newest, POINTER_LIFETIME};
pub(crate) use prove::proof_of_beginning;
