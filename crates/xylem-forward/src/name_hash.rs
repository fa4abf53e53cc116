//! Hashes of a name and all its prefixes in one pass.
//!
//! The tables compare names in full, so a collision costs time and never a wrong answer. What must
//! not be possible is to choose names that collide: the state starts from a secret and every
//! 16 bytes are folded in by a widening multiplication with secret keys. This is no cryptographic
//! hash; its values never leave the process.

use xylem_packet::NameRef;

/// A keyed hash for names.
#[derive(Clone)]
pub(crate) struct NameHasher {
    start: u64,
    key: [u64; 2],
}

/// Upper and lower half of the product, xored: every bit of each factor reaches every bit.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// One step of the splitmix64 generator: spreads a seed over as many values as needed.
pub(crate) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl NameHasher {
    pub(crate) fn new(mut seed: u64) -> Self {
        let start = split_mix(&mut seed);
        // Odd keys are never zero, which would fold everything to zero.
        NameHasher { start, key: [split_mix(&mut seed) | 1, split_mix(&mut seed) | 1] }
    }

    /// Folds in the TLV of one component. It carries its own length, so padding is unambiguous.
    #[inline]
    fn absorb(&self, mut state: u64, mut bytes: &[u8]) -> u64 {
        while let Some((block, rest)) = bytes.split_first_chunk::<16>() {
            let (a, b) = block.split_at(8);
            state = fold(word(a) ^ self.key[0], word(b) ^ state);
            bytes = rest;
        }
        if !bytes.is_empty() {
            let (a, b) = bytes.split_at(bytes.len().min(8));
            state = fold(word(a) ^ self.key[0], word(b) ^ state);
        }
        state
    }

    /// The last step: a prefix's hash tells nothing about the state that longer names go on from.
    #[inline]
    fn finish(&self, state: u64) -> u64 {
        fold(state ^ self.key[1], self.key[0])
    }

    /// Hash of a whole name.
    #[inline]
    pub(crate) fn hash(&self, name: NameRef<'_>) -> u64 {
        let mut state = self.start;
        self.walk(name, &mut state, |_| {});
        self.finish(state)
    }

    /// Hashes of the prefixes of 0, 1, … components; the last is the whole name's. Replaces what
    /// `hashes` held.
    #[inline]
    pub(crate) fn hash_prefixes(&self, name: NameRef<'_>, hashes: &mut Vec<u64>) {
        hashes.clear();
        let mut state = self.start;
        hashes.push(self.finish(state));
        self.walk(name, &mut state, |state| hashes.push(self.finish(state)));
    }

    #[inline]
    fn walk(&self, name: NameRef<'_>, state: &mut u64, mut each: impl FnMut(u64)) {
        let value = name.value();
        let mut components = name.iter();
        let mut start = 0;
        while components.next().is_some() {
            let end = components.position();
            *state = self.absorb(*state, &value[start..end]);
            each(*state);
            start = end;
        }
    }

    /// A hash of a name (by its hash) and a nonce.
    #[inline]
    pub(crate) fn with_nonce(&self, name_hash: u64, nonce: [u8; 4]) -> u64 {
        fold(name_hash ^ self.key[1], u64::from(u32::from_le_bytes(nonce)) ^ self.start)
    }
}

/// Hashes numbers that are ours or already hashed, for tables keyed by them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NumberHasher(u64);

impl core::hash::BuildHasher for NumberHasher {
    type Hasher = NumberHasher;
    fn build_hasher(&self) -> NumberHasher {
        NumberHasher(0)
    }
}

impl core::hash::Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.chunks(8).for_each(|chunk| self.write_u64(word(chunk)));
    }
    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = fold(self.0 ^ number, 0x9E37_79B9_7F4A_7C15);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Up to 8 bytes as a number, missing ones being zero.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    if let Ok(whole) = <[u8; 8]>::try_from(bytes) {
        return u64::from_le_bytes(whole);
    }
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(padded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use xylem_packet::{Component, Name};

    #[test]
    fn prefix_hashes_are_the_hashes_of_the_prefixes() {
        let hasher = NameHasher::new(7);
        let name =
            Name::from_uri("/a/bb/a-component-of-more-than-sixteen-bytes/v=1/seg=0").unwrap();
        let mut hashes = Vec::new();
        hasher.hash_prefixes(name.as_ref(), &mut hashes);
        assert_eq!(hashes.len(), name.len() + 1);
        for (n, hash) in hashes.iter().enumerate() {
            assert_eq!(*hash, hasher.hash(name.prefix(n)), "{n} components");
        }
    }

    #[test]
    fn many_similar_names_do_not_collide() {
        let hasher = NameHasher::new(7);
        let prefix = Name::from_uri("/xylem/0123456789abcdef/file").unwrap();
        let hashes: HashSet<u64> = (0..100_000)
            .map(|n| hasher.hash(prefix.child(Component::segment(n)).as_ref()))
            .collect();
        assert_eq!(hashes.len(), 100_000);
        // The table takes its seven tag bits from the top and the bucket from the bottom.
        let tops: HashSet<u64> = hashes.iter().map(|h| h >> 57).collect();
        assert_eq!(tops.len(), 128);
    }

    #[test]
    fn the_seed_matters() {
        let name = Name::from_uri("/a").unwrap();
        assert_ne!(NameHasher::new(1).hash(name.as_ref()), NameHasher::new(2).hash(name.as_ref()));
    }
}
