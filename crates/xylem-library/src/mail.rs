//! Mail on disk: [`MailStore`] keeps conversations, letters and parcels, [`Mailbox`] what a node holds
//! for others.

pub mod disk;
pub mod entries;
pub mod mailbox;
pub mod store;

pub use mailbox::{Mailbox, MailboxConfig};
pub use store::MailStore;
