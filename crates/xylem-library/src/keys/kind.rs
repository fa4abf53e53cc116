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

impl FromStr for KeyKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ed25519" => Ok(Self::Ed25519),
            "ecdsa" => Ok(Self::EcdsaP256),
            _ => Err("expected ed25519 or ecdsa".to_owned()),
        }
    }
}
