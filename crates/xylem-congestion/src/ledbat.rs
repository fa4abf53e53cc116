//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-01; receiver-driven as in RFC 9840): yields the path to all other flows.
//!
//! The window grows slower than any other flow's while packets wait little, and shrinks once they wait longer than a
//! target, in proportion to both; a loss halves it. From time to time it shrinks to the minimum, so that the queue
//! empties and the round trip without it shows. Otherwise a later flow would take another's queue for the path's
//! length. Delays are of round trips, as in the draft: requests and answers are one flow here.

use core::time::Duration;

use crate::delivery::SentPacket;

/// TARGET: the queueing delay that is tolerated.
const TARGET: Duration = Duration::from_millis(60);
/// Not in the draft: the target is also at most this part of the round trip, as BBR keeps queues to about one. If
/// packets are lost before they wait that long, the buffer is shorter, and a flow that kept to the target would share
/// it like any other flow. So the target is then half of the delay seen. It is never less than a machine's own delays.
const PARTS: u32 = 3;
const LEAST_TARGET: Duration = Duration::from_millis(3);
/// "Slower than Reno increase": the largest divisor of other flows' growth.
const MAX_DIVISOR: u32 = 16;
/// "Modified slow start": the first slow start ends at this part of the target.
const START_ENDS: f64 = 0.75;
/// Windows in packets: the initial and the smallest. The draft has two packets of 1,500 bytes; a Data packet has six
/// times as many bytes.
const START: f64 = 2.0;
const LEAST: f64 = 1.0;
/// "Initial and periodic slowdown": duration of a slowdown in round trips, and the time between the first slow start
/// and the first slowdown.
const SLOW_ROUNDS: u32 = 2;
/// Time until the next slowdown, in multiples of the last one's duration, so that at most a tenth of the rate is given
/// up.
const SLOWDOWN_SPACING: u32 = 9;
/// RFC 6817, CURRENT_FILTER and BASE_HISTORY: number of round trips of which the smallest counts, and minutes for which
/// a smallest one is remembered.
const CURRENT: usize = 4;
const MINUTES: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Pieces that may be missed in a round trip: probes for larger datagrams are lost, and one random loss is no queue.
const IGNORED_PIECES: i64 = 3;
/// As in CUBIC: sending is spread over the round trip, slightly faster than the window so that the window fills.
const PACE: f64 = 1.25;
const PACE_SLOW_START: f64 = 2.0;

/// The round trip without a queue, and the current one.
#[derive(Clone, Debug)]
struct Delays {
    /// The smallest of each minute, the current minute first; [`Duration::MAX`] if there is none.
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

    /// The current queueing delay.
    fn queue(&self) -> Duration {
        let now = self.recent.iter().copied().min().unwrap_or(Duration::MAX);
        now.saturating_sub(self.base())
    }
}

/// "Initial and periodic slowdown": when the window shrinks to the minimum.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Slowdown {
    /// The first slow start has not ended.
    NotYet,
    /// The next slowdown begins at this time.
    At(Duration),
    /// In a slowdown since `began`, for `rounds` more round trips; then the window grows to `back`.
    Slow { began: Duration, rounds: u32, back: f64 },
    /// The window grows back.
    Recovers { began: Duration },
}

/// A LEDBAT++ flow. Windows are in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Ledbat {
    packet: f64,
    window: f64,
    /// Slow start ends at this window.
    threshold: f64,
    delays: Delays,
    /// Upper bound of the target, for short buffers.
    most: Duration,
    slowdown: Slowdown,
    recovery: Option<Duration>,
    /// A round trip ends when a packet arrives that was sent after this many bytes were delivered.
    round_end: u64,
    /// Pieces missed in this round trip, less those that arrived late.
    missed: i64,
    /// Most bytes under way, in this round trip and in the last.
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

    /// The smallest window.
    pub(crate) fn least_burst(&self) -> u64 {
        self.min() as u64
    }

    /// Bytes a second, for a flow with this round trip.
    pub(crate) fn pacing_rate(&self, smoothed: Duration) -> u64 {
        let gain = if self.window < self.threshold { PACE_SLOW_START } else { PACE };
        (gain * self.window / smoothed.as_secs_f64().max(1e-6)) as u64
    }

    /// Handles a sent packet; `in_flight` includes it.
    pub(crate) fn on_sent(&mut self, in_flight: u64) {
        self.peak[0] = self.peak[0].max(in_flight);
    }

    /// GAIN: smaller on a shorter path, as other flows grow once a round trip.
    fn gain(&self) -> f64 {
        let base = self.delays.base().as_nanos().max(1);
        let divisor = (2 * TARGET.as_nanos()).div_ceil(base);
        1.0 / f64::from(u32::try_from(divisor).unwrap_or(MAX_DIVISOR).clamp(1, MAX_DIVISOR))
    }

    /// The queueing delay that is tolerated now.
    fn target(&self) -> Duration {
        (self.delays.base() / PARTS).clamp(LEAST_TARGET, self.most)
    }

    /// Handles an arrival `rtt` after sending; `delivered` is the flow's count including it.
    pub(crate) fn on_ack(
        &mut self,
        now: Duration,
        sent: &SentPacket,
        delivered: u64,
        rtt: Duration,
    ) {
        self.delays.sample(now, rtt);
        let new_round = sent.delivered >= self.round_end;
        if new_round {
            self.round_end = delivered;
            self.missed = 0;
            self.peak = [0, self.peak[0]];
        }
        self.slow_down(now, new_round, rtt);
        if self.recovery.is_some_and(|r| sent.sent_at() <= r) {
            return; // sent before the last reduction, so it shows nothing about the smaller window
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
            // "Multiplicative decrease" with the constant 1: by the excess of the queue over the target, at most by
            // half.
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
                // The path may have changed since.
                self.most = (self.most * 2).min(TARGET);
                (self.window, self.threshold) = (self.min(), self.min());
                Slowdown::Slow { began: now, rounds: SLOW_ROUNDS, back }
            }
            // The current round began before the slowdown.
            Slowdown::Slow { began, rounds, back } if new_round => match rounds.checked_sub(1) {
                Some(rounds) => Slowdown::Slow { began, rounds, back },
                None => {
                    self.threshold = back;
                    Slowdown::Recovers { began }
                }
            },
            Slowdown::Recovers { began } if self.window >= self.threshold => {
                Slowdown::At(now + now.saturating_sub(began) * SLOWDOWN_SPACING)
            }
            as_it_was => as_it_was,
        };
    }

    /// Handles the loss of, or a mark on, a packet that was sent at `sent_at`.
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

    /// Handles `missed` more lost pieces of packets, which the layer below repairs: it counts as a loss, at most once a
    /// round trip.
    pub(crate) fn on_path_loss(&mut self, now: Duration, missed: i64, smoothed: Duration) {
        self.missed = self.missed.saturating_add(missed);
        let again = self.recovery.is_none_or(|r| now > r.saturating_add(smoothed));
        if self.missed > IGNORED_PIECES && again {
            self.on_loss(now, now);
        }
    }

    /// Nothing has arrived for several probe timeouts: starts over.
    pub(crate) fn on_persistent_congestion(&mut self, now: Duration) {
        self.recovery = Some(now);
        self.threshold = (self.window / 2.0).max(self.min());
        self.window = self.min();
    }
}
