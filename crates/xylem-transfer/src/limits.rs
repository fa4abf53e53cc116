//! Limits of a transfer in time: how long to wait without progress, and a rate limit.

use core::time::Duration;

use xylem_congestion::Pacer;

/// How long a transfer goes on without verified progress. Time spent paused does not count.
#[derive(Debug)]
pub(crate) struct ProgressTimeout {
    limit: Duration,
    /// `None`: the wait begins at the next known time.
    last_progress: Option<Duration>,
    /// A first peer was added since the last progress.
    had_first_peer: bool,
    paused_since: Option<Duration>,
}

impl ProgressTimeout {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, last_progress: None, had_first_peer: false, paused_since: None }
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused_since.is_some()
    }

    /// The wait does not pass during a pause, and goes on after it.
    pub(crate) fn set_paused(&mut self, now: Duration, paused: bool) {
        if paused {
            self.paused_since.get_or_insert(now);
        } else if let Some(since) = self.paused_since.take() {
            let waited = self.last_progress.map(|last| since.saturating_sub(last));
            self.last_progress = Some(now.saturating_sub(waited.unwrap_or_default()));
        }
    }

    /// Restarts the wait.
    pub(crate) fn on_progress(&mut self, now: Duration) {
        self.last_progress = self.last_progress.max(Some(now));
        self.had_first_peer = false;
    }

    /// Restarts the wait when a peer is added and there was none, once between two steps of progress. Otherwise peers
    /// that come and go without sending anything would prolong it without end.
    pub(crate) fn on_first_peer(&mut self, now: Duration) {
        if !self.had_first_peer {
            self.on_progress(now);
            self.had_first_peer = true;
        }
    }

    /// Restarts the wait at the next known time.
    pub(crate) fn restart(&mut self) {
        self.last_progress = None;
    }

    /// Starts the wait now if it has not started.
    pub(crate) fn begin(&mut self, now: Duration) {
        self.last_progress.get_or_insert(now);
    }

    /// When the wait ends; `now` if it has not begun, `None` while paused.
    pub(crate) fn ends(&self, now: Duration) -> Option<Duration> {
        (!self.is_paused()).then(|| self.last_progress.map_or(now, |at| at + self.limit))
    }
}

/// A limit on the bytes of content that are asked for in a second.
#[derive(Debug, Default)]
pub(crate) struct RateLimit {
    rate: Option<u64>,
    pacer: Pacer,
}

/// Bytes that may be asked for at once: a tenth of a second's worth, and at least 4 segments of 8 KiB.
fn burst(rate: u64) -> u64 {
    (rate / 10).max(32_768)
}

impl RateLimit {
    /// Sets the limit. `None`: no limit.
    pub(crate) fn set(&mut self, bytes_per_second: Option<u64>) {
        self.rate = bytes_per_second.map(|rate| rate.max(1));
    }

    /// Whether something may be asked for now.
    pub(crate) fn is_ready(&mut self, now: Duration) -> bool {
        self.rate.is_none_or(|rate| self.pacer.ready(now, rate, burst(rate)))
    }

    /// Records that `bytes` were asked for.
    pub(crate) fn spend(&mut self, bytes: u64) {
        self.pacer.spend(bytes);
    }

    /// When something may be asked for again, if not now.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.rate.and_then(|rate| self.pacer.next(rate, burst(rate)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a peer that comes and goes without sending anything would prolong the wait without end.
    #[test]
    fn a_wait_goes_on_after_a_pause() {
        let at = Duration::from_secs;
        let mut wait = ProgressTimeout::new(at(60));
        wait.set_paused(at(0), true);
        wait.on_first_peer(at(100));
        wait.set_paused(at(100), false);
        assert_eq!(wait.ends(at(100)), Some(at(160)));
        wait.set_paused(at(120), true);
        assert!(wait.is_paused() && wait.ends(at(500)).is_none());
        wait.on_first_peer(at(500));
        wait.set_paused(at(500), false);
        assert_eq!(wait.ends(at(500)), Some(at(540)), "20 seconds had passed");
        wait.set_paused(at(510), true);
        wait.on_progress(at(515));
        wait.set_paused(at(520), false);
        assert_eq!(wait.ends(at(520)), Some(at(580)));
    }
}
