//! Mail: [`send`] hands a ticket or a note to one peer, end-to-end encrypted; [`Inbox`] is what came.
//!
//! Messages are xylem-mail's; they wait in `STORE/mail` (formats: docs/spec/mail.md) until the receiver,
//! or a node that keeps mail for it, has confirmed that it stored them. Whatever runs beside (a share,
//! a node) takes mail in as well.

mod delivery;
mod error;
mod framed_stream;
mod inbox;
mod send;
mod server;

pub use error::InboxError;
pub use inbox::Inbox;
pub use send::{Mail, SendError, SendOptions, SendSummary, ShowCard, listen, send, show_card};
pub use xylem_library::mail::{MailEvent, Message, MessageContent, Person, Reach, Recipient};

pub(crate) use delivery::while_delivering;
pub(crate) use server::MailServer;
