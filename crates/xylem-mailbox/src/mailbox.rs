//! [`Mailbox`]: the envelopes that a node keeps for other peers until they fetch them, in `STORE/mailbox`.
//!
//! An envelope shows the node the receiver's mailbox and a length, but no sender. The number, size and age of envelopes
//! are limited. A peer that proves the key of a mailbox can read and empty it.

use std::path::Path;
use std::time::Duration;

use xylem_base::{UnixTime, disk, hex};
use xylem_mail::protocol::DeliveryStatus;
use xylem_mail::{EnvelopeId, MAX_ENVELOPE, MailboxId, mailbox_of};

use super::error::MailStoreError;
use super::folder::MailFiles;

/// Limits on what a node keeps for other peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailboxConfig {
    /// Envelopes in one mailbox.
    pub each: usize,
    /// Mailboxes.
    pub mailboxes: usize,
    /// Bytes of all envelopes.
    pub bytes: u64,
    /// Age at which an envelope is removed.
    pub age: Duration,
}

impl Default for MailboxConfig {
    fn default() -> Self {
        Self {
            each: 256,
            mailboxes: 4_096,
            bytes: 256 << 20,
            age: Duration::from_secs(30 * 86_400),
        }
    }
}

/// The mailboxes of a node.
pub struct Mailbox {
    folder: MailFiles,
    limits: MailboxConfig,
    mailboxes: usize,
    bytes: u64,
}

impl Mailbox {
    /// Opens the mailboxes, and removes expired envelopes.
    ///
    /// # Errors
    /// The files cannot be read or made; the same holds for all functions below.
    pub fn open(
        store: &Path,
        limits: MailboxConfig,
        now: UnixTime,
    ) -> Result<Self, MailStoreError> {
        let folder = MailFiles::open(disk(), store.join("mailbox"), &[])?;
        let mut mailbox = Self { folder, limits, mailboxes: 0, bytes: 0 };
        mailbox.count_and_expire(now)?;
        Ok(mailbox)
    }

    /// Counts mailboxes and bytes, and removes expired envelopes.
    fn count_and_expire(&mut self, now: UnixTime) -> Result<(), MailStoreError> {
        (self.mailboxes, self.bytes) = (0, 0);
        let oldest = now.seconds().saturating_sub(self.limits.age.as_secs());
        for owner in self.folder.list("")? {
            let mut any = false;
            // One that can't be read is not an empty one.
            let Ok(names) = self.folder.list(&owner) else {
                self.mailboxes += 1;
                continue;
            };
            for name in names {
                let file = format!("{owner}/{name}");
                let Some((size, written_s)) = self.folder.size_and_time(&file) else { continue };
                if u64::try_from(written_s).is_ok_and(|written_s| written_s < oldest) {
                    self.folder.remove(&file)?;
                } else {
                    (any, self.bytes) = (true, self.bytes + size);
                }
            }
            if any {
                self.mailboxes += 1;
            } else {
                self.folder.remove_directory(&owner);
            }
        }
        Ok(())
    }

    /// Stores an envelope; it is on the disk when this returns [`DeliveryStatus::Stored`].
    ///
    /// # Errors
    /// See [`Mailbox::open`].
    pub fn put(
        &mut self,
        envelope: &[u8],
        now: UnixTime,
    ) -> Result<DeliveryStatus, MailStoreError> {
        let Some(owner) = mailbox_of(envelope) else { return Ok(DeliveryStatus::Refused) };
        let owner = hex(&owner.0);
        let file = format!("{owner}/{}", hex(&EnvelopeId::of(envelope).0));
        let there = self.folder.list(&owner)?;
        if self.folder.read(&file, 1)?.is_some() {
            return Ok(DeliveryStatus::Stored);
        }
        let fits = |it: &Self| it.bytes + envelope.len() as u64 <= it.limits.bytes;
        if !fits(self) {
            self.count_and_expire(now)?;
        }
        let is_new = there.is_empty();
        let full = there.len() >= self.limits.each
            || (is_new && self.mailboxes >= self.limits.mailboxes)
            || !fits(self);
        if full {
            return Ok(DeliveryStatus::Full);
        }
        if is_new {
            self.folder.make_directory(&owner)?;
            self.mailboxes += 1;
        }
        self.folder.write(&file, envelope)?;
        self.bytes += envelope.len() as u64;
        Ok(DeliveryStatus::Stored)
    }

    /// Lists the files of the envelopes in a mailbox.
    ///
    /// # Errors
    /// See [`Mailbox::open`].
    pub fn list(&self, owner: MailboxId) -> Result<Vec<String>, MailStoreError> {
        let owner = hex(&owner.0);
        let names = self.folder.list(&owner)?;
        Ok(names.into_iter().map(|name| format!("{owner}/{name}")).collect())
    }

    /// Reads one of these files; `None` if it is gone.
    ///
    /// # Errors
    /// See [`Mailbox::open`].
    pub fn read(&self, file: &str) -> Result<Option<Vec<u8>>, MailStoreError> {
        Ok(self.folder.read(file, MAX_ENVELOPE)?.map(|bytes| bytes.to_vec()))
    }

    /// Removes an envelope that its owner has fetched.
    ///
    /// # Errors
    /// See [`Mailbox::open`].
    pub fn remove(&mut self, owner: MailboxId, envelope: EnvelopeId) -> Result<(), MailStoreError> {
        let owner = hex(&owner.0);
        let file = format!("{owner}/{}", hex(&envelope.0));
        let Some((size, _)) = self.folder.size_and_time(&file) else { return Ok(()) };
        self.folder.remove(&file)?;
        self.bytes = self.bytes.saturating_sub(size);
        if self.folder.list(&owner)?.is_empty() {
            self.folder.remove_directory(&owner);
            self.mailboxes = self.mailboxes.saturating_sub(1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_mail::ENVELOPE_OVERHEAD;

    /// Before every file was written: none has expired.
    const NOW: UnixTime = UnixTime::new(Duration::from_secs(0));

    fn envelope(owner: u8, n: u8) -> Vec<u8> {
        let mut bytes = vec![n; 512 + ENVELOPE_OVERHEAD];
        bytes[0] = 1;
        bytes[1..17].fill(owner);
        bytes
    }

    #[test]
    fn mail_waits_for_its_owner_within_limits() {
        let dir = tempfile::tempdir().unwrap();
        let size = envelope(1, 1).len() as u64;
        let limits =
            MailboxConfig { each: 3, mailboxes: 2, bytes: 5 * size, ..MailboxConfig::default() };
        let mut mailbox = Mailbox::open(dir.path(), limits, NOW).unwrap();
        assert_eq!(mailbox.put(b"no envelope", NOW).unwrap(), DeliveryStatus::Refused);
        for n in 0..3 {
            assert_eq!(mailbox.put(&envelope(1, n), NOW).unwrap(), DeliveryStatus::Stored);
        }
        assert_eq!(
            mailbox.put(&envelope(1, 0), NOW).unwrap(),
            DeliveryStatus::Stored,
            "it is there already"
        );
        assert_eq!(
            mailbox.put(&envelope(1, 3), NOW).unwrap(),
            DeliveryStatus::Full,
            "so many each"
        );
        for n in 0..2 {
            assert_eq!(mailbox.put(&envelope(2, n), NOW).unwrap(), DeliveryStatus::Stored);
        }
        assert_eq!(
            mailbox.put(&envelope(2, 2), NOW).unwrap(),
            DeliveryStatus::Full,
            "so many bytes"
        );
        // As after a restart.
        let mut mailbox = Mailbox::open(dir.path(), limits, NOW).unwrap();
        assert_eq!((mailbox.mailboxes, mailbox.bytes), (2, 5 * size));
        let (one, two) = (MailboxId([1; 16]), MailboxId([2; 16]));
        let first = mailbox.list(one).unwrap()[0].clone();
        let bytes = mailbox.read(&first).unwrap().unwrap();
        mailbox.remove(two, EnvelopeId::of(&bytes)).unwrap();
        assert_eq!(mailbox.list(one).unwrap().len(), 3, "only its owner empties it");
        mailbox.remove(one, EnvelopeId::of(&bytes)).unwrap();
        let left = [one, two].map(|owner| mailbox.list(owner).unwrap().len());
        assert_eq!(left, [2, 2]);
        assert_eq!(
            mailbox.put(&envelope(3, 0), NOW).unwrap(),
            DeliveryStatus::Full,
            "so many mailboxes"
        );
        for n in 0..2 {
            mailbox.remove(two, EnvelopeId::of(&envelope(2, n))).unwrap();
        }
        assert_eq!(mailbox.put(&envelope(3, 0), NOW).unwrap(), DeliveryStatus::Stored);
    }

    /// Its owner would otherwise learn that there is nothing.
    #[test]
    fn an_unreadable_mailbox_is_not_empty() {
        let dir = tempfile::tempdir().unwrap();
        let mut mailbox = Mailbox::open(dir.path(), MailboxConfig::default(), NOW).unwrap();
        mailbox.put(&envelope(1, 1), NOW).unwrap();
        let (one, two) = (MailboxId([1; 16]), MailboxId([2; 16]));
        assert_eq!(mailbox.list(two).unwrap(), [""; 0], "it has none");
        let envelopes = dir.path().join("mailbox").join(hex(&one.0));
        std::fs::remove_dir_all(&envelopes).unwrap();
        std::fs::write(&envelopes, b"no directory").unwrap();
        mailbox.list(one).unwrap_err();
        let mailbox = Mailbox::open(dir.path(), MailboxConfig::default(), NOW).unwrap();
        assert_eq!(mailbox.mailboxes, 1);
    }

    #[test]
    fn expired_envelopes_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mut mailbox = Mailbox::open(dir.path(), MailboxConfig::default(), NOW).unwrap();
        mailbox.put(&envelope(1, 1), NOW).unwrap();
        let written =
            dir.path().join("mailbox").join(&mailbox.list(MailboxId([1; 16])).unwrap()[0]);
        let written = written.metadata().unwrap().modified().unwrap();
        let written = written.duration_since(std::time::UNIX_EPOCH).unwrap();
        let at = |days: u64| UnixTime::new(written + Duration::from_secs(days * 86_400));
        let limits = MailboxConfig::default();
        let mailbox = Mailbox::open(dir.path(), limits, at(29)).unwrap();
        assert_eq!(mailbox.mailboxes, 1);
        let mailbox = Mailbox::open(dir.path(), limits, at(31)).unwrap();
        assert_eq!((mailbox.mailboxes, mailbox.bytes), (0, 0));
    }
}
