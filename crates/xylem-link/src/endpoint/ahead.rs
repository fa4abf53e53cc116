//! Ephemeral key pairs made in advance: an Elligator2 pair takes about as long as a Diffie-Hellman, and a handshake
//! should not wait for it. They are used in the order in which they were drawn from a separate generator, so sent bytes
//! do not depend on when the pairs were made.

use std::collections::VecDeque;

use crate::elligator::KeyPair;
use crate::kdf::LinkRng;

/// Pairs kept ready, at most.
const MAX_AHEAD: usize = 16;

pub(super) struct KeyPairPool {
    rng: LinkRng,
    pairs: VecDeque<KeyPair>,
}

impl KeyPairPool {
    pub(super) fn new(seed: &[u8; 32]) -> Self {
        Self { rng: LinkRng::new(seed), pairs: VecDeque::new() }
    }

    /// The content that an attacker with access to memory would take.
    #[cfg(test)]
    pub(super) fn first(&mut self) -> KeyPair {
        self.make_one();
        self.pairs[0].clone()
    }

    /// Discards the waiting pairs: an attacker that knows them must not know future handshakes.
    pub(super) fn add_entropy(&mut self, random: &[u8; 32]) {
        self.rng.add(random);
        self.pairs.clear();
    }

    /// Makes one pair, unless enough of them wait.
    pub(super) fn make_one(&mut self) {
        if self.pairs.len() < MAX_AHEAD {
            self.pairs.push_back(KeyPair::generate(&mut self.rng));
        }
    }

    /// A pair for one handshake: a waiting one, or a new one.
    pub(super) fn take_pair(&mut self) -> KeyPair {
        self.pairs.pop_front().unwrap_or_else(|| KeyPair::generate(&mut self.rng))
    }
}
