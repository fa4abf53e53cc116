//! Serves what a fetch has verified so far: [`Holdings`] records what is here, [`HeldSource`] reads it back, and
//! [`Answers`] verifies it again before a packet leaves.

mod holdings;
mod source;

mod proofs;

mod answers;

pub use answers::Answers;
pub use holdings::Holdings;
pub use holdings::SMALL_FILE;
pub use source::{HeldError, HeldSource};
