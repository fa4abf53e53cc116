//! What the pending Interest table holds: an entry, and its records of who asked and who was asked.

use xylem_packet::{MAX_PIT_TOKEN, NackReason};

use crate::names::StoredName;
use crate::slab::NONE;
use crate::wheel::Timer;

/// Octets of a PIT token that lie in the record itself.
pub(super) const SHORT_TOKEN: usize = 8;

/// A neighbour's PIT token; empty if it gave none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Token {
    pub(super) len: u8,
    /// The token, or the number of the piece where it begins.
    pub(super) octets: [u8; SHORT_TOKEN],
}

/// Room for a token on its way out.
pub(crate) struct TokenBuffer(pub(super) [u8; MAX_PIT_TOKEN]);

impl TokenBuffer {
    pub(crate) const fn new() -> Self {
        TokenBuffer([0; MAX_PIT_TOKEN])
    }
}

/// Who asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct InRecord {
    pub(crate) face: u32,
    pub(crate) nonce: [u8; 4],
    /// Microseconds.
    pub(crate) expires: u64,
    /// Where it lies, or of which it is a further one.
    pub(super) entry: u32,
    /// The face's records before and after it.
    pub(super) before: u32,
    pub(super) after: u32,
    pub(super) token: Token,
}

impl InRecord {
    /// Asked again: what the link said is the new, the place among the face's records the old. Gives the
    /// token that is not needed any more.
    pub(super) fn renew(&mut self, new: InRecord) -> Token {
        let InRecord { before, after, token, .. } = *self;
        *self = InRecord { before, after, ..new };
        token
    }
}

/// Whom it was asked of.
#[derive(Debug, Clone, Copy, Default)]
pub struct OutRecord {
    pub(crate) face: u32,
    pub(crate) nonce: [u8; 4],
    /// Microseconds.
    pub(crate) sent: u64,
    /// Milliseconds within which the same Interest is not sent again.
    pub(crate) suppression: u16,
    refused: Refusal,
}

impl OutRecord {
    pub(crate) fn new(face: u32, nonce: [u8; 4], sent: u64, suppression: u16) -> Self {
        OutRecord { face, nonce, sent, suppression, refused: Refusal::None }
    }

    /// Has an answer of any kind come?
    pub(crate) fn is_refused(&self) -> bool {
        self.refused != Refusal::None
    }

    pub(crate) fn refuse(&mut self, reason: NackReason) {
        self.refused = match reason {
            NackReason::CONGESTION => Refusal::Congestion,
            NackReason::DUPLICATE => Refusal::Duplicate,
            NackReason::NO_ROUTE => Refusal::NoRoute,
            _ => Refusal::Other,
        };
    }

    pub(crate) fn answer(&mut self) {
        self.refused = Refusal::Answered;
    }

    pub(crate) fn refusal(&self) -> Refusal {
        self.refused
    }
}

/// A Nack that came, from mild to severe; unknown reasons are severe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Refusal {
    #[default]
    None,
    Congestion,
    Duplicate,
    NoRoute,
    Other,
    /// Not a Nack but the Data: the entry lives on only for others who were asked.
    Answered,
}

impl Refusal {
    pub(crate) fn reason(self) -> NackReason {
        match self {
            Refusal::Congestion => NackReason::CONGESTION,
            Refusal::Duplicate => NackReason::DUPLICATE,
            Refusal::NoRoute => NackReason::NO_ROUTE,
            Refusal::None | Refusal::Other | Refusal::Answered => NackReason::NONE,
        }
    }
}

/// A pending Interest.
#[derive(Debug, Default)]
pub struct Entry {
    pub(super) name: StoredName,
    pub(super) components: u16,
    pub(super) can_be_prefix: bool,
    pub(super) must_be_fresh: bool,
    pub(super) by_digest: bool,
    pub(super) has_in: bool,
    pub(super) has_out: bool,
    pub(super) first_in: InRecord,
    pub(super) more_in: Rest,
    pub(super) first_out: OutRecord,
    pub(super) more_out: Rest,
    pub(super) timer: Timer,
    /// Under what the ASF strategy measures; 0: not at all.
    pub(crate) measured_as: u32,
    pub(crate) learning: Learning,
}

/// What the self-learning strategy has to know when an answer comes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Learning {
    /// It chose where to ask.
    pub(crate) chosen: bool,
    /// It asked everywhere, for want of a route.
    pub(crate) searched: bool,
    /// A neighbour searches, and we know the way.
    pub(crate) wanted: bool,
}

/// The first of further records.
#[derive(Debug)]
pub(super) struct Rest(pub(super) u32);

impl Default for Rest {
    fn default() -> Self {
        Rest(NONE)
    }
}

impl Token {
    pub(super) fn first_piece(&self) -> u32 {
        let [a, b, c, d, ..] = self.octets;
        u32::from_le_bytes([a, b, c, d])
    }
}
