//! What is told about the content store, and what can be set.

/// The content store's limits, contents and luck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CsInfo {
    /// Packets that it may hold.
    pub capacity_packets: usize,
    /// Bytes that it may hold, its own book-keeping included.
    pub capacity_bytes: usize,
    /// Packets that it holds.
    pub packets: usize,
    /// Bytes that it holds, its own book-keeping included.
    pub bytes: usize,
    /// Interests that it answered.
    pub hits: u64,
    /// Interests that it was asked for and could not answer.
    pub misses: u64,
    /// Are new Data kept?
    pub admit: bool,
    /// Are Interests answered?
    pub serve: bool,
}

/// Changes to the content store; `None` leaves a value as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CsSettings {
    /// Packets that it may hold.
    pub capacity_packets: Option<usize>,
    /// Bytes that it may hold, its own book-keeping included.
    pub capacity_bytes: Option<usize>,
    /// Are new Data kept?
    pub admit: Option<bool>,
    /// Are Interests answered?
    pub serve: Option<bool>,
}
