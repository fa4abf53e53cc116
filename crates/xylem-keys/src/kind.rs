//! [`KeyKind`]: the algorithm of a new key.

use std::str::FromStr;

/// Algorithm of a new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum KeyKind {
    /// Ed25519.
    #[default]
    Ed25519,
    /// ECDSA on P-256, which older NDN software understands.
    EcdsaP256,
}

/// A text that names no [`KeyKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected ed25519 or ecdsa")]
pub struct UnknownKeyKind;

impl FromStr for KeyKind {
    type Err = UnknownKeyKind;

    fn from_str(text: &str) -> Result<Self, UnknownKeyKind> {
        match text {
            "ed25519" => Ok(Self::Ed25519),
            "ecdsa" => Ok(Self::EcdsaP256),
            _ => Err(UnknownKeyKind),
        }
    }
}
