//! People with local names, in [`MailStore`].

use xylem_mail::{Card, Party};

use super::error::MailStoreError;
use super::store::MailStore;

impl MailStore {
    /// Returns all local names, each with the card for which it was given.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn people(&self) -> Result<Vec<(String, Card)>, MailStoreError> {
        let mut people = Vec::new();
        for name in self.folder.list("people")? {
            if let Some(text) = self.folder.read(&format!("people/{name}"), 4_096)?
                && let Some(card) = std::str::from_utf8(&text).ok().and_then(|t| t.parse().ok())
            {
                people.push((name, card));
            }
        }
        Ok(people)
    }

    /// Returns the local name of a party.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn name_of(&self, party: &Party) -> Result<Option<String>, MailStoreError> {
        let found = self.people()?.into_iter().find(|(_, card)| card.party == *party);
        Ok(found.map(|(name, _)| name))
    }

    /// Gives a local name to a card's owner. A name of another person is not reassigned.
    ///
    /// # Errors
    /// [`MailStoreError::BadName`], [`MailStoreError::NameTaken`].
    pub fn name(&self, name: &str, card: &Card) -> Result<(), MailStoreError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let right = (1..=64).contains(&name.len())
            && name.chars().all(plain)
            && !name.starts_with(['.', '-']);
        if !right {
            return Err(MailStoreError::BadName);
        }
        let _locked = self.folder.lock()?;
        let people = self.people()?;
        if people.iter().any(|(n, there)| n == name && there.party != card.party) {
            return Err(MailStoreError::NameTaken(name.to_owned()));
        }
        for (other, _) in people.iter().filter(|(n, c)| n != name && c.party == card.party) {
            self.folder.remove(&format!("people/{other}"))?;
        }
        Ok(self.folder.write(&format!("people/{name}"), format!("{card}\n").as_bytes())?)
    }

    /// Removes a local name.
    ///
    /// # Errors
    /// [`MailStoreError::Nobody`].
    pub fn forget(&self, name: &str) -> Result<(), MailStoreError> {
        let _locked = self.folder.lock()?;
        if !self.people()?.iter().any(|(n, _)| n == name) {
            return Err(MailStoreError::Nobody(name.to_owned()));
        }
        Ok(self.folder.remove(&format!("people/{name}"))?)
    }
}
