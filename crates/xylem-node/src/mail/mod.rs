//! Mail: [`send`] hands a ticket or a note to one peer, end-to-end encrypted; [`Inbox`] holds received messages.
//!
//! `xylem-mail` defines the messages. They stay in `STORE/mail` (formats: docs/spec/mail.md) until the receiver, or a
//! node that keeps mail for it, confirms that it stored them. A share or a node that runs beside also receives mail.

mod delivery;
mod disk;
mod error;
mod framed_stream;
mod inbox;
mod send;
mod server;

pub use error::{InboxError, MailPeerError};
pub use inbox::Inbox;
pub use send::{Mail, MailSendError, SendOptions, SendSummary, ShowCard, listen, send, show_card};
pub use xylem_mailbox::{MailEvent, MailMessage, MessageContent, Person, ReachEffort, Recipient};

pub(crate) use delivery::while_delivering;
pub(crate) use server::MailServer;
