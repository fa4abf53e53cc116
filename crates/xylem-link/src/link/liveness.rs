//! [`Liveness`]: when the peer was last received, the pings that test whether it is there, and the round trip.

use core::time::Duration;

/// Shortest wait for an acknowledgement: the peer's thread may be busy.
const MIN_WAIT: Duration = Duration::from_millis(200);
/// Longest wait for an acknowledgement; half of it applies before the round trip has been measured.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(1);
/// How long pings may go unanswered before a link counts as silent.
const UNANSWERED: Duration = Duration::from_millis(2_500);
/// The first ping follows after this much silence, or three round trips, on a link in use: it detects a path that fails
/// in the middle.
const SILENCE_BEFORE_PING: Duration = Duration::from_millis(300);
/// Number of such early pings in a row; after them pings are as rare as on an idle link.
const EARLY_PINGS: u8 = 3;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Liveness {
    idle_timeout: Duration,
    keep_alive: Option<Duration>,
    last_received: Duration,
    /// Token and time of the last ping, until it is answered.
    ping: Option<(u64, Duration)>,
    /// Early pings left: they follow soon after silence while the program uses the link.
    early_pings: u8,
    /// Smoothed; `None` until it was measured on the path in use.
    rtt: Option<Duration>,
}

impl Liveness {
    /// `rtt`: what the handshake has measured.
    pub(super) fn new(
        now: Duration,
        idle_timeout: Duration,
        keep_alive: Option<Duration>,
        rtt: Option<Duration>,
    ) -> Self {
        Self { idle_timeout, keep_alive, last_received: now, ping: None, early_pings: 0, rtt }
    }

    pub(super) fn last_received(&self) -> Duration {
        self.last_received
    }

    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// Records a datagram of the peer.
    #[inline]
    pub(super) fn on_received(&mut self, now: Duration) {
        self.last_received = now;
    }

    /// Records that a program uses the link: silence is noticed soon.
    #[inline]
    pub(super) fn on_use(&mut self) {
        self.early_pings = EARLY_PINGS;
    }

    /// Takes a sample of the round trip.
    pub(super) fn measured(&mut self, sample: Duration) {
        self.rtt = Some(self.rtt.map_or(sample, |rtt| (rtt * 7 + sample) / 8));
    }

    /// Records a sent ping.
    pub(super) fn on_ping(&mut self, now: Duration, token: u64) {
        self.ping = Some((token, now));
        self.early_pings = self.early_pings.saturating_sub(1);
    }

    /// Takes an answer. Returns whether it answers the last ping, which is then a sample of the round trip.
    pub(super) fn on_pong(&mut self, now: Duration, token: u64) -> bool {
        let Some((_, sent)) = self.ping.filter(|(expected, _)| *expected == token) else {
            return false;
        };
        (self.ping, self.early_pings) = (None, 0);
        self.measured(now.saturating_sub(sent));
        true
    }

    /// Handles a move to another path, of which nothing is known.
    pub(super) fn on_new_path(&mut self) {
        self.rtt = None;
    }

    /// How long to wait for an acknowledgement.
    pub(super) fn wait(&self) -> Duration {
        self.rtt.map_or(MAX_WAIT / 2, |rtt| (rtt * 3).clamp(MIN_WAIT, MAX_WAIT))
    }

    /// When the link ends for idleness.
    pub(super) fn idle_at(&self) -> Duration {
        self.last_received + self.idle_timeout
    }

    /// Returns whether nothing has arrived since the last pings, of which two or three have been sent.
    pub(super) fn is_silent(&self, now: Duration) -> bool {
        self.keep_alive.is_some_and(|after| now >= self.last_received + after + UNANSWERED)
    }

    /// When the next ping is due: after silence, and sooner when the last one was not answered.
    pub(super) fn ping_at(&self) -> Option<Duration> {
        let keep_alive = self.keep_alive?;
        let after = |quiet, again| {
            let quiet = self.last_received + quiet;
            self.ping.map_or(quiet, |(_, sent)| quiet.max(sent + again))
        };
        let rare = after(keep_alive, MAX_WAIT.min(keep_alive));
        let pause = self.wait().max(SILENCE_BEFORE_PING);
        Some(if self.early_pings > 0 { rare.min(after(pause, pause)) } else { rare })
    }

    /// When the peer is searched at other addresses: it has left a ping unanswered, or half the idle timeout is over.
    pub(super) fn search_at(&self) -> Duration {
        let half = self.last_received + self.idle_timeout / 2;
        let unanswered = self.ping.filter(|(_, sent)| *sent >= self.last_received);
        unanswered.map_or(half, |(_, sent)| half.min(sent + self.wait()))
    }
}
