//! What is said about packets that go nowhere, and counted about those that do.

use xylem_packet::DecodeError;

/// Why a packet went no further. `Malformed`, `Scope`, `HopLimit`, `LocalField` and `Nested` are the
/// neighbour's fault, `NoSuchFace` the caller's, the others nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DropReason {
    /// The face is not, or no longer, known.
    #[error("unknown face")]
    NoSuchFace,
    /// The bytes are no packet.
    #[error("malformed packet: {0}")]
    Malformed(#[from] DecodeError),
    /// A link packet within a link packet.
    #[error("link packet within a link packet")]
    Nested,
    /// One piece of a packet: the face has to reassemble first.
    #[error("fragment of a packet")]
    Fragmented,
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
    /// The PIT is full.
    #[error("too many pending Interests")]
    PitFull,
    /// Nowhere to send the Interest; a Nack has been sent back.
    #[error("no route")]
    NoRoute,
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
    /// [`crate::Config::max_routes`] is reached.
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
    /// Interests that joined one already on its way.
    pub aggregated: u64,
    /// Interests answered from the content store.
    pub cs_hits: u64,
    /// Interests that the content store could not answer.
    pub cs_misses: u64,
    /// Interests that looped.
    pub loops: u64,
    /// Interests dropped because the PIT was full.
    pub pit_full: u64,
    /// Interests without a route.
    pub no_route: u64,
    /// Data and Nacks that nobody had asked for.
    pub unsolicited: u64,
}
