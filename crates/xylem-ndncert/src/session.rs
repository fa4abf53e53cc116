//! The key of a request, and the messages encrypted with it.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::fmt;

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::hkdf;
use ring::rand::SystemRandom;
use zeroize::Zeroizing;

use crate::packets::Encrypted;

/// Octets of an uncompressed P-256 point.
pub const POINT_LEN: usize = 65;
/// Octets of the salt of a key derivation.
pub const SALT_LEN: usize = 32;
/// Octets of the AES-GCM-128 key.
pub const KEY_LEN: usize = 16;
const TAG_LEN: usize = 16;
const RANDOM_LEN: usize = 8;
const BLOCK: usize = 16;

/// BLAKE3 `derive_key` context of a request's key; docs/spec/kdf.md.
pub const SESSION_CONTEXT: &str = "xylem-ndncert v1 session";

/// The id of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub [u8; 8]);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// The key derivation function from the shared secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Derivation {
    /// HKDF with SHA-256, as in the protocol.
    HkdfSha256,
    /// BLAKE3 `derive_key`, if both sides support it (docs/spec/kdf.md).
    Blake3,
}

impl Derivation {
    /// The name of [`Self::Blake3`] in packets.
    pub const BLAKE3: &'static str = "blake3";

    /// Derives the key of a request.
    pub fn key(
        self,
        secret: &[u8; 32],
        salt: &[u8; SALT_LEN],
        id: RequestId,
    ) -> Zeroizing<[u8; KEY_LEN]> {
        let mut key = Zeroizing::new([0; KEY_LEN]);
        match self {
            Self::HkdfSha256 => {
                let pseudorandom = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
                let info = [&id.0[..]];
                let expanded =
                    pseudorandom.expand(&info, KeyLen).and_then(|okm| okm.fill(&mut key[..]));
                expanded.expect("16 octets are fewer than HKDF gives");
            }
            Self::Blake3 => {
                let mut hasher = xylem_hash::Hasher::new_derive_key(SESSION_CONTEXT);
                hasher.update(secret).update(salt).update(&id.0);
                let derived = Zeroizing::new(*hasher.finalize().as_bytes());
                key.copy_from_slice(&derived[..KEY_LEN]);
            }
        }
        key
    }
}

struct KeyLen;

impl hkdf::KeyType for KeyLen {
    fn len(&self) -> usize {
        KEY_LEN
    }
}

/// Reasons for which a message is neither sealed nor opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The other side's point is not on the curve.
    #[error("the other side's key is not a point of P-256")]
    Point,
    /// The system has no randomness for our key.
    #[error("the system has no randomness")]
    NoRandomness,
    /// The message was seen before, or overtaken by a later one.
    #[error("a message arrived twice, or too late")]
    Replayed,
    /// Its IV belongs to another sender, or to us.
    #[error("a message has an IV of another sender")]
    OtherSender,
    /// The tag is wrong.
    #[error("a message's authentication tag is wrong")]
    NotGenuine,
    /// The counter of the IV would overflow.
    #[error("the session's key has encrypted its maximum")]
    Exhausted,
}

/// One side's half of the agreement.
pub struct Agreement {
    private: EphemeralPrivateKey,
    public: [u8; POINT_LEN],
}

impl Agreement {
    /// Makes a new P-256 key. `ring` takes randomness from the system.
    ///
    /// # Errors
    /// `NoRandomness`.
    pub fn new() -> Result<Self, SessionError> {
        let private = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new());
        let private = private.map_err(|_| SessionError::NoRandomness)?;
        let public = private.compute_public_key().map_err(|_| SessionError::NoRandomness)?;
        let public = public.as_ref().try_into().map_err(|_| SessionError::Point)?;
        Ok(Agreement { private, public })
    }

    /// The public half, uncompressed.
    pub fn public(&self) -> [u8; POINT_LEN] {
        self.public
    }

    /// Agrees on a key with the other side. `random` are the 8 octets of our IVs; the other side has its own.
    ///
    /// # Errors
    /// `Point` if theirs is not on the curve.
    pub fn agree(
        self,
        theirs: &[u8; POINT_LEN],
        derivation: Derivation,
        salt: &[u8; SALT_LEN],
        id: RequestId,
        random: [u8; 8],
    ) -> Result<RequestSession, SessionError> {
        let theirs = UnparsedPublicKey::new(&ECDH_P256, &theirs[..]);
        agree_ephemeral(self.private, &theirs, |shared| {
            let mut secret = Zeroizing::new([0; 32]);
            secret.copy_from_slice(shared);
            RequestSession::new(&derivation.key(&secret, salt, id), id, random)
        })
        .map_err(|_| SessionError::Point)
    }
}

impl fmt::Debug for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Agreement(secret hidden)")
    }
}

/// Messages of one request, both ways, under one key.
///
/// An IV consists of 8 octets of its sender and a counter of the blocks that the sender encrypted before. A counter
/// that does not grow is refused, so no message is accepted twice. An IV that begins with our own 8 octets is refused,
/// too: it would be a message of ours that came back.
pub struct RequestSession {
    key: LessSafeKey,
    id: RequestId,
    ours: [u8; RANDOM_LEN],
    next: u32,
    /// The other side's 8 octets, and the lowest acceptable counter.
    theirs: Option<([u8; RANDOM_LEN], u32)>,
}

impl RequestSession {
    /// A session under a key that is agreed already.
    pub fn new(key: &[u8; KEY_LEN], id: RequestId, random: [u8; 8]) -> Self {
        let key = UnboundKey::new(&AES_128_GCM, key).expect("16 octets are a key");
        RequestSession { key: LessSafeKey::new(key), id, ours: random, next: 0, theirs: None }
    }

    /// The id of its request.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// Encrypts a message.
    ///
    /// # Errors
    /// `Exhausted` after 64 GiB.
    pub fn seal(&mut self, plaintext: &[u8]) -> Result<Encrypted, SessionError> {
        let after = after(self.next, plaintext.len()).ok_or(SessionError::Exhausted)?;
        let iv = iv(&self.ours, self.next);
        let mut payload = plaintext.to_vec();
        let nonce = Nonce::assume_unique_for_key(iv);
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(self.id.0), &mut payload);
        let tag = tag.map_err(|_| SessionError::Exhausted)?;
        let tag = tag.as_ref().try_into().map_err(|_| SessionError::Exhausted)?;
        self.next = after;
        Ok(Encrypted { iv, tag, payload })
    }

    /// Decrypts a message. A message that is refused changes no state.
    ///
    /// # Errors
    /// `Replayed`, `OtherSender`, `NotGenuine`, `Exhausted`.
    pub fn open(&mut self, message: &Encrypted) -> Result<Vec<u8>, SessionError> {
        let [a, b, c, d, e, f, g, h, counter @ ..] = message.iv;
        let (random, counter) = ([a, b, c, d, e, f, g, h], u32::from_be_bytes(counter));
        if random == self.ours {
            return Err(SessionError::OtherSender);
        }
        if let Some((theirs, least)) = self.theirs {
            if random != theirs {
                return Err(SessionError::OtherSender);
            }
            if counter < least {
                return Err(SessionError::Replayed);
            }
        }
        let next = after(counter, message.payload.len()).ok_or(SessionError::Exhausted)?;
        let mut bytes = Vec::with_capacity(message.payload.len().saturating_add(TAG_LEN));
        bytes.extend_from_slice(&message.payload);
        bytes.extend_from_slice(&message.tag);
        let nonce = Nonce::assume_unique_for_key(message.iv);
        let opened = self.key.open_in_place(nonce, Aad::from(self.id.0), &mut bytes);
        let len = opened.map_err(|_| SessionError::NotGenuine)?.len();
        bytes.truncate(len);
        self.theirs = Some((random, next));
        Ok(bytes)
    }
}

impl fmt::Debug for RequestSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({}, key hidden)", self.id)
    }
}

/// The counter after a message of `len` octets. A message counts as one block at least: after an empty one the same IV
/// would be used again.
fn after(counter: u32, len: usize) -> Option<u32> {
    counter.checked_add(u32::try_from(len.div_ceil(BLOCK).max(1)).ok()?)
}

fn iv(random: &[u8; RANDOM_LEN], counter: u32) -> [u8; NONCE_LEN] {
    let mut iv = [0; NONCE_LEN];
    let (front, back) = iv.split_at_mut(RANDOM_LEN);
    front.copy_from_slice(random);
    back.copy_from_slice(&counter.to_be_bytes());
    iv
}
