//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-01; receiver-driven as in RFC 9840): leaves the path to everybody else.
//!
//! The window grows slower than anybody's while packets wait little and shrinks once they wait longer than a target,
//! in proportion to both; a loss halves it. From time to time it falls to the least, so that the queue empties and
//! the round trip without it is seen: a flow that came later would otherwise take another's queue for the path's length.
//! Delays are of round trips, as in the draft: what asks and what answers are one flow here.

use core::time::Duration;

use crate::delivery::Sent;

/// TARGET: packets may wait so long.
const TARGET: Duration = Duration::from_millis(60);
/// Ours: no longer than this part of the round trip, as BBR keeps queues to about one; where packets are lost before
/// they wait so long the buffer is shorter, and a flow that kept to the target would share it like any other: half of
/// what it was seen to hold. And never less than a machine's own delays.
const PARTS: u32 = 3;
const LEAST_TARGET: Duration = Duration::from_millis(3);
/// "Slower than Reno increase": the largest divisor of the growth of others.
const MAX_DIVISOR: u32 = 16;
/// "Modified slow start": the first one ends at this part of the target.
const START_ENDS: f64 = 0.75;
/// Windows in packets: at the start, and the least. The draft has two of 1,500 bytes; a Data has six times as many.
const START: f64 = 2.0;
const LEAST: f64 = 1.0;
/// "Initial and periodic slowdown": round trips that one lasts, and between the first slow start and the first of them.
const SLOW_ROUNDS: u32 = 2;
/// The time until the next, in multiples of what the last took: a tenth of the rate is given up at most.
const APART: u32 = 9;
/// RFC 6817, CURRENT_FILTER and BASE_HISTORY: round trips of which the smallest counts, and minutes that a smallest is remembered.
const CURRENT: usize = 4;
const MINUTES: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Pieces that may be missed in a round trip: probes for larger ones are, and one by chance is no queue.
const FEW: i64 = 3;
/// As CUBIC's: sending is spread over the round trip, a little faster than the window so that it fills.
const PACE: f64 = 1.25;
const PACE_SLOW_START: f64 = 2.0;

/// The round trip that the path takes without a queue, and that of now.
#[derive(Clone, Debug)]
struct Delays {
    /// The smallest of each minute, the current one first; [`Duration::MAX`]: none.
    base: [Duration; MINUTES],
    minute_ends: Duration,
    recent: [Duration; CURRENT],
    next: usize,
}

impl Delays {
    fn new() -> Self {
        Self {
            base: [Duration::MAX; MINUTES],
            minute_ends: Duration::ZERO,
            recent: [Duration::MAX; CURRENT],
            next: 0,
        }
    }

    fn sample(&mut self, now: Duration, rtt: Duration) {
        if now >= self.minute_ends {
            self.minute_ends = now.saturating_add(MINUTE);
            self.base.rotate_right(1);
            self.base[0] = rtt;
        }
        self.base[0] = self.base[0].min(rtt);
        self.recent[self.next] = rtt;
        self.next = (self.next + 1) % CURRENT;
    }

    fn base(&self) -> Duration {
        self.base.iter().copied().min().unwrap_or(Duration::MAX)
    }

    /// How long packets wait.
    fn queue(&self) -> Duration {
        let now = self.recent.iter().copied().min().unwrap_or(Duration::MAX);
        now.saturating_sub(self.base())
    }
}

/// "Initial and periodic slowdown": when the window falls to the least.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Slowdown {
    /// Not before the first slow start has ended.
    NotYet,
    /// At this time.
    At(Duration),
    /// Since `began`, for so many round trips more; then up to `back`.
    Slow { began: Duration, rounds: u32, back: f64 },
    /// Grows back.
    Recovers { began: Duration },
}

/// Windows in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Ledbat {
    packet: f64,
    window: f64,
    /// Slow start goes up to here.
    threshold: f64,
    delays: Delays,
    /// The most that packets may wait where the buffer is short.
    most: Duration,
    slowdown: Slowdown,
    recovery: Option<Duration>,
    /// A round trip ends when a packet arrives that left after so much was delivered.
    round_end: u64,
    /// Pieces that were missed in this round trip, fewer those that came late.
    missed: i64,
    /// The most that was under way, this round trip and the last.
    peak: [u64; 2],
}

impl Ledbat {
    pub(crate) fn new(packet_bytes: u64) -> Self {
        let packet = packet_bytes as f64;
        Self {
            packet,
            window: START * packet,
            threshold: f64::INFINITY,
            delays: Delays::new(),
            most: TARGET,
            slowdown: Slowdown::NotYet,
            recovery: None,
            round_end: 0,
            missed: 0,
            peak: [0; 2],
        }
    }

    pub(crate) fn set_packet_bytes(&mut self, bytes: u64) {
        self.packet = bytes as f64;
        self.window = self.window.max(self.min());
    }

    fn min(&self) -> f64 {
        LEAST * self.packet
    }

    pub(crate) fn window(&self) -> u64 {
        self.window as u64
    }

    /// As much as leaves at the start.
    pub(crate) fn least_burst(&self) -> u64 {
        self.min() as u64
    }

    /// Bytes a second, for a flow with this round trip.
    pub(crate) fn pacing_rate(&self, smoothed: Duration) -> u64 {
        let gain = if self.window < self.threshold { PACE_SLOW_START } else { PACE };
        (gain * self.window / smoothed.as_secs_f64().max(1e-6)) as u64
    }

    /// A packet left; so much is under way with it.
    pub(crate) fn on_sent(&mut self, in_flight: u64) {
        self.peak[0] = self.peak[0].max(in_flight);
    }

    /// GAIN: the shorter the path, the slower, since others grow by the round trip.
    fn gain(&self) -> f64 {
        let base = self.delays.base().as_nanos().max(1);
        let divisor = (2 * TARGET.as_nanos()).div_ceil(base);
        1.0 / f64::from(u32::try_from(divisor).unwrap_or(MAX_DIVISOR).clamp(1, MAX_DIVISOR))
    }

    /// Packets may wait so long.
    fn target(&self) -> Duration {
        (self.delays.base() / PARTS).clamp(LEAST_TARGET, self.most)
    }

    /// A packet arrived, `rtt` after it left; `delivered` is the flow's count with it.
    pub(crate) fn on_ack(&mut self, now: Duration, sent: &Sent, delivered: u64, rtt: Duration) {
        self.delays.sample(now, rtt);
        let new_round = sent.delivered >= self.round_end;
        if new_round {
            self.round_end = delivered;
            self.missed = 0;
            self.peak = [0, self.peak[0]];
        }
        self.slow_down(now, new_round, rtt);
        if self.recovery.is_some_and(|r| sent.sent_at() <= r) {
            return; // sent before the last reduction: says nothing about the smaller window
        }
        let queue = self.delays.queue().as_secs_f64() / self.target().as_secs_f64();
        let (bytes, full) = (sent.bytes() as f64, self.peak[0].max(self.peak[1]) as f64 * 2.0);
        let may_grow = !sent.app_limited && full >= self.window;
        if matches!(self.slowdown, Slowdown::Slow { .. }) {
            return;
        }
        if self.window < self.threshold {
            let ends = if self.slowdown == Slowdown::NotYet { START_ENDS } else { 1.0 };
            if queue > ends {
                self.threshold = self.window;
            } else if may_grow {
                self.window = (self.window + self.gain() * bytes).min(self.threshold);
            }
            return;
        }
        let grows = self.gain() * self.packet;
        let in_a_round = match queue > 1.0 {
            // "Multiplicative decrease", the constant 1: by what is too much of the queue, by half at most.
            true => (grows - self.window * (queue - 1.0)).max(-self.window / 2.0),
            false => grows,
        };
        if in_a_round < 0.0 || may_grow {
            self.window = (self.window + in_a_round * bytes / self.window).max(self.min());
            self.threshold = self.threshold.min(self.window);
        }
    }

    fn slow_down(&mut self, now: Duration, new_round: bool, rtt: Duration) {
        self.slowdown = match self.slowdown {
            Slowdown::NotYet if self.window >= self.threshold => {
                Slowdown::At(now + rtt * SLOW_ROUNDS)
            }
            Slowdown::At(at) if now >= at => {
                let back = self.window;
                // Perhaps the path is another by now.
                self.most = (self.most * 2).min(TARGET);
                (self.window, self.threshold) = (self.min(), self.min());
                Slowdown::Slow { began: now, rounds: SLOW_ROUNDS, back }
            }
            // The round under way began before.
            Slowdown::Slow { began, rounds, back } if new_round => match rounds.checked_sub(1) {
                Some(rounds) => Slowdown::Slow { began, rounds, back },
                None => {
                    self.threshold = back;
                    Slowdown::Recovers { began }
                }
            },
            Slowdown::Recovers { began } if self.window >= self.threshold => {
                Slowdown::At(now + now.saturating_sub(began) * APART)
            }
            as_it_was => as_it_was,
        };
    }

    /// A packet sent at `sent_at` was lost, or came back with a mark.
    pub(crate) fn on_loss(&mut self, now: Duration, sent_at: Duration) {
        if self.recovery.is_some_and(|r| sent_at <= r) {
            return;
        }
        self.recovery = Some(now);
        self.most = (self.delays.queue() / 2).clamp(LEAST_TARGET, self.most);
        self.window = (self.window / 2.0).max(self.min());
        self.threshold = self.window;
        if let Slowdown::Slow { back, .. } = &mut self.slowdown {
            *back /= 2.0;
        }
    }

    /// So many more pieces of packets are missed, which whoever carries them repairs: a loss, once a round trip.
    pub(crate) fn on_path_loss(&mut self, now: Duration, missed: i64, smoothed: Duration) {
        self.missed = self.missed.saturating_add(missed);
        let again = self.recovery.is_none_or(|r| now > r.saturating_add(smoothed));
        if self.missed > FEW && again {
            self.on_loss(now, now);
        }
    }

    /// Nothing at all arrived for several probe timeouts.
    pub(crate) fn on_persistent_congestion(&mut self, now: Duration) {
        self.recovery = Some(now);
        self.threshold = (self.window / 2.0).max(self.min());
        self.window = self.min();
    }
}
