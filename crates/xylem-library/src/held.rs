//! What a fetch has verified so far, served to others: [`Holdings`] knows what is there, [`HeldSource`]
//! reads it back, [`Answers`] proves it anew before a packet leaves.

mod answers;
mod holdings;
mod proofs;
mod source;

pub use answers::Answers;
pub use holdings::Holdings;
pub use source::HeldSource;
