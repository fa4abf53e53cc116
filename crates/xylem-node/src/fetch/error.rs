//! [`FetchError`]: why a fetch ends early.

use std::fmt::Display;
use std::time::Duration;

use xylem_base::{Blame, Failure};
use xylem_object::ManifestError;
use xylem_object::naming::PrefixError;
use xylem_peers::PeerRefusal;
use xylem_peers::reachable::{FaceAddress, HostLookupError};
use xylem_transfer::{AddError, FailReason, Misbehaviour};
use xylem_tree::consistency::ConsistencyError;
use xylem_witness::QuestionError;

use super::waiting::TriedPeer;
use crate::follow::EvidenceKept;
use crate::peers::HostError;
use xylem_engine::EngineError;

/// Why a fetch ends early. All verified content is kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The ticket names no peer, and none was given.
    #[error("the ticket names no address; give --from ADDR")]
    NoAddress,
    /// The ticket names hosts, and none of them resolves.
    #[error(transparent)]
    NoSuchHost(HostLookupError),
    /// No public sharer was found.
    #[error("{why} (searched for {} s)", .after.as_secs_f64())]
    NotPublic {
        /// Duration of the search.
        after: Duration,
        /// Reason, as far as is known.
        why: NotPublic,
    },
    /// The publication's name is unknown, and forwarders can be asked only by name.
    #[error(
        "the ticket holds no name, and NDN forwarders are asked by name; ask for a ticket made by `xylem share` \
         with --via, --plain or --as"
    )]
    NoName,
    /// The publication has a SHA-256 tree. The store can only re-hash and serve BLAKE3 trees.
    #[error(
        "it was published with a SHA-256 tree: only `xylem get` without --seed can fetch that, and only a single \
         unencrypted file"
    )]
    OtherTree,
    /// No peer answers.
    #[error(
        "no peer answered in {} s: {}; is the share still running there, and can this machine reach its UDP \
         port?", after.as_secs_f64(), joined(tried.iter(), ", ")
    )]
    Unreachable {
        /// Duration of the attempts.
        after: Duration,
        /// Each peer, with the reason as far as is known.
        tried: Vec<TriedPeer>,
    },
    /// The relays answer, and report the sharer absent.
    #[error(
        "the sharer is not connected to {}: it is off, asleep or offline; run the same command when it is \
         back, or `xylem get --wait`, which keeps trying{}", joined(relays.iter().map(FaceAddress::for_people), ", "),
        behind(" (it does not answer directly either: ", &joined(others.iter(), ", "))
    )]
    Away {
        /// These relays.
        relays: Vec<FaceAddress>,
        /// Other addresses that were tried, with reasons as far as is known; empty: none.
        others: Vec<TriedPeer>,
    },
    /// The peers that had it are gone and have not come back.
    #[error(
        "the connection to the sharer was lost after {done} bytes of this run{}; what was verified is kept: run \
         the same command to continue", behind(" (", .why)
    )]
    Lost {
        /// Bytes verified in this run.
        done: u64,
        /// Failures, each with its peer; empty: none is known.
        why: String,
    },
    /// The peers that answer do not have it, or have it no longer.
    #[error("{}; ask for a new ticket", joined(.0.iter(), "; "))]
    Gone(Vec<PeerRefusal>),
    /// No reachable peer has it.
    #[error("{reason}{warnings}{}", if *.fetched { "; what was verified is kept" } else { "" })]
    Failed {
        /// Why the transfer gave up.
        reason: FailReason,
        /// Failures, each with its peer, in parentheses; empty: none.
        warnings: String,
        /// Whether anything was verified in this run.
        fetched: bool,
    },
    /// The fetch was asked to stop.
    #[error("interrupted; what was verified is kept: run the same command to continue")]
    Interrupted,
    /// Failures of serving, if serving was requested.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Failures of sockets.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The system gives no random numbers.
    #[error(transparent)]
    Randomness(#[from] xylem_base::NoRandomness),
    /// A key of the store cannot be read or made.
    #[error(transparent)]
    Key(#[from] xylem_keys::KeyFileError),
    /// The result cannot be written.
    #[error(transparent)]
    Save(#[from] xylem_sink::SaveError),
    /// The store fails.
    #[error("{}", xylem_base::advised(.0))]
    Store(#[from] xylem_store::StoreError),
    /// A manifest that was received or kept is not what was to be fetched.
    #[error("{0}")]
    Manifest(Misbehaviour),
    /// A manifest cannot be read as a version of its object.
    #[error("{0}")]
    Version(ManifestError),
    /// No version can have this name, or nothing can be asked by it.
    #[error("{0}")]
    Name(PrefixError),
    /// Nothing can be asked about newer versions.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// What peers send of an object cannot be taken.
    #[error("{0}")]
    Object(AddError),
    /// The publisher has signed two histories.
    #[error(
        "the publisher has signed another history: checkpoint v={newer} does not begin with v={named}, which the ticket \
         names ({why}){evidence}"
    )]
    OtherHistory {
        /// The newer checkpoint.
        newer: u64,
        /// The one that the ticket names.
        named: u64,
        /// Why the one does not begin with the other.
        why: ConsistencyError,
        /// Whether evidence was kept.
        evidence: EvidenceKept,
    },
    /// The relation of two versions was asked for, and the answers do not prove it.
    #[error("the peers' answers do not prove how the two versions relate")]
    Unproven,
}

fn joined(all: impl Iterator<Item = impl Display>, between: &str) -> String {
    all.map(|one| one.to_string()).collect::<Vec<_>>().join(between)
}

/// Further known facts in parentheses, if there are any.
fn behind(begins: &str, known: &str) -> String {
    if known.is_empty() { String::new() } else { format!("{begins}{known})") }
}

/// Why no public sharer was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPublic {
    /// No node of the DHT answers.
    #[error(
        "no node of the DHT answered: this network may block UDP, or the nodes of --dht-bootstrap are down"
    )]
    Silence,
    /// The DHT's nodes list no sharer.
    #[error("the DHT lists no sharer of this: a sharer has to run `xylem share --public`")]
    Unlisted,
    /// The DHT lists addresses at which no peer answers.
    #[error(
        "the DHT lists {0} for this, and no sharer answered there: they are off, no longer run `xylem share \
         --public`, or are behind NATs that block incoming traffic"
    )]
    Unreached(AddressCount),
}

/// A number of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressCount(pub usize);

impl std::fmt::Display for AddressCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let s = if self.0 == 1 { "" } else { "es" };
        write!(f, "{} address{s}", self.0)
    }
}

impl Failure for FetchError {
    fn blame(&self) -> Blame {
        match self {
            Self::NoAddress | Self::NoName | Self::OtherTree => Blame::Usage,
            Self::NoSuchHost(_) | Self::NotPublic { .. } => Blame::Network,
            Self::Unreachable { .. }
            | Self::Away { .. }
            | Self::Lost { .. }
            | Self::Gone(_)
            | Self::Failed { .. } => Blame::Network,
            Self::Interrupted => Blame::Interrupted,
            Self::Host(e) => e.blame(),
            Self::Engine(e) => e.blame(),
            Self::Randomness(e) => e.blame(),
            Self::Key(e) => e.blame(),
            Self::Save(e) => e.blame(),
            Self::Store(e) => xylem_base::blame_of(e),
            Self::Manifest(_) | Self::Version(_) | Self::OtherHistory { .. } => Blame::Data,
            Self::Name(_) => Blame::Usage,
            Self::Question(e) => e.blame(),
            Self::Object(_) | Self::Unproven => Blame::Network,
        }
    }
}
