//! [`Ratchet`]: the Double Ratchet (Perrin, Marlinspike 2016, revision 1) for messages to peers that may be offline.
//! Each message has a key of its own, which is deleted once used. An attacker that learns the state today reads no
//! earlier messages. After one exchange of messages it reads no later ones either.
//!
//! The caller provides the first shared secret, and carries the messages. Messages may be lost, late and in any order;
//! keys of skipped messages are kept, within limits. Nothing changes before a message's tag is verified (section 3.5 of
//! the specification). A new key pair is drawn when the next message is sent, not when one arrives (section 6.5).
//! Receiving therefore costs at most one Diffie-Hellman exchange.
//!
//! Headers are encrypted (section 4), so that a carrier of messages learns neither the order of turns nor the number of
//! messages. Each message commits to its key, so that none opens under two. [`Ratchet::save`] encodes the state for
//! storage.
//!
//! `encrypted header (56) | commitment (32) | sealed | tag (16)`; docs/spec/mail.md, "Ratchet".
//!
//! A receiver that misses more messages than it keeps keys for continues with those that arrive, and reports how many
//! are lost for good. Before that it does not distinguish lost messages from late ones. The ratchet does not hide a
//! message's length, and does not store itself.

mod header;
mod saved;

use core::fmt;
use std::collections::VecDeque;

use constant_time_eq::constant_time_eq_n;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use thiserror::Error;
use xylem_hash::Hasher;
use xylem_link::{PeerKey, StaticKey};
use zeroize::Zeroizing;

use crate::kdf::label;
use header::{Header, SEALED_LEN};

const COMMITMENT_LEN: usize = 32;
/// Bytes before the sealed part.
pub const HEADER_LEN: usize = SEALED_LEN + COMMITMENT_LEN;
/// Bytes of the tag after it.
pub const TAG_LEN: usize = 16;
/// Most keys that are kept of missing messages before one that arrives, in one chain; the messages before these are
/// lost.
pub const MAX_SKIP: u32 = 1_000;
/// How far a message may lie beyond the one before it in its chain. The numbers between are hashed over, a fraction of
/// a microsecond each, before the message's tag can be verified.
pub const MAX_FORWARD: u32 = 1 << 16;
/// Most keys of missing messages that are kept in total; the oldest are dropped.
pub const MAX_KEPT: usize = 2_000;

type Key = Zeroizing<[u8; 32]>;

/// Why a message was refused. Nothing has changed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RatchetError {
    /// It is shorter than a header and a tag.
    #[error("the message is too short")]
    Short,
    /// The tag does not verify: it is forged, damaged, or a repetition.
    #[error("the message does not authenticate, or was seen before")]
    Forged,
    /// Its header is the peer's, but more messages are missing before it than may be hashed over. This chain cannot be
    /// read any more.
    #[error("{0} messages are missing before this one")]
    TooFar(u32),
    /// The peer has to send first: until then its ratchet key is unknown.
    #[error("no message can be sent before one has arrived")]
    NoPeerKey,
    /// 2^32 - 1 messages were sent without an answer.
    #[error("too many messages without an answer")]
    Exhausted,
}

/// A chain of message keys, the number of the next one, and the key of its headers.
#[derive(Clone)]
struct RatchetChain {
    key: Key,
    header: Key,
    next: u32,
}

impl RatchetChain {
    /// Takes the next message's key, and advances the chain.
    fn step(&mut self) -> ChainStep {
        let step = step(&self.key);
        self.key.copy_from_slice(step.next_chain_key());
        self.next += 1;
        step
    }

    /// Advances to `number`, and adds the last skipped keys to `missing`. Returns how many keys before those were
    /// dropped. The error is the number of all skipped messages, if that is too many.
    fn skip(&mut self, number: u32, missing: &mut Vec<(u32, Key)>) -> Result<u32, u32> {
        let far = number.saturating_sub(self.next);
        if far > MAX_FORWARD {
            return Err(far);
        }
        let lost = far.saturating_sub(MAX_SKIP);
        for _ in 0..lost {
            self.step();
        }
        while self.next < number {
            let number = self.next;
            missing.push((number, Zeroizing::new(*self.step().message_key())));
        }
        Ok(lost)
    }

    /// Opens the next message, if it has this number.
    fn open(
        &mut self,
        number: u32,
        parts: &Parts<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), RatchetError> {
        if self.next != number || number == u32::MAX {
            return Err(RatchetError::Forged);
        }
        parts.open(self.step().message_key(), out)
    }
}

/// The next chain key and a message key, in one buffer that is wiped once.
pub(crate) struct ChainStep(Zeroizing<[u8; 64]>);

impl ChainStep {
    fn next_chain_key(&self) -> &[u8; 32] {
        self.0.first_chunk().expect("32 of 64 bytes")
    }

    pub(crate) fn message_key(&self) -> &[u8; 32] {
        self.0.last_chunk().expect("32 of 64 bytes")
    }
}

/// Derives the next chain key and a message key: one compression of BLAKE3 under the chain key.
#[inline]
pub(crate) fn step(chain: &[u8; 32]) -> ChainStep {
    let mut both = Zeroizing::new([0; 64]);
    Hasher::new_keyed(chain).finalize_xof().fill(&mut both[..]);
    ChainStep(both)
}

/// Derives 96 bytes, as three keys.
fn three_keys(label: &'static str, parts: &[&[u8; 32]]) -> [Key; 3] {
    let mut hasher = Hasher::new_derive_key(label);
    for part in parts {
        hasher.update(&part[..]);
    }
    let mut all = Zeroizing::new([0; 96]);
    hasher.finalize_xof().fill(&mut all[..]);
    core::array::from_fn(|i| {
        let mut key = Zeroizing::new([0; 32]);
        key.copy_from_slice(&all[32 * i..32 * (i + 1)]);
        key
    })
}

/// Derives the next root key, a chain key and the next chain's header key from the root key and a Diffie-Hellman
/// secret.
fn root_step(root: &[u8; 32], shared: &[u8; 32]) -> [Key; 3] {
    three_keys(label::RATCHET_ROOT, &[root, shared])
}

/// The state without our key pair and the missing messages.
#[derive(Clone)]
struct RatchetState {
    root: Key,
    theirs: Option<PeerKey>,
    sending: Option<RatchetChain>,
    receiving: Option<RatchetChain>,
    /// Header keys of the chains after the current ones.
    next_sending: Key,
    next_receiving: Key,
    /// Length of our sending chain before the current one.
    previous: u32,
}

/// Keys of one chain's missing messages, by ascending numbers.
struct Gap {
    header: Key,
    keys: VecDeque<(u32, Key)>,
}

/// One side's state with one peer.
pub struct Ratchet {
    state: RatchetState,
    /// Our current ratchet key pair.
    ours: Option<StaticKey>,
    /// Oldest first; none is empty.
    gaps: VecDeque<Gap>,
    /// Source of future key pairs. Each draw replaces it, so that it reveals nothing of earlier ones.
    random: Key,
}

impl Ratchet {
    /// Makes the state of the side that sends first. `shared` is a secret of the two; `peer` is the other side's first
    /// ratchet key. `seed` is 32 random bytes, never used twice.
    #[must_use]
    pub fn initiator(shared: [u8; 32], peer: PeerKey, seed: [u8; 32]) -> Self {
        Self::new(shared, Some(peer), None, seed)
    }

    /// Makes the state of the other side; `key` is its first key, which the initiator knows. It can send once a message
    /// has arrived.
    #[must_use]
    pub fn responder(shared: [u8; 32], key: StaticKey, seed: [u8; 32]) -> Self {
        Self::new(shared, None, Some(key), seed)
    }

    fn new(
        shared: [u8; 32],
        theirs: Option<PeerKey>,
        ours: Option<StaticKey>,
        seed: [u8; 32],
    ) -> Self {
        let shared = Zeroizing::new(shared);
        let [root, first, second] = three_keys(label::RATCHET_START, &[&shared]);
        // The initiator's first chain has the first header key, the answer to it the second.
        let (next_sending, next_receiving) =
            if ours.is_none() { (first, second) } else { (second, first) };
        let state = RatchetState {
            root,
            theirs,
            sending: None,
            receiving: None,
            next_sending,
            next_receiving,
            previous: 0,
        };
        Self { state, ours, gaps: VecDeque::new(), random: Zeroizing::new(seed) }
    }

    /// Copies the state: for tests of stolen states, and for benchmarks that open one message repeatedly.
    #[cfg(any(test, internals))]
    #[must_use]
    pub fn copy(&self) -> Self {
        let (state, ours) = (self.state.clone(), self.ours.clone());
        Self { state, ours, gaps: VecDeque::new(), random: self.random.clone() }
    }

    /// Advances as if `count` messages had been made; they are lost.
    #[cfg(test)]
    pub(crate) fn skip_sending(&mut self, count: u32) {
        let chain = self.state.sending.as_mut().expect("something was sent");
        (0..count).for_each(|_| drop(chain.step()));
    }

    /// Returns how many keys of missing messages are kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.gaps.iter().map(|gap| gap.keys.len()).sum()
    }

    /// Appends a message to `out`. `associated` is data that both sides know, and that is not sent.
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
            self.begin_sending_chain()?;
        }
        let (Some(chain), Some(ours)) = (&mut self.state.sending, &self.ours) else {
            return Err(RatchetError::NoPeerKey);
        };
        if chain.next == u32::MAX {
            return Err(RatchetError::Exhausted);
        }
        let (key, previous, number) = (ours.public(), self.state.previous, chain.next);
        let header = Header { key, previous, number }.seal(&chain.header);
        let step = chain.step();
        let key = step.message_key();
        out.reserve(HEADER_LEN + plaintext.len() + TAG_LEN);
        out.extend_from_slice(&header);
        out.extend_from_slice(&commitment(key));
        let start = out.len();
        out.extend_from_slice(plaintext);
        let tag = aead(key)
            .seal_in_place_separate_tag(nonce(), aad(&header, associated), &mut out[start..])
            .expect("ring refuses only messages of more than 64 GiB");
        out.extend_from_slice(tag.as_ref());
        Ok(())
    }

    /// Performs the sender's Diffie-Hellman step: a new key pair, and with it a new sending chain.
    fn begin_sending_chain(&mut self) -> Result<(), RatchetError> {
        let theirs = self.state.theirs.ok_or(RatchetError::NoPeerKey)?;
        let drawn = step(&self.random);
        self.random.copy_from_slice(drawn.next_chain_key());
        let ours = StaticKey::generate(*drawn.message_key());
        let shared = ours.agree(&theirs).ok_or(RatchetError::NoPeerKey)?;
        let [root, key, next] = root_step(&self.state.root, &shared);
        let header = core::mem::replace(&mut self.state.next_sending, next);
        self.state.sending = Some(RatchetChain { key, header, next: 0 });
        (self.state.root, self.ours) = (root, Some(ours));
        Ok(())
    }

    /// Appends the plaintext of a message to `out`. Returns how many messages it shows to be lost for good: they are
    /// missing, and their keys are not kept, or were dropped for newer ones.
    ///
    /// # Errors
    /// See [`RatchetError`]; nothing has changed then, and nothing is appended.
    pub fn decrypt(
        &mut self,
        message: &[u8],
        associated: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<u32, RatchetError> {
        let (head, rest) = message.split_first_chunk().ok_or(RatchetError::Short)?;
        let (commitment, sealed) = rest.split_first_chunk().ok_or(RatchetError::Short)?;
        if sealed.len() < TAG_LEN {
            return Err(RatchetError::Short);
        }
        let parts = Parts { head, commitment, sealed, associated };
        let current = self.state.receiving.as_ref();
        let in_chain = current.and_then(|chain| Header::open(head, &chain.header));
        let next = current.map_or(0, |chain| chain.next);
        if let Some(header) = in_chain.filter(|header| header.number >= next) {
            return self.follow(&header, &parts, out);
        }
        if let Some(header) = Header::open(head, &self.state.next_receiving) {
            return self.begin_receiving_chain(&header, &parts, out);
        }
        self.open_missing(&parts, out).map(|()| 0)
    }

    /// Opens a message of the receiving chain. It works on a copy until the tag is verified.
    fn follow(
        &mut self,
        header: &Header,
        parts: &Parts<'_>,
        out: &mut Vec<u8>,
    ) -> Result<u32, RatchetError> {
        let mut chain = self.state.receiving.clone().ok_or(RatchetError::Forged)?;
        let mut missing = Vec::new();
        let lost = chain.skip(header.number, &mut missing).map_err(RatchetError::TooFar)?;
        chain.open(header.number, parts, out)?;
        let gave_way = self.keep(&chain.header, missing);
        self.state.receiving = Some(chain);
        Ok(lost.saturating_add(gave_way))
    }

    /// Opens a message of the chain after the receiving one, also on a copy. Once it is verified, the rest of the chain
    /// before is skipped. A rest that is too long is abandoned, and its missing messages are lost.
    fn begin_receiving_chain(
        &mut self,
        header: &Header,
        parts: &Parts<'_>,
        out: &mut Vec<u8>,
    ) -> Result<u32, RatchetError> {
        let ours = self.ours.as_ref().ok_or(RatchetError::Forged)?;
        let shared = ours.agree(&header.key).ok_or(RatchetError::Forged)?;
        let [root, key, next_receiving] = root_step(&self.state.root, &shared);
        let mut chain = RatchetChain { key, header: self.state.next_receiving.clone(), next: 0 };
        let mut missing = Vec::new();
        let mut lost = chain.skip(header.number, &mut missing).map_err(RatchetError::TooFar)?;
        chain.open(header.number, parts, out)?;
        if let Some(mut before) = self.state.receiving.take() {
            let mut missing = Vec::new();
            let skipped = before.skip(header.previous, &mut missing);
            lost = lost.saturating_add(skipped.unwrap_or_else(|all| all));
            lost = lost.saturating_add(self.keep(&before.header, missing));
        }
        lost = lost.saturating_add(self.keep(&chain.header, missing));
        let state = &mut self.state;
        state.previous = state.sending.take().map_or(state.previous, |chain| chain.next);
        (state.root, state.theirs, state.receiving) = (root, Some(header.key), Some(chain));
        state.next_receiving = next_receiving;
        Ok(lost)
    }

    /// Keeps keys of missing messages of the chain with this header key. Returns how many of the oldest were dropped
    /// for them.
    fn keep(&mut self, header: &Key, missing: Vec<(u32, Key)>) -> u32 {
        if missing.is_empty() {
            return 0;
        }
        // Only the newest gap can belong to the same chain: chains follow one another.
        match self.gaps.back_mut().filter(|gap| gap.header == *header) {
            Some(gap) => gap.keys.extend(missing),
            None => self.gaps.push_back(Gap { header: header.clone(), keys: missing.into() }),
        }
        let mut excess = self.kept().saturating_sub(MAX_KEPT);
        let gave_way = u32::try_from(excess).unwrap_or(u32::MAX);
        while excess > 0
            && let Some(oldest) = self.gaps.front_mut()
        {
            let gone = excess.min(oldest.keys.len());
            oldest.keys.drain(..gone);
            excess -= gone;
            if oldest.keys.is_empty() {
                self.gaps.pop_front();
            }
        }
        gave_way
    }

    /// Opens a message that was missing.
    fn open_missing(&mut self, parts: &Parts<'_>, out: &mut Vec<u8>) -> Result<(), RatchetError> {
        let found = (self.gaps.iter().enumerate().rev())
            .find_map(|(at, gap)| Some((at, Header::open(parts.head, &gap.header)?)));
        let (at, header) = found.ok_or(RatchetError::Forged)?;
        let keys = &mut self.gaps[at].keys;
        let place = keys.binary_search_by_key(&header.number, |(number, _)| *number);
        let place = place.map_err(|_| RatchetError::Forged)?;
        parts.open(&keys[place].1, out)?;
        keys.remove(place);
        if keys.is_empty() {
            self.gaps.remove(at);
        }
        Ok(())
    }
}

/// The parts of a message, and its associated data.
struct Parts<'a> {
    head: &'a [u8; SEALED_LEN],
    commitment: &'a [u8; COMMITMENT_LEN],
    sealed: &'a [u8],
    associated: &'a [u8],
}

impl Parts<'_> {
    /// Appends the plaintext; nothing if the key is another.
    fn open(&self, key: &[u8; 32], out: &mut Vec<u8>) -> Result<(), RatchetError> {
        if !constant_time_eq_n(&commitment(key), self.commitment) {
            return Err(RatchetError::Forged);
        }
        let start = out.len();
        out.extend_from_slice(self.sealed);
        let aad = aad(self.head, self.associated);
        let opened = aead(key).open_in_place(nonce(), aad, &mut out[start..]).is_ok();
        out.truncate(if opened { out.len() - TAG_LEN } else { start });
        if opened { Ok(()) } else { Err(RatchetError::Forged) }
    }
}

fn aead(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).expect("the key has 32 bytes"))
}

/// Commits a message to its key. ChaCha20-Poly1305 alone does not: messages can be made that open under two keys.
fn commitment(key: &[u8; 32]) -> [u8; COMMITMENT_LEN] {
    *Hasher::new_keyed(key).finalize().as_bytes()
}

/// Each key seals one message, so the nonce may be constant.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// Associated data of a message, then its header. Short data, such as a hash, needs no allocation.
enum Bound {
    Short([u8; 2 * SEALED_LEN], usize),
    Long(Vec<u8>),
}

impl AsRef<[u8]> for Bound {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Short(bytes, len) => &bytes[..*len],
            Self::Long(bytes) => bytes,
        }
    }
}

fn aad(header: &[u8; SEALED_LEN], associated: &[u8]) -> Aad<Bound> {
    let known = associated.len();
    Aad::from(if known <= SEALED_LEN {
        let mut bytes = [0; 2 * SEALED_LEN];
        bytes[..known].copy_from_slice(associated);
        bytes[known..known + SEALED_LEN].copy_from_slice(header);
        Bound::Short(bytes, known + SEALED_LEN)
    } else {
        Bound::Long([associated, header].concat())
    })
}

impl fmt::Debug for Ratchet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ratchet").field("kept", &self.kept()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
