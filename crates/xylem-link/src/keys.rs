//! X25519 identities.

use core::fmt;
use std::sync::Arc;

use zeroize::{Zeroize, Zeroizing};

use crate::curve;
use crate::secret::{HeapSecret, leaving_nothing};

/// A peer's X25519 public key, its identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerKey(pub [u8; 32]);

impl fmt::Display for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerKey({self})")
    }
}

/// An X25519 secret key: this side's identity on its links. Clones share one place in memory, which is wiped with the
/// last of them.
#[derive(Clone)]
pub struct StaticKey {
    secret: Arc<HeapSecret>,
    public: PeerKey,
}

impl StaticKey {
    /// Makes a key of 32 uniformly random bytes.
    #[must_use]
    pub fn generate(random: [u8; 32]) -> Self {
        Self::from_bytes(random)
    }

    /// Restores a key from [`StaticKey::to_bytes`]. Any 32 bytes are a key.
    #[must_use]
    pub fn from_bytes(mut secret: [u8; 32]) -> Self {
        leaving_nothing(|| {
            let key = HeapSecret::copy_of(&secret);
            secret.zeroize();
            Self { public: PeerKey(curve::public_key(&key)), secret: Arc::new(key) }
        })
    }

    /// The secret bytes, for storing.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        **self.secret
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> PeerKey {
        self.public
    }

    /// X25519 with a peer's key: a secret that only the two can compute. `None` where it would be all zeros (RFC 7748
    /// section 6.1), which only an invalid key causes.
    #[must_use]
    pub fn agree(&self, peer: &PeerKey) -> Option<Zeroizing<[u8; 32]>> {
        let shared = leaving_nothing(|| curve::agree(&self.secret, &peer.0))?;
        Some(Zeroizing::new(*shared))
    }

    pub(crate) fn secret(&self) -> &[u8; 32] {
        &self.secret
    }
}

impl fmt::Debug for StaticKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StaticKey(secret of {})", self.public)
    }
}
