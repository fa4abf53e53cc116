//! Mail on disk: [`MailStore`] holds conversations, messages and outgoing envelopes; [`Mailbox`] holds envelopes that a
//! node keeps for other peers.

mod error;

mod entries;
mod folder;

mod store;

mod damage;
mod letters;
mod outbox;
mod people;

mod mailbox;

mod event;
pub mod report;
mod whom;

pub use damage::{DamagedMail, damaged};
pub use entries::{Letter, MailRoute, Parcel};
pub use error::MailStoreError;
pub use event::{MailEvent, MailMessage, MessageContent};
pub use mailbox::{Mailbox, MailboxConfig};
pub use outbox::{MailOutbox, ReceiptMailbox};
pub use store::{EnvelopeOutcome, MailStore, TakenIn};
pub use whom::{Person, ReachEffort, Recipient, UnknownRecipient, find};
