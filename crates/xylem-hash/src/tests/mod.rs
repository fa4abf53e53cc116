//! Compares every backend of this processor with the official vectors, a slow reference written here, and the `blake3`
//! crate.

mod api;
#[cfg(all(unix, feature = "mmap", not(miri)))]
mod bounds;
mod differential;
mod kernels;
#[cfg(feature = "rayon")]
mod parallel;
mod reference;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
mod secrets;
#[cfg(feature = "sha256")]
mod sha256;
mod snapshots;
mod trees;
mod vectors;

use crate::backend::Backend;
use crate::hazmat;
use crate::subtree::Mode;
use proptest::prelude::*;
use reference::Use;
use xylem_sim::noise;

const CONTEXT: &str = "xylem 2026-01-01 tests of key derivation";

/// Each of the three hash modes, for the code under test and for the official crate.
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

    /// The key of this use, for modes that borrow one.
    fn key(self) -> [u8; 32] {
        match self {
            Self::Plain => [0; 32],
            Self::Keyed(key) => key,
            Self::DeriveKey(context) => hazmat::hash_derive_key_context(context),
        }
    }
}

fn uses() -> impl Strategy<Value = Use> {
    prop_oneof![
        Just(Use::Plain),
        any::<[u8; 32]>().prop_map(Use::Keyed),
        Just(Use::DeriveKey(CONTEXT))
    ]
}

/// `count` cases; a few under Miri, which takes some thousand times as long.
fn cases(count: u32) -> ProptestConfig {
    if cfg!(miri) {
        ProptestConfig { cases: 2, failure_persistence: None, ..ProptestConfig::default() }
    } else {
        ProptestConfig::with_cases(count)
    }
}

/// `len`, or a short length under Miri.
fn affordable(len: usize) -> usize {
    if cfg!(miri) { len % 2_600 } else { len }
}

/// `len` bytes that repeat with a period of 251, as in the official vectors.
fn pattern(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}
