//! [`MailEvent`] and [`Message`]: what is reported of mail.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use xylem_mail::EnvelopeId;
use xylem_object::{PublisherId, Ticket};

use crate::json;

/// What happens with mail.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum MailEvent {
    /// Something came.
    #[serde(rename = "mail")]
    Arrived(Box<Message>),
    /// A message is where it waits to be delivered.
    #[serde(rename = "mail_queued")]
    Queued {
        /// The receiver's name here, or the beginning of its key.
        to: String,
        /// The envelope's id.
        #[serde(serialize_with = "envelope_id")]
        id: EnvelopeId,
    },
    /// A message is at the node that keeps it for its receiver, who has not said yet that it has it.
    #[serde(rename = "mail_stored")]
    Stored {
        /// As above.
        to: String,
        /// As above.
        #[serde(serialize_with = "envelope_id")]
        id: EnvelopeId,
        /// The node's address.
        at: String,
    },
    /// The receiver has a message: it says so itself.
    #[serde(rename = "mail_delivered")]
    Delivered {
        /// As above.
        to: String,
        /// As above.
        #[serde(serialize_with = "envelope_id")]
        id: EnvelopeId,
        /// It was handed over straight to the receiver, not left at a node.
        direct: bool,
    },
    /// Messages to us are lost: later ones came, and these can't be read any more if they come.
    #[serde(rename = "mail_lost")]
    Lost {
        /// Who wrote them: its name here, or the beginning of its key.
        from: String,
        /// How many.
        count: u32,
    },
    /// The receiver says that messages to it are lost.
    #[serde(rename = "mail_unread")]
    Unread {
        /// As above.
        to: String,
        /// How many.
        count: u32,
        /// So many that were here still are sent again.
        again: u32,
    },
    /// The receiver can't read a message, or never had it: it is sent again.
    #[serde(rename = "mail_again")]
    Again {
        /// As above.
        to: String,
        /// The new envelope's id.
        #[serde(serialize_with = "envelope_id")]
        id: EnvelopeId,
        /// The id of the one that it replaces.
        #[serde(serialize_with = "envelope_id")]
        was: EnvelopeId,
    },
    /// A message still has to be delivered, or, `gone`, never will be.
    #[serde(rename = "mail_waiting")]
    Waiting {
        /// As above.
        to: String,
        /// As above.
        #[serde(serialize_with = "envelope_id")]
        id: EnvelopeId,
        /// What hinders.
        why: String,
        /// It does not wait any more.
        gone: bool,
    },
    /// The receiver of a message has fetched what it named.
    #[serde(rename = "mail_fetched")]
    Fetched {
        /// Its name here, or the beginning of its key.
        by: String,
        /// The envelope's id.
        #[serde(serialize_with = "envelope_id")]
        id: EnvelopeId,
    },
}

/// A message that came.
#[derive(Clone, Debug, Serialize)]
pub struct Message {
    /// By which it is accepted or dropped.
    pub number: u32,
    /// The sender's name here, or the beginning of its key. Whose key it is has been proven.
    pub from: String,
    /// Whether the sender has a name here.
    pub known: bool,
    /// The sender's publisher key.
    #[serde(serialize_with = "json::text")]
    pub publisher: PublisherId,
    /// What the sender calls it; anything may stand there.
    pub name: String,
    /// Bytes, as the sender says.
    #[serde(rename = "bytes")]
    pub size: u64,
    /// When it was written, in ms since 1970, as the sender says.
    pub sent_ms: u64,
    /// When it came.
    pub received_ms: u64,
    /// It was accepted before.
    pub accepted: bool,
    /// What it brings.
    #[serde(flatten, serialize_with = "kind_and_ticket")]
    pub what: MessageContent,
}

/// What a message brings.
#[derive(Clone, Debug)]
pub enum MessageContent {
    /// A ticket.
    Ticket(Box<Ticket>),
    /// Text.
    Note(String),
}

fn envelope_id<S: Serializer>(id: &EnvelopeId, serializer: S) -> Result<S::Ok, S::Error> {
    json::hex(&id.0, serializer)
}

/// The fields `kind` and `ticket`. What a note says is not in the list of what came.
fn kind_and_ticket<S: Serializer>(what: &MessageContent, serializer: S) -> Result<S::Ok, S::Error> {
    let (kind, ticket) = match what {
        MessageContent::Ticket(ticket) => ("ticket", Some(ticket.to_string())),
        MessageContent::Note(_) => ("note", None),
    };
    let mut fields = serializer.serialize_map(Some(2))?;
    fields.serialize_entry("kind", kind)?;
    fields.serialize_entry("ticket", &ticket)?;
    fields.end()
}
