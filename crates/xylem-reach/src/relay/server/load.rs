//! [`RelayLoad`]: what a relay does now, by client and by site; [`RelayBans`]: whom its operator keeps away.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;
use core::time::Duration;
use std::collections::{BTreeSet, HashSet};

use super::RelayCounters;
use super::registrations::RegistrationSlot;

/// Most bans of a relay.
pub const MAX_BANS: usize = 4_096;

/// What a relay does now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RelayLoad {
    /// Its counters.
    pub counters: RelayCounters,
    /// Bytes forwarded in the last whole second.
    pub bytes_per_second: u64,
    /// The sites with most bytes in that second, and then with most registrations.
    pub sites: Vec<SiteLoad>,
    /// The clients with most bytes in that second; idle ones are left out.
    pub clients: Vec<ClientLoad>,
}

/// A site's part of a [`RelayLoad`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SiteLoad {
    /// Its first address.
    pub site: IpAddr,
    /// Its registrations.
    pub registrations: usize,
    /// Bytes from and to them in the last whole second.
    pub bytes_per_second: u64,
}

/// A client's part of a [`RelayLoad`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientLoad {
    /// Its link key.
    pub key: [u8; 32],
    /// Its host.
    pub host: IpAddr,
    /// Its pairs.
    pub circuits: usize,
    /// Bytes from and to it in the last whole second.
    pub bytes_per_second: u64,
}

/// Bytes of this second and of the last, in bytes up to 4 GiB.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct RecentBytes {
    second: u32,
    now: u32,
    last: u32,
}

impl RecentBytes {
    /// Counts bytes in this second; returns whether they are its first.
    pub(super) fn count(&mut self, second: u32, much: u64) -> bool {
        let is_first = self.second != second || self.now == 0;
        if self.second != second {
            let follows = self.second.wrapping_add(1) == second;
            self.last = if follows { self.now } else { 0 };
            (self.second, self.now) = (second, 0);
        }
        self.now = self.now.saturating_add(u32::try_from(much).unwrap_or(u32::MAX));
        is_first
    }

    /// The bytes of the second before this one.
    pub(super) fn of_last(self, second: u32) -> u64 {
        if self.second == second {
            self.last.into()
        } else if self.second.wrapping_add(1) == second {
            self.now.into()
        } else {
            0
        }
    }
}

/// The second of a time, for [`RecentBytes`].
pub(super) fn second(now: Duration) -> u32 {
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX)
}

/// The registrations with bytes in this second and in the last: each is listed once a second, so the lists are bounded
/// by the registrations.
#[derive(Default, Debug)]
pub(super) struct ActiveClients {
    second: u32,
    now: Vec<RegistrationSlot>,
    last: Vec<RegistrationSlot>,
}

impl ActiveClients {
    pub(super) fn add(&mut self, second: u32, slot: RegistrationSlot) {
        self.turn(second);
        self.now.push(slot);
    }

    /// Those with bytes in the second before this one.
    pub(super) fn of_last(&mut self, second: u32) -> &[RegistrationSlot] {
        self.turn(second);
        &self.last
    }

    fn turn(&mut self, second: u32) {
        if self.second != second {
            let follows = self.second.wrapping_add(1) == second;
            self.last = core::mem::take(&mut self.now);
            if !follows {
                self.last.clear();
            }
            self.second = second;
        }
    }
}

/// A client or a network that a relay's operator keeps away.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RelayBan {
    /// The client with this link key.
    Key([u8; 32]),
    /// The hosts whose addresses begin with these bits.
    Network(IpAddr, u8),
}

/// Why a text is no [`RelayBan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a link key of 64 hexadecimal digits, an address, or a network such as 192.0.2.0/24")]
pub struct RelayBanError;

impl RelayBan {
    fn network(ip: IpAddr, bits: u8) -> Option<Self> {
        let ip = ip.to_canonical();
        let most = if ip.is_ipv4() { 32 } else { 128 };
        (bits <= most).then(|| Self::Network(begin(ip, bits), bits))
    }

    /// Whether it keeps away the client with this link key at this host.
    pub(super) fn is_of(&self, key: &[u8; 32], host: IpAddr) -> bool {
        match self {
            Self::Key(banned) => banned == key,
            Self::Network(network, bits) => {
                let host = host.to_canonical();
                host.is_ipv4() == network.is_ipv4() && begin(host, *bits) == *network
            }
        }
    }
}

/// The first bits of an address, the others 0.
fn begin(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(u32::from(32_u8.saturating_sub(bits))).unwrap_or(0);
            IpAddr::V4((ip.to_bits() & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(u32::from(128_u8.saturating_sub(bits))).unwrap_or(0);
            IpAddr::V6((ip.to_bits() & mask).into())
        }
    }
}

impl FromStr for RelayBan {
    type Err = RelayBanError;

    fn from_str(text: &str) -> Result<Self, RelayBanError> {
        if let Ok(key) = text.parse::<xylem_object::PublisherId>() {
            return Ok(Self::Key(key.0));
        }
        let (ip, bits) = match text.split_once('/') {
            Some((ip, bits)) => (ip, Some(bits.parse::<u8>().map_err(|_| RelayBanError)?)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().map_err(|_| RelayBanError)?;
        let whole = if ip.to_canonical().is_ipv4() { 32 } else { 128 };
        Self::network(ip, bits.unwrap_or(whole)).ok_or(RelayBanError)
    }
}

impl fmt::Display for RelayBan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => key.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::Network(ip @ IpAddr::V4(_), 32) | Self::Network(ip @ IpAddr::V6(_), 128) => {
                ip.fmt(f)
            }
            Self::Network(ip, bits) => write!(f, "{ip}/{bits}"),
        }
    }
}

/// The bans in force.
#[derive(Default, Debug)]
pub(super) struct RelayBans {
    keys: HashSet<[u8; 32]>,
    networks: BTreeSet<RelayBan>,
}

impl RelayBans {
    /// Adds one, unless there are [`MAX_BANS`].
    pub(super) fn add(&mut self, ban: RelayBan) -> bool {
        let has_room = self.keys.len().saturating_add(self.networks.len()) < MAX_BANS;
        if has_room {
            match ban {
                RelayBan::Key(key) => self.keys.insert(key),
                RelayBan::Network(..) => self.networks.insert(ban),
            };
        }
        has_room
    }

    /// Removes one; returns whether it was there.
    pub(super) fn remove(&mut self, ban: &RelayBan) -> bool {
        match ban {
            RelayBan::Key(key) => self.keys.remove(key),
            RelayBan::Network(..) => self.networks.remove(ban),
        }
    }

    pub(super) fn has(&self, key: &[u8; 32], host: IpAddr) -> bool {
        self.keys.contains(key) || self.networks.iter().any(|ban| ban.is_of(key, host))
    }

    /// All, in order.
    pub(super) fn all(&self) -> Vec<RelayBan> {
        let mut keys: Vec<RelayBan> = self.keys.iter().copied().map(RelayBan::Key).collect();
        keys.sort_unstable();
        keys.extend(&self.networks);
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ban(text: &str) -> RelayBan {
        text.parse().expect(text)
    }

    #[test]
    fn bans_are_written_as_they_are_read() {
        let key = "a5".repeat(32);
        for (text, shown) in [
            (key.as_str(), key.as_str()),
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7/24", "192.0.2.0/24"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8::7/48", "2001:db8::/48"),
            ("2001:db8::7", "2001:db8::7"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(ban(text).to_string(), shown);
            assert_eq!(ban(shown), ban(text));
        }
        for text in ["", "a5", "192.0.2.0/33", "::1/129", "192.0.2.0/", "r.example", "/24"] {
            assert_eq!(text.parse::<RelayBan>(), Err(RelayBanError), "{text}");
        }
    }

    #[test]
    fn a_ban_holds_for_its_key_and_its_network_alone() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut bans = RelayBans::default();
        assert!(bans.add(RelayBan::Key([1; 32])) && bans.add(ban("192.0.2.0/24")));
        assert!(bans.has(&[1; 32], ip("198.51.100.1")));
        assert!(bans.has(&[2; 32], ip("192.0.2.200")));
        assert!(bans.has(&[2; 32], ip("::ffff:192.0.2.200")));
        assert!(!bans.has(&[2; 32], ip("192.0.3.1")));
        assert!(!bans.has(&[2; 32], ip("2001:db8::1")));
        assert_eq!(bans.all().len(), 2);
        assert!(bans.remove(&ban("192.0.2.0/24")) && !bans.remove(&ban("192.0.2.0/24")));
        assert!(!bans.has(&[2; 32], ip("192.0.2.200")));
        for i in 0..u32::try_from(2 * MAX_BANS).unwrap() {
            bans.add(RelayBan::Network(IpAddr::V4(i.into()), 32));
        }
        assert_eq!(bans.all().len(), MAX_BANS);
    }

    #[test]
    fn bytes_are_those_of_the_last_whole_second() {
        let mut recent = RecentBytes::default();
        assert!(recent.count(5, 10) && !recent.count(5, 10));
        assert_eq!((recent.of_last(5), recent.of_last(6), recent.of_last(7)), (0, 20, 0));
        assert!(recent.count(6, 1));
        assert_eq!((recent.of_last(6), recent.of_last(7)), (20, 1));
        assert!(recent.count(9, 1));
        assert_eq!(recent.of_last(9), 0);
    }
}
