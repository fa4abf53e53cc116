//! Ephemeral key pairs made ahead: an Elligator2 pair takes about as long as a Diffie-Hellman, and a
//! handshake should not wait for it. They come in the order in which they were drawn from a
//! generator of their own, so what is sent does not depend on when they were made.

use std::collections::VecDeque;

use crate::elligator::KeyPair;
use crate::kdf::Rng;

/// Pairs that wait.
const MAX_AHEAD: usize = 16;

pub(super) struct Ahead {
    rng: Rng,
    pairs: VecDeque<KeyPair>,
}

impl Ahead {
    pub(super) fn new(seed: &[u8; 32]) -> Self {
        Self { rng: Rng::new(seed), pairs: VecDeque::new() }
    }

    /// What a thief would take.
    #[cfg(test)]
    pub(super) fn first(&mut self) -> KeyPair {
        self.make_one();
        self.pairs[0].clone()
    }

    /// What waits is thrown away: whoever knows it must not know the handshakes to come.
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

    /// A pair for one handshake: one that waits, or a new one.
    pub(super) fn take_pair(&mut self) -> KeyPair {
        self.pairs.pop_front().unwrap_or_else(|| KeyPair::generate(&mut self.rng))
    }
}
