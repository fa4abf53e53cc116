//! Every backend of this processor against the official vectors, a slow reference written here,
//! and the `blake3` crate.

mod api;
mod differential;
mod kernels;
mod reference;
mod trees;
mod vectors;

use crate::backend::Backend;
use crate::subtree::Mode;

/// The three ways of hashing, with the official crate's and the reference's counterpart.
#[derive(Clone, Copy, Debug)]
enum Use {
    Plain,
    Keyed([u8; 32]),
    DeriveKey(&'static str),
}

const CONTEXT: &str = "xylem 2026-01-01 tests of key derivation";

impl Use {
    fn mode(self, backend: Backend) -> Mode {
        match self {
            Self::Plain => Mode::plain(),
            Self::Keyed(key) => Mode::keyed(&key),
            Self::DeriveKey(context) => Mode::derive_key(backend, context),
        }
    }

    fn official(self) -> blake3::Hasher {
        match self {
            Self::Plain => blake3::Hasher::new(),
            Self::Keyed(key) => blake3::Hasher::new_keyed(&key),
            Self::DeriveKey(context) => blake3::Hasher::new_derive_key(context),
        }
    }
}

/// `len` bytes that repeat with a period of 251, as in the official vectors.
fn pattern(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

/// `len` bytes that differ between any two places, from a small generator.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    };
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| next().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}
