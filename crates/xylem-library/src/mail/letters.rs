//! Messages that came, in [`MailStore`].

use xylem_mail::{Card, Party};

use super::entries::{Letter, MAX_FILE};
use super::error::MailStoreError;
use super::store::{Incoming, MailStore, damaged};

/// Messages that are kept at most.
const MAX_LETTERS: usize = 1_024;
/// Of these, messages of people who have no name here.
pub(super) const MAX_STRANGERS_LETTERS: usize = 64;
/// Begins the names of messages that have no number yet.
pub(super) const PENDING: &str = ".pending-";

impl MailStore {
    /// Gives a message that is safe its number.
    pub(super) fn show(&self, pending: &str) -> Result<Incoming, MailStoreError> {
        let bytes = self.folder.read(pending, MAX_FILE)?.unwrap_or_default();
        let letter = Letter::decode(&bytes).ok_or_else(|| damaged(pending))?;
        // Numbers are not used again, so that a list from before still means what it says.
        let last = self.folder.read("last-number", 16)?;
        let last = last.and_then(|text| std::str::from_utf8(&text).ok()?.trim().parse().ok());
        // A damaged message keeps its number, too.
        let there = self.folder.list("inbox")?.iter().filter_map(|name| name.parse().ok()).max();
        let number = last.max(there).unwrap_or(0u32).wrapping_add(1).max(1);
        self.folder.write("last-number", format!("{number}\n").as_bytes())?;
        self.folder.rename(pending, &letter_file(number))?;
        Ok(Incoming::New(number, letter))
    }

    /// Whether one more message of theirs may be kept beside these.
    pub(super) fn has_room(
        &self,
        from: &Party,
        letters: &[(u32, Letter)],
    ) -> Result<bool, MailStoreError> {
        let known = self.name_of(from)?.is_some();
        if known {
            return Ok(letters.len() < MAX_LETTERS);
        }
        let people = self.people()?;
        let is_stranger = |letter: &Letter| !people.iter().any(|(_, c)| c.party == letter.from);
        let strangers = letters.iter().filter(|(_, letter)| is_stranger(letter)).count();
        Ok(letters.len() < MAX_LETTERS && strangers < MAX_STRANGERS_LETTERS)
    }

    /// What came, by number.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn letters(&self) -> Result<Vec<(u32, Letter)>, MailStoreError> {
        let _locked = self.folder.lock()?;
        self.recover()?;
        self.letters_locked()
    }

    /// Shows what a crash kept from being shown though its session knows it.
    fn recover(&self) -> Result<(), MailStoreError> {
        for name in self.folder.list("inbox")?.iter().filter(|name| name.starts_with(PENDING)) {
            let pending = format!("inbox/{name}");
            if let Some(bytes) = self.folder.read(&pending, MAX_FILE)?
                && let Some(letter) = Letter::decode(&bytes)
                && self.session(letter.session)?.is_some_and(|s| s.has(letter.envelope))
            {
                self.show(&pending)?;
            }
        }
        Ok(())
    }

    pub(super) fn letters_locked(&self) -> Result<Vec<(u32, Letter)>, MailStoreError> {
        let mut found = Vec::new();
        for name in self.folder.list("inbox")? {
            let Ok(number) = name.parse() else { continue };
            if let Some(bytes) = self.folder.read(&format!("inbox/{name}"), MAX_FILE)?
                && let Some(letter) = Letter::decode(&bytes)
            {
                found.push((number, letter));
            }
        }
        Ok(found)
    }

    /// One of them.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn letter(&self, number: u32) -> Result<Letter, MailStoreError> {
        let _locked = self.folder.lock()?;
        let bytes = self.folder.read(&letter_file(number), MAX_FILE)?;
        let bytes = bytes.ok_or(MailStoreError::NoMessage(number))?;
        Letter::decode(&bytes).ok_or_else(|| damaged(&letter_file(number)))
    }

    /// Marks it as accepted.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn accept(&self, number: u32) -> Result<(), MailStoreError> {
        let letter = Letter { accepted: true, ..self.letter(number)? };
        let _locked = self.folder.lock()?;
        let file = letter_file(number);
        let bytes = letter.encode().ok_or_else(|| damaged(&file))?;
        Ok(self.folder.write(&file, &bytes)?)
    }

    /// Removes it. The conversation with a stranger ends with the last of its messages, which makes
    /// room for others.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn drop_letter(&self, number: u32) -> Result<(), MailStoreError> {
        let letter = self.letter(number)?;
        let _locked = self.folder.lock()?;
        self.folder.remove(&letter_file(number))?;
        let others = self.letters_locked()?.iter().any(|(_, l)| l.session == letter.session);
        if !others
            && self.name_of(&letter.from)?.is_none()
            && let Some(mut session) = self.session(letter.session)?
        {
            session.end();
            self.save(&session)?;
        }
        Ok(())
    }

    /// The newest card of whoever wrote a letter.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn card_of(&self, letter: &Letter) -> Result<Option<Card>, MailStoreError> {
        let _locked = self.folder.lock()?;
        Ok(self.session(letter.session)?.and_then(|session| session.card().cloned()))
    }
}

pub(super) fn letter_file(number: u32) -> String {
    format!("inbox/{number:08}")
}
