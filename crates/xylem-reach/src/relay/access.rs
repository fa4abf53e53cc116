//! [`AllowedClients`]: which clients a relay serves, by link key or by a [`TeamToken`] (docs/spec/reach.md, "Clients of a
//! relay").
//!
//! The token itself never travels. A client proves that it knows the token, by a hash that counts for its own link key at
//! this relay alone.

use core::fmt;
use core::str::FromStr;
use std::collections::HashSet;

use xylem_hash::{derive_key, keyed_hash};
use zeroize::Zeroizing;

/// Most tokens of a relay: each costs a hash for a registration.
pub const MAX_TOKENS: usize = 64;
/// Lengths of a token: shorter ones could be guessed by a relay that has seen a proof.
const LENGTHS: core::ops::RangeInclusive<usize> = 16..=128;

/// A secret text that a team's clients share with a relay.
#[derive(Clone, PartialEq, Eq)]
pub struct TeamToken(Zeroizing<[u8; 32]>, Zeroizing<String>);

/// Why a text is no [`TeamToken`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a relay's token has 16 to 128 letters, digits, '-', '.', '_' or '~'")]
pub struct TeamTokenError;

impl TeamToken {
    /// Proves to the relay with this link key that the client with this link key knows the token.
    #[must_use]
    pub fn proof(&self, relay: &[u8; 32], client: &[u8; 32]) -> [u8; 32] {
        *keyed_hash(&self.0, &[&relay[..], client].concat()).as_bytes()
    }

    /// The token itself, for a place that only its owner can read.
    #[must_use]
    pub fn secret_text(&self) -> &str {
        &self.1
    }
}

impl FromStr for TeamToken {
    type Err = TeamTokenError;

    fn from_str(text: &str) -> Result<Self, TeamTokenError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if !LENGTHS.contains(&text.len()) || !text.bytes().all(plain) {
            return Err(TeamTokenError);
        }
        let key = derive_key("xylem v1 relay: proofs of a team's token", text.as_bytes());
        Ok(Self(Zeroizing::new(key), Zeroizing::new(text.to_owned())))
    }
}

/// Shows no part of the token.
impl fmt::Debug for TeamToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TeamToken")
    }
}

/// The clients that a relay serves.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AllowedClients {
    /// Their link keys.
    pub keys: HashSet<[u8; 32]>,
    /// Or tokens, one of which they have to prove; at most [`MAX_TOKENS`] count.
    pub tokens: Vec<TeamToken>,
}

impl AllowedClients {
    /// Whether the client with this link key, and this proof if it sent one, is served by the relay with the key `relay`.
    pub(super) fn has(
        &self,
        relay: &[u8; 32],
        client: &[u8; 32],
        proof: Option<&[u8; 32]>,
    ) -> bool {
        let proves = |proof: &[u8; 32]| {
            let tokens = self.tokens.iter().take(MAX_TOKENS);
            let is = |token: &TeamToken| {
                constant_time_eq::constant_time_eq(&token.proof(relay, client), proof)
            };
            tokens.filter(|token| is(token)).count() > 0
        };
        self.keys.contains(client) || proof.is_some_and(proves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "correct-horse-battery";

    #[test]
    fn a_proof_counts_for_one_client_at_one_relay() {
        let token: TeamToken = TOKEN.parse().unwrap();
        let allowed = AllowedClients { tokens: vec![token.clone()], ..AllowedClients::default() };
        let proof = token.proof(&[1; 32], &[2; 32]);
        assert!(allowed.has(&[1; 32], &[2; 32], Some(&proof)));
        assert!(!allowed.has(&[3; 32], &[2; 32], Some(&proof)), "another relay");
        assert!(!allowed.has(&[1; 32], &[3; 32], Some(&proof)), "another client");
        assert!(!allowed.has(&[1; 32], &[2; 32], None));
        let other: TeamToken = "correct-horse-batterz".parse().unwrap();
        let proof = other.proof(&[1; 32], &[2; 32]);
        assert!(!allowed.has(&[1; 32], &[2; 32], Some(&proof)));
    }

    #[test]
    fn a_listed_key_needs_no_token() {
        let keys = HashSet::from([[2; 32]]);
        let allowed = AllowedClients { keys, ..AllowedClients::default() };
        assert!(allowed.has(&[1; 32], &[2; 32], None));
        assert!(!allowed.has(&[1; 32], &[3; 32], None));
    }

    #[test]
    fn tokens_are_long_and_plain() {
        for text in ["", "fifteen-letters", "sixteen letters!", &"a".repeat(129)] {
            assert_eq!(text.parse::<TeamToken>(), Err(TeamTokenError), "{text}");
        }
        let token: TeamToken = TOKEN.parse().unwrap();
        assert_eq!((token.secret_text(), format!("{token:?}")), (TOKEN, "TeamToken".into()));
    }
}
