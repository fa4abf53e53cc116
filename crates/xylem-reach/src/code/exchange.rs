//! SPAKE2 between the ends of one link, and the keys derived from its result.
//!
//! The identities are the role and static key of each end of the link. An attacker between the two, with a link to
//! each, has proven its own keys. If it forwards messages unchanged, the two sides get different keys, as with a wrong
//! code.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use constant_time_eq::constant_time_eq_32;
use rand_core::{CryptoRng, Error, RngCore};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use spake2::{Ed25519Group, Identity, Password, Spake2};
use xylem_hash::{OutputReader, derive_key};
use xylem_link::PeerKey;
use zeroize::Zeroizing;

use super::message::ELEMENT_LEN;
use super::words::SpokenCode;

/// Length of the proof that a side has the same key, in bytes.
pub(super) const PROOF_LEN: usize = 32;

/// The side of the exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeRole {
    /// The side that has entered the code.
    Taker,
    /// The side that shows it.
    Offerer,
}

/// A side that has sent its element and waits for the other's.
pub(super) struct StartedExchange(Spake2<Ed25519Group>);

/// The shared key, if both sides have the same code and no attacker stands between them.
pub(super) struct SharedKey(Zeroizing<[u8; 32]>);

impl StartedExchange {
    /// Begins a try. Returns its state and the element to send. `taker` and `offerer` are the keys that the ends of the
    /// link have proven, as this side sees them.
    pub(super) fn new(
        role: CodeRole,
        code: &SpokenCode,
        taker: PeerKey,
        offerer: PeerKey,
        seed: &[u8; 32],
    ) -> (Self, [u8; ELEMENT_LEN]) {
        let password = Password::new(code.to_string());
        let identity = |role: &[u8], key: PeerKey| Identity::new(&[role, &key.0].concat());
        let taker = identity(b"xylem-reach v1 taker ", taker);
        let offerer = identity(b"xylem-reach v1 offerer ", offerer);
        let draws = SeedRng::new(seed);
        let (begun, said) = match role {
            CodeRole::Taker => Spake2::start_a_with_rng(&password, &taker, &offerer, draws),
            CodeRole::Offerer => Spake2::start_b_with_rng(&password, &taker, &offerer, draws),
        };
        let mut element = [0; ELEMENT_LEN];
        element.copy_from_slice(&said);
        (Self(begun), element)
    }

    /// Derives the key, whatever the other side's code is. Returns `None` if `theirs` is no valid message.
    pub(super) fn finish(self, theirs: &[u8; ELEMENT_LEN]) -> Option<SharedKey> {
        let key = Zeroizing::new(self.0.finish(theirs).ok()?);
        Some(SharedKey(Zeroizing::new(derive_key("xylem-reach v1 code shared key", &key))))
    }
}

impl SharedKey {
    /// The proof that this side has the key.
    pub(super) fn proof(&self, of: CodeRole) -> [u8; PROOF_LEN] {
        match of {
            CodeRole::Taker => derive_key("xylem-reach v1 code taker proof", &self.0[..]),
            CodeRole::Offerer => derive_key("xylem-reach v1 code offerer proof", &self.0[..]),
        }
    }

    /// Whether the other side's proof is valid.
    pub(super) fn proves(&self, of: CodeRole, proof: &[u8; PROOF_LEN]) -> bool {
        constant_time_eq_32(&self.proof(of), proof)
    }

    fn sealing(&self) -> LessSafeKey {
        let key = Zeroizing::new(derive_key("xylem-reach v1 code seal", &self.0[..]));
        // Keys of this algorithm have 32 bytes.
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key[..]).expect("a key of 32 bytes");
        LessSafeKey::new(key)
    }

    /// Encrypts the one text that this key is used for.
    pub(super) fn seal(&self, text: &str) -> Vec<u8> {
        let mut sealed = text.as_bytes().to_vec();
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        self.sealing()
            .seal_in_place_append_tag(nonce, Aad::empty(), &mut sealed)
            .expect("a text is short enough");
        sealed
    }

    /// Decrypts the text.
    pub(super) fn open(&self, mut sealed: Vec<u8>) -> Option<String> {
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let plain = self.sealing().open_in_place(nonce, Aad::empty(), &mut sealed).ok()?;
        String::from_utf8(plain.to_vec()).ok()
    }
}

/// Random bytes derived from a seed, as an RNG for SPAKE2.
struct SeedRng(OutputReader);

impl SeedRng {
    fn new(seed: &[u8; 32]) -> Self {
        let mut hasher = xylem_hash::Hasher::new_derive_key("xylem-reach v1 code exchange");
        Self(hasher.update(seed).finalize_xof())
    }
}

impl RngCore for SeedRng {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.0.fill(&mut bytes);
        u32::from_be_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_be_bytes(bytes)
    }

    fn fill_bytes(&mut self, dest: &mut [u8]) {
        self.0.fill(dest);
    }

    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Error> {
        self.0.fill(dest);
        Ok(())
    }
}

impl CryptoRng for SeedRng {}
