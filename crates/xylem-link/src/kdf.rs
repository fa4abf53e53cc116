//! Every derivation of the link in one place: BLAKE3 under one label per purpose, and the random
//! generator that is built from it.

use core::fmt;

use xylem_hash::Hasher;
use zeroize::Zeroize;

/// The labels (BLAKE3 `derive_key` contexts). One purpose each; never reused, never changed
/// (docs/spec/link.md, "Derivations").
pub(crate) mod label {
    pub const ENVELOPE_TAG: &str = "xylem-link v3 handshake envelope tag";
    pub const ENVELOPE_STREAM: &str = "xylem-link v3 handshake envelope stream";
    pub const REST: &str = "xylem-link v3 first message rest";
    pub const COOKIE: &str = "xylem-link v3 retry cookie";
    pub const INITIATOR_EPOCH: &str = "xylem-link v3 initiator first epoch";
    pub const RESPONDER_EPOCH: &str = "xylem-link v3 responder first epoch";
    pub const NEXT_EPOCH: &str = "xylem-link v3 next epoch";
    pub const RATCHETED_EPOCH: &str = "xylem-link v3 next epoch, ratcheted";
    pub const RESET_KEY: &str = "xylem-link v3 stateless reset key";
    pub const FRESH_RANDOM: &str = "xylem-link v3 random generator, fresh";
    pub const AEAD_KEY: &str = "xylem-link v3 aead key";
    pub const AEAD_IV: &str = "xylem-link v3 aead iv";
    pub const HEADER_KEY: &str = "xylem-link v3 header protection key";
    pub const CONNECTION_ID: &str = "xylem-link v3 connection id";
    pub const COMMITMENT: &str = "xylem-link v3 epoch commitment";
    pub const RANDOM: &str = "xylem-link v3 random generator";
}

/// BLAKE3 in key derivation mode over the parts, which are all of fixed length.
pub(crate) fn derive(label: &'static str, parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Hasher::new_derive_key(label);
    for part in parts {
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// A deterministic generator: each draw first replaces the key by output that is never given away,
/// so that the state at one moment tells nothing about earlier draws.
pub(crate) struct Rng {
    key: [u8; 32],
}

impl Rng {
    pub fn new(seed: &[u8; 32]) -> Self {
        Self { key: derive(label::RANDOM, &[seed]) }
    }

    /// What a thief would take.
    #[cfg(test)]
    pub fn stolen(&self) -> Self {
        Self { key: self.key }
    }

    /// Takes more randomness in: whoever knows the state so far knows nothing of what comes.
    pub fn add(&mut self, random: &[u8; 32]) {
        self.key = derive(label::FRESH_RANDOM, &[&self.key, random]);
    }

    pub fn fill(&mut self, out: &mut [u8]) {
        let mut stream = Hasher::new_keyed(&self.key).finalize_xof();
        stream.fill(&mut self.key);
        stream.fill(out);
    }

    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        self.fill(&mut out);
        out
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }

    /// A number below `n` (not zero); the bias is below n / 2^64.
    pub fn below(&mut self, n: usize) -> usize {
        (self.u64() % n as u64) as usize
    }
}

impl fmt::Debug for Rng {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rng(..)")
    }
}

impl Drop for Rng {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}
