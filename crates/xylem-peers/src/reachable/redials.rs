//! [`Redials`]: when failed peers are dialled again, while no peer answers.

use std::collections::BTreeMap;
use std::time::Duration;

/// The pause before a redial is this fraction of the time without any answer. A peer that appears late is found soon,
/// and one that never appears costs ever less.
const PART: u32 = 4;
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(15);

/// Redial times; see the module's documentation. Each peer has its own, which no other event moves.
#[derive(Debug, Default)]
pub struct Redials {
    /// Since when no peer has answered.
    began: Duration,
    /// When each peer is due, by number.
    due: BTreeMap<usize, Duration>,
}

impl Redials {
    /// Starts a time without answers.
    pub fn begin(&mut self, now: Duration) {
        self.began = now;
        self.due.clear();
    }

    /// Records a failed dial: the peer is due after a pause. Does nothing if it is due already.
    pub fn failed(&mut self, now: Duration, peer: usize) {
        let pause = (now.saturating_sub(self.began) / PART).clamp(SHORTEST, LONGEST);
        self.due.entry(peer).or_insert(now + pause);
    }

    /// Cancels all redials.
    pub fn clear(&mut self) {
        self.due.clear();
    }

    /// Takes the next peer that is due.
    pub fn next(&mut self, now: Duration) -> Option<usize> {
        let (peer, _) = self.due.iter().find(|(_, at)| **at <= now)?;
        let peer = *peer;
        self.due.remove(&peer);
        Some(peer)
    }

    /// Returns when [`Redials::next`] has a peer.
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.due.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_grow_with_the_wait() {
        let mut redials = Redials::default();
        redials.begin(Duration::ZERO);
        for (failed, due) in [(0, 1_000), (2_000, 3_000), (8_000, 10_000), (600_000, 615_000)] {
            redials.failed(MS * failed, 0);
            assert_eq!(redials.poll_timeout(), Some(MS * due));
            assert_eq!(redials.next(MS * (due - 1)), None);
            assert_eq!(redials.next(MS * due), Some(0));
        }
        redials.begin(MS * 700_000);
        redials.failed(MS * 700_000, 1);
        assert_eq!(redials.poll_timeout(), Some(MS * 701_000), "somebody was there meanwhile");
    }

    proptest! {
        /// Whatever happens in between: a failed peer is due within the longest pause.
        #[test]
        fn no_event_delays_a_redial(events in prop::collection::vec((0_u64..200, 0_usize..4), 1..600)) {
            let mut redials = Redials::default();
            let mut now = Duration::ZERO;
            let mut failed: BTreeMap<usize, Duration> = BTreeMap::new();
            for (passed, peer) in events {
                now += MS * passed as u32;
                while let Some(due) = redials.next(now) {
                    let since = failed.remove(&due).expect("it has failed");
                    prop_assert!(now >= since + SHORTEST);
                }
                redials.failed(now, peer);
                failed.entry(peer).or_insert(now);
                for (peer, since) in &failed {
                    let longest = (*since / PART).clamp(SHORTEST, LONGEST);
                    prop_assert!(now < *since + longest, "{peer} waits since {since:?}, now {now:?}");
                }
            }
        }
    }
}
