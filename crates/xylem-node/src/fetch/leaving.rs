//! [`LinkHold`]: keeps shaped links up after a fetch, to hide its size.
//!
//! Where datagrams leave at a steady rate, the duration of a link shows how much was fetched, and with that which of a
//! known set of files. So each link, with its cover traffic, lasts until the next of 4, 8, 16 … seconds after its
//! beginning.

use std::time::Duration;

use xylem_engine::{Engine, EngineError, EngineEvent, Program};
use xylem_forward::FaceId;
use xylem_link::Level;

/// Least duration of a link with cover traffic.
const SHORTEST: Duration = Duration::from_secs(4);
/// Lowest shaping level with cover traffic.
const COVERED: Level = Level::High;

/// The program that an engine runs when nothing is to be fetched any more.
pub(super) struct LinkHold {
    /// Links that are still up, and when each ends.
    ends: Vec<(FaceId, Duration)>,
}

impl LinkHold {
    pub(super) fn new(engine: &Engine) -> Self {
        let covered =
            |face: &FaceId| engine.link_stats(*face).is_some_and(|stats| stats.shaping >= COVERED);
        let ends = engine.faces().filter(|(id, _)| covered(id));
        let ends = ends.map(|(id, face)| (id, end_of(face.up_since, engine.now()))).collect();
        Self { ends }
    }

    /// When the last of them ends; `None` if there is none.
    pub(super) fn until(&self) -> Option<Duration> {
        self.ends.iter().map(|(_, end)| *end).max()
    }
}

/// The next of 4, 8, 16 … seconds after the beginning.
fn end_of(began: Duration, now: Duration) -> Duration {
    let mut lasts = SHORTEST;
    while began.saturating_add(lasts) < now {
        lasts = lasts.saturating_mul(2);
    }
    began.saturating_add(lasts)
}

impl Program for LinkHold {
    type Error = EngineError;

    fn handle(&mut self, _engine: &mut Engine, event: EngineEvent) -> Result<(), EngineError> {
        if let EngineEvent::FaceDown { face, .. } = event {
            self.ends.retain(|(id, _)| *id != face);
        }
        Ok(())
    }

    fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) -> Result<(), EngineError> {
        for (face, _) in self.ends.extract_if(.., |(_, end)| *end <= now) {
            engine.drop_face(face, "nothing is left to fetch");
        }
        Ok(())
    }

    fn is_done(&mut self, _engine: &Engine, stopped: bool) -> bool {
        stopped || self.ends.is_empty()
    }

    fn poll_timeout(&mut self, _now: Duration) -> Option<Duration> {
        self.ends.iter().map(|(_, end)| *end).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fetches of similar sizes give links of the same duration.
    #[test]
    fn links_last_four_seconds_times_a_power_of_two() {
        let (s, began) = (Duration::from_secs, Duration::from_millis(2_345));
        for (from_ms, to_ms, lasts) in [
            (0, 4_000, 4),
            (4_001, 8_000, 8),
            (8_001, 16_000, 16),
            (16_001, 32_000, 32),
            (500_000, 512_000, 512),
        ] {
            for ms in [from_ms, from_ms + 1, (from_ms + to_ms) / 2, to_ms - 1, to_ms] {
                let now = began + Duration::from_millis(ms);
                assert_eq!(end_of(began, now), began + s(lasts), "{ms} ms");
            }
        }
        assert_eq!(end_of(Duration::MAX, Duration::MAX), Duration::MAX);
    }
}
