//! Progress of long work on standard error: a bar on a terminal, else a plain line now and then.

use super::text::{bytes, count, duration, rate};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Plain lines come at most this often.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Reading and hashing on this machine.
    Hashing,
    /// Fetching from peers.
    Fetching,
}

impl Phase {
    fn word(self) -> &'static str {
        match self {
            Self::Hashing => "read",
            Self::Fetching => "verified",
        }
    }
}

/// Shows how far a run is, or nothing.
pub(crate) struct Progress {
    shown: bool,
    terminal: bool,
    bar: Option<(Phase, ProgressBar)>,
    lines: Option<Lines>,
}

impl Progress {
    /// Nothing is drawn before the first [`Self::update`].
    pub(crate) fn new(shown: bool, terminal: bool) -> Self {
        Self { shown, terminal, bar: None, lines: None }
    }

    /// `done` of `total` bytes (0 where unknown) at this moment.
    pub(crate) fn update(&mut self, phase: Phase, done: u64, total: u64, peers: usize) {
        if !self.shown {
            return;
        }
        if !self.terminal {
            let now = Instant::now();
            if self.lines.as_ref().is_none_or(|lines| lines.phase != phase) {
                self.lines = Some(Lines { phase, start: (now, done), last: (now, done) });
            }
            if let Some(line) = self.lines.as_mut().and_then(|l| l.next(now, done, total, peers)) {
                let _ = writeln!(io::stderr().lock(), "{line}");
            }
            return;
        }
        if self.bar.as_ref().is_none_or(|(of, _)| *of != phase) {
            self.clear();
            // Starting at `done` keeps resumed bytes out of the rate.
            let bar = ProgressBar::new(total.max(done)).with_position(done).with_style(style());
            bar.reset_eta();
            self.bar = Some((phase, bar));
        }
        if let Some((_, bar)) = &self.bar {
            bar.set_length(total.max(done));
            bar.set_position(done);
            bar.set_message(match phase {
                Phase::Hashing => phase.word().to_owned(),
                Phase::Fetching => format!("{}, {}", phase.word(), count(peers as u64, "peer")),
            });
        }
    }

    /// Runs `write`, which prints to standard error, without tearing the bar.
    pub(crate) fn aside(&self, write: impl FnOnce()) {
        match &self.bar {
            Some((_, bar)) => bar.suspend(write),
            None => write(),
        }
    }

    /// Takes the bar away.
    pub(crate) fn clear(&mut self) {
        if let Some((_, bar)) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn style() -> ProgressStyle {
    let template = "{bytes}/{total_bytes} {msg} {wide_bar} {binary_bytes_per_sec} ETA {eta}";
    ProgressStyle::with_template(template).expect("the template is constant and a test draws it")
}

/// The plain form: one line every [`LINE_EVERY`].
struct Lines {
    phase: Phase,
    start: (Instant, u64),
    last: (Instant, u64),
}

impl Lines {
    fn next(&mut self, now: Instant, done: u64, total: u64, peers: usize) -> Option<String> {
        let since = now.duration_since(self.last.0);
        if since < LINE_EVERY {
            return None;
        }
        // The rate of the last interval, so that a stall shows at once; the ETA from the whole run,
        // so that it does not jump.
        let speed = rate(done.saturating_sub(self.last.1), since);
        self.last = (now, done);
        let so_far = done.saturating_sub(self.start.1) as f64;
        let took = now.duration_since(self.start.0).as_secs_f64();
        let left = total.saturating_sub(done) as f64 * took / so_far;
        let eta = match Duration::try_from_secs_f64(left) {
            Ok(left) if total > 0 => format!("ETA {}", duration(left)),
            _ => "ETA unknown".to_owned(),
        };
        let mut line = format!("{} of {} {}", bytes(done), bytes(total), self.phase.word());
        if let Some(percent) = (u128::from(done.min(total)) * 100).checked_div(total.into()) {
            line.push_str(&format!(" ({percent} %)"));
        }
        line.push_str(&format!(", {speed}, {eta}"));
        if self.phase == Phase::Fetching {
            line.push_str(&format!(", {}", count(peers as u64, "peer")));
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_are_rare_and_complete() {
        let start = Instant::now();
        let mut lines = Lines { phase: Phase::Fetching, start: (start, 0), last: (start, 0) };
        assert_eq!(lines.next(start + Duration::from_secs(1), 1 << 20, 4 << 20, 2), None);
        assert_eq!(
            lines.next(start + Duration::from_secs(2), 2 << 20, 4 << 20, 2).as_deref(),
            Some("2.00 MiB of 4.00 MiB verified (50 %), 1.00 MiB/s, ETA 2.00 s, 2 peers")
        );
        assert_eq!(lines.next(start + Duration::from_secs(3), 3 << 20, 4 << 20, 2), None);
        let stalled = lines.next(start + Duration::from_secs(4), 2 << 20, 4 << 20, 0);
        assert_eq!(
            stalled.as_deref(),
            Some("2.00 MiB of 4.00 MiB verified (50 %), 0 B/s, ETA 4.00 s, 0 peers")
        );
    }

    #[test]
    fn nothing_known_is_no_panic() {
        let start = Instant::now();
        let mut lines = Lines { phase: Phase::Hashing, start: (start, 9), last: (start, 9) };
        let line = lines.next(start + Duration::from_secs(9), 9, 0, 0);
        assert_eq!(line.as_deref(), Some("9 B of 0 B read, 0 B/s, ETA unknown"));
        let huge = lines.next(start + Duration::from_secs(20), u64::MAX, u64::MAX, 0);
        assert!(huge.is_some());
    }

    #[test]
    fn the_bar_draws() {
        let mut progress = Progress::new(true, true);
        progress.update(Phase::Hashing, 1, 2, 0);
        progress.update(Phase::Fetching, 1, 2, 3);
        progress.aside(|| ());
        progress.clear();
    }
}
