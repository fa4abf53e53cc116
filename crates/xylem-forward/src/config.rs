//! The forwarder's limits, and its secret.

use core::fmt;
use core::time::Duration;

/// Secret random numbers of one forwarder: one keys the hash of names, so that nobody can choose
/// names that collide in its tables; from the other come nonces for Interests that lack one, and the
/// moments and faces that the ASF strategy probes. Nonces are public, and so must tell nothing of
/// the key.
///
/// It has no default and cannot be copied, so that no forwarder is made without one of its own:
///
/// ```compile_fail,E0061
/// use xylem_forward::{Config, Forwarder};
/// let forwarder = Forwarder::new(Config::default());
/// ```
pub struct Seed {
    pub(crate) hash_key: u64,
    pub(crate) nonces: u64,
}

impl Seed {
    /// From bytes of the system's generator of random numbers (a simulation may number them).
    pub const fn from_random(bytes: [u8; 16]) -> Self {
        let both = u128::from_le_bytes(bytes);
        Seed { hash_key: both as u64, nonces: (both >> 64) as u64 }
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// The forwarder's limits. All are ours; the protocol sets none.
///
/// Where the tables are arrays ([`crate::Fixed`]), their sizes are limits too, and the smaller ones
/// count.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Pending Interests; for one more the oldest of the face that has most goes out. As many records
    /// again of further faces that ask and are asked. At most 2^31 - 1.
    pub pit_capacity: usize,
    /// Bytes of names that do not lie in the PIT's entries (36 do); `None`: 256 an entry.
    pub pit_name_bytes: Option<usize>,
    /// Bytes of cached Data, book-keeping included; 0 means no content store.
    pub cs_capacity_bytes: usize,
    /// Cached Data packets.
    pub cs_capacity_packets: usize,
    /// Prefixes with routes; as many with a strategy.
    pub max_routes: usize,
    /// Next hops of one prefix.
    pub max_next_hops: usize,
    /// Longer Interest lifetimes are cut to this.
    pub max_lifetime: Duration,
    /// Packets a second of all faces together that may come to nothing before
    /// [`crate::Forwarder::rests_until`] says of any that it had better not be heard.
    pub useless_per_second: u32,
    /// How long the nonce of an Interest that was forwarded and is no longer pending is known.
    pub dead_nonce_lifetime: Duration,
    /// How many such nonces are known at most.
    pub dead_nonces: usize,
    /// For how many (prefix, face) the ASF strategy remembers how they did.
    pub measurements: usize,
    /// How often the ASF strategy tries another way for a prefix.
    pub probing_interval: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            pit_capacity: 65_536,
            pit_name_bytes: None,
            cs_capacity_bytes: 0,
            cs_capacity_packets: usize::MAX,
            max_routes: 65_536,
            max_next_hops: 256,
            max_lifetime: Duration::from_secs(60),
            useless_per_second: 10_000,
            dead_nonce_lifetime: Duration::from_secs(6),
            dead_nonces: 65_536,
            measurements: 4_096,
            probing_interval: Duration::from_secs(60),
        }
    }
}

impl Config {
    /// Of a program that serves or fetches: between it and its peers, not between peers. So it
    /// remembers only the last nonces, which the processor's caches hold, and keeps nothing waiting for longer than
    /// NDN's usual lifetime: what is waited for there is on this machine. It bears with twice as much that
    /// comes to nothing as a node does: what a node lets through must not have that node not heard.
    pub fn end_host() -> Self {
        Config {
            dead_nonces: 1_024,
            max_lifetime: Duration::from_secs(4),
            useless_per_second: 20_000,
            ..Config::default()
        }
    }
}
