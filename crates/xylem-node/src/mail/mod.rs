//! Mail: [`send`] hands a ticket or a note to one peer, end-to-end encrypted; [`Inbox`] is what came.
//!
//! Messages are xylem-mail's; they wait in `STORE/mail` (formats: docs/spec/mail.md) until the receiver,
//! or a node that keeps mail for it, has confirmed that it stored them. Whatever runs beside (a share,
//! a node) takes mail in as well.

mod delivery;
mod framed_stream;
mod send;
mod server;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use xylem_link::StaticKey;
use xylem_mail::{Body, Card, Content, EnvelopeId, Party, SCHEME};
use xylem_object::Ticket;

use crate::addresses::advertised;
use crate::api::{Event, Peer};
use crate::clock::{now_ms, wall_clock};
use crate::failure;
use xylem_library::keys;
use xylem_library::mail::MailStore;
use xylem_library::mail::{Letter, Parcel, Route, hex};
use xylem_library::{Error, Stop};

pub use send::{Mail, SendOptions, SendSummary, listen, send};

pub(crate) use delivery::while_delivering;
pub(crate) use server::MailServer;

/// What happens with mail.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum MailEvent {
    /// Something came.
    Arrived(Message),
    /// A message is where it waits to be delivered.
    Queued {
        /// The receiver's name here, or the beginning of its key.
        to: String,
        /// The envelope's id, hexadecimal.
        id: String,
    },
    /// A message is where it should be, or at the node that keeps it for its receiver.
    Delivered {
        /// As above.
        to: String,
        /// As above.
        id: String,
        /// The receiver itself has it.
        direct: bool,
    },
    /// A message still has to be delivered, or, `gone`, never will be.
    Waiting {
        /// As above.
        to: String,
        /// As above.
        id: String,
        /// What hinders.
        why: String,
        /// It does not wait any more.
        gone: bool,
    },
    /// The receiver of a message has fetched what it named.
    Fetched {
        /// Its name here, or the beginning of its key.
        by: String,
        /// The envelope's id, hexadecimal.
        id: String,
    },
}

/// A message that came.
#[derive(Clone, Debug)]
pub struct Message {
    /// By which it is accepted or dropped.
    pub number: u32,
    /// The sender's name here, or the beginning of its key. Whose key it is has been proven.
    pub from: String,
    /// Whether the sender has a name here.
    pub known: bool,
    /// The sender's publisher key, hexadecimal.
    pub publisher: String,
    /// What the sender calls it; anything may stand there.
    pub name: String,
    /// Bytes, as the sender says.
    pub size: u64,
    /// When it was written, in ms since 1970, as the sender says.
    pub sent_ms: u64,
    /// When it came.
    pub received_ms: u64,
    /// It was accepted before.
    pub accepted: bool,
    /// What it brings.
    pub what: MessageContent,
}

/// What a message brings.
#[derive(Clone, Debug)]
pub enum MessageContent {
    /// `xylem:…`
    Ticket(String),
    /// Text.
    Note(String),
}

/// What came, and who is who.
pub struct Inbox {
    store: MailStore,
    root: PathBuf,
}

impl Inbox {
    /// Opens the mail of a store, or begins it.
    ///
    /// # Errors
    /// [`crate::Blame::Local`] if it can't be read or made; so for all below.
    pub fn open(store: &Path) -> Result<Self, Error> {
        Ok(Self { store: MailStore::open(store)?, root: store.to_path_buf() })
    }

    /// Our card: what others need to write to us. `listen`: where we will listen; wildcards become
    /// the addresses of this machine.
    ///
    /// # Errors
    /// See [`Inbox::open`].
    pub fn card(&self, listen: &[SocketAddr]) -> Result<String, Error> {
        Ok(self.store.card(&advertised(listen), wall_clock())?.to_string())
    }

    /// All messages, oldest first.
    ///
    /// # Errors
    /// See [`Inbox::open`].
    pub fn list(&self) -> Result<Vec<Message>, Error> {
        let letters = self.store.letters()?;
        letters.iter().map(|(number, letter)| message(&self.store, *number, letter)).collect()
    }

    /// One message.
    ///
    /// # Errors
    /// [`crate::Blame::Usage`] if there is none of this number.
    pub fn message(&self, number: u32) -> Result<Message, Error> {
        message(&self.store, number, &self.store.letter(number)?)
    }

    /// Marks a message as accepted and, if it brought a ticket, tells its sender, if that is still
    /// there. True if it was told.
    ///
    /// # Errors
    /// See [`Inbox::message`].
    pub fn accepted(&self, number: u32, give_up: Duration, stop: &Stop) -> Result<bool, Error> {
        let letter = self.store.letter(number)?;
        self.store.accept(number)?;
        let Content::Ticket(ticket) = &letter.body.content else { return Ok(false) };
        // The ticket's publisher is whose share listens; another's ticket was only passed on.
        if ticket.link_key != Some(letter.from.link.0) {
            return Ok(false);
        }
        let content = Content::Fetched(letter.envelope);
        let body = Body { content, name: String::new(), size: 0, sent_ms: now_ms() };
        let Ok(envelope) = self.store.answer(&letter, &body, wall_clock()) else {
            return Ok(false);
        };
        let peer =
            |address: &SocketAddr| Peer::Link { address: *address, key: Some(letter.from.link.0) };
        let target: Vec<Peer> = ticket.addresses.iter().map(peer).collect();
        delivery::hand_one(envelope, &target, give_up, stop)
    }

    /// Removes a message.
    ///
    /// # Errors
    /// See [`Inbox::message`].
    pub fn discard(&self, number: u32) -> Result<(), Error> {
        Ok(self.store.drop_letter(number)?)
    }

    /// Gives somebody a name: by a card, or by the number of a message that they wrote.
    ///
    /// # Errors
    /// [`crate::Blame::Usage`] for a bad name or card, or a name that somebody else has.
    pub fn trust(&self, name: &str, card: &str) -> Result<(), Error> {
        let card = match card.parse::<u32>() {
            Ok(number) => {
                let letter = self.store.letter(number)?;
                let none = || failure::usage("the card of who wrote it is not known; ask for one");
                self.store.card_of(&letter)?.ok_or_else(none)?
            }
            Err(_) => parse_card(card)?,
        };
        Ok(self.store.name(name, &card)?)
    }

    /// Takes a name away.
    ///
    /// # Errors
    /// [`crate::Blame::Usage`] if nobody has it.
    pub fn forget(&self, name: &str) -> Result<(), Error> {
        Ok(self.store.forget(name)?)
    }

    /// Names and publisher keys, hexadecimal.
    ///
    /// # Errors
    /// See [`Inbox::open`].
    pub fn people(&self) -> Result<Vec<(String, String)>, Error> {
        let people = self.store.people()?;
        Ok(people.into_iter().map(|(n, card)| (n, card.party.publisher.to_string())).collect())
    }

    /// Fetches what waits for us at a node. Returns how many messages were new.
    ///
    /// # Errors
    /// [`crate::Blame::Network`] if it can't be reached or keeps no mail.
    pub fn collect(
        &self,
        from: &[Peer],
        give_up: Duration,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<usize, Error> {
        let link = keys::load_or_create(&self.root.join("keys").join("link"))?;
        let link = StaticKey::from_bytes(link);
        delivery::collect(&self.store, link, from, give_up, stop, on_event)
    }

    /// Hands over what waits, once; returns how many messages still wait.
    ///
    /// # Errors
    /// [`crate::Blame::Local`] for trouble of this machine.
    pub fn deliver(
        &self,
        give_up: Duration,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<usize, Error> {
        delivery::deliver(&self.store, None, give_up, stop, on_event)
    }
}

fn parse_card(text: &str) -> Result<Card, Error> {
    text.parse().map_err(|e: xylem_mail::CardError| failure::usage(e.to_string()))
}

/// Who a name or a card means, and what to call it.
fn find(store: &MailStore, peer: &str) -> Result<(Card, String), Error> {
    let prefix = peer.get(..SCHEME.len()).unwrap_or_default();
    if prefix.eq_ignore_ascii_case(SCHEME) {
        let card = parse_card(peer)?;
        let name = called(store, &card.party)?.0;
        return Ok((card, name));
    }
    let found = store.people()?.into_iter().find(|(name, _)| name == peer);
    found.map(|(name, card)| (card, name)).ok_or_else(|| {
        failure::usage(format!(
            "nobody is called {peer} here; give a card (xylem-peer:...), or name its owner with \
             `xylem inbox trust {peer} CARD`"
        ))
    })
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
        Content::Ticket(ticket) => MessageContent::Ticket(ticket.to_string()),
        Content::Note(text) => MessageContent::Note(text.clone()),
        Content::Fetched(id) => MessageContent::Note(format!("fetched {}", hex(&id.0))),
    };
    Ok(Message {
        number,
        from,
        known,
        publisher: letter.from.publisher.to_string(),
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
    Ok(Event::Mail(MailEvent::Fetched { by, id: hex(&id.0) }))
}

fn delivered(parcel: &Parcel) -> Event {
    let direct = matches!(parcel.route, Route::Direct(_));
    let (to, id) = (parcel.name.clone(), hex(&parcel.id().0));
    Event::Mail(MailEvent::Delivered { to, id, direct })
}

fn waiting(parcel: &Parcel, why: &str, gone: bool) -> Event {
    let (to, id) = (parcel.name.clone(), hex(&parcel.id().0));
    Event::Mail(MailEvent::Waiting { to, id, why: why.to_owned(), gone })
}

/// A ticket's name as a person would call it.
fn name_of_ticket(ticket: &Ticket) -> String {
    ticket.name.as_ref().parent().to_string()
}
