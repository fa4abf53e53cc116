//! Reasons for dropped packets, and the forwarder's counters.

use xylem_packet::DecodeError;

/// Why a packet went no further. `Malformed`, `Scope`, `HopLimit` and `LocalField` are the neighbour's fault,
/// `NoSuchFace` and `LinkPacket` the caller's. The others are no fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DropReason {
    /// The face is unknown, or was removed.
    #[error("unknown face")]
    NoSuchFace,
    /// The bytes are no valid packet.
    #[error("malformed packet: {0}")]
    Malformed(#[from] DecodeError),
    /// A link packet: the link service has to remove its headers first.
    #[error("a link-protocol packet where a network packet belongs")]
    LinkPacket,
    /// A header field that only local faces may use.
    #[error("a header field that only local faces may use")]
    LocalField,
    /// A `/localhost` name from another machine.
    #[error("name of local scope from another machine")]
    Scope,
    /// An Interest with a used-up hop limit.
    #[error("hop limit used up")]
    HopLimit,
    /// An Interest with a nonce that was seen before; a Nack was sent back.
    #[error("looping Interest")]
    Loop,
    /// The same Interest again from the same face.
    #[error("duplicate Interest")]
    Duplicate,
    /// More Interests than [`crate::FaceSettings::interests_per_second`].
    #[error("the face sends Interests too fast")]
    RateLimit,
    /// The face may have no pending Interests ([`crate::FaceSettings::pit_quota`] is 0).
    #[error("the face may have no pending Interests")]
    Quota,
    /// The PIT has no room for this Interest: in its entries, its records or its memory for names.
    #[error("too many pending Interests")]
    PitFull,
    /// There is no route for the Interest; a Nack was sent back.
    #[error("no route")]
    NoRoute,
    /// The Interest has to be changed and would be too long.
    #[error("the changed Interest would be too long")]
    TooLong,
    /// A Data or Nack that this face was not asked for.
    #[error("unsolicited packet")]
    Unsolicited,
}

/// Why a route cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The face is unknown.
    #[error("unknown face")]
    NoSuchFace,
    /// The prefix has more than 63 components.
    #[error("the prefix has too many components")]
    PrefixTooLong,
    /// [`crate::ForwarderConfig::max_routes`], or the memory for prefixes or next hops, is used up.
    #[error("too many routes")]
    TableFull,
}

/// Counters over all faces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ForwarderCounters {
    /// PIT entries that Data ended.
    pub satisfied: u64,
    /// PIT entries that expired.
    pub expired: u64,
    /// Interests joined to a pending one of another face.
    pub aggregated: u64,
    /// Interests answered from the content store.
    pub cs_hits: u64,
    /// Interests that the content store could not answer.
    pub cs_misses: u64,
    /// Interests that looped.
    pub loops: u64,
    /// Interests that a strategy did not forward because the same one was sent shortly before.
    pub suppressed: u64,
    /// Interests over a face's rate limit or quota.
    pub limited: u64,
    /// Interests dropped because the PIT was full and could not evict any.
    pub pit_full: u64,
    /// Interests evicted to make room.
    pub evicted: u64,
    /// Interests without a route.
    pub no_route: u64,
    /// Data and Nacks that were not asked for.
    pub unsolicited: u64,
}
