//! An entry of the pending Interest table, with its records of downstream and upstream faces.

use xylem_packet::{MAX_PIT_TOKEN, NackReason};

use crate::names::StoredName;
use crate::slab::NONE;
use crate::wheel::Timer;

/// Length up to which a PIT token lies in the record itself, in octets.
pub(super) const SHORT_TOKEN: usize = 8;

/// A neighbour's PIT token; empty if it sent none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StoredPitToken {
    pub(super) len: u8,
    /// The token or, if it is longer, the number of its first piece.
    pub(super) octets: [u8; SHORT_TOKEN],
}

/// Buffer for an outgoing token.
pub(crate) struct TokenBuffer(pub(super) [u8; MAX_PIT_TOKEN]);

impl TokenBuffer {
    pub(crate) const fn new() -> Self {
        TokenBuffer([0; MAX_PIT_TOKEN])
    }
}

/// Record of a face that sent the Interest (NFD's in-record).
#[derive(Debug, Clone, Copy, Default)]
pub struct InRecord {
    pub(crate) face: u32,
    pub(crate) nonce: [u8; 4],
    /// In microseconds.
    pub(crate) expires: u64,
    /// The entry that the record belongs to.
    pub(super) entry: u32,
    /// The previous and next record of the same face.
    pub(super) before: u32,
    pub(super) after: u32,
    pub(super) token: StoredPitToken,
}

impl InRecord {
    /// Replaces the record when the face asks again. It keeps its place among the face's records. Returns the old
    /// token, which has to be released.
    pub(super) fn renew(&mut self, new: InRecord) -> StoredPitToken {
        let InRecord { before, after, token, .. } = *self;
        *self = InRecord { before, after, ..new };
        token
    }
}

/// Record of a face that the Interest was sent to (NFD's out-record).
#[derive(Debug, Clone, Copy, Default)]
pub struct OutRecord {
    pub(crate) face: u32,
    pub(crate) nonce: [u8; 4],
    /// In microseconds.
    pub(crate) sent: u64,
    /// Milliseconds within which the same Interest is not sent again.
    pub(crate) suppression: u16,
    refused: UpstreamStatus,
}

impl OutRecord {
    pub(crate) fn new(face: u32, nonce: [u8; 4], sent: u64, suppression: u16) -> Self {
        OutRecord { face, nonce, sent, suppression, refused: UpstreamStatus::None }
    }

    /// Whether an answer or a Nack has arrived.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused != UpstreamStatus::None
    }

    pub(crate) fn refuse(&mut self, reason: NackReason) {
        self.refused = match reason {
            NackReason::CONGESTION => UpstreamStatus::Congestion,
            NackReason::DUPLICATE => UpstreamStatus::Duplicate,
            NackReason::NO_ROUTE => UpstreamStatus::NoRoute,
            _ => UpstreamStatus::Other,
        };
    }

    pub(crate) fn answer(&mut self) {
        self.refused = UpstreamStatus::Answered;
    }

    pub(crate) fn refusal(&self) -> UpstreamStatus {
        self.refused
    }
}

/// The reason of a received Nack, from mild to severe. Unknown reasons are severe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum UpstreamStatus {
    #[default]
    None,
    Congestion,
    Duplicate,
    NoRoute,
    Other,
    /// Answered with Data, not with a Nack. The entry lives on for the other faces that were asked.
    Answered,
}

impl UpstreamStatus {
    pub(crate) fn reason(self) -> NackReason {
        match self {
            UpstreamStatus::Congestion => NackReason::CONGESTION,
            UpstreamStatus::Duplicate => NackReason::DUPLICATE,
            UpstreamStatus::NoRoute => NackReason::NO_ROUTE,
            UpstreamStatus::None | UpstreamStatus::Other | UpstreamStatus::Answered => {
                NackReason::NONE
            }
        }
    }
}

/// A pending Interest.
#[derive(Debug, Default)]
pub struct PitEntry {
    pub(super) name: StoredName,
    pub(super) components: u16,
    pub(super) can_be_prefix: bool,
    pub(super) must_be_fresh: bool,
    pub(super) by_digest: bool,
    pub(super) has_in: bool,
    pub(super) has_out: bool,
    pub(super) first_in: InRecord,
    pub(super) more_in: MoreRecords,
    pub(super) first_out: OutRecord,
    pub(super) more_out: MoreRecords,
    pub(super) timer: Timer,
    /// The key under which the ASF and access strategies measure; 0: not measured.
    pub(crate) measured_as: u32,
    pub(crate) learning: SelfLearningState,
}

/// State of the self-learning strategy that is needed when an answer arrives.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SelfLearningState {
    /// The strategy chose the next hops.
    pub(crate) chosen: bool,
    /// The Interest went to all faces, because there was no route.
    pub(crate) searched: bool,
    /// A neighbour searches, and this forwarder has a route.
    pub(crate) wanted: bool,
}

/// The first of the further records.
#[derive(Debug)]
pub(super) struct MoreRecords(pub(super) u32);

impl Default for MoreRecords {
    fn default() -> Self {
        MoreRecords(NONE)
    }
}

impl StoredPitToken {
    pub(super) fn first_piece(&self) -> u32 {
        let [a, b, c, d, ..] = self.octets;
        u32::from_le_bytes([a, b, c, d])
    }
}
