//! What is stored, read again. [`scrub`] reads all files that a store knows and repairs them, [`verify`] compares files
//! with a ticket, and [`upkeep`] lists, checks and clears the store itself.
//!
//! There is no socket and no clock here. Lost pieces are requested through a [`Remote`], and the time is an argument.

mod remote;

pub mod scrub;
pub mod upkeep;
pub mod verify;

pub use remote::{Keep, Remote, Wanted};
