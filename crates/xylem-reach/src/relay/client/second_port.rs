//! [`SecondPort`]: questions to the relay's second port. The address at which that port sees this client shows a symmetric NAT.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::time::Duration;

use super::RETRY;

/// Maximum number of questions in a row.
const SECOND_TRIES: u32 = 3;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct SecondPort {
    /// Its number; `None` if the relay has none.
    port: Option<u16>,
    due: Option<Duration>,
    tries: u32,
}

impl SecondPort {
    pub(super) fn set(&mut self, port: Option<u16>) {
        self.port = port;
    }

    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }

    /// Begins to ask now.
    pub(super) fn ask(&mut self, now: Duration) {
        if self.port.is_some() {
            (self.due, self.tries) = (Some(now), 0);
        }
    }

    /// Handles an answer.
    pub(super) fn on_answer(&mut self) {
        self.due = None;
    }

    /// When the next question is due.
    pub(super) fn due(&self) -> Option<Duration> {
        self.due
    }

    /// Whether a question is due now; it then counts as sent.
    pub(super) fn poll(&mut self, now: Duration) -> bool {
        let is_due = self.due.is_some_and(|due| due <= now);
        if is_due {
            self.tries = self.tries.saturating_add(1);
            let again = self.tries < SECOND_TRIES;
            self.due = again.then(|| now.saturating_add(RETRY));
        }
        is_due
    }
}
