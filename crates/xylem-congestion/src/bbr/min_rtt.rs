//! The round trip without a queue, and the moments at which a flow gets out of its own way to see it
//! (draft section 5.3.4).

use core::time::Duration;

use super::model::Acks;
use super::{Bbr, Phase};

/// Section 2.13: how long the smallest round trip holds, how often it is looked for, and for how long.
const HOLDS: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_secs(5);
const DURATION: Duration = Duration::from_millis(200);
/// Section 2.13: the window while it is looked for, in bandwidth-delay products.
const WINDOW_GAIN: f64 = 0.5;

/// A round trip that is longer by less than this share shows an empty queue as well. The draft wants
/// one that is not longer at all, so that a flow alone on its path stops every 5 s for nothing.
const CLOSE: u32 = 32;

#[derive(Clone, Debug)]
pub(super) struct MinRtt {
    min: Option<Duration>,
    at: Duration,
    /// The smallest since the last look, which refreshes `min`.
    recent: Option<Duration>,
    recent_at: Duration,
    /// When a look that has begun may end, and whether a round has passed since it began.
    done_at: Option<Duration>,
    round_done: bool,
    /// The flow was idle, so that the next round trip is as good as one that was looked for.
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
                // As good as the smallest: there is no queue, and no need to make sure of it.
                if rtt <= recent + recent / CLOSE {
                    m.recent_at = now;
                }
            }
            _ => (m.recent, m.recent_at) = (Some(rtt), now),
        }
        let stale = now > m.at + HOLDS;
        if m.recent < m.min || m.min.is_none() || stale {
            (m.min, m.at) = (m.recent, m.recent_at);
        }
        if self.phase != Phase::ProbeRtt && expired && !self.min_rtt.idle_restart {
            self.start_probe_rtt();
        }
        if self.phase == Phase::ProbeRtt {
            self.look(now, in_flight);
        }
        self.min_rtt.idle_restart = false;
    }

    fn start_probe_rtt(&mut self) {
        self.prior_window = self.window;
        self.phase = Phase::ProbeRtt;
        self.min_rtt.done_at = None;
        self.cycle.acks = Acks::ProbeStopping;
        self.start_round();
    }

    pub(super) fn probe_rtt_window(&self) -> u64 {
        self.bdp(WINDOW_GAIN).max(self.min_window())
    }

    /// What is sent meanwhile says little of the path.
    pub(crate) fn is_holding_back(&self) -> bool {
        self.phase == Phase::ProbeRtt
    }

    fn look(&mut self, now: Duration, in_flight: u64) {
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
            self.phase = Phase::Cruise;
        } else {
            self.phase = Phase::Startup;
        }
    }
}
