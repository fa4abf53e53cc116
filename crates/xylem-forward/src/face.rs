//! Faces as the forwarder knows them: a number, a scope, counters.

/// A face's number. Numbers are not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaceId(pub u64);

impl core::fmt::Display for FaceId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "face {}", self.0)
    }
}

/// Where a face leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaceScope {
    /// To an application on this machine: may use `/localhost` and choose next hops.
    Local,
    /// To another machine.
    NonLocal,
}

/// What a face has carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FaceCounters {
    /// Interests that arrived well-formed.
    pub in_interests: u64,
    /// Data that arrived well-formed.
    pub in_data: u64,
    /// Nacks that arrived well-formed.
    pub in_nacks: u64,
    /// Bytes of everything that arrived.
    pub in_bytes: u64,
    /// Packets that arrived and went nowhere, for any [`crate::DropReason`].
    pub in_dropped: u64,
    /// Interests sent.
    pub out_interests: u64,
    /// Data sent.
    pub out_data: u64,
    /// Nacks sent.
    pub out_nacks: u64,
    /// Bytes of everything sent.
    pub out_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Face {
    pub(crate) scope: FaceScope,
    pub(crate) counters: FaceCounters,
}
