//! Limits per source: half-open handshakes, oldest first, with failed ones among them, and handshakes per second of an
//! address that has proven itself.
//!
//! [`source()`] defines a source.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use crate::event::LinkId;
use crate::handshake::HANDSHAKE_TIMEOUT;
use crate::source::source;

/// Time between two handshakes of one source in the long run: 20 a second.
const HANDSHAKE_INTERVAL: Duration = Duration::from_millis(50);
/// Handshakes of one source that may come at once.
const HANDSHAKE_BURST: u32 = 40;
/// After this time a source that has begun no handshake is as good as new: its whole burst is available again.
const BURST_REFILL: Duration = Duration::from_secs(2);
/// Sources remembered in one such time.
const MAX_SOURCES: usize = 4_096;

/// The part of an address that counts as one source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct RateSource(IpAddr);

impl RateSource {
    pub(super) fn of(address: SocketAddr) -> Self {
        Self(source(address.ip()))
    }
}

/// Handshakes that dialers have begun and not completed.
#[derive(Default)]
pub(super) struct HalfOpens {
    /// Oldest first.
    live: VecDeque<(LinkId, RateSource)>,
    /// Until when each failed handshake counts, oldest first.
    failed: VecDeque<Duration>,
}

impl HalfOpens {
    pub(super) fn push(&mut self, id: LinkId, source: RateSource) {
        self.live.push_back((id, source));
    }

    pub(super) fn remove(&mut self, id: LinkId) {
        self.live.retain(|(half, _)| *half != id);
    }

    /// Counts a malformed first message: it cost as much as a genuine one. At most `most` are counted.
    pub(super) fn fail(&mut self, now: Duration, most: usize) {
        self.failed.push_back(now.saturating_add(HANDSHAKE_TIMEOUT));
        if self.failed.len() > most {
            self.failed.pop_front();
        }
    }

    pub(super) fn forget_failed(&mut self, now: Duration) {
        while self.failed.front().is_some_and(|until| *until <= now) {
            self.failed.pop_front();
        }
    }

    /// Handshakes that wait for their dialer.
    pub(super) fn live(&self) -> usize {
        self.live.len()
    }

    /// All handshakes that count, live and failed.
    pub(super) fn count(&self) -> usize {
        self.live.len().saturating_add(self.failed.len())
    }

    pub(super) fn has(&self, source: RateSource) -> bool {
        self.live.iter().any(|(_, of)| *of == source)
    }

    /// The handshake that gives way to one of this source: the source's own oldest, else the oldest of all.
    pub(super) fn to_displace(&self, source: RateSource) -> Option<LinkId> {
        let own = self.live.iter().find(|(_, of)| *of == source);
        own.or(self.live.front()).map(|(id, _)| *id)
    }
}

/// Rates at which sources begin handshakes. There are two tables, of this period and the last: a source in neither has
/// its whole burst available, so no sweep is needed.
#[derive(Default)]
pub(super) struct HandshakeRates {
    /// When the whole burst of a source is available again.
    current: HashMap<RateSource, Duration>,
    last: HashMap<RateSource, Duration>,
    since: Duration,
}

impl HandshakeRates {
    /// Returns whether a source may begin a handshake now, and counts it.
    pub(super) fn admits(&mut self, now: Duration, source: RateSource) -> bool {
        if now.saturating_sub(self.since) >= BURST_REFILL || self.current.len() >= MAX_SOURCES {
            self.last = core::mem::take(&mut self.current);
            self.since = now;
        }
        let known = self.current.get(&source).or_else(|| self.last.get(&source));
        let paid_back = known.copied().unwrap_or(now).max(now).saturating_add(HANDSHAKE_INTERVAL);
        let may =
            paid_back.saturating_sub(now) <= HANDSHAKE_INTERVAL.saturating_mul(HANDSHAKE_BURST);
        if may {
            self.current.insert(source, paid_back);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(address: &str) -> RateSource {
        RateSource::of(format!("{address}:7").parse().unwrap())
    }

    #[test]
    fn a_source_is_an_address_or_a_network() {
        assert_eq!(source("10.0.0.1"), source("[::ffff:10.0.0.1]"));
        assert_eq!(source("[2001:db8::1]"), source("[2001:db8::ffff:1]"));
        assert_ne!(source("[2001:db8::1]"), source("[2001:db8:0:1::1]"));
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
        assert_ne!(source("[::1]"), source("10.0.0.1"));
    }

    #[test]
    fn each_source_gets_forty_at_once_and_twenty_a_second() {
        let mut rates = HandshakeRates::default();
        let ms = |n| Duration::from_millis(n);
        let one = source("10.0.0.1");
        let begun = |rates: &mut HandshakeRates, from: u64, to: u64| {
            (from..to).filter(|n| rates.admits(ms(*n), one)).count()
        };
        assert_eq!((0..100).filter(|_| rates.admits(ms(0), one)).count(), 40);
        assert!(rates.admits(ms(0), source("10.0.0.2")), "another is not held to it");
        assert_eq!(begun(&mut rates, 1, 10_001), 200, "tables change meanwhile");
        assert_eq!((0..100).filter(|_| rates.admits(ms(20_000), one)).count(), 40);
    }

    #[test]
    fn the_tables_are_bounded() {
        let mut rates = HandshakeRates::default();
        for n in 0..100_000u32 {
            let ip = IpAddr::from(n.to_be_bytes());
            assert!(rates.admits(Duration::ZERO, RateSource::of(SocketAddr::new(ip, 1))));
            assert!(rates.current.len() + rates.last.len() <= 2 * MAX_SOURCES);
        }
    }

    #[test]
    fn a_newcomer_displaces_its_own_source_and_failures_count() {
        let (one, other) = (source("10.0.0.1"), source("10.0.0.2"));
        let mut half_open = HalfOpens::default();
        half_open.push(LinkId(1), other);
        half_open.push(LinkId(2), one);
        half_open.push(LinkId(3), one);
        assert_eq!(half_open.to_displace(one), Some(LinkId(2)));
        assert_eq!(half_open.to_displace(source("10.0.0.3")), Some(LinkId(1)));
        half_open.fail(Duration::ZERO, 2);
        half_open.fail(Duration::ZERO, 2);
        half_open.fail(Duration::from_secs(1), 2);
        assert_eq!((half_open.live(), half_open.count()), (3, 5), "bounded");
        half_open.forget_failed(Duration::from_secs(10));
        assert_eq!(half_open.count(), 4);
        half_open.remove(LinkId(1));
        assert!(!half_open.has(other) && half_open.has(one));
    }
}
