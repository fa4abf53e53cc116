//! [`MailStore`]: conversations, people, and mail that came or has to go, in `STORE/mail`.
//!
//! The order of writes keeps three promises through a crash at any moment: a session's new state is on
//! the disk before an envelope that it made can leave, so no key is used twice; a message that came is
//! on the disk before its session's new state, so none is lost; and it is shown, and its receipt sent,
//! after that. What a crash left between is finished when the sender, who had no receipt, sends the
//! envelope again.

use std::path::Path;

use xylem_link::StaticKey;
use xylem_mail::protocol::Status;
use xylem_mail::{
    Body, Card, Content, EnvelopeId, Identity, MailError, MailboxId, Opened, Party, Prekeys,
    Received, Session, SessionId,
};
use xylem_object::PublisherKey;

use super::disk::{Disk, Turn};
use super::entries::{Letter, MAX_FILE, Parcel, Route, hex};
use crate::clock::now_ms;
use crate::{Blame, Error};
use crate::{failure, identity};

/// Messages that are kept at most.
const MAX_LETTERS: usize = 1_024;
/// Of these, messages of people who have no name here.
const MAX_STRANGERS_LETTERS: usize = 64;
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
const PENDING: &str = ".pending-";

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
    disk: Disk,
    us: Identity,
}

fn now_s() -> u64 {
    now_ms() / 1_000
}

impl MailStore {
    /// Opens the mail of a store, or begins it.
    pub fn open(store: &Path) -> Result<Self, Error> {
        let keys = store.join("keys");
        let publisher =
            PublisherKey::from_bytes(&identity::load_or_create(&keys.join("publisher"))?);
        let link = StaticKey::from_bytes(identity::load_or_create(&keys.join("link"))?);
        let directories = ["sessions", "people", "inbox", "outbox"];
        let disk = Disk::open(store.join("mail"), &directories)?;
        Ok(Self { disk, us: Identity::new(publisher, link) })
    }

    /// Opens it if it has begun.
    pub fn open_existing(store: &Path) -> Result<Option<Self>, Error> {
        store.join("mail").is_dir().then(|| Self::open(store)).transpose()
    }

    /// Where mail for us waits.
    pub fn mailbox(&self) -> MailboxId {
        MailboxId::of(&self.us.party().link)
    }

    fn prekeys(&self, _turn: &Turn) -> Result<Prekeys, Error> {
        let now = now_s();
        let saved = self.disk.read("prekeys", 4_096)?;
        let is_new = saved.is_none();
        let mut prekeys = match saved {
            None => Prekeys::new(now, identity::random()?),
            Some(saved) => Prekeys::restore(&saved).ok_or_else(|| damaged("prekeys"))?,
        };
        if is_new || prekeys.is_due(now) {
            prekeys.rotate(now, identity::random()?);
            self.disk.write("prekeys", &prekeys.save())?;
            self.forget_ended(&prekeys)?;
        }
        Ok(prekeys)
    }

    /// Ended sessions are remembered for as long as the message that began them could be read again.
    fn forget_ended(&self, prekeys: &Prekeys) -> Result<(), Error> {
        for session in self.sessions()? {
            if !session.is_live() && prekeys.find(session.prekey()).is_none() {
                self.disk.remove(&session_file(session.id()))?;
            }
        }
        Ok(())
    }

    /// Our card, with these addresses.
    pub fn card(&self, addresses: &[std::net::SocketAddr]) -> Result<Card, Error> {
        let turn = self.disk.lock()?;
        let prekeys = self.prekeys(&turn)?;
        Ok(self.us.card(prekeys.current(), now_s(), addresses))
    }

    fn session(&self, id: SessionId) -> Result<Option<Session>, Error> {
        let file = session_file(id);
        let Some(saved) = self.disk.read(&file, MAX_SESSION)? else { return Ok(None) };
        Session::restore(&saved, identity::random()?).map(Some).ok_or_else(|| damaged(&file))
    }

    fn save(&self, session: &Session) -> Result<(), Error> {
        self.disk.write(&session_file(session.id()), &session.save())
    }

    fn sessions(&self) -> Result<Vec<Session>, Error> {
        let mut found = Vec::new();
        for name in self.disk.list("sessions")? {
            // One that is damaged is told when it is needed.
            if let Some(saved) = self.disk.read(&format!("sessions/{name}"), MAX_SESSION)?
                && let Some(session) = Session::restore(&saved, identity::random()?)
            {
                found.push(session);
            }
        }
        Ok(found)
    }

    /// Puts a message for whoever the card is of where it waits to go; gives its envelope's id.
    pub fn compose(
        &self,
        card: &Card,
        name: &str,
        body: &Body,
        route: Route,
        ours: &[std::net::SocketAddr],
    ) -> Result<EnvelopeId, Error> {
        let turn = self.disk.lock()?;
        if self.disk.list("outbox")?.len() >= MAX_PARCELS {
            let what =
                format!("{MAX_PARCELS} messages wait to be delivered, which is all there may be");
            return Err(Error { blame: Blame::Local, message: what });
        }
        let prekeys = self.prekeys(&turn)?;
        let ours = self.us.card(prekeys.current(), now_s(), ours);
        let (session, envelope) = self.seal(card, &ours, body)?;
        let parcel = Parcel {
            queued: now_ms(),
            session,
            to: card.party,
            route,
            name: name.to_owned(),
            envelope,
        };
        let id = parcel.id();
        self.disk.write(&format!("outbox/{}", hex(&id.0)), &parcel.encode())?;
        Ok(id)
    }

    /// Seals within the newest conversation with them that can be written in, or begins one. Its state
    /// is on the disk when this returns.
    fn seal(&self, card: &Card, ours: &Card, body: &Body) -> Result<(SessionId, Vec<u8>), Error> {
        let mut theirs: Vec<Session> = self.sessions()?;
        theirs.retain(|session| session.peer() == card.party && session.is_live());
        theirs.sort_by_key(|session| std::cmp::Reverse(session.used()));
        let begun = Session::start(&self.us, card, identity::random()?).map_err(refused)?;
        for mut session in theirs.into_iter().chain([begun]) {
            match session.seal(&self.us, ours, body, identity::random()?) {
                Err(MailError::NotYet) => {}
                Err(e) => return Err(refused(e)),
                Ok(envelope) => {
                    session.touch(now_s());
                    self.save(&session)?;
                    return Ok((session.id(), envelope));
                }
            }
        }
        Err(refused(MailError::NotYet))
    }

    /// A message to whoever wrote this letter, ready to go and not kept.
    pub fn answer(&self, letter: &Letter, body: &Body) -> Result<Vec<u8>, Error> {
        let turn = self.disk.lock()?;
        let prekeys = self.prekeys(&turn)?;
        let ours = self.us.card(prekeys.current(), now_s(), &[]);
        let session = self.session(letter.session)?.filter(Session::is_live);
        let mut session = session.ok_or_else(|| refused(MailError::Ended))?;
        let sealed = session.seal(&self.us, &ours, body, identity::random()?).map_err(refused)?;
        self.save(&session)?;
        Ok(sealed)
    }

    /// Takes in an envelope. What this returns may be acknowledged.
    pub fn receive(&self, envelope: &[u8]) -> Result<Incoming, Error> {
        let Some(opened) = xylem_mail::open(&self.us, envelope) else {
            return Ok(Incoming::Not(Status::Refused));
        };
        let turn = self.disk.lock()?;
        let mut session = match self.session_of(&opened, &turn)? {
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
                if self.disk.read(&pending, 1)?.is_some() {
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
        session.touch(now_s());
        if let Content::Fetched(id) = body.content {
            self.save(&session)?;
            return Ok(Incoming::Fetched(id, from));
        }
        if !self.has_room(&from)? {
            return Ok(Incoming::Not(Status::Full));
        }
        let (envelope, id) = (opened.id(), session.id());
        let received_ms = now_ms();
        let letter = Letter { accepted: false, received_ms, envelope, session: id, from, body };
        let bytes = letter.encode().ok_or_else(|| damaged(&pending))?;
        self.disk.write(&pending, &bytes)?;
        self.save(&session)?;
        self.show(&pending)
    }

    /// The session that an envelope belongs to, or the one that it begins.
    fn session_of(&self, opened: &Opened, turn: &Turn) -> Result<Result<Session, Status>, Error> {
        if let Some(id) = opened.session() {
            return Ok(self.session(id)?.ok_or(Status::Refused));
        }
        let prekeys = self.prekeys(turn)?;
        let begun = match opened.begin(&self.us, &prekeys, identity::random()?) {
            Ok(begun) => begun,
            Err(MailError::Stale) => return Ok(Err(Status::Stale)),
            Err(_) => return Ok(Err(Status::Refused)),
        };
        if let Some(there) = self.session(begun.id())? {
            return Ok(Ok(there));
        }
        let all = self.disk.list("sessions")?.len();
        if all >= MAX_SESSIONS {
            return Ok(Err(Status::Full));
        }
        if all >= MAX_SESSIONS_EACH && !self.make_room_for(&begun.peer())? {
            return Ok(Err(Status::Full));
        }
        Ok(Ok(begun))
    }

    /// Ends the oldest conversation of somebody who has too many; whether there may be one more.
    fn make_room_for(&self, party: &Party) -> Result<bool, Error> {
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

    fn has_room(&self, from: &Party) -> Result<bool, Error> {
        let letters = self.letters_locked()?;
        let known = self.name_of(from)?.is_some();
        if known {
            return Ok(letters.len() < MAX_LETTERS);
        }
        let people = self.people()?;
        let is_stranger = |letter: &Letter| !people.iter().any(|(_, c)| c.party == letter.from);
        let strangers = letters.iter().filter(|(_, letter)| is_stranger(letter)).count();
        Ok(letters.len() < MAX_LETTERS && strangers < MAX_STRANGERS_LETTERS)
    }

    /// Gives a message that is safe its number.
    fn show(&self, pending: &str) -> Result<Incoming, Error> {
        let bytes = self.disk.read(pending, MAX_FILE)?.unwrap_or_default();
        let letter = Letter::decode(&bytes).ok_or_else(|| damaged(pending))?;
        // Numbers are not used again, so that a list from before still means what it says.
        let last = self.disk.read("last-number", 16)?;
        let last = last.and_then(|text| std::str::from_utf8(&text).ok()?.trim().parse().ok());
        let there = self.letters_locked()?.last().map(|(number, _)| *number);
        let number = last.max(there).unwrap_or(0u32).wrapping_add(1).max(1);
        self.disk.write("last-number", format!("{number}\n").as_bytes())?;
        self.disk.rename(pending, &letter_file(number))?;
        Ok(Incoming::New(number, letter))
    }

    /// What came, by number.
    pub fn letters(&self) -> Result<Vec<(u32, Letter)>, Error> {
        let _turn = self.disk.lock()?;
        self.recover()?;
        self.letters_locked()
    }

    /// Shows what a crash kept from being shown though its session knows it.
    fn recover(&self) -> Result<(), Error> {
        for name in self.disk.list("inbox")?.iter().filter(|name| name.starts_with(PENDING)) {
            let pending = format!("inbox/{name}");
            if let Some(bytes) = self.disk.read(&pending, MAX_FILE)?
                && let Some(letter) = Letter::decode(&bytes)
                && self.session(letter.session)?.is_some_and(|s| s.has(letter.envelope))
            {
                self.show(&pending)?;
            }
        }
        Ok(())
    }

    fn letters_locked(&self) -> Result<Vec<(u32, Letter)>, Error> {
        let mut found = Vec::new();
        for name in self.disk.list("inbox")? {
            let Ok(number) = name.parse() else { continue };
            if let Some(bytes) = self.disk.read(&format!("inbox/{name}"), MAX_FILE)?
                && let Some(letter) = Letter::decode(&bytes)
            {
                found.push((number, letter));
            }
        }
        Ok(found)
    }

    /// One of them.
    pub fn letter(&self, number: u32) -> Result<Letter, Error> {
        let _turn = self.disk.lock()?;
        let bytes = self.disk.read(&letter_file(number), MAX_FILE)?;
        let bytes = bytes.ok_or_else(|| {
            failure::usage(format!("there is no message {number}; `xylem inbox` lists them"))
        })?;
        Letter::decode(&bytes).ok_or_else(|| damaged(&letter_file(number)))
    }

    /// Marks it as accepted.
    pub fn accept(&self, number: u32) -> Result<(), Error> {
        let letter = Letter { accepted: true, ..self.letter(number)? };
        let _turn = self.disk.lock()?;
        let file = letter_file(number);
        let bytes = letter.encode().ok_or_else(|| damaged(&file))?;
        self.disk.write(&file, &bytes)
    }

    /// Removes it. The conversation with a stranger ends with the last of its messages, which makes
    /// room for others.
    pub fn drop_letter(&self, number: u32) -> Result<(), Error> {
        let letter = self.letter(number)?;
        let _turn = self.disk.lock()?;
        self.disk.remove(&letter_file(number))?;
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
    pub fn card_of(&self, letter: &Letter) -> Result<Option<Card>, Error> {
        let _turn = self.disk.lock()?;
        Ok(self.session(letter.session)?.and_then(|session| session.card().cloned()))
    }

    /// Everybody who has a name here, with the card that it was given for.
    pub fn people(&self) -> Result<Vec<(String, Card)>, Error> {
        let mut people = Vec::new();
        for name in self.disk.list("people")? {
            if let Some(text) = self.disk.read(&format!("people/{name}"), 4_096)?
                && let Some(card) = std::str::from_utf8(&text).ok().and_then(|t| t.parse().ok())
            {
                people.push((name, card));
            }
        }
        Ok(people)
    }

    pub fn name_of(&self, party: &Party) -> Result<Option<String>, Error> {
        let found = self.people()?.into_iter().find(|(_, card)| card.party == *party);
        Ok(found.map(|(name, _)| name))
    }

    /// Names somebody. A name that somebody else has is not given away.
    pub fn name(&self, name: &str, card: &Card) -> Result<(), Error> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let right = (1..=64).contains(&name.len())
            && name.chars().all(plain)
            && !name.starts_with(['.', '-']);
        if !right {
            let what = "a name has letters, digits, -, _ and ., 64 at most";
            return Err(failure::usage(what));
        }
        let _turn = self.disk.lock()?;
        let people = self.people()?;
        if people.iter().any(|(n, there)| n == name && there.party != card.party) {
            let what = format!(
                "{name} is somebody else here, with other keys; if that is meant to change, \
                 `xylem inbox forget {name}` first"
            );
            return Err(failure::usage(what));
        }
        for (other, _) in people.iter().filter(|(n, c)| n != name && c.party == card.party) {
            self.disk.remove(&format!("people/{other}"))?;
        }
        self.disk.write(&format!("people/{name}"), format!("{card}\n").as_bytes())
    }

    /// Takes a name away.
    pub fn forget(&self, name: &str) -> Result<(), Error> {
        let _turn = self.disk.lock()?;
        if !self.people()?.iter().any(|(n, _)| n == name) {
            return Err(failure::usage(format!("nobody is called {name} here")));
        }
        self.disk.remove(&format!("people/{name}"))
    }

    /// What waits to go, oldest first; what has waited for too long is given up and told apart.
    pub fn parcels(&self) -> Result<(Vec<Parcel>, Vec<Parcel>), Error> {
        let _turn = self.disk.lock()?;
        let mut parcels = Vec::new();
        for name in self.disk.list("outbox")? {
            if let Some(bytes) = self.disk.read(&format!("outbox/{name}"), MAX_FILE)?
                && let Some(parcel) = Parcel::decode(&bytes)
            {
                parcels.push(parcel);
            }
        }
        parcels.sort_by_key(|parcel| parcel.queued);
        let now = now_ms();
        let is_old = |parcel: &Parcel| now.saturating_sub(parcel.queued) > GIVE_UP;
        let (old, waiting) = parcels.into_iter().partition(is_old);
        for parcel in &old {
            self.remove_parcel(parcel)?;
        }
        Ok((waiting, old))
    }

    fn remove_parcel(&self, parcel: &Parcel) -> Result<(), Error> {
        self.disk.remove(&format!("outbox/{}", hex(&parcel.id().0)))
    }

    /// What the other side said of an envelope. True: it need not be sent again.
    pub fn settle(&self, parcel: &Parcel, status: Status) -> Result<bool, Error> {
        let _turn = self.disk.lock()?;
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

    #[cfg(test)]
    pub fn disk(&self) -> &Disk {
        &self.disk
    }
}

fn session_file(id: SessionId) -> String {
    format!("sessions/{}", hex(&id.0))
}

fn letter_file(number: u32) -> String {
    format!("inbox/{number:08}")
}

fn damaged(file: &str) -> Error {
    let message = format!("mail/{file} in the store is damaged; move it away to go on without it");
    Error { blame: Blame::Local, message }
}

fn refused(e: MailError) -> Error {
    failure::usage(format!("the message can't be written: {e}"))
}

#[cfg(test)]
mod tests;
