//! CUBIC (RFC 9438): fast convergence, the Reno-friendly region, slow start with HyStart++.
//!
//! The window grows with arrivals, and only while the flow fills it. It shrinks for losses and marks, at most once a
//! round trip. Reductions that prove spurious are undone (RFC 9438 section 4.9). The unit of growth is the usual
//! packet; the RFC uses an MSS.

use core::time::Duration;

use crate::delivery::SentPacket;
use crate::hystart::HyStart;
use crate::math::cbrt;
use crate::repaired::RepairedLosses;
use crate::rtt::Rtt;

/// RFC 9438 section 4.6: factor of the window after a loss.
const BETA: f64 = 0.7;
/// RFC 9438 section 5.1: growth of the cubic, in packets per second cubed.
const C: f64 = 0.4;
/// RFC 9438 section 4.3: additive increase that is as fast as Reno's with this BETA.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Initial window, in packets.
const INITIAL_WINDOW: u64 = 16;
/// Smallest window, in packets: a smaller one gives loss detection nothing to compare with.
const MIN_WINDOW: u64 = 2;
/// Sending is spread over the round trip, slightly faster than the window so that the window fills; in slow start,
/// faster than the window grows.
const PACE: f64 = 1.25;
const PACE_SLOW_START: f64 = 2.5;

/// The state to restore if a reduction proves spurious.
#[derive(Clone, Copy, Debug)]
struct Undo {
    window: f64,
    threshold: f64,
    w_max: f64,
    epoch: Option<CubicEpoch>,
}

/// One congestion-avoidance epoch (RFC 9438 section 4.2).
#[derive(Clone, Copy, Debug)]
struct CubicEpoch {
    start: Duration,
    /// The plateau of the cubic, and the time to reach it.
    peak: f64,
    k: f64,
    /// The window that Reno would have, and the window before the reduction that began the epoch.
    reno: f64,
    prior: f64,
}

/// A CUBIC flow. Windows are in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    packet: f64,
    window: f64,
    threshold: f64,
    w_max: f64,
    prior: f64,
    epoch: Option<CubicEpoch>,
    idle_since: Option<Duration>,
    recovery: Option<Duration>,
    undo: Option<Undo>,
    hystart: HyStart,
    repaired: RepairedLosses,
    /// A round trip ends when a packet arrives that was sent after this many bytes were delivered.
    round_end: u64,
    /// Most bytes under way, in this round trip and in the last.
    peak: [u64; 2],
}

impl Cubic {
    pub(crate) fn new(packet_bytes: u64) -> Self {
        let packet = packet_bytes as f64;
        Self {
            packet,
            window: packet * INITIAL_WINDOW as f64,
            threshold: f64::INFINITY,
            w_max: 0.0,
            prior: 0.0,
            epoch: None,
            idle_since: None,
            recovery: None,
            undo: None,
            hystart: HyStart::new(),
            repaired: RepairedLosses::default(),
            round_end: 0,
            peak: [0; 2],
        }
    }

    /// A flow in slow start from another algorithm's window, after `delivered` bytes.
    pub(crate) fn from_window(packet_bytes: u64, window: u64, delivered: u64) -> Self {
        let peak = [window, 0];
        Self { window: window as f64, round_end: delivered, peak, ..Self::new(packet_bytes) }
    }

    pub(crate) fn set_packet_bytes(&mut self, bytes: u64) {
        self.packet = bytes as f64;
        self.window = self.window.max(self.min());
    }

    fn min(&self) -> f64 {
        self.packet * MIN_WINDOW as f64
    }

    pub(crate) fn window(&self) -> u64 {
        self.window as u64
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// The initial window.
    pub(crate) fn least_burst(&self) -> u64 {
        self.packet as u64 * INITIAL_WINDOW
    }

    /// Bytes a second, for a flow with this round trip.
    pub(crate) fn pacing_rate(&self, smoothed: Duration) -> u64 {
        let gain = if self.in_slow_start() { PACE_SLOW_START } else { PACE };
        (gain * self.window / smoothed.as_secs_f64().max(1e-6)) as u64
    }

    /// Handles a sent packet; `in_flight` includes it.
    pub(crate) fn on_sent(&mut self, in_flight: u64) {
        self.peak[0] = self.peak[0].max(in_flight);
    }

    /// Handles the arrival of a packet; `delivered` is the flow's count including it.
    pub(crate) fn on_ack(&mut self, now: Duration, sent: &SentPacket, delivered: u64, rtt: &Rtt) {
        let latest = rtt.latest();
        let smoothed = rtt.smoothed().unwrap_or(latest);
        let new_round = sent.delivered >= self.round_end;
        if new_round {
            self.round_end = delivered;
            self.peak = [0, self.peak[0]];
            let lost = self.repaired.end_round(self.in_slow_start());
            // Some packets were requested before the last reduction. But if the queue remains after a round trip, that
            // reduction was too small, and waiting for another round trip would let half as much again overflow.
            if lost && self.recovery.is_none_or(|r| sent.sent_at() > r) {
                self.reduce(now);
                self.undo = None;
            }
        }
        if self.recovery.is_some_and(|r| sent.sent_at() <= r) {
            return; // sent before the last reduction, so it shows nothing about the smaller window
        }
        let filled = self.peak[0].max(self.peak[1]) as f64 * 2.0 >= self.window;
        if sent.app_limited || !filled {
            self.idle_since.get_or_insert(now);
            return;
        }
        if let (Some(since), Some(epoch)) = (self.idle_since.take(), self.epoch.as_mut()) {
            epoch.start += now.saturating_sub(since); // the window does not grow during time without load
        }
        let bytes = sent.bytes() as f64;
        if !self.in_slow_start() {
            return self.avoid(now, bytes, smoothed);
        }
        match self.hystart.on_ack(new_round, latest) {
            Some(growth) => self.window += growth * bytes,
            None => self.threshold = self.window,
        }
    }

    fn avoid(&mut self, now: Duration, bytes: f64, rtt: Duration) {
        let (window, w_max, prior, packet) = (self.window, self.w_max, self.prior, self.packet);
        let epoch = self.epoch.get_or_insert_with(|| CubicEpoch {
            start: now,
            peak: w_max.max(window),
            k: cbrt((w_max - window).max(0.0) / packet / C),
            reno: window,
            prior,
        });
        let t = now.saturating_sub(epoch.start).as_secs_f64();
        let cubic = |t: f64| {
            let t = t - epoch.k;
            C * packet * t * t * t + epoch.peak
        };
        let alpha = if epoch.reno >= epoch.prior { 1.0 } else { ALPHA };
        let (at_now, ahead) = (cubic(t), cubic(t + rtt.as_secs_f64()));
        epoch.reno += alpha * packet * bytes / window;
        if at_now < epoch.reno {
            self.window = window.max(epoch.reno);
        } else {
            self.window += (ahead.clamp(window, 1.5 * window) - window) * bytes / window;
        }
    }

    /// Handles a lost packet that was sent at `sent_at`.
    pub(crate) fn on_loss(&mut self, now: Duration, sent_at: Duration) {
        if self.recovery.is_some_and(|r| sent_at <= r) {
            return;
        }
        self.undo = Some(Undo {
            window: self.window,
            threshold: self.threshold,
            w_max: self.w_max,
            epoch: self.epoch,
        });
        self.reduce(now);
    }

    /// As [`RepairedLosses::on_round_trip`].
    pub(crate) fn on_round_trip(&mut self, took: Duration, rtt: &Rtt) {
        self.repaired.on_round_trip(took, rtt, self.window / self.packet);
    }

    /// As [`RepairedLosses::on_path`].
    pub(crate) fn on_path(&mut self, brought: u64, lost: i64, piece: u64) {
        self.repaired.on_path(brought, lost, piece);
    }

    fn reduce(&mut self, now: Duration) {
        self.recovery = Some(now);
        self.epoch = None;
        self.idle_since = None;
        self.prior = self.window;
        // Fast convergence (RFC 9438 section 4.7): a shrinking flow leaves room for a new one.
        self.w_max =
            if self.window < self.w_max { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.window = (self.window * BETA).max(self.min());
        self.threshold = self.window;
    }

    /// Undoes the last reduction: all packets that caused it arrived late.
    pub(crate) fn on_spurious(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        self.window = self.window.max(undo.window);
        self.threshold = undo.threshold;
        self.w_max = undo.w_max;
        self.epoch = undo.epoch;
    }

    /// Handles a mark. Marks are never spurious, so the reduction stays.
    pub(crate) fn on_mark(&mut self, now: Duration, sent_at: Duration) {
        self.on_loss(now, sent_at);
        self.undo = None;
    }

    /// Nothing has arrived for several probe timeouts: starts over (RFC 9438 section 4.8).
    pub(crate) fn on_persistent_congestion(&mut self, now: Duration) {
        let before = self.window;
        self.reduce(now);
        self.threshold = (before * BETA).max(self.min());
        self.window = self.min();
        self.undo = None;
        self.hystart = HyStart::new();
        self.repaired = RepairedLosses::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::AlgorithmState;
    use crate::{CongestionAlgorithm, Controller, Rtt};

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    const PACKET: u64 = 1_000;

    /// A flow over a path without limits.
    struct UnlimitedFlow {
        controller: Controller,
        now: Duration,
    }

    impl UnlimitedFlow {
        fn new() -> Self {
            Self {
                controller: Controller::new(CongestionAlgorithm::Cubic, ms(0), PACKET),
                now: ms(0),
            }
        }

        fn packets(&self) -> u64 {
            self.controller.window() / PACKET
        }

        /// Sends a window, of which all but the first `lost` packets arrive a round trip later.
        fn round(&mut self, rtt: Duration, lost: u64) -> Vec<SentPacket> {
            self.send(self.packets(), rtt, lost)
        }

        fn send(&mut self, n: u64, rtt: Duration, lost: u64) -> Vec<SentPacket> {
            self.now += Duration::from_nanos(1); // later than the last event
            let c = &mut self.controller;
            let sent: Vec<SentPacket> =
                (0..n).map(|i| c.on_sent(self.now, PACKET, i * PACKET)).collect();
            self.now += rtt;
            let mut known = Rtt::default();
            known.sample(rtt, ms(0));
            for (i, packet) in sent.iter().enumerate() {
                if (i as u64) < lost {
                    c.on_loss(self.now, packet);
                } else {
                    c.on_ack(self.now, packet, &known);
                }
            }
            c.on_ack_end(self.now, &known, 0);
            sent
        }

        fn cubic(&mut self) -> &mut Cubic {
            match &mut self.controller.state {
                AlgorithmState::Cubic(cubic) => cubic,
                AlgorithmState::Bbr(_) | AlgorithmState::Ledbat(_) => panic!("another algorithm"),
            }
        }

        fn in_slow_start(&mut self) -> bool {
            self.cubic().in_slow_start()
        }
    }

    #[test]
    fn slow_start_doubles_and_leaves_on_delay() {
        let mut flow = UnlimitedFlow::new();
        for _ in 0..4 {
            flow.round(ms(50), 0);
        }
        assert_eq!(flow.packets(), 256);
        for i in 0..8 {
            flow.round(ms(70 + i), 0);
        }
        assert!(!flow.in_slow_start());
        assert!(flow.packets() < 1_500, "{}", flow.packets());
    }

    #[test]
    fn one_reduction_a_round_trip() {
        let mut flow = UnlimitedFlow::new();
        while flow.packets() < 100 {
            flow.round(ms(100), 0);
        }
        let before = flow.packets();
        flow.round(ms(100), 5);
        assert_eq!(flow.packets(), before * 7 / 10);
        flow.round(ms(100), 1);
        let twice = before * 49 / 100;
        assert!((twice - 2..=twice + 1).contains(&flow.packets()), "{}", flow.packets());
    }

    #[test]
    fn grows_back_to_the_old_peak_after_k_seconds() {
        let mut flow = UnlimitedFlow::new();
        while flow.packets() < 1_000 {
            flow.round(ms(50), 0);
        }
        let peak = flow.packets() as f64;
        flow.round(ms(100), 1);
        let (start, k) = (flow.now, f64::cbrt(peak * (1.0 - BETA) / C));
        let since = |flow: &UnlimitedFlow| (flow.now - start).as_secs_f64();
        while since(&flow) < k {
            flow.round(ms(100), 0);
        }
        assert!((flow.packets() as f64 / peak - 1.0).abs() < 0.03, "{} {peak}", flow.packets());
        while since(&flow) < 2.0 * k {
            flow.round(ms(100), 0);
        }
        assert!(flow.packets() as f64 > 1.2 * peak, "{} {peak}", flow.packets());
    }

    #[test]
    fn a_spurious_reduction_is_taken_back() {
        let mut flow = UnlimitedFlow::new();
        flow.round(ms(50), 0);
        let before = flow.packets();
        let sent = flow.round(ms(50), 2);
        assert!(flow.packets() < before);
        flow.controller.on_late(flow.now, &sent[0]);
        assert!(flow.packets() < before);
        flow.controller.on_late(flow.now, &sent[1]);
        assert!(flow.packets() >= before && flow.in_slow_start());
    }

    #[test]
    fn a_reduction_for_a_mark_stays() {
        let mut flow = UnlimitedFlow::new();
        flow.round(ms(50), 0);
        let before = flow.packets();
        flow.controller.on_mark(flow.now, None);
        assert_eq!(flow.packets(), before * 7 / 10);
        flow.cubic().on_spurious();
        assert_eq!(flow.packets(), before * 7 / 10);
    }

    #[test]
    fn idle_windows_do_not_grow_and_silence_starts_over() {
        let mut flow = UnlimitedFlow::new();
        for _ in 0..100 {
            flow.send(2, ms(10), 0);
            flow.controller.app_limited(0);
        }
        assert_eq!(flow.packets(), INITIAL_WINDOW);
        flow.controller.on_persistent_congestion(flow.now);
        assert_eq!((flow.packets(), flow.in_slow_start()), (2, true));
        flow.controller.on_persistent_congestion(flow.now);
        assert_eq!(flow.packets(), 2);
    }

    #[test]
    fn takes_over_the_window_of_bbr() {
        let mut flow = UnlimitedFlow::new();
        flow.controller = Controller::new(CongestionAlgorithm::Bbr, ms(0), PACKET);
        for _ in 0..3 {
            flow.round(ms(20), 0);
        }
        let before = flow.controller.window();
        let c = &mut flow.controller;
        let sent = [c.on_sent(flow.now, PACKET, 0), c.on_sent(flow.now, PACKET, PACKET)];
        c.switch_to_cubic();
        assert_eq!((c.algorithm(), c.window()), (CongestionAlgorithm::Cubic, before));
        let mut known = Rtt::default();
        known.sample(ms(20), ms(0));
        c.on_ack(flow.now + ms(20), &sent[0], &known);
        c.on_ack_end(flow.now + ms(20), &known, PACKET);
        assert_eq!(c.window(), before + PACKET);
        c.on_loss(flow.now + ms(30), &sent[1]);
        assert_eq!(c.window(), (before + PACKET) * 7 / 10);
    }

    #[test]
    fn the_rate_spreads_the_window_over_the_round_trip() {
        let mut flow = UnlimitedFlow::new();
        assert_eq!(flow.controller.pacing_rate(), u64::MAX);
        flow.round(ms(100), 0);
        let per_round = flow.controller.pacing_rate() / 10;
        assert_eq!(per_round, flow.controller.window() * 5 / 2);
        flow.round(ms(100), 1);
        assert_eq!(flow.controller.pacing_rate() / 10, flow.controller.window() * 5 / 4);
    }
}
