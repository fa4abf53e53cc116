//! Datagrams under keys: [`Sealer`] for the sender of one direction, [`Opener`] for its receiver.
//!
//! `connection id (8) | packet number (4, protected) | sealed frames | tag (16)`
//!
//! Keys come in epochs (`epoch.rs`): all of an epoch's values (AEAD key and IV, header protection key, connection id,
//! commitment) are derived from its secret. The connection id identifies the epoch, also among the two that may follow
//! the current one. There is no phase bit that could be forged, each datagram is tried under one key only, and an id of
//! one epoch reveals nothing about the next one's.
//!
//! The receiver changes no state before the tag has been verified.

use core::fmt;
use core::time::Duration;

use thiserror::Error;

use crate::aead::{Cipher, TAG_LEN};
use crate::epoch::{EpochKeys, EpochSecret, KeyEpoch, RatchetSecret};
use crate::header::{ConnectionId, HEADER_LEN};
use crate::replay::{LAST_NUMBER, ReplayWindow};

/// Bytes of a datagram beside its frames.
pub const OVERHEAD: usize = HEADER_LEN + TAG_LEN;

/// Packets under one key after which nothing more is sealed (RFC 9001 appendix B.1.1 allows 2^23 for AES-GCM at the
/// largest packets).
const HARD_PACKETS: u64 = 1 << 22;
/// Bytes under one key after which nothing more is sealed: 2^34 AES blocks.
const HARD_BYTES: u64 = 1 << 38;
/// How long the previous epoch's keys stay usable for reordered packets.
const OLD_EPOCH_GRACE: Duration = Duration::from_secs(3);
/// Forgeries tried against one key after which the link is given up (RFC 9001 section 6.6: 2^36 for ChaCha20-Poly1305).
const MAX_FORGERIES: u64 = 1 << 35;

/// When sending keys are replaced. The first limit that is reached counts.
///
/// The AEAD's own limits are far above: at these values an AES-256-GCM key seals 2^32 blocks at most, which leaves an
/// attacker an advantage of about 2^-64 (RFC 9001 appendix B has the calculation).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RekeyLimits {
    /// Packets sealed under one key.
    pub packets: u64,
    /// Plaintext bytes sealed under one key.
    pub bytes: u64,
    /// Age of a key.
    pub time: Duration,
}

impl Default for RekeyLimits {
    fn default() -> Self {
        Self { packets: 1 << 20, bytes: 1 << 36, time: Duration::from_secs(300) }
    }
}

/// The sender of one direction.
pub struct Sealer {
    cipher: Cipher,
    current: KeyEpoch,
    /// Taken in by the next change of epochs, which is due at once.
    ratchet: Option<RatchetSecret>,
    epoch: u64,
    next_number: u64,
    limits: RekeyLimits,
    packets: u64,
    bytes: u64,
    since: Duration,
    confirmed: bool,
    /// The current epoch's id has been used on another path.
    moved: bool,
}

/// The key is used up, and the peer has not confirmed the current epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the current key is used up, and the peer has not confirmed it")]
pub struct Stalled;

impl Sealer {
    pub(crate) fn new(
        cipher: Cipher,
        secret: EpochSecret,
        mut limits: RekeyLimits,
        now: Duration,
    ) -> Self {
        limits.packets = limits.packets.clamp(1, HARD_PACKETS / 4);
        limits.bytes = limits.bytes.clamp(1, HARD_BYTES / 4);
        Self {
            cipher,
            current: KeyEpoch::new(cipher, secret),
            ratchet: None,
            epoch: 0,
            next_number: 0,
            limits,
            packets: 0,
            bytes: 0,
            since: now,
            confirmed: false,
            moved: false,
        }
    }

    /// The AEAD in use.
    #[cfg(test)]
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Number of the current epoch, from 0.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Proves to the peer that both sides have the same secret in the current epoch.
    #[must_use]
    pub fn commitment(&self) -> [u8; 32] {
        self.current.keys.commitment
    }

    /// Whether the peer has confirmed the current epoch.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// The content that an attacker with access to memory would take.
    #[cfg(test)]
    pub(crate) fn stolen(&self) -> EpochSecret {
        self.current.secret.copy_for_test()
    }

    /// Records that the peer has confirmed the keys of `epoch`.
    pub fn confirm(&mut self, epoch: u64) {
        self.confirmed |= epoch == self.epoch;
    }

    /// Has the next epoch take in a round of Diffie-Hellman and begin as soon as it may. The peer's [`Opener`] must
    /// know that round already.
    pub(crate) fn ratchet(&mut self, ratchet: RatchetSecret) {
        self.ratchet = Some(ratchet);
    }

    /// Whether the next epoch is to take in a round of Diffie-Hellman.
    pub(crate) fn is_ratcheting(&self) -> bool {
        self.ratchet.is_some()
    }

    /// Has the next epoch begin as soon as it may, because the link has moved: an observer of the new path alone then
    /// does not learn the id used on the old one (RFC 9000 section 9.5).
    pub(crate) fn on_move(&mut self) {
        self.moved = true;
    }

    /// Begins a new epoch if the current key has reached a limit, the link has moved, or a round of Diffie-Hellman is
    /// complete. An epoch ends only once the peer has confirmed it, so that the two sides are never more than one
    /// apart; until then sending goes on under the old key. Returns whether a new epoch began.
    ///
    /// # Errors
    /// [`Stalled`] if the key is used up before the confirmation comes.
    pub fn advance_if_due(&mut self, now: Duration) -> Result<bool, Stalled> {
        let due = self.ratchet.is_some()
            || self.moved
            || self.packets >= self.limits.packets
            || self.bytes >= self.limits.bytes
            || now.saturating_sub(self.since) >= self.limits.time;
        if !due {
            return Ok(false);
        }
        if !self.confirmed {
            let used_up = self.packets >= HARD_PACKETS || self.bytes >= HARD_BYTES;
            return if used_up { Err(Stalled) } else { Ok(false) };
        }
        let secret = match self.ratchet.take() {
            None => self.current.secret.next(),
            Some(ratchet) => self.current.secret.ratcheted(&ratchet),
        };
        self.current = KeyEpoch::new(self.cipher, secret);
        self.epoch += 1;
        (self.packets, self.bytes, self.since, self.confirmed) = (0, 0, now, false);
        self.moved = false;
        Ok(true)
    }

    /// The number of the next datagram.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Seals a datagram in place: the frames lie at `HEADER_LEN..len - TAG_LEN`, and this writes the rest. Call
    /// [`Sealer::advance_if_due`] before.
    ///
    /// # Panics
    /// If the datagram is shorter than [`OVERHEAD`], or after 2^62 datagrams.
    pub fn seal(&mut self, datagram: &mut [u8]) {
        assert!(datagram.len() >= OVERHEAD, "our own buffer has room for header and tag");
        assert!(self.next_number <= LAST_NUMBER, "2^62 datagrams take millennia");
        let number = self.next_number;
        self.next_number += 1;
        self.packets += 1;
        self.bytes += datagram.len() as u64;
        let keys = &self.current.keys;
        let truncated = number as u32;
        let header = keys.cid.header(truncated);
        let end = datagram.len() - TAG_LEN;
        let tag = keys.aead.seal(number, &header, &mut datagram[HEADER_LEN..end]);
        datagram[end..].copy_from_slice(&tag);
        let protected = truncated ^ keys.mask(datagram);
        datagram[..HEADER_LEN].copy_from_slice(&keys.cid.header(protected));
    }
}

/// Why a datagram was not opened. In every case only a counter has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum OpenDatagramError {
    /// Too short to be a datagram of this protocol.
    #[error("the datagram is too short")]
    Short,
    /// The connection id belongs to no live epoch.
    #[error("no current epoch has the datagram's connection id")]
    UnknownId,
    /// The tag does not verify.
    #[error("the datagram's authentication tag is wrong")]
    Forged,
    /// Authentic, but seen before or older than the window.
    #[error("the datagram is a duplicate, or older than the replay window")]
    Replayed,
}

/// The result of [`Opener::open`] besides the plaintext.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsealed {
    /// The packet number.
    pub number: u64,
    /// Whether it is the highest so far.
    pub newest: bool,
    /// Whether it was the first of a new epoch: the set of live connection ids has changed.
    pub advanced: bool,
    /// Whether that epoch has taken in the round of Diffie-Hellman: the peer has it too.
    pub ratcheted: bool,
}

/// The receiver of one direction.
pub struct Opener {
    cipher: Cipher,
    previous: Option<Previous>,
    current: KeyEpoch,
    /// Prepared in advance so that the first datagram of the next epoch costs no more than others.
    next: KeyEpoch,
    /// A round of Diffie-Hellman that the peer will take in, and the next epoch in case it takes it in.
    ratchet: Option<(RatchetSecret, KeyEpoch)>,
    epoch: u64,
    window: ReplayWindow,
    forgeries: u64,
}

/// The epoch before the current one.
struct Previous {
    /// Known while the current epoch lasts, so that a late datagram draws no reset. Otherwise an attacker could delay a
    /// datagram to have the link reset ([`crate::reset`]).
    cid: ConnectionId,
    /// The keys, until they are forgotten.
    keys: Option<Box<EpochKeys>>,
    forget_at: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EpochSlot {
    Previous,
    Current,
    Next,
    Ratcheted,
}

impl Opener {
    pub(crate) fn new(cipher: Cipher, secret: EpochSecret) -> Self {
        Self {
            cipher,
            previous: None,
            next: KeyEpoch::new(cipher, secret.next()),
            current: KeyEpoch::new(cipher, secret),
            ratchet: None,
            epoch: 0,
            window: ReplayWindow::default(),
            forgeries: 0,
        }
    }

    /// Allows the peer to take this round of Diffie-Hellman in from its next epoch on; the set of live connection ids
    /// changes. It replaces a round that the peer has not taken in.
    pub(crate) fn ratchet(&mut self, ratchet: RatchetSecret) {
        let secret = self.current.secret.ratcheted(&ratchet);
        self.ratchet = Some((ratchet, KeyEpoch::new(self.cipher, secret)));
    }

    /// The newest epoch in which a datagram arrived.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The commitment that the peer must announce for the current epoch.
    #[must_use]
    pub fn commitment(&self) -> [u8; 32] {
        self.current.keys.commitment
    }

    /// The connection id of the current epoch.
    #[must_use]
    pub fn connection_id(&self) -> ConnectionId {
        self.current.keys.cid
    }

    /// The record of datagrams that have arrived.
    pub(crate) fn window(&self) -> &ReplayWindow {
        &self.window
    }

    /// The connection ids that datagrams may carry now, and that of the previous epoch.
    pub fn connection_ids(&self) -> impl Iterator<Item = ConnectionId> {
        let previous = self.previous.as_ref().map(|previous| previous.cid);
        let ratcheted = self.ratchet.as_ref().map(|(_, epoch)| epoch.keys.cid);
        let always = [Some(self.current.keys.cid), Some(self.next.keys.cid)];
        always.into_iter().chain([ratcheted, previous]).flatten()
    }

    /// When the previous epoch's keys are due to be forgotten.
    #[must_use]
    pub fn forget_at(&self) -> Option<Duration> {
        let previous = self.previous.as_ref().filter(|previous| previous.keys.is_some());
        previous.map(|previous| previous.forget_at)
    }

    /// Forgets the previous epoch's keys if they are due.
    pub fn forget_if_due(&mut self, now: Duration) {
        if let Some(previous) = self.previous.as_mut().filter(|p| now >= p.forget_at) {
            previous.keys = None;
        }
    }

    /// Returns whether too many forgeries were tried for the key to count as safe.
    #[must_use]
    pub fn is_worn_out(&self) -> bool {
        self.forgeries >= MAX_FORGERIES
    }

    /// Opens a datagram in place: on success the frames lie at `HEADER_LEN..len - TAG_LEN`. On failure the datagram's
    /// bytes are unusable.
    ///
    /// # Errors
    /// See [`OpenDatagramError`].
    pub fn open(
        &mut self,
        now: Duration,
        datagram: &mut [u8],
    ) -> Result<Unsealed, OpenDatagramError> {
        if datagram.len() < OVERHEAD {
            return Err(OpenDatagramError::Short);
        }
        let (slot, keys) = self.find(datagram).ok_or(OpenDatagramError::UnknownId)?;
        let (head, _) =
            datagram.split_first_chunk::<HEADER_LEN>().ok_or(OpenDatagramError::Short)?;
        let protected = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        let truncated = protected ^ keys.mask(datagram);
        let header = keys.cid.header(truncated);
        let number = expand(truncated, self.window.end());
        if !keys.aead.open(number, &header, &mut datagram[HEADER_LEN..]) {
            self.forgeries += 1;
            return Err(OpenDatagramError::Forged);
        }
        if !self.window.is_fresh(number) {
            return Err(OpenDatagramError::Replayed);
        }
        // Authentic and new. From here on state may change.
        let newest = self.window.insert(number);
        let advanced = matches!(slot, EpochSlot::Next | EpochSlot::Ratcheted);
        let ratcheted = slot == EpochSlot::Ratcheted;
        if advanced {
            self.advance(now, ratcheted);
        }
        Ok(Unsealed { number, newest, advanced, ratcheted })
    }

    /// Lets a benchmark open the same datagrams again.
    #[cfg(internals)]
    pub fn forget_seen(&mut self) {
        self.window = ReplayWindow::default();
    }

    #[inline]
    fn find(&self, datagram: &[u8]) -> Option<(EpochSlot, &EpochKeys)> {
        let cid = ConnectionId(*datagram.first_chunk()?);
        if cid == self.current.keys.cid {
            return Some((EpochSlot::Current, &self.current.keys));
        }
        if cid == self.next.keys.cid {
            return Some((EpochSlot::Next, &self.next.keys));
        }
        if let Some((_, epoch)) = self.ratchet.as_ref().filter(|(_, e)| e.keys.cid == cid) {
            return Some((EpochSlot::Ratcheted, &epoch.keys));
        }
        let previous = self.previous.as_ref().filter(|previous| previous.cid == cid)?;
        Some((EpochSlot::Previous, previous.keys.as_deref()?))
    }

    /// Moves to the next epoch, or the ratcheted one in its place: a datagram has arrived under it.
    #[cold]
    fn advance(&mut self, now: Duration, ratcheted: bool) {
        let after = match self.ratchet.take() {
            Some((_, epoch)) if ratcheted => {
                self.next = KeyEpoch::new(self.cipher, epoch.secret.next());
                epoch
            }
            waiting => {
                let after = KeyEpoch::new(self.cipher, self.next.secret.next());
                let next = core::mem::replace(&mut self.next, after);
                self.ratchet = waiting.map(|(ratchet, _)| {
                    let secret = next.secret.ratcheted(&ratchet);
                    (ratchet, KeyEpoch::new(self.cipher, secret))
                });
                next
            }
        };
        let old = core::mem::replace(&mut self.current, after);
        let (cid, forget_at) = (old.keys.cid, now + OLD_EPOCH_GRACE);
        self.previous = Some(Previous { cid, keys: Some(old.keys), forget_at });
        self.epoch += 1;
        self.forgeries = 0;
    }
}

/// The full packet number that is nearest to the expected one (RFC 9000 appendix A.3). `expected`: one above the
/// highest seen, at most 2^62, so that no sum here overflows.
pub(crate) fn expand(truncated: u32, expected: u64) -> u64 {
    const WIN: u64 = 1 << 32;
    let candidate = (expected & !(WIN - 1)) | u64::from(truncated);
    if candidate + WIN / 2 <= expected {
        candidate + WIN
    } else if candidate > expected + WIN / 2 && candidate >= WIN {
        candidate - WIN
    } else {
        candidate
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (epoch, number) = (self.epoch, self.next_number);
        f.debug_struct("Sealer").field("epoch", &epoch).field("number", &number).finish()
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
