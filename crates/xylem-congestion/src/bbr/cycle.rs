//! The cycle of bandwidth probing (draft section 5.3.3): down, cruise, refill, up, and again.

use core::time::Duration;

use super::model::AckPhase;
use super::{Bbr, BbrPhase};
use crate::SplitMix64;
use crate::delivery::Sample;

/// Section 5.3.3.5.3: most rounds between two probes, so that the flow is fair to Reno and CUBIC flows on short paths.
const MAX_ROUNDS: u64 = 63;
/// Packet size of those flows: the content of an Ethernet frame, however large our packets are.
const RENO_PACKET: u64 = 1_448;
/// The wait between probes, and the random time added to it.
const WAIT: Duration = Duration::from_secs(2);
const WAIT_SPREAD_MS: u64 = 1_000;
/// Most rounds in which the slope of a probe doubles.
const MAX_UP_ROUNDS: u32 = 30;

#[derive(Clone, Debug)]
pub(super) struct ProbeCycle {
    pub(super) acks: AckPhase,
    /// Rounds since the last probe began to end.
    pub(super) rounds: u64,
    since: Duration,
    wait: Duration,
    up_rounds: u32,
    /// Bytes delivered for each packet by which the bound is raised, and the bytes delivered but not yet counted.
    up_bytes: u64,
    up_delivered: u64,
}

impl ProbeCycle {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            acks: AckPhase::Other,
            rounds: 0,
            since: now,
            wait: WAIT,
            up_rounds: 0,
            up_bytes: u64::MAX,
            up_delivered: 0,
        }
    }
}

impl Bbr {
    /// Takes the next step of the cycle, if it is due.
    pub(super) fn advance_cycle(&mut self, now: Duration, sample: &Sample, in_flight: u64) {
        let phase = self.phase;
        match phase {
            BbrPhase::Down if self.is_time_to_probe(now) => self.start_refill(),
            BbrPhase::Down if self.is_drained(in_flight) => self.phase = BbrPhase::Cruise,
            BbrPhase::Cruise if self.is_time_to_probe(now) => self.start_refill(),
            // One round at the estimated bandwidth has filled the path: now send slightly more.
            BbrPhase::Refill if self.round.started => {
                self.bounds.judging_probe = true;
                self.start_up(now, sample.rate.unwrap_or(0.0));
            }
            BbrPhase::Up if self.has_probed_enough(sample) => self.start_down(now),
            _ => {}
        }
    }

    fn is_time_to_probe(&self, now: Duration) -> bool {
        let reno = (self.target_inflight() / self.packet.min(RENO_PACKET)).min(MAX_ROUNDS);
        now > self.cycle.since + self.cycle.wait || self.cycle.rounds >= reno
    }

    fn is_drained(&self, in_flight: u64) -> bool {
        in_flight <= self.inflight_with_headroom() && self.fills_path_once(in_flight)
    }

    fn has_probed_enough(&mut self, sample: &Sample) -> bool {
        if self.is_window_limited() && self.window >= self.bounds.inflight_long {
            // The bound limits the flow, not the path, so the bandwidth could not grow yet.
            self.full_bw.reset();
            self.full_bw.bw = sample.rate.unwrap_or(0.0);
            return false;
        }
        self.full_bw.now
    }

    pub(super) fn start_down(&mut self, now: Duration) {
        self.bounds.forget_signals();
        self.cycle.up_bytes = u64::MAX;
        // Time and byte count are random enough to keep flows from probing in step.
        let mut chance = SplitMix64::new(now.as_nanos() as u64 ^ self.delivered.rotate_left(32));
        self.cycle.rounds = chance.next_u64() % 2;
        self.cycle.wait = WAIT + Duration::from_millis(chance.next_u64() % WAIT_SPREAD_MS);
        self.cycle.since = now;
        self.cycle.acks = AckPhase::ProbeStopping;
        self.start_round();
        self.phase = BbrPhase::Down;
    }

    fn start_refill(&mut self) {
        self.bounds.forget_short_term();
        (self.cycle.up_rounds, self.cycle.up_delivered) = (0, 0);
        self.cycle.acks = AckPhase::Refilling;
        self.start_round();
        self.phase = BbrPhase::Refill;
    }

    pub(super) fn start_up(&mut self, now: Duration, rate: f64) {
        self.cycle.acks = AckPhase::ProbeStarting;
        self.start_round();
        self.full_bw.reset();
        self.full_bw.bw = rate;
        self.cycle.since = now;
        self.phase = BbrPhase::Up;
        self.raise_slope();
    }

    /// Section 5.3.3.6: raises the bound by one packet in the first round, and twice as fast in each following one.
    fn raise_slope(&mut self) {
        let growth = 1_u64 << self.cycle.up_rounds;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(MAX_UP_ROUNDS);
        self.cycle.up_bytes = (self.window / growth).max(self.packet);
    }

    pub(super) fn raise_long_term(&mut self, delivered: u64) {
        if !self.is_window_limited() || self.window < self.bounds.inflight_long {
            return;
        }
        self.cycle.up_delivered += delivered;
        let packets = self.cycle.up_delivered / self.cycle.up_bytes;
        self.cycle.up_delivered -= packets * self.cycle.up_bytes;
        self.bounds.inflight_long += packets * self.packet;
        if self.round.started {
            self.raise_slope();
        }
    }
}
