//! Datagrams under keys: [`Sealer`] for one direction's sender, [`Opener`] for its receiver.
//!
//! `connection id (8) | packet number (4, protected) | sealed frames | tag (16)`
//!
//! Keys come in epochs. Everything about an epoch (AEAD key and IV, header protection key,
//! connection id, commitment) is derived from its secret, and the next secret from this one by a
//! one-way step, so old datagrams stay closed when a later secret leaks. The connection id tells
//! the epoch: there is no phase bit that could be forged, one datagram is only ever tried under
//! one key, and an id of one epoch tells nothing about the next one's.
//!
//! The receiver changes no state before the tag has been verified.

use core::fmt;
use core::time::Duration;

use ring::aead::quic::{self, HeaderProtectionKey};
use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use siphasher::sip::SipHasher24;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::RekeyLimits;
use crate::kdf::{derive, label};
use crate::replay::{LAST_NUMBER, ReplayWindow};

/// Bytes of a connection id.
pub const CID_LEN: usize = 8;
/// Bytes before the sealed part: connection id and truncated packet number.
pub const HEADER_LEN: usize = CID_LEN + 4;
/// Bytes of the AEAD's tag.
pub const TAG_LEN: usize = 16;
/// Bytes that a datagram has beside its frames.
pub const OVERHEAD: usize = HEADER_LEN + TAG_LEN;

/// Packets under one key beyond which nothing more is sealed (RFC 9001 appendix B.1.1 allows 2^23
/// for AES-GCM at the largest packets).
const HARD_PACKETS: u64 = 1 << 22;
/// Bytes likewise: 2^34 AES blocks.
const HARD_BYTES: u64 = 1 << 38;
/// Forgeries tried against one key beyond which the link is given up (RFC 9001 section 6.6:
/// 2^36 for ChaCha20-Poly1305).
const MAX_FORGERIES: u64 = 1 << 35;

/// What the first bytes of a datagram say about whom it is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConnectionId(pub [u8; CID_LEN]);

/// The AEADs of the transport, with their numbers on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Cipher {
    /// AES-256-GCM: where both CPUs have instructions for it.
    Aes256Gcm = 1,
    /// ChaCha20-Poly1305: everywhere else.
    ChaCha20Poly1305 = 2,
}

impl Cipher {
    /// The cipher of a number on the wire.
    #[must_use]
    pub fn from_wire(number: u8) -> Option<Self> {
        [Self::Aes256Gcm, Self::ChaCha20Poly1305].into_iter().find(|c| *c as u8 == number)
    }

    /// Whether this CPU does AES-GCM in instructions of its own.
    #[must_use]
    pub fn aes_is_fast() -> bool {
        #[cfg(target_arch = "x86_64")]
        return std::arch::is_x86_feature_detected!("aes")
            && std::arch::is_x86_feature_detected!("pclmulqdq");
        #[cfg(target_arch = "aarch64")]
        return std::arch::is_aarch64_feature_detected!("aes")
            && std::arch::is_aarch64_feature_detected!("pmull");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        false
    }

    fn algorithm(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes256Gcm => &aead::AES_256_GCM,
            Self::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }
}

/// The function that makes header protection's mask of a sample. Not ChaCha20 as in QUIC: for the
/// four bytes of a number it computes 64, an eighth of the time that sealing 1,400 bytes takes.
enum HeaderKey {
    Aes(HeaderProtectionKey),
    Sip(SipHasher24),
}

impl HeaderKey {
    fn new(cipher: Cipher, key: &[u8; 32]) -> Self {
        match cipher {
            Cipher::Aes256Gcm => {
                let key = HeaderProtectionKey::new(&quic::AES_256, key);
                Self::Aes(key.expect("AES-256 takes 32 bytes"))
            }
            Cipher::ChaCha20Poly1305 => {
                let key = key.first_chunk().expect("16 of 32 bytes");
                Self::Sip(SipHasher24::new_with_key(key))
            }
        }
    }

    #[inline]
    fn mask(&self, sample: &[u8; 16]) -> [u8; 4] {
        match self {
            Self::Aes(key) => {
                let mask = key.new_mask(sample).expect("the sample is 16 bytes");
                [mask[1], mask[2], mask[3], mask[4]]
            }
            Self::Sip(key) => {
                let [a, b, c, d, ..] = key.hash(sample).to_le_bytes();
                [a, b, c, d]
            }
        }
    }
}

/// A secret from which an epoch and all later ones follow. Wiped when dropped.
pub(crate) struct EpochSecret(Zeroizing<[u8; 32]>);

impl EpochSecret {
    /// The first secret of a direction, from that direction's half of Noise's split.
    /// `split`: one of Noise's split keys, secret. `shared`: the KEM's secret, where the handshake
    /// was a hybrid one. `transcript`: the handshake hash, public, which binds everything else.
    pub fn first(
        label: &'static str,
        split: &[u8; 32],
        shared: Option<&[u8; 32]>,
        transcript: &[u8; 32],
        cipher: Cipher,
    ) -> Self {
        let suite = [u8::from(shared.is_some()), cipher as u8];
        let shared = shared.unwrap_or(&[0; 32]);
        Self(Zeroizing::new(derive(label, &[split, shared, transcript, &suite])))
    }

    fn next(&self) -> Self {
        Self(Zeroizing::new(derive(label::NEXT_EPOCH, &[&self.0[..]])))
    }
}

/// What is derived from one epoch's secret.
struct EpochKeys {
    aead: LessSafeKey,
    iv: [u8; 12],
    header: HeaderKey,
    cid: ConnectionId,
    commitment: [u8; 32],
}

impl EpochKeys {
    fn new(cipher: Cipher, secret: &EpochSecret) -> Self {
        let part = |label| Zeroizing::new(derive(label, &[&secret.0[..]]));
        let aead = UnboundKey::new(cipher.algorithm(), &part(label::AEAD_KEY)[..]);
        let mut keys = Self {
            aead: LessSafeKey::new(aead.expect("both AEADs take 32 bytes")),
            header: HeaderKey::new(cipher, &part(label::HEADER_KEY)),
            iv: [0; 12],
            cid: ConnectionId([0; CID_LEN]),
            commitment: *part(label::COMMITMENT),
        };
        keys.iv.copy_from_slice(&part(label::AEAD_IV)[..12]);
        keys.cid.0.copy_from_slice(&part(label::CONNECTION_ID)[..CID_LEN]);
        keys
    }

    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = self.iv;
        for (byte, n) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= n;
        }
        Nonce::assume_unique_for_key(nonce)
    }

    /// What the packet number on the wire is XORed with. The sample is the first 16 bytes after
    /// the header, which a datagram of at least [`OVERHEAD`] bytes has.
    fn mask(&self, datagram: &[u8]) -> [u8; 4] {
        let sample = datagram[HEADER_LEN..].first_chunk().expect("a datagram has OVERHEAD bytes");
        self.header.mask(sample)
    }
}

/// The sender of one direction.
pub struct Sealer {
    cipher: Cipher,
    keys: EpochKeys,
    secret: EpochSecret,
    epoch: u64,
    next_number: u64,
    limits: RekeyLimits,
    packets: u64,
    bytes: u64,
    since: Duration,
    confirmed: bool,
}

/// The key is used up and the peer has not confirmed that it has the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the peer has not confirmed the current key and it is used up")]
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
            keys: EpochKeys::new(cipher, &secret),
            secret,
            epoch: 0,
            next_number: 0,
            limits,
            packets: 0,
            bytes: 0,
            since: now,
            confirmed: false,
        }
    }

    /// The current epoch, from 0.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What proves to the peer that both have the same secret in the current epoch.
    #[must_use]
    pub fn commitment(&self) -> [u8; 32] {
        self.keys.commitment
    }

    /// Whether the peer has confirmed the current epoch.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// The peer says that it has the keys of `epoch`.
    pub fn confirm(&mut self, epoch: u64) {
        self.confirmed |= epoch == self.epoch;
    }

    /// Begins a new epoch if the current key has reached a limit. An epoch is only left once the
    /// peer has confirmed it, so that the two are never more than one apart; until then sending
    /// goes on under the old key. Returns whether a new epoch began.
    ///
    /// # Errors
    /// [`Stalled`] if the confirmation is missing so long that the key is used up.
    pub fn advance_if_due(&mut self, now: Duration) -> Result<bool, Stalled> {
        let due = self.packets >= self.limits.packets
            || self.bytes >= self.limits.bytes
            || now.saturating_sub(self.since) >= self.limits.time;
        if !due {
            return Ok(false);
        }
        if !self.confirmed {
            let used_up = self.packets >= HARD_PACKETS || self.bytes >= HARD_BYTES;
            return if used_up { Err(Stalled) } else { Ok(false) };
        }
        self.secret = self.secret.next();
        self.keys = EpochKeys::new(self.cipher, &self.secret);
        self.epoch += 1;
        (self.packets, self.bytes, self.since, self.confirmed) = (0, 0, now, false);
        Ok(true)
    }

    /// The number of the next datagram.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Seals a datagram in place: the frames lie at `HEADER_LEN..len - TAG_LEN`, the rest is
    /// written here. Call [`Sealer::advance_if_due`] before.
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
        let mut header = [0; HEADER_LEN];
        header[..CID_LEN].copy_from_slice(&self.keys.cid.0);
        header[CID_LEN..].copy_from_slice(&(number as u32).to_be_bytes());
        let end = datagram.len() - TAG_LEN;
        let tag = self
            .keys
            .aead
            .seal_in_place_separate_tag(
                self.keys.nonce(number),
                Aad::from(header),
                &mut datagram[HEADER_LEN..end],
            )
            .expect("ring refuses only messages of more than 64 GiB");
        datagram[end..].copy_from_slice(tag.as_ref());
        datagram[..HEADER_LEN].copy_from_slice(&header);
        let mask = self.keys.mask(datagram);
        for (byte, m) in datagram[CID_LEN..HEADER_LEN].iter_mut().zip(mask) {
            *byte ^= m;
        }
    }
}

/// Why a datagram was not opened. In every case nothing has changed but a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum OpenError {
    /// Too short to be a datagram of this protocol.
    #[error("the datagram is too short")]
    Short,
    /// The connection id is of no live epoch.
    #[error("the connection id is of no live epoch")]
    UnknownId,
    /// The tag does not verify.
    #[error("the datagram does not authenticate")]
    Forged,
    /// Authentic, but seen before or older than the window.
    #[error("the datagram was seen before, or is too old to tell")]
    Replayed,
}

/// What [`Opener::open`] found besides the plaintext.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opened {
    /// The packet number.
    pub number: u64,
    /// Whether it is the highest so far.
    pub newest: bool,
    /// Whether it was the first of a new epoch: the set of live connection ids has changed.
    pub advanced: bool,
}

/// The receiver of one direction.
pub struct Opener {
    cipher: Cipher,
    /// The epoch before, and when its keys are forgotten.
    previous: Option<(EpochKeys, Duration)>,
    current: EpochKeys,
    /// Ready beforehand so that the first datagram of the next epoch costs no more than others.
    next: EpochKeys,
    next_secret: EpochSecret,
    epoch: u64,
    window: ReplayWindow,
    forgeries: u64,
    grace: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Previous,
    Current,
    Next,
}

impl Opener {
    pub(crate) fn new(cipher: Cipher, secret: EpochSecret, grace: Duration) -> Self {
        let next_secret = secret.next();
        Self {
            cipher,
            previous: None,
            current: EpochKeys::new(cipher, &secret),
            next: EpochKeys::new(cipher, &next_secret),
            next_secret,
            epoch: 0,
            window: ReplayWindow::default(),
            forgeries: 0,
            grace,
        }
    }

    /// The newest epoch that something arrived in.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What the peer must name as commitment of the current epoch.
    #[must_use]
    pub fn commitment(&self) -> [u8; 32] {
        self.current.commitment
    }

    /// Which datagrams have arrived.
    pub(crate) fn window(&self) -> &ReplayWindow {
        &self.window
    }

    /// The connection ids that datagrams may carry now.
    pub fn connection_ids(&self) -> impl Iterator<Item = ConnectionId> {
        let previous = self.previous.as_ref().map(|(keys, _)| keys.cid);
        [Some(self.current.cid), Some(self.next.cid), previous].into_iter().flatten()
    }

    /// When the keys of the epoch before are due to be forgotten.
    #[must_use]
    pub fn forget_at(&self) -> Option<Duration> {
        self.previous.as_ref().map(|(_, at)| *at)
    }

    /// Forgets the keys of the epoch before if they are due. Returns whether it did: the set of
    /// live connection ids has changed then.
    pub fn forget_if_due(&mut self, now: Duration) -> bool {
        let due = self.forget_at().is_some_and(|at| now >= at);
        if due {
            self.previous = None;
        }
        due
    }

    /// Whether so many forgeries were tried that the key no longer counts as safe.
    #[must_use]
    pub fn is_worn_out(&self) -> bool {
        self.forgeries >= MAX_FORGERIES
    }

    /// Opens a datagram in place: on success the frames lie at `HEADER_LEN..len - TAG_LEN`. On
    /// failure the datagram's bytes are of no use any more.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(&mut self, now: Duration, datagram: &mut [u8]) -> Result<Opened, OpenError> {
        if datagram.len() < OVERHEAD {
            return Err(OpenError::Short);
        }
        let slot = self.slot(&datagram[..CID_LEN]).ok_or(OpenError::UnknownId)?;
        let keys = match slot {
            Slot::Previous => &self.previous.as_ref().ok_or(OpenError::UnknownId)?.0,
            Slot::Current => &self.current,
            Slot::Next => &self.next,
        };
        let mut header = [0; HEADER_LEN];
        header.copy_from_slice(&datagram[..HEADER_LEN]);
        for (byte, m) in header[CID_LEN..].iter_mut().zip(keys.mask(datagram)) {
            *byte ^= m;
        }
        let truncated = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        let number = expand(truncated, self.window.end());
        let opened = keys.aead.open_in_place(
            keys.nonce(number),
            Aad::from(header),
            &mut datagram[HEADER_LEN..],
        );
        if opened.is_err() {
            self.forgeries += 1;
            return Err(OpenError::Forged);
        }
        if !self.window.is_fresh(number) {
            return Err(OpenError::Replayed);
        }
        // Authentic and new. From here on state may change.
        let newest = self.window.insert(number);
        let advanced = slot == Slot::Next;
        if advanced {
            self.advance(now);
        }
        Ok(Opened { number, newest, advanced })
    }

    /// So that a benchmark can open the same datagrams again.
    #[doc(hidden)]
    pub fn forget_seen_for_tests(&mut self) {
        self.window = ReplayWindow::default();
    }

    fn slot(&self, cid: &[u8]) -> Option<Slot> {
        if cid == self.current.cid.0 {
            Some(Slot::Current)
        } else if cid == self.next.cid.0 {
            Some(Slot::Next)
        } else if self.previous.as_ref().is_some_and(|(keys, _)| cid == keys.cid.0) {
            Some(Slot::Previous)
        } else {
            None
        }
    }

    fn advance(&mut self, now: Duration) {
        let after = self.next_secret.next();
        let next = core::mem::replace(&mut self.next, EpochKeys::new(self.cipher, &after));
        let old = core::mem::replace(&mut self.current, next);
        self.previous = Some((old, now + self.grace));
        self.next_secret = after;
        self.epoch += 1;
        self.forgeries = 0;
    }
}

/// The full packet number that is nearest to the expected one (RFC 9000 appendix A.3).
/// `expected`: one above the highest seen.
fn expand(truncated: u32, expected: u64) -> u64 {
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

/// A sender and its receiver for benchmarks and fuzzing, without a handshake.
#[doc(hidden)]
#[must_use]
pub fn pair_for_tests(cipher: Cipher, limits: RekeyLimits) -> (Sealer, Opener) {
    let secret = || EpochSecret::first(label::INITIATOR_EPOCH, &[1; 32], None, &[2; 32], cipher);
    let grace = Duration::from_secs(3);
    (Sealer::new(cipher, secret(), limits, Duration::ZERO), Opener::new(cipher, secret(), grace))
}

#[cfg(test)]
#[path = "seal_tests.rs"]
mod tests;
