//! [`Prekeys`]: the keys that cards offer. A new one every week, so that a stolen one opens only the
//! first messages of its time; an old one stays for as long as somebody may still write with a card
//! that names it.
//!
//! Saved as `version = 1 (1) | count (1) | count × (number (4) | made (8) | secret (32))`, the newest
//! first.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::time::Duration;

use xylem_link::StaticKey;
use zeroize::Zeroizing;

use crate::fields::Fields;

/// Age at which another takes a prekey's place on cards.
pub const ROTATE: Duration = Duration::from_secs(7 * 86_400);
/// Age at which its secret is forgotten: first messages to it can't be read any more.
pub const KEEP: Duration = Duration::from_secs(90 * 86_400);

const VERSION: u8 = 1;
/// More than [`KEEP`] over [`ROTATE`]; a clock that jumps makes no more of them.
const MOST: usize = 32;

/// One of them.
#[derive(Debug)]
pub struct Prekey {
    /// By which a first message says which one it means.
    pub number: u32,
    /// When it was made, in seconds since 1970.
    pub made: u64,
    pub(crate) key: StaticKey,
}

/// The current one and those that went before.
#[derive(Debug)]
pub struct Prekeys {
    /// Newest first, never empty.
    keys: Vec<Prekey>,
}

impl Prekeys {
    /// With a first one. `now`: seconds since 1970; `seed`: 32 random bytes.
    #[must_use]
    pub fn new(now: u64, seed: [u8; 32]) -> Self {
        Self { keys: vec![Prekey { number: 1, made: now, key: StaticKey::generate(seed) }] }
    }

    /// The one for cards.
    #[must_use]
    pub fn current(&self) -> &Prekey {
        &self.keys[0]
    }

    /// One that a first message names.
    #[must_use]
    pub fn find(&self, number: u32) -> Option<&Prekey> {
        self.keys.iter().find(|key| key.number == number)
    }

    /// Whether [`Prekeys::rotate`] has something to do.
    #[must_use]
    pub fn is_due(&self, now: u64) -> bool {
        let age = |key: &Prekey| now.saturating_sub(key.made);
        age(self.current()) >= ROTATE.as_secs()
            || self.keys.iter().any(|key| age(key) >= KEEP.as_secs())
    }

    /// Makes a new one if it is time, and forgets those that are too old. `seed`: 32 random bytes.
    pub fn rotate(&mut self, now: u64, seed: [u8; 32]) {
        let age = |key: &Prekey| now.saturating_sub(key.made);
        if age(self.current()) >= ROTATE.as_secs() {
            let number = self.current().number.wrapping_add(1);
            self.keys.insert(0, Prekey { number, made: now, key: StaticKey::generate(seed) });
        }
        self.keys.retain(|key| age(key) < KEEP.as_secs());
        self.keys.truncate(MOST);
    }

    /// All of them, secret; wiped when dropped.
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

    /// Takes back what [`Prekeys::save`] gave; `None` for anything else.
    #[must_use]
    pub fn restore(saved: &[u8]) -> Option<Self> {
        let mut fields = Fields(saved);
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
    fn keys_are_exchanged_kept_and_forgotten() {
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
        // A clock that jumps makes no more than there may be.
        (0..100).for_each(|n| keys.rotate(now + n, [9; 32]));
        assert!(keys.save().len() <= 2 + MOST * 44);
    }
}
