//! [`KeepAliveTimer`]: when keep-alives are due, and which of them the relay has answered.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::time::Duration;

use super::{RETRY, SHORTEST};

/// Keep-alives sent per lifetime of a registration.
const KEEP_ALIVES_PER_LIFETIME: u32 = 6;
/// Number of unanswered keep-alives after which the relay counts as silent and is also dialled anew. An unnecessary
/// handshake costs less than a registration that is lost without notice.
const SILENT_AFTER: u32 = 3;
/// Number of unanswered keep-alives after which the registration is lost: some 25 seconds.
const LOST_AFTER: u32 = 12;

/// What unanswered keep-alives mean.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// The relay counts as silent.
    Silent,
    /// The registration is lost.
    Lost,
}

/// See the module's documentation.
pub(super) struct KeepAliveTimer {
    /// Number of the last keep-alive.
    number: u32,
    /// The highest number that each port has answered.
    answered: [u32; 2],
    lifetime: Duration,
    /// When the next keep-alive is due. `unanswered` counts those sent since the last answer.
    due: Duration,
    unanswered: u32,
}

impl KeepAliveTimer {
    pub(super) fn new() -> Self {
        let (number, answered, unanswered) = (0, [0; 2], 0);
        Self { number, answered, lifetime: Duration::ZERO, due: Duration::MAX, unanswered }
    }

    /// Begins with a registration of this lifetime.
    pub(super) fn begin(&mut self, now: Duration, lifetime: Duration) {
        self.lifetime = lifetime;
        // The first keep-alive fetches the token that a reset would end with.
        self.due = now.saturating_add(RETRY);
        self.unanswered = 0;
    }

    /// Number of the last keep-alive.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The number of one more keep-alive.
    pub(super) fn next_number(&mut self) -> u32 {
        self.number = self.number.saturating_add(1);
        self.number
    }

    /// Returns whether an answer to this number is new; a replayed one contains nothing new.
    pub(super) fn is_new_answer(&mut self, number: u32, second: bool) -> bool {
        let [first, other] = &mut self.answered;
        let answered = if second { other } else { first };
        let is_new = number > *answered && number <= self.number;
        if is_new {
            *answered = number;
        }
        is_new
    }

    /// Schedules the next keep-alive, as the relay is there. Returns whether it had counted as silent.
    pub(super) fn on_answer(&mut self, now: Duration) -> bool {
        let part = self.lifetime.checked_div(KEEP_ALIVES_PER_LIFETIME).unwrap_or(SHORTEST);
        self.due = now.saturating_add(part.max(SHORTEST));
        core::mem::take(&mut self.unanswered) > SILENT_AFTER
    }

    /// Whether a keep-alive is unanswered: it is repeated in any case.
    pub(super) fn waits(&self) -> bool {
        self.unanswered > 0
    }

    /// Has a keep-alive sent now.
    pub(super) fn send_now(&mut self, now: Duration) {
        self.due = now;
    }

    /// The same, if none is due already.
    pub(super) fn send_soon(&mut self, now: Duration) {
        self.due = self.due.min(now);
    }

    /// When the next one is due.
    pub(super) fn due(&self) -> Duration {
        self.due
    }

    /// Records that the one that is due was sent.
    pub(super) fn on_sent(&mut self, now: Duration) {
        let longer = self.unanswered.saturating_sub(SILENT_AFTER.saturating_sub(1)).min(2);
        self.due = now.saturating_add(RETRY.saturating_mul(1 << longer));
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// What the unanswered keep-alives mean when the next is due.
    pub(super) fn judge(&self, now: Duration) -> Option<Unanswered> {
        match self.unanswered {
            _ if self.due > now => None,
            LOST_AFTER.. => Some(Unanswered::Lost),
            SILENT_AFTER => Some(Unanswered::Silent),
            _ => None,
        }
    }
}
