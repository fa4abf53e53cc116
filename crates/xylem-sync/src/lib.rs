//! [`sync()`] keeps a folder in step with those of other members (docs/spec/sync.md, "Folders"), until it is told to stop.
//!
//! One thread (`member`) scans the folder after changes, announces its state, and takes over what others have. It
//! fetches by calls of `xylem-node`, which also serves the folder and exchanges the members' statements. What is decided
//! about versions, conflicts and removals is `xylem-folder`'s. Nothing is printed: [`SyncEvent`]s report what happens,
//! and [`SyncStatus`] is what other processes read of it.

mod asking;
mod board;
mod error;
mod fetching;
mod keeping;
mod member;
mod naming;
mod staged;

pub use board::{
    FetchingStatus, FolderStep, MemberStanding, MemberStatus, MissingStatus, StatusBoard,
    SyncStatus, all_statuses, is_paused, pause,
};
pub use error::{IndexRefusal, OldPlaceError, SyncError};
pub use keeping::{LinksRefused, SyncEvent, SyncOptions, sync};
pub use naming::{is_member_name, usual_member_name};
