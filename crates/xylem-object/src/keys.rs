//! The publisher's Ed25519 key pair.
//!
//! The secret comes from 32 random bytes that the caller drew; this module draws none. It makes one signature per
//! publication and is wiped when dropped. Signing itself, other kinds of keys and certificates belong to xylem-trust: a
//! ticket names its publisher's key directly.
//!
//! ```
//! let key = xylem_object::PublisherKey::from_bytes(&[7; 32]);
//! assert_eq!(key.public().key_id().to_string(), "0871f3aabc26e458");
//! assert_eq!(format!("{key:?}"), "PublisherKey(0871f3aabc26e458, secret hidden)");
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::fmt;
use core::str::FromStr;

use xylem_packet::{Name, SignatureInfo, SignatureType};
use xylem_trust::{PublicKey, Signer, Verifier};
use zeroize::Zeroizing;

use crate::naming;

/// A publisher's secret key. `Debug` hides it; dropping wipes it.
pub struct PublisherKey {
    seed: Zeroizing<[u8; 32]>,
    id: PublisherId,
    signer: Signer,
}

impl PublisherKey {
    /// The key with the RFC 8032 seed `secret`: 32 random bytes, new or stored.
    pub fn from_bytes(secret: &[u8; 32]) -> Self {
        let id = match Signer::ed25519(secret, Name::new()).public() {
            Some(PublicKey::Ed25519(public)) => PublisherId(public),
            _ => unreachable!("a signer that was made of an Ed25519 key has such a public half"),
        };
        let signer = Signer::ed25519(secret, naming::key_name(&id.key_id()));
        Self { seed: Zeroizing::new(*secret), id, signer }
    }

    /// The same key with another KeyLocator, `locator`, in its packets: the name of its certificate, if it has one.
    #[must_use]
    pub fn with_key_locator(self, locator: Name) -> Self {
        let signer = Signer::ed25519(&self.seed, locator);
        Self { signer, ..self }
    }

    /// The secret seed, to be stored where only its owner reads; wiped when dropped.
    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        self.seed.clone()
    }

    /// The public key.
    pub fn public(&self) -> PublisherId {
        self.id
    }

    /// Signs packets with this key (signature type 5). The KeyLocator is `/xylem/<key id>/KEY` or the name given to
    /// [`Self::with_key_locator`].
    pub fn signer(&self) -> &Signer {
        &self.signer
    }
}

impl fmt::Debug for PublisherKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublisherKey({}, secret hidden)", self.public().key_id())
    }
}

/// A publisher: the 32 bytes of an Ed25519 public key. `Display` and `FromStr` are 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublisherId(pub [u8; 32]);

impl PublisherId {
    /// The short form for names: the first 8 bytes of the key's BLAKE3 hash. It distinguishes publishers and proves
    /// nothing; the signature proves.
    pub fn key_id(&self) -> KeyId {
        let hash = xylem_hash::hash(&self.0);
        let mut id = [0; 8];
        id.copy_from_slice(&hash.as_bytes()[..8]);
        KeyId(id)
    }

    /// A verifier that accepts this publisher's packets only. It is strict: it refuses signatures of small order and
    /// non-canonical encodings. `None` if the 32 bytes are no key, or a key of small order.
    pub fn verifier(&self) -> Option<Verifier> {
        Verifier::of(&PublicKey::Ed25519(self.0)).ok()
    }

    /// Returns whether `signature` is this publisher's signature over `message`, by the rules of [`Self::verifier`].
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let info = SignatureInfo::new(SignatureType::ED25519, None);
        self.verifier().is_some_and(|key| key.parts(&info, &[message], signature).is_ok())
    }
}

impl fmt::Display for PublisherId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublisherId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublisherId({self})")
    }
}

/// Serializes the text form.
#[cfg(feature = "serde")]
impl serde::Serialize for PublisherId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The text is no publisher's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a publisher is 64 hexadecimal digits")]
pub struct PublisherIdError;

impl FromStr for PublisherId {
    type Err = PublisherIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = xylem_hash::Hash::from_hex(text).map_err(|_| PublisherIdError)?;
        Ok(Self(*digits.as_bytes()))
    }
}

/// The first 8 bytes of the BLAKE3 hash of a publisher's key; `Display` is 16 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId(pub [u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8032 section 7.1, test 2.
    #[test]
    fn signs_like_the_rfc() {
        let seed = *xylem_hash::Hash::from_hex(
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        )
        .unwrap()
        .as_bytes();
        let key = PublisherKey::from_bytes(&seed);
        let id: PublisherId =
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c".parse().unwrap();
        assert_eq!(key.public(), id);
        let signature = key.signer().sign(&[&[0x72]]);
        let signature = signature.as_ref();
        assert_eq!(signature[..4], [0x92, 0xa0, 0x09, 0xa9]);
        assert!(id.verifies(&[0x72], signature));
        assert!(!id.verifies(&[0x73], signature));
        assert!(!id.verifies(&[0x72], &signature[..63]));
        assert!(!PublisherKey::from_bytes(&[1; 32]).public().verifies(&[0x72], signature));
    }

    /// With a key of small order, a signature of zeros would verify any message.
    #[test]
    fn keys_of_small_order_verify_nothing() {
        let mut identity = [0; 32];
        identity[0] = 1;
        let mut signature = [0; 64];
        signature[0] = 1;
        assert!(!PublisherId(identity).verifies(b"anything", &signature));
    }

    #[test]
    fn debug_hides_the_secret() {
        let key = PublisherKey::from_bytes(&[0xab; 32]);
        assert!(!format!("{key:?}").contains("abab"));
        assert!(!format!("{key:?}").contains("171"));
        assert_eq!(*key.to_bytes(), [0xab; 32]);
    }

    #[test]
    fn ids_are_read_strictly() {
        let id = PublisherKey::from_bytes(&[3; 32]).public();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string()[1..].parse::<PublisherId>(), Err(PublisherIdError));
        assert_eq!(
            format!("+{}", &id.to_string()[1..]).parse::<PublisherId>(),
            Err(PublisherIdError)
        );
        assert_eq!("é".repeat(32).parse::<PublisherId>(), Err(PublisherIdError));
    }
}
