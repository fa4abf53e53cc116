//! Settings, counters and errors of a link service.

use core::time::Duration;

use crate::{DecodeError, MAX_FRAME};

/// The smallest MTU: a smaller setting counts as this one, as a link with less cannot carry NDN packets. NFD refuses
/// such settings too.
pub const MIN_MTU: usize = 64;

/// Settings of one face's link service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkServiceConfig {
    /// Longest outgoing frame, in bytes. For streams leave it at [`MAX_FRAME`].
    pub mtu: usize,
    /// Whether longer packets are fragmented. Incoming fragments are always reassembled.
    pub fragmentation: bool,
    /// Whether frames are numbered, acknowledged and retransmitted. Both ends of a point-to-point link must turn it on.
    /// It has no meaning on a link with more than two ends.
    pub reliability: bool,
    /// Whether NextHopFaceId and IncomingFaceId are read and written. Only for links between an application and its
    /// forwarder.
    pub local_fields: bool,
    /// Whether packets are marked as congested while the socket's queue is long.
    pub congestion_marking: bool,
    /// Sequence number of the first fragment sent. A random one keeps the numbers of a restarted sender apart from
    /// those that its peer remembers.
    pub first_sequence: u64,

    /// Most fragments of one packet, in either direction; at most 512 are accepted.
    pub max_fragments: u16,
    /// Most incomplete packets at a time. Each holds at most [`crate::MAX_PACKET`] bytes.
    pub max_partial_packets: usize,
    /// Time after its last fragment at which an incomplete packet is given up. With reliability it is longer: as long
    /// as a retransmission may be under way.
    pub reassembly_timeout: Duration,

    /// Retransmissions of one frame before its packet is given up.
    pub max_retransmissions: u8,
    /// Most frames with outstanding acknowledgements. Frames that are acknowledged but younger than the oldest
    /// outstanding one count too. Beyond this limit packets are sent unnumbered.
    pub max_unacknowledged: usize,
    /// Most bytes of those frames.
    pub max_unacknowledged_bytes: usize,
    /// Most acknowledgements that wait to be sent; beyond it the oldest are dropped.
    pub max_waiting_acks: usize,
    /// Time for which an acknowledgement waits for a packet that can carry it.
    pub ack_delay: Duration,

    /// Queued bytes above which packets are marked as congested.
    pub congestion_threshold: usize,
    /// Time between the first two marks of a congestion; later marks follow faster.
    pub congestion_interval: Duration,
}

impl Default for LinkServiceConfig {
    /// The settings for a stream or another link that carries any packet whole: only marking is on.
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

/// Counters of one link service. Frames are what the socket carries; packets are Interests, Data and Nacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkServiceCounters {
    /// Frames received, refused ones included.
    pub in_frames: u64,
    /// Bytes of frames received.
    pub in_bytes: u64,
    /// Frames refused.
    pub in_refused: u64,
    /// Frames sent, retransmissions and idle packets included.
    pub out_frames: u64,
    /// Bytes of frames sent.
    pub out_bytes: u64,
    /// Packets reassembled from fragments.
    pub reassembled: u64,
    /// Incomplete packets given up, by age or to make room for younger ones.
    pub reassembly_lost: u64,
    /// Packets sent as fragments.
    pub fragmented: u64,
    /// Packets refused because they do not fit the link.
    pub out_refused: u64,
    /// Packets that this service marked as congested.
    pub congestion_marked: u64,
    /// Frames acknowledged by the other side.
    pub acknowledged: u64,
    /// Frames retransmitted.
    pub retransmitted: u64,
    /// Packets given up after the last retransmission.
    pub lost: u64,
    /// Frames that had been received before.
    pub duplicates: u64,
    /// Packets sent without reliability because too many frames were outstanding.
    pub unprotected: u64,
}

/// Why a frame is refused, or a packet not sent. The face can continue. Its owner decides whether a peer that sends
/// such frames keeps its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkServiceError {
    /// The frame's link headers are malformed.
    #[error("link headers: {0}")]
    Decode(#[from] DecodeError),
    /// A frame, or its content, does not begin as an Interest or a Data.
    #[error("neither an Interest nor a Data")]
    NotAPacket,
    /// A header field that has no meaning with this kind of packet (NDNLPv2, each field's section).
    #[error("link header {field} does not belong to this kind of packet")]
    Misplaced {
        /// Its TLV-TYPE.
        field: u32,
    },
    /// NextHopFaceId from a face that may not choose next hops.
    #[error("NextHopFaceId is allowed only from local applications")]
    LocalField,
    /// FragIndex is not below FragCount.
    #[error("fragment {index} does not exist in a packet of {count} fragments")]
    FragmentIndex {
        /// FragIndex.
        index: u64,
        /// FragCount.
        count: u64,
    },
    /// FragCount above [`LinkServiceConfig::max_fragments`].
    #[error("a packet in {0} fragments, more than allowed")]
    TooManyFragments(u64),
    /// A fragment without a Sequence.
    #[error("a fragment has no sequence number")]
    SequenceMissing,
    /// Two fragments of one packet disagree on their number, or have the same index and differ.
    #[error("a fragment contradicts an earlier one")]
    FragmentConflict,
    /// The fragments of a packet have more than [`crate::MAX_PACKET`] bytes in total.
    #[error("the fragments' packet is longer than allowed")]
    TooLong,
    /// A packet does not fit into frames of this link.
    #[error("a packet of {len} bytes does not fit into the link's frames")]
    OverMtu {
        /// Its length in bytes.
        len: usize,
    },
}
