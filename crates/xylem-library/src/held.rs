//! What a fetch has verified so far, served to others: [`Holdings`] knows what is there, [`HeldSource`]
//! reads it back, [`Answers`] proves it anew before a packet leaves.

mod holdings;
mod source;

mod proofs;

mod answers;

pub use answers::Answers;
pub use holdings::Holdings;
pub(crate) use holdings::SMALL_FILE;
pub use source::{HeldError, HeldSource};
