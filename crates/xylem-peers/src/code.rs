//! [`CodeEvent`]: events of codes that a call reports.

use serde::{Serialize, Serializer};
use xylem_base::json;
use xylem_object::ticket::Address;
use xylem_reach::code::{CodeEnd, SpokenCode};

use crate::reachable::{FaceAddress, Relay};

/// The object that a code leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Offered {
    /// A ticket: its receiver can fetch.
    Ticket,
    /// A card: its receiver can send.
    Card,
}

/// An event of a code. As JSON it is one of docs/spec/json-events.md.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event")]
#[non_exhaustive]
pub enum CodeEvent {
    /// The code is usable from now on.
    #[serde(rename = "code")]
    Shown {
        /// The code, to be passed to the other person.
        #[serde(serialize_with = "json::text")]
        code: SpokenCode,
        /// The object that it leads to.
        of: Offered,
        /// Lifetime, seconds.
        seconds: u64,
        /// Whether this machine's LAN resolves the number.
        lan: bool,
        /// Whether the DHT resolves it: a node has answered.
        dht: bool,
        /// Whether the DHT is asked and no node has answered yet. Once one has, [`CodeEvent::Listed`] follows.
        dht_waits: bool,
        /// The relay that resolves the number.
        #[serde(serialize_with = "json::some_text")]
        relay: Option<Relay>,
        /// Addresses of this machine, for a peer that cannot resolve the number.
        #[serde(serialize_with = "texts")]
        at: Vec<Address>,
    },
    /// The DHT is asked from now on: its nodes learn this machine's address and the number.
    #[serde(rename = "code_in_dht")]
    InDht,
    /// The DHT resolves the number from now on, other than reported before.
    #[serde(rename = "code_listed")]
    Listed,
    /// A peer tried a wrong code.
    #[serde(rename = "code_wrong")]
    Wrong {
        /// Tries left.
        left: u8,
    },
    /// The code is no longer usable.
    #[serde(rename = "code_ended")]
    Ended {
        /// `used`, `guessed` or `expired`.
        #[serde(serialize_with = "word")]
        why: CodeEnd,
    },
    /// The peer that shows the typed code has handed over what it leads to.
    #[serde(rename = "code_taken")]
    Taken {
        /// Address of that peer.
        peer: FaceAddress,
    },
}

fn texts<S: Serializer>(all: &[impl ToString], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(all.iter().map(ToString::to_string))
}

fn word<S: Serializer>(why: &CodeEnd, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match why {
        CodeEnd::Used => "used",
        CodeEnd::Guessed => "guessed",
        CodeEnd::Expired => "expired",
    })
}
