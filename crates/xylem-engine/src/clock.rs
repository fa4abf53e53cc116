//! The time of day, for those who have no clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xylem_library::UnixTime;

/// Now; 1970 with a clock before that.
pub fn wall_clock() -> UnixTime {
    UnixTime::new(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// So much more than a turn of a loop takes, and the machine or the program was asleep.
const ASLEEP: Duration = Duration::from_secs(5);

/// Notices that this machine was asleep: its clocks have gone on further than a turn of a loop takes. One of the two may
/// stand still meanwhile (Linux and macOS), the other may be set by people.
#[derive(Default)]
pub(crate) struct Wakefulness {
    last: Option<(Duration, Duration)>,
}

impl Wakefulness {
    /// A turn is over, by the clock that only goes on and by the time of day.
    pub(crate) fn slept(&mut self, now: Duration, wall: Duration) -> bool {
        let last = self.last.replace((now, wall));
        last.is_some_and(|(before, day)| now > before + ASLEEP || wall > day + ASLEEP)
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
