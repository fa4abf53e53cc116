//! [`RoundTrip`]: how long answers take; before one was measured, how long they are expected to.

use core::time::Duration;

use xylem_congestion::Rtt;

/// An answer is not expected sooner, however short the link: its source may read from a disk.
const MIN_EXPECTED: Duration = Duration::from_millis(10);

/// The round trips of one source.
#[derive(Debug, Default)]
pub(crate) struct RoundTrip {
    measured: Rtt,
    expected: Rtt,
    /// Something came when it was expected.
    fits: bool,
}

impl RoundTrip {
    /// What was measured.
    pub(crate) fn measured(&self) -> &Rtt {
        &self.measured
    }

    /// What waits go by.
    pub(crate) fn for_waits(&self) -> &Rtt {
        if self.is_measured() { &self.measured } else { &self.expected }
    }

    /// What losses are told by.
    pub(crate) fn for_losses(&self) -> &Rtt {
        if self.fits { self.for_waits() } else { &self.measured }
    }

    /// Whether waits that were doubled begin anew with an answer. They may not before, or what takes longer than expected
    /// would always be asked for twice, and never measured (Karn's rule).
    pub(crate) fn is_known(&self) -> bool {
        self.fits || self.is_measured()
    }

    fn is_measured(&self) -> bool {
        self.measured.smoothed().is_some()
    }

    /// The round trip of the link to the source, which the first waits go by: 1 s is long where the first thing that is
    /// asked for is lost. The answers may come from further away, or from a disk: it is no sample of theirs.
    pub(crate) fn expect(&mut self, rtt: Duration) {
        if !self.is_measured() {
            self.expected = Rtt::default();
            self.expected.sample(rtt.max(MIN_EXPECTED), Duration::ZERO);
        }
    }

    /// What was asked for once took so long.
    pub(crate) fn sample(&mut self, took: Duration) {
        self.measured.sample(took, Duration::ZERO);
    }

    /// Whether what came so long after the last of several askings answers that one: not if it is faster than ever
    /// (RFC 8985, section 6.2), nor, before anything was measured, if it comes much sooner or later than expected. One that fits
    /// is no sample, but where much is lost waits would else double to seconds, and a window that is lost would come back one
    /// by one, before there is one.
    pub(crate) fn answers_the_last(&mut self, took: Duration) -> bool {
        if let Some(min) = self.measured.min() {
            return took >= min;
        }
        let fits = self.expected.smoothed().is_some_and(|rtt| (rtt / 2..=rtt * 2).contains(&took));
        self.fits |= fits;
        fits
    }
}
