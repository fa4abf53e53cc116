//! [`Recipient`] and [`Person`]: a correspondent, given by a card, a local name, or a message. [`ReachEffort`]: the effort
//! that is made to reach a node.

use std::str::FromStr;
use std::time::Duration;

use xylem_mail::{Card, CardError, SCHEME};

use super::error::MailStoreError;
use super::report::display_name;
use super::store::MailStore;

/// Effort that is made to reach a node that accepts or keeps mail.
#[derive(Clone, Copy, Debug)]
pub struct ReachEffort {
    /// Give up after this long.
    pub give_up: Duration,
    /// Also ask openly which peer answers: see `xylem_link::LinkConfig`.
    pub ask_who_answers: bool,
    /// Local UDP port to dial from, if it is free: one that NATs already let pass.
    pub port: Option<u16>,
}

impl ReachEffort {
    /// Limits the effort to this time, and shows no observer which peer is wanted.
    pub const fn within(give_up: Duration) -> Self {
        Self { give_up, ask_who_answers: false, port: None }
    }
}

/// A person that gets a local name.
#[derive(Clone, Debug)]
pub enum Person {
    /// The owner of this card.
    Card(Box<Card>),
    /// The author of the message with this number.
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

/// Recipient of a message.
#[derive(Clone, Debug)]
pub enum Recipient {
    /// The owner of this card.
    Card(Box<Card>),
    /// The person with this local name, which the user gave.
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

/// The user has given this name to no person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRecipient(pub String);

/// Finds the card of a recipient, and the name to show.
///
/// # Errors
/// The store's.
pub fn find(
    store: &MailStore,
    whom: &Recipient,
) -> Result<Result<(Card, String), UnknownRecipient>, MailStoreError> {
    let peer = match whom {
        Recipient::Card(card) => {
            let name = display_name(store, &card.party)?.0;
            return Ok(Ok(((**card).clone(), name)));
        }
        Recipient::Named(name) => name,
    };
    let found = store.people()?.into_iter().find(|(name, _)| name == peer);
    let found = found.map(|(name, card)| (card, name));
    Ok(found.ok_or_else(|| UnknownRecipient(peer.clone())))
}
