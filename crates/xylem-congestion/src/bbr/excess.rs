//! What of the losses is chance, told from a queue's by the round trip: a queue that overflows has made it longer
//! before, chance strikes without one.
//!
//! The share that is lost in rounds without a queue is the path's; only what rounds with a queue lose beyond it
//! speaks of congestion.

use core::time::Duration;

/// A queue that makes the round trip longer by less than this share counts as none.
const SHORT_QUEUE: u32 = 16;
/// So many round trips tell whether there is one: where a fifth is lost, of units in six datagrams one in four is
/// not repaired.
const MIN_SAMPLES: u32 = 24;
/// How much of a round's share goes into the mean.
const GAIN: f64 = 0.25;
/// What is lost by chance varies: so much more is chance still.
const SPREAD: f64 = 1.5;
/// Above this a path is useless, whatever the reason.
const MAX_SHARE: f64 = 0.3;
/// Bytes that tell a share, at least.
const MIN_BYTES: u64 = 128 << 10;
/// Rounds after a queue that say nothing of chance: what it lost is told later.
const SETTLED: u32 = 2;
/// Less than this is no path that loses by chance.
const MIN_CHANCE: f64 = 0.005;

#[derive(Clone, Debug)]
pub(super) struct Excess {
    /// The smallest of the latest round trips, and of as many before them: of what was not repaired.
    now: Option<Duration>,
    last: Option<Duration>,
    samples: u32,
    /// From here on there is a queue.
    limit: Duration,
    /// There has been one in this round.
    queued: bool,
    /// Bytes delivered and lost when the round began.
    delivered: u64,
    lost: u64,
    /// The share that was lost in the last round.
    share: f64,
    /// Rounds in a row without a queue, and the mean share in such.
    clear: u32,
    chance: f64,
}

impl Default for Excess {
    fn default() -> Self {
        Self {
            now: None,
            last: None,
            samples: 0,
            limit: Duration::MAX,
            queued: false,
            delivered: 0,
            lost: 0,
            share: 0.0,
            // There was no queue before the first packet.
            clear: SETTLED,
            chance: 0.0,
        }
    }
}

impl Excess {
    pub(super) fn on_round_trip(&mut self, rtt: Duration, min: Duration) {
        self.now = Some(self.now.map_or(rtt, |now| now.min(rtt)));
        self.limit = min + min / SHORT_QUEUE;
        self.samples += 1;
        if self.samples == MIN_SAMPLES {
            (self.last, self.now, self.samples) = (self.now, None, 0);
        }
        self.queued |= self.has_queue();
    }

    /// A round is over: so many bytes were delivered and lost until now.
    pub(super) fn end_round(&mut self, delivered: u64, lost: u64) {
        let came = delivered.saturating_sub(self.delivered);
        let went = lost.saturating_sub(self.lost);
        if came + went < MIN_BYTES {
            return;
        }
        self.share = (went as f64 / (came + went) as f64).min(MAX_SHARE);
        (self.delivered, self.lost) = (delivered, lost);
        self.clear = if self.queued { 0 } else { self.clear.saturating_add(1) };
        self.queued = self.has_queue();
        if self.clear > SETTLED {
            self.chance += GAIN * (self.share - self.chance);
        }
    }

    /// Whether all of the latest round trips found a queue.
    pub(super) fn has_queue(&self) -> bool {
        let long = |rtt: Duration| rtt > self.limit;
        self.last.is_some_and(long) && self.now.is_none_or(long)
    }

    /// The share of losses that chance explains.
    pub(super) fn chance(&self) -> f64 {
        SPREAD * self.chance
    }

    /// Whether the path loses by chance.
    pub(super) fn is_chance(&self) -> bool {
        self.chance > MIN_CHANCE
    }

    /// Whether the last round lost more than chance explains.
    pub(super) fn is_more_than_chance(&self) -> bool {
        !self.is_chance() || self.share > self.chance()
    }

    /// How much longer than a round trip a packet is under way on average: one in so many has to be sent again.
    pub(super) fn stretch(&self) -> f64 {
        1.0 + 2.0 * self.chance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// Rounds of 100 units each, every fourth of which took so long.
    fn rounds(excess: &mut Excess, count: u64, rtt: u64, share: f64) {
        for _ in 0..count {
            for unit in 0..100 {
                excess.on_round_trip(ms(if unit % 4 == 0 { rtt } else { 200 }), ms(100));
            }
            let lost = excess.lost + (1e6 * share) as u64;
            excess.end_round(excess.delivered + 1_000_000 - (1e6 * share) as u64, lost);
        }
    }

    #[test]
    fn what_is_lost_without_a_queue_is_chance() {
        let mut excess = Excess::default();
        rounds(&mut excess, 40, 105, 0.2);
        assert!(!excess.has_queue() && excess.is_chance() && !excess.is_more_than_chance());
        assert!((excess.chance() - 0.3).abs() < 0.01, "{}", excess.chance());
        rounds(&mut excess, 5, 150, 0.25);
        assert!(excess.has_queue() && !excess.is_more_than_chance(), "not much more than before");
        rounds(&mut excess, 5, 150, 0.5);
        assert!(excess.is_more_than_chance() || excess.share == MAX_SHARE);
        assert!((excess.chance() - 0.3).abs() < 0.01, "a queue's losses are not learnt");
    }

    #[test]
    fn what_a_queue_loses_is_more_than_chance() {
        let mut excess = Excess::default();
        rounds(&mut excess, 10, 100, 0.0);
        rounds(&mut excess, 1, 140, 0.05);
        assert!(excess.has_queue() && excess.is_more_than_chance());
        rounds(&mut excess, 2, 100, 0.05);
        assert!(!excess.has_queue() && excess.chance() == 0.0, "told late");
    }
}
