//! Every derivation of the link: BLAKE3 with one label for each purpose, and the random generator built on it.

use core::fmt;

use xylem_hash::Hasher;
use zeroize::Zeroizing;

use crate::secret::{HeapSecret, leaving_nothing};

/// The labels (BLAKE3 `derive_key` contexts). One purpose each; never reused, never changed (docs/spec/link.md,
/// "Derivations").
pub(crate) mod label {
    pub(crate) const ENVELOPE_TAG: &str = "xylem-link v5 handshake envelope tag";
    pub(crate) const ENVELOPE_STREAM: &str = "xylem-link v5 handshake envelope stream";
    pub(crate) const FIRST: &str = "xylem-link v5 first message content";
    pub(crate) const REST: &str = "xylem-link v5 first message rest";
    pub(crate) const SHARE: &str = "xylem-link v5 share of what may be forged";
    pub(crate) const COOKIE: &str = "xylem-link v5 retry cookie";
    pub(crate) const INITIATOR_EPOCH: &str = "xylem-link v5 initiator first epoch";
    pub(crate) const RESPONDER_EPOCH: &str = "xylem-link v5 responder first epoch";
    pub(crate) const NEXT_EPOCH: &str = "xylem-link v5 next epoch";
    pub(crate) const RATCHETED_EPOCH: &str = "xylem-link v5 next epoch, ratcheted";
    pub(crate) const RESET_KEY: &str = "xylem-link v5 stateless reset key";
    pub(crate) const FRESH_RANDOM: &str = "xylem-link v5 random generator, fresh";
    pub(crate) const AEAD_KEY: &str = "xylem-link v5 aead key";
    pub(crate) const AEAD_IV: &str = "xylem-link v5 aead iv";
    pub(crate) const HEADER_KEY: &str = "xylem-link v5 header protection key";
    pub(crate) const CONNECTION_ID: &str = "xylem-link v5 connection id";
    pub(crate) const COMMITMENT: &str = "xylem-link v5 epoch commitment";
    pub(crate) const RANDOM: &str = "xylem-link v5 random generator";
}

/// BLAKE3 in key derivation mode over the parts, which all have fixed lengths.
pub(crate) fn derive(label: &'static str, parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Hasher::new_derive_key(label);
    for part in parts {
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// Like `derive`, for a secret, written directly to its place. Parts of at most 128 bytes in all.
///
/// It does not use a hasher, which takes 22 KiB of stack.
pub(crate) fn derive_secret(label: &'static str, parts: &[&[u8]]) -> HeapSecret {
    leaving_nothing(|| {
        let mut material = Zeroizing::new([0; 128]);
        let mut rest = &mut material[..];
        for part in parts {
            let (place, after) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = after;
        }
        let left = rest.len();
        let material = &material[..128 - left];
        HeapSecret::filled(|secret| *secret = xylem_hash::derive_key(label, material))
    })
}

/// A deterministic generator. Each draw first replaces the key by output that is never given away, so the current state
/// reveals nothing about earlier draws.
pub(crate) struct LinkRng {
    key: HeapSecret,
}

impl LinkRng {
    pub(crate) fn new(seed: &[u8; 32]) -> Self {
        Self { key: derive_secret(label::RANDOM, &[seed]) }
    }

    /// A separate generator. After its next draw this one no longer holds the other's state.
    pub(crate) fn child(&mut self) -> Self {
        Self::new(&self.secret())
    }

    /// The content that an attacker with access to memory would take.
    #[cfg(test)]
    pub(crate) fn stolen(&self) -> Self {
        Self { key: self.key.clone() }
    }

    /// Mixes in randomness: an attacker that knows the state so far then cannot predict later output.
    pub(crate) fn add(&mut self, random: &[u8; 32]) {
        self.key = derive_secret(label::FRESH_RANDOM, &[&self.key[..], random]);
    }

    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        leaving_nothing(|| {
            let mut stream = Hasher::new_keyed(&self.key).finalize_xof();
            stream.fill(&mut self.key[..]);
            stream.fill(out);
        });
    }

    /// Draws a secret directly to its place.
    pub(crate) fn secret(&mut self) -> HeapSecret {
        HeapSecret::filled(|secret| self.fill(secret))
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        self.fill(&mut out);
        out
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }

    /// A number below `n` (not zero); the bias is below n / 2^64.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.u64() % n as u64) as usize
    }
}

impl fmt::Debug for LinkRng {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rng(..)")
    }
}
