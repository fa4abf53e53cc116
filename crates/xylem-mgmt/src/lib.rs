//! [`Management`]: the NFD management protocol, without sockets or clock.
//!
//! It is a forwarder's own application (`docs/spec/management.md`). It handles Interests under `/localhost/nfd`, and
//! under `/localhop/nfd` if neighbours may register prefixes. Commands act on a [`ManagementHost`], which the program with the
//! sockets implements, and answers go back as Data. The RIB is part of it, and the FIB follows from the RIB. [`client`]
//! is the other side: it builds commands and parses answers. [`RepoProtocol`] takes the commands of a repository
//! (`docs/spec/repo.md`).
//!
//! Not here: faces themselves, routing protocols.
pub mod types;

mod record;

mod control;
mod datasets;
mod face_uri;
#[cfg(feature = "serde")]
mod json;

mod host;

mod announcement;
mod authority;
mod request;

mod events;
mod readvertise;
mod rib;
mod versions;

mod management;
mod repo;

pub mod client;

pub use announcement::{AnnouncementError, MAX_ANNOUNCEMENT, PrefixAnnouncement};
pub use authority::CommandTrust;
pub use control::{ControlParameters, ControlResponse};
pub use datasets::{
    ChannelStatus, CsStatus, FaceEvent, FaceQueryFilter, FaceStatus, FibEntry, GeneralStatus,
    NextHopRecord, RibEntry, RibRoute, StrategyChoice,
};
pub use face_uri::{Carrier, FaceUri, FaceUriError, UriAuthority, UriHost};
pub use host::{CommandRefusal, FaceInfo, ManagementHost, Persistency};
pub use management::{Management, ManagementConfig};
pub use record::{CodecError, Entry, read_entries};
pub use repo::{
    NamedPrefix, ProcessId, RepoFailure, RepoHost, RepoHostError, RepoNotice, RepoParameters,
    RepoProtocol, RepoRefusal, RepoReport, RepoResponse, RepoSettings, RepoVerb,
};
pub use request::CommandScope;
pub use rib::{RegisteredRoute, Rib, RibError};
