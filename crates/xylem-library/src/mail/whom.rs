//! [`Recipient`] and [`Person`]: who is meant, by a card, a name given here, or a message; [`Reach`]: how
//! hard somebody is tried to be reached.

use std::str::FromStr;
use std::time::Duration;

use xylem_mail::{Card, CardError, SCHEME};

use super::report::called;
use super::store::MailStore;
use crate::error::Error;

/// How a node is tried to be reached that takes or keeps mail.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// Give up after this long.
    pub give_up: Duration,
    /// Also ask, openly, who is there: see `xylem_link::Config`.
    pub ask_who_answers: bool,
}

impl Reach {
    /// Within this time, and without showing anybody what is wanted.
    pub const fn within(give_up: Duration) -> Self {
        Self { give_up, ask_who_answers: false }
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
    /// Who has this name here, given by whoever trusts them.
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

/// The card of somebody, and what to call them; the name back where nobody has it.
///
/// # Errors
/// The store's.
pub fn find(store: &MailStore, whom: &Recipient) -> Result<Result<(Card, String), String>, Error> {
    let peer = match whom {
        Recipient::Card(card) => {
            let name = called(store, &card.party)?.0;
            return Ok(Ok(((**card).clone(), name)));
        }
        Recipient::Named(name) => name,
    };
    let found = store.people()?.into_iter().find(|(name, _)| name == peer);
    let found = found.map(|(name, card)| (card, name));
    Ok(found.ok_or_else(|| peer.clone()))
}
