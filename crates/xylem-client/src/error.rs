//! [`ClientError`]: why an application ends without what it wanted.

use std::io;
use std::time::Duration;

use thiserror::Error;
use xylem_packet::{NackReason, Name};

/// Why an application ends without what it wanted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A name that cannot be used.
    #[error("{uri}: {why}")]
    BadName {
        /// What was given.
        uri: String,
        /// Why.
        why: String,
    },
    /// What fits no packet.
    #[error("{what}")]
    TooLong {
        /// What, and how to mend it.
        what: String,
    },
    /// The content that is published can't be read any more.
    #[error("cannot read what is published: {0}")]
    Content(#[source] io::Error),
    /// What was fetched can't be written.
    #[error("{0}")]
    Output(#[source] io::Error),
    /// The forwarder refused an Interest.
    #[error("{name}: {}", refused(*.discovering, *.reason))]
    Nack {
        /// What was asked for.
        name: Name,
        /// Why it was refused.
        reason: NackReason,
        /// While the object was looked for.
        discovering: bool,
    },
    /// Nobody answered in time.
    #[error("{name}: nobody answered within {} s", .after.as_secs_f64())]
    Unanswered {
        /// What was asked for.
        name: Name,
        /// How long was waited.
        after: Duration,
    },
    /// A segment did not come in time.
    #[error("segment {number} did not come within {} s, {}", .after.as_secs_f64(), last_of(*.last))]
    SegmentMissing {
        /// Which.
        number: u64,
        /// The last one, where known.
        last: Option<u64>,
        /// How long was waited.
        after: Duration,
    },
    /// The publisher says that there is no such segment.
    #[error("the publisher says that it has no segment {number}")]
    NoSegment {
        /// Which.
        number: u64,
    },
    /// Who publishes there says that there is no such packet.
    #[error("{name}: who publishes there says that there is no such packet")]
    NoPacket {
        /// What was asked for.
        name: Name,
    },
    /// What was found is not what was asked for.
    #[error("{name}: nobody has an object of exactly this name; what came is {found}")]
    NotThis {
        /// What was asked for.
        name: Name,
        /// What came instead.
        found: String,
    },
    /// What came is not believed.
    #[error("{what}: {why}")]
    NotBelieved {
        /// What came.
        what: String,
        /// Why.
        why: String,
    },
    /// Packets that verified contradict each other.
    #[error("{0}")]
    Contradiction(String),
    /// The forwarder refused a command.
    #[error("the forwarder refuses {command}: {code} {text}")]
    Refused {
        /// Its module and verb.
        command: String,
        /// Why: 400 to 499, but for 403, if what was asked is wrong.
        code: u64,
        /// The same in words.
        text: String,
    },
    /// The forwarder takes no commands over this connection.
    #[error("{at} does not let itself be managed here (Nack {})", .reason.0)]
    NotManaged {
        /// The forwarder.
        at: String,
        /// Why it refused.
        reason: NackReason,
    },
    /// The forwarder said nothing in time.
    #[error("{what}: nothing came within {after:?} from {at}")]
    Silent {
        /// What it was asked for.
        what: String,
        /// The forwarder.
        at: String,
        /// How long was waited.
        after: Duration,
    },
    /// The run was asked to stop.
    #[error("interrupted")]
    Interrupted,
}

fn refused(discovering: bool, reason: NackReason) -> String {
    match discovering {
        true => format!("the forwarder knows no way to it (Nack {})", reason.0),
        false => format!("the forwarder refused it (Nack {})", reason.0),
    }
}

fn last_of(last: Option<u64>) -> String {
    match last {
        Some(last) => format!("of 0 to {last}"),
        None => "and no packet said which is the last".to_owned(),
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
