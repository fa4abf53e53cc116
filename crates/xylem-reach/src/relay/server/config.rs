//! [`RelayConfig`]: a relay's limits; [`RelayCounters`]: its counters.

use core::time::Duration;

use crate::relay::rate::Allowance;
use crate::relay::wire::RelayRefusal;

/// Bytes of memory that one registration and one pair may take, together: an idle one takes less (docs/benchmarks.md).
const BYTES_OF_CLIENT: usize = 1_536;
/// Memory of a relay's clients, if nothing else is set.
const USUAL_MEMORY: usize = 256 << 20;
/// Fewest clients, however little memory there is.
const FEWEST: usize = 64;

const HOUR: Duration = Duration::from_secs(3_600);

/// A relay's limits. A host is an IPv4 address or the first 64 bits of an IPv6 address. A site is the first 24 bits of
/// an IPv4 address or the first 48 of an IPv6 address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelayConfig {
    /// Maximum number of registrations. Past it, the oldest of the site with most is removed.
    pub registrations: usize,
    /// Maximum registrations per link key. Past it, the oldest is removed.
    pub registrations_of_key: usize,
    /// Maximum registrations per host. Further ones are refused.
    pub registrations_of_host: usize,
    /// Maximum registrations per site. Past it, the oldest is removed.
    pub registrations_of_site: usize,
    /// Maximum number of circuits (connected pairs). Past it, the oldest of the site that requested most is removed.
    pub circuits: usize,
    /// Maximum circuits that one registration has requested. Past it, the one idle for longest is removed.
    pub circuits_asked: usize,
    /// Maximum circuits with one registration as their target. Past it, the one idle for longest is removed, among
    /// those of the host that has most.
    pub circuits_reached: usize,
    /// Registrations per host and second, with a burst of ten seconds' worth. `None`: no limit.
    pub registrations_per_second: Option<u64>,
    /// Circuit requests per host and second, with a burst of ten seconds' worth. `None`: no limit.
    pub connects_per_second: Option<u64>,
    /// Bytes per registration and second, in both directions together, with a burst of two seconds' worth. `None`: no
    /// limit.
    pub bytes_per_second_of_key: Option<u64>,
    /// Bytes sent per host and second, with a burst of two seconds' worth. `None`: no limit.
    pub bytes_per_second_of_host: Option<u64>,
    /// Bytes forwarded per second, for all together, with a burst of a tenth of it. Sites divide it equally, as far as each
    /// uses its part, and the pairs of a site divide its part. What exceeds a part is dropped. `None`: no limit.
    pub bytes_per_second: Option<u64>,
    /// Bytes forwarded in an hour, for all together. What exceeds it is dropped until the hour is over. `None`: no limit.
    pub bytes_per_hour: Option<u64>,
    /// Lifetime of a registration after its last keep-alive, at most 65,535 s.
    pub lifetime: Duration,
    /// Port number of the relay's second port.
    pub second_port: Option<u16>,
    /// Prefix of internal addresses that stand for carrier connections. They are never reported.
    pub hidden: Option<[u8; 6]>,
}

impl Default for RelayConfig {
    /// The limits of a public relay.
    fn default() -> Self {
        Self {
            registrations: USUAL_MEMORY / BYTES_OF_CLIENT,
            registrations_of_key: 16,
            registrations_of_host: 256,
            registrations_of_site: 1_024,
            circuits: USUAL_MEMORY / BYTES_OF_CLIENT,
            circuits_asked: 64,
            circuits_reached: 512,
            registrations_per_second: Some(8),
            connects_per_second: Some(16),
            bytes_per_second_of_key: None,
            bytes_per_second_of_host: None,
            bytes_per_second: Some(125_000_000),
            bytes_per_hour: None,
            lifetime: Duration::from_secs(120),
            second_port: None,
            hidden: None,
        }
    }
}

impl RelayConfig {
    /// The limits of a node that introduces its peers to each other besides its main task. They suffice for handshakes
    /// and the exchange of addresses, not for content.
    #[must_use]
    pub fn introducing() -> Self {
        Self {
            registrations: 512,
            registrations_of_key: 4,
            registrations_of_host: 32,
            registrations_of_site: 64,
            circuits: 1_024,
            circuits_asked: 32,
            circuits_reached: 32,
            registrations_per_second: Some(2),
            connects_per_second: Some(4),
            bytes_per_second_of_key: Some(16 << 10),
            bytes_per_second_of_host: Some(64 << 10),
            ..Self::default()
        }
    }

    /// Limits registrations and pairs to what takes this much memory in bytes.
    pub fn set_memory(&mut self, bytes: usize) {
        self.registrations = (bytes / BYTES_OF_CLIENT).max(FEWEST);
        self.circuits = self.registrations;
    }

    /// Limits the bytes of strangers, where nothing limits them yet: 512 KB/s of a registration, 1 MB/s of a host, 10 GB an
    /// hour in all.
    pub fn for_strangers(&mut self) {
        self.bytes_per_second_of_key.get_or_insert(512_000);
        self.bytes_per_second_of_host.get_or_insert(1_000_000);
        self.bytes_per_hour.get_or_insert(10_000_000_000);
    }

    /// Whether more may be forwarded in this hour: when it began, and its bytes so far. A new one begins when it is over.
    pub(super) fn has_room_in_hour(&self, now: Duration, hour: &mut (Duration, u64)) -> bool {
        if now >= hour.0.saturating_add(HOUR) {
            *hour = (now, 0);
        }
        self.bytes_per_hour.is_none_or(|most| hour.1 < most)
    }

    pub(super) fn registering(&self) -> Option<Allowance> {
        allowance(self.registrations_per_second, 10)
    }

    pub(super) fn connecting(&self) -> Option<Allowance> {
        allowance(self.connects_per_second, 10)
    }

    pub(super) fn bytes_of_key(&self) -> Option<Allowance> {
        allowance(self.bytes_per_second_of_key, 2)
    }

    pub(super) fn bytes_of_host(&self) -> Option<Allowance> {
        allowance(self.bytes_per_second_of_host, 2)
    }
}

fn allowance(per_second: Option<u64>, seconds: u64) -> Option<Allowance> {
    per_second.map(|per_second| Allowance { per_second, burst: Duration::from_secs(seconds) })
}

/// A relay's counters and current sizes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct RelayCounters {
    /// Current registrations.
    pub registrations: usize,
    /// Current circuits.
    pub circuits: usize,
    /// Registrations added since the start.
    pub registered: u64,
    /// Circuits requested with success since the start.
    pub connected: u64,
    /// Registrations that expired.
    pub expired: u64,
    /// Registrations removed to make room.
    pub crowded_out: u64,
    /// Requests refused because the target is not registered.
    pub refused_not_here: u64,
    /// Requests refused because a limit was reached.
    pub refused_quota: u64,
    /// Requests refused because the publisher does not vouch for the key, or because the secret is another's.
    pub refused_lies: u64,
    /// Requests refused because the host is banned for earlier offences.
    pub refused_banned: u64,
    /// Requests refused because the relay is about to end.
    pub refused_ending: u64,
    /// Requests refused because the relay serves only listed keys and clients with its token.
    pub refused_not_allowed: u64,
    /// Offences: false vouches and protocol errors.
    pub offences: u64,
    /// Keep-alives that were answered.
    pub keeps: u64,
    /// Keep-alives that were invalid or repeated.
    pub refused_keeps: u64,
    /// Datagrams forwarded.
    pub datagrams: u64,
    /// Bytes of the datagrams forwarded.
    pub bytes: u64,
    /// Datagrams dropped, because a limit was reached or there was no circuit.
    pub dropped: u64,
    /// Datagrams dropped, because the relay is full and the pair or its site has had its part. They count in `dropped` as
    /// well.
    pub over_share: u64,
    /// Datagrams dropped, because the bytes of the hour are used up. They count in `dropped` as well.
    pub over_hour: u64,
    /// Resets sent in answer to datagrams with unknown ids, as of clients from before a restart.
    pub resets: u64,
}

impl RelayCounters {
    pub(super) fn refused(&mut self, why: RelayRefusal) {
        let count = match why {
            RelayRefusal::NotHere => &mut self.refused_not_here,
            RelayRefusal::Quota => &mut self.refused_quota,
            RelayRefusal::NotVouched | RelayRefusal::Taken => &mut self.refused_lies,
            RelayRefusal::Ending => &mut self.refused_ending,
            RelayRefusal::NotAllowed => &mut self.refused_not_allowed,
            RelayRefusal::Banned => &mut self.refused_banned,
        };
        *count = count.saturating_add(1);
    }

    /// Each counter with its name, for export.
    #[must_use]
    pub fn each(&self) -> [(&'static str, u64); 21] {
        let count = |of: usize| u64::try_from(of).unwrap_or(u64::MAX);
        [
            ("registrations", count(self.registrations)),
            ("circuits", count(self.circuits)),
            ("registered", self.registered),
            ("connected", self.connected),
            ("expired", self.expired),
            ("crowded_out", self.crowded_out),
            ("refused_not_here", self.refused_not_here),
            ("refused_quota", self.refused_quota),
            ("refused_lies", self.refused_lies),
            ("refused_banned", self.refused_banned),
            ("refused_ending", self.refused_ending),
            ("refused_not_allowed", self.refused_not_allowed),
            ("offences", self.offences),
            ("keeps", self.keeps),
            ("refused_keeps", self.refused_keeps),
            ("datagrams", self.datagrams),
            ("bytes", self.bytes),
            ("dropped", self.dropped),
            ("over_share", self.over_share),
            ("over_hour", self.over_hour),
            ("resets", self.resets),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_bounds_registrations_and_pairs() {
        let mut limits = RelayConfig::default();
        assert_eq!((limits.registrations, limits.circuits), (174_762, 174_762));
        limits.set_memory(1_536_000_000);
        assert_eq!((limits.registrations, limits.circuits), (1_000_000, 1_000_000));
        limits.set_memory(0);
        assert_eq!(limits.registrations, FEWEST);
    }

    #[test]
    fn the_bytes_of_an_hour_are_limited_and_then_begin_anew() {
        let mut limits = RelayConfig::default();
        let mut hour = (Duration::ZERO, u64::MAX);
        assert!(limits.has_room_in_hour(Duration::ZERO, &mut hour), "no limit");
        limits.for_strangers();
        assert!(!limits.has_room_in_hour(HOUR - Duration::from_millis(1), &mut hour));
        assert!(limits.has_room_in_hour(HOUR, &mut hour));
        assert_eq!(hour, (HOUR, 0));
        hour.1 = 10_000_000_000;
        assert!(!limits.has_room_in_hour(HOUR * 2 - Duration::from_millis(1), &mut hour));
        // What the settings have stays.
        let mut limits = RelayConfig { bytes_per_hour: Some(5), ..RelayConfig::default() };
        limits.for_strangers();
        assert_eq!(limits.bytes_per_hour, Some(5));
    }
}
