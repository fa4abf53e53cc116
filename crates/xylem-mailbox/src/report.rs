//! Makes events from stored mail.

use xylem_base::{UnixTime, hex};
use xylem_mail::protocol::DeliveryStatus;
use xylem_mail::{MAX_NAME, MailContent, Party};
use xylem_object::Ticket;

use super::entries::{Letter, MailRoute, Parcel};
use super::error::MailStoreError;
use super::event::{MailEvent, MailMessage, MessageContent};
use super::store::{EnvelopeOutcome, MailStore, TakenIn};

/// Returns the name to show for a party, and whether it is a local name.
pub(super) fn display_name(
    store: &MailStore,
    party: &Party,
) -> Result<(String, bool), MailStoreError> {
    let name = store.name_of(party)?;
    let known = name.is_some();
    Ok((name.unwrap_or_else(|| format!("?{}", party.publisher.key_id())), known))
}

/// Makes a message to show.
///
/// # Errors
/// The store's, here and below.
pub fn message(
    store: &MailStore,
    number: u32,
    letter: &Letter,
) -> Result<MailMessage, MailStoreError> {
    let (from, known) = display_name(store, &letter.from)?;
    let what = match &letter.body.content {
        MailContent::Ticket(ticket) => MessageContent::Ticket(ticket.clone()),
        MailContent::Note(text) => MessageContent::Note(text.clone()),
        MailContent::Fetched(id) => MessageContent::Note(format!("fetched {}", hex(&id.0))),
    };
    Ok(MailMessage {
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

/// Result of an envelope for us: the answer, and the events to report.
pub struct MailAnswer {
    /// Answer to the peer that delivers it.
    pub status: DeliveryStatus,
    /// Lost messages of its session.
    pub lost: u32,
    /// Receipt to leave at the node that had kept it.
    pub receipt: Option<Vec<u8>>,
    /// Whether it holds a new message.
    pub is_new: bool,
    /// Events to report to the user.
    pub events: Vec<MailEvent>,
}

/// Takes in an envelope.
///
/// # Errors
/// The store's.
pub fn take_in(
    store: &MailStore,
    envelope: &[u8],
    now: UnixTime,
) -> Result<MailAnswer, MailStoreError> {
    let TakenIn { incoming, lost, lost_in_all, receipt } = store.take_in(envelope, now)?;
    let mut events = Vec::new();
    if let Some((from, count)) = lost {
        events.push(MailEvent::Lost { from: display_name(store, &from)?.0, count });
    }
    match &incoming {
        EnvelopeOutcome::New(number, letter) => {
            events.push(MailEvent::Arrived(Box::new(message(store, *number, letter)?)));
        }
        EnvelopeOutcome::Fetched(id, by) => {
            events.push(MailEvent::Fetched { by: display_name(store, by)?.0, id: *id });
        }
        EnvelopeOutcome::Again | EnvelopeOutcome::Not(_) => {}
    }
    let is_new = matches!(incoming, EnvelopeOutcome::New(..));
    let status =
        if let EnvelopeOutcome::Not(status) = incoming { status } else { DeliveryStatus::Stored };
    Ok(MailAnswer { status, lost: lost_in_all, receipt, is_new, events })
}

/// Event: a node has accepted a message.
pub fn stored(parcel: &Parcel) -> MailEvent {
    let (MailRoute::Direct(at) | MailRoute::AtRelay(_, at) | MailRoute::Via(_, at)) = &parcel.route;
    let at = at.first().map(ToString::to_string).unwrap_or_default();
    MailEvent::Stored { to: parcel.name.clone(), id: parcel.id(), at }
}

/// Event: a message was given up.
pub fn expired(parcel: &Parcel) -> MailEvent {
    let why = match parcel.stored {
        true => "no receipt came within 30 days after the node took it",
        false => "the receiver could not be reached for 30 days",
    };
    given_up(parcel, why)
}

/// Event: the receiver has a message.
pub(super) fn delivered(parcel: &Parcel) -> MailEvent {
    let direct = !matches!(parcel.route, MailRoute::Via(..));
    let (to, id) = (parcel.name.clone(), parcel.id());
    MailEvent::Delivered { to, id, direct }
}

/// Event: a message could not be delivered, and stays in the outbox.
pub fn waiting(parcel: &Parcel, why: &str) -> MailEvent {
    let (to, id) = (parcel.name.clone(), parcel.id());
    MailEvent::Waiting { to, id, why: why.to_owned(), gone: false }
}

/// Event: a message could not be delivered, and has left the outbox.
pub(super) fn given_up(parcel: &Parcel, why: &str) -> MailEvent {
    let (to, id) = (parcel.name.clone(), parcel.id());
    MailEvent::Waiting { to, id, why: why.to_owned(), gone: true }
}

/// Cuts a name to the length that a message holds.
#[must_use]
pub fn cut(mut name: String) -> String {
    while name.len() > MAX_NAME {
        name.pop();
    }
    name
}

/// Returns a ticket's name as a person would write it, or its root.
#[must_use]
pub fn name_of_ticket(ticket: &Ticket) -> String {
    match &ticket.name {
        Some(name) => name.as_ref().parent().to_string(),
        None => ticket.root.to_string(),
    }
}
