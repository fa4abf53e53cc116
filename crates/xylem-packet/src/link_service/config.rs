//! What a link service may be told, what it counts, and what can be wrong with a frame.

use core::time::Duration;

use crate::{DecodeError, MAX_FRAME};

/// A link that cannot carry so many bytes carries no NDN; a smaller MTU counts as this one. NFD
/// refuses such settings too.
pub const MIN_MTU: usize = 64;

/// Settings of one face's link service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkServiceConfig {
    /// Longest frame that goes out, in bytes. Streams: leave it at [`MAX_FRAME`].
    pub mtu: usize,
    /// Cut packets that are longer. Fragments that come in are always put together.
    pub fragmentation: bool,
    /// Number, acknowledge and repeat frames. Both sides of a point-to-point link turn it on; it
    /// has no meaning on a link with more than two ends.
    pub reliability: bool,
    /// Read NextHopFaceId and IncomingFaceId, and write them: between an application and its
    /// forwarder only.
    pub local_fields: bool,
    /// Mark packets while the socket's queue is long.
    pub congestion_marking: bool,
    /// Number of the first fragment sent. A random one keeps what a restarted sender numbers apart
    /// from what its peer remembers.
    pub first_sequence: u64,

    /// Most fragments of one packet, in either direction; at most 512 come in.
    pub max_fragments: u16,
    /// Packets that may be incomplete at a time. Each holds at most [`crate::MAX_PACKET`] bytes.
    pub max_partial_packets: usize,
    /// How long after its last fragment an incomplete packet is given up; longer with reliability,
    /// as long as a repetition may be under way.
    pub reassembly_timeout: Duration,

    /// How often one frame is repeated before its packet is given up.
    pub max_retransmissions: u8,
    /// Frames whose acknowledgements may be outstanding, those since acknowledged but younger than
    /// the oldest outstanding one included. Beyond it packets go out unnumbered.
    pub max_unacknowledged: usize,
    /// Bytes of those frames.
    pub max_unacknowledged_bytes: usize,
    /// Acknowledgements that may wait to be sent; the oldest are dropped beyond it.
    pub max_waiting_acks: usize,
    /// How long an acknowledgement waits for a packet to travel with.
    pub ack_delay: Duration,

    /// Queued bytes above which packets are marked.
    pub congestion_threshold: usize,
    /// Time between the first two marks of a congestion; the others follow faster.
    pub congestion_interval: Duration,
}

impl Default for LinkServiceConfig {
    /// A stream or another link that carries any packet whole: nothing but marking is on.
    fn default() -> Self {
        LinkServiceConfig {
            mtu: MAX_FRAME,
            fragmentation: false,
            reliability: false,
            local_fields: false,
            congestion_marking: true,
            first_sequence: 0,
            max_fragments: 400,
            max_partial_packets: 64,
            reassembly_timeout: Duration::from_millis(500),
            max_retransmissions: 3,
            max_unacknowledged: 2048,
            max_unacknowledged_bytes: 4 << 20,
            max_waiting_acks: 1024,
            ack_delay: Duration::from_millis(5),
            congestion_threshold: 65536,
            congestion_interval: Duration::from_millis(100),
        }
    }
}

/// What one link service has seen. Frames are what the socket carries; packets are Interests, Data
/// and Nacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkServiceCounters {
    /// Frames that came in, those that were refused included.
    pub in_frames: u64,
    /// Their bytes.
    pub in_bytes: u64,
    /// Frames refused.
    pub in_refused: u64,
    /// Frames sent, repetitions and idle ones included.
    pub out_frames: u64,
    /// Their bytes.
    pub out_bytes: u64,
    /// Packets put together from fragments.
    pub reassembled: u64,
    /// Incomplete packets given up: too old, or in the way of younger ones.
    pub reassembly_lost: u64,
    /// Packets sent in fragments.
    pub fragmented: u64,
    /// Packets refused because they do not fit the link.
    pub out_refused: u64,
    /// Packets that this service marked.
    pub congestion_marked: u64,
    /// Frames acknowledged by the other side.
    pub acknowledged: u64,
    /// Frames repeated.
    pub retransmitted: u64,
    /// Packets given up after the last repetition.
    pub lost: u64,
    /// Frames that had arrived before.
    pub duplicates: u64,
    /// Packets sent without reliability because too much was outstanding.
    pub unprotected: u64,
}

/// Why a frame is refused, or a packet not sent. The face may go on; whether a peer that sends such
/// frames keeps its link is the owner's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkServiceError {
    /// The frame's link headers are malformed.
    #[error("link headers: {0}")]
    Decode(#[from] DecodeError),
    /// A frame, or what is in it, begins neither like an Interest nor like a Data.
    #[error("neither an Interest nor a Data")]
    NotAPacket,
    /// A header field that has no meaning with this kind of packet (NDNLPv2, each field's section).
    #[error("link header {field} does not belong to this kind of packet")]
    Misplaced {
        /// Its TLV-TYPE.
        field: u32,
    },
    /// NextHopFaceId from a face whose owner may not choose next hops.
    #[error("NextHopFaceId where local fields are not allowed")]
    LocalField,
    /// FragIndex is not below FragCount.
    #[error("fragment {index} of {count}")]
    FragmentIndex {
        /// FragIndex.
        index: u64,
        /// FragCount.
        count: u64,
    },
    /// FragCount above [`LinkServiceConfig::max_fragments`].
    #[error("a packet in {0} fragments")]
    TooManyFragments(u64),
    /// A fragment without a Sequence.
    #[error("a fragment without a sequence number")]
    SequenceMissing,
    /// Two fragments of one packet disagree on how many there are, or are the same one and differ.
    #[error("a fragment contradicts an earlier one")]
    FragmentConflict,
    /// The fragments of a packet come to more than [`crate::MAX_PACKET`] bytes.
    #[error("fragments of a packet that is longer than allowed")]
    TooLong,
    /// A packet to send does not fit into frames of this link.
    #[error("a packet of {len} bytes does not fit the link")]
    OverMtu {
        /// Its length in bytes.
        len: usize,
    },
}
