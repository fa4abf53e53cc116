//! Status and settings of the content store.

/// The content store's limits, contents and hit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CsInfo {
    /// Maximum number of packets.
    pub capacity_packets: usize,
    /// Maximum number of bytes, including overhead.
    pub capacity_bytes: usize,
    /// Number of packets held.
    pub packets: usize,
    /// Number of bytes held, including overhead.
    pub bytes: usize,
    /// Interests that it answered.
    pub hits: u64,
    /// Interests that it could not answer.
    pub misses: u64,
    /// Whether new Data are stored.
    pub admit: bool,
    /// Whether Interests are answered.
    pub serve: bool,
}

/// Changes to the content store; `None` keeps a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CsSettings {
    /// Maximum number of packets.
    pub capacity_packets: Option<usize>,
    /// Maximum number of bytes, including overhead.
    pub capacity_bytes: Option<usize>,
    /// Whether new Data are stored.
    pub admit: Option<bool>,
    /// Whether Interests are answered.
    pub serve: Option<bool>,
}
