//! The AEADs of the transport behind one trait: [`Aead`], one epoch's keys ready for use.
//!
//! | number | cipher | library |
//! |---|---|---|
//! | 1 | AES-256-GCM | ring; graviola for long messages where the processor has AVX-512 for AES |
//! | 2 | ChaCha20-Poly1305 | ring |
//! | 3 | XChaCha20-Poly1305 | ring under an HChaCha20 subkey |
//!
//! [`crate::epoch`] derives the keys; this module makes nonces and tags only. None of the three AEADs commits to its
//! key; the epoch's commitment does that (docs/spec/link.md, "Epochs").

#[cfg(target_arch = "x86_64")]
mod long;

use core::hint::black_box;

use chacha20::{R20, hchacha};
use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroize;

/// Length of every tag, in bytes.
pub const TAG_LEN: usize = 16;
/// Length of an epoch's IV, in bytes; a cipher may use only a prefix of it.
pub(crate) const IV_LEN: usize = 24;

/// The AEADs of the transport, with their numbers on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Cipher {
    /// AES-256-GCM, where both CPUs have instructions for it.
    Aes256Gcm = 1,
    /// ChaCha20-Poly1305, everywhere else.
    ChaCha20Poly1305 = 2,
    /// XChaCha20-Poly1305, where the dialer asks for it. Its nonces have 24 bytes; the first 16 are secret and constant
    /// within an epoch.
    XChaCha20Poly1305 = 3,
}

impl Cipher {
    /// All ciphers.
    pub const ALL: [Self; 3] = [Self::Aes256Gcm, Self::ChaCha20Poly1305, Self::XChaCha20Poly1305];

    /// The cipher with this number on the wire.
    #[must_use]
    pub fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|c| *c as u8 == number)
    }

    /// Returns whether this CPU has instructions for AES-GCM.
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

    /// Prepares one epoch's key and IV. The computation leaves copies on the stack, which the caller wipes.
    pub(crate) fn keys(self, key: &[u8; 32], iv: &[u8; IV_LEN]) -> Box<dyn Aead> {
        let short = iv.first_chunk().expect("12 of 24 bytes");
        Box::new(match self {
            Self::Aes256Gcm => {
                let ring = Numbered::new(&aead::AES_256_GCM, key, short);
                #[cfg(target_arch = "x86_64")]
                if long::is_ahead() {
                    return Box::new(long::AesGcm::new(key, ring));
                }
                ring
            }
            Self::ChaCha20Poly1305 => Numbered::new(&aead::CHACHA20_POLY1305, key, short),
            Self::XChaCha20Poly1305 => Numbered::extended(key, iv),
        })
    }
}

/// One epoch's AEAD. Each `number` is used for one seal only.
pub(crate) trait Aead: Send + Sync {
    /// Encrypts `text` in place; returns the tag.
    fn seal(&self, number: u64, associated: &[u8], text: &mut [u8]) -> [u8; TAG_LEN];

    /// Decrypts `sealed` in place; its last [`TAG_LEN`] bytes are the tag. Returns whether the tag verifies; if not,
    /// the content of `sealed` is unusable.
    fn open(&self, number: u64, associated: &[u8], sealed: &mut [u8]) -> bool;
}

/// ring's AEADs; the nonce is the IV with its last 8 bytes XORed with the number.
struct Numbered {
    key: LessSafeKey,
    iv: ([u8; 4], u64),
}

impl Numbered {
    fn new(algorithm: &'static aead::Algorithm, key: &[u8; 32], iv: &[u8; 12]) -> Self {
        let key = UnboundKey::new(algorithm, key).expect("both algorithms take 32 bytes");
        let (first, last) = iv.split_first_chunk().expect("4 of 12 bytes");
        let last = u64::from_be_bytes(*last.first_chunk().expect("8 of 8 bytes"));
        Self { key: LessSafeKey::new(key), iv: (*first, last) }
    }

    /// XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03); the nonce is the whole IV with its last 8 bytes XORed with the
    /// number. The first 16 bytes, and so the subkey, are constant within an epoch. The subkey is derived once, so a
    /// datagram costs as much as under ChaCha20-Poly1305.
    fn extended(key: &[u8; 32], iv: &[u8; IV_LEN]) -> Self {
        let (prefix, rest) = iv.split_first_chunk::<16>().expect("16 of 24 bytes");
        let mut short = [0; 12];
        short[4..].copy_from_slice(rest);
        let subkey = hchacha::<R20>(key.into(), prefix.into());
        Self::new(&aead::CHACHA20_POLY1305, subkey.as_ref(), &short)
    }

    #[inline]
    fn nonce(&self, number: u64) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.iv.0);
        nonce[4..].copy_from_slice(&(self.iv.1 ^ number).to_be_bytes());
        nonce
    }
}

impl Drop for Numbered {
    /// ring does not wipe keys. A second key of the same algorithm has the same layout, so this overwrites the secret
    /// one with the schedule of a publicly known key.
    fn drop(&mut self) {
        let known = UnboundKey::new(self.key.algorithm(), &[0; 32]);
        self.key = LessSafeKey::new(known.expect("it took 32 bytes before"));
        // Keeps the compiler from removing the write as dead.
        black_box(&mut self.key);
        self.iv.zeroize();
    }
}

impl Aead for Numbered {
    fn seal(&self, number: u64, associated: &[u8], text: &mut [u8]) -> [u8; TAG_LEN] {
        let nonce = Nonce::assume_unique_for_key(self.nonce(number));
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(associated), text)
            .expect("ring refuses only messages of more than 64 GiB");
        *tag.as_ref().first_chunk().expect("both algorithms' tags have 16 bytes")
    }

    fn open(&self, number: u64, associated: &[u8], sealed: &mut [u8]) -> bool {
        let nonce = Nonce::assume_unique_for_key(self.nonce(number));
        self.key.open_in_place(nonce, Aad::from(associated), sealed).is_ok()
    }
}
