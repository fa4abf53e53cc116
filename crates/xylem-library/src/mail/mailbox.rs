//! [`Mailbox`]: envelopes that a node keeps for others until they fetch them, in `STORE/mailbox`.
//!
//! Of an envelope it sees the receiver's mailbox and a length, no sender. It keeps so many, so large,
//! for so long; who has proven the key of a mailbox reads and empties it.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use xylem_mail::protocol::Status;
use xylem_mail::{EnvelopeId, MAX_ENVELOPE, MailboxId, mailbox_of};

use super::disk::Disk;
use super::entries::hex;
use crate::Error;

/// What a node keeps for others, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailboxConfig {
    /// Envelopes of one mailbox.
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

/// See the module's documentation.
pub struct Mailbox {
    root: PathBuf,
    disk: Disk,
    limits: MailboxConfig,
    mailboxes: usize,
    bytes: u64,
}

impl Mailbox {
    /// Opens what is there, less what is too old.
    pub fn open(store: &Path, limits: MailboxConfig) -> Result<Self, Error> {
        let root = store.join("mailbox");
        let disk = Disk::open(root.clone(), &[])?;
        let mut mailbox = Self { root, disk, limits, mailboxes: 0, bytes: 0 };
        mailbox.take_stock()?;
        Ok(mailbox)
    }

    /// Counts, and removes what is too old.
    fn take_stock(&mut self) -> Result<(), Error> {
        (self.mailboxes, self.bytes) = (0, 0);
        let now = SystemTime::now();
        for owner in self.disk.list("")? {
            let mut any = false;
            for name in self.disk.list(&owner).unwrap_or_default() {
                let file = format!("{owner}/{name}");
                let Ok(meta) = self.root.join(&file).metadata() else { continue };
                let age = meta.modified().ok().and_then(|at| now.duration_since(at).ok());
                if age.is_some_and(|age| age > self.limits.age) {
                    self.disk.remove(&file)?;
                } else {
                    (any, self.bytes) = (true, self.bytes + meta.len());
                }
            }
            if any {
                self.mailboxes += 1;
            } else {
                self.disk.remove_directory(&owner);
            }
        }
        Ok(())
    }

    /// Keeps an envelope; it is on the disk when this says so.
    pub fn put(&mut self, envelope: &[u8]) -> Result<Status, Error> {
        let Some(owner) = mailbox_of(envelope) else { return Ok(Status::Refused) };
        let owner = hex(&owner.0);
        let file = format!("{owner}/{}", hex(&EnvelopeId::of(envelope).0));
        let there = self.disk.list(&owner)?;
        if self.disk.read(&file, 1)?.is_some() {
            return Ok(Status::Stored);
        }
        let fits = |it: &Self| it.bytes + envelope.len() as u64 <= it.limits.bytes;
        if !fits(self) {
            self.take_stock()?;
        }
        let is_new = there.is_empty();
        let full = there.len() >= self.limits.each
            || (is_new && self.mailboxes >= self.limits.mailboxes)
            || !fits(self);
        if full {
            return Ok(Status::Full);
        }
        if is_new {
            self.disk.make_directory(&owner)?;
            self.mailboxes += 1;
        }
        self.disk.write(&file, envelope)?;
        self.bytes += envelope.len() as u64;
        Ok(Status::Stored)
    }

    /// What waits for somebody.
    pub fn list(&self, owner: MailboxId) -> Vec<String> {
        let owner = hex(&owner.0);
        let names = self.disk.list(&owner).unwrap_or_default();
        names.into_iter().map(|name| format!("{owner}/{name}")).collect()
    }

    /// One of them; `None` if it is gone.
    pub fn read(&self, file: &str) -> Option<Vec<u8>> {
        let bytes = self.disk.read(file, MAX_ENVELOPE).ok()??;
        Some(bytes.to_vec())
    }

    /// Its owner has it.
    pub fn taken(&mut self, owner: MailboxId, envelope: EnvelopeId) -> Result<(), Error> {
        let owner = hex(&owner.0);
        let file = format!("{owner}/{}", hex(&envelope.0));
        let Ok(meta) = self.root.join(&file).metadata() else { return Ok(()) };
        self.disk.remove(&file)?;
        self.bytes = self.bytes.saturating_sub(meta.len());
        if self.disk.list(&owner)?.is_empty() {
            self.disk.remove_directory(&owner);
            self.mailboxes = self.mailboxes.saturating_sub(1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_mail::ENVELOPE_OVERHEAD;

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
        let mut mailbox = Mailbox::open(dir.path(), limits).unwrap();
        assert_eq!(mailbox.put(b"no envelope").unwrap(), Status::Refused);
        for n in 0..3 {
            assert_eq!(mailbox.put(&envelope(1, n)).unwrap(), Status::Stored);
        }
        assert_eq!(mailbox.put(&envelope(1, 0)).unwrap(), Status::Stored, "it is there already");
        assert_eq!(mailbox.put(&envelope(1, 3)).unwrap(), Status::Full, "so many each");
        for n in 0..2 {
            assert_eq!(mailbox.put(&envelope(2, n)).unwrap(), Status::Stored);
        }
        assert_eq!(mailbox.put(&envelope(2, 2)).unwrap(), Status::Full, "so many bytes");
        // As after a restart.
        let mut mailbox = Mailbox::open(dir.path(), limits).unwrap();
        assert_eq!((mailbox.mailboxes, mailbox.bytes), (2, 5 * size));
        let (one, two) = (MailboxId([1; 16]), MailboxId([2; 16]));
        let first = mailbox.list(one)[0].clone();
        let bytes = mailbox.read(&first).unwrap();
        mailbox.taken(two, EnvelopeId::of(&bytes)).unwrap();
        assert_eq!(mailbox.list(one).len(), 3, "only its owner empties it");
        mailbox.taken(one, EnvelopeId::of(&bytes)).unwrap();
        assert_eq!((mailbox.list(one).len(), mailbox.list(two).len()), (2, 2));
        assert_eq!(mailbox.put(&envelope(3, 0)).unwrap(), Status::Full, "so many mailboxes");
        for n in 0..2 {
            mailbox.taken(two, EnvelopeId::of(&envelope(2, n))).unwrap();
        }
        assert_eq!(mailbox.put(&envelope(3, 0)).unwrap(), Status::Stored);
    }

    #[test]
    fn what_is_too_old_goes() {
        let dir = tempfile::tempdir().unwrap();
        let mut mailbox = Mailbox::open(dir.path(), MailboxConfig::default()).unwrap();
        mailbox.put(&envelope(1, 1)).unwrap();
        let file = dir.path().join("mailbox").join(&mailbox.list(MailboxId([1; 16]))[0]);
        let long_ago = SystemTime::now() - Duration::from_secs(31 * 86_400);
        std::fs::File::options().write(true).open(file).unwrap().set_modified(long_ago).unwrap();
        let mailbox = Mailbox::open(dir.path(), MailboxConfig::default()).unwrap();
        assert_eq!((mailbox.mailboxes, mailbox.bytes), (0, 0));
    }
}
