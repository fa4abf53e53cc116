//! From verified bytes to files: [`make`] returns the [`Sink`] for a fetch. What old copies hold is found by an update's
//! sums (`Update`) and proven before it is used. [`sealed`] decrypts a private publication into the same sinks, and
//! [`follow`] keeps a file that still grows.
//!
//! Bytes go to the file system through `xylem-store`'s medium. There is no socket and no clock here. Writing, and reading
//! back, have threads of their own.

mod ordered;
pub mod pieces;
mod summary;

mod update;

mod sink;

pub mod follow;
pub mod sealed;

pub use ordered::WriteError;
pub use sink::{
    Context, Destination, Nodes, SaveError, Sink, Tally, abandon_fetch, deliver, file_name_of,
    make, restore_attributes, staging_path,
};
pub(crate) use sink::{Copies, attributes_of};
pub use summary::{GetSummary, PeerBytes};
