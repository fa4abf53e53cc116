//! [`UnixTime`]: a time of day, read by a caller that has a clock and passed in.

use std::time::Duration;

/// Time since 1970 (UTC, without leap seconds).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime(Duration);

impl UnixTime {
    /// Makes the time that is this long after the beginning of 1970.
    pub const fn new(since_1970: Duration) -> Self {
        Self(since_1970)
    }

    /// Whole seconds since 1970.
    pub const fn seconds(self) -> u64 {
        self.0.as_secs()
    }

    /// Whole milliseconds since 1970.
    pub fn milliseconds(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    /// Whole microseconds since 1970.
    pub fn microseconds(self) -> u64 {
        u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX)
    }
}
