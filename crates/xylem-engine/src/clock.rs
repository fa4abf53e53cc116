//! The wall clock, for code that has no clock, and detection of sleep.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xylem_base::UnixTime;

/// The time now; 1970 if the clock is set before that.
pub fn wall_clock() -> UnixTime {
    UnixTime::new(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// A clock that advances this much more than a turn of the loop takes means that the machine or the program was asleep.
const SLEEP_THRESHOLD: Duration = Duration::from_secs(5);

/// Detects that this machine was asleep: a clock has advanced by more than a turn of the loop takes. It compares two
/// clocks, because the monotonic one may stand still during sleep (Linux and macOS), and users may set the other.
#[derive(Default)]
pub(crate) struct Wakefulness {
    last: Option<(Duration, Duration)>,
}

impl Wakefulness {
    /// Records the end of a turn, by the monotonic clock and by the wall clock. Returns whether the machine slept.
    pub(crate) fn slept(&mut self, now: Duration, wall: Duration) -> bool {
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
