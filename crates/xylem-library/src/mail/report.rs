//! Events about mail, from what is stored of it.

use xylem_mail::{Content, EnvelopeId, MAX_NAME, Party};
use xylem_object::Ticket;

use super::entries::{Letter, Parcel, Route, hex};
use super::event::{MailEvent, Message, MessageContent};
use super::store::MailStore;
use crate::error::Error;

/// What somebody is called, and whether that is a name.
pub(super) fn called(store: &MailStore, party: &Party) -> Result<(String, bool), Error> {
    let name = store.name_of(party)?;
    let known = name.is_some();
    Ok((name.unwrap_or_else(|| format!("?{}", party.publisher.key_id())), known))
}

/// A message as it is shown.
///
/// # Errors
/// The store's, here and below.
pub fn message(store: &MailStore, number: u32, letter: &Letter) -> Result<Message, Error> {
    let (from, known) = called(store, &letter.from)?;
    let what = match &letter.body.content {
        Content::Ticket(ticket) => MessageContent::Ticket((**ticket).clone()),
        Content::Note(text) => MessageContent::Note(text.clone()),
        Content::Fetched(id) => MessageContent::Note(format!("fetched {}", hex(&id.0))),
    };
    Ok(Message {
        number,
        from,
        known,
        publisher: letter.from.publisher,
        name: letter.body.name.clone(),
        size: letter.body.size,
        sent_ms: letter.body.sent_ms,
        received_ms: letter.received_ms,
        accepted: letter.accepted,
        what,
    })
}

/// A message has come.
///
/// # Errors
/// As [`message`].
pub fn arrived(store: &MailStore, number: u32, letter: &Letter) -> Result<MailEvent, Error> {
    Ok(MailEvent::Arrived(Box::new(message(store, number, letter)?)))
}

/// What a message named has been fetched.
///
/// # Errors
/// As [`message`].
pub fn fetched(store: &MailStore, id: EnvelopeId, by: &Party) -> Result<MailEvent, Error> {
    let by = called(store, by)?.0;
    Ok(MailEvent::Fetched { by, id })
}

/// A message has been taken.
pub fn delivered(parcel: &Parcel) -> MailEvent {
    let direct = matches!(parcel.route, Route::Direct(_));
    let (to, id) = (parcel.name.clone(), parcel.id());
    MailEvent::Delivered { to, id, direct }
}

/// A message could not be delivered.
pub fn waiting(parcel: &Parcel, why: &str, gone: bool) -> MailEvent {
    let (to, id) = (parcel.name.clone(), parcel.id());
    MailEvent::Waiting { to, id, why: why.to_owned(), gone }
}

/// As much of a name as a message holds.
#[must_use]
pub fn cut(mut name: String) -> String {
    while name.len() > MAX_NAME {
        name.pop();
    }
    name
}

/// A ticket's name as a person would call it, or its root.
#[must_use]
pub fn name_of_ticket(ticket: &Ticket) -> String {
    match &ticket.name {
        Some(name) => name.as_ref().parent().to_string(),
        None => ticket.root.to_string(),
    }
}
