//! [`RoundTrip`]: how long answers take, measured, or expected until one was measured.

use core::time::Duration;

use xylem_congestion::Rtt;

/// Least expected round trip. However short the link, the source may have to read from a disk.
const MIN_EXPECTED: Duration = Duration::from_millis(10);

/// The round trips of one source.
#[derive(Debug, Default)]
pub(crate) struct RoundTrip {
    measured: Rtt,
    expected: Rtt,
    /// An answer came about when it was expected.
    fits: bool,
}

impl RoundTrip {
    /// The measured round trips.
    pub(crate) fn measured(&self) -> &Rtt {
        &self.measured
    }

    /// The round trip on which waits are based: measured, or else expected.
    pub(crate) fn for_timeouts(&self) -> &Rtt {
        if self.is_measured() { &self.measured } else { &self.expected }
    }

    /// The round trip on which losses are decided.
    pub(crate) fn for_losses(&self) -> &Rtt {
        if self.fits { self.for_timeouts() } else { &self.measured }
    }

    /// Whether an answer may reset waits that were doubled. Before the round trip is known it may not. Otherwise an
    /// answer that takes longer than expected would always be requested twice and never measured (Karn's rule).
    pub(crate) fn is_known(&self) -> bool {
        self.fits || self.is_measured()
    }

    fn is_measured(&self) -> bool {
        self.measured.smoothed().is_some()
    }

    /// Sets the expected round trip from that of the link to the source. The first waits use it, because the default of
    /// 1 s is long when the first request is lost. It is no sample: answers may come from further away, or from a disk.
    pub(crate) fn expect(&mut self, rtt: Duration) {
        if !self.is_measured() {
            self.expected = Rtt::default();
            self.expected.sample(rtt.max(MIN_EXPECTED), Duration::ZERO);
        }
    }

    /// Adds a measured round trip, of an item that was requested once.
    pub(crate) fn sample(&mut self, took: Duration) {
        self.measured.sample(took, Duration::ZERO);
    }

    /// Whether an answer that came `took` after the last of several requests answers that request. It does not if it is
    /// faster than the shortest measured round trip (RFC 8985, section 6.2). Before anything is measured, it has to
    /// come between half and twice the expected time.
    ///
    /// An answer that fits is no sample, but it lets waits begin anew. Under heavy loss they would otherwise double to
    /// seconds, and a lost window would come back one request at a time.
    pub(crate) fn matches_last_request(&mut self, took: Duration) -> bool {
        if let Some(min) = self.measured.min() {
            return took >= min;
        }
        let fits = self.expected.smoothed().is_some_and(|rtt| (rtt / 2..=rtt * 2).contains(&took));
        self.fits |= fits;
        fits
    }
}
