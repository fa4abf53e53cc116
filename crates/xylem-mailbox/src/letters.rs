//! Received messages, in [`MailStore`].

use xylem_mail::{Card, Party};

use super::entries::{Letter, MAX_FILE};
use super::error::MailStoreError;
use super::store::{EnvelopeOutcome, MailStore, damaged};

/// Most messages that are kept.
const MAX_LETTERS: usize = 1_024;
/// Most messages among these by authors without a local name.
pub(super) const MAX_STRANGERS_LETTERS: usize = 64;
/// Prefix of the files of messages without a number.
pub(super) const PENDING: &str = ".pending-";

impl MailStore {
    /// Numbers a message that is safely stored, and makes it visible.
    pub(super) fn publish_pending(&self, pending: &str) -> Result<EnvelopeOutcome, MailStoreError> {
        let bytes = self.folder.read(pending, MAX_FILE)?.unwrap_or_default();
        let letter = Letter::decode(&bytes).ok_or_else(|| damaged(pending))?;
        // Numbers are not reused, so that an earlier list stays valid.
        let last = self.folder.read("last-number", 16)?;
        let last = last.and_then(|text| std::str::from_utf8(&text).ok()?.trim().parse().ok());
        // A damaged message keeps its number, too.
        let there = self.folder.list("inbox")?.iter().filter_map(|name| name.parse().ok()).max();
        let number = last.max(there).unwrap_or(0u32).wrapping_add(1).max(1);
        self.folder.write("last-number", format!("{number}\n").as_bytes())?;
        self.folder.rename(pending, &letter_file(number))?;
        Ok(EnvelopeOutcome::New(number, letter))
    }

    /// Returns whether one more message by this author may be kept beside these.
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

    /// Returns the received messages, by number.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn letters(&self) -> Result<Vec<(u32, Letter)>, MailStoreError> {
        let _locked = self.folder.lock()?;
        self.recover()?;
        self.letters_locked()
    }

    /// Makes messages visible that a crash kept back, though their sessions have recorded them.
    fn recover(&self) -> Result<(), MailStoreError> {
        for name in self.folder.list("inbox")?.iter().filter(|name| name.starts_with(PENDING)) {
            let pending = format!("inbox/{name}");
            if let Some(bytes) = self.folder.read(&pending, MAX_FILE)?
                && let Some(letter) = Letter::decode(&bytes)
                && self.session(letter.session)?.is_some_and(|s| s.has(letter.envelope))
            {
                self.publish_pending(&pending)?;
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

    /// Returns one message.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn letter(&self, number: u32) -> Result<Letter, MailStoreError> {
        let _locked = self.folder.lock()?;
        let bytes = self.folder.read(&letter_file(number), MAX_FILE)?;
        let bytes = bytes.ok_or(MailStoreError::NoMessage(number))?;
        Letter::decode(&bytes).ok_or_else(|| damaged(&letter_file(number)))
    }

    /// Marks a message as accepted.
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

    /// Removes a message. A stranger's session ends with the last of its messages, which makes room for others.
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

    /// Returns the newest card of a letter's author.
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
