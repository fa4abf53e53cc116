//! [`port_of`]: where a seed listens.

use xylem_hash::{Hash, Hasher};

/// Ports of seeds: above those that services are known by, below those that systems draw from.
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 12_000;

/// The port at which this identity serves what has this root: the same in each run without being
/// written down, outside of the ranges that systems draw from, and saying nothing to who lacks the key.
#[must_use]
pub fn port_of(secret: &[u8; 32], root: &Hash) -> u16 {
    let mut hasher = Hasher::new_keyed(secret);
    hasher.update(b"xylem seed port");
    hasher.update(root.as_bytes());
    let hash = hasher.finalize();
    let [a, b, ..] = *hash.as_bytes();
    FIRST_PORT + u16::from_be_bytes([a, b]) % PORTS
}
