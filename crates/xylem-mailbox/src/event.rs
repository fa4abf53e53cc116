//! [`MailEvent`] and [`MailMessage`]: events about mail.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use xylem_base::json;
use xylem_mail::EnvelopeId;
use xylem_object::{PublisherId, Ticket};

/// An event about mail.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum MailEvent {
    /// A message arrived.
    #[serde(rename = "mail")]
    Arrived(Box<MailMessage>),
    /// A message was queued for delivery.
    #[serde(rename = "mail_queued")]
    Queued {
        /// The receiver's local name, or the beginning of its key.
        to: String,
        /// The envelope's id.
        #[serde(serialize_with = "envelope_id")]
        id: EnvelopeId,
    },
    /// A message is at the node that keeps it for its receiver, which has not confirmed it yet.
    #[serde(rename = "mail_stored")]
    Stored {
        /// The receiver's local name, or the beginning of its key.
        to: String,
        /// The envelope's id.
        #[serde(serialize_with = "envelope_id")]
        id: EnvelopeId,
        /// The node's address.
        at: String,
    },
    /// The receiver confirmed a message itself.
    #[serde(rename = "mail_delivered")]
    Delivered {
        /// The receiver's local name, or the beginning of its key.
        to: String,
        /// The envelope's id.
        #[serde(serialize_with = "envelope_id")]
        id: EnvelopeId,
        /// It was handed to the receiver directly, not to a node.
        direct: bool,
    },
    /// Messages to us are lost: later ones arrived, and these can no longer be read if they arrive.
    #[serde(rename = "mail_lost")]
    Lost {
        /// The sender's local name, or the beginning of its key.
        from: String,
        /// Number of lost messages.
        count: u32,
    },
    /// The receiver reports that messages to it are lost.
    #[serde(rename = "mail_unread")]
    Unread {
        /// The receiver's local name, or the beginning of its key.
        to: String,
        /// Number of lost messages.
        count: u32,
        /// Number of these that were still here, and are sent again.
        again: u32,
    },
    /// The receiver cannot read a message, or never had it: it is sent again.
    #[serde(rename = "mail_again")]
    Again {
        /// The receiver's local name, or the beginning of its key.
        to: String,
        /// The new envelope's id.
        #[serde(serialize_with = "envelope_id")]
        id: EnvelopeId,
        /// The id of the envelope that it replaces.
        #[serde(serialize_with = "envelope_id")]
        was: EnvelopeId,
    },
    /// A message could not be delivered yet; with `gone`, it never will be.
    #[serde(rename = "mail_waiting")]
    Waiting {
        /// The receiver's local name, or the beginning of its key.
        to: String,
        /// The envelope's id.
        #[serde(serialize_with = "envelope_id")]
        id: EnvelopeId,
        /// The reason, in words: the delivery's error, or what the answer of the node or receiver means.
        why: String,
        /// The message was removed from the outbox.
        gone: bool,
    },
    /// The receiver of a message has fetched what it named.
    #[serde(rename = "mail_fetched")]
    Fetched {
        /// The receiver's local name, or the beginning of its key.
        by: String,
        /// The envelope's id.
        #[serde(serialize_with = "envelope_id")]
        id: EnvelopeId,
    },
}

/// A received message.
#[derive(Clone, Debug, Serialize)]
pub struct MailMessage {
    /// Number by which it is accepted or dropped.
    pub number: u32,
    /// The sender's local name, or the beginning of its key. The sender has proven its key.
    pub from: String,
    /// Whether the sender has a local name.
    pub known: bool,
    /// The sender's publisher key.
    #[serde(serialize_with = "json::text")]
    pub publisher: PublisherId,
    /// The sender's title of the message; any text.
    pub name: String,
    /// Size in bytes, according to the sender.
    #[serde(rename = "bytes")]
    pub size: u64,
    /// When it was written, in milliseconds since 1970, according to the sender.
    pub sent_ms: u64,
    /// When it arrived, in milliseconds since 1970.
    pub received_ms: u64,
    /// It was accepted before.
    pub accepted: bool,
    /// Its content.
    #[serde(flatten, serialize_with = "kind_and_ticket")]
    pub what: MessageContent,
}

/// Content of a message.
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

/// Serializes the fields `kind` and `ticket`. The text of a note is left out of the list of messages.
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
