//! What peers of one publication ask each other, and what is made of the answers; the links are the
//! caller's, known by the number of their face.
//!
//! [`Finding`] is the first exchange over a fresh link, [`Finder`] asks who else is there. What is said here of other peers are hints: the tree proves pieces,
//! and the link a dialled peer's key (docs/spec/peers.md, docs/threat-model.md).

mod finder;
mod finding;
mod gone;
mod seed;

pub use finder::{Finder, Found};
pub use finding::{Answered, Asked, Finding, NOT_THERE};
pub use gone::{Gone, LOST};
pub use seed::port_of;
