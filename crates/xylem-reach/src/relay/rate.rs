//! Rate limits: [`LeakyBucket`] of one item, and [`HostBuckets`] of all hosts in constant memory.

use core::net::IpAddr;
use core::time::Duration;

use xylem_hash::keyed_hash;
use xylem_link::source;

/// Rows and cells of [`HostBuckets`]: 128 KiB.
const ROWS: usize = 2;
const CELLS: usize = 8_192;

/// A rate per second, and a burst as seconds' worth of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Allowance {
    pub per_second: u64,
    pub burst: Duration,
}

/// A leaky bucket: the time in nanoseconds until which everything taken is paid for.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct LeakyBucket(u64);

impl LeakyBucket {
    /// Whether anything may be taken.
    pub(crate) fn has(self, now: Duration, allowance: Allowance) -> bool {
        self.0 <= nanos(now.saturating_add(allowance.burst))
    }

    /// Takes `much`, whatever is left.
    pub(crate) fn pay(&mut self, now: Duration, much: u64, allowance: Allowance) {
        let time = much.saturating_mul(1_000_000_000).checked_div(allowance.per_second);
        self.0 = self.0.max(nanos(now)).saturating_add(time.unwrap_or(u64::MAX));
    }

    /// Takes `much` if anything is left. An amount larger than the burst is taken whole, and paid for afterwards.
    pub(crate) fn take(&mut self, now: Duration, much: u64, allowance: Option<Allowance>) -> bool {
        let Some(allowance) = allowance else { return true };
        let has = self.has(now, allowance);
        if has {
            self.pay(now, much, allowance);
        }
        has
    }
}

/// Rates of all hosts. A keyed hash gives each host one cell in each row. A host is held back when all of its cells are
/// empty. Other hosts can empty one of its cells, but hardly all. No list of hosts is kept, so none can be flooded.
#[derive(Debug)]
pub(crate) struct HostBuckets {
    key: [u8; 32],
    cells: Vec<LeakyBucket>,
}

impl HostBuckets {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self { key, cells: vec![LeakyBucket::default(); ROWS * CELLS] }
    }

    /// Takes `much` for this host if anything is left, and returns whether it did.
    pub(crate) fn take(
        &mut self,
        now: Duration,
        host: IpAddr,
        much: u64,
        allowance: Option<Allowance>,
    ) -> bool {
        let Some(allowance) = allowance else { return true };
        let cells = self.cells_of(host);
        let has = cells.iter().any(|cell| self.cells[*cell].has(now, allowance));
        if has {
            cells.iter().for_each(|cell| self.cells[*cell].pay(now, much, allowance));
        }
        has
    }

    /// Whether this host has anything left.
    pub(crate) fn has(&self, now: Duration, host: IpAddr, allowance: Allowance) -> bool {
        self.cells_of(host).iter().any(|cell| self.cells[*cell].has(now, allowance))
    }

    fn cells_of(&self, host: IpAddr) -> [usize; ROWS] {
        let octets = match source(host) {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        let hash = keyed_hash(&self.key, &octets);
        let bytes = hash.as_bytes();
        core::array::from_fn(|row| {
            let cell = usize::from(u16::from_be_bytes([bytes[2 * row], bytes[2 * row + 1]]));
            row * CELLS + cell % CELLS
        })
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Option<Allowance> =
        Some(Allowance { per_second: 2, burst: Duration::from_millis(1_500) });

    #[test]
    fn a_rate_allows_its_burst_and_then_its_rate() {
        let mut rate = LeakyBucket::default();
        let taken = |rate: &mut LeakyBucket, at| {
            (0..10).take_while(|_| rate.take(Duration::from_millis(at), 1, TWO)).count()
        };
        assert_eq!(taken(&mut rate, 10_000), 4);
        assert_eq!(taken(&mut rate, 10_499), 0);
        assert_eq!(taken(&mut rate, 10_500), 1);
        assert_eq!(taken(&mut rate, 12_000), 3);
    }

    #[test]
    fn a_zero_rate_allows_nothing_after_the_burst() {
        let mut rate = LeakyBucket::default();
        let none = Some(Allowance { per_second: 0, burst: Duration::ZERO });
        assert!(rate.take(Duration::from_secs(1), 1, none));
        assert!(!rate.take(Duration::from_secs(1 << 30), 1, none));
    }

    #[test]
    fn limiting_one_host_leaves_others_unlimited() {
        let mut rates = HostBuckets::new([1; 32]);
        let now = Duration::from_secs(1);
        let of = |text: &str| text.parse().expect("an address");
        while rates.take(now, of("2001:db8::1"), 1, TWO) {}
        assert!(!rates.take(now, of("2001:db8::2"), 1, TWO), "the same network");
        let others = (0..=255).filter(|i| rates.take(now, IpAddr::from([192, 0, 2, *i]), 1, TWO));
        assert_eq!(others.count(), 256);
    }
}
