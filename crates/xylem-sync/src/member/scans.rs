//! [`ScanSchedule`]: when a member scans its folder, and why.

use std::time::{Duration, Instant};

use super::pause;

/// Scan the folder after this long without a change.
const QUIET: Duration = Duration::from_millis(50);
/// Scan the folder at the latest this long after the first change.
pub(super) const BUSY: Duration = Duration::from_secs(1);

/// See the module's documentation.
#[derive(Default)]
pub(super) struct ScanSchedule {
    /// When the next scan is due.
    at: Option<Instant>,
    /// Time of the first change since the last scan.
    changed: Option<Instant>,
    /// Whether something is known to have changed; otherwise a scan only checks for changes.
    known_changed: bool,
    /// Scans that have failed in a row.
    failures: u32,
    /// How long the last scan took.
    last_took: Duration,
    /// When to check whether a file that was held back can be sent.
    held_due: Option<Instant>,
    /// When to scan because extended attributes could not be set.
    attributes_due: Option<Instant>,
}

impl ScanSchedule {
    /// When to scan a folder that has changed now. Each change delays the scan, up to [`BUSY`] after the first one.
    fn time_after_change(&mut self, now: Instant) -> Instant {
        (now + QUIET).min(*self.changed.get_or_insert(now) + BUSY)
    }

    /// Plans a scan for now.
    pub(super) fn at_once(&mut self, now: Instant) {
        self.at = Some(now);
    }

    /// The same, if none is planned.
    pub(super) fn at_once_if_none(&mut self) {
        self.at.get_or_insert_with(Instant::now);
    }

    /// Plans a scan after a change. `known`: certainly of a path of the folder.
    pub(super) fn on_change(&mut self, now: Instant, known: bool) {
        self.known_changed |= known;
        self.at = Some(self.time_after_change(now));
    }

    /// Has the next scan look for what changed, whenever that is.
    pub(super) fn note_change(&mut self) {
        self.known_changed = true;
    }

    /// Returns whether something is known to have changed since the last call.
    pub(super) fn take_known_change(&mut self) -> bool {
        std::mem::take(&mut self.known_changed)
    }

    pub(super) fn is_planned(&self) -> bool {
        self.at.is_some()
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.at.is_some_and(|at| at <= now)
    }

    /// Begins a scan.
    pub(super) fn begin(&mut self) {
        (self.at, self.changed) = (None, None);
    }

    /// Records a scan that succeeded.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Plans a failed scan again. Returns how many have failed in a row.
    pub(super) fn failed(&mut self) -> u32 {
        self.at = Some(Instant::now() + pause(self.failures));
        self.failures += 1;
        self.failures
    }

    /// Records how long a scan took.
    pub(super) fn took(&mut self, time: Duration) {
        self.last_took = time;
    }

    /// How long the last scan took.
    pub(super) fn last_took(&self) -> Duration {
        self.last_took
    }

    /// Sets when a file that is held back may be sent.
    pub(super) fn set_held_due(&mut self, due: Option<Instant>) {
        self.held_due = due;
    }

    /// Whether to check the files that are held back.
    pub(super) fn held_is_due(&self, now: Instant) -> bool {
        self.held_due.is_some_and(|at| at <= now)
    }

    /// Sets when extended attributes are tried again.
    pub(super) fn set_attributes_due(&mut self, due: Option<Instant>) {
        self.attributes_due = due;
    }

    /// Plans a scan when extended attributes are due.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.attributes_due.take_if(|at| *at <= now).is_some() {
            self.at.get_or_insert(now);
        }
    }

    /// When a scan or a check is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        [self.at, self.held_due, self.attributes_due].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_changes_constantly_is_still_scanned() {
        let (began, mut scans) = (Instant::now(), ScanSchedule::default());
        scans.on_change(began, true);
        assert_eq!(scans.next_due(), Some(began + QUIET));
        for i in 1..1_000 {
            let now = began + i * QUIET / 2;
            if scans.is_due(now) {
                break;
            }
            scans.on_change(now, true);
        }
        assert_eq!(scans.next_due(), Some(began + BUSY));
    }
}
