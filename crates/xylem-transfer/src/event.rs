//! What a transfer is told at the start, what it reports, and how it ends.

use core::fmt;
use core::time::Duration;

use bytes::Bytes;
use xylem_congestion::Algorithm;
use xylem_hash::Hash;
use xylem_object::packets::PacketError;
use xylem_object::{Manifest, ManifestError, ObjectId, PublisherId};
use xylem_packet::Name;
use xylem_tree::{Node, NodeValue, Segment, Verified, VerifyError};

/// One peer, by a number that the caller gives out and never gives out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}", self.0)
    }
}

/// What is to be fetched: what a ticket says.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The versioned prefix P; the manifest is `P/_root`.
    pub prefix: Name,
    /// Whose signature the manifest must carry.
    pub publisher: PublisherId,
    /// The root that the manifest must state, if it is known beforehand.
    pub root: Option<Hash>,
    /// The size that the manifest must state, if it is known beforehand.
    pub size: Option<u64>,
}

/// Limits of one transfer. [`Config::default`] suits everything from loopback to satellites.
#[derive(Clone, Debug)]
pub struct Config {
    /// Without verified progress for this long the transfer fails. Time spent paused does not count.
    pub give_up: Duration,
    /// Proven misbehaviours after which a peer is dropped.
    pub max_misbehaviour: u32,
    /// Peers at most; more are not taken.
    pub max_peers: usize,
    /// How the rate of each peer is found. `None`: by BBR, and by CUBIC once an answer has come within
    /// 5 ms, as on loopback and in one building.
    pub congestion: Option<Algorithm>,
    /// Interests that may be unanswered at most, per peer, whatever its window in bytes allows.
    pub max_window: u32,
    /// Objects that may be under way at once.
    pub max_objects: usize,
    /// Segments between the first and the last wanted of one object; takes two bits each.
    pub max_segments: u64,
    /// Segments kept that came before the tree nodes that they are proven by.
    pub max_held: usize,
}

impl Default for Config {
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

/// What a transfer reports, in the order in which it happened.
#[derive(Debug)]
pub enum TransferEvent {
    /// The manifest came and its signature is the publisher's. Next: [`Transfer::add_object`].
    ///
    /// [`Transfer::add_object`]: crate::Transfer::add_object
    Manifest {
        /// What it says.
        manifest: Manifest,
        /// The Data packet, to keep and to serve again.
        packet: Bytes,
    },
    /// A segment came and is proven. Its content is a slice of the packet.
    Segment {
        /// Of which object.
        object: ObjectId,
        /// Where it belongs, and its bytes.
        segment: Verified<Segment<Bytes>>,
    },
    /// Nodes of an object's tree that were proven since the last such event of it, each once.
    Nodes {
        /// Of which object.
        object: ObjectId,
        /// Positions and values.
        nodes: Verified<Vec<(Node, NodeValue)>>,
    },
    /// All that was wanted of an object has been reported; the transfer has forgotten the object.
    ObjectComplete(ObjectId),
    /// A peer sent something that no honest peer sends.
    PeerMisbehaved {
        /// Who.
        peer: PeerId,
        /// What.
        what: Misbehaviour,
    },
    /// A peer misbehaved too often and is not asked again.
    PeerDropped {
        /// Who.
        peer: PeerId,
    },
    /// The transfer is over, without success. What was verified until now has been reported.
    Failed(FailReason),
}

/// What a peer did that no honest peer does: always in answer to what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misbehaviour {
    /// The packet is not a well-formed Data.
    #[error("sent a packet that cannot be decoded")]
    Undecodable,
    /// Bytes, length or proof do not fit the root.
    #[error("sent what does not belong to the object: {0}")]
    NotProven(VerifyError),
    /// The packet says of itself what the manifest contradicts.
    #[error("sent what cannot be of the object: {0}")]
    Packet(#[from] PacketError),
    /// The manifest is not the publisher's.
    #[error("sent a bad manifest: {0}")]
    Manifest(#[from] ManifestError),
    /// The manifest is the publisher's, but not of the root and size that the ticket names.
    #[error("sent a manifest of something else than the ticket names")]
    OtherManifest,
}

/// Why a transfer ended without success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FailReason {
    /// Nobody who answered has it, or there was nobody to ask.
    #[error("nobody reachable has it ({peers} asked)")]
    NobodyHasIt {
        /// Peers known at the end.
        peers: usize,
    },
    /// Every peer was dropped for what it sent.
    #[error("all {peers} peers misbehaved; the last one {last}")]
    AllPeersMisbehaved {
        /// How many.
        peers: usize,
        /// What the last one did.
        last: Misbehaviour,
    },
    /// No verified progress for as long as [`Config::give_up`] allows.
    #[error("no progress for {} s", after.as_secs_f64())]
    TimedOut {
        /// The limit.
        after: Duration,
    },
}

/// Why an object was not added. The transfer is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// [`Config::max_objects`] are under way.
    #[error("{0} objects are under way already")]
    TooMany(usize),
    /// It is under way already.
    #[error("the object is under way already")]
    AlreadyThere,
    /// The wanted segments span more than [`Config::max_segments`].
    #[error("{segments} segments at once are more than the limit of {limit}")]
    TooLarge {
        /// From the first wanted to the last.
        segments: u64,
        /// The limit.
        limit: u64,
    },
    /// The verifier handed in is of another root or size.
    #[error("the verifier is of another object")]
    OtherVerifier,
    /// The transfer has failed.
    #[error("the transfer is over")]
    Over,
}

/// What the link of a peer counts of what the peer sends, since the link was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathReport {
    /// Bytes of packets and of pieces of packets that have come.
    pub brought: u64,
    /// Datagrams that have not come although later ones have: what is late comes off again.
    pub missing: u64,
}

/// How far a transfer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Segments of all objects added until now, without those that were there already.
    pub wanted_segments: u64,
    /// Of these, how many were verified.
    pub verified_segments: u64,
    /// Bytes of content in `wanted_segments`.
    pub wanted_bytes: u64,
    /// Bytes of content in `verified_segments`.
    pub verified_bytes: u64,
    /// Objects under way.
    pub objects: usize,
    /// Interests sent.
    pub interests: u64,
    /// Interests that counted as lost.
    pub lost: u64,
    /// Data that came a second time.
    pub duplicates: u64,
    /// Data that nobody asked that peer for.
    pub unasked: u64,
    /// Segments dropped because too many waited for their tree nodes.
    pub held_over: u64,
}

/// Where a peer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is asked.
    Active,
    /// It has fallen silent or refuses; it is asked now and then.
    Stalled,
    /// It misbehaved too often and is not asked again.
    Dropped,
}

/// One peer in numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeerStats {
    /// Which.
    pub peer: PeerId,
    /// Where it stands.
    pub standing: Standing,
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
    /// Of these, how many counted as lost.
    pub lost: u64,
    /// Of these, how many it refused.
    pub refused: u64,
    /// Proven misbehaviours.
    pub misbehaviour: u32,
}
