//! [`at_changes`]: writes a small file after changes, and not too often.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Shortest time between two writes.
const EVERY: Duration = Duration::from_secs(1);

/// Calls `write` after changes, at most once a second, until the sender is dropped.
pub fn at_changes(changes: &Receiver<()>, write: impl Fn()) {
    let mut again = Instant::now();
    while changes.recv().is_ok() {
        // Later changes are part of the same write.
        let wait = again.saturating_duration_since(Instant::now());
        if ends_within(changes, wait) {
            return;
        }
        write();
        again = Instant::now() + EVERY;
    }
}

/// Waits for `wait`; true at once if the sender is dropped.
fn ends_within(changes: &Receiver<()>, wait: Duration) -> bool {
    let until = Instant::now() + wait;
    loop {
        match changes.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => return false,
            Ok(()) if Instant::now() >= until => return false,
            Ok(()) => {}
        }
    }
}
