//! Detects a queue by the round trips of packets, on a path that repairs losses. A single long round trip there may
//! only show a repair; a queue shows if all of them are long.

use core::time::Duration;

/// Number of round trips for a decision, on a path that loses nothing.
pub(crate) const SAMPLES: u32 = 24;
/// Datagrams of one round trip, for an Interest and the largest Data. If one of them is lost, the round trip shows the
/// repair and not a queue, so more round trips are needed.
const DATAGRAMS: u32 = 7;
/// Largest factor of the number of round trips; a loss of a fifth needs 4.8.
const MAX_SAMPLE_FACTOR: f64 = 8.0;

/// The latest round trips.
#[derive(Clone, Debug)]
pub(crate) struct QueueDetector {
    /// The smallest of the latest round trips, and of as many before them.
    now: Option<Duration>,
    last: Option<Duration>,
    samples: u32,
    /// A longer round trip indicates a queue.
    limit: Duration,
}

impl Default for QueueDetector {
    fn default() -> Self {
        Self { now: None, last: None, samples: 0, limit: Duration::MAX }
    }
}

impl QueueDetector {
    /// Adds a round trip. Above `limit` it found a queue or was repaired; of `enough` round trips at least one was not
    /// repaired.
    pub(crate) fn on_round_trip(&mut self, rtt: Duration, limit: Duration, enough: u32) {
        self.now = Some(self.now.map_or(rtt, |now| now.min(rtt)));
        self.limit = limit;
        self.samples += 1;
        if self.samples >= enough {
            (self.last, self.now, self.samples) = (self.now, None, 0);
        }
    }

    /// The smallest of the round trips before the latest.
    pub(crate) fn least_before(&self) -> Option<Duration> {
        self.last
    }

    /// Returns whether all of the latest round trips found a queue.
    pub(crate) fn has_queue(&self) -> bool {
        let long = |rtt: Duration| rtt > self.limit;
        self.last.is_some_and(long) && self.now.is_none_or(long)
    }
}

/// Number of round trips that, with this share of lost datagrams, is as reliable as `samples` without losses: more, as
/// repaired ones do not count.
pub(crate) fn samples(samples: u32, lost: f64) -> u32 {
    let whole = (0..DATAGRAMS).fold(1.0, |whole, _| whole * (1.0 - lost));
    (f64::from(samples) * (1.0 / whole).min(MAX_SAMPLE_FACTOR)) as u32
}
