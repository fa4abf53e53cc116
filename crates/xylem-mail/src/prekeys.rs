//! [`Prekeys`]: the prekeys that cards offer. There is a new one every week, so that a stolen one opens only the first
//! messages of its time. An old one is kept while cards that name it may still be used.
//!
//! Saved as `version = 1 (1) | count (1) | count × (number (4) | made (8) | secret (32))`, the newest first.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::time::Duration;

use xylem_link::StaticKey;
use zeroize::Zeroizing;

use crate::fields::FieldReader;

/// Age at which a prekey is replaced on cards.
pub const ROTATE: Duration = Duration::from_secs(7 * 86_400);
/// Age at which a prekey's secret is forgotten: first messages to it can no longer be read.
pub const KEEP: Duration = Duration::from_secs(90 * 86_400);

const VERSION: u8 = 1;
/// Most prekeys: more than [`KEEP`] over [`ROTATE`]. It bounds them when a clock jumps.
const MOST: usize = 32;

/// One prekey.
#[derive(Debug)]
pub struct Prekey {
    /// Number by which first messages name the prekey.
    pub number: u32,
    /// When it was made, in seconds since 1970.
    pub made: u64,
    pub(crate) key: StaticKey,
}

/// The current prekey and earlier ones.
#[derive(Debug)]
pub struct Prekeys {
    /// Newest first, never empty.
    keys: Vec<Prekey>,
}

impl Prekeys {
    /// Makes the first prekey. `now` is in seconds since 1970; `seed` is 32 random bytes.
    #[must_use]
    pub fn new(now: u64, seed: [u8; 32]) -> Self {
        Self { keys: vec![Prekey { number: 1, made: now, key: StaticKey::generate(seed) }] }
    }

    /// Returns the prekey for new cards.
    #[must_use]
    pub fn current(&self) -> &Prekey {
        &self.keys[0]
    }

    /// Finds the prekey that a first message names.
    #[must_use]
    pub fn find(&self, number: u32) -> Option<&Prekey> {
        self.keys.iter().find(|key| key.number == number)
    }

    /// Returns whether [`Prekeys::rotate`] has something to do.
    #[must_use]
    pub fn is_due(&self, now: u64) -> bool {
        let age = |key: &Prekey| now.saturating_sub(key.made);
        age(self.current()) >= ROTATE.as_secs()
            || self.keys.iter().any(|key| age(key) >= KEEP.as_secs())
    }

    /// Makes a new prekey if it is time, and forgets those that are too old. `seed` is 32 random bytes.
    pub fn rotate(&mut self, now: u64, seed: [u8; 32]) {
        let age = |key: &Prekey| now.saturating_sub(key.made);
        if age(self.current()) >= ROTATE.as_secs() {
            let number = self.current().number.wrapping_add(1);
            self.keys.insert(0, Prekey { number, made: now, key: StaticKey::generate(seed) });
        }
        self.keys.retain(|key| age(key) < KEEP.as_secs());
        self.keys.truncate(MOST);
    }

    /// Encodes all prekeys with their secrets; wiped when dropped.
    #[must_use]
    pub fn save(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(2 + 44 * MOST));
        out.extend_from_slice(&[VERSION, u8::try_from(self.keys.len()).expect("32 at most")]);
        for key in &self.keys {
            out.extend_from_slice(&key.number.to_be_bytes());
            out.extend_from_slice(&key.made.to_be_bytes());
            out.extend_from_slice(&Zeroizing::new(key.key.to_bytes())[..]);
        }
        out
    }

    /// Parses what [`Prekeys::save`] made; `None` for anything else.
    #[must_use]
    pub fn restore(saved: &[u8]) -> Option<Self> {
        let mut fields = FieldReader(saved);
        let [version, count] = fields.array()?;
        let mut keys = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let (number, made) = (fields.u32()?, fields.u64()?);
            keys.push(Prekey { number, made, key: StaticKey::from_bytes(fields.array()?) });
        }
        let right = version == VERSION && (1..=MOST).contains(&keys.len()) && fields.0.is_empty();
        right.then_some(Self { keys })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prekeys_are_replaced_kept_and_forgotten() {
        let mut keys = Prekeys::new(0, [1; 32]);
        let (week, mut now) = (ROTATE.as_secs(), 0);
        assert!(!keys.is_due(week - 1));
        for n in 0..30u8 {
            now += week;
            assert!(keys.is_due(now));
            keys.rotate(now, [n + 2; 32]);
            assert!(!keys.is_due(now));
            assert_eq!(keys.current().number, u32::from(n) + 2);
            let restored = Prekeys::restore(&keys.save()).unwrap();
            assert_eq!(*restored.save(), *keys.save());
        }
        assert!(keys.find(30 - 11).is_some() && keys.find(30 - 12).is_none(), "{keys:?}");
        let saved = keys.save();
        assert!((0..saved.len()).all(|len| Prekeys::restore(&saved[..len]).is_none()));
        // A clock that jumps does not exceed the limit.
        (0..100).for_each(|n| keys.rotate(now + n, [9; 32]));
        assert!(keys.save().len() <= 2 + MOST * 44);
    }
}
