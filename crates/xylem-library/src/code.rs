//! [`CodeEvent`]: what a call reports of codes.

use serde::{Serialize, Serializer};
use xylem_object::ticket::Address;
use xylem_reach::code::{Code, Over};

use crate::json;
use crate::reachable::{FaceAddress, Relay};

/// What a code stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Offered {
    /// A ticket: whoever has it fetches.
    Ticket,
    /// A card: whoever has it sends.
    Card,
}

/// What happens with a code. As JSON it is one of docs/spec/json-events.md.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event")]
#[non_exhaustive]
pub enum CodeEvent {
    /// It can be used from now on.
    #[serde(rename = "code")]
    Shown {
        /// To be said to whoever should have what it stands for.
        #[serde(serialize_with = "json::text")]
        code: Code,
        /// What it stands for.
        of: Offered,
        /// How long it lives.
        seconds: u64,
        /// Whether the number leads here on this machine's LAN.
        lan: bool,
        /// The relay at which it does.
        #[serde(serialize_with = "json::some_text")]
        relay: Option<Relay>,
        /// Where this machine can be reached by whoever does not find it by the number.
        #[serde(serialize_with = "texts")]
        at: Vec<Address>,
    },
    /// Somebody tried a wrong one.
    #[serde(rename = "code_wrong")]
    Wrong {
        /// Tries that are left.
        left: u8,
    },
    /// It can't be used any more.
    #[serde(rename = "code_ended")]
    Ended {
        /// `used`, `guessed` or `expired`.
        #[serde(serialize_with = "word")]
        why: Over,
    },
    /// Whoever showed the code that was typed has handed over what it stands for.
    #[serde(rename = "code_taken")]
    Taken {
        /// Who, as an address.
        peer: FaceAddress,
    },
}

fn texts<S: Serializer>(all: &[Address], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(all.iter().map(ToString::to_string))
}

fn word<S: Serializer>(why: &Over, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match why {
        Over::Used => "used",
        Over::Guessed => "guessed",
        Over::Expired => "expired",
    })
}
