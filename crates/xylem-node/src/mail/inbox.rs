//! [`Inbox`]: received messages, and names of people.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use xylem_base::Stop;
use xylem_link::StaticKey;
use xylem_mail::{Card, MailBody, MailContent};
use xylem_mailbox::report::{message, stored};
use xylem_mailbox::{MailMessage, MailStore, Person, ReachEffort};
use xylem_object::PublisherId;
use xylem_peers::reachable::{PeerAddress, Relay};

use super::delivery;
use super::error::InboxError;
use crate::event::Event;
use crate::look_up::resolved;
use xylem_engine::{advertised, now_ms, wall_clock};

/// Received messages, and names of people.
pub struct Inbox {
    store: MailStore,
    root: PathBuf,
}

impl Inbox {
    /// Opens the mail of a store; creates it if there is none.
    ///
    /// # Errors
    /// See [`InboxError`], here and below.
    pub fn open(store: &Path) -> Result<Self, InboxError> {
        Ok(Self { store: MailStore::open(store)?, root: store.to_path_buf() })
    }

    /// Our card: what senders need to write to us. `listen`: addresses at which we will listen; wildcards become the
    /// addresses of this machine. `relay`: the relay with which we will register.
    ///
    /// # Errors
    /// See [`Inbox::open`].
    pub fn card(&self, listen: &[SocketAddr], relay: Option<&Relay>) -> Result<Card, InboxError> {
        let relay = relay.map(|relay| &relay.at);
        Ok(self.store.card(&advertised(listen), relay, wall_clock())?)
    }

    /// All messages, oldest first.
    ///
    /// # Errors
    /// See [`Inbox::open`].
    pub fn list(&self) -> Result<Vec<MailMessage>, InboxError> {
        let letters = self.store.letters()?;
        let all = letters.iter().map(|(number, letter)| message(&self.store, *number, letter));
        Ok(all.collect::<Result<_, _>>()?)
    }

    /// One message.
    ///
    /// # Errors
    /// See [`InboxError`].
    pub fn message(&self, number: u32) -> Result<MailMessage, InboxError> {
        Ok(message(&self.store, number, &self.store.letter(number)?)?)
    }

    /// Marks a message as accepted. If it brought a ticket, notifies its sender, if that peer is still up. Returns
    /// whether the sender received the notice.
    ///
    /// # Errors
    /// See [`Inbox::message`].
    pub fn accepted(
        &self,
        number: u32,
        reach: ReachEffort,
        stop: &Stop,
    ) -> Result<bool, InboxError> {
        let letter = self.store.letter(number)?;
        self.store.accept(number)?;
        let MailContent::Ticket(ticket) = &letter.body.content else { return Ok(false) };
        // Only the ticket's publisher listens for the notice; other senders merely forwarded the ticket.
        if ticket.publisher != letter.from.publisher {
            return Ok(false);
        }
        let content = MailContent::Fetched(letter.envelope);
        let body = MailBody { content, name: String::new(), size: 0, sent_ms: now_ms() };
        let Ok(envelope) = self.store.answer(&letter, &body, wall_clock()) else {
            return Ok(false);
        };
        let peer = |address| PeerAddress::Link { address, key: Some(letter.from.link.0) };
        let mut target: Vec<PeerAddress> =
            resolved(&ticket.addresses).0.into_iter().map(peer).collect();
        let relays: Vec<Relay> = ticket.relays.iter().cloned().map(Relay::from).collect();
        target.extend(delivery::through(&relays, letter.from.link.0));
        let ways = delivery::DeliveryReach { reach, relays: &relays };
        delivery::hand_one(envelope, &target, ways, stop)
    }

    /// Removes a message.
    ///
    /// # Errors
    /// See [`Inbox::message`].
    pub fn discard(&self, number: u32) -> Result<(), InboxError> {
        Ok(self.store.drop_letter(number)?)
    }

    /// Gives a person a name.
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

    /// Removes a name.
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

    /// Fetches the messages that a node keeps for us. Returns how many are new.
    ///
    /// # Errors
    /// See [`InboxError`].
    pub fn collect(
        &self,
        from: &[PeerAddress],
        reach: ReachEffort,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<usize, InboxError> {
        let link = xylem_keys::load_or_create(&self.root.join("keys").join("link"))?;
        let link = StaticKey::from_bytes(link);
        delivery::collect(&self.store, link, from, reach.into(), stop, on_event)
    }

    /// Tries once to hand over the outbox, asks for receipts, and reports which messages nodes still keep. Returns how
    /// many messages are not known to have reached their receivers.
    ///
    /// # Errors
    /// See [`InboxError`].
    pub fn deliver(
        &self,
        reach: ReachEffort,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<usize, InboxError> {
        let left = delivery::deliver(&self.store, None, reach.into(), stop, on_event)?;
        for parcel in self.store.outbox(wall_clock())?.stored {
            on_event(Event::Mail(stored(&parcel)));
        }
        Ok(left)
    }
}
