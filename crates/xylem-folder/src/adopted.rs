//! [`AdoptedState`]: what a member of a large group sends in place of a statement after it has taken over a change.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_hash::Hash;
use xylem_object::Ticket;

use super::fields::array;

/// First bytes of the message.
const MAGIC: &[u8; 4] = b"xst1";

/// The news that a member's folder now has a state that another member has announced. It is sent on the member's own links
/// alone, and is not passed on. It is not signed: the link proves its sender, and the state is in a statement that another
/// member has signed (docs/spec/sync.md, "Large groups").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptedState {
    /// When it was made: later than the member's last statement, in milliseconds since 1970.
    pub number: u64,
    /// The state of the member's index.
    pub state: Hash,
    /// Ticket of the member's index.
    pub index: Ticket,
}

impl AdoptedState {
    /// Encodes the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let state = self.state.as_bytes();
        [&MAGIC[..], &self.number.to_be_bytes(), state, &self.index.to_bytes()].concat()
    }

    /// Parses the message.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut input = bytes.strip_prefix(MAGIC)?;
        let number = u64::from_be_bytes(array(&mut input)?);
        let state = Hash::from_bytes(array(&mut input)?);
        Some(Self { number, state, index: Ticket::from_bytes(input).ok()? })
    }
}
