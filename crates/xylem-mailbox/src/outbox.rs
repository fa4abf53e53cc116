//! Outgoing messages that their receivers may not have yet, in [`MailStore`].
//!
//! A message leaves the outbox when it was handed to its receiver, or when the receiver confirms it by a receipt. A
//! message that a node accepted stays, since the node cannot confirm for the receiver. A message that the receiver
//! cannot read is sealed again, once. It goes into another session if the old one has ended. The outbox keeps the text
//! of its messages for that.

use std::collections::VecDeque;
use std::net::SocketAddr;

use xylem_base::{UnixTime, hex, random};
use xylem_link::StaticKey;
use xylem_mail::protocol::DeliveryStatus;
use xylem_mail::{Card, EnvelopeId, MailBody, MailError, MailSession, Party, Receipt, SessionId};

use super::entries::{MAX_FILE, MailRoute, Parcel};
use super::error::MailStoreError;
use super::event::MailEvent;
use super::folder::MailLock;
use super::report;
use super::store::MailStore;

/// Most envelopes in the outbox. Envelopes that a node has are kept as far as there is room.
const MAX_PARCELS: usize = 256;
/// Age at which an undelivered envelope is given up, in milliseconds.
const GIVE_UP: u64 = 30 * 86_400_000;

/// Content of the outbox, each part oldest first.
#[derive(Debug, Default)]
pub struct MailOutbox {
    /// Messages that have to be delivered.
    pub waiting: Vec<Parcel>,
    /// Messages that nodes have, and that the receivers have not confirmed.
    pub stored: Vec<Parcel>,
    /// Messages that were given up, and are removed.
    pub old: Vec<Parcel>,
}

impl MailOutbox {
    /// Groups the messages to be delivered by destination; the destination of `first` precedes the others.
    pub fn by_target(&mut self, first: Option<EnvelopeId>) -> Vec<VecDeque<Parcel>> {
        let mut targets = Vec::<VecDeque<Parcel>>::new();
        for parcel in self.waiting.drain(..) {
            let goes = |there: &Parcel| (&there.route, there.to) == (&parcel.route, parcel.to);
            match targets.iter_mut().find(|parcels| parcels.front().is_some_and(goes)) {
                Some(parcels) => parcels.push_back(parcel),
                None => targets.push([parcel].into()),
            }
        }
        targets.sort_by_key(|parcels| !parcels.iter().any(|parcel| Some(parcel.id()) == first));
        targets
    }
}

/// A mailbox of receipts: its node, its session, and the key that opens it.
pub struct ReceiptMailbox {
    /// The node.
    pub route: MailRoute,
    /// The session's peer.
    pub to: Party,
    /// The session.
    pub session: SessionId,
    /// Private key that proves ownership of the mailbox.
    pub key: StaticKey,
}

impl MailStore {
    /// Queues a message to the card's owner; returns the id of its envelope.
    ///
    /// # Errors
    /// [`MailStoreError::Seal`] for a card that cannot be used; [`MailStoreError::TooMany`].
    pub fn compose(
        &self,
        card: &Card,
        name: &str,
        body: &MailBody,
        route: MailRoute,
        ours: &[SocketAddr],
        now: UnixTime,
    ) -> Result<EnvelopeId, MailStoreError> {
        let locked = self.folder.lock()?;
        if self.folder.list("outbox")?.len() >= MAX_PARCELS {
            // A message that a node has gives way.
            let oldest = self.all_parcels()?.into_iter().find(|parcel| parcel.stored);
            self.remove_parcel(&oldest.ok_or(MailStoreError::TooMany(MAX_PARCELS))?)?;
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
            stored: false,
            again: false,
            body: Some(Box::new(body.clone())),
            envelope,
        };
        self.write_parcel(&parcel)?;
        Ok(parcel.id())
    }

    /// Seals a message in the newest usable session with the peer, or in a new one. The session's state is on the disk
    /// when this returns.
    fn seal(
        &self,
        card: &Card,
        ours: &Card,
        body: &MailBody,
        now: UnixTime,
    ) -> Result<(SessionId, Vec<u8>), MailStoreError> {
        let mut theirs: Vec<MailSession> = self.sessions()?;
        theirs.retain(|session| session.peer() == card.party && session.is_live());
        theirs.sort_by_key(|session| std::cmp::Reverse(session.used()));
        let begun = MailSession::start(&self.us, card, random()?)?;
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

    fn all_parcels(&self) -> Result<Vec<Parcel>, MailStoreError> {
        let mut parcels = Vec::new();
        for name in self.folder.list("outbox")? {
            parcels.extend(self.parcel(&name)?);
        }
        parcels.sort_by_key(|parcel| parcel.queued);
        Ok(parcels)
    }

    fn parcel(&self, name: &str) -> Result<Option<Parcel>, MailStoreError> {
        let bytes = self.folder.read(&format!("outbox/{name}"), MAX_FILE)?;
        let parcel = bytes.and_then(|bytes| Parcel::decode(&bytes));
        // A file with another name than its envelope's id is damaged; `damaged` reports it.
        Ok(parcel.filter(|parcel| hex(&parcel.id().0) == name))
    }

    fn write_parcel(&self, parcel: &Parcel) -> Result<(), MailStoreError> {
        Ok(self.folder.write(&format!("outbox/{}", hex(&parcel.id().0)), &parcel.encode())?)
    }

    fn remove_parcel(&self, parcel: &Parcel) -> Result<(), MailStoreError> {
        Ok(self.folder.remove(&format!("outbox/{}", hex(&parcel.id().0)))?)
    }

    /// Returns the content of the outbox, and removes messages that are too old.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn outbox(&self, now: UnixTime) -> Result<MailOutbox, MailStoreError> {
        let _locked = self.folder.lock()?;
        let mut outbox = MailOutbox::default();
        for parcel in self.all_parcels()? {
            let is_old = now.milliseconds().saturating_sub(parcel.queued) > GIVE_UP;
            match (is_old, parcel.stored) {
                (true, _) => {
                    self.remove_parcel(&parcel)?;
                    outbox.old.push(parcel);
                }
                (false, true) => outbox.stored.push(parcel),
                (false, false) => outbox.waiting.push(parcel),
            }
        }
        Ok(outbox)
    }

    /// Returns the mailboxes with receipts for messages that nodes have.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn receipts_due(&self, now: UnixTime) -> Result<Vec<ReceiptMailbox>, MailStoreError> {
        let mut due = Vec::<ReceiptMailbox>::new();
        for Parcel { route, session, to, .. } in self.outbox(now)?.stored {
            let _locked = self.folder.lock()?;
            let is_there = |it: &ReceiptMailbox| (&it.route, it.session) == (&route, session);
            if !due.iter().any(is_there)
                && let Some(key) = self.session(session)?.and_then(|s| s.receipts_key(&self.us))
            {
                due.push(ReceiptMailbox { route, to, session, key });
            }
        }
        Ok(due)
    }

    /// Takes the answer to a delivery: its status, and how many messages of its session are lost. Returns false if the
    /// message waits for another attempt.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn settle(
        &self,
        parcel: &Parcel,
        status: DeliveryStatus,
        lost: u32,
        now: UnixTime,
    ) -> Result<(bool, Vec<MailEvent>), MailStoreError> {
        let waits = |why| Ok((false, vec![report::waiting(parcel, why)]));
        match (status, &parcel.route) {
            (DeliveryStatus::Full, _) => return waits("there is no room for it at present"),
            (DeliveryStatus::NotHere, _) => {
                return waits("no peer there takes mail for this receiver");
            }
            (DeliveryStatus::Stored, MailRoute::Via(..)) => {
                let parcel = Parcel { stored: true, ..parcel.clone() };
                let _locked = self.folder.lock()?;
                self.write_parcel(&parcel)?;
                return Ok((true, vec![report::stored(&parcel)]));
            }
            // A node cannot read the envelope, so its answer is not the receiver's.
            (_, MailRoute::Via(..)) => {
                let _locked = self.folder.lock()?;
                self.remove_parcel(parcel)?;
                let why = "the node refused it; send it again";
                return Ok((true, vec![report::given_up(parcel, why)]));
            }
            (_, MailRoute::Direct(_) | MailRoute::AtRelay(..)) => {}
        }
        let receipt = Receipt { envelope: parcel.id(), status, lost };
        Ok((true, self.take_report(parcel.session, receipt, now)?))
    }

    /// Takes an envelope from a mailbox of receipts; one that is not the session peer's is ignored.
    ///
    /// # Errors
    /// See [`MailStore::open`].
    pub fn take_receipt(
        &self,
        session: SessionId,
        envelope: &[u8],
        now: UnixTime,
    ) -> Result<Vec<MailEvent>, MailStoreError> {
        let found = self.session(session)?;
        match found.and_then(|session| session.open_receipt(&self.us, envelope)) {
            Some(receipt) => self.take_report(session, receipt, now),
            None => Ok(Vec::new()),
        }
    }

    /// Removes an envelope: its receiver has fetched what it named.
    pub(super) fn remove_fetched(&self, id: EnvelopeId, by: &Party) -> Result<(), MailStoreError> {
        let parcel = self.parcel(&hex(&id.0))?.filter(|parcel| parcel.to == *by);
        parcel.map_or(Ok(()), |parcel| self.remove_parcel(&parcel))
    }

    /// Takes the receiver's own report about an envelope.
    fn take_report(
        &self,
        id: SessionId,
        receipt: Receipt,
        now: UnixTime,
    ) -> Result<Vec<MailEvent>, MailStoreError> {
        let locked = self.folder.lock()?;
        let Receipt { envelope, status, lost } = receipt;
        let parcel = self.parcel(&hex(&envelope.0))?.filter(|parcel| parcel.session == id);
        let direct = parcel.as_ref().is_some_and(|it| !matches!(it.route, MailRoute::Via(..)));
        let (mut new, mut peer, mut card) = (0, None, None);
        if let Some(mut session) = self.session(id)? {
            (peer, card) = (Some(session.peer()), self.newest_card(&session)?);
            new = session.record_reported_lost(lost);
            match status {
                DeliveryStatus::Stored => session.confirmed(),
                // The receiver's state differs from ours: the next message begins a new session.
                DeliveryStatus::Ended => session.end(),
                DeliveryStatus::Refused | DeliveryStatus::Stale if direct => session.end(),
                _ => {}
            }
            self.save(&session)?;
        }
        let mut events = Vec::new();
        let mut again = 0;
        // Messages that cannot have arrived, or cannot be read: all of an ended session, and those that a node had
        // before the one that shows the loss.
        let until = parcel.as_ref().map_or(0, |parcel| parcel.queued);
        for other in self.all_parcels()? {
            let is_it = other.id() == envelope;
            let is_lost = status == DeliveryStatus::Ended
                || (is_it && status == DeliveryStatus::Refused)
                || (!is_it && new > 0 && other.stored && other.queued <= until);
            if other.session != id || !is_lost {
                continue;
            }
            match self.send_again(&other, card.as_ref(), now, &locked)? {
                Some(event) => {
                    again += 1;
                    events.push(event);
                }
                None if is_it || status == DeliveryStatus::Ended => {
                    self.remove_parcel(&other)?;
                    let why = "the receiver could not read it; send it again";
                    events.push(report::given_up(&other, why));
                }
                None => {}
            }
        }
        if let Some(parcel) = &parcel {
            match status {
                DeliveryStatus::Stored => {
                    self.remove_parcel(parcel)?;
                    events.push(report::delivered(parcel));
                }
                DeliveryStatus::Stale => {
                    self.remove_parcel(parcel)?;
                    let why = "the receiver's card is too old; ask for a new one";
                    events.push(report::given_up(parcel, why));
                }
                _ => {}
            }
        }
        if let Some(peer) = peer.filter(|_| new > 0) {
            let to = report::display_name(self, &peer)?.0;
            events.push(MailEvent::Unread { to, count: new, again });
        }
        Ok(events)
    }

    /// Returns the newest known card of a session's peer.
    fn newest_card(&self, session: &MailSession) -> Result<Option<Card>, MailStoreError> {
        let named = self.people()?.into_iter().map(|(_, card)| card);
        let cards = named.filter(|card| card.party == session.peer());
        Ok(cards.chain(session.card().cloned()).max_by_key(|card| card.made))
    }

    /// Seals an unreadable message again; `None` if that was done before, or is not possible.
    fn send_again(
        &self,
        parcel: &Parcel,
        card: Option<&Card>,
        now: UnixTime,
        locked: &MailLock,
    ) -> Result<Option<MailEvent>, MailStoreError> {
        let (Some(card), Some(body), false) = (card, &parcel.body, parcel.again) else {
            return Ok(None);
        };
        let prekeys = self.prekeys(now, locked)?;
        let ours = self.us.card(prekeys.current(), now.seconds(), &[]);
        let (session, envelope) = self.seal(card, &ours, body, now)?;
        let again = Parcel { session, envelope, stored: false, again: true, ..parcel.clone() };
        self.write_parcel(&again)?;
        self.remove_parcel(parcel)?;
        let (to, id, was) = (parcel.name.clone(), again.id(), parcel.id());
        Ok(Some(MailEvent::Again { to, id, was }))
    }
}
