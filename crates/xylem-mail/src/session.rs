//! [`Session`]: one conversation, from the first message on. Its state is small and is stored by the
//! caller: before an envelope that it made leaves, and before a message that it gave is shown.
//!
//! Saved as `version = 1 (1) | flags (1) | id (16) | peer (64) | prekey's number (4) | associated (32) |
//! used (8) | [session's ephemeral key (32)] | [card's length (2) | card] | [receipts' secret (32) | lost
//! (4) | told (4)] | count (2) | count × envelope's id (16) | ratchet`; flags: 1 ended (no ratchet), 2 the
//! ephemeral, 4 the card, 8 receipts (without in those of before there were any).

use core::fmt;
use std::collections::VecDeque;

use xylem_link::{PeerKey, StaticKey};
use zeroize::Zeroizing;

use crate::agreement::{Agreed, initiate, respond};
use crate::body::{Body, BodyError};
use crate::card::Card;
use crate::envelope::{EnvelopeId, Inside, Opened, Place, seal};
use crate::fields::{Fields, put_u16_prefixed};
use crate::identity::{Identity, Party};
use crate::kdf::{derive, label};
use crate::prekeys::Prekeys;
use crate::protocol::Status;
use crate::ratchet::{Ratchet, RatchetError};
use crate::receipt::{Receipt, Receipts};

const VERSION: u8 = 1;
const ENDED: u8 = 1;
const OPENING: u8 = 2;
const CARD: u8 = 4;
const RECEIPTS: u8 = 8;
/// Envelopes that arrived and are remembered, so that one that comes again is told from a forged
/// one.
const RECENT: usize = 256;

/// Names a session; both sides have the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct SessionId(pub [u8; 16]);

/// Why something was refused. No state has changed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MailError {
    /// A key of a card or envelope is none.
    #[error("a key in it is no key")]
    Key,
    /// It was written for a prekey that is forgotten.
    #[error("it was written with a card that is too old")]
    Stale,
    /// Forged, damaged, or older than what is remembered.
    #[error("it does not authenticate")]
    Forged,
    /// The session was ended.
    #[error("the conversation was ended")]
    Ended,
    /// The peer has to write first.
    #[error("the other side has to write first")]
    NotYet,
    /// The body does not fit.
    #[error(transparent)]
    Body(#[from] BodyError),
}

/// What came of an envelope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Received {
    /// A message. The state has changed.
    New(Body),
    /// The sender's, but written wrongly. The state has changed.
    Malformed,
    /// It had arrived before; nothing has changed.
    Again,
    /// The sender's, so far beyond the one before it that nothing of the session can be read any more:
    /// it has ended.
    Ended,
}

/// A conversation with one peer.
pub struct Session {
    id: SessionId,
    peer: Party,
    /// Of the receiver of the first message.
    prekey: u32,
    associated: [u8; 32],
    /// The session's ephemeral key: in every message until the peer is known to have the session.
    opening: Option<PeerKey>,
    card: Option<Box<Card>>,
    used: u64,
    receipts: Option<Zeroizing<[u8; 32]>>,
    /// Messages of the peer that are lost for good.
    lost: u32,
    /// Messages of ours of which the peer has said that.
    told: u32,
    recent: VecDeque<EnvelopeId>,
    ratchet: Option<Ratchet>,
}

impl Session {
    /// Begins one with whoever the card is of. `seed`: 32 random bytes, never used twice.
    ///
    /// # Errors
    /// [`MailError::Key`].
    pub fn start(us: &Identity, card: &Card, seed: [u8; 32]) -> Result<Self, MailError> {
        let seed = Zeroizing::new(seed);
        let ephemeral = StaticKey::generate(derive(label::SESSION_EPHEMERAL, &[&seed[..]]));
        let prekey = (card.prekey_number, &card.prekey);
        let agreed = initiate(us, &card.party, prekey, &ephemeral).ok_or(MailError::Key)?;
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
            told: 0,
            recent: VecDeque::new(),
            ratchet: Some(ratchet),
        }
    }

    /// By which it is stored and found.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// With whom.
    #[must_use]
    pub fn peer(&self) -> Party {
        self.peer
    }

    /// The peer's newest card, if one came with it.
    #[must_use]
    pub fn card(&self) -> Option<&Card> {
        self.card.as_deref()
    }

    /// The prekey of ours, or theirs, that it began with.
    #[must_use]
    pub fn prekey(&self) -> u32 {
        self.prekey
    }

    /// When it was last used, as [`Session::touch`] was told.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Remembers when it was used, in seconds since 1970.
    pub fn touch(&mut self, now: u64) {
        self.used = self.used.max(now);
    }

    /// Whether it can carry messages.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.ratchet.is_some()
    }

    /// Messages of the peer that are lost for good, since it began.
    #[must_use]
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// The peer has lost so many of ours, all in all; returns how many it had not yet said so of.
    pub fn is_told(&mut self, lost: u32) -> u32 {
        let new = lost.saturating_sub(self.told);
        self.told = self.told.max(lost);
        new
    }

    /// The key of the mailbox where receipts for us are left.
    #[must_use]
    pub fn receipts_key(&self, us: &Identity) -> Option<StaticKey> {
        Some(Receipts::new(self.id, self.receipts.as_ref()?, &us.party()).into_mailbox())
    }

    /// Says to the peer what became of an envelope, as an envelope. `seed`: 32 random bytes, never used
    /// twice.
    #[must_use]
    pub fn receipt(&self, of: EnvelopeId, status: Status, seed: [u8; 32]) -> Option<Vec<u8>> {
        let receipt = Receipt { envelope: of, status, lost: self.lost };
        Receipts::new(self.id, self.receipts.as_ref()?, &self.peer).seal(&receipt, seed)
    }

    /// What the peer says became of an envelope; `None` if it is not the peer who says it.
    #[must_use]
    pub fn open_receipt(&self, us: &Identity, envelope: &[u8]) -> Option<Receipt> {
        Receipts::new(self.id, self.receipts.as_ref()?, &us.party()).open(envelope)
    }

    /// Forgets every key but that of receipts, so that nothing more is read or written, and the session can't be begun
    /// again by the message that began it.
    pub fn end(&mut self) {
        (self.ratchet, self.opening, self.card) = (None, None, None);
        self.recent.clear();
    }

    /// The peer itself said that it has a message of this session: from now on messages do without
    /// what a first one carries.
    pub fn confirmed(&mut self) {
        self.opening = None;
    }

    /// Makes an envelope. `ours`: our card, for the peer to answer to; `seed`: 32 random bytes, never
    /// used twice.
    ///
    /// # Errors
    /// [`MailError::Ended`], [`MailError::NotYet`], [`MailError::Body`].
    pub fn seal(
        &mut self,
        us: &Identity,
        ours: &Card,
        body: &Body,
        seed: [u8; 32],
    ) -> Result<Vec<u8>, MailError> {
        let seed = Zeroizing::new(seed);
        debug_assert_eq!(us.party(), ours.party);
        let body = body.encode()?;
        let ratchet = self.ratchet.as_mut().ok_or(MailError::Ended)?;
        let mut message = Vec::new();
        ratchet.encrypt(&body, &self.associated, &mut message).map_err(|_| MailError::NotYet)?;
        let place = match self.opening {
            Some(ephemeral) => Place::First { prekey: self.prekey, ephemeral, card: ours },
            None => Place::Next { session: self.id.0 },
        };
        seal(&self.peer.link, &place, &message, body.len(), &seed).ok_or(MailError::Key)
    }

    /// Reads what was in an envelope.
    ///
    /// # Errors
    /// [`MailError::Forged`], [`MailError::Ended`]; nothing has changed then.
    pub fn receive(&mut self, opened: &Opened) -> Result<Received, MailError> {
        if self.recent.contains(&opened.id) {
            return Ok(Received::Again);
        }
        let ratchet = self.ratchet.as_mut().ok_or(MailError::Ended)?;
        let mut body = Zeroizing::new(Vec::with_capacity(opened.message.len()));
        match ratchet.decrypt(&opened.message, &self.associated, &mut body) {
            Ok(lost) => self.lost = self.lost.saturating_add(lost),
            // Only the peer can have written that header.
            Err(RatchetError::TooFar(missing)) => {
                self.lost = self.lost.saturating_add(missing);
                self.end();
                return Ok(Received::Ended);
            }
            Err(RatchetError::NoPeerKey) => return Err(MailError::NotYet),
            Err(_) => return Err(MailError::Forged),
        }
        self.recent.push_back(opened.id);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        // Only who has the session can have written this.
        self.opening = None;
        if let Inside::First { card, .. } = &opened.inside
            && self.card.as_ref().is_none_or(|known| known.made <= card.made)
        {
            self.card = Some(card.clone());
        }
        Ok(Body::decode(&body).map_or(Received::Malformed, Received::New))
    }

    /// Whether this envelope arrived before, and is remembered.
    #[must_use]
    pub fn has(&self, envelope: EnvelopeId) -> bool {
        self.recent.contains(&envelope)
    }

    /// The state, secret; wiped when dropped.
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
            out.extend_from_slice(&self.told.to_be_bytes());
        }
        out.extend_from_slice(&(self.recent.len() as u16).to_be_bytes());
        for id in &self.recent {
            out.extend_from_slice(&id.0);
        }
        out.extend_from_slice(ratchet);
        out
    }

    /// Takes back what [`Session::save`] gave; `None` for anything else. `seed`: 32 random bytes,
    /// never used twice.
    #[must_use]
    pub fn restore(saved: &[u8], seed: [u8; 32]) -> Option<Self> {
        let mut fields = Fields(saved);
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
            told,
            recent,
            ratchet,
        })
    }
}

impl Opened {
    /// The envelope's hash.
    #[must_use]
    pub fn id(&self) -> EnvelopeId {
        self.id
    }

    /// The session that it says it belongs to; `None`: it begins one ([`Opened::begin`]).
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        match self.inside {
            Inside::First { .. } => None,
            Inside::Next { session } => Some(SessionId(session)),
        }
    }

    /// Whom a first message says that it is from; proven once [`Session::receive`] has taken it.
    #[must_use]
    pub fn sender(&self) -> Option<Party> {
        match &self.inside {
            Inside::First { card, .. } => Some(card.party),
            Inside::Next { .. } => None,
        }
    }

    /// The session that a first message begins. If one of this id is stored already, that one is to
    /// receive it. `seed`: 32 random bytes, never used twice.
    ///
    /// # Errors
    /// [`MailError::Stale`], [`MailError::Key`]; [`MailError::Forged`] if it begins none.
    pub fn begin(
        &self,
        us: &Identity,
        prekeys: &Prekeys,
        seed: [u8; 32],
    ) -> Result<Session, MailError> {
        let Inside::First { prekey, ephemeral, card } = &self.inside else {
            return Err(MailError::Forged);
        };
        let prekey = prekeys.find(*prekey).ok_or(MailError::Stale)?;
        let agreed = respond(us, &card.party, prekey, ephemeral).ok_or(MailError::Key)?;
        let ratchet = Ratchet::responder(*agreed.secret, prekey.key.clone(), seed);
        Ok(Session::new(&agreed, card.party, prekey.number, ratchet))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
