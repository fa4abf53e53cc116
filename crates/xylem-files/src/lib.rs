//! Files of this machine, as far as both directions need them: publishing reads them, a fetch writes them, and checks
//! read them again.
//!
//! [`walk`] finds them, less what [`Exclusion`] leaves out and what is xylem's [own](ours); [`hashing`] makes roots and
//! [`trees`]; [`Listed`] and [`ListedFiles`] read a directory's listing on disk. [`record`] and [`signed`] are what the
//! store remembers of a path. [`Reads`](reads::Reads) reads content for a loop that may not wait for a disk, and [`held`]
//! proves again what a fetch has so far, before it is passed on.
//!
//! Bytes come from and go to the file system through `xylem-store`'s medium. There is no socket and no clock here.
//! Hashing and reading back have threads of their own.

mod event;
mod save;

pub mod copies;
mod exclude;
pub mod ours;
mod portable;
pub mod walk;

pub mod hashing;
mod listed;
pub mod overlay;
pub mod reads;
pub mod rescan;
pub mod sums;
pub mod trees;

pub mod checkpoint_log;
pub mod record;
pub mod signed;

pub mod held;

pub use event::{CheckpointMade, Flaw, FlawFound, LibraryEvent, ListedSize, SkipReason, Testimony};
pub use exclude::{
    ExcludeError, Exclusion, LonePatternError, PatternError, RulesError, read_rule, read_rules,
};
pub use listed::{Listed, ListedEntries, ListedError, ListedFiles};
pub use portable::{NameCheck, NotPortable};
pub use save::{Existing, FetchMode, Only, Output, SaveOptions, SpaceCheck};
