//! Noise's symmetric state (revision 34, section 5.2): transcript, chaining key and cipher key. SHA-256, HKDF and the
//! AEADs are ring's.

use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::digest;
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use zeroize::Zeroizing;

use super::NoiseRefused;
use crate::aead::TAG_LEN;
use crate::secret::HeapSecret;

/// The variable parts of a Noise protocol name.
pub(crate) struct Suite {
    /// The protocol name, at most 32 bytes, with which the transcript begins.
    pub name: &'static str,
    pub aead: &'static aead::Algorithm,
    /// The nonce for the message with this number.
    pub nonce: fn(u64) -> [u8; 12],
    /// Whether public keys have a form byte, and ephemeral ones are representatives.
    pub forms: bool,
}

impl Suite {
    /// A public key as this suite's transcript has it.
    pub(super) fn key<'a>(&self, formed: &'a [u8; super::FORMED_LEN]) -> &'a [u8] {
        &formed[usize::from(!self.forms)..]
    }
}

/// The symmetric state; its secrets lie on the heap and are wiped.
#[derive(Clone)]
pub(super) struct Symmetric {
    suite: &'static Suite,
    /// The transcript hash: public.
    h: [u8; 32],
    ck: HeapSecret,
    /// The cipher key and the number of its next message, once there is one.
    key: Option<(HeapSecret, u64)>,
}

impl Symmetric {
    pub(super) fn new(suite: &'static Suite, prologue: &[u8]) -> Self {
        let mut h = [0; 32];
        h[..suite.name.len()].copy_from_slice(suite.name.as_bytes());
        let mut new = Self { suite, h, ck: HeapSecret::copy_of(&h), key: None };
        new.mix_hash(prologue);
        new
    }

    pub(super) fn transcript(&self) -> [u8; 32] {
        self.h
    }

    pub(super) fn mix_hash(&mut self, data: &[u8]) {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&self.h);
        context.update(data);
        self.h.copy_from_slice(context.finish().as_ref());
    }

    pub(super) fn mix_key(&mut self, shared: &[u8; 32]) {
        let (ck, key) = self.two_keys(shared);
        self.ck = ck;
        self.key = Some((key, 0));
    }

    /// Noise's `Split()`: initiator to responder, and back.
    pub(super) fn split(&self) -> (HeapSecret, HeapSecret) {
        self.two_keys(&[])
    }

    /// Noise's HKDF with two outputs is that of RFC 5869 without an info.
    fn two_keys(&self, material: &[u8]) -> (HeapSecret, HeapSecret) {
        let mut both = Zeroizing::new([0; 64]);
        let made = Salt::new(HKDF_SHA256, &self.ck[..]).extract(material);
        made.expand(&[], TwoOutputs)
            .and_then(|made| made.fill(&mut both[..]))
            .expect("64 bytes were asked for, which are two blocks of HMAC-SHA-256");
        let (blocks, _) = both.as_chunks::<32>();
        (HeapSecret::copy_of(&blocks[0]), HeapSecret::copy_of(&blocks[1]))
    }

    /// Appends `text`, sealed if there is a key, and mixes the appended bytes into the transcript.
    pub(super) fn encrypt(&mut self, text: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(text);
        if let Some((key, nonce)) = self.next_key() {
            let tag = key.seal_in_place_separate_tag(nonce, Aad::from(self.h), &mut out[start..]);
            let tag = tag.expect("ring refuses only messages of more than 64 GiB");
            out.extend_from_slice(tag.as_ref());
        }
        self.mix_hash(&out[start..]);
    }

    /// Mixes `sealed` into the transcript, and returns its text.
    pub(super) fn decrypt(&mut self, sealed: &[u8]) -> Result<Vec<u8>, NoiseRefused> {
        let mut text = sealed.to_vec();
        if let Some((key, nonce)) = self.next_key() {
            key.open_in_place(nonce, Aad::from(self.h), &mut text).map_err(|_| NoiseRefused)?;
            text.truncate(text.len().checked_sub(TAG_LEN).ok_or(NoiseRefused)?);
        }
        self.mix_hash(sealed);
        Ok(text)
    }

    fn next_key(&mut self) -> Option<(LessSafeKey, Nonce)> {
        let (key, number) = self.key.as_mut()?;
        let nonce = Nonce::assume_unique_for_key((self.suite.nonce)(*number));
        // No key of XX seals more than two messages.
        *number = number.saturating_add(1);
        let key = UnboundKey::new(self.suite.aead, &key[..]).expect("both AEADs take 32 bytes");
        Some((LessSafeKey::new(key), nonce))
    }
}

/// 64 bytes.
struct TwoOutputs;

impl KeyType for TwoOutputs {
    fn len(&self) -> usize {
        64
    }
}
