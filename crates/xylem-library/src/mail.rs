//! Mail on disk: [`MailStore`] keeps conversations, letters and parcels, [`Mailbox`] what a node holds
//! for others.

mod error;

mod entries;
mod folder;

mod store;

mod letters;
mod people;

mod mailbox;

pub use entries::{Letter, Parcel, Route, hex};
pub use error::MailStoreError;
pub use mailbox::{Mailbox, MailboxConfig};
pub use store::{Incoming, MailStore};
