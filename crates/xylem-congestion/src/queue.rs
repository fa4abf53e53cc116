//! Whether packets find a queue, by their round trips, on a path that repairs what it loses: there one that is long tells
//! how long the repair took, and only those that are all long tell of a queue.

use core::time::Duration;

/// So many round trips tell, on a path that loses nothing.
pub(crate) const SAMPLES: u32 = 24;
/// Datagrams that a round trip takes, of an Interest and the largest Data: where one is lost it tells how long the repair
/// took and not whether there is a queue, so that more of them are needed.
const DATAGRAMS: u32 = 7;
/// More are not waited for: at a loss of a fifth it is 4.8 times as many.
const MOST_OF_SAMPLES: f64 = 8.0;

/// The latest round trips.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// The smallest of the latest, and of as many before them: of what was not repaired.
    now: Option<Duration>,
    last: Option<Duration>,
    samples: u32,
    /// From here on there is a queue.
    limit: Duration,
}

impl Default for Queue {
    fn default() -> Self {
        Self { now: None, last: None, samples: 0, limit: Duration::MAX }
    }
}

impl Queue {
    /// A round trip; above `limit` it found a queue or was repaired, and of so many one was not repaired.
    pub(crate) fn on_round_trip(&mut self, rtt: Duration, limit: Duration, enough: u32) {
        self.now = Some(self.now.map_or(rtt, |now| now.min(rtt)));
        self.limit = limit;
        self.samples += 1;
        if self.samples >= enough {
            (self.last, self.now, self.samples) = (self.now, None, 0);
        }
    }

    /// The smallest of those before the latest.
    pub(crate) fn least_before(&self) -> Option<Duration> {
        self.last
    }

    /// Whether all of the latest round trips found a queue.
    pub(crate) fn is_there(&self) -> bool {
        let long = |rtt: Duration| rtt > self.limit;
        self.last.is_some_and(long) && self.now.is_none_or(long)
    }
}

/// How many round trips say as much, where this share of datagrams is lost, as `samples` do where none is: so many more as
/// have to be repaired.
pub(crate) fn samples(samples: u32, lost: f64) -> u32 {
    let whole = (0..DATAGRAMS).fold(1.0, |whole, _| whole * (1.0 - lost));
    (f64::from(samples) * (1.0 / whole).min(MOST_OF_SAMPLES)) as u32
}
