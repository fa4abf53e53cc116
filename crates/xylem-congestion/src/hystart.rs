//! HyStart++ (RFC 9406): slow start ends when round trips grow, before packets are lost.

use core::time::Duration;

/// RFC 9406 section 4.2: number of round trips from which a round's smallest counts.
const SAMPLES: u32 = 8;
/// RFC 9406 section 4.3: conservative rounds before slow start ends.
const CSS_ROUNDS: u32 = 5;
/// RFC 9406 section 4.2: growth in a conservative round is this many times slower.
const CSS_DIVISOR: f64 = 4.0;
/// RFC 9406 has 4 ms; a switched network has far shorter round trips, and queues of a millisecond.
const DELAY_MIN: Duration = Duration::from_millis(1);
const DELAY_MAX: Duration = Duration::from_millis(16);

#[derive(Clone, Copy, Debug, PartialEq)]
enum SlowStart {
    Fast,
    Conservative { baseline: Duration, rounds: u32 },
}

/// State of one slow start.
#[derive(Clone, Debug)]
pub(crate) struct HyStart {
    start: SlowStart,
    last_min: Option<Duration>,
    current_min: Option<Duration>,
    samples: u32,
}

impl HyStart {
    pub(crate) fn new() -> Self {
        Self { start: SlowStart::Fast, last_min: None, current_min: None, samples: 0 }
    }

    /// Handles an arrival `rtt` after sending, the first of its round trip if `new_round`. Returns the fraction of the
    /// packet's size by which the window grows, or `None` if slow start is over.
    pub(crate) fn on_ack(&mut self, new_round: bool, rtt: Duration) -> Option<f64> {
        if new_round {
            self.last_min = self.current_min.take().or(self.last_min);
            self.samples = 0;
            if let SlowStart::Conservative { rounds, .. } = &mut self.start {
                *rounds += 1;
                if *rounds > CSS_ROUNDS {
                    return None;
                }
            }
        }
        self.current_min = Some(self.current_min.map_or(rtt, |m| m.min(rtt)));
        self.samples += 1;
        if let (true, Some(current), Some(last)) =
            (self.samples >= SAMPLES, self.current_min, self.last_min)
        {
            match self.start {
                SlowStart::Fast if current >= last + (last / 8).clamp(DELAY_MIN, DELAY_MAX) => {
                    self.start = SlowStart::Conservative { baseline: current, rounds: 0 };
                }
                SlowStart::Conservative { baseline, .. } if current < baseline => {
                    self.start = SlowStart::Fast;
                }
                _ => {}
            }
        }
        Some(if self.start == SlowStart::Fast { 1.0 } else { 1.0 / CSS_DIVISOR })
    }
}
