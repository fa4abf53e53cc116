//! Witnesses (docs/spec/witness.md): [`witness`] is one, [`witnessed`] asks what they say of a version.
//!
//! Both fetch manifests, and what proves that one is the beginning of the next; no content. What was seen is kept by
//! [`xylem_library::witness`].

mod ask;
mod hand_over;
mod watch;

pub(crate) use ask::ask_witnesses;
pub use ask::{Witnessed, witnessed};
pub use watch::{WitnessOptions, witness};
