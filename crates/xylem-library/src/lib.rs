//! The files of this machine: from files to something that can be served ([`publish`](publish::publish)), from verified
//! bytes to files ([`Sink`](sink::Sink)), and maintenance of both ([`scrub`](scrub::scrub), [`verify`](verify::verify),
//! [`upkeep`]).
//!
//! Bytes come from and go to the file system through `xylem-store`'s medium. There is no socket and no clock here.
//! Remote data is requested through a [`Remote`] or handed to a sink, and the time is an argument. Hashing, reading
//! back and writing have threads of their own.

mod event;
mod remote;
mod save;
mod summary;

pub mod copies;
mod exclude;
mod ours;
mod portable;
mod walk;

mod hashing;
mod listed;
mod ordered;
mod overlay;
mod rescan;
mod trees;

pub mod record;
pub mod signed;

pub mod as_shared;
pub mod publications;
pub mod publish;
pub mod reads;
pub mod registry;
pub mod served;

mod update;

pub mod held;
pub mod pieces;
pub mod sink;

pub mod follow;

pub mod adopt;
mod opening;
pub mod sealed;

pub mod scrub;
pub mod upkeep;
pub mod verify;

pub use event::{CheckpointMade, Flaw, FlawFound, LibraryEvent, ListedSize, SkipReason, Testimony};
pub use exclude::{
    ExcludeError, Exclusion, LonePatternError, PatternError, RulesError, read_rule, read_rules,
};
pub use hashing::HashError;
pub use listed::{Listed, ListedEntries, ListedError, ListedFiles};
pub use opening::{OpeningOptions, open};
pub use ordered::WriteError;
pub use ours::{IGNORE_FILE, OWN, OwnError, folds_to, is_members_own};
pub use portable::NotPortable;
pub use remote::{Keep, Remote, Wanted};
pub use save::{Existing, FetchMode, Only, Output, SaveOptions, SpaceCheck};
pub use summary::{GetSummary, PeerBytes};
pub use walk::{Selection, WalkError};
