//! [`MailStore`]: conversations, people, and mail that came or has to go, in `STORE/mail`.
//!
//! The order of writes keeps three promises through a crash at any moment: a session's new state is on
//! the disk before an envelope that it made can leave, so no key is used twice; a message that came is
//! on the disk before its session's new state, so none is lost; and it is shown, and its receipt sent,
//! after that. What a crash left between is finished when the sender, who had no receipt, sends the
//! envelope again.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use xylem_link::StaticKey;
use xylem_mail::protocol::Status;
use xylem_mail::{
    Body, Card, Content, EnvelopeId, Identity, MailError, MailboxId, Opened, Party, Prekeys,
    Received, Session, SessionId,
};
use xylem_object::PublisherKey;
use xylem_store::Medium;

use super::entries::{Letter, MAX_FILE, Parcel, Route, hex};
use super::error::MailStoreError;
use super::folder::{Folder, Locked};
use super::letters::PENDING;
use crate::disk::disk;
use crate::keys::{load_or_create, random};
use crate::time::UnixTime;

/// Conversations at most, ended ones included.
const MAX_SESSIONS: usize = 4_096;
/// Of these, live ones with people who have no name here.
const MAX_STRANGERS_SESSIONS: usize = 64;
/// Live conversations with one person; the oldest ends. Two are usual where both wrote first.
const MAX_SESSIONS_EACH: usize = 8;
/// Envelopes that may wait.
const MAX_PARCELS: usize = 256;
/// Longest file of a session, in bytes: 2,000 kept keys and what is beside them.
const MAX_SESSION: usize = 1 << 18;
/// An envelope that found nobody for so long, in ms, is given up.
const GIVE_UP: u64 = 30 * 86_400_000;

/// What came of an envelope for us.
#[derive(Debug, PartialEq)]
pub enum Incoming {
    /// A message, with its number.
    New(u32, Letter),
    /// It was here already.
    Again,
    /// The receiver of this envelope of ours has what it named.
    Fetched(EnvelopeId, Party),
    /// It is not kept, and why.
    Not(Status),
}

/// See the module's documentation.
pub struct MailStore {
    pub(super) folder: Folder,
    us: Identity,
}

impl MailStore {
    /// Opens the mail of a store, or begins it.
    ///
    /// # Errors
    /// It can't be read or made; so for all below.
    pub fn open(store: &Path) -> Result<Self, MailStoreError> {
        let keys = store.join("keys");
        let publisher = PublisherKey::from_bytes(&load_or_create(&keys.join("publisher"))?);
        let link = StaticKey::from_bytes(load_or_create(&keys.join("link"))?);
        Self::of(Identity::new(publisher, link), disk(), store)
    }

    /// Opens the mail of somebody whose keys are not in the store.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn of(us: Identity, medium: Arc<dyn Medium>, store: &Path) -> Result<Self, MailStoreError> {
        let directories = ["sessions", "people", "inbox", "outbox"];
        Ok(Self { folder: Folder::open(medium, store.join("mail"), &directories)?, us })
    }

    /// Opens it if it has begun.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn open_existing(store: &Path) -> Result<Option<Self>, MailStoreError> {
        store.join("mail").is_dir().then(|| Self::open(store)).transpose()
    }

    /// Where mail for us waits.
    pub fn mailbox(&self) -> MailboxId {
        MailboxId::of(&self.us.party().link)
    }

    fn prekeys(&self, now: UnixTime, _locked: &Locked) -> Result<Prekeys, MailStoreError> {
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

    /// Ended sessions are remembered for as long as the message that began them could be read again.
    fn forget_ended(&self, prekeys: &Prekeys) -> Result<(), MailStoreError> {
        for session in self.sessions()? {
            if !session.is_live() && prekeys.find(session.prekey()).is_none() {
                self.folder.remove(&session_file(session.id()))?;
            }
        }
        Ok(())
    }

    /// Our card, with these addresses.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn card(&self, addresses: &[SocketAddr], now: UnixTime) -> Result<Card, MailStoreError> {
        let locked = self.folder.lock()?;
        let prekeys = self.prekeys(now, &locked)?;
        Ok(self.us.card(prekeys.current(), now.seconds(), addresses))
    }

    pub(super) fn session(&self, id: SessionId) -> Result<Option<Session>, MailStoreError> {
        let file = session_file(id);
        let Some(saved) = self.folder.read(&file, MAX_SESSION)? else { return Ok(None) };
        Session::restore(&saved, random()?).map(Some).ok_or_else(|| damaged(&file))
    }

    pub(super) fn save(&self, session: &Session) -> Result<(), MailStoreError> {
        Ok(self.folder.write(&session_file(session.id()), &session.save())?)
    }

    fn sessions(&self) -> Result<Vec<Session>, MailStoreError> {
        let mut found = Vec::new();
        for name in self.folder.list("sessions")? {
            // One that is damaged is an error when it is needed.
            if let Some(saved) = self.folder.read(&format!("sessions/{name}"), MAX_SESSION)?
                && let Some(session) = Session::restore(&saved, random()?)
            {
                found.push(session);
            }
        }
        Ok(found)
    }

    /// Puts a message for whoever the card is of where it waits to go; gives its envelope's id.
    ///
    /// # Errors
    /// [`MailStoreError::Seal`] for a card that can't be used; [`MailStoreError::TooMany`].
    pub fn compose(
        &self,
        card: &Card,
        name: &str,
        body: &Body,
        route: Route,
        ours: &[SocketAddr],
        now: UnixTime,
    ) -> Result<EnvelopeId, MailStoreError> {
        let locked = self.folder.lock()?;
        if self.folder.list("outbox")?.len() >= MAX_PARCELS {
            return Err(MailStoreError::TooMany(MAX_PARCELS));
        }
        let prekeys = self.prekeys(now, &locked)?;
        let ours = self.us.card(prekeys.current(), now.seconds(), ours);
        let (session, envelope) = self.seal(card, &ours, body, now)?;
        let parcel = Parcel {
            queued: now.milliseconds(),
            session,
            to: card.party,
            route,
            name: name.to_owned(),
            envelope,
        };
        let id = parcel.id();
        self.folder.write(&format!("outbox/{}", hex(&id.0)), &parcel.encode())?;
        Ok(id)
    }

    /// Seals within the newest conversation with them that can be written in, or begins one. Its state
    /// is on the disk when this returns.
    fn seal(
        &self,
        card: &Card,
        ours: &Card,
        body: &Body,
        now: UnixTime,
    ) -> Result<(SessionId, Vec<u8>), MailStoreError> {
        let mut theirs: Vec<Session> = self.sessions()?;
        theirs.retain(|session| session.peer() == card.party && session.is_live());
        theirs.sort_by_key(|session| std::cmp::Reverse(session.used()));
        let begun = Session::start(&self.us, card, random()?)?;
        for mut session in theirs.into_iter().chain([begun]) {
            match session.seal(&self.us, ours, body, random()?) {
                Err(MailError::NotYet) => {}
                Err(e) => return Err(e.into()),
                Ok(envelope) => {
                    session.touch(now.seconds());
                    self.save(&session)?;
                    return Ok((session.id(), envelope));
                }
            }
        }
        Err(MailError::NotYet.into())
    }

    /// A message to whoever wrote this letter, ready to go and not kept.
    ///
    /// # Errors
    /// [`MailStoreError::Seal`] where the conversation has ended.
    pub fn answer(
        &self,
        letter: &Letter,
        body: &Body,
        now: UnixTime,
    ) -> Result<Vec<u8>, MailStoreError> {
        let locked = self.folder.lock()?;
        let prekeys = self.prekeys(now, &locked)?;
        let ours = self.us.card(prekeys.current(), now.seconds(), &[]);
        let session = self.session(letter.session)?.filter(Session::is_live);
        let mut session = session.ok_or(MailError::Ended)?;
        let sealed = session.seal(&self.us, &ours, body, random()?)?;
        self.save(&session)?;
        Ok(sealed)
    }

    /// Opens an envelope and keeps what is in it. What this returns may be acknowledged.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn receive(&self, envelope: &[u8], now: UnixTime) -> Result<Incoming, MailStoreError> {
        let Some(opened) = xylem_mail::open(&self.us, envelope) else {
            return Ok(Incoming::Not(Status::Refused));
        };
        let locked = self.folder.lock()?;
        let mut session = match self.session_of(&opened, now, &locked)? {
            Ok(session) => session,
            Err(status) => return Ok(Incoming::Not(status)),
        };
        let pending = format!("inbox/{PENDING}{}", hex(&opened.id().0));
        let from = session.peer();
        let body = match session.receive(&opened) {
            Err(MailError::Stale) => return Ok(Incoming::Not(Status::Stale)),
            Err(_) => return Ok(Incoming::Not(Status::Refused)),
            Ok(Received::Again) => {
                // A crash may have come between the session's state and the name.
                if self.folder.read(&pending, 1)?.is_some() {
                    return self.show(&pending);
                }
                return Ok(Incoming::Again);
            }
            Ok(Received::Malformed) => {
                self.save(&session)?;
                return Ok(Incoming::Not(Status::Refused));
            }
            Ok(Received::New(body)) => body,
        };
        session.touch(now.seconds());
        if let Content::Fetched(id) = body.content {
            self.save(&session)?;
            return Ok(Incoming::Fetched(id, from));
        }
        if !self.has_room(&from)? {
            return Ok(Incoming::Not(Status::Full));
        }
        let (envelope, id) = (opened.id(), session.id());
        let received_ms = now.milliseconds();
        let letter = Letter { accepted: false, received_ms, envelope, session: id, from, body };
        let bytes = letter.encode().ok_or_else(|| damaged(&pending))?;
        self.folder.write(&pending, &bytes)?;
        self.save(&session)?;
        self.show(&pending)
    }

    /// The session that an envelope belongs to, or the one that it begins.
    fn session_of(
        &self,
        opened: &Opened,
        now: UnixTime,
        locked: &Locked,
    ) -> Result<Result<Session, Status>, MailStoreError> {
        if let Some(id) = opened.session() {
            return Ok(self.session(id)?.ok_or(Status::Refused));
        }
        let prekeys = self.prekeys(now, locked)?;
        let begun = match opened.begin(&self.us, &prekeys, random()?) {
            Ok(begun) => begun,
            Err(MailError::Stale) => return Ok(Err(Status::Stale)),
            Err(_) => return Ok(Err(Status::Refused)),
        };
        if let Some(there) = self.session(begun.id())? {
            return Ok(Ok(there));
        }
        let all = self.folder.list("sessions")?.len();
        if all >= MAX_SESSIONS {
            return Ok(Err(Status::Full));
        }
        if all >= MAX_SESSIONS_EACH && !self.make_room_for(&begun.peer())? {
            return Ok(Err(Status::Full));
        }
        Ok(Ok(begun))
    }

    /// Ends the oldest conversation of somebody who has too many; whether there may be one more.
    fn make_room_for(&self, party: &Party) -> Result<bool, MailStoreError> {
        let mut live = self.sessions()?;
        live.retain(Session::is_live);
        let people = self.people()?;
        let known = |party: &Party| people.iter().any(|(_, card)| card.party == *party);
        if !known(party) {
            let strangers = live.iter().filter(|session| !known(&session.peer())).count();
            return Ok(strangers < MAX_STRANGERS_SESSIONS);
        }
        live.retain(|session| session.peer() == *party);
        live.sort_by_key(Session::used);
        let excess = (live.len() + 1).saturating_sub(MAX_SESSIONS_EACH);
        for session in &mut live[..excess] {
            session.end();
            self.save(session)?;
        }
        Ok(true)
    }

    /// What waits to go, oldest first, and, apart, what has waited for too long and is given up.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn parcels(&self, now: UnixTime) -> Result<(Vec<Parcel>, Vec<Parcel>), MailStoreError> {
        let _locked = self.folder.lock()?;
        let mut parcels = Vec::new();
        for name in self.folder.list("outbox")? {
            if let Some(bytes) = self.folder.read(&format!("outbox/{name}"), MAX_FILE)?
                && let Some(parcel) = Parcel::decode(&bytes)
            {
                parcels.push(parcel);
            }
        }
        parcels.sort_by_key(|parcel| parcel.queued);
        let now = now.milliseconds();
        let is_old = |parcel: &Parcel| now.saturating_sub(parcel.queued) > GIVE_UP;
        let (old, waiting) = parcels.into_iter().partition(is_old);
        for parcel in &old {
            self.remove_parcel(parcel)?;
        }
        Ok((waiting, old))
    }

    fn remove_parcel(&self, parcel: &Parcel) -> Result<(), MailStoreError> {
        Ok(self.folder.remove(&format!("outbox/{}", hex(&parcel.id().0)))?)
    }

    /// What the other side said of an envelope. True: it need not be sent again.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn settle(&self, parcel: &Parcel, status: Status) -> Result<bool, MailStoreError> {
        let _locked = self.folder.lock()?;
        let direct = matches!(parcel.route, Route::Direct(_));
        match status {
            Status::Full | Status::NotHere => return Ok(false),
            Status::Stored if !direct => {}
            // Theirs is another state than ours: the next message begins anew.
            Status::Refused | Status::Stale | Status::Stored => {
                if let Some(mut session) = self.session(parcel.session)? {
                    if status == Status::Stored {
                        session.confirmed();
                    } else if direct {
                        session.end();
                    }
                    self.save(&session)?;
                }
            }
        }
        self.remove_parcel(parcel)?;
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
