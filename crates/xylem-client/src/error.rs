//! [`ClientError`]: why an application fails. [`CheckError`]: why one packet is not trusted.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use thiserror::Error;
use xylem_packet::{DecodeError, EncodeError, NackReason, Name, UriError};
use xylem_trust::{ChainError, PacketRefusal};

/// Why an application fails.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A name cannot be used.
    #[error("{uri}: {why}")]
    BadName {
        /// The given name.
        uri: String,
        /// Reason.
        why: NameFlaw,
    },
    /// Something does not fit into a packet.
    #[error(transparent)]
    TooLong(#[from] PacketOverflow),
    /// The published content can't be read any more.
    #[error("cannot read the published content: {0}")]
    Content(#[source] io::Error),
    /// The fetched content can't be written.
    #[error("{0}")]
    Output(#[source] io::Error),
    /// The forwarder refused an Interest.
    #[error("{name}: {}", refused(*.reason))]
    Nack {
        /// The requested name.
        name: Name,
        /// Reason of the refusal.
        reason: NackReason,
    },
    /// No answer came in time.
    #[error("{name}: no answer within {} s", .after.as_secs_f64())]
    Unanswered {
        /// The requested name.
        name: Name,
        /// Time waited.
        after: Duration,
    },
    /// A segment did not come in time.
    #[error("no answer for segment {number} within {} s; {}", .after.as_secs_f64(), last_of(*.last))]
    SegmentMissing {
        /// Its number.
        number: u64,
        /// The last segment's number, if known.
        last: Option<u64>,
        /// Time waited.
        after: Duration,
    },
    /// The publisher answers that there is no such segment.
    #[error("the producer reports that it has no segment {number}")]
    NoSegment {
        /// Its number.
        number: u64,
    },
    /// The producer answers that there is no such packet.
    #[error("{name}: its producer reports that there is no such packet")]
    NoPacket {
        /// The requested name.
        name: Name,
    },
    /// The packet found is not the requested one.
    #[error("{name}: no producer has an object of exactly this name; the answer was {found}")]
    NotThis {
        /// The requested name.
        name: Name,
        /// A description of the packet that arrived instead.
        found: String,
    },
    /// A packet is not trusted.
    #[error("{what}: {why}")]
    NotBelieved {
        /// A description of the packet.
        what: String,
        /// Reason: a [`CheckError`], or the error of the packet's form or content.
        #[source]
        why: Box<dyn StdError + Send + Sync>,
    },
    /// Verified packets contradict each other.
    #[error(transparent)]
    Contradiction(#[from] ObjectContradiction),
    /// The system gives no random numbers.
    #[error("{0}")]
    NoRandomness(#[source] Box<dyn StdError + Send + Sync>),
    /// The forwarder refused a command.
    #[error("the forwarder refused {command}: {code} {text}")]
    Refused {
        /// Its module and verb.
        command: String,
        /// The status: 400 to 499, except 403, if the request is wrong.
        code: u64,
        /// The same in words.
        text: String,
    },
    /// The forwarder takes no commands over this connection.
    #[error("{at} accepts no management commands from here (Nack {}): use its Unix socket, or allow localhop in its settings", .reason.0)]
    NotManaged {
        /// The forwarder.
        at: String,
        /// Reason of the refusal.
        reason: NackReason,
    },
    /// The forwarder did not answer in time.
    #[error("{what}: no answer from {at} within {} s", .after.as_secs_f64())]
    Silent {
        /// The request.
        what: String,
        /// The forwarder.
        at: String,
        /// Time waited.
        after: Duration,
    },
    /// The run was asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Why a name cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NameFlaw {
    /// The text is not an NDN URI.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// It has no component.
    #[error("a name needs at least one component")]
    Empty,
    /// No packet has room for it.
    #[error(transparent)]
    TooLong(#[from] EncodeError),
    /// The given bytes are no Interest.
    #[error(transparent)]
    Interest(#[from] DecodeError),
    /// The Interest that is to be repeated has no nonce.
    #[error("it has no nonce")]
    NoNonce,
}

/// What does not fit into a packet. `Display` also tells how to mend it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PacketOverflow {
    /// An answer that serves measurements.
    #[error("the answer does not fit into a packet: {0}")]
    Answer(#[source] EncodeError),
    /// The same, as other programs would read it.
    #[error("the answer does not fit into a packet: {0}")]
    UnreadableAnswer(#[source] DecodeError),
    /// The request for a dataset.
    #[error(transparent)]
    Dataset(EncodeError),
    /// A packet of a published object.
    #[error("{0}; {SMALLER}")]
    Object(#[source] EncodeError),
    /// An object that is to be one packet.
    #[error("the content is longer than one packet; {SMALLER}")]
    WholeObject,
    /// A segment of a published object.
    #[error("a segment would take {0} bytes; {SMALLER}")]
    Segment(usize),
}

const SMALLER: &str = "give --segments, a smaller --segment-size or a shorter name";

/// How verified packets of one object contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ObjectContradiction {
    /// The object has another size than its metadata state.
    #[error("received {received} bytes; the metadata states {stated}")]
    Size {
        /// Bytes received.
        received: u64,
        /// Bytes stated.
        stated: u64,
    },
    /// FinalBlockId is another kind of component.
    #[error("FinalBlockId is not a segment number")]
    FinalBlockId,
    /// Two packets name different last segments.
    #[error("the packets name different last segments")]
    TwoEnds,
    /// A segment follows the last one, or the last one exceeds the limit.
    #[error("FinalBlockId is {last}, but segment {highest} was received")]
    BehindEnd {
        /// The last segment as stated.
        last: u64,
        /// The highest segment received.
        highest: u64,
    },
    /// The metadata name another last segment than the packets.
    #[error("the packets and the metadata name different last segments")]
    OtherEnd,
    /// A segment has another length than the metadata state.
    #[error("segment {number} has {len} bytes; the metadata states {stated}")]
    SegmentLength {
        /// The segment.
        number: u64,
        /// Its bytes.
        len: usize,
        /// Bytes of a segment as stated.
        stated: u64,
    },
}

/// A dataset of a forwarder has no entry, where there has to be one.
#[derive(Clone, Copy, Debug, Error)]
#[error("it is empty")]
pub(crate) struct EmptyDataset;

/// Metadata name another object than was asked for.
#[derive(Clone, Debug, Error)]
#[error("it names {0}, which is another object")]
pub(crate) struct OtherObject(pub(crate) Name);

/// Why a packet that arrived is not trusted.
#[derive(Debug, Error)]
pub enum CheckError {
    /// The chosen keys, or the rules of one of them, refuse it.
    #[error(transparent)]
    Refused(#[from] PacketRefusal),
    /// No chain of certificates leads from its key to a trusted one.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The certificates of its key could not be requested.
    #[error(transparent)]
    Certificates(Box<dyn std::error::Error + Send + Sync>),
}

fn refused(reason: NackReason) -> String {
    let why = match reason {
        NackReason::NO_ROUTE => "the forwarder has no route to it",
        NackReason::CONGESTION => "the network is congested, try again later",
        NackReason::DUPLICATE => "the forwarder received this Interest before, try again",
        _ => "the forwarder refused it",
    };
    format!("{why} (Nack {})", reason.0)
}

fn last_of(last: Option<u64>) -> String {
    match last {
        Some(last) => format!("the last one is {last}"),
        None => "the number of the last one is unknown".to_owned(),
    }
}

impl ClientError {
    /// Makes the error that a packet is not trusted.
    pub fn not_believed(
        what: impl Into<String>,
        why: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self::NotBelieved { what: what.into(), why: why.into() }
    }

    pub(crate) fn bad_name(uri: impl ToString, why: impl Into<NameFlaw>) -> Self {
        Self::BadName { uri: uri.to_string(), why: why.into() }
    }
}
