//! Hashes of a name and of all its prefixes in one pass.
//!
//! The tables compare names in full, so a collision costs time but never gives a wrong answer. It must not be possible
//! to choose names that collide. The state therefore starts from a secret, and every 16 bytes are folded in by a
//! widening multiplication with secret keys. This is no cryptographic hash, and its values never leave the process.
//!
//! An implicit digest at the end of a name is left out, so that an Interest for a packet by its digest is found where
//! that packet's name is looked up.

use xylem_congestion::SplitMix64;
use xylem_packet::NameRef;
use xylem_packet::tlv::types;

/// Hashes are kept of prefixes with at most this many components.
pub(crate) const MAX_HASHED: usize = 64;

/// The hashes of a name and of its prefixes.
#[derive(Debug)]
pub(crate) struct NameHashes {
    of_prefix: [u64; MAX_HASHED + 1],
    whole: u64,
    len: usize,
}

impl Default for NameHashes {
    fn default() -> Self {
        NameHashes { of_prefix: [0; MAX_HASHED + 1], whole: 0, len: 0 }
    }
}

impl NameHashes {
    /// Hash of the whole name.
    #[inline]
    pub(crate) fn whole(&self) -> u64 {
        self.whole
    }

    /// Number of the name's components.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Hash of the first `n` components; `None` if the name has fewer, or `n` is over
    /// [`MAX_HASHED`].
    #[inline]
    pub(crate) fn of(&self, n: usize) -> Option<u64> {
        if n > self.len { None } else { self.of_prefix.get(n).copied() }
    }
}

/// A keyed hash for names.
#[derive(Clone)]
pub(crate) struct NameHasher {
    start: u64,
    key: [u64; 2],
}

/// The two halves of the product, xored: every bit of each factor affects every bit.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl NameHasher {
    pub(crate) fn new(seed: u64) -> Self {
        let mut spread = SplitMix64::new(seed);
        let start = spread.next_u64();
        // Odd keys are never zero, which would fold everything to zero.
        NameHasher { start, key: [spread.next_u64() | 1, spread.next_u64() | 1] }
    }

    /// Folds in the TLV of one component. It contains its length, so the padding is unambiguous.
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

    /// The last step: a prefix's hash must not reveal the state from which longer names continue.
    #[inline]
    fn finish(&self, state: u64) -> u64 {
        fold(state ^ self.key[1], self.key[0])
    }

    /// Hash of a whole name.
    #[inline]
    pub(crate) fn hash(&self, name: NameRef<'_>) -> u64 {
        let mut hash = self.finish(self.start);
        self.walk(name, |_, of_prefix| hash = of_prefix);
        hash
    }

    /// Hashes of the prefixes of 0, 1, … components.
    #[inline]
    pub(crate) fn hash_prefixes(&self, name: NameRef<'_>, hashes: &mut NameHashes) {
        hashes.whole = self.finish(self.start);
        hashes.of_prefix[0] = hashes.whole;
        hashes.len = name.len();
        self.walk(name, |n, hash| {
            if let Some(place) = hashes.of_prefix.get_mut(n) {
                *place = hash;
            }
            hashes.whole = hash;
        });
    }

    /// Calls `each` with the number of components and the hash of every prefix but the empty one.
    #[inline]
    pub(crate) fn walk(&self, name: NameRef<'_>, mut each: impl FnMut(usize, u64)) {
        let value = name.value();
        let mut components = name.iter();
        let (mut state, mut start, mut n) = (self.start, 0, 0);
        while let Some(component) = components.next() {
            let end = components.position();
            let parent = state;
            state = self.absorb(state, &value[start..end]);
            start = end;
            n += 1;
            let is_digest = component.typ() == types::IMPLICIT_SHA256_DIGEST;
            each(n, self.finish(if is_digest { parent } else { state }));
        }
    }

    /// A hash of a name (by its hash) and a nonce.
    #[inline]
    pub(crate) fn with_nonce(&self, name_hash: u64, nonce: [u8; 4]) -> u64 {
        fold(name_hash ^ self.key[1], u64::from(u32::from_le_bytes(nonce)) ^ self.start)
    }
}

/// Spreads an internal number over 64 bits.
#[inline]
pub(crate) fn spread(number: u64) -> u64 {
    fold(number ^ 0xD6E8_FEB8_6659_FD93, 0x9E37_79B9_7F4A_7C15)
}

/// Up to 8 bytes as a number, padded with zeros.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    if let Ok(whole) = <[u8; 8]>::try_from(bytes) {
        return u64::from_le_bytes(whole);
    }
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(padded)
}

/// Whether an Interest's name ends with an implicit digest.
pub(crate) fn ends_with_digest(name: NameRef<'_>) -> bool {
    // The length is cheap to check: a digest component has 34 bytes.
    name.value().len() >= 34
        && name.last().is_some_and(|last| last.typ() == types::IMPLICIT_SHA256_DIGEST)
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
        let mut hashes = NameHashes::default();
        hasher.hash_prefixes(name.as_ref(), &mut hashes);
        for n in 0..=name.len() {
            assert_eq!(hashes.of(n), Some(hasher.hash(name.prefix(n))), "{n} components");
        }
        assert_eq!(hashes.of(name.len() + 1), None);
        assert_eq!(hashes.of(name.len()), Some(hashes.whole()));
        let long = Name::from_uri(&"/x".repeat(200)).unwrap();
        hasher.hash_prefixes(long.as_ref(), &mut hashes);
        assert_eq!(hashes.whole(), hasher.hash(long.as_ref()));
        assert_eq!(hashes.of(64), Some(hasher.hash(long.prefix(64))));
        assert_eq!((hashes.of(65), hashes.len()), (None, 200));
    }

    #[test]
    fn an_implicit_digest_does_not_change_the_hash() {
        let hasher = NameHasher::new(7);
        let name = Name::from_uri("/a/b").unwrap();
        let full = name.child(Component::implicit_digest(&[7; 32]));
        assert_eq!(hasher.hash(name.as_ref()), hasher.hash(full.as_ref()));
        let more = full.child(Component::generic(b"c"));
        let without = name.child(Component::generic(b"c"));
        assert_ne!(hasher.hash(more.as_ref()), hasher.hash(without.as_ref()));
    }

    #[test]
    fn many_similar_names_do_not_collide() {
        let hasher = NameHasher::new(7);
        let prefix = Name::from_uri("/xylem/0123456789abcdef/file").unwrap();
        let hashes: HashSet<u64> = (0..100_000)
            .map(|n| hasher.hash(prefix.child(Component::segment(n)).as_ref()))
            .collect();
        assert_eq!(hashes.len(), 100_000);
        // The table takes the bucket from the lower bits; the upper bits have to be spread as well.
        let tops: HashSet<u64> = hashes.iter().map(|h| h >> 57).collect();
        assert_eq!(tops.len(), 128);
    }

    #[test]
    fn the_hash_depends_on_the_seed() {
        let name = Name::from_uri("/a").unwrap();
        assert_ne!(NameHasher::new(1).hash(name.as_ref()), NameHasher::new(2).hash(name.as_ref()));
    }
}
