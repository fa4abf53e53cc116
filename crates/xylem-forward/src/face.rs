//! Faces as the forwarder sees them: a number, settings, and counters.

use crate::exchange::{OutgoingPacket, Outlet};
use crate::slab::NONE;

/// Rate of useless packets tolerated per face: 200 a second. A normal consumer is refused now and then, when a peer
/// lacks a segment or a name is tried.
const USELESS_RATE: RateLimitParameters =
    RateLimitParameters { interval: 5_000, burst: 2_000_000, most: 8_000_000 };

/// Parameters of a rate limit, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateLimitParameters {
    /// Time between two events at the permitted rate.
    pub(crate) interval: u64,
    /// Burst that is permitted before the limit applies.
    pub(crate) burst: u64,
    /// Maximum debt beyond the burst; more is forgotten.
    pub(crate) most: u64,
}

/// The theoretical arrival time of the generic cell rate algorithm, in microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RateAccount(u64);

impl RateAccount {
    #[inline]
    pub(crate) fn note(&mut self, now: u64, rate: RateLimitParameters) {
        let most = now.saturating_add(rate.burst + rate.most);
        self.0 = self.0.max(now).saturating_add(rate.interval).min(most);
    }

    /// Takes back one noted event.
    #[inline]
    pub(crate) fn take_back(&mut self, rate: RateLimitParameters) {
        self.0 = self.0.saturating_sub(rate.interval);
    }

    /// The time until which the rate is exceeded; `None` if it is not.
    pub(crate) fn over_until(&self, now: u64, rate: RateLimitParameters) -> Option<u64> {
        Some(self.0.saturating_sub(rate.burst)).filter(|until| *until > now)
    }
}

/// A face's number. Numbers are not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaceId(pub u64);

impl core::fmt::Display for FaceId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "face {}", self.0)
    }
}

/// Where a face leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaceScope {
    /// To an application on this machine, which may use `/localhost` and choose next hops.
    Local,
    /// To another machine.
    NonLocal,
}

/// Which neighbours receive what is sent over a face.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkType {
    /// One neighbour.
    #[default]
    PointToPoint,
    /// Several neighbours that receive from each other. Nacks are not used.
    MultiAccess,
    /// Several neighbours, not all of which receive from each other. An Interest may leave over the face it arrived on.
    AdHoc,
}

/// Settings of a face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaceSettings {
    /// Where it leads.
    pub scope: FaceScope,
    /// Which neighbours receive what is sent.
    pub link_type: LinkType,
    /// Interests accepted per second, with bursts of one second's worth; more are dropped. `None`: no limit.
    pub interests_per_second: Option<u32>,
    /// Maximum number of its pending Interests; past it, its oldest is evicted. `None`: only the PIT's capacity limits
    /// it.
    pub pit_quota: Option<usize>,
}

impl From<FaceScope> for FaceSettings {
    /// A point-to-point face without limits.
    fn from(scope: FaceScope) -> Self {
        FaceSettings {
            scope,
            link_type: LinkType::PointToPoint,
            interests_per_second: None,
            pit_quota: None,
        }
    }
}

/// A face's counters. Bytes are those of bare packets, without link headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FaceCounters {
    /// Well-formed Interests received.
    pub in_interests: u64,
    /// Well-formed Data received.
    pub in_data: u64,
    /// Well-formed Nacks received.
    pub in_nacks: u64,
    /// Bytes received.
    pub in_bytes: u64,
    /// Packets received and dropped, for any [`crate::DropReason`].
    pub in_dropped: u64,
    /// Interests sent.
    pub out_interests: u64,
    /// Data sent.
    pub out_data: u64,
    /// Nacks sent.
    pub out_nacks: u64,
    /// Bytes sent.
    pub out_bytes: u64,
}

impl core::ops::AddAssign for FaceCounters {
    fn add_assign(&mut self, other: Self) {
        self.in_interests += other.in_interests;
        self.in_data += other.in_data;
        self.in_nacks += other.in_nacks;
        self.in_bytes += other.in_bytes;
        self.in_dropped += other.in_dropped;
        self.out_interests += other.out_interests;
        self.out_data += other.out_data;
        self.out_nacks += other.out_nacks;
        self.out_bytes += other.out_bytes;
    }
}

/// A face.
#[derive(Debug)]
pub struct FaceEntry {
    pub(crate) id: FaceId,
    pub(crate) settings: FaceSettings,
    pub(crate) counters: FaceCounters,
    /// The number of its pending Interests.
    pub(crate) pending: usize,
    /// Their cost (see `pit/askers.rs`), and the first and the last of their records.
    pub(crate) load: u64,
    pub(crate) oldest: u32,
    pub(crate) newest: u32,
    /// The theoretical arrival time of the rate limit, in nanoseconds (generic cell rate algorithm).
    arrival: u64,
    /// Useless packets from this face, less the Data sent to it.
    useless: RateAccount,
    /// The number of the last Data sent without a token; see `on_data`.
    pub(crate) served: u64,
    /// The number of its routes.
    pub(crate) routes: u32,
}

impl Default for FaceEntry {
    fn default() -> Self {
        FaceEntry::new(FaceId(0), FaceScope::NonLocal.into())
    }
}

impl FaceEntry {
    pub(crate) fn new(id: FaceId, settings: FaceSettings) -> Self {
        let counters = FaceCounters::default();
        let (oldest, newest) = (NONE, NONE);
        FaceEntry {
            id,
            settings,
            counters,
            pending: 0,
            load: 0,
            oldest,
            newest,
            arrival: 0,
            useless: RateAccount::default(),
            served: 0,
            routes: 0,
        }
    }

    /// Whether the rate limit admits an Interest. If so it is counted.
    #[inline]
    pub(crate) fn admits(&mut self, now_us: u64) -> bool {
        const SECOND: u64 = 1_000_000_000;
        let Some(rate) = self.settings.interests_per_second else { return true };
        if rate == 0 {
            return false;
        }
        let now = now_us.saturating_mul(1000);
        let interval = SECOND / u64::from(rate);
        let arrival = self.arrival.max(now);
        if arrival - now > SECOND - interval {
            return false;
        }
        self.arrival = arrival + interval;
        true
    }

    /// Sends a Data to the face.
    #[inline]
    pub(crate) fn send_data(&mut self, leaving: OutgoingPacket<'_>, out: &mut impl Outlet) {
        self.useless.take_back(USELESS_RATE);
        self.counters.out_data += 1;
        self.counters.out_bytes += leaving.packet.len() as u64;
        out.send(self.id, leaving);
    }

    /// Records a useless packet from the face.
    #[cold]
    pub(crate) fn note_useless(&mut self, now: u64) {
        self.useless.note(now, USELESS_RATE);
    }

    /// The time until which the face should not be read from.
    pub(crate) fn rests_until(&self, now: u64) -> Option<u64> {
        self.useless.over_until(now, USELESS_RATE)
    }

    /// Whether the face has more than one neighbour.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.settings.link_type != LinkType::PointToPoint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_limit_holds_over_any_second() {
        for rate in [0u32, 1, 3, 1000] {
            let mut settings = FaceSettings::from(FaceScope::Local);
            settings.interests_per_second = Some(rate);
            let mut face = FaceEntry::new(FaceId(1), settings);
            let admitted = |face: &mut FaceEntry, ms: core::ops::Range<u64>| {
                ms.flat_map(|ms| [ms; 5]).filter(|ms| face.admits(ms * 1000)).count() as u32
            };
            // A burst of one second's worth, then the rate.
            assert!((rate..=2 * rate).contains(&admitted(&mut face, 0..1000)));
            assert_eq!(admitted(&mut face, 1000..3000), 2 * rate);
        }
    }
}
