//! BBR version 3 (draft-ietf-ccwg-bbr): a model of the path, and a rate and window that follow from it.
//!
//! The model has these parts:
//!
//! - the bottleneck's bandwidth (`max_bw`, the highest delivery rate of the last two probing cycles);
//! - the round trip without a queue (`min_rtt`, of the last 10 s);
//! - the bytes that can be under way before more than 2 % is lost (`inflight_long`);
//! - short-term bounds from losses while not probing.
//!
//! Sending is paced at the bandwidth, and alternately slightly above it, to find more, and below it, to drain the queue
//! that this has built.
//!
//! This module has the state machine; `model` has the bounds, `cycle` the bandwidth probing, `min_rtt` the round trip.
//! It departs from the draft as follows:
//!
//! - Explicit marks, which the draft leaves open, bound the rate in a round as losses do. They end startup or a probe
//!   at once, since a mark is never random.
//! - A queue that stays ends startup before losses do (`startup`).
//! - A round with losses that ends without a queue bounds nothing.
//! - The loss threshold holds for the path's packets, of which one of our packets may take several.
//! - Where the draft makes way for Reno, Reno's packets count, not ours, which may be larger.
//! - A round trip close to the smallest renews it.

mod cycle;
mod excess;
mod filter;
mod min_rtt;
mod model;
mod startup;

use core::time::Duration;

use crate::cubic::Cubic;
use crate::delivery::Sample;
use crate::rtt::Rtt;
use excess::RandomLoss;
use filter::MaxFilter;
use min_rtt::MinRtt;
use model::{Bounds, Saved};
use startup::{FullBw, SAMPLES, StartupCaution};

/// Section 2.8: 4 ln 2, the least gain with which the rate doubles each round; and the gain of the window.
const STARTUP_PACING_GAIN: f64 = 2.77;
const CWND_GAIN: f64 = 2.0;
/// Section 2.8: drains the queue that startup may have built in about a round.
const DRAIN_PACING_GAIN: f64 = 0.5;
/// Bytes under way after a flood, in bandwidth-delay products: more than one, as lost packets are repaired meanwhile.
const FLOODED_GAIN: f64 = 1.5;
/// Section 2.5: the rate is 1 % below the model's, so that queues drain in the long run.
const PACING_MARGIN: f64 = 0.99;
/// Section 2.7: the smallest window, in packets.
const MIN_WINDOW: u64 = 4;
/// Initial window, in packets.
const INITIAL_WINDOW: u64 = 16;
/// Section 5.3.1.3: startup ends at a round with this many losses, if they exceed the threshold.
const STARTUP_LOSSES: u32 = 6;
/// Section 2.10: rounds for which the degree of aggregation is remembered.
const EXTRA_ACKED_ROUNDS: u64 = 10;
/// Section 5.6.3: bytes sent at once: 1 ms at the rate, at least 2 packets, at most 64 KiB.
const QUANTA_PER_SECOND: f64 = 1_000.0;
const MIN_QUANTUM: u64 = 2;
const MAX_QUANTUM: u64 = 64 << 10;

/// States of section 5.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BbrPhase {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl BbrPhase {
    fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// Returns whether the phase probes, so that losses are expected.
    fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    fn pacing_gain(self) -> f64 {
        match self {
            Self::Startup => STARTUP_PACING_GAIN,
            Self::Drain => DRAIN_PACING_GAIN,
            Self::Down => 0.9,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 1.0,
            Self::Up => 1.25,
        }
    }

    fn window_gain(self) -> f64 {
        match self {
            Self::Up => 2.25,
            Self::ProbeRtt => 0.5,
            _ => CWND_GAIN,
        }
    }
}

/// A round ends when a packet arrives that was sent after its beginning.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    end: u64,
    count: u64,
    /// Whether the current acknowledgement began a round.
    started: bool,
}

/// Bytes that arrive at once beyond what the rate explains (section 5.5.9).
#[derive(Clone, Debug)]
struct Aggregation {
    since: Duration,
    delivered: f64,
    extra: MaxFilter,
}

/// One flow. Windows are in bytes, rates in bytes a second.
#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    packet: u64,
    phase: BbrPhase,
    round: Round,
    full_bw: FullBw,
    caution: StartupCaution,
    max_bw: MaxFilter,
    /// Number of probing cycles: the clock of `max_bw`.
    cycles: u64,
    bounds: Bounds,
    excess: RandomLoss,
    cycle: cycle::ProbeCycle,
    min_rtt: MinRtt,
    aggregation: Aggregation,
    saved: Option<Saved>,
    window: u64,
    /// The window before it was cut for a probe of the round trip or after silence.
    prior_window: u64,
    pacing_rate: f64,
    delivered: u64,
    /// Whether the window was full in this round and in the last.
    limited: [bool; 2],
}

impl Bbr {
    pub(crate) fn new(now: Duration, packet: u64) -> Self {
        Self {
            packet,
            phase: BbrPhase::Startup,
            round: Round::default(),
            full_bw: FullBw::default(),
            caution: StartupCaution::default(),
            max_bw: MaxFilter::new(),
            cycles: 0,
            bounds: Bounds::default(),
            excess: RandomLoss::default(),
            cycle: cycle::ProbeCycle::new(now),
            min_rtt: MinRtt::new(now),
            aggregation: Aggregation { since: now, delivered: 0.0, extra: MaxFilter::new() },
            saved: None,
            window: packet * INITIAL_WINDOW,
            prior_window: 0,
            pacing_rate: f64::INFINITY,
            delivered: 0,
            limited: [false; 2],
        }
    }

    /// A CUBIC flow with this window and packet size.
    pub(crate) fn as_cubic(&self) -> Cubic {
        Cubic::from_window(self.packet, self.window, self.delivered)
    }

    pub(crate) fn set_packet_bytes(&mut self, bytes: u64) {
        self.packet = bytes;
        self.window = self.window.max(self.min_window());
    }

    pub(crate) fn set_packets_per_unit(&mut self, packets: u32) {
        self.bounds.set_datagrams(packets);
    }

    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    pub(crate) fn pacing_rate(&self) -> u64 {
        self.pacing_rate as u64 // infinity becomes u64::MAX
    }

    /// Small: the flow's own bursts would build queues that distort the model.
    pub(crate) fn least_burst(&self) -> u64 {
        self.packet * MIN_WINDOW
    }

    fn min_window(&self) -> u64 {
        self.packet * MIN_WINDOW
    }

    /// Handles a sent packet; `in_flight_before` does not count it.
    pub(crate) fn on_sent(&mut self, now: Duration, in_flight_before: u64, bytes: u64, app: bool) {
        self.limited[0] |= in_flight_before + bytes + self.packet > self.window;
        if in_flight_before == 0 && app {
            self.restart_from_idle(now);
        }
    }

    /// Section 5.4.1: the queue has drained while nothing was sent.
    fn restart_from_idle(&mut self, now: Duration) {
        self.min_rtt.idle_restart = true;
        self.aggregation.since = now;
        self.aggregation.delivered = 0.0;
        if self.phase.is_probe_bw() {
            self.set_pacing_rate(1.0);
        } else if self.phase == BbrPhase::ProbeRtt {
            self.end_probe_rtt(now);
        }
    }

    /// Handles the arrival of the packets of one acknowledgement (section 5.2.3).
    pub(crate) fn on_ack(
        &mut self,
        now: Duration,
        sample: &Sample,
        delivered: u64,
        rtt: &Rtt,
        in_flight: u64,
    ) {
        self.delivered = delivered;
        self.note_rounds(sample);
        // There may be no round trip yet, if the first packet was sent twice.
        let latest = rtt.smoothed().map(|_| rtt.latest());
        if let (Some(latest), Some(min)) = (latest, self.min_rtt.get()) {
            self.excess.on_round_trip(latest, min, rtt.smoothed().unwrap_or(latest));
        }
        if self.round.started {
            self.excess.end_round(delivered, sample.lost_in_all);
        }
        self.note_bandwidth(sample);
        self.adapt_short_term(sample, rtt.latest());
        self.judge_probe(now, sample);
        self.note_aggregation(now, sample);
        self.check_full_bw(sample, latest);
        self.check_startup_loss(sample);
        if self.phase == BbrPhase::Startup && self.full_bw.reached {
            self.phase = BbrPhase::Drain;
        }
        if self.phase == BbrPhase::Drain && self.fills_path_once(in_flight) {
            self.start_down(now);
        }
        if self.full_bw.reached {
            self.adapt_long_term(sample);
            self.advance_cycle(now, sample, in_flight);
        }
        if let Some(latest) = latest {
            self.update_min_rtt(now, latest, in_flight);
        }
        self.bounds.advance(sample);
        if self.pacing_rate.is_infinite() {
            self.first_pacing_rate(rtt);
        }
        self.set_pacing_rate(self.pacing_gain());
        self.set_window(sample);
    }

    /// The bandwidth-delay product times `gain`, at the current bandwidth.
    fn bdp(&self, gain: f64) -> u64 {
        match self.min_rtt.get() {
            Some(min) => (gain * self.bw() * min.as_secs_f64()) as u64,
            None => self.packet * INITIAL_WINDOW,
        }
    }

    /// Returns whether at most as much is under way as the path holds without a queue. If the path repairs losses,
    /// bytes are under way for long without being on the path; then round trips decide.
    fn fills_path_once(&self, in_flight: u64) -> bool {
        in_flight <= self.bdp(1.0) || (self.excess.is_on() && !self.excess.has_queue())
    }

    fn bw(&self) -> f64 {
        self.max_bw.get().min(self.bounds.bw_short)
    }

    /// Section 5.6.4.2: makes room in the window for packets that are sent, or acknowledged, at once.
    fn quantized(&self, in_flight: u64) -> u64 {
        let probe = if self.phase == BbrPhase::Up { 2 * self.packet } else { 0 };
        in_flight.max(3 * self.quantum()).max(self.min_window()) + probe
    }

    fn quantum(&self) -> u64 {
        let rate = if self.pacing_rate.is_finite() { self.pacing_rate } else { 0.0 };
        ((rate / QUANTA_PER_SECOND) as u64).min(MAX_QUANTUM).max(MIN_QUANTUM * self.packet)
    }

    fn note_rounds(&mut self, sample: &Sample) {
        self.round.started = sample.prior_delivered >= self.round.end;
        if self.round.started {
            self.start_round();
            self.round.count += 1;
            self.cycle.rounds += 1;
            self.limited = [false, self.limited[0]];
        }
    }

    fn start_round(&mut self) {
        self.round.end = self.delivered;
    }

    fn is_window_limited(&self) -> bool {
        self.limited[0] || self.limited[1]
    }

    fn note_bandwidth(&mut self, sample: &Sample) {
        if let Some(rate) = sample.rate
            && (rate >= self.max_bw.get() || !sample.app_limited)
        {
            self.max_bw.update(1, self.cycles, rate);
        }
    }

    fn note_aggregation(&mut self, now: Duration, sample: &Sample) {
        let bw = self.bw();
        let a = &mut self.aggregation;
        let expected = |since| bw * now.saturating_sub(since).as_secs_f64();
        if a.delivered <= expected(a.since) {
            (a.delivered, a.since) = (0.0, now);
        }
        a.delivered += sample.newly_delivered as f64;
        let extra = (a.delivered - expected(a.since)).min(self.window as f64);
        let rounds = if self.full_bw.reached { EXTRA_ACKED_ROUNDS } else { 1 };
        a.extra.update(rounds, self.round.count, extra.max(0.0));
    }

    fn check_full_bw(&mut self, sample: &Sample, latest: Option<Duration>) {
        if self.round.started {
            let clear = self.excess.is_random() && !self.excess.has_queue();
            self.full_bw.end_round(sample, clear);
        }
        if let (BbrPhase::Startup, Some(latest), Some(min)) =
            (self.phase, latest, self.min_rtt.get())
        {
            let (begins, enough) = (self.round.started, self.excess.samples(SAMPLES));
            self.full_bw.reached |= self.caution.on_round_trip(latest, min, begins, enough);
        }
    }

    fn check_startup_loss(&mut self, sample: &Sample) {
        if self.phase != BbrPhase::Startup || !self.bounds.round_started {
            return;
        }
        let too_many = self.bounds.losses_last_round >= STARTUP_LOSSES && self.is_too_high(sample);
        if too_many || self.bounds.marked_last_round {
            self.full_bw.reached = true;
            // In a flood, repairs make rounds longer, and a round delivers more than the path holds.
            self.bounds.inflight_long = match self.excess.is_flooded() {
                true => self.bdp(FLOODED_GAIN),
                false => self.bdp(1.0).max(self.bounds.inflight_latest),
            };
        }
    }

    /// Section 5.6.2: before there is a bandwidth estimate, the rate is the first window over the first round trip.
    fn first_pacing_rate(&mut self, rtt: &Rtt) {
        let Some(smoothed) = rtt.smoothed() else { return };
        let nominal = self.window as f64 / smoothed.as_secs_f64().max(1e-6);
        self.pacing_rate = STARTUP_PACING_GAIN * nominal;
    }

    fn pacing_gain(&self) -> f64 {
        if self.is_cautious() { 1.0 } else { self.phase.pacing_gain() }
    }

    fn is_cautious(&self) -> bool {
        self.phase == BbrPhase::Startup && self.caution.is_on()
    }

    fn set_pacing_rate(&mut self, gain: f64) {
        let rate = gain * self.bw() * PACING_MARGIN;
        if rate > 0.0 && (self.full_bw.reached || self.is_cautious() || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// Sets the window (section 5.6.4).
    fn set_window(&mut self, sample: &Sample) {
        // Packets that are repaired or requested again are under way for longer.
        let inflight = self.bdp(self.phase.window_gain() * self.excess.stretch());
        let most = self.quantized(inflight + self.aggregation.extra.get() as u64);
        let grown = self.window + sample.newly_delivered;
        if self.full_bw.reached {
            self.window = grown.min(most);
        } else if self.window < most || self.delivered < self.packet * INITIAL_WINDOW {
            self.window = grown;
        }
        if self.phase == BbrPhase::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window());
        }
        self.window = self.window.min(self.model_window()).max(self.min_window());
    }

    /// Section 5.6.4.7: the window that the bounds allow.
    fn model_window(&self) -> u64 {
        let long = match self.phase {
            BbrPhase::Down | BbrPhase::Refill | BbrPhase::Up => self.bounds.inflight_long,
            BbrPhase::Cruise | BbrPhase::ProbeRtt => self.inflight_with_headroom(),
            BbrPhase::Startup | BbrPhase::Drain => u64::MAX,
        };
        long.min(self.bounds.inflight_short)
    }

    /// Section 5.6.4.4: no packet is known to arrive, so the window shrinks to the minimum until one does.
    pub(crate) fn on_persistent_congestion(&mut self) {
        self.prior_window = self.prior_window.max(self.window);
        self.window = self.min_window();
        self.saved = None;
    }
}
