//! [`Ratchet`]: the Double Ratchet (Perrin, Marlinspike 2016, revision 1) for messages to peers that
//! may be offline: each message has a key of its own, gone once used, and whoever learns the state
//! today reads neither what came before nor, after one exchange of messages, what comes later.
//!
//! Where the two got their first shared secret, and how messages travel, is the caller's business.
//! Messages may be lost, late and in any order; keys of those that are skipped are kept, within
//! limits. Nothing changes before a message's tag has verified (section 3.5 of the specification).
//! A new key pair is drawn when the next message is sent, not when one arrives (section 6.5), so
//! that receiving costs one Diffie-Hellman at most.
//!
//! `ratchet key (32) | length of the chain before (4) | number in the chain (4) | sealed | tag (16)`,
//! numbers big-endian; docs/spec/link.md, "Ratchet".
//!
//! What it does not do: hide the header, tell two lost messages from none, or store itself.

use core::fmt;
use std::collections::VecDeque;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use thiserror::Error;
use xylem_hash::Hasher;
use zeroize::Zeroizing;

use crate::kdf::{Rng, label};
use crate::{PeerKey, StaticKey, curve};

/// Bytes before the sealed part.
pub const HEADER_LEN: usize = 40;
/// Bytes of the tag after it.
pub const TAG_LEN: usize = 16;
/// Messages that may be missing before one that arrives, in one chain.
pub const MAX_SKIP: u32 = 1_000;
/// Keys of missing messages that are kept; the oldest give way.
pub const MAX_KEPT: usize = 2_000;

type Key = Zeroizing<[u8; 32]>;

/// Why a message was not taken. Nothing has changed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RatchetError {
    /// Shorter than a header and a tag.
    #[error("the message is too short")]
    Short,
    /// The tag does not verify: forged, damaged, or seen before.
    #[error("the message does not authenticate, or was seen before")]
    Forged,
    /// More messages are missing before it than may be.
    #[error("more than {MAX_SKIP} messages are missing before this one")]
    TooFar,
    /// The peer has to send first: until then its ratchet key is not known.
    #[error("nothing can be sent before something has arrived")]
    NoPeerKey,
    /// 2^32 - 1 messages without an answer.
    #[error("too many messages without an answer")]
    Exhausted,
}

/// A chain of message keys, and the number of the next one.
#[derive(Clone)]
struct Chain {
    key: Key,
    next: u32,
}

impl Chain {
    /// The next message's key, behind the chain's.
    fn step(&mut self) -> Step {
        let step = step(&self.key);
        self.key.copy_from_slice(&step.0[..32]);
        self.next += 1;
        step
    }
}

/// The next chain key and a message key, in one buffer that is wiped once.
pub(crate) struct Step(Zeroizing<[u8; 64]>);

impl Step {
    pub fn message_key(&self) -> &[u8; 32] {
        self.0.last_chunk().expect("32 of 64 bytes")
    }
}

/// Chain key → the next one and a message key: one compression of BLAKE3 under the chain key.
#[inline]
pub(crate) fn step(chain: &[u8; 32]) -> Step {
    let mut both = Zeroizing::new([0; 64]);
    Hasher::new_keyed(chain).finalize_xof().fill(&mut both[..]);
    Step(both)
}

fn halves(both: &[u8; 64]) -> (Key, Key) {
    let (mut one, mut other) = (Zeroizing::new([0; 32]), Zeroizing::new([0; 32]));
    one.copy_from_slice(&both[..32]);
    other.copy_from_slice(&both[32..]);
    (one, other)
}

/// Root key and a Diffie-Hellman → the next root key and a chain.
fn root_step(root: &[u8; 32], shared: &[u8; 32]) -> (Key, Chain) {
    let mut both = Zeroizing::new([0; 64]);
    let mut hasher = Hasher::new_derive_key(label::RATCHET_ROOT);
    hasher.update(root).update(shared);
    hasher.finalize_xof().fill(&mut both[..]);
    let (root, key) = halves(&both);
    (root, Chain { key, next: 0 })
}

/// What a message that arrives may change: small, so that it is changed in a copy.
#[derive(Clone)]
struct State {
    root: Key,
    theirs: Option<[u8; 32]>,
    sending: Option<Chain>,
    receiving: Option<Chain>,
    /// Length of our sending chain before the current one.
    previous: u32,
}

struct Skipped {
    chain: [u8; 32],
    number: u32,
    key: Key,
}

#[derive(Clone, Copy)]
struct Header {
    key: [u8; 32],
    previous: u32,
    number: u32,
}

impl Header {
    fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[..32].copy_from_slice(&self.key);
        out[32..36].copy_from_slice(&self.previous.to_be_bytes());
        out[36..].copy_from_slice(&self.number.to_be_bytes());
        out
    }

    fn decode(bytes: &[u8; HEADER_LEN]) -> Option<Self> {
        let (key, numbers) = bytes.split_first_chunk()?;
        let (previous, number) = numbers.split_first_chunk()?;
        let (previous, number) = (u32::from_be_bytes(*previous), number.first_chunk()?);
        Some(Self { key: *key, previous, number: u32::from_be_bytes(*number) })
    }
}

/// One side's state with one peer.
pub struct Ratchet {
    state: State,
    /// Our current ratchet key pair.
    ours: Option<StaticKey>,
    /// Oldest first.
    skipped: VecDeque<Skipped>,
    rng: Rng,
}

impl Ratchet {
    /// The side that sends first. `shared`: a secret that only the two know; `peer`: the other
    /// side's first ratchet key. `seed`: 32 random bytes, never used twice.
    #[must_use]
    pub fn initiator(shared: [u8; 32], peer: PeerKey, seed: [u8; 32]) -> Self {
        Self::new(shared, Some(peer.0), None, seed)
    }

    /// The side whose key the other knows. It can send once something has arrived.
    #[must_use]
    pub fn responder(shared: [u8; 32], key: StaticKey, seed: [u8; 32]) -> Self {
        Self::new(shared, None, Some(key), seed)
    }

    fn new(
        shared: [u8; 32],
        theirs: Option<[u8; 32]>,
        ours: Option<StaticKey>,
        seed: [u8; 32],
    ) -> Self {
        let root = Zeroizing::new(shared);
        let state = State { root, theirs, sending: None, receiving: None, previous: 0 };
        Self { state, ours, skipped: VecDeque::new(), rng: Rng::new(&seed) }
    }

    /// So that a benchmark can open one message again and again.
    #[doc(hidden)]
    #[must_use]
    pub fn copy_for_tests(&self) -> Self {
        let rng = Rng::new(&[0; 32]);
        Self { state: self.state.clone(), ours: self.ours.clone(), skipped: VecDeque::new(), rng }
    }

    /// Keys of missing messages that are kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.skipped.len()
    }

    /// Appends a message to `out`. `associated`: what both sides know of it and is not sent.
    ///
    /// # Errors
    /// [`RatchetError::NoPeerKey`], [`RatchetError::Exhausted`]; nothing is appended then.
    pub fn encrypt(
        &mut self,
        plaintext: &[u8],
        associated: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), RatchetError> {
        if self.state.sending.is_none() {
            self.turn()?;
        }
        let (Some(chain), Some(ours)) = (&mut self.state.sending, &self.ours) else {
            return Err(RatchetError::NoPeerKey);
        };
        if chain.next == u32::MAX {
            return Err(RatchetError::Exhausted);
        }
        let (key, previous, number) = (ours.public().0, self.state.previous, chain.next);
        let header = Header { key, previous, number }.encode();
        let key = aead(chain.step().message_key());
        out.reserve(HEADER_LEN + plaintext.len() + TAG_LEN);
        out.extend_from_slice(&header);
        let start = out.len();
        out.extend_from_slice(plaintext);
        let tag = key
            .seal_in_place_separate_tag(nonce(), aad(&header, associated), &mut out[start..])
            .expect("ring refuses only messages of more than 64 GiB");
        out.extend_from_slice(tag.as_ref());
        Ok(())
    }

    /// A new key pair and with it a new sending chain.
    fn turn(&mut self) -> Result<(), RatchetError> {
        let theirs = self.state.theirs.ok_or(RatchetError::NoPeerKey)?;
        let ours = StaticKey::generate(self.rng.array());
        let shared = curve::agree(ours.secret(), &theirs).ok_or(RatchetError::NoPeerKey)?;
        let (root, chain) = root_step(&self.state.root, &shared);
        (self.state.root, self.state.sending, self.ours) = (root, Some(chain), Some(ours));
        Ok(())
    }

    /// Appends the plaintext of a message to `out`.
    ///
    /// # Errors
    /// See [`RatchetError`]; nothing has changed then, and nothing is appended.
    pub fn decrypt(
        &mut self,
        message: &[u8],
        associated: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), RatchetError> {
        let (head, sealed) = message.split_first_chunk().ok_or(RatchetError::Short)?;
        if sealed.len() < TAG_LEN {
            return Err(RatchetError::Short);
        }
        let header = Header::decode(head).ok_or(RatchetError::Short)?;
        let known = self.state.theirs == Some(header.key);
        let next = self.state.receiving.as_ref().map_or(0, |chain| chain.next);
        if !(known && self.state.receiving.is_some() && header.number >= next)
            && let Some(at) = self.find(&header)
        {
            open(&self.skipped[at].key, head, associated, sealed, out)?;
            self.skipped.remove(at);
            return Ok(());
        }
        // In a copy from here on, until the tag has verified.
        let mut state = self.state.clone();
        let mut missing = Vec::new();
        if !(known && state.receiving.is_some()) {
            state.skip(header.previous, &mut missing)?;
            let ours = self.ours.as_ref().ok_or(RatchetError::Forged)?;
            let shared = curve::agree(ours.secret(), &header.key).ok_or(RatchetError::Forged)?;
            let (root, chain) = root_step(&state.root, &shared);
            state.previous = state.sending.take().map_or(state.previous, |chain| chain.next);
            (state.root, state.receiving, state.theirs) = (root, Some(chain), Some(header.key));
        }
        state.skip(header.number, &mut missing)?;
        let chain = state.receiving.as_mut().ok_or(RatchetError::Forged)?;
        if chain.next != header.number || chain.next == u32::MAX {
            return Err(RatchetError::Forged);
        }
        open(chain.step().message_key(), head, associated, sealed, out)?;
        self.state = state;
        self.skipped.extend(missing);
        let excess = self.skipped.len().saturating_sub(MAX_KEPT);
        self.skipped.drain(..excess);
        Ok(())
    }

    fn find(&self, header: &Header) -> Option<usize> {
        let is = |s: &Skipped| s.number == header.number && s.chain == header.key;
        self.skipped.iter().position(is)
    }
}

impl State {
    /// Takes the keys of the receiving chain up to `number` out to `missing`.
    fn skip(&mut self, number: u32, missing: &mut Vec<Skipped>) -> Result<(), RatchetError> {
        let (Some(chain), Some(theirs)) = (&mut self.receiving, self.theirs) else {
            return Ok(());
        };
        if number.saturating_sub(chain.next) > MAX_SKIP {
            return Err(RatchetError::TooFar);
        }
        while chain.next < number {
            let number = chain.next;
            let key = Zeroizing::new(*chain.step().message_key());
            missing.push(Skipped { chain: theirs, number, key });
        }
        Ok(())
    }
}

fn aead(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).expect("the key has 32 bytes"))
}

/// Each key seals one message, so the nonce may stay the same.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn aad(header: &[u8; HEADER_LEN], associated: &[u8]) -> Aad<Vec<u8>> {
    Aad::from([associated, header].concat())
}

fn open(
    key: &[u8; 32],
    header: &[u8; HEADER_LEN],
    associated: &[u8],
    sealed: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), RatchetError> {
    let start = out.len();
    out.extend_from_slice(sealed);
    let opened =
        aead(key).open_in_place(nonce(), aad(header, associated), &mut out[start..]).is_ok();
    out.truncate(if opened { out.len() - TAG_LEN } else { start });
    if opened { Ok(()) } else { Err(RatchetError::Forged) }
}

impl fmt::Debug for Ratchet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ratchet").field("kept", &self.skipped.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "ratchet_tests.rs"]
mod tests;
