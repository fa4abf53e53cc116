//! Random numbers from a seed: the derived keys of a counter.

const CONTEXT: &str = "xylem v1 random numbers of a DHT client";

#[derive(Debug)]
pub(crate) struct DhtRng {
    seed: [u8; 32],
    count: u64,
}

impl DhtRng {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self { seed, count: 0 }
    }

    /// The next `N` bytes, 32 at most.
    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        const { assert!(N <= 32) }
        let mut material = [0; 40];
        material[..32].copy_from_slice(&self.seed);
        material[32..].copy_from_slice(&self.count.to_be_bytes());
        self.count = self.count.saturating_add(1);
        let drawn = xylem_hash::derive_key(CONTEXT, &material);
        let mut array = [0; N];
        array.copy_from_slice(&drawn[..N]);
        array
    }
}
