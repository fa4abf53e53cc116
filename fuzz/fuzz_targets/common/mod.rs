//! Choices and long messages out of the fuzzer's bytes, for all targets of the hash.
#![allow(dead_code, reason = "each target uses some of it")]

/// Choices, taken from the front of the fuzzer's bytes; zeros when they run out.
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let (now, rest) = self.0.split_at(self.0.len().min(N));
        self.0 = rest;
        let mut bytes = [0; N];
        bytes[..now.len()].copy_from_slice(now);
        bytes
    }

    pub fn byte(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    /// A number less than `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        u32::from_le_bytes(self.bytes()) as usize % limit
    }

    /// A length: small and large ones are about equally frequent.
    pub fn len(&mut self) -> usize {
        match self.byte() % 4 {
            0 => self.below(130),
            1 => self.below(3_000),
            2 => 1_024 * (1 + self.below(20)),
            _ => self.below(40_000),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A message of all remaining bytes, repeated, so that few of them reach the deep levels of a tree: up to some 300
    /// KiB, with different neighbouring chunks.
    pub fn message(&mut self) -> Vec<u8> {
        let times = 1 + usize::from(self.byte());
        let seed = core::mem::take(&mut self.0);
        let len = (seed.len() * times).min(300_000);
        (0..len).map(|i| seed[i % seed.len()] ^ (i / 1_000) as u8).collect()
    }
}

/// One of the three hashes, for both crates.
pub enum Use {
    Plain,
    Keyed([u8; 32]),
    DeriveKey(String),
}

impl Use {
    pub fn choose(choices: &mut Choices) -> Self {
        match choices.byte() % 3 {
            0 => Self::Plain,
            1 => Self::Keyed(choices.bytes()),
            _ => Self::DeriveKey(String::from_utf8_lossy(&choices.bytes::<40>()).into_owned()),
        }
    }

    pub fn ours(&self) -> xylem_hash::Hasher {
        match self {
            Self::Plain => xylem_hash::Hasher::new(),
            Self::Keyed(key) => xylem_hash::Hasher::new_keyed(key),
            Self::DeriveKey(context) => xylem_hash::Hasher::new_derive_key(context),
        }
    }

    pub fn official(&self) -> blake3::Hasher {
        match self {
            Self::Plain => blake3::Hasher::new(),
            Self::Keyed(key) => blake3::Hasher::new_keyed(key),
            Self::DeriveKey(context) => blake3::Hasher::new_derive_key(context),
        }
    }
}
