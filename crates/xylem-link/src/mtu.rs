//! Path MTU discovery: the datagram size that the path to the peer carries (a simplified RFC 8899). Sizes of a short
//! table are tried upward with padded probes that the peer acknowledges; a size that is lost three times ends the
//! search. A size in use that is no longer acknowledged (a black hole) gives way to the base size.

use core::time::Duration;

/// Datagram size that every link starts with, in bytes of UDP payload: what IPv6 promises to carry (1,280) less its
/// header (40) and UDP's (8). Path MTU discovery raises it.
pub const BASE_DATAGRAM: usize = 1_232;

/// Largest UDP payload over IPv4, in bytes: 65,535 less 20 (IP) and 8 (UDP).
pub const MAX_DATAGRAM: usize = 65_507;

/// Sizes of UDP payload to try: tunnels, Ethernet by IPv6 and by IPv4, jumbo frames, loopback. IPv4's header is 20
/// bytes shorter; with them a segment of 8 KiB and its headers fits six datagrams, where a seventh held some 50 bytes.
const TABLE: [usize; 7] = [1_392, 1_452, 1_472, 8_952, 16_384, 32_768, MAX_DATAGRAM];
/// Lost probes after which a size is given up.
const MAX_LOST: u8 = 3;
/// Interval at which a size in use is checked again, if datagrams are sent.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Time after which a search that ended early begins again.
const SEARCH_AGAIN: Duration = Duration::from_secs(600);
/// The same after a black hole: the path may be just changing.
const AFTER_BLACK_HOLE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
struct MtuProbe {
    size: usize,
    sent: Duration,
    lost: u8,
}

#[derive(Debug)]
pub(crate) struct PathMtu {
    base: usize,
    limit: usize,
    current: usize,
    in_flight: Option<MtuProbe>,
    /// The search rests until this time.
    search_at: Duration,
    /// When the current size was last known to work.
    checked: Duration,
    /// A datagram larger than the base size was sent since.
    used: bool,
}

impl PathMtu {
    /// `limit`: the largest datagram that both sides accept.
    pub(crate) fn new(base: usize, limit: usize, now: Duration) -> Self {
        let base = base.min(limit);
        Self {
            base,
            limit,
            current: base,
            in_flight: None,
            search_at: now,
            checked: now,
            used: false,
        }
    }

    /// Current datagram size, in bytes of UDP payload.
    pub(crate) fn current(&self) -> usize {
        self.current
    }

    /// Begins anew, on a new path.
    pub(crate) fn reset(&mut self, now: Duration) {
        *self = Self::new(self.base, self.limit, now);
    }

    /// Records that a datagram of this size was sent.
    pub(crate) fn on_sent(&mut self, size: usize) {
        self.used |= size > self.base;
    }

    fn next_size(&self) -> Option<usize> {
        let larger = TABLE.iter().map(|size| (*size).min(self.limit));
        larger.filter(|size| *size > self.current).min()
    }

    /// The size of the probe to send now, if one is due.
    pub(crate) fn poll(&mut self, now: Duration, timeout: Duration) -> Option<usize> {
        if let Some(probe) = &mut self.in_flight {
            if now < probe.sent + timeout {
                return None;
            }
            probe.lost += 1;
            if probe.lost < MAX_LOST {
                probe.sent = now;
                return Some(probe.size);
            }
            if probe.size > self.current {
                self.search_at = now + SEARCH_AGAIN;
            } else {
                self.current = self.base;
                self.search_at = now + AFTER_BLACK_HOLE;
            }
            self.in_flight = None;
        }
        let size = if self.check_due(now) {
            self.current
        } else if now >= self.search_at {
            self.next_size()?
        } else {
            return None;
        };
        self.used = false;
        self.in_flight = Some(MtuProbe { size, sent: now, lost: 0 });
        Some(size)
    }

    fn check_due(&self, now: Duration) -> bool {
        self.used && self.current > self.base && now >= self.checked + CHECK_EVERY
    }

    /// Handles the acknowledgement of a probe of this size. Returns the round-trip time if it is certain which probe
    /// was acknowledged.
    pub(crate) fn on_ack(&mut self, now: Duration, size: usize) -> Option<Duration> {
        let probe = self.in_flight.filter(|probe| probe.size == size)?;
        self.in_flight = None;
        self.current = size;
        self.checked = now;
        (probe.lost == 0).then(|| now.saturating_sub(probe.sent))
    }

    /// When [`PathMtu::poll`] is due.
    pub(crate) fn next_timeout(&self, timeout: Duration) -> Option<Duration> {
        if let Some(probe) = &self.in_flight {
            return Some(probe.sent + timeout);
        }
        let search = self.next_size().map(|_| self.search_at);
        let check = (self.used && self.current > self.base).then(|| self.checked + CHECK_EVERY);
        [search, check].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTO: Duration = Duration::from_millis(200);

    /// Runs the search over a path that carries `path` bytes, until `until`; returns the number of probes sent.
    fn run(mtu: &mut PathMtu, path: usize, mut now: Duration, until: Duration) -> usize {
        let mut probes = 0;
        while now < until {
            if let Some(size) = mtu.poll(now, RTO) {
                probes += 1;
                if size <= path {
                    mtu.on_ack(now + Duration::from_millis(1), size);
                }
            }
            now += Duration::from_millis(10);
        }
        probes
    }

    #[test]
    fn the_search_finds_the_path_mtu_and_stops() {
        let s = Duration::from_secs;
        for (path, found, probes) in [
            (1_232, 1_232, 3),
            (1_464, 1_452, 5),
            (1_472, 1_472, 6),
            (8_972, 8_952, 7),
            (65_507, 65_507, 7),
        ] {
            let mut mtu = PathMtu::new(1_232, 65_507, s(0));
            assert_eq!(run(&mut mtu, path, s(0), s(60)), probes);
            assert_eq!(mtu.current(), found);
        }
        let mut mtu = PathMtu::new(1_232, 4_000, s(0));
        run(&mut mtu, 65_507, s(0), s(60));
        assert_eq!(mtu.current(), 4_000, "the peer's limit is found too");
    }

    #[test]
    fn a_black_hole_falls_back_and_recovers() {
        let s = Duration::from_secs;
        let mut mtu = PathMtu::new(1_232, 65_507, s(0));
        run(&mut mtu, 65_507, s(0), s(2));
        assert_eq!(mtu.current(), 65_507);
        assert_eq!(run(&mut mtu, 0, s(2), s(10)), 0, "an idle link is left alone");
        mtu.on_sent(65_507);
        assert_eq!(run(&mut mtu, 1_472, s(10), s(12)), 3);
        assert_eq!(mtu.current(), 1_232);
        run(&mut mtu, 1_472, s(12), s(100));
        assert_eq!(mtu.current(), 1_472);
    }

    #[test]
    fn acks_of_other_sizes_are_ignored() {
        let mut mtu = PathMtu::new(1_232, 65_507, Duration::ZERO);
        assert_eq!(mtu.on_ack(RTO, 65_507), None);
        let size = mtu.poll(RTO, RTO).unwrap();
        assert_eq!(mtu.on_ack(RTO, size + 1), None);
        assert_eq!(mtu.current(), 1_232);
        assert!(mtu.on_ack(RTO, size).is_some());
    }
}
