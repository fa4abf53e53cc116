//! Stateless resets: a peer learns at once that this side has lost its state, instead of meeting silence
//! (docs/spec/link.md, "Stateless reset"; the idea is QUIC's, RFC 9000 section 10.3).
//!
//! A token is a keyed hash of a datagram's connection id and source address, under a key that follows from the static
//! key alone. While the link lives the peer receives the token of each of its epochs ([`PeerToken`] keeps it). A side
//! that gets a datagram of an unknown id can still compute the token ([`Resetter`]) and answers with random bytes that
//! end in it. The receiver of a datagram of unknown id checks whether it ends in a token of one of its links
//! ([`TokenTable`]).
//!
//! An answer is shorter than the datagram it answers, and nothing below [`MIN_PROVOKING`] bytes is answered, so two
//! sides without state fall silent; a token bucket bounds the number of answers.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::HashMap;

use constant_time_eq::constant_time_eq_n;
use xylem_hash::Hasher;
use zeroize::Zeroize;

use crate::cookie::address;
use crate::event::LinkId;
use crate::header::ConnectionId;
use crate::kdf::{LinkRng, derive, label};
use crate::keys::StaticKey;

/// Length of a token, with which a reset ends, in bytes.
pub(crate) const TOKEN_LEN: usize = 16;
/// Shortest datagram that is answered, in bytes.
pub(crate) const MIN_PROVOKING: usize = 64;
/// Lengths of a reset, in bytes: at least that of a datagram with an empty frame, and below that of an answered
/// datagram.
const LEN: core::ops::Range<usize> = 37..MIN_PROVOKING;
/// Most resets in a row, and in a second.
const BURST: u32 = 32;

pub(crate) type Token = [u8; TOKEN_LEN];

/// Makes tokens for the ids of this side's receivers. Wiped when dropped.
#[derive(Clone)]
pub(crate) struct ResetKey([u8; 32]);

impl ResetKey {
    pub(crate) fn new(key: &StaticKey) -> Self {
        Self(derive(label::RESET_KEY, &[key.secret()]))
    }

    /// The token for datagrams of this id from this address. It covers the address, so an attacker that copies a
    /// datagram and sends it from elsewhere gets a token that the peer does not accept.
    pub(crate) fn token(&self, id: ConnectionId, from: SocketAddr) -> Token {
        keyed(&self.0, &[&id.0[..], &address(from)].concat())
    }
}

impl Drop for ResetKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// The peer sent a token for an epoch that we have not begun.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TokenRefused;

/// The peer's token for our newest epoch that has one. The token for the epoch before stays until then: the peer sends
/// the epoch ack and the token in one datagram.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct PeerToken(Option<(u64, Token)>);

impl PeerToken {
    /// Takes a reset token frame. `current`: our sender's epoch. Returns whether the token is new.
    pub(crate) fn on_frame(
        &mut self,
        epoch: u64,
        token: &Token,
        current: u64,
    ) -> Result<bool, TokenRefused> {
        if epoch > current {
            return Err(TokenRefused);
        }
        let new = epoch == current && self.0 != Some((epoch, *token));
        if new {
            self.0 = Some((epoch, *token));
        }
        Ok(new)
    }

    pub(crate) fn get(&self) -> Option<&Token> {
        self.0.as_ref().map(|(_, token)| token)
    }
}

/// The tokens of all links, found by a keyed hash of them, so that the time of a lookup reveals nothing about a token.
pub(crate) struct TokenTable {
    key: [u8; 32],
    links: HashMap<Token, LinkId>,
    places: HashMap<LinkId, Token>,
}

impl TokenTable {
    pub(crate) fn new(rng: &mut LinkRng) -> Self {
        Self { key: rng.array(), links: HashMap::new(), places: HashMap::new() }
    }

    /// Replaces the token of a link.
    pub(crate) fn set(&mut self, link: LinkId, token: Option<&Token>) {
        let place = token.map(|token| keyed(&self.key, token));
        if self.places.get(&link) == place.as_ref() {
            return;
        }
        self.remove(link);
        if let Some(place) = place {
            self.links.insert(place, link);
            self.places.insert(link, place);
        }
    }

    pub(crate) fn remove(&mut self, link: LinkId) {
        if let Some(place) = self.places.remove(&link) {
            self.links.remove(&place);
        }
    }

    /// The link with the token that a datagram seems to end with; [`is_reset`] has to confirm it.
    pub(crate) fn find(&self, datagram: &[u8]) -> Option<LinkId> {
        let token = last_of(datagram)?;
        self.links.get(&keyed(&self.key, token)).copied()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.links.len() + self.places.len()
    }
}

/// Returns whether a datagram of unknown id is a reset with this token. The time taken does not depend on where the two
/// differ.
pub(crate) fn is_reset(datagram: &[u8], token: &Token) -> bool {
    last_of(datagram).is_some_and(|last| constant_time_eq_n(last, token))
}

fn last_of(datagram: &[u8]) -> Option<&Token> {
    datagram.last_chunk().filter(|_| datagram.len() >= LEN.start)
}

fn keyed(key: &[u8; 32], message: &[u8]) -> Token {
    let hash = Hasher::new_keyed(key).update(message).finalize();
    *hash.as_bytes().first_chunk().expect("16 of 32 bytes")
}

/// Answers datagrams of unknown ids with resets.
pub(crate) struct Resetter {
    key: ResetKey,
    /// A separate generator: datagrams sent to strangers do not affect those sent to peers.
    rng: LinkRng,
    /// When the token bucket is full again.
    full_at: Duration,
}

impl Resetter {
    pub(crate) fn new(key: &StaticKey, seed: &[u8; 32]) -> Self {
        Self { key: ResetKey::new(key), rng: LinkRng::new(seed), full_at: Duration::ZERO }
    }

    /// The key with which a new link makes the tokens for its peer.
    pub(crate) fn key(&self) -> ResetKey {
        self.key.clone()
    }

    /// The answer to a datagram of unknown id, if there is to be one.
    pub(crate) fn answer(
        &mut self,
        now: Duration,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Option<Vec<u8>> {
        let id = ConnectionId(*datagram.first_chunk()?);
        let full_at = self.full_at.max(now) + Duration::from_secs(1) / BURST;
        if datagram.len() < MIN_PROVOKING || full_at > now + Duration::from_secs(1) {
            return None;
        }
        self.full_at = full_at;
        let mut out = vec![0; LEN.start + self.rng.below(LEN.len())];
        let random = out.len() - TOKEN_LEN;
        self.rng.fill(&mut out[..random]);
        out[random..].copy_from_slice(&self.key.token(id, from));
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn at(n: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, n], 1))
    }

    fn resetter() -> Resetter {
        Resetter::new(&StaticKey::generate([1; 32]), &[2; 32])
    }

    #[test]
    fn resets_are_short_and_are_never_answered() {
        let (mut ours, mut again) =
            (resetter(), Resetter::new(&StaticKey::generate([1; 32]), &[3; 32]));
        for (n, len) in (0..200).chain([1_232, 65_507]).enumerate() {
            let datagram = vec![n as u8; len];
            let answer = ours.answer(S * n as u32, at(1), &datagram);
            assert_eq!(answer.is_some(), len >= MIN_PROVOKING, "{len}");
            let Some(answer) = answer else { continue };
            assert!(answer.len() < len && LEN.contains(&answer.len()));
            let token = |id: u8, from| ours.key().token(ConnectionId([id; 8]), at(from));
            let others = [token(!(n as u8), 1), token(n as u8, 2)];
            let token = token(n as u8, 1);
            assert!(is_reset(&answer, &token));
            assert!(others.iter().all(|other| !is_reset(&answer, other)));
            assert_eq!(ours.answer(S * n as u32, at(1), &answer), None, "no loop");
            // The same key after a restart gives the same token among other random bytes.
            let other = again.answer(S * n as u32, at(1), &datagram).unwrap();
            assert!(is_reset(&other, &token) && other[..8] != answer[..8]);
        }
    }

    #[test]
    fn the_rate_of_resets_is_bounded() {
        let mut ours = resetter();
        let count = |ours: &mut Resetter, now| {
            (0..1_000).filter(|_| ours.answer(now, at(1), &[7; 100]).is_some()).count()
        };
        assert_eq!(count(&mut ours, S), BURST as usize);
        assert_eq!(count(&mut ours, S + S / 2), BURST as usize / 2);
        assert_eq!(count(&mut ours, 100 * S), BURST as usize);
    }

    #[test]
    fn the_table_holds_only_the_newest_token_of_a_link() {
        let mut table = TokenTable::new(&mut LinkRng::new(&[1; 32]));
        let reset = |token: &Token| [&[9; 30][..], token].concat();
        table.set(LinkId(1), Some(&[1; 16]));
        table.set(LinkId(2), Some(&[2; 16]));
        assert_eq!(table.find(&reset(&[1; 16])), Some(LinkId(1)));
        table.set(LinkId(1), Some(&[3; 16]));
        assert_eq!(table.find(&reset(&[1; 16])), None);
        assert_eq!(table.find(&reset(&[3; 16])), Some(LinkId(1)));
        assert_eq!(table.find(&[3; 20]), None, "too short");
        table.remove(LinkId(1));
        table.set(LinkId(2), None);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn tokens_of_other_epochs_are_refused_or_ignored() {
        let mut ours = PeerToken::default();
        assert_eq!(ours.on_frame(1, &[1; 16], 0), Err(TokenRefused));
        assert_eq!(ours.on_frame(0, &[1; 16], 0), Ok(true));
        assert_eq!(ours.on_frame(0, &[1; 16], 0), Ok(false));
        assert_eq!(ours.on_frame(0, &[2; 16], 1), Ok(false));
        assert_eq!(ours.get(), Some(&[1; 16]), "until there is one of the current epoch");
        assert_eq!(ours.on_frame(1, &[3; 16], 1), Ok(true));
        assert_eq!(ours.get(), Some(&[3; 16]));
    }
}
