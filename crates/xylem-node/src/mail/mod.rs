//! Mail: [`send`] hands a ticket or a note to one peer, end-to-end encrypted; [`Inbox`] is what came.
//!
//! Messages are xylem-mail's; they wait in `STORE/mail` (formats: docs/spec/mail.md) until the receiver,
//! or a node that keeps mail for it, has confirmed that it stored them. Whatever runs beside (a share,
//! a node) takes mail in as well.

mod delivery;
mod error;
mod event;
mod framed_stream;
mod send;
mod server;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use xylem_link::StaticKey;
use xylem_mail::{Body, Card, CardError, Content, EnvelopeId, Party, SCHEME};
use xylem_object::{PublisherId, Ticket};

use crate::addresses::advertised;
use crate::event::Event;
use crate::peer::Peer;
use xylem_library::clock::now_ms;
use xylem_library::identity;
use xylem_library::mail::MailStore;
use xylem_library::mail::entries::{Letter, Parcel, Route, hex};
use xylem_library::{Error, Stop};

pub use error::{InboxError, SendError};
pub use event::{MailEvent, Message, MessageContent};
pub use send::{Mail, SendOptions, SendSummary, listen, send};

pub(crate) use delivery::while_delivering;
pub(crate) use server::MailServer;

/// What came, and who is who.
pub struct Inbox {
    store: MailStore,
    root: PathBuf,
}

impl Inbox {
    /// Opens the mail of a store, or begins it.
    ///
    /// # Errors
    /// See [`InboxError`]; so for all below.
    pub fn open(store: &Path) -> Result<Self, InboxError> {
        Ok(Self { store: MailStore::open(store)?, root: store.to_path_buf() })
    }

    /// Our card: what others need to write to us. `listen`: where we will listen; wildcards become
    /// the addresses of this machine.
    ///
    /// # Errors
    /// See [`Inbox::open`].
    pub fn card(&self, listen: &[SocketAddr]) -> Result<Card, InboxError> {
        Ok(self.store.card(&advertised(listen))?)
    }

    /// All messages, oldest first.
    ///
    /// # Errors
    /// See [`Inbox::open`].
    pub fn list(&self) -> Result<Vec<Message>, InboxError> {
        let letters = self.store.letters()?;
        let all = letters.iter().map(|(number, letter)| message(&self.store, *number, letter));
        Ok(all.collect::<Result<_, _>>()?)
    }

    /// One message.
    ///
    /// # Errors
    /// See [`InboxError`].
    pub fn message(&self, number: u32) -> Result<Message, InboxError> {
        Ok(message(&self.store, number, &self.store.letter(number)?)?)
    }

    /// Marks a message as accepted and, if it brought a ticket, tells its sender, if that is still
    /// there. True if it was told.
    ///
    /// # Errors
    /// See [`Inbox::message`].
    pub fn accepted(
        &self,
        number: u32,
        give_up: Duration,
        stop: &Stop,
    ) -> Result<bool, InboxError> {
        let letter = self.store.letter(number)?;
        self.store.accept(number)?;
        let Content::Ticket(ticket) = &letter.body.content else { return Ok(false) };
        // The ticket's publisher is whose share listens; another's ticket was only passed on.
        if ticket.link_key != Some(letter.from.link.0) {
            return Ok(false);
        }
        let content = Content::Fetched(letter.envelope);
        let body = Body { content, name: String::new(), size: 0, sent_ms: now_ms() };
        let Ok(envelope) = self.store.answer(&letter, &body) else { return Ok(false) };
        let peer =
            |address: &SocketAddr| Peer::Link { address: *address, key: Some(letter.from.link.0) };
        let target: Vec<Peer> = ticket.addresses.iter().map(peer).collect();
        Ok(delivery::hand_one(envelope, &target, give_up, stop)?)
    }

    /// Removes a message.
    ///
    /// # Errors
    /// See [`Inbox::message`].
    pub fn discard(&self, number: u32) -> Result<(), InboxError> {
        Ok(self.store.drop_letter(number)?)
    }

    /// Gives somebody a name.
    ///
    /// # Errors
    /// See [`InboxError`].
    pub fn trust(&self, name: &str, whom: &Person) -> Result<(), InboxError> {
        match whom {
            Person::Card(card) => Ok(self.store.name(name, card)?),
            Person::Wrote(number) => {
                let letter = self.store.letter(*number)?;
                let none = || InboxError::NoCard;
                Ok(self.store.name(name, &self.store.card_of(&letter)?.ok_or_else(none)?)?)
            }
        }
    }

    /// Takes a name away.
    ///
    /// # Errors
    /// See [`InboxError`].
    pub fn forget(&self, name: &str) -> Result<(), InboxError> {
        Ok(self.store.forget(name)?)
    }

    /// Names and publisher keys.
    ///
    /// # Errors
    /// See [`Inbox::open`].
    pub fn people(&self) -> Result<Vec<(String, PublisherId)>, InboxError> {
        let people = self.store.people()?;
        Ok(people.into_iter().map(|(n, card)| (n, card.party.publisher)).collect())
    }

    /// Fetches what waits for us at a node. Returns how many messages were new.
    ///
    /// # Errors
    /// See [`InboxError`].
    pub fn collect(
        &self,
        from: &[Peer],
        give_up: Duration,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<usize, InboxError> {
        let link = identity::load_or_create(&self.root.join("keys").join("link"))?;
        let link = StaticKey::from_bytes(link);
        delivery::collect(&self.store, link, from, give_up, stop, on_event)
    }

    /// Hands over what waits, once; returns how many messages still wait.
    ///
    /// # Errors
    /// See [`InboxError`].
    pub fn deliver(
        &self,
        give_up: Duration,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<usize, InboxError> {
        Ok(delivery::deliver(&self.store, None, give_up, stop, on_event)?)
    }
}

/// Somebody who gets a name here.
#[derive(Clone, Debug)]
pub enum Person {
    /// Whose card this is.
    Card(Box<Card>),
    /// Who wrote the message of this number.
    Wrote(u32),
}

impl FromStr for Person {
    type Err = CardError;

    fn from_str(text: &str) -> Result<Self, CardError> {
        match text.parse() {
            Ok(number) => Ok(Self::Wrote(number)),
            Err(_) => text.parse().map(|card| Self::Card(Box::new(card))),
        }
    }
}

/// To whom a message goes.
#[derive(Clone, Debug)]
pub enum Recipient {
    /// Whose card this is.
    Card(Box<Card>),
    /// Who has this name here, given by [`Inbox::trust`].
    Named(String),
}

impl FromStr for Recipient {
    type Err = CardError;

    fn from_str(text: &str) -> Result<Self, CardError> {
        let scheme = text.get(..SCHEME.len()).unwrap_or_default();
        if scheme.eq_ignore_ascii_case(SCHEME) {
            return text.parse().map(|card| Self::Card(Box::new(card)));
        }
        Ok(Self::Named(text.to_owned()))
    }
}

/// The card of somebody, and what to call them.
fn find(store: &MailStore, whom: &Recipient) -> Result<(Card, String), SendError> {
    let peer = match whom {
        Recipient::Card(card) => {
            let name = called(store, &card.party)?.0;
            return Ok(((**card).clone(), name));
        }
        Recipient::Named(name) => name,
    };
    let found = store.people()?.into_iter().find(|(name, _)| name == peer);
    let found = found.map(|(name, card)| (card, name));
    found.ok_or_else(|| SendError::Unknown(peer.clone()))
}

/// What somebody is called, and whether that is a name.
fn called(store: &MailStore, party: &Party) -> Result<(String, bool), Error> {
    let name = store.name_of(party)?;
    let known = name.is_some();
    Ok((name.unwrap_or_else(|| format!("?{}", party.publisher.key_id())), known))
}

fn message(store: &MailStore, number: u32, letter: &Letter) -> Result<Message, Error> {
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

fn arrived(store: &MailStore, number: u32, letter: &Letter) -> Result<Event, Error> {
    Ok(Event::Mail(MailEvent::Arrived(message(store, number, letter)?)))
}

fn fetched(store: &MailStore, id: EnvelopeId, by: &Party) -> Result<Event, Error> {
    let by = called(store, by)?.0;
    Ok(Event::Mail(MailEvent::Fetched { by, id }))
}

fn delivered(parcel: &Parcel) -> Event {
    let direct = matches!(parcel.route, Route::Direct(_));
    let (to, id) = (parcel.name.clone(), parcel.id());
    Event::Mail(MailEvent::Delivered { to, id, direct })
}

fn waiting(parcel: &Parcel, why: &str, gone: bool) -> Event {
    let (to, id) = (parcel.name.clone(), parcel.id());
    Event::Mail(MailEvent::Waiting { to, id, why: why.to_owned(), gone })
}

/// A ticket's name as a person would call it.
fn name_of_ticket(ticket: &Ticket) -> String {
    ticket.name.as_ref().parent().to_string()
}
