//! What is said about packets that go nowhere, and counted about those that do.

use xylem_packet::DecodeError;

/// Why a packet went no further. `Malformed`, `Scope`, `HopLimit` and `LocalField` are the
/// neighbour's fault, `NoSuchFace` and `LinkPacket` the caller's, the others nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DropReason {
    /// The face is not, or no longer, known.
    #[error("unknown face")]
    NoSuchFace,
    /// The bytes are no packet.
    #[error("malformed packet: {0}")]
    Malformed(#[from] DecodeError),
    /// A link packet: the link service has to take its headers off first.
    #[error("a link packet where a bare one belongs")]
    LinkPacket,
    /// A header field that only local faces may use.
    #[error("a header field that only local faces may use")]
    LocalField,
    /// A `/localhost` name from another machine.
    #[error("name of local scope from another machine")]
    Scope,
    /// An Interest whose hop limit is used up.
    #[error("hop limit used up")]
    HopLimit,
    /// An Interest that was here before; a Nack has been sent back.
    #[error("looping Interest")]
    Loop,
    /// The same Interest from the same face again.
    #[error("duplicate Interest")]
    Duplicate,
    /// More Interests than [`crate::FaceSettings::interests_per_second`].
    #[error("the face's Interests come too fast")]
    RateLimit,
    /// The face may have no Interests pending at all ([`crate::FaceSettings::pit_quota`] is 0).
    #[error("no pending Interests are allowed of the face")]
    Quota,
    /// The PIT is too small for this one: its entries, its records or its memory for names.
    #[error("too many pending Interests")]
    PitFull,
    /// Nowhere to send the Interest; a Nack has been sent back.
    #[error("no route")]
    NoRoute,
    /// The Interest has to be changed on its way and is too long for that.
    #[error("too long to be changed")]
    TooLong,
    /// A Data or Nack that was not asked of this face.
    #[error("unsolicited packet")]
    Unsolicited,
}

/// Why a route cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The face is not known.
    #[error("unknown face")]
    NoSuchFace,
    /// The prefix has more than 63 components.
    #[error("the prefix has too many components")]
    PrefixTooLong,
    /// [`crate::Config::max_routes`] is reached, or the memory for prefixes or next hops.
    #[error("too many routes")]
    TableFull,
}

/// What the forwarder has done, over all faces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// PIT entries that Data ended.
    pub satisfied: u64,
    /// PIT entries that ran out.
    pub expired: u64,
    /// Interests that another face's were on their way for.
    pub aggregated: u64,
    /// Interests answered from the content store.
    pub cs_hits: u64,
    /// Interests that the content store could not answer.
    pub cs_misses: u64,
    /// Interests that looped.
    pub loops: u64,
    /// Interests that a strategy kept back, one like them having been sent a moment ago.
    pub suppressed: u64,
    /// Interests over a face's rate limit or quota.
    pub limited: u64,
    /// Interests dropped because the PIT had no room and could not make any.
    pub pit_full: u64,
    /// Interests that were waited for no more, so that others had room.
    pub evicted: u64,
    /// Interests without a route.
    pub no_route: u64,
    /// Data and Nacks that nobody had asked for.
    pub unsolicited: u64,
}
