//! The AEADs of the transport behind one trait: [`Aead`], one epoch's keys ready for use.
//!
//! | number | cipher | library | header protection |
//! |---|---|---|---|
//! | 1 | AES-256-GCM | ring | AES-256 |
//! | 2 | ChaCha20-Poly1305 | ring | SipHash-2-4 |
//! | 3 | XChaCha20-Poly1305 | ring under an HChaCha20 subkey | SipHash-2-4 |
//!
//! Secrets come from [`crate::seal`], which knows datagrams, epochs and what to derive; here are
//! nonces, tags and masks only. What none of the three does is commit to its key; the epoch's
//! commitment does that (docs/spec/link.md, "Epochs").

use ring::aead::quic::{self, HeaderProtectionKey};
use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use siphasher::sip::SipHasher24;

mod hchacha;

/// Bytes of every tag.
pub const TAG_LEN: usize = 16;
/// Bytes of the IV that an epoch has, whatever its cipher uses of them.
pub(crate) const IV_LEN: usize = 24;

/// The AEADs of the transport, with their numbers on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Cipher {
    /// AES-256-GCM: where both CPUs have instructions for it.
    Aes256Gcm = 1,
    /// ChaCha20-Poly1305: everywhere else.
    ChaCha20Poly1305 = 2,
    /// XChaCha20-Poly1305: where the dialer asks for it. Its nonces have 24 bytes, of which the
    /// first 16 are secret and the epoch's own.
    XChaCha20Poly1305 = 3,
}

impl Cipher {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Aes256Gcm, Self::ChaCha20Poly1305, Self::XChaCha20Poly1305];

    /// The cipher of a number on the wire.
    #[must_use]
    pub fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|c| *c as u8 == number)
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

    /// One epoch's keys.
    pub(crate) fn keys(
        self,
        key: &[u8; 32],
        iv: &[u8; IV_LEN],
        header: &[u8; 32],
    ) -> Box<dyn Aead> {
        match self {
            Self::Aes256Gcm => Box::new(Aes256Gcm::new(key, iv, header)),
            Self::ChaCha20Poly1305 => Box::new(ChaCha20Poly1305::new(key, iv, header)),
            Self::XChaCha20Poly1305 => Box::new(ChaCha20Poly1305::extended(key, iv, header)),
        }
    }
}

/// One epoch's AEAD, IV and header protection. A `number` is used for one seal only.
pub(crate) trait Aead: Send + Sync {
    /// Encrypts `text` in place; gives the tag.
    fn seal(&self, number: u64, associated: &[u8], text: &mut [u8]) -> [u8; TAG_LEN];

    /// Decrypts `sealed`, whose last [`TAG_LEN`] bytes are the tag, in place; whether the tag
    /// verifies. If it does not, what is left in `sealed` is of no use.
    fn open(&self, number: u64, associated: &[u8], sealed: &mut [u8]) -> bool;

    /// What the packet number on the wire is XORed with, of a sample of the sealed part.
    fn mask(&self, sample: &[u8; 16]) -> [u8; 4];
}

/// ring's AEAD with nonces of an IV, the last 8 bytes XOR the number.
struct Numbered {
    key: LessSafeKey,
    iv: [u8; 12],
}

impl Numbered {
    fn new(algorithm: &'static aead::Algorithm, key: &[u8; 32], iv: [u8; 12]) -> Self {
        let key = UnboundKey::new(algorithm, key).expect("both algorithms take 32 bytes");
        Self { key: LessSafeKey::new(key), iv }
    }

    #[inline]
    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = self.iv;
        for (byte, n) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= n;
        }
        Nonce::assume_unique_for_key(nonce)
    }

    #[inline]
    fn seal(&self, number: u64, associated: &[u8], text: &mut [u8]) -> [u8; TAG_LEN] {
        let tag = self
            .key
            .seal_in_place_separate_tag(self.nonce(number), Aad::from(associated), text)
            .expect("ring refuses only messages of more than 64 GiB");
        *tag.as_ref().first_chunk().expect("both algorithms' tags have 16 bytes")
    }

    #[inline]
    fn open(&self, number: u64, associated: &[u8], sealed: &mut [u8]) -> bool {
        self.key.open_in_place(self.nonce(number), Aad::from(associated), sealed).is_ok()
    }
}

struct Aes256Gcm {
    aead: Numbered,
    header: HeaderProtectionKey,
}

impl Aes256Gcm {
    fn new(key: &[u8; 32], iv: &[u8; IV_LEN], header: &[u8; 32]) -> Self {
        let iv = *iv.first_chunk().expect("12 of 24 bytes");
        let header = HeaderProtectionKey::new(&quic::AES_256, header);
        Self {
            aead: Numbered::new(&aead::AES_256_GCM, key, iv),
            header: header.expect("AES-256 takes 32 bytes"),
        }
    }
}

impl Aead for Aes256Gcm {
    fn seal(&self, number: u64, associated: &[u8], text: &mut [u8]) -> [u8; TAG_LEN] {
        self.aead.seal(number, associated, text)
    }

    fn open(&self, number: u64, associated: &[u8], sealed: &mut [u8]) -> bool {
        self.aead.open(number, associated, sealed)
    }

    fn mask(&self, sample: &[u8; 16]) -> [u8; 4] {
        let mask = self.header.new_mask(sample).expect("the sample is 16 bytes");
        [mask[1], mask[2], mask[3], mask[4]]
    }
}

/// Its header protection is not ChaCha20 as in QUIC: for the four bytes of a number that computes
/// 64, an eighth of the time that sealing 1,400 bytes takes.
struct ChaCha20Poly1305 {
    aead: Numbered,
    header: SipHasher24,
}

impl ChaCha20Poly1305 {
    fn new(key: &[u8; 32], iv: &[u8; IV_LEN], header: &[u8; 32]) -> Self {
        Self::with(key, *iv.first_chunk().expect("12 of 24 bytes"), header)
    }

    /// XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03) with nonces of the whole IV, the last 8
    /// bytes XOR the number. The first 16 are those of the epoch, and so is the subkey: it is
    /// made once, and a datagram costs what it costs under ChaCha20-Poly1305.
    fn extended(key: &[u8; 32], iv: &[u8; IV_LEN], header: &[u8; 32]) -> Self {
        let (prefix, rest) = iv.split_first_chunk().expect("16 of 24 bytes");
        let mut short = [0; 12];
        short[4..].copy_from_slice(rest);
        Self::with(&hchacha::hchacha20(key, prefix), short, header)
    }

    fn with(key: &[u8; 32], iv: [u8; 12], header: &[u8; 32]) -> Self {
        let header = header.first_chunk().expect("16 of 32 bytes");
        Self {
            aead: Numbered::new(&aead::CHACHA20_POLY1305, key, iv),
            header: SipHasher24::new_with_key(header),
        }
    }
}

impl Aead for ChaCha20Poly1305 {
    fn seal(&self, number: u64, associated: &[u8], text: &mut [u8]) -> [u8; TAG_LEN] {
        self.aead.seal(number, associated, text)
    }

    fn open(&self, number: u64, associated: &[u8], sealed: &mut [u8]) -> bool {
        self.aead.open(number, associated, sealed)
    }

    fn mask(&self, sample: &[u8; 16]) -> [u8; 4] {
        let [a, b, c, d, ..] = self.header.hash(sample).to_le_bytes();
        [a, b, c, d]
    }
}
