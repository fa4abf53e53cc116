//! X25519 identities.

use core::fmt;

use zeroize::Zeroize;

use crate::curve;

/// A peer's X25519 public key: who it is.
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

/// An X25519 secret key: this side's identity on its links. Wiped when dropped.
pub struct StaticKey {
    secret: [u8; 32],
    public: PeerKey,
}

impl StaticKey {
    /// Makes a key of 32 uniformly random bytes.
    #[must_use]
    pub fn generate(random: [u8; 32]) -> Self {
        Self::from_bytes(random)
    }

    /// Takes back what [`StaticKey::to_bytes`] gave. Any 32 bytes are a key.
    #[must_use]
    pub fn from_bytes(mut secret: [u8; 32]) -> Self {
        let key = Self { secret, public: PeerKey(curve::public_key(&secret)) };
        secret.zeroize();
        key
    }

    /// The secret bytes, for storing.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        self.secret
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> PeerKey {
        self.public
    }

    pub(crate) fn secret(&self) -> &[u8; 32] {
        &self.secret
    }
}

impl Clone for StaticKey {
    fn clone(&self) -> Self {
        Self { secret: self.secret, public: self.public }
    }
}

impl fmt::Debug for StaticKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StaticKey(secret of {})", self.public)
    }
}

impl Drop for StaticKey {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}
