//! Entry points [`share`], [`get`], [`verify`], [`scrub()`] and [`run_node`]. They add sockets, a clock and threads to
//! the sans-io crates, so that a program publishes, fetches or forwards with one call.
//!
//! Content comes from the file system (`xylem-publish`) and leaves through an encrypted link or any kind of NDN socket
//! (`xylem-sockets`); fetched content goes the opposite way (`xylem-sink`). This crate never prints and never exits. It reports
//! [`Event`]s and returns one error type per verb. Each error names the party that has to act
//! ([`xylem_base::Failure`]); a caller maps that to an exit code.

mod event;

mod addresses;
mod changes;
mod dht_trial;
mod dial;
mod meeting;
mod reaching;
mod relay_key;
mod relay_list;
mod shaping;
mod ticket_meeting;
mod volunteers;

mod peers;

pub mod code;
pub mod mail;

mod discovery;
mod fetch;
mod follow;
mod get;
mod look;
mod look_up;
mod node;
mod remote;
mod scrub;
mod share;
mod verify;
mod waking;

pub use changes::at_changes;
pub use dht_trial::{DhtStep, DhtTrialError, Itself, SeenPorts, try_dht};
pub use discovery::{
    AnnounceOptions, DhtStart, PublicOptions, PublicSharer, PublicTarget, VolunteerUse, find_public,
};
pub use event::{Event, FetchReport, GetterReport, GetterState, ReachStatus, RepositoryChange};
pub use fetch::{AddressCount, Fetch, FetchError, FetchNext, FetchView, NotPublic, TriedPeer};
pub use follow::{
    Asked, EvidenceKept, FollowError, NotContinued, VerifiedBefore, VersionDialer, follow, newest,
};
pub use get::{GetError, GetOptions, ServeOptions, get};
pub use look::{list, look};
pub use node::{
    AnchorFlaw, ClientListError, MULTICAST_GROUP, MULTICAST_GROUP_V6, NodeConfig, NodeError,
    NodeRole, NodeRoute, RelayAnswer, RelayControl, RelayOptions, RelayOrder, RepoOptions,
    run_node,
};
pub use peers::HostError;
pub use reaching::{news, to_dial};
pub use relay_key::{KeyQuestionError, key_of_relay};
pub use relay_list::{OLD_LIST, RelayList, RelayListError};
pub use scrub::{RepairOptions, scrub};
pub use shaping::LinkOptions;
pub use share::{
    BY_DHT, OneShare, ServiceHandle, ServiceSnapshot, ShareError, ShareOptions, serve, serve_group,
    share,
};
pub use verify::{VerifyMemoryOptions, VerifyOptions, verify, verify_memory};
pub use xylem_app::RegisterError;
pub use xylem_engine::{
    EngineError, bind_links, look_up_place, offered, resolve, routed, wall_clock,
};
pub use xylem_folder::{MeshNews, MeshStart};
pub use xylem_forward::ForwardingStrategy;
pub use xylem_link::{Level as ShapeLevel, PostQuantum, Shaping};
pub use xylem_mgmt::Carrier;
pub use xylem_peers::admission::Prove;
pub use xylem_peers::list_file::ListFileError;
pub use xylem_peers::reachable::{
    FaceAddress, HostLookupError, HostPortError, LINK_PORT, LinkKeyError, NDN_PORT, NamedRelay,
    NotDiallable, PeerAddress, PeerUri, PeerUriError, PeerWay, Relay, RelayUriError, ResolveError,
    ServerNameError, WEB_SOCKET_PORT, WayTaken,
};
pub use xylem_peers::relay_list::{ListedRelays, RelayLineError};
pub use xylem_reach::kind::{NatKind, ReachWay};
pub use xylem_reach::relay::RelayCounters as RelayMetrics;
pub use xylem_reach::relay::{
    AllowedClients, MAX_BANS, MAX_CIRCUITS, MAX_TOKENS, RelayBan, RelayLoad, TeamTokenError,
};
pub use xylem_sink::{GetSummary, PeerBytes};
pub use xylem_sockets::SitePage;
