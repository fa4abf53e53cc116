//! What bounds a transfer in time: patience without progress, and a rate.

use core::time::Duration;

use xylem_congestion::Pacer;

/// How long a transfer goes on without verified progress. Time spent paused does not count.
#[derive(Debug)]
pub(crate) struct Patience {
    limit: Duration,
    /// `None`: patience begins when the time is next known.
    last_progress: Option<Duration>,
    /// Somebody has come since then.
    met: bool,
    paused: bool,
}

impl Patience {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, last_progress: None, met: false, paused: false }
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    pub(crate) fn set_paused(&mut self, now: Duration, paused: bool) {
        if self.paused && !paused {
            self.on_progress(now);
        }
        self.paused = paused;
    }

    /// Patience begins anew.
    pub(crate) fn on_progress(&mut self, now: Duration) {
        self.last_progress = self.last_progress.max(Some(now));
        self.met = false;
    }

    /// Somebody is there where nobody was, and has as long as anybody: once. Who comes and goes
    /// without bringing anything would else be waited for without end.
    pub(crate) fn on_first_peer(&mut self, now: Duration) {
        if !self.met {
            self.on_progress(now);
            self.met = true;
        }
    }

    /// As [`Self::on_progress`], at a time that is not known yet.
    pub(crate) fn restart(&mut self) {
        self.last_progress = None;
    }

    /// The time is known now.
    pub(crate) fn begin(&mut self, now: Duration) {
        self.last_progress.get_or_insert(now);
    }

    /// When patience is over; `now` if it has not begun.
    pub(crate) fn ends(&self, now: Duration) -> Option<Duration> {
        (!self.paused).then(|| self.last_progress.map_or(now, |at| at + self.limit))
    }
}

/// Bytes of content that may be asked for in a second.
#[derive(Debug, Default)]
pub(crate) struct RateLimit {
    rate: Option<u64>,
    pacer: Pacer,
}

/// Bytes that may be asked for at once: a tenth of a second, 4 segments at least.
fn burst(rate: u64) -> u64 {
    (rate / 10).max(32_768)
}

impl RateLimit {
    /// `None`: as many as there are.
    pub(crate) fn set(&mut self, bytes_per_second: Option<u64>) {
        self.rate = bytes_per_second.map(|rate| rate.max(1));
    }

    /// Whether something may be asked for now.
    pub(crate) fn is_ready(&mut self, now: Duration) -> bool {
        self.rate.is_none_or(|rate| self.pacer.ready(now, rate, burst(rate)))
    }

    /// So many bytes were asked for.
    pub(crate) fn spend(&mut self, bytes: u64) {
        self.pacer.spend(bytes);
    }

    /// When something may be asked for again, if not now.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.rate.and_then(|rate| self.pacer.next(rate, burst(rate)))
    }
}
