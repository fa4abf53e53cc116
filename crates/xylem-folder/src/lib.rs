//! Folders that several members keep in step (docs/spec/sync.md, "Folders"). [`Index`] holds the version of each path
//! of a member. [`merge`] decides what to take over from another member's index, and what conflicts. [`SyncFolder`] puts
//! files in place without losing anything of the user's. [`MemberStatement`] is what a member announces about itself.
//!
//! This module fetches nothing and opens no socket: that is the caller's part.

mod adopted;
mod apply;
mod attributes;
mod certified;
mod error;
mod fields;
mod heard;
mod history;
mod home;
mod index;
mod local;
mod mark;
mod merge;
mod obstacles;
mod own_files;
mod pacing;
mod place;
mod portion;
mod removals;
mod roles;
mod rules;
mod statement;
mod stored;
mod trash;
mod vector;
mod versions;

mod watch;

pub use adopted::AdoptedState;
pub use apply::{Applied, has_content as holds_content};
pub use attributes::{AttributesError, ExtendedAttributes, MAX_ATTRIBUTES};
pub use certified::{CertifiedRole, NotCertified, PartTooLong, RoleSchema, present};
pub use error::FolderError;
pub use heard::{
    FULL_MESH, Histories, KnownStatements, LinkRefusal, MAX_MEMBERS, MeshNews, MeshStart,
    StatementInbox, StatementOutcome,
};
pub use history::{
    LogEntry, MemberLog, Past, PastRelation, ProofRequest, entries, is_proven, prove,
};
pub use home::{GivenRole, HomeError, KnownMembers, LastRun, SyncHome, TwoHistories};
pub use index::{Index, IndexError, IndexItem, ItemKind, MAX_INDEX, Names};
pub use local::SyncFolder;
pub use merge::{LosingVersion, MergeSide, Plan, PlannedChange, merge};
pub use obstacles::{Obstacle, ObstacleKind, Obstacles};
pub use roles::{MemberRole, Membership, NotAdmitted, Roles};
pub use rules::{NoRules, RulesChange, RulesNews, WaitingRules};
pub use statement::{
    Invitation, InvitationError, MAX_STATEMENT, MemberStatement, StatementError, SyncGroup,
};
pub use stored::{Entries, IndexSize, IndexSource, StoredIndex};
pub use trash::{KeptVersion, Restored, kept_paths, kept_versions, restore};
pub use vector::{Dot, MemberId, Vector};
pub use versions::{NoVersionPolicy, VersionPolicy};
pub use watch::{FolderWatcher, Watched};
pub use xylem_files::copies::copy_of;
pub use xylem_files::ours::{IGNORE_FILE, OWN};
