//! [`InitialSchedule`]: when a dialer sends an initial, or the rest of one, and in which envelope.

use core::time::Duration;

use super::DialedBy;

/// Wait before the first retransmission of a handshake message; doubles each time.
pub(super) const HANDSHAKE_RETRY: Duration = Duration::from_millis(250);
/// Longest wait between retransmissions.
const MAX_RETRY_WAIT: Duration = Duration::from_secs(2);
/// Most initials sent out of turn, because of a retry or of responses that were dropped unprocessed.
const MAX_EXTRA_INITIALS: u8 = 200;
/// Shortest time between two of them.
const EXTRA_INITIAL_INTERVAL: Duration = Duration::from_millis(25);

/// See the module's documentation. While the dial `rests`, because it has links, nothing is sent of our own accord.
pub(super) struct InitialSchedule {
    /// Initials sent in turn.
    sent: u32,
    /// When an initial is due out of turn. `extra_initials`: how many were sent so, and when the last one was.
    hurry: Option<Duration>,
    extra_initials: (u8, Option<Duration>),
    /// When the first initial was sent.
    begun: Option<Duration>,
    /// When the rest of the message is due, in the same envelope as the initial before, and how often. It goes again
    /// after a quarter of the wait, in case the first one overtook the initial.
    rest_due: Option<(Duration, DialedBy, u8)>,
    next: Duration,
    wait: Duration,
}

impl InitialSchedule {
    /// The first initial is due now.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            sent: 0,
            hurry: None,
            extra_initials: (0, None),
            begun: None,
            rest_due: None,
            next: now,
            wait: HANDSHAKE_RETRY,
        }
    }

    /// When something is due.
    pub(super) fn next_timeout(&self, rests: bool) -> Option<Duration> {
        let rest = self.rest_due.map(|(at, ..)| at);
        let next = (!rests).then_some(self.next);
        [rest, next, self.hurry].into_iter().flatten().min()
    }

    /// The envelope of the rest of a message, if one is due.
    pub(super) fn poll_rest(&mut self, now: Duration) -> Option<DialedBy> {
        let (_, by, left) = self.rest_due.filter(|(at, ..)| *at <= now)?;
        self.rest_due = (left > 1).then_some((now + self.wait / 8, by, left - 1));
        Some(by)
    }

    /// The envelope of the initial that is due, if one is. `may_ask`: each other one may go in the open envelope.
    /// `has_rest`: a rest follows each.
    pub(super) fn poll_initial(
        &mut self,
        now: Duration,
        rests: bool,
        may_ask: bool,
        has_rest: bool,
    ) -> Option<DialedBy> {
        let by = self.due_envelope(now, rests, may_ask)?;
        self.rest_due = has_rest.then_some((now, by, 2));
        Some(by)
    }

    fn due_envelope(&mut self, now: Duration, rests: bool, may_ask: bool) -> Option<DialedBy> {
        if self.hurry.is_some_and(|at| at <= now) {
            self.hurry = None;
            self.extra_initials = (self.extra_initials.0.saturating_add(1), Some(now));
            return Some(DialedBy::Key);
        }
        if rests || now < self.next {
            return None;
        }
        self.next = now + self.wait;
        self.wait = (self.wait * 2).min(MAX_RETRY_WAIT);
        self.begun.get_or_insert(now);
        self.sent += 1;
        let ask = self.sent > 2 && self.sent % 2 == 1 && may_ask;
        Some(if ask { DialedBy::Address } else { DialedBy::Key })
    }

    /// Has an initial sent out of turn, but not too often: an attacker that triggers it with forgeries must not make us
    /// flood the peer.
    pub(super) fn hurry(&mut self, now: Duration) {
        let (count, last) = self.extra_initials;
        if count < MAX_EXTRA_INITIALS {
            let at = last.map_or(now, |last| now.max(last + EXTRA_INITIAL_INTERVAL));
            self.hurry = Some(self.hurry.map_or(at, |hurry| hurry.min(at)));
        }
    }

    /// The path's round trip, where it is certain which initial was answered (Karn's rule).
    pub(super) fn round_trip(&self, now: Duration) -> Option<Duration> {
        let is_one = self.sent == 1 && self.extra_initials.0 == 0;
        self.begun.filter(|_| is_one).map(|begun| now.saturating_sub(begun))
    }

    /// Handles an accepted answer: its sender has the whole message.
    pub(super) fn on_answered(&mut self) {
        self.rest_due = None;
    }

    /// Begins anew, after the last link of the dial has ended.
    pub(super) fn begin_again(&mut self) {
        // Due at once: zero is in the past.
        (self.wait, self.next) = (HANDSHAKE_RETRY, Duration::ZERO);
    }
}
