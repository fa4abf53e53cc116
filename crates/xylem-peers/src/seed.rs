//! [`port_of`]: the port at which a seed listens.

use xylem_hash::{Hash, Hasher};

/// Range of seeds' ports: above well-known services, below the ports that systems assign at random.
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 12_000;

/// Returns the port at which this identity serves the content of this root. It is the same in each run without being
/// stored, lies outside of the range that systems assign from, and reveals nothing without the key.
#[must_use]
pub fn port_of(secret: &[u8; 32], root: &Hash) -> u16 {
    let mut hasher = Hasher::new_keyed(secret);
    hasher.update(b"xylem seed port");
    hasher.update(root.as_bytes());
    let hash = hasher.finalize();
    let [a, b, ..] = *hash.as_bytes();
    FIRST_PORT + u16::from_be_bytes([a, b]) % PORTS
}
