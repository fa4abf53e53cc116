//! Bounds on the bytes under way, learnt from losses and marks (draft sections 5.5.10 and 5.5.11).
//!
//! The long-term bound is the most that was under way without too many losses. It is raised slowly while probing, and
//! set when a probe loses more than the threshold. The short-term bounds are what one round with losses delivered; they
//! hold until the next probe.

use core::time::Duration;

use super::{Bbr, BbrPhase};
use crate::delivery::{Sample, SentPacket};

/// Section 2.7: more loss than this indicates that too much is under way.
const LOSS_THRESHOLD: f64 = 0.02;
/// Most datagrams of one packet that count: the largest packet in the smallest datagrams has half as many, and beyond
/// some loss a path is useless.
const MAX_DATAGRAMS: u32 = 16;
/// Section 2.7: factor of a bound after a round with losses.
pub(super) const BETA: f64 = 0.7;
/// Section 2.7: share of the bound left to other flows while cruising.
const HEADROOM: f64 = 0.15;

/// A queue that lengthens the round trip by less than 1/8 counts as none.
const SHORT_QUEUE: u32 = 8;

/// The phase of probing in which the acknowledged packets were sent (section 5.3.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckPhase {
    Other,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
    Refilling,
}

#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// The share of lost packets above which too much is under way.
    threshold: f64,
    pub(super) inflight_long: u64,
    pub(super) inflight_short: u64,
    pub(super) bw_short: f64,
    bw_latest: f64,
    pub(super) inflight_latest: u64,
    /// A round of losses ends when a packet arrives that was sent after the round began.
    round_end: u64,
    pub(super) round_started: bool,
    /// Number of losses, and whether there were marks, in this round and in the last.
    losses: u32,
    pub(super) losses_last_round: u32,
    congested: bool,
    marked: bool,
    pub(super) marked_last_round: bool,
    /// Whether acknowledgements and losses belong to a probe that has not been judged.
    pub(super) judging_probe: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            threshold: LOSS_THRESHOLD,
            inflight_long: u64::MAX,
            inflight_short: u64::MAX,
            bw_short: f64::INFINITY,
            bw_latest: 0.0,
            inflight_latest: 0,
            round_end: 0,
            round_started: false,
            losses: 0,
            losses_last_round: 0,
            congested: false,
            marked: false,
            marked_last_round: false,
            judging_probe: false,
        }
    }
}

/// The state to restore if a round's losses prove spurious (section 5.5.12).
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    phase: BbrPhase,
    bw_short: f64,
    inflight_short: u64,
    inflight_long: u64,
}

impl Bounds {
    /// Sets the threshold for packets of `datagrams` datagrams. A packet arrives only if all of them do: if a share p
    /// of datagrams is lost, so is a share 1-(1-p)^n of packets.
    pub(super) fn set_datagrams(&mut self, datagrams: u32) {
        let arrive =
            (0..datagrams.clamp(1, MAX_DATAGRAMS)).fold(1.0, |a, _| a * (1.0 - LOSS_THRESHOLD));
        self.threshold = 1.0 - arrive;
    }

    pub(super) fn forget_short_term(&mut self) {
        (self.bw_short, self.inflight_short) = (f64::INFINITY, u64::MAX);
    }

    /// Clears the signs of congestion of this round.
    pub(super) fn forget_signals(&mut self) {
        (self.congested, self.marked, self.losses) = (false, false, 0);
        (self.bw_latest, self.inflight_latest) = (0.0, 0);
    }

    /// If a round of losses has ended, begins the next with the current sample.
    pub(super) fn advance(&mut self, sample: &Sample) {
        if self.round_started {
            self.bw_latest = sample.rate.unwrap_or(0.0);
            self.inflight_latest = sample.delivered;
        }
    }
}

impl Bbr {
    /// Records the sample for this round, and at the round's end sets the short-term bounds.
    ///
    /// If a round ends without a queue, its losses were random or have made room enough: it sets no bound, and removes
    /// bounds. Marks are never random.
    pub(super) fn adapt_short_term(&mut self, sample: &Sample, latest: Duration) {
        let phase = self.phase;
        // On a path that repairs losses, the latest round trip shows nothing.
        let empty = match self.excess.is_random() {
            true => !self.excess.has_queue(),
            false => self.min_rtt.get().is_some_and(|min| latest <= min + min / SHORT_QUEUE),
        };
        let is_chance = !self.excess.exceeds_random();
        let (bw, window) = (self.max_bw.get(), self.window);
        let b = &mut self.bounds;
        b.bw_latest = b.bw_latest.max(sample.rate.unwrap_or(0.0));
        b.inflight_latest = b.inflight_latest.max(sample.delivered);
        b.round_started = sample.prior_delivered >= b.round_end;
        if !b.round_started {
            return;
        }
        b.round_end = self.delivered;
        if empty && !b.marked && !self.excess.is_flooded() {
            b.forget_short_term();
        } else if b.congested && !phase.is_probing() && (b.marked || !is_chance) {
            if b.bw_short.is_infinite() {
                b.bw_short = bw;
            }
            if b.inflight_short == u64::MAX {
                b.inflight_short = window;
            }
            b.bw_short = b.bw_latest.max(BETA * b.bw_short);
            b.inflight_short = b.inflight_latest.max((BETA * b.inflight_short as f64) as u64);
        }
        (b.losses_last_round, b.marked_last_round) = (b.losses, b.marked);
        (b.losses, b.congested, b.marked) = (0, false, false);
    }

    /// Handles a lost packet.
    pub(crate) fn on_loss(&mut self, now: Duration, sent: &SentPacket, lost: u64) {
        self.bounds.losses += 1;
        self.note_congestion();
        if !self.bounds.judging_probe {
            return;
        }
        let lost_since = lost.saturating_sub(sent.lost);
        if self.exceeds_threshold(lost_since, sent.in_flight) {
            let fits = self.inflight_before_threshold(sent, lost_since);
            self.probe_was_too_high(now, fits, sent.app_limited);
        }
    }

    /// Handles a report by the path that pieces of some packets were lost, or, if negative, that some were not.
    pub(crate) fn on_path_loss(&mut self, pieces: i64) {
        self.excess.turn_on();
        let beyond = if pieces < 0 { i32::MIN } else { i32::MAX };
        let more = i32::try_from(pieces).unwrap_or(beyond);
        self.bounds.losses = self.bounds.losses.saturating_add_signed(more);
        if pieces > 0 {
            self.note_congestion();
        }
    }

    /// Handles the bytes that the path delivered and lost (negative: found again). Returns the change in the bytes of
    /// losses that random loss does not explain.
    pub(crate) fn add_unexplained(&mut self, brought: u64, lost: i64) -> i64 {
        self.excess.add_unexplained(brought, lost)
    }

    /// Judges a probe by the amount that the path lost, as its reports name no packets.
    pub(super) fn judge_probe(&mut self, now: Duration, sample: &Sample) {
        if self.excess.is_on() && self.bounds.judging_probe && self.is_too_high(sample) {
            self.probe_was_too_high(now, sample.in_flight_at_sending, sample.app_limited);
        }
    }

    pub(super) fn is_too_high(&self, sample: &Sample) -> bool {
        self.exceeds_threshold(sample.lost, sample.in_flight_at_sending)
    }

    /// Returns whether more is lost than random loss explains. In startup, when the random loss is not known yet, and
    /// on a path that loses at random, there must also be a queue in which it may have been lost, or a flood without
    /// more bandwidth.
    fn exceeds_threshold(&self, lost: u64, in_flight: u64) -> bool {
        let starts = self.phase == BbrPhase::Startup && self.excess.is_on();
        let by_chance = starts || self.excess.is_random();
        lost as f64 > in_flight as f64 * self.threshold()
            && (!by_chance
                || self.excess.has_queue()
                || (self.excess.is_flooded() && self.full_bw.has_stopped()))
    }

    fn threshold(&self) -> f64 {
        self.bounds.threshold + self.excess.chance()
    }

    /// The bytes under way when the losses since then passed the threshold (section 5.5.10.2).
    fn inflight_before_threshold(&self, sent: &SentPacket, lost: u64) -> u64 {
        let threshold = self.threshold();
        let before = sent.in_flight.saturating_sub(sent.bytes()) as f64;
        let lost_before = lost.saturating_sub(sent.bytes()) as f64;
        let more = (threshold * before - lost_before) / (1.0 - threshold);
        (before + more.max(0.0)) as u64
    }

    /// Handles a packet with a congestion mark.
    pub(crate) fn on_mark(&mut self, now: Duration, sent: Option<&SentPacket>) {
        self.note_congestion();
        self.bounds.marked = true;
        self.saved = None;
        if let (Some(sent), true) = (sent, self.bounds.judging_probe) {
            self.probe_was_too_high(now, sent.in_flight, sent.app_limited);
        }
    }

    fn note_congestion(&mut self) {
        if !self.bounds.congested {
            self.bounds.congested = true;
            self.bounds.round_end = self.delivered;
        }
    }

    /// Saves the state that may have to be restored, at the first loss in a round trip.
    pub(crate) fn save(&mut self) {
        self.saved = Some(Saved {
            phase: self.phase,
            bw_short: self.bounds.bw_short,
            inflight_short: self.bounds.inflight_short,
            inflight_long: self.bounds.inflight_long,
        });
    }

    /// Handles the late arrival of a packet that counted as lost.
    pub(crate) fn on_late(&mut self) {
        self.bounds.losses = self.bounds.losses.saturating_sub(1);
    }

    /// Restores the saved state: everything lost in the last round trip has arrived late.
    pub(crate) fn on_spurious(&mut self, now: Duration) {
        let Some(saved) = self.saved.take() else { return };
        let b = &mut self.bounds;
        b.congested = false;
        b.bw_short = b.bw_short.max(saved.bw_short);
        b.inflight_short = b.inflight_short.max(saved.inflight_short);
        b.inflight_long = b.inflight_long.max(saved.inflight_long);
        self.full_bw.reset();
        if self.phase != BbrPhase::ProbeRtt && self.phase != saved.phase {
            match saved.phase {
                BbrPhase::Startup => {
                    self.phase = BbrPhase::Startup;
                    self.full_bw.reached = false;
                }
                BbrPhase::Up => self.start_up(now, 0.0),
                _ => {}
            }
        }
    }

    /// Section 5.5.10.2: a probe has lost too much; `fits` bytes under way were still fine.
    fn probe_was_too_high(&mut self, now: Duration, fits: u64, app_limited: bool) {
        self.bounds.judging_probe = false;
        if !app_limited {
            let least = (self.target_inflight() as f64 * BETA) as u64;
            self.bounds.inflight_long = fits.max(least);
        }
        if self.phase == BbrPhase::Up {
            self.start_down(now);
        }
    }

    /// The bandwidth-delay product, or the window if that is smaller.
    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp(1.0).min(self.window)
    }

    pub(super) fn inflight_with_headroom(&self) -> u64 {
        if self.bounds.inflight_long == u64::MAX {
            return u64::MAX;
        }
        let long = self.bounds.inflight_long;
        let headroom = ((long as f64 * HEADROOM) as u64).max(self.packet);
        long.saturating_sub(headroom).max(self.min_window())
    }

    /// Section 5.3.3.6: judges the packets sent while probing, and raises the long-term bound.
    pub(super) fn adapt_long_term(&mut self, sample: &Sample) {
        if self.cycle.acks == AckPhase::ProbeStarting && self.round.started {
            self.cycle.acks = AckPhase::ProbeFeedback;
        }
        if self.cycle.acks == AckPhase::ProbeStopping && self.round.started {
            // The last samples of the probe are in, so bandwidths older than this cycle expire.
            self.cycle.acks = AckPhase::Other;
            if self.phase.is_probe_bw() && !sample.app_limited {
                self.cycles += 1;
            }
        }
        if self.is_too_high(sample) || self.bounds.inflight_long == u64::MAX {
            return;
        }
        let sending = sample.in_flight_at_sending;
        self.bounds.inflight_long = self.bounds.inflight_long.max(sending);
        if self.phase == BbrPhase::Up {
            self.raise_long_term(sample.newly_delivered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A count that no 32 bits hold stays one of losses found again, and does not become as many new ones.
    #[test]
    fn a_hugely_negative_count_of_losses_is_none() {
        let mut bbr = Bbr::new(Duration::ZERO, 1_000);
        bbr.on_path_loss(5);
        bbr.on_path_loss(i64::MIN);
        assert_eq!(bbr.bounds.losses, 0);
    }
}
