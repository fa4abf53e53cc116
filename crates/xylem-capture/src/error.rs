//! Why a capture cannot be read on.

/// Why a capture cannot be read, or not any further.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It begins neither as pcap nor as pcapng.
    #[error("this is neither a pcap nor a pcapng capture")]
    NotACapture,
    /// It ends within a record.
    #[error("the capture ends within a record")]
    Truncated,
    /// A record is not as its format demands.
    #[error("the capture has a malformed record {offset} bytes from its beginning")]
    Malformed {
        /// Bytes before the record.
        offset: usize,
    },
    /// A record is longer than any that a capture program writes.
    #[error("the capture has a record of more than {} MiB", crate::file::MAX_RECORD >> 20)]
    TooLong,
    /// It has more interfaces than any machine.
    #[error("the capture has more than {} interfaces", crate::file::MAX_INTERFACES)]
    TooManyInterfaces,
    /// Its packets come from a kind of network that is not known here.
    #[error(
        "the capture has packets of link type {0}, which is not known here: capture on Ethernet, Linux' \"any\", loopback or IP"
    )]
    UnknownLinkType(i32),
    /// It could not be read.
    #[error("the capture cannot be read: {0}")]
    Read(#[from] std::io::Error),
}
