//! The time of day, for those who have no clock.

use std::time::{SystemTime, UNIX_EPOCH};

use xylem_library::UnixTime;

/// Now; 1970 with a clock before that.
pub fn wall_clock() -> UnixTime {
    UnixTime::new(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    wall_clock().milliseconds()
}
