//! Configuration of a transfer, its events and statistics, and its errors.

use core::fmt;
use core::time::Duration;

use bytes::Bytes;
use xylem_congestion::CongestionAlgorithm;
use xylem_hash::Hash;
use xylem_object::packets::PacketError;
use xylem_object::{Manifest, ManifestError, ObjectId, PublisherId};
use xylem_packet::Name;
use xylem_tree::{Node, NodeValue, ProofError, Segment, Verified};

/// Identifies one peer. The caller chooses the number and never uses it again for another peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}", self.0)
    }
}

/// The publication to fetch, as a ticket states it.
#[derive(Clone, Debug)]
pub struct TransferSpec {
    /// The versioned prefix P; the manifest is `P/_root`.
    pub prefix: Name,
    /// The publisher that has to have signed the manifest.
    pub publisher: PublisherId,
    /// The root that the manifest has to state, if it is known beforehand.
    pub root: Option<Hash>,
    /// The size in bytes that the manifest has to state, if it is known beforehand.
    pub size: Option<u64>,
}

/// Limits of one transfer. [`TransferConfig::default`] suits everything from loopback to satellites.
#[derive(Clone, Debug)]
pub struct TransferConfig {
    /// Without verified progress for this long the transfer fails. Time spent paused does not count.
    pub give_up: Duration,
    /// Proven misbehaviours after which a peer is dropped.
    pub max_misbehaviour: u32,
    /// Maximum number of peers; further ones are refused.
    pub max_peers: usize,
    /// How the rate of each peer is found. `None`: by BBR, and by CUBIC from the first answer that arrives within 5 ms,
    /// as on loopback and within one building.
    pub congestion: Option<CongestionAlgorithm>,
    /// Maximum number of unanswered Interests per peer, whatever its window in bytes allows.
    pub max_window: u32,
    /// Maximum number of objects under way at once.
    pub max_objects: usize,
    /// Maximum number of segments from the first to the last wanted of one object. Each takes two bits.
    pub max_segments: u64,
    /// Maximum number of items kept that arrived before the tree nodes that prove them.
    pub max_held: usize,
}

impl Default for TransferConfig {
    fn default() -> Self {
        Self {
            give_up: Duration::from_secs(30),
            max_misbehaviour: 3,
            max_peers: 64,
            congestion: None,
            max_window: 8_192,
            max_objects: 65_536,
            max_segments: 1 << 31,
            max_held: 2_048,
        }
    }
}

/// An event of a transfer, in the order in which events happen.
#[derive(Debug)]
pub enum TransferEvent {
    /// The manifest arrived with a valid signature of the publisher. Next: [`Transfer::add_object`].
    ///
    /// [`Transfer::add_object`]: crate::Transfer::add_object
    Manifest {
        /// The manifest's contents.
        manifest: Manifest,
        /// The Data packet, to keep and to serve again.
        packet: Bytes,
    },
    /// A segment arrived and is proven. Its content is a slice of the packet.
    Segment {
        /// The object that it belongs to.
        object: ObjectId,
        /// Its position and its bytes.
        segment: Verified<Segment<Bytes>>,
    },
    /// Tree nodes of an object that were proven since the last such event of that object. Each node is reported once.
    Nodes {
        /// The object that they belong to.
        object: ObjectId,
        /// Positions and values.
        nodes: Verified<Vec<(Node, NodeValue)>>,
    },
    /// Everything that was wanted of an object is reported. The transfer has forgotten the object.
    ObjectComplete(ObjectId),
    /// A peer sent something that no honest peer sends.
    PeerMisbehaved {
        /// The peer.
        peer: PeerId,
        /// The misbehaviour.
        what: Misbehaviour,
    },
    /// A peer misbehaved too often and is not asked again.
    PeerDropped {
        /// The peer.
        peer: PeerId,
    },
    /// The transfer ended without success. Everything verified before is reported.
    Failed(FailReason),
}

/// An answer to a request that no honest peer gives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misbehaviour {
    /// The packet is not a well-formed Data.
    #[error("sent a packet that cannot be decoded")]
    Undecodable,
    /// Content, length or proof do not fit the root.
    #[error("sent data that does not belong to the object: {0}")]
    NotProven(ProofError),
    /// The packet's fields contradict the manifest.
    #[error("sent data that contradicts the manifest: {0}")]
    Packet(#[from] PacketError),
    /// The manifest is not signed by the publisher.
    #[error("sent a bad manifest: {0}")]
    Manifest(#[from] ManifestError),
    /// The manifest is the publisher's, but its root or size is not the ticket's.
    #[error("sent a manifest of other content than the ticket names")]
    OtherManifest,
}

/// Why a transfer ended without success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FailReason {
    /// No peer that answered has the publication, or there was no peer to ask.
    #[error("no reachable peer has it ({peers} asked)")]
    NobodyHasIt {
        /// Peers known at the end.
        peers: usize,
    },
    /// Every peer was dropped for misbehaviour.
    #[error("all {peers} peers misbehaved; the last one {last}")]
    AllPeersMisbehaved {
        /// The number of peers.
        peers: usize,
        /// The last misbehaviour.
        last: Misbehaviour,
    },
    /// No verified progress for as long as [`TransferConfig::give_up`] allows.
    #[error("no progress for {} s", after.as_secs_f64())]
    TimedOut {
        /// The limit.
        after: Duration,
    },
}

/// Why an object was not added. The transfer is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// [`TransferConfig::max_objects`] objects are under way.
    #[error("{0} objects are being fetched already, which is the limit")]
    TooMany(usize),
    /// The object is under way already.
    #[error("the object is being fetched already")]
    AlreadyThere,
    /// The wanted segments span more than [`TransferConfig::max_segments`].
    #[error("{segments} segments at once are more than the limit of {limit}")]
    TooLarge {
        /// Number of segments from the first wanted to the last.
        segments: u64,
        /// The limit.
        limit: u64,
    },
    /// The given verifier has another root or size.
    #[error("the verifier belongs to another object")]
    OtherVerifier,
    /// The transfer has ended.
    #[error("the transfer has ended")]
    Over,
}

/// A link's counts of the peer's packets, since the link was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathReport {
    /// Bytes received, in whole packets and in fragments.
    pub brought: u64,
    /// Datagrams that have not arrived although later ones have. One that arrives late is subtracted again.
    pub missing: u64,
}

/// Counts of a transfer's progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferProgress {
    /// Segments wanted of all objects added so far, without those that were there already.
    pub wanted_segments: u64,
    /// How many of `wanted_segments` are verified.
    pub verified_segments: u64,
    /// Bytes of content in `wanted_segments`. Each segment of an object opened with `Transfer::open_object` counts as
    /// full.
    pub wanted_bytes: u64,
    /// Bytes of content in `verified_segments`.
    pub verified_bytes: u64,
    /// Objects under way.
    pub objects: usize,
    /// Interests sent.
    pub interests: u64,
    /// Interests that counted as lost.
    pub lost: u64,
    /// Data received for items that were here already.
    pub duplicates: u64,
    /// Data received that the peer was not asked for.
    pub unasked: u64,
    /// Segments dropped because too many items waited for their tree nodes.
    pub held_over: u64,
}

/// Whether and how a peer is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerStatus {
    /// It is asked normally.
    Active,
    /// It is silent or refuses. It is asked now and then.
    Stalled,
    /// It misbehaved too often and is not asked again.
    Dropped,
}

/// Statistics of one peer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeerStats {
    /// The peer.
    pub peer: PeerId,
    /// Whether and how it is asked.
    pub standing: PeerStatus,
    /// Smoothed round trip, once known.
    pub round_trip: Option<Duration>,
    /// Bytes that unanswered Interests may call for now.
    pub window: u64,
    /// Bytes that unanswered Interests call for now.
    pub in_flight: u64,
    /// Bytes of content verified from it.
    pub bytes: u64,
    /// Interests sent to it.
    pub interests: u64,
    /// Interests to it that counted as lost.
    pub lost: u64,
    /// Interests that it refused.
    pub refused: u64,
    /// Proven misbehaviours.
    pub misbehaviour: u32,
}
