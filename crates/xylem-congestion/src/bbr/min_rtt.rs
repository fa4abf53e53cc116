//! The round trip without a queue, and the probes for it, in which a flow shrinks its window (draft section 5.3.4).

use core::time::Duration;

use super::model::AckPhase;
use super::{Bbr, BbrPhase};

/// Section 2.13: validity of the smallest round trip, interval of the probes for it, and their duration.
const MIN_RTT_VALIDITY: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_secs(5);
const DURATION: Duration = Duration::from_millis(200);
/// Section 2.13: the window during a probe, in bandwidth-delay products.
const WINDOW_GAIN: f64 = 0.5;

/// A round trip that is longer by less than 1/32 also shows an empty queue. The draft requires one that is not longer
/// at all, so that a flow alone on its path stops every 5 s for nothing.
const NEAR_MIN_DIVISOR: u32 = 32;

#[derive(Clone, Debug)]
pub(super) struct MinRtt {
    min: Option<Duration>,
    at: Duration,
    /// The smallest since the last probe; it refreshes `min`.
    recent: Option<Duration>,
    recent_at: Duration,
    /// Earliest end of the current probe, and whether a round has passed since its beginning.
    done_at: Option<Duration>,
    round_done: bool,
    /// Whether the flow was idle, so that the next round trip is as good as a probe.
    pub(super) idle_restart: bool,
}

impl MinRtt {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            min: None,
            at: now,
            recent: None,
            recent_at: now,
            done_at: None,
            round_done: false,
            idle_restart: false,
        }
    }

    pub(super) fn get(&self) -> Option<Duration> {
        self.min
    }
}

impl Bbr {
    pub(super) fn update_min_rtt(&mut self, now: Duration, rtt: Duration, in_flight: u64) {
        let m = &mut self.min_rtt;
        let expired = now > m.recent_at + INTERVAL;
        match m.recent {
            Some(recent) if !expired && rtt > recent => {
                // As good as the smallest: there is no queue, so no probe is needed.
                if rtt <= recent + recent / NEAR_MIN_DIVISOR {
                    m.recent_at = now;
                }
            }
            _ => (m.recent, m.recent_at) = (Some(rtt), now),
        }
        let stale = now > m.at + MIN_RTT_VALIDITY;
        if m.recent < m.min || m.min.is_none() || stale {
            (m.min, m.at) = (m.recent, m.recent_at);
        }
        if self.phase != BbrPhase::ProbeRtt && expired && !self.min_rtt.idle_restart {
            self.start_probe_rtt();
        }
        if self.phase == BbrPhase::ProbeRtt {
            self.advance_probe_rtt(now, in_flight);
        }
        self.min_rtt.idle_restart = false;
    }

    fn start_probe_rtt(&mut self) {
        self.prior_window = self.window;
        self.phase = BbrPhase::ProbeRtt;
        self.min_rtt.done_at = None;
        self.cycle.acks = AckPhase::ProbeStopping;
        self.start_round();
    }

    pub(super) fn probe_rtt_window(&self) -> u64 {
        self.bdp(WINDOW_GAIN).max(self.min_window())
    }

    /// Returns whether the window is cut for a probe, so that delivery rates say little about the path.
    pub(crate) fn is_holding_back(&self) -> bool {
        self.phase == BbrPhase::ProbeRtt
    }

    fn advance_probe_rtt(&mut self, now: Duration, in_flight: u64) {
        match self.min_rtt.done_at {
            None if in_flight <= self.probe_rtt_window() => {
                self.min_rtt.done_at = Some(now + DURATION);
                self.min_rtt.round_done = false;
                self.start_round();
            }
            None => {}
            Some(_) => {
                self.min_rtt.round_done |= self.round.started;
                if self.min_rtt.round_done {
                    self.end_probe_rtt(now);
                }
            }
        }
    }

    pub(super) fn end_probe_rtt(&mut self, now: Duration) {
        if self.min_rtt.done_at.is_none_or(|at| now <= at) {
            return;
        }
        self.min_rtt.recent_at = now;
        self.window = self.window.max(self.prior_window);
        self.bounds.forget_short_term();
        if self.full_bw.reached {
            self.start_down(now);
            self.phase = BbrPhase::Cruise;
        } else {
            self.phase = BbrPhase::Startup;
        }
    }
}
