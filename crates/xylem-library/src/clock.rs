//! Times of day, for what is written down.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Milliseconds since 1970; 0 with a clock before that.
pub fn now_ms() -> u64 {
    u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX)
}

/// Microseconds since 1970.
pub fn microseconds_now() -> u64 {
    u64::try_from(since_1970().as_micros()).unwrap_or(u64::MAX)
}

/// Seconds since 1970.
pub fn seconds_now() -> u64 {
    since_1970().as_secs()
}
