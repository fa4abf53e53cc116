//! The forwarder's limits, and its secret.

use core::fmt;
use core::num::NonZeroU8;
use core::time::Duration;

use crate::FaceScope;

/// Secret random numbers of one forwarder. One keys the hash of names, so that no sender can choose names that collide
/// in its tables. The other seeds the nonces of Interests that lack one, and the times and faces of the ASF strategy's
/// probes. Nonces are public, so they must not reveal the key.
///
/// It has no default and cannot be copied, so that each forwarder needs a seed of its own:
///
/// ```compile_fail,E0061
/// use xylem_forward::{ForwarderConfig, Forwarder};
/// let forwarder = Forwarder::new(ForwarderConfig::default());
/// ```
pub struct ForwarderSeed {
    pub(crate) hash_key: u64,
    pub(crate) nonces: u64,
}

impl ForwarderSeed {
    /// Makes a seed from bytes of the system's random number generator. A simulation may use fixed bytes.
    pub const fn from_random(bytes: [u8; 16]) -> Self {
        let both = u128::from_le_bytes(bytes);
        ForwarderSeed { hash_key: both as u64, nonces: (both >> 64) as u64 }
    }
}

impl fmt::Debug for ForwarderSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// Which Data for which no Interest is pending goes to the content store (NFD's policies of these names).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnsolicitedPolicy {
    /// None.
    #[default]
    DropAll,
    /// That of local faces: programs of this machine fill the store.
    AdmitLocal,
    /// That of other faces.
    AdmitNetwork,
    /// All.
    AdmitAll,
}

impl UnsolicitedPolicy {
    /// The policies and their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("drop-all", Self::DropAll),
        ("admit-local", Self::AdmitLocal),
        ("admit-network", Self::AdmitNetwork),
        ("admit-all", Self::AdmitAll),
    ];

    /// Whether it admits Data of a face of this scope.
    pub(crate) fn admits(self, scope: FaceScope) -> bool {
        match self {
            Self::DropAll => false,
            Self::AdmitLocal => scope == FaceScope::Local,
            Self::AdmitNetwork => scope == FaceScope::NonLocal,
            Self::AdmitAll => true,
        }
    }
}

/// The forwarder's limits. The protocol itself sets none.
///
/// If the tables are arrays ([`crate::Fixed`]), their sizes are limits too, and the smaller limit applies.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ForwarderConfig {
    /// Maximum number of pending Interests, at most 2^31 - 1. Past it, the oldest of the face with most is evicted. It
    /// also bounds the further records of each kind, downstream and upstream.
    pub pit_capacity: usize,
    /// Bytes for names beyond the 36 that each PIT entry holds; `None`: 256 per entry.
    pub pit_name_bytes: Option<usize>,
    /// Bytes of cached Data including overhead; 0 disables the content store.
    pub cs_capacity_bytes: usize,
    /// Maximum number of cached Data packets.
    pub cs_capacity_packets: usize,
    /// Maximum number of prefixes with routes, and of prefixes with a strategy.
    pub max_routes: usize,
    /// Maximum number of next hops of a prefix.
    pub max_next_hops: usize,
    /// Longer Interest lifetimes are cut to this.
    pub max_lifetime: Duration,
    /// Useless packets per second, of all faces together, above which [`crate::Forwarder::held_back_until`] holds back
    /// faces.
    pub useless_per_second: u32,
    /// How long the nonces of an Interest are remembered after it is no longer pending.
    pub dead_nonce_lifetime: Duration,
    /// Maximum number of such nonces.
    pub dead_nonces: usize,
    /// Number of pairs of prefix and face for which the ASF and access strategies keep measurements.
    pub measurements: usize,
    /// How often the ASF strategy probes another next hop of a prefix.
    pub probing_interval: Duration,
    /// What becomes of Data for which no Interest is pending.
    pub unsolicited: UnsolicitedPolicy,
    /// The HopLimit that Interests without one get as they are forwarded; `None`: they stay without.
    pub default_hop_limit: Option<NonZeroU8>,
}

impl Default for ForwarderConfig {
    fn default() -> Self {
        ForwarderConfig {
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
            unsolicited: UnsolicitedPolicy::default(),
            default_hop_limit: None,
        }
    }
}

impl ForwarderConfig {
    /// Limits for a program that serves or fetches. It stands between itself and its peers, not between peers. It
    /// therefore remembers only the last nonces, which fit into the processor's caches. It keeps nothing pending for
    /// longer than NDN's usual lifetime, because the waiting program is on this machine. It tolerates twice as many
    /// useless packets as a node, so that packets that a node lets through do not get that node held back.
    pub fn end_host() -> Self {
        ForwarderConfig {
            dead_nonces: 1_024,
            max_lifetime: Duration::from_secs(4),
            useless_per_second: 20_000,
            ..ForwarderConfig::default()
        }
    }
}
