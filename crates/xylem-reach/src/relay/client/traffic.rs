//! [`RelayTraffic`]: notices from the datagrams of peers that the path to the relay may be broken.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::time::Duration;

use super::{RETRY, SHORTEST};

/// This many inner datagrams count as traffic. When traffic stops for [`RETRY`], the path to the relay may be broken,
/// and a keep-alive tests it at once. So does one when nothing comes back of what was sent, at most every [`SHORTEST`].
const TRAFFIC: u32 = 16;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct RelayTraffic {
    /// When the last datagram came.
    received_at: Duration,
    /// Inner datagrams received, until silence has been tested.
    count: u32,
    /// When the first inner datagram was sent after the last one that has come from the relay.
    sent: Option<Duration>,
    /// Until when unanswered inner datagrams cause no keep-alive.
    tested: Duration,
}

/// Why a keep-alive is to test the path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PathTest {
    /// Traffic has stopped.
    Silence,
    /// Nothing came back of what was sent.
    Unanswered,
}

impl RelayTraffic {
    /// Begins anew with a registration.
    pub(super) fn begin(&mut self, now: Duration) {
        *self = Self { received_at: now, count: 0, sent: None, tested: now };
    }

    /// Notes that inner datagrams were sent.
    pub(super) fn on_sent(&mut self, now: Duration) {
        if self.sent.is_none() && now >= self.tested {
            self.sent = Some(now);
        }
    }

    /// Notes that an inner datagram has come.
    pub(super) fn on_received(&mut self, now: Duration) {
        (self.received_at, self.sent) = (now, None);
        self.count = self.count.saturating_add(1);
    }

    /// Notes that a keep-alive was answered. Traffic is not reset: the path may break right after this answer.
    pub(super) fn on_answer(&mut self, now: Duration) {
        self.received_at = now;
        // The peer may stay silent: it is not the relay's.
        (self.sent, self.tested) = (None, now.saturating_add(SHORTEST));
    }

    fn silent_at(&self) -> Option<Duration> {
        (self.count >= TRAFFIC).then(|| self.received_at.saturating_add(RETRY))
    }

    fn unanswered_at(&self) -> Option<Duration> {
        self.sent.map(|sent| sent.saturating_add(RETRY))
    }

    /// When [`Self::poll`] is due.
    pub(super) fn next_timeout(&self) -> Option<Duration> {
        self.silent_at().into_iter().chain(self.unanswered_at()).min()
    }

    /// The tests that are due now; each is due once.
    pub(super) fn poll(&mut self, now: Duration) -> impl Iterator<Item = PathTest> + use<> {
        let is_due = |at: Option<Duration>| at.is_some_and(|at| now >= at);
        let (silent, unanswered) = (is_due(self.silent_at()), is_due(self.unanswered_at()));
        if silent {
            self.count = 0;
        }
        if unanswered {
            (self.sent, self.tested) = (None, now.saturating_add(SHORTEST));
        }
        let silence = silent.then_some(PathTest::Silence);
        silence.into_iter().chain(unanswered.then_some(PathTest::Unanswered))
    }
}
