//! Congestion window of one peer: CUBIC (RFC 9438) with a delay-based exit from slow start (HyStart++,
//! RFC 9406). The unit is one Interest, that is one Data of at most 8,800 bytes on its way to us.
//!
//! The window belongs to the consumer: what it limits is the number of unanswered Interests, and an
//! answer is its own acknowledgement. It shrinks for losses and congestion marks, at most once a round
//! trip; a peer that refuses (Nack) or lies does not change it. Reductions that turn out to be spurious,
//! because everything thought lost arrived after all, are taken back (RFC 9438 section 4.9).

use core::time::Duration;

/// RFC 9438 section 4.6: what is left of the window after a loss.
const BETA: f64 = 0.7;
/// RFC 9438 section 5.1: how fast the cubic grows, in windows per second cubed.
const C: f64 = 0.4;
/// RFC 9438 section 4.3: additive increase that is as fast as Reno's with this BETA.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// RFC 9406 section 4.2: round trips sampled before a round's smallest counts.
const HYSTART_SAMPLES: u32 = 8;
/// RFC 9406 section 4.3: conservative rounds before slow start ends.
const CSS_ROUNDS: u32 = 5;
/// RFC 9406 section 4.2: growth in a conservative round is this many times slower.
const CSS_DIVISOR: f64 = 4.0;
/// RFC 9406 has 4 ms; a switched network has round trips far below that and queues of a millisecond.
const DELAY_MIN: Duration = Duration::from_millis(1);
const DELAY_MAX: Duration = Duration::from_millis(16);

/// Where slow start stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    Fast,
    Conservative { baseline: Duration, rounds: u32 },
}

#[derive(Clone, Debug)]
struct HyStart {
    start: Start,
    round_end: u64,
    last_min: Option<Duration>,
    current_min: Option<Duration>,
    samples: u32,
}

/// What is restored when a reduction proves spurious.
#[derive(Clone, Copy, Debug)]
struct Undo {
    window: f64,
    threshold: f64,
    w_max: f64,
    epoch: Option<Epoch>,
    lost: u32,
}

/// One congestion-avoidance epoch (RFC 9438 section 4.2).
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Duration,
    /// Where the cubic is flat, and when it gets there.
    peak: f64,
    k: f64,
    /// What Reno's window would be, and the window before the reduction that began the epoch.
    reno: f64,
    prior: f64,
}

/// An answered Interest, as the window sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub sent_at: Duration,
    /// Number of the answered Interest among those sent to this peer, and the number of the next one.
    pub sequence: u64,
    pub next_sequence: u64,
    /// Unambiguous sample, if there is one.
    pub rtt: Option<Duration>,
    pub smoothed: Duration,
    /// Whether the window, and not a lack of work, held back further Interests.
    pub limited: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    window: f64,
    threshold: f64,
    min: f64,
    max: f64,
    w_max: f64,
    prior: f64,
    epoch: Option<Epoch>,
    idle_since: Option<Duration>,
    recovery: Option<Duration>,
    undo: Option<Undo>,
    hystart: HyStart,
}

impl Cubic {
    pub(crate) fn new(initial: u32, min: u32, max: u32) -> Self {
        let (min, max) = (f64::from(min.max(1)), f64::from(max.max(1)));
        Self {
            window: f64::from(initial).clamp(min, max.max(min)),
            threshold: f64::INFINITY,
            min,
            max: max.max(min),
            w_max: 0.0,
            prior: 0.0,
            epoch: None,
            idle_since: None,
            recovery: None,
            undo: None,
            hystart: HyStart {
                start: Start::Fast,
                round_end: 0,
                last_min: None,
                current_min: None,
                samples: 0,
            },
        }
    }

    /// How many Interests may be unanswered.
    pub(crate) fn window(&self) -> usize {
        self.window as usize
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// One Interest was answered.
    pub(crate) fn on_answer(&mut self, now: Duration, a: Answered) {
        if self.recovery.is_some_and(|r| a.sent_at <= r) {
            return; // sent before the last reduction: says nothing about the smaller window
        }
        if !a.limited {
            self.idle_since.get_or_insert(now);
            return;
        }
        if let (Some(since), Some(epoch)) = (self.idle_since.take(), self.epoch.as_mut()) {
            epoch.start += now.saturating_sub(since); // time without load is no time to grow in
        }
        if self.in_slow_start() {
            self.slow_start(a);
        } else {
            self.avoid(now, a.smoothed);
        }
        self.window = self.window.min(self.max);
    }

    fn slow_start(&mut self, a: Answered) {
        let h = &mut self.hystart;
        if a.sequence >= h.round_end {
            h.round_end = a.next_sequence;
            h.last_min = h.current_min.or(h.last_min);
            h.current_min = None;
            h.samples = 0;
            if let Start::Conservative { rounds, .. } = &mut h.start {
                *rounds += 1;
                if *rounds > CSS_ROUNDS {
                    self.threshold = self.window;
                    return;
                }
            }
        }
        if let Some(rtt) = a.rtt {
            h.current_min = Some(h.current_min.map_or(rtt, |m| m.min(rtt)));
            h.samples += 1;
        }
        if let (true, Some(current), Some(last)) =
            (h.samples >= HYSTART_SAMPLES, h.current_min, h.last_min)
        {
            match h.start {
                Start::Fast if current >= last + (last / 8).clamp(DELAY_MIN, DELAY_MAX) => {
                    h.start = Start::Conservative { baseline: current, rounds: 0 };
                }
                Start::Conservative { baseline, .. } if current < baseline => h.start = Start::Fast,
                _ => {}
            }
        }
        self.window += if h.start == Start::Fast { 1.0 } else { 1.0 / CSS_DIVISOR };
    }

    fn avoid(&mut self, now: Duration, rtt: Duration) {
        let (window, w_max, prior) = (self.window, self.w_max, self.prior);
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            start: now,
            peak: w_max.max(window),
            k: ((w_max - window).max(0.0) / C).cbrt(),
            reno: window,
            prior,
        });
        let t = now.saturating_sub(epoch.start).as_secs_f64();
        let cubic = |t: f64| C * (t - epoch.k).powi(3) + epoch.peak;
        let alpha = if epoch.reno >= epoch.prior { 1.0 } else { ALPHA };
        epoch.reno += alpha / window;
        if cubic(t) < epoch.reno {
            self.window = window.max(epoch.reno);
        } else {
            let target = cubic(t + rtt.as_secs_f64()).clamp(window, 1.5 * window);
            self.window += (target - window) / window;
        }
    }

    /// An Interest sent at `sent_at` was lost, or came back marked. True if the window was reduced for it.
    pub(crate) fn on_loss(&mut self, now: Duration, sent_at: Duration) -> bool {
        if self.recovery.is_some_and(|r| sent_at <= r) {
            if let Some(undo) = &mut self.undo {
                undo.lost += 1;
            }
            return false;
        }
        self.undo = Some(Undo {
            window: self.window,
            threshold: self.threshold,
            w_max: self.w_max,
            epoch: self.epoch,
            lost: 1,
        });
        self.reduce(now);
        true
    }

    fn reduce(&mut self, now: Duration) {
        self.recovery = Some(now);
        self.epoch = None;
        self.idle_since = None;
        self.prior = self.window;
        // Fast convergence (RFC 9438 section 4.7): a flow that shrinks leaves room for a new one.
        self.w_max =
            if self.window < self.w_max { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.window = (self.window * BETA).max(self.min);
        self.threshold = self.window;
    }

    /// Something that `on_loss` was told of arrived after all.
    pub(crate) fn on_spurious(&mut self, sent_at: Duration) {
        let Some(undo) = &mut self.undo else { return };
        if self.recovery.is_none_or(|r| sent_at > r) {
            return;
        }
        undo.lost = undo.lost.saturating_sub(1);
        if undo.lost == 0 {
            self.window = self.window.max(undo.window);
            self.threshold = undo.threshold;
            self.w_max = undo.w_max;
            self.epoch = undo.epoch;
            self.undo = None;
        }
    }

    /// Nothing at all was answered for several probe timeouts: start over (RFC 9438 section 4.8).
    pub(crate) fn on_silence(&mut self, now: Duration) {
        let before = self.window;
        self.reduce(now);
        self.threshold = (before * BETA).max(self.min);
        self.window = self.min;
        self.undo = None;
        self.hystart.start = Start::Fast;
        self.hystart.last_min = None;
        self.hystart.current_min = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// Answers one whole window sent at `sent_at`, a round trip of `rtt` later.
    fn round(c: &mut Cubic, seq: &mut u64, sent_at: Duration, rtt: Duration) {
        let n = c.window() as u64;
        for i in 0..n {
            c.on_answer(
                sent_at + rtt,
                Answered {
                    sent_at,
                    sequence: *seq + i,
                    next_sequence: *seq + n,
                    rtt: Some(rtt),
                    smoothed: rtt,
                    limited: true,
                },
            );
        }
        *seq += n;
    }

    #[test]
    fn slow_start_doubles_and_leaves_on_delay() {
        let mut c = Cubic::new(10, 2, 100_000);
        let (mut seq, mut now) = (0, ms(0));
        for _ in 0..4 {
            round(&mut c, &mut seq, now, ms(50));
            now += ms(50);
        }
        assert_eq!(c.window(), 160);
        for i in 0..8 {
            round(&mut c, &mut seq, now, ms(70 + i));
            now += ms(70 + i);
        }
        assert!(!c.in_slow_start());
        assert!(c.window() < 1_000, "{}", c.window());
    }

    #[test]
    fn one_reduction_a_round_trip() {
        let mut c = Cubic::new(100, 2, 1_000);
        assert!(c.on_loss(ms(200), ms(100)));
        assert_eq!(c.window(), 70);
        assert!(!c.on_loss(ms(210), ms(150)));
        assert_eq!(c.window(), 70);
        assert!(c.on_loss(ms(400), ms(201)));
        assert_eq!(c.window(), 49);
        // 49 < w_max of 100: fast convergence remembers less than the 70 it had.
        assert!((c.w_max - 59.5).abs() < 1e-9);
    }

    #[test]
    fn grows_back_to_the_old_peak_after_k_seconds() {
        let mut c = Cubic::new(1_000, 2, 100_000);
        c.on_loss(ms(0), ms(0));
        let k = (300.0_f64 / C).cbrt(); // 9.08 s
        let (mut seq, mut now) = (0, ms(1));
        while now.as_secs_f64() < k {
            round(&mut c, &mut seq, now, ms(100));
            now += ms(100);
        }
        let at_k = c.window() as f64;
        assert!((at_k - 1_000.0).abs() < 25.0, "{at_k}");
        while now.as_secs_f64() < 2.0 * k {
            round(&mut c, &mut seq, now, ms(100));
            now += ms(100);
        }
        assert!(c.window() > 1_250, "{}", c.window());
    }

    #[test]
    fn a_spurious_reduction_is_taken_back() {
        let mut c = Cubic::new(64, 2, 1_000);
        c.on_loss(ms(100), ms(50));
        c.on_loss(ms(101), ms(51));
        assert_eq!(c.window(), 44);
        c.on_spurious(ms(50));
        assert_eq!(c.window(), 44);
        c.on_spurious(ms(51));
        assert_eq!((c.window(), c.in_slow_start()), (64, true));
    }

    #[test]
    fn idle_windows_do_not_grow_and_silence_starts_over() {
        let mut c = Cubic::new(10, 2, 1_000);
        for i in 0..100 {
            c.on_answer(
                ms(10 + i),
                Answered {
                    sent_at: ms(i),
                    sequence: i,
                    next_sequence: i + 1,
                    rtt: Some(ms(10)),
                    smoothed: ms(10),
                    limited: false,
                },
            );
        }
        assert_eq!(c.window(), 10);
        c.on_silence(ms(500));
        assert_eq!((c.window(), c.in_slow_start()), (2, true));
        c.on_silence(ms(900));
        assert_eq!(c.window(), 2);
    }
}
