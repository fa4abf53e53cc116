//! The envelope, in which a message passes through strangers. Only the receiver's link key opens it. The sender, the
//! session, and whether it is the first message are inside. Its length is one of eight classes.
//!
//! `version = 1 (1) | mailbox (16) | ephemeral key (32) | sealed | tag (16)`, ChaCha20-Poly1305 under a key of the
//! ephemeral and the receiver's link key, associated data: all before the sealed part. It does not authenticate the
//! sender: the session's message inside does.
//!
//! Sealed: `kind (1)`, then kind 1, first: `prekey's number (4) | session's ephemeral key (32) | card's length (2) |
//! sender's card | message's length (4) | message`; kind 2, next: `session (16) | message's length (4) | message`; then
//! zeros, up to 1,024 bytes more than the message's body has. Kind 3 is a receipt (`receipt.rs`), which the parser of
//! messages refuses.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use xylem_link::{PeerKey, StaticKey};
use zeroize::Zeroizing;

use crate::body::MAX_BODY;
use crate::card::Card;
use crate::fields::{FieldReader, put_u16_prefixed, put_u32_prefixed};
use crate::identity::MailIdentity;
use crate::kdf::{derive, label, short};
use crate::ratchet::{HEADER_LEN, TAG_LEN};

/// Bytes of an envelope beside its body.
pub const ENVELOPE_OVERHEAD: usize = HEAD_LEN + TAG_LEN + ROOM;
/// Greatest length of an envelope, in bytes.
pub const MAX_ENVELOPE: usize = MAX_BODY + ENVELOPE_OVERHEAD;

const VERSION: u8 = 1;
const HEAD_LEN: usize = 1 + 16 + 32;
/// Bytes of the sealed part beside the body: enough for all parts of a first message, so that its length does not show
/// it.
const ROOM: usize = 1_024;
const FIRST: u8 = 1;
const NEXT: u8 = 2;

/// Name of a receiver's mailbox: a hash of its link key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct MailboxId(pub [u8; 16]);

impl MailboxId {
    /// Returns the mailbox of this key; a peer that proves the key may empty it.
    #[must_use]
    pub fn of(key: &PeerKey) -> Self {
        Self(short(label::MAILBOX, &[&key.0]))
    }
}

/// A hash of the whole envelope, by which receipts name it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct EnvelopeId(pub [u8; 16]);

impl EnvelopeId {
    /// Hashes an envelope.
    #[must_use]
    pub fn of(envelope: &[u8]) -> Self {
        Self(short(label::ENVELOPE_ID, &[envelope]))
    }
}

/// Returns the mailbox of an envelope; `None` if the bytes are none. A carrier reads nothing else.
#[must_use]
pub fn mailbox_of(envelope: &[u8]) -> Option<MailboxId> {
    let padded = envelope.len().checked_sub(ENVELOPE_OVERHEAD)?;
    let right = envelope[0] == VERSION && padded.is_power_of_two() && padded <= MAX_BODY;
    right.then_some(())?;
    envelope[1..].first_chunk().map(|id| MailboxId(*id))
}

/// How a message names its session, inside the envelope.
pub(crate) enum SessionRef<'a> {
    /// Used until the peer is known to have the session.
    First { prekey: u32, ephemeral: PeerKey, card: &'a Card },
    /// Used from then on.
    Next { session: [u8; 16] },
}

/// Puts a session's message, with a body of `body` bytes, into an envelope. `None` if the receiver's key is invalid.
pub(crate) fn seal(
    to: &PeerKey,
    place: &SessionRef<'_>,
    message: &[u8],
    body: usize,
    seed: &[u8; 32],
) -> Option<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(body.saturating_add(ENVELOPE_OVERHEAD)));
    match place {
        SessionRef::First { prekey, ephemeral, card } => {
            out.push(FIRST);
            out.extend_from_slice(&prekey.to_be_bytes());
            out.extend_from_slice(&ephemeral.0);
            put_u16_prefixed(&mut out, &card.to_bytes());
        }
        SessionRef::Next { session } => {
            out.push(NEXT);
            out.extend_from_slice(session);
        }
    }
    put_u32_prefixed(&mut out, message);
    seal_plain(to, &out, body, seed)
}

/// Puts any bytes into an envelope as long as that of a message with a body of `body` bytes.
pub(crate) fn seal_plain(
    to: &PeerKey,
    plain: &[u8],
    body: usize,
    seed: &[u8; 32],
) -> Option<Vec<u8>> {
    let ephemeral = StaticKey::generate(derive(label::ENVELOPE_EPHEMERAL, &[seed]));
    let key = key(&*ephemeral.agree(to)?, &ephemeral.public(), to);
    let mut out = Vec::with_capacity(body.saturating_add(ENVELOPE_OVERHEAD));
    out.push(VERSION);
    out.extend_from_slice(&MailboxId::of(to).0);
    out.extend_from_slice(&ephemeral.public().0);
    out.extend_from_slice(plain);
    let end = body.saturating_add(HEAD_LEN + ROOM);
    debug_assert!(out.len() <= end, "no card is that long");
    out.resize(end, 0);
    let (head, sealed) = out.split_at_mut(HEAD_LEN);
    let tag = key.seal_in_place_separate_tag(nonce(), Aad::from(head), sealed).ok()?;
    out.extend_from_slice(tag.as_ref());
    Some(out)
}

/// The content of an envelope for us; none of it is authenticated yet.
#[derive(Debug)]
pub struct OpenedEnvelope {
    pub(crate) id: EnvelopeId,
    pub(crate) inside: OpenedKind,
    pub(crate) message: Vec<u8>,
}

#[derive(Debug)]
pub(crate) enum OpenedKind {
    First { prekey: u32, ephemeral: PeerKey, card: Box<Card> },
    Next { session: [u8; 16] },
}

/// Opens an envelope with our link key; `None` if it is invalid, damaged, or for another receiver.
#[must_use]
pub fn open(us: &MailIdentity, envelope: &[u8]) -> Option<OpenedEnvelope> {
    let plain = open_plain(us.link(), envelope)?;
    let body = plain.len().checked_sub(ROOM)?;
    let mut fields = FieldReader(&plain);
    let inside = match fields.byte()? {
        FIRST => {
            let (prekey, ephemeral) = (fields.u32()?, PeerKey(fields.array()?));
            let len = usize::from(fields.u16()?);
            let card = Box::new(Card::from_bytes(fields.bytes(len)?).ok()?);
            OpenedKind::First { prekey, ephemeral, card }
        }
        NEXT => OpenedKind::Next { session: fields.array()? },
        _ => return None,
    };
    let len = usize::try_from(fields.u32()?).ok()?;
    let message = fields.bytes(len)?.to_vec();
    let right =
        len == body.saturating_add(HEADER_LEN + TAG_LEN) && fields.0.iter().all(|byte| *byte == 0);
    right.then_some(OpenedEnvelope { id: EnvelopeId::of(envelope), inside, message })
}

/// Returns the content of an envelope for this key, with its padding.
pub(crate) fn open_plain(ours: &StaticKey, envelope: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let us = ours.public();
    mailbox_of(envelope).filter(|id| *id == MailboxId::of(&us))?;
    let (head, sealed) = envelope.split_at_checked(HEAD_LEN)?;
    let ephemeral = PeerKey(*head.last_chunk()?);
    let key = key(&*ours.agree(&ephemeral)?, &ephemeral, &us);
    let mut inside = Zeroizing::new(sealed.to_vec());
    let plain = key.open_in_place(nonce(), Aad::from(head), &mut inside).ok()?.len();
    inside.truncate(plain);
    Some(inside)
}

fn key(shared: &[u8; 32], ephemeral: &PeerKey, to: &PeerKey) -> LessSafeKey {
    let key = Zeroizing::new(derive(label::ENVELOPE, &[shared, &ephemeral.0, &to.0]));
    let key = UnboundKey::new(&CHACHA20_POLY1305, &key[..]);
    LessSafeKey::new(key.expect("the key has 32 bytes"))
}

/// Each key seals one envelope: its ephemeral key is used once.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}
