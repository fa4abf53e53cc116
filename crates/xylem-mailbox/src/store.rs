//! [`MailStore`]: sessions, named people, and received and outgoing mail, in `STORE/mail`.
//!
//! The order of writes keeps three promises through a crash at any moment. A session's new state is on the disk before
//! an envelope that it made can leave, so no key is used twice. A received message is on the disk before its session's
//! new state, so none is lost. The message is shown, and its receipt sent, only after that. If a crash interrupts these
//! steps, the sender has no receipt and sends the envelope again; that completes them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use xylem_base::{UnixTime, disk, hex, random};
use xylem_keys::load_or_create;
use xylem_link::StaticKey;
use xylem_mail::protocol::DeliveryStatus;
use xylem_mail::{
    Card, EnvelopeId, MailBody, MailContent, MailError, MailIdentity, MailSession, MailboxId,
    OpenedEnvelope, Party, Prekeys, ReceivedMail, SessionId,
};
use xylem_object::PublisherKey;
use xylem_object::ticket::RelayContact;
use xylem_store::Medium;

use super::entries::Letter;
use super::error::MailStoreError;
use super::folder::{MailFiles, MailLock};
use super::letters::PENDING;

/// Most sessions, ended ones included.
const MAX_SESSIONS: usize = 4_096;
/// Most live sessions with people without a local name.
const MAX_STRANGERS_SESSIONS: usize = 64;
/// Most live sessions with one person; the oldest ends. Two are usual if both wrote first.
const MAX_SESSIONS_EACH: usize = 8;
/// Most bytes of a session's file: 2,000 kept keys, and the rest of the state.
pub(super) const MAX_SESSION: usize = 1 << 18;

/// Result of an envelope for us.
#[derive(Debug, PartialEq)]
pub enum EnvelopeOutcome {
    /// A new message, with its number.
    New(u32, Letter),
    /// It was here already.
    Again,
    /// The receiver of this envelope of ours has fetched what it named.
    Fetched(EnvelopeId, Party),
    /// It is not kept, with the reason.
    Not(DeliveryStatus),
}

/// Result of an envelope, with the answer to its sender.
#[derive(Debug, PartialEq)]
pub struct TakenIn {
    /// The result.
    pub incoming: EnvelopeOutcome,
    /// The author, and how many of its messages this envelope shows to be lost.
    pub lost: Option<(Party, u32)>,
    /// Lost messages of the session in total.
    pub lost_in_all: u32,
    /// Receipt to leave for its sender at the node that had kept it.
    pub receipt: Option<Vec<u8>>,
}

impl TakenIn {
    fn not(status: DeliveryStatus) -> Self {
        Self { incoming: EnvelopeOutcome::Not(status), lost: None, lost_in_all: 0, receipt: None }
    }
}

/// The mail of one user.
pub struct MailStore {
    pub(super) folder: MailFiles,
    pub(super) us: MailIdentity,
}

impl MailStore {
    /// Opens the mail of a store, or creates it.
    ///
    /// # Errors
    /// The files cannot be read or made; the same holds for all functions below.
    pub fn open(store: &Path) -> Result<Self, MailStoreError> {
        let keys = store.join("keys");
        let publisher = PublisherKey::from_bytes(&load_or_create(&keys.join("publisher"))?);
        let link = StaticKey::from_bytes(load_or_create(&keys.join("link"))?);
        Self::of(MailIdentity::new(publisher, link), disk(), store)
    }

    /// Opens the mail of an identity with keys outside the store.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn of(
        us: MailIdentity,
        medium: Arc<dyn Medium>,
        store: &Path,
    ) -> Result<Self, MailStoreError> {
        let directories = ["sessions", "people", "inbox", "outbox"];
        Ok(Self { folder: MailFiles::open(medium, store.join("mail"), &directories)?, us })
    }

    /// Opens the mail of a store, if there is any.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn open_existing(store: &Path) -> Result<Option<Self>, MailStoreError> {
        store.join("mail").is_dir().then(|| Self::open(store)).transpose()
    }

    /// Returns the mailbox where mail for us waits.
    pub fn mailbox(&self) -> MailboxId {
        MailboxId::of(&self.us.party().link)
    }

    pub(super) fn prekeys(
        &self,
        now: UnixTime,
        _locked: &MailLock,
    ) -> Result<Prekeys, MailStoreError> {
        let now = now.seconds();
        let saved = self.folder.read("prekeys", 4_096)?;
        let is_new = saved.is_none();
        let mut prekeys = match saved {
            None => Prekeys::new(now, random()?),
            Some(saved) => Prekeys::restore(&saved).ok_or_else(|| damaged("prekeys"))?,
        };
        if is_new || prekeys.is_due(now) {
            prekeys.rotate(now, random()?);
            self.folder.write("prekeys", &prekeys.save())?;
            self.forget_ended(&prekeys)?;
        }
        Ok(prekeys)
    }

    /// Forgets ended sessions once the messages that began them can no longer be read.
    fn forget_ended(&self, prekeys: &Prekeys) -> Result<(), MailStoreError> {
        for session in self.sessions()? {
            if !session.is_live() && prekeys.find(session.prekey()).is_none() {
                self.folder.remove(&session_file(session.id()))?;
            }
        }
        Ok(())
    }

    /// Makes our card, with these addresses.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn card(
        &self,
        addresses: &[SocketAddr],
        relay: Option<&RelayContact>,
        now: UnixTime,
    ) -> Result<Card, MailStoreError> {
        let locked = self.folder.lock()?;
        let prekeys = self.prekeys(now, &locked)?;
        Ok(self.us.card_at(prekeys.current(), now.seconds(), addresses, relay))
    }

    pub(super) fn session(&self, id: SessionId) -> Result<Option<MailSession>, MailStoreError> {
        let file = session_file(id);
        let Some(saved) = self.folder.read(&file, MAX_SESSION)? else { return Ok(None) };
        match MailSession::restore(&saved, random()?) {
            Some(session) => Ok(Some(session)),
            // The file gets another name, so that the next message begins a new session.
            None => {
                let aside = format!("damaged/{}", hex(&id.0));
                self.folder.make_directory("damaged")?;
                self.folder.rename(&file, &aside)?;
                Err(MailStoreError::SetAside { file, aside })
            }
        }
    }

    pub(super) fn save(&self, session: &MailSession) -> Result<(), MailStoreError> {
        Ok(self.folder.write(&session_file(session.id()), &session.save())?)
    }

    pub(super) fn sessions(&self) -> Result<Vec<MailSession>, MailStoreError> {
        let mut found = Vec::new();
        for name in self.folder.list("sessions")? {
            // A damaged session is reported when it is needed.
            if let Some(saved) = self.folder.read(&format!("sessions/{name}"), MAX_SESSION)?
                && let Some(session) = MailSession::restore(&saved, random()?)
            {
                found.push(session);
            }
        }
        Ok(found)
    }

    /// Seals a message to a letter's author, ready to send; it is not queued.
    ///
    /// # Errors
    /// [`MailStoreError::Seal`] if the session has ended.
    pub fn answer(
        &self,
        letter: &Letter,
        body: &MailBody,
        now: UnixTime,
    ) -> Result<Vec<u8>, MailStoreError> {
        let locked = self.folder.lock()?;
        let prekeys = self.prekeys(now, &locked)?;
        let ours = self.us.card(prekeys.current(), now.seconds(), &[]);
        let session = self.session(letter.session)?.filter(MailSession::is_live);
        let mut session = session.ok_or(MailError::Ended)?;
        let sealed = session.seal(&self.us, &ours, body, random()?)?;
        self.save(&session)?;
        Ok(sealed)
    }

    /// Opens an envelope and stores its content. The result may be acknowledged.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn take_in(&self, envelope: &[u8], now: UnixTime) -> Result<TakenIn, MailStoreError> {
        let Some(opened) = xylem_mail::open(&self.us, envelope) else {
            return Ok(TakenIn::not(DeliveryStatus::Refused));
        };
        let locked = self.folder.lock()?;
        let (mut session, is_new) = match self.session_of(&opened, now, &locked)? {
            Ok(found) => found,
            Err(status) => return Ok(TakenIn::not(status)),
        };
        let before = session.lost();
        let incoming = self.keep(&mut session, is_new, &opened, now)?;
        let status = match incoming {
            // Nothing has changed, or the author is not authenticated.
            EnvelopeOutcome::Not(DeliveryStatus::Full) => {
                return Ok(TakenIn::not(DeliveryStatus::Full));
            }
            EnvelopeOutcome::Not(DeliveryStatus::Refused) if is_new => {
                return Ok(TakenIn::not(DeliveryStatus::Refused));
            }
            EnvelopeOutcome::Not(status) => status,
            _ => DeliveryStatus::Stored,
        };
        let lost = session.lost().saturating_sub(before);
        Ok(TakenIn {
            incoming,
            lost: (lost > 0).then(|| (session.peer(), lost)),
            lost_in_all: session.lost(),
            receipt: session.receipt(opened.id(), status, random()?),
        })
    }

    /// Stores a message of this session, and the session's new state.
    fn keep(
        &self,
        session: &mut MailSession,
        is_new: bool,
        opened: &OpenedEnvelope,
        now: UnixTime,
    ) -> Result<EnvelopeOutcome, MailStoreError> {
        let pending = format!("inbox/{PENDING}{}", hex(&opened.id().0));
        let from = session.peer();
        let body = match session.receive(opened) {
            Err(MailError::Ended) => return Ok(EnvelopeOutcome::Not(DeliveryStatus::Ended)),
            Err(_) => return Ok(EnvelopeOutcome::Not(DeliveryStatus::Refused)),
            Ok(ReceivedMail::Again) => {
                // A crash may have come between the session's state and the message's number.
                if self.folder.read(&pending, 1)?.is_some() {
                    return self.publish_pending(&pending);
                }
                return Ok(EnvelopeOutcome::Again);
            }
            Ok(ReceivedMail::Malformed) => {
                self.save(session)?;
                return Ok(EnvelopeOutcome::Not(DeliveryStatus::Refused));
            }
            Ok(ReceivedMail::Ended) => {
                // A session that was never stored is not remembered: strangers could begin any number.
                if !is_new {
                    self.save(session)?;
                }
                return Ok(EnvelopeOutcome::Not(DeliveryStatus::Ended));
            }
            Ok(ReceivedMail::New(body)) => body,
        };
        session.touch(now.seconds());
        if let MailContent::Fetched(id) = body.content {
            self.save(session)?;
            self.remove_fetched(id, &from)?;
            return Ok(EnvelopeOutcome::Fetched(id, from));
        }
        let letters = self.letters_locked()?;
        // The sender sent it again without knowing that it had arrived.
        if letters.iter().any(|(_, letter)| letter.from == from && letter.body == body) {
            self.save(session)?;
            return Ok(EnvelopeOutcome::Again);
        }
        if !self.has_room(&from, &letters)? {
            return Ok(EnvelopeOutcome::Not(DeliveryStatus::Full));
        }
        let (envelope, id) = (opened.id(), session.id());
        let received_ms = now.milliseconds();
        let letter = Letter { accepted: false, received_ms, envelope, session: id, from, body };
        let bytes = letter.encode().ok_or_else(|| damaged(&pending))?;
        self.folder.write(&pending, &bytes)?;
        self.save(session)?;
        self.publish_pending(&pending)
    }

    /// Finds the session of an envelope, or begins it; also returns whether it is new.
    fn session_of(
        &self,
        opened: &OpenedEnvelope,
        now: UnixTime,
        locked: &MailLock,
    ) -> Result<Result<(MailSession, bool), DeliveryStatus>, MailStoreError> {
        if let Some(id) = opened.session() {
            return Ok(self
                .session(id)?
                .map(|there| (there, false))
                .ok_or(DeliveryStatus::Refused));
        }
        let prekeys = self.prekeys(now, locked)?;
        let begun = match opened.begin(&self.us, &prekeys, random()?) {
            Ok(begun) => begun,
            Err(MailError::Stale) => return Ok(Err(DeliveryStatus::Stale)),
            Err(_) => return Ok(Err(DeliveryStatus::Refused)),
        };
        if let Some(there) = self.session(begun.id())? {
            return Ok(Ok((there, false)));
        }
        let all = self.folder.list("sessions")?.len();
        if all >= MAX_SESSIONS {
            return Ok(Err(DeliveryStatus::Full));
        }
        if all >= MAX_SESSIONS_EACH && !self.make_room_for(&begun.peer())? {
            return Ok(Err(DeliveryStatus::Full));
        }
        Ok(Ok((begun, true)))
    }

    /// Ends the oldest sessions of a person with too many; returns whether there may be one more.
    fn make_room_for(&self, party: &Party) -> Result<bool, MailStoreError> {
        let mut live = self.sessions()?;
        live.retain(MailSession::is_live);
        let people = self.people()?;
        let known = |party: &Party| people.iter().any(|(_, card)| card.party == *party);
        if !known(party) {
            let strangers = live.iter().filter(|session| !known(&session.peer())).count();
            return Ok(strangers < MAX_STRANGERS_SESSIONS);
        }
        live.retain(|session| session.peer() == *party);
        live.sort_by_key(MailSession::used);
        let excess = (live.len() + 1).saturating_sub(MAX_SESSIONS_EACH);
        for session in &mut live[..excess] {
            session.end();
            self.save(session)?;
        }
        Ok(true)
    }
}

fn session_file(id: SessionId) -> String {
    format!("sessions/{}", hex(&id.0))
}

pub(super) fn damaged(file: &str) -> MailStoreError {
    MailStoreError::Damaged(file.to_owned())
}

#[cfg(test)]
mod tests;
