//! What of a path's losses is chance, where the path counts them: a queue that overflows has made the round trip longer
//! before, and its losses come and go with it; chance strikes without one, round after round.
//!
//! The least share that a round has lost of late is the path's; only what is lost beyond it, in a queue, speaks of
//! congestion.

use core::time::Duration;

use crate::queue::{self, Queue};

/// A queue that makes the round trip longer by less than this share counts as none.
const SHORT_QUEUE: u32 = 16;
/// Bytes that tell roughly what is lost.
const SOME_BYTES: u64 = 64 << 10;
/// Rounds over which the least share is sought: of a queue that flows keep full, some lose nothing.
const ROUNDS: usize = 16;
/// What is lost by chance varies: so much more is chance still.
const SPREAD: f64 = 1.5;
/// Above this a path is useless, whatever the reason.
const MAX_SHARE: f64 = 0.3;
/// Of what leaves 2.77 times as fast as the path carries it two thirds are lost. Less is missed where a fifth is lost and
/// another late.
const FLOOD: f64 = 0.4;
/// Bytes that tell a share, at least, in one round or several: of 5 % a third more or less.
const MIN_BYTES: u64 = 512 << 10;
/// Less than this is no path that loses by chance.
const MIN_CHANCE: f64 = 0.005;
/// What is repaired is under way for so many round trips more, at most.
const MAX_LONGER: f64 = 3.0;
/// What is owed for losses that prove to be chance is not given back beyond this.
const MAX_BEYOND: f64 = 64.0 * 1024.0;

#[derive(Clone, Debug)]
pub(super) struct Excess {
    /// The path counts: of packets that are lost, a queue's cannot be told.
    on: bool,
    queue: Queue,
    /// Bytes delivered and lost when the round began.
    delivered: u64,
    lost: u64,
    /// The shares that were lost in the last rounds, of which this is the place of the next.
    shares: [f64; ROUNDS],
    place: usize,
    share: f64,
    /// The share that was lost of late, chance or not, as soon as there is any to tell.
    seen: f64,
    chance: f64,
    /// So much was lost of late that it is not chance.
    flooded: bool,
    /// Bytes lost that chance does not explain, and that nothing has made up for.
    beyond: f64,
    /// By so many round trips without a queue the mean one is longer than the least of late.
    longer: f64,
}

impl Default for Excess {
    fn default() -> Self {
        Self {
            on: false,
            queue: Queue::default(),
            delivered: 0,
            lost: 0,
            shares: [MAX_SHARE; ROUNDS],
            place: 0,
            share: 0.0,
            seen: 0.0,
            chance: 0.0,
            flooded: false,
            beyond: 0.0,
            longer: 0.0,
        }
    }
}

impl Excess {
    /// The path counts what it loses.
    pub(super) fn turn_on(&mut self) {
        self.on = true;
    }

    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    pub(super) fn on_round_trip(&mut self, rtt: Duration, min: Duration, mean: Duration) {
        let least = self.queue.least_before().map_or(rtt, |last| last.min(rtt));
        self.longer = mean.saturating_sub(least).as_secs_f64() / min.as_secs_f64().max(1e-6);
        let enough = self.samples(queue::SAMPLES);
        self.queue.on_round_trip(rtt, min + min / SHORT_QUEUE, enough);
    }

    /// A round is over, or several short ones: so many bytes were delivered and lost until now.
    pub(super) fn end_round(&mut self, delivered: u64, lost: u64) {
        let came = delivered.saturating_sub(self.delivered);
        let went = lost.saturating_sub(self.lost);
        let all = came.saturating_add(went);
        if !self.on || all < SOME_BYTES {
            return;
        }
        let seen = went as f64 / all as f64;
        (self.seen, self.flooded) = (seen.min(MAX_SHARE), seen > FLOOD);
        if all < MIN_BYTES {
            return;
        }
        (self.delivered, self.lost) = (delivered, lost);
        self.share = self.seen;
        if self.flooded {
            return;
        }
        self.shares[self.place] = self.share;
        self.place = (self.place + 1) % ROUNDS;
        self.chance = self.shares.iter().fold(MAX_SHARE, |least, share| least.min(*share));
    }

    /// How many round trips say as much as `samples` do where nothing is lost: so many more as have to be repaired.
    pub(super) fn samples(&self, samples: u32) -> u32 {
        queue::samples(samples, self.seen)
    }

    /// Whether all of the latest round trips found a queue.
    pub(super) fn has_queue(&self) -> bool {
        self.queue.is_there()
    }

    /// Whether so much was lost of late that it is not chance, queue or not.
    pub(super) fn is_flooded(&self) -> bool {
        self.flooded
    }

    /// The share of losses that chance explains.
    pub(super) fn chance(&self) -> f64 {
        SPREAD * self.chance
    }

    /// See [`super::Bbr::beyond_chance`]: a bucket that losses fill and what arrives empties, by what chance takes
    /// of as much.
    pub(super) fn beyond_chance(&mut self, brought: u64, lost: i64) -> i64 {
        let before = self.beyond;
        let explained = self.chance() / (1.0 - self.chance()) * brought as f64;
        let now = (before + lost as f64 - explained).max(0.0);
        self.beyond = now.min(MAX_BEYOND);
        (now - before) as i64
    }

    /// Whether the path loses by chance.
    pub(super) fn is_chance(&self) -> bool {
        self.chance > MIN_CHANCE
    }

    /// Whether the last round lost more than chance explains.
    pub(super) fn is_more_than_chance(&self) -> bool {
        !self.is_chance() || self.share > self.chance() || self.flooded
    }

    /// How much longer than a round trip a packet is under way on average: what is lost of it has to be sent again. On a
    /// path that loses by chance this is measured.
    pub(super) fn stretch(&self) -> f64 {
        let least = 2.0 * self.chance;
        1.0 + if self.is_chance() { self.longer.clamp(least, MAX_LONGER) } else { least }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A round of 100 units, every fourth of which took so long.
    fn round(excess: &mut Excess, rtt: u64, share: f64) {
        for unit in 0..100 {
            excess.on_round_trip(ms(if unit % 4 == 0 { rtt } else { 200 }), ms(100), ms(rtt));
        }
        let lost = (1e6 * share) as u64;
        excess.end_round(excess.delivered + 1_000_000 - lost, excess.lost + lost);
    }

    #[test]
    fn what_every_round_loses_is_chance() {
        let mut excess = Excess::default();
        round(&mut excess, 105, 0.2);
        assert!(!excess.is_chance() && excess.chance() == 0.0, "nobody counts");
        excess.turn_on();
        (0..5).for_each(|_| round(&mut excess, 105, 0.2));
        assert!(!excess.has_queue() && excess.is_chance() && !excess.is_more_than_chance());
        assert!((excess.chance() - 0.3).abs() < 0.01 && excess.stretch() > 1.3);
        (0..5).for_each(|_| round(&mut excess, 150, 0.28));
        assert!(excess.has_queue() && !excess.is_more_than_chance(), "not much more than before");
    }

    /// Where a fifth of all datagrams is lost one round trip in five tells of the path, and of those most are late where
    /// a fifth is: that none of 24 was short shows no queue there.
    #[test]
    fn what_is_repaired_shows_no_queue() {
        let mut excess = Excess::default();
        excess.turn_on();
        assert_eq!(excess.samples(24), 24, "nothing is lost");
        excess.end_round(80 << 10, 20 << 10);
        assert_eq!((excess.samples(24), excess.samples(8)), (114, 38));
        for trip in 0..1_000 {
            let rtt = if trip % 50 == 0 { 102 } else { 200 };
            excess.on_round_trip(ms(rtt), ms(100), ms(200));
            assert!(!excess.has_queue(), "{trip}");
        }
        (0..228).for_each(|_| excess.on_round_trip(ms(150), ms(100), ms(200)));
        assert!(excess.has_queue(), "now there is one");
    }

    #[test]
    fn a_flood_is_no_chance() {
        let mut excess = Excess::default();
        excess.turn_on();
        (0..ROUNDS).for_each(|_| round(&mut excess, 100, 0.25));
        assert!(!excess.is_flooded() && !excess.is_more_than_chance());
        let chance = excess.chance();
        (0..2 * ROUNDS).for_each(|_| round(&mut excess, 100, 0.6));
        assert!(excess.is_flooded() && excess.is_more_than_chance() && !excess.has_queue());
        assert_eq!(excess.chance(), chance, "nothing is learnt of it");
        round(&mut excess, 100, 0.2);
        assert!(!excess.is_flooded());
    }

    #[test]
    fn chance_explains_so_much_and_no_credit_is_left() {
        let mut excess = Excess::default();
        assert_eq!(excess.beyond_chance(10_000, 1_000), 1_000, "nothing is known of it");
        assert_eq!(excess.beyond_chance(10_000, -1_500), -1_000, "it came late");
        excess.turn_on();
        (0..5).for_each(|_| round(&mut excess, 100, 0.1));
        let owed = |excess: &mut Excess, lost| -> i64 {
            (0..100).map(|_| excess.beyond_chance(9_000, lost)).sum()
        };
        assert_eq!(owed(&mut excess, 1_000), 0);
        assert!((owed(&mut excess, 3_000) - 141_176).abs() < 200, "all above 1.5 times as much");
        assert!(owed(&mut excess, 0) >= -(64 << 10), "little is given back");
    }

    #[test]
    fn what_some_rounds_lose_is_not() {
        let mut excess = Excess::default();
        excess.turn_on();
        round(&mut excess, 100, 0.0);
        for _ in 0..40 {
            (0..3).for_each(|_| round(&mut excess, 140, 0.1));
            assert!(excess.has_queue() && excess.is_more_than_chance());
            round(&mut excess, 100, 0.0);
            assert!(!excess.is_chance() && !excess.has_queue());
        }
        (0..ROUNDS).for_each(|_| round(&mut excess, 100, 0.1));
        assert!(excess.is_chance(), "now every round");
    }
}
