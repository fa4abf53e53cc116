//! The forwarder's limits.

use core::time::Duration;

/// The forwarder's limits. All are ours; the protocol sets none.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Pending Interests; one more is dropped. At most 2^31.
    pub pit_capacity: usize,
    /// Bytes of cached Data; 0 means no content store.
    pub cs_capacity_bytes: usize,
    /// Routes at one time, counting each next hop.
    pub max_routes: usize,
    /// Longer Interest lifetimes are cut to this.
    pub max_lifetime: Duration,
    /// How long the nonce of an Interest that was forwarded and is no longer pending is known.
    pub dead_nonce_lifetime: Duration,
    /// How many such nonces are known at most; rounded up to a power of two.
    pub dead_nonces: usize,
    /// Random, secret: keys the hash of names, so that nobody can choose names that collide, and
    /// makes nonces for Interests that lack one.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            pit_capacity: 65_536,
            cs_capacity_bytes: 0,
            max_routes: 65_536,
            max_lifetime: Duration::from_secs(60),
            dead_nonce_lifetime: Duration::from_secs(6),
            dead_nonces: 65_536,
            seed: 0,
        }
    }
}
