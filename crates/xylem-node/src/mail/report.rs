//! Events about mail, from what is stored of it.

use xylem_library::Error;
use xylem_library::mail::MailStore;
use xylem_library::mail::{Letter, Parcel, Route, hex};
use xylem_mail::{Content, EnvelopeId, Party};

use super::event::{MailEvent, Message, MessageContent};
use crate::event::Event;

/// What somebody is called, and whether that is a name.
pub(super) fn called(store: &MailStore, party: &Party) -> Result<(String, bool), Error> {
    let name = store.name_of(party)?;
    let known = name.is_some();
    Ok((name.unwrap_or_else(|| format!("?{}", party.publisher.key_id())), known))
}

pub(super) fn message(store: &MailStore, number: u32, letter: &Letter) -> Result<Message, Error> {
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

pub(super) fn arrived(store: &MailStore, number: u32, letter: &Letter) -> Result<Event, Error> {
    Ok(Event::Mail(MailEvent::Arrived(Box::new(message(store, number, letter)?))))
}

pub(super) fn fetched(store: &MailStore, id: EnvelopeId, by: &Party) -> Result<Event, Error> {
    let by = called(store, by)?.0;
    Ok(Event::Mail(MailEvent::Fetched { by, id }))
}

pub(super) fn delivered(parcel: &Parcel) -> Event {
    let direct = matches!(parcel.route, Route::Direct(_));
    let (to, id) = (parcel.name.clone(), parcel.id());
    Event::Mail(MailEvent::Delivered { to, id, direct })
}

pub(super) fn waiting(parcel: &Parcel, why: &str, gone: bool) -> Event {
    let (to, id) = (parcel.name.clone(), parcel.id());
    Event::Mail(MailEvent::Waiting { to, id, why: why.to_owned(), gone })
}
