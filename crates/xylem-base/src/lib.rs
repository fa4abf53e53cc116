//! What the crates that work on this machine share. [`Failure`] is an error that ends a verb, with the party that must act
//! ([`Blame`]); [`Stop`] asks a running call to end; [`UnixTime`] is a time of day that a caller read. [`disk()`] is the
//! medium that all of them use. The rest are ways to write bytes, paths and values ([`hex()`], [`os_bytes`], [`json`]),
//! randomness ([`random()`]), and threads on a system that may refuse them ([`threads`]).

mod disk;
mod error;
mod hex;
pub mod json;
mod path;
mod random;
mod stop;
pub mod threads;
mod time;

pub use disk::{FileMedium, disk};
pub use error::{Blame, Error, Failure, advised, blame_of};
pub use hex::hex;
pub use path::{canonical, canonical_in, os_bytes, os_path};
pub use random::{NoRandomness, random};
pub use stop::Stop;
pub use threads::Wake;
pub use time::UnixTime;
