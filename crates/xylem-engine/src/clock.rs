//! The wall clock, for code that has no clock. [`EngineClock`]: the engine's own time, and what it does at intervals.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use xylem_base::UnixTime;

/// The time now; 1970 if the clock is set before that.
pub fn wall_clock() -> UnixTime {
    UnixTime::new(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Interval at which idle faces, failed dials and refusing listeners are checked.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// Interval at which links take in new randomness from the system: several times for each ratchet.
const ENTROPY: Duration = Duration::from_secs(30);

/// The time since an engine was made, and when it does its periodic work.
pub(crate) struct EngineClock {
    epoch: Instant,
    awake: Wakefulness,
    housekeeping: Duration,
    entropy: Duration,
}

impl EngineClock {
    /// Begins now.
    pub(crate) fn new() -> Self {
        let (epoch, awake) = (Instant::now(), Wakefulness::default());
        Self { epoch, awake, housekeeping: Duration::ZERO, entropy: ENTROPY }
    }

    /// Time since the engine was made.
    pub(crate) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Records the end of a turn of the loop, by this clock and by the wall clock. Returns whether the machine slept.
    pub(crate) fn slept(&mut self, now: Duration, wall: Duration) -> bool {
        self.awake.slept(now, wall)
    }

    /// Whether housekeeping is due; the next is then due after its interval.
    pub(crate) fn housekeeping_is_due(&mut self, now: Duration) -> bool {
        let is_due = now >= self.housekeeping;
        if is_due {
            self.housekeeping = now + HOUSEKEEPING;
        }
        is_due
    }

    /// New randomness for links, when it is due. Where the system gives none, the next housekeeping tries again.
    pub(crate) fn entropy(
        &mut self,
        now: Duration,
        draw: impl FnOnce() -> Option<[u8; 32]>,
    ) -> Option<[u8; 32]> {
        if now < self.entropy {
            return None;
        }
        let drawn = draw()?;
        self.entropy = now + ENTROPY;
        Some(drawn)
    }
}

/// A clock that advances this much more than a turn of the loop takes means that the machine or the program was asleep.
const SLEEP_THRESHOLD: Duration = Duration::from_secs(5);

/// Detects that this machine was asleep: a clock has advanced by more than a turn of the loop takes. It compares two
/// clocks, because the monotonic one may stand still during sleep (Linux and macOS), and users may set the other.
#[derive(Default)]
struct Wakefulness {
    last: Option<(Duration, Duration)>,
}

impl Wakefulness {
    /// Records the end of a turn, by the monotonic clock and by the wall clock. Returns whether the machine slept.
    fn slept(&mut self, now: Duration, wall: Duration) -> bool {
        let last = self.last.replace((now, wall));
        last.is_some_and(|(before, day)| {
            now > before + SLEEP_THRESHOLD || wall > day + SLEEP_THRESHOLD
        })
    }
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    wall_clock().milliseconds()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_of_either_clock_is_sleep_and_a_busy_turn_is_not() {
        let at = |now: u64, wall: u64| (Duration::from_secs(now), Duration::from_secs(wall));
        let mut awake = Wakefulness::default();
        let mut slept = |(now, wall)| awake.slept(now, wall);
        assert!(!slept(at(1_000, 5_000)), "the first turn");
        assert!(!slept(at(1_003, 5_003)));
        assert!(slept(at(1_123, 5_123)), "a program that was stopped");
        assert!(slept(at(1_124, 9_000)), "a clock that stood still with the machine");
        assert!(!slept(at(1_125, 2_000)), "a clock that was set back");
        assert!(!slept(at(1_126, 2_001)));
    }
}
