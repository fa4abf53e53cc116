//! Random octets derived from one seed: each call of a state machine is given 32 random octets.

use zeroize::Zeroizing;

/// BLAKE3 `derive_key` context; docs/spec/kdf.md.
const CONTEXT: &str = "xylem-ndncert v1 chance";

/// The source of random octets for one step.
pub(crate) struct SeededOctets {
    seed: Zeroizing<[u8; 32]>,
    taken: u64,
}

impl SeededOctets {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        SeededOctets { seed: Zeroizing::new(seed), taken: 0 }
    }

    pub(crate) fn take<const N: usize>(&mut self) -> [u8; N] {
        const { assert!(N <= 32) };
        let mut hasher = xylem_hash::Hasher::new_derive_key(CONTEXT);
        hasher.update(&self.seed[..]).update(&self.taken.to_be_bytes());
        self.taken = self.taken.wrapping_add(1);
        let mut out = [0; N];
        out.copy_from_slice(&hasher.finalize().as_bytes()[..N]);
        out
    }
}
