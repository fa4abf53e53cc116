//! From files to something that can be served. [`publish()`] hashes a path and signs what it is now, [`publish_sealed`] does
//! so for a few recipients alone, and [`Grower`](follow::Grower) publishes a file while another program appends to it.
//! [`onward()`] serves what was fetched, with its publisher's signature. [`open`] chooses between these for a share, and
//! [`publications`] holds by name what a node serves.
//!
//! There is no socket and no clock here: the time is an argument. A growing file is read by a thread of its own.

mod publish;

pub mod adopt;
pub mod follow;

pub mod as_shared;
pub mod publications;
pub mod registry;
pub mod served;

mod opening;

pub use opening::{OpeningError, OpeningOptions, open};
pub use publish::{
    Onward, PublishError, Published, Recipients, Sealing, Serving, onward, publish, publish_sealed,
    rebuild, recorded_looks, root_as, root_of, rules_before, signed_at,
};
