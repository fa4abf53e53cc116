//! [`ClientError`]: why an application fails. [`CheckError`]: why one packet is not trusted.

use std::io;
use std::time::Duration;

use thiserror::Error;
use xylem_packet::{NackReason, Name};
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
        why: String,
    },
    /// Something does not fit into a packet.
    #[error("{what}")]
    TooLong {
        /// A description, and how to mend it.
        what: String,
    },
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
        /// Reason.
        why: String,
    },
    /// Verified packets contradict each other.
    #[error("{0}")]
    Contradiction(String),
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
    pub(crate) fn not_believed(what: impl Into<String>, why: impl ToString) -> Self {
        Self::NotBelieved { what: what.into(), why: why.to_string() }
    }

    pub(crate) fn bad_name(uri: impl ToString, why: impl ToString) -> Self {
        Self::BadName { uri: uri.to_string(), why: why.to_string() }
    }
}
