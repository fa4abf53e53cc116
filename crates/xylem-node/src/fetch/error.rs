//! [`FetchError`]: why a fetch ends early.

use std::time::Duration;

use xylem_library::{Blame, Error, Failure};
use xylem_transfer::FailReason;

use crate::peers::HostError;
use xylem_engine::EngineError;

/// Why a fetch ends early. What was verified is kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// Nobody to ask.
    #[error("the ticket names no address; give --from ADDR")]
    NoAddress,
    /// The ticket names hosts, and none of them can be looked up.
    #[error("{0}")]
    NoSuchHost(String),
    /// Nobody who shares it with everybody was found.
    #[error("{why} (looked for during {} s)", .after.as_secs_f64())]
    NotPublic {
        /// How long it was looked for.
        after: Duration,
        /// What is known of why.
        why: NotPublic,
    },
    /// What was asked for has no name to ask with.
    #[error(
        "the ticket does not say the name, which NDN forwarders are asked by; ask for one made by \
         `xylem share --via`, --plain or --as"
    )]
    NoName,
    /// The store re-hashes what an earlier run left as BLAKE3, and serves that.
    #[error(
        "it was published with a SHA-256 tree, of which only single files can be fetched, by get, and not seeded"
    )]
    OtherTree,
    /// Nobody answers.
    #[error(
        "nobody answered in {} s: {tried}; is the share still running there, and can this machine reach \
         its UDP port?", after.as_secs_f64()
    )]
    Unreachable {
        /// For how long they were tried.
        after: Duration,
        /// Each peer, with what is known of why.
        tried: String,
    },
    /// The relays answer, and the sharer is not there.
    #[error(
        "the sharer is not connected to {relays}: it is off, asleep or offline; run the same command when it is back, \
         or `xylem get --wait`, which goes on asking{}", behind(" (nor does it answer at ", .others)
    )]
    Away {
        /// Those that say so.
        relays: String,
        /// Where else it was tried, and what is known of why; empty: nowhere.
        others: String,
    },
    /// Whoever had it is gone, and has not come back.
    #[error(
        "the sharer was lost after {done} bytes of this run{}; what was verified is kept, and the same command goes on from \
         there", behind(" (", .why)
    )]
    Lost {
        /// What was verified in this run.
        done: u64,
        /// What went wrong with which peer; empty: nothing is known.
        why: String,
    },
    /// Those who answer do not have it, or no longer.
    #[error("{0}")]
    Gone(String),
    /// Nobody reachable has it.
    #[error("{reason}{warnings}{}", if *.fetched { "; what was verified is kept" } else { "" })]
    Failed {
        /// Why the transfer gave up.
        reason: FailReason,
        /// What went wrong with which peer, in parentheses; empty: nothing.
        warnings: String,
        /// Whether anything was verified in this run.
        fetched: bool,
    },
    /// It was asked to stop.
    #[error("interrupted; what was verified is kept, run it again to go on")]
    Interrupted,
    /// Of serving others, where that was asked for.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Of the sockets.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Of files, or of the system's randomness.
    #[error("{0}")]
    Library(#[from] Error),
}

/// What is known besides, in parentheses, if anything is.
fn behind(begins: &str, known: &str) -> String {
    if known.is_empty() { String::new() } else { format!("{begins}{known})") }
}

/// Why nobody was found who shares something with everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPublic {
    /// No node of the DHT.
    #[error(
        "the DHT has not answered: UDP may not leave this network, or --dht-bootstrap names nobody who answers"
    )]
    Silence,
    /// Nodes that know of nobody.
    #[error("the DHT lists nobody who shares this: `xylem share --public` has it listed")]
    Unlisted,
    /// Addresses where nobody answers.
    #[error(
        "the DHT lists {0} of those who share this, and nobody has answered there: they are off, do not `share --public` any \
         more, or are behind NATs that let nobody in"
    )]
    Unreached(Addresses),
}

/// So many addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses(pub usize);

impl std::fmt::Display for Addresses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let s = if self.0 == 1 { "" } else { "es" };
        write!(f, "{} address{s}", self.0)
    }
}

impl Failure for FetchError {
    fn blame(&self) -> Blame {
        match self {
            Self::NoAddress | Self::NoName | Self::OtherTree => Blame::Usage,
            Self::NoSuchHost(_) | Self::NotPublic { .. } => Blame::Network,
            Self::Unreachable { .. }
            | Self::Away { .. }
            | Self::Lost { .. }
            | Self::Gone(_)
            | Self::Failed { .. } => Blame::Network,
            Self::Interrupted => Blame::Interrupted,
            Self::Host(e) => e.blame(),
            Self::Engine(e) => e.blame(),
            Self::Library(e) => e.blame,
        }
    }
}

crate::failure::of_library!(FetchError: xylem_library::keys::KeyError, xylem_library::sink::SaveError);
