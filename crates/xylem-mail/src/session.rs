//! [`MailSession`]: the encrypted association of two parties, from the first message on. Its state is small, and the
//! caller stores it: before an envelope that it made leaves, and before a message that it gave is shown.
//!
//! Saved as `version = 1 (1) | flags (1) | id (16) | peer (64) | prekey's number (4) | associated (32) | used (8) |
//! [session's ephemeral key (32)] | [card's length (2) | card] | [receipts' secret (32) | lost (4) | told (4)] | count
//! (2) | count × envelope's id (16) | ratchet`; flags: 1 ended (no ratchet), 2 the ephemeral, 4 the card, 8 receipts
//! (absent in states that earlier builds saved).

use core::fmt;
use std::collections::VecDeque;

use xylem_link::{PeerKey, StaticKey};
use zeroize::Zeroizing;

use crate::agreement::{Agreed, initiate, respond};
use crate::body::{BodyError, MailBody};
use crate::card::Card;
use crate::envelope::{EnvelopeId, OpenedEnvelope, OpenedKind, SessionRef, seal};
use crate::fields::{FieldReader, put_u16_prefixed};
use crate::identity::{MailIdentity, Party};
use crate::kdf::{derive, label};
use crate::prekeys::Prekeys;
use crate::protocol::DeliveryStatus;
use crate::ratchet::{Ratchet, RatchetError};
use crate::receipt::{Receipt, ReceiptKeys};

const VERSION: u8 = 1;
const ENDED: u8 = 1;
const OPENING: u8 = 2;
const CARD: u8 = 4;
const RECEIPTS: u8 = 8;
/// Most received envelopes that are remembered, to distinguish a repeated one from a forged one.
const RECENT: usize = 256;

/// Id of a session, the same on both sides.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct SessionId(pub [u8; 16]);

/// Why a message was refused. No state has changed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MailError {
    /// A key of a card or envelope is invalid.
    #[error("it holds an invalid key")]
    Key,
    /// It was written for a prekey that is forgotten.
    #[error("it was encrypted for a card that is too old")]
    Stale,
    /// It is forged, damaged, or older than what is remembered.
    #[error("it does not authenticate")]
    Forged,
    /// The session has ended.
    #[error("the conversation was ended")]
    Ended,
    /// The peer has to write first.
    #[error("the peer has to write first")]
    NotYet,
    /// The body does not fit.
    #[error(transparent)]
    Body(#[from] BodyError),
}

/// Result of an envelope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReceivedMail {
    /// A new message. The state has changed.
    New(MailBody),
    /// The sender's message, but malformed. The state has changed.
    Malformed,
    /// It had arrived before; nothing has changed.
    Again,
    /// The sender's message, but so far beyond the one before it that the session cannot be read any more: it has
    /// ended.
    Ended,
}

/// An encrypted conversation with one peer.
pub struct MailSession {
    id: SessionId,
    peer: Party,
    /// Number of the prekey of the first message's receiver.
    prekey: u32,
    associated: [u8; 32],
    /// The session's ephemeral key: in every message until the peer is known to have the session.
    opening: Option<PeerKey>,
    card: Option<Box<Card>>,
    used: u64,
    receipts: Option<Zeroizing<[u8; 32]>>,
    /// The peer's messages that are lost for good.
    lost: u32,
    /// Our messages that the peer has reported lost.
    reported_lost: u32,
    recent: VecDeque<EnvelopeId>,
    ratchet: Option<Ratchet>,
}

impl MailSession {
    /// Begins a session with the card's owner. `seed` is 32 random bytes, never used twice.
    ///
    /// # Errors
    /// [`MailError::Key`].
    pub fn start(us: &MailIdentity, card: &Card, seed: [u8; 32]) -> Result<Self, MailError> {
        let seed = Zeroizing::new(seed);
        let ephemeral = StaticKey::generate(derive(label::SESSION_EPHEMERAL, &[&seed[..]]));
        let agreed = initiate(us, &card.party, card.prekey_number, &card.prekey, &ephemeral);
        let agreed = agreed.ok_or(MailError::Key)?;
        let seed = derive(label::RATCHET_SEED, &[&seed[..]]);
        let ratchet = Ratchet::initiator(*agreed.secret, card.prekey, seed);
        let mut session = Self::new(&agreed, card.party, card.prekey_number, ratchet);
        session.opening = Some(ephemeral.public());
        session.card = Some(Box::new(card.clone()));
        Ok(session)
    }

    fn new(agreed: &Agreed, peer: Party, prekey: u32, ratchet: Ratchet) -> Self {
        Self {
            id: SessionId(agreed.id),
            peer,
            prekey,
            associated: agreed.associated,
            opening: None,
            card: None,
            used: 0,
            receipts: Some(agreed.receipts.clone()),
            lost: 0,
            reported_lost: 0,
            recent: VecDeque::new(),
            ratchet: Some(ratchet),
        }
    }

    /// Returns the id by which it is stored and found.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Returns the peer.
    #[must_use]
    pub fn peer(&self) -> Party {
        self.peer
    }

    /// Returns the peer's newest known card.
    #[must_use]
    pub fn card(&self) -> Option<&Card> {
        self.card.as_deref()
    }

    /// Returns the number of the prekey, ours or the peer's, with which it began.
    #[must_use]
    pub fn prekey(&self) -> u32 {
        self.prekey
    }

    /// Returns the last use that [`MailSession::touch`] recorded, in seconds since 1970.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Records a use, in seconds since 1970.
    pub fn touch(&mut self, now: u64) {
        self.used = self.used.max(now);
    }

    /// Returns whether it can carry messages.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.ratchet.is_some()
    }

    /// Returns how many of the peer's messages are lost for good, since it began.
    #[must_use]
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// Records that the peer has lost `lost` of our messages in total; returns how many of these are news.
    pub fn record_reported_lost(&mut self, lost: u32) -> u32 {
        let new = lost.saturating_sub(self.reported_lost);
        self.reported_lost = self.reported_lost.max(lost);
        new
    }

    /// Returns the key of the mailbox with the receipts for us.
    #[must_use]
    pub fn receipts_key(&self, us: &MailIdentity) -> Option<StaticKey> {
        Some(ReceiptKeys::new(self.id, self.receipts.as_ref()?, &us.party()).into_mailbox())
    }

    /// Seals a receipt for an envelope of the peer. `seed` is 32 random bytes, never used twice.
    #[must_use]
    pub fn receipt(
        &self,
        of: EnvelopeId,
        status: DeliveryStatus,
        seed: [u8; 32],
    ) -> Option<Vec<u8>> {
        let receipt = Receipt { envelope: of, status, lost: self.lost };
        ReceiptKeys::new(self.id, self.receipts.as_ref()?, &self.peer).seal(&receipt, seed)
    }

    /// Opens a receipt for one of our envelopes; `None` if the peer did not write it.
    #[must_use]
    pub fn open_receipt(&self, us: &MailIdentity, envelope: &[u8]) -> Option<Receipt> {
        ReceiptKeys::new(self.id, self.receipts.as_ref()?, &us.party()).open(envelope)
    }

    /// Deletes every key except that of receipts. The session can then neither read nor write, and its first message
    /// cannot begin it again.
    pub fn end(&mut self) {
        (self.ratchet, self.opening, self.card) = (None, None, None);
        self.recent.clear();
    }

    /// Records that the peer confirmed a message of this session: later messages omit the parts of a first one.
    pub fn confirmed(&mut self) {
        self.opening = None;
    }

    /// Seals a message in an envelope. `ours` is our card, for the peer's answers; `seed` is 32 random bytes, never
    /// used twice.
    ///
    /// # Errors
    /// [`MailError::Ended`], [`MailError::NotYet`], [`MailError::Body`].
    pub fn seal(
        &mut self,
        us: &MailIdentity,
        ours: &Card,
        body: &MailBody,
        seed: [u8; 32],
    ) -> Result<Vec<u8>, MailError> {
        let seed = Zeroizing::new(seed);
        debug_assert_eq!(us.party(), ours.party);
        let body = body.encode()?;
        let ratchet = self.ratchet.as_mut().ok_or(MailError::Ended)?;
        let mut message = Vec::new();
        ratchet.encrypt(&body, &self.associated, &mut message).map_err(|_| MailError::NotYet)?;
        let place = match self.opening {
            Some(ephemeral) => SessionRef::First { prekey: self.prekey, ephemeral, card: ours },
            None => SessionRef::Next { session: self.id.0 },
        };
        seal(&self.peer.link, &place, &message, body.len(), &seed).ok_or(MailError::Key)
    }

    /// Reads the content of an envelope.
    ///
    /// # Errors
    /// [`MailError::Forged`], [`MailError::Ended`]; nothing has changed then.
    pub fn receive(&mut self, opened: &OpenedEnvelope) -> Result<ReceivedMail, MailError> {
        if self.recent.contains(&opened.id) {
            return Ok(ReceivedMail::Again);
        }
        let ratchet = self.ratchet.as_mut().ok_or(MailError::Ended)?;
        let mut body = Zeroizing::new(Vec::with_capacity(opened.message.len()));
        match ratchet.decrypt(&opened.message, &self.associated, &mut body) {
            Ok(lost) => self.lost = self.lost.saturating_add(lost),
            // Only the peer can have written that header.
            Err(RatchetError::TooFar(missing)) => {
                self.lost = self.lost.saturating_add(missing);
                self.end();
                return Ok(ReceivedMail::Ended);
            }
            Err(RatchetError::NoPeerKey) => return Err(MailError::NotYet),
            Err(_) => return Err(MailError::Forged),
        }
        self.recent.push_back(opened.id);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        // Only a peer that has the session can have written this.
        self.opening = None;
        if let OpenedKind::First { card, .. } = &opened.inside
            && self.card.as_ref().is_none_or(|known| known.made <= card.made)
        {
            self.card = Some(card.clone());
        }
        Ok(MailBody::decode(&body).map_or(ReceivedMail::Malformed, ReceivedMail::New))
    }

    /// Returns whether this envelope arrived before, and is remembered.
    #[must_use]
    pub fn has(&self, envelope: EnvelopeId) -> bool {
        self.recent.contains(&envelope)
    }

    /// Encodes the state, which is secret; wiped when dropped.
    #[must_use]
    pub fn save(&self) -> Zeroizing<Vec<u8>> {
        let ratchet = self.ratchet.as_ref().map(Ratchet::save);
        let ratchet = ratchet.as_ref().map_or(&[][..], |saved| &saved[..]);
        let card = self.card.as_ref().map(|card| card.to_bytes());
        let room = 256 + card.as_ref().map_or(0, Vec::len) + 16 * self.recent.len();
        let mut out = Zeroizing::new(Vec::with_capacity(room + ratchet.len()));
        let bit = |there: bool, bit| if there { bit } else { 0 };
        let flags = bit(self.ratchet.is_none(), ENDED)
            | bit(self.opening.is_some(), OPENING)
            | bit(card.is_some(), CARD)
            | bit(self.receipts.is_some(), RECEIPTS);
        out.extend_from_slice(&[VERSION, flags]);
        out.extend_from_slice(&self.id.0);
        out.extend_from_slice(&self.peer.to_bytes());
        out.extend_from_slice(&self.prekey.to_be_bytes());
        out.extend_from_slice(&self.associated);
        out.extend_from_slice(&self.used.to_be_bytes());
        out.extend_from_slice(self.opening.as_ref().map_or(&[], |key| &key.0[..]));
        if let Some(card) = &card {
            put_u16_prefixed(&mut out, card);
        }
        if let Some(secret) = &self.receipts {
            out.extend_from_slice(&secret[..]);
            out.extend_from_slice(&self.lost.to_be_bytes());
            out.extend_from_slice(&self.reported_lost.to_be_bytes());
        }
        out.extend_from_slice(&(self.recent.len() as u16).to_be_bytes());
        for id in &self.recent {
            out.extend_from_slice(&id.0);
        }
        out.extend_from_slice(ratchet);
        out
    }

    /// Parses what [`MailSession::save`] made; `None` for anything else. `seed` is 32 random bytes, never used twice.
    #[must_use]
    pub fn restore(saved: &[u8], seed: [u8; 32]) -> Option<Self> {
        let mut fields = FieldReader(saved);
        let [version, flags] = fields.array()?;
        if version != VERSION || flags > (ENDED | OPENING | CARD | RECEIPTS) {
            return None;
        }
        let id = SessionId(fields.array()?);
        let peer = Party::from_bytes(fields.array()?, fields.array()?);
        let prekey = fields.u32()?;
        let associated = fields.array()?;
        let used = fields.u64()?;
        let opening = match flags & OPENING {
            0 => None,
            _ => Some(PeerKey(fields.array()?)),
        };
        let card = match flags & CARD {
            0 => None,
            _ => {
                let len = usize::from(fields.u16()?);
                Some(Box::new(Card::from_bytes(fields.bytes(len)?).ok()?))
            }
        };
        let (receipts, lost, told) = match flags & RECEIPTS {
            0 => (None, 0, 0),
            _ => (Some(Zeroizing::new(fields.array()?)), fields.u32()?, fields.u32()?),
        };
        let count = usize::from(fields.u16()?);
        if count > RECENT {
            return None;
        }
        let mut recent = VecDeque::with_capacity(count);
        for _ in 0..count {
            recent.push_back(EnvelopeId(fields.array()?));
        }
        let ratchet = match flags & ENDED {
            0 => Some(Ratchet::restore(fields.0, seed)?),
            _ => fields.0.is_empty().then_some(None)?,
        };
        Some(Self {
            id,
            peer,
            prekey,
            associated,
            opening,
            card,
            used,
            receipts,
            lost,
            reported_lost: told,
            recent,
            ratchet,
        })
    }
}

impl OpenedEnvelope {
    /// Returns the envelope's hash.
    #[must_use]
    pub fn id(&self) -> EnvelopeId {
        self.id
    }

    /// Returns the session that it names; `None` if it begins one ([`OpenedEnvelope::begin`]).
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        match self.inside {
            OpenedKind::First { .. } => None,
            OpenedKind::Next { session } => Some(SessionId(session)),
        }
    }

    /// Returns the sender that a first message names; authenticated once [`MailSession::receive`] has accepted it.
    #[must_use]
    pub fn sender(&self) -> Option<Party> {
        match &self.inside {
            OpenedKind::First { card, .. } => Some(card.party),
            OpenedKind::Next { .. } => None,
        }
    }

    /// Makes the session that a first message begins. If a session with this id is stored already, use that one to
    /// receive it. `seed` is 32 random bytes, never used twice.
    ///
    /// # Errors
    /// [`MailError::Stale`], [`MailError::Key`]; [`MailError::Forged`] if it begins none.
    pub fn begin(
        &self,
        us: &MailIdentity,
        prekeys: &Prekeys,
        seed: [u8; 32],
    ) -> Result<MailSession, MailError> {
        let OpenedKind::First { prekey, ephemeral, card } = &self.inside else {
            return Err(MailError::Forged);
        };
        let prekey = prekeys.find(*prekey).ok_or(MailError::Stale)?;
        let agreed = respond(us, &card.party, prekey, ephemeral).ok_or(MailError::Key)?;
        let ratchet = Ratchet::responder(*agreed.secret, prekey.key.clone(), seed);
        Ok(MailSession::new(&agreed, card.party, prekey.number, ratchet))
    }
}

impl fmt::Debug for MailSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
