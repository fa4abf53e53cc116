#![allow(missing_docs)]
//! What lies on this machine: from files to something that can be served ([`publish`]), from proven
//! bytes to files ([`sink`]), and everything that keeps both right ([`scrub`], [`upkeep`]).
//!
//! Bytes come from and go to the file system through `xylem-store`'s medium. There is no socket here:
//! what has to come from elsewhere is asked of a [`scrub::Remote`], or handed to a [`sink::Sink`].

pub mod clock;
pub mod error;
pub mod event;
pub mod failure;
pub mod json;
pub mod stop;

pub mod exclude;
pub mod names;
pub mod walk;

pub mod hashing;
pub mod identity;
pub mod key_files;
pub mod keyring;
pub mod listed;
pub mod record;

pub mod disk_cache;
pub mod follow;
pub mod held;
pub mod mail;
pub mod publish;
pub mod rescan;
pub mod scrub;
pub mod sink;
pub mod upkeep;

pub use error::{Blame, Error, Failure};
pub use event::{CheckpointMade, LibraryEvent};
pub use sink::{Existing, Output, SaveOptions};
pub use stop::Stop;
