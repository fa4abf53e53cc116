//! Estimates which part of a path's losses is random, if the path reports its losses. A queue that overflows lengthens
//! the round trip first, and its losses come and go with it. Random losses occur without a queue, round after round.
//!
//! The smallest share that a recent round has lost is taken as the path's random loss. Only losses beyond it, with a
//! queue, indicate congestion.

use core::time::Duration;

use crate::queue::{self, QueueDetector};

/// A queue that lengthens the round trip by less than 1/16 counts as none.
const SHORT_QUEUE: u32 = 16;
/// Bytes that suffice for a rough share of losses.
const MIN_ROUGH_BYTES: u64 = 64 << 10;
/// Rounds over which the smallest share is taken. Even if flows keep a queue full, some of these rounds lose nothing.
const ROUNDS: usize = 16;
/// Random losses vary: up to this multiple of the estimated share still counts as random.
const SPREAD: f64 = 1.5;
/// Largest share considered; a path with more is useless, whatever the reason.
const MAX_SHARE: f64 = 0.3;
/// Share of losses that counts as a flood. Sending 2.77 times as fast as the path carries loses two thirds. A path that
/// loses a fifth at random, with another fifth late, stays below this share.
const FLOOD: f64 = 0.4;
/// Fewest bytes, in one round or several, that give a share: at 5 % it is accurate to a third.
const MIN_BYTES: u64 = 512 << 10;
/// A path with a smaller share does not count as losing at random.
const MIN_CHANCE: f64 = 0.005;
/// Most additional round trips that the repair of a packet is taken to last.
const MAX_LONGER: f64 = 3.0;
/// Most bytes that are given back if losses beyond chance prove to be random.
const MAX_UNEXPLAINED: f64 = 64.0 * 1024.0;

#[derive(Clone, Debug)]
pub(super) struct RandomLoss {
    /// Whether the path reports losses. Otherwise lost packets cannot be attributed to a queue.
    path_reports: bool,
    queue: QueueDetector,
    /// Bytes delivered and lost up to the beginning of the round.
    delivered: u64,
    lost: u64,
    /// Loss shares of the last rounds; `place` is the index of the next.
    shares: [f64; ROUNDS],
    next_share: usize,
    share: f64,
    /// Recent loss share, random or not, as soon as there are bytes enough for a rough one.
    recent_share: f64,
    chance: f64,
    /// Whether the recent loss share is a flood, and so not random.
    flooded: bool,
    /// Bytes lost that random loss does not explain and that later arrivals have not made up for.
    unexplained: f64,
    /// Difference between the mean and the smallest recent round trip, in round trips without a queue.
    extra_round_trips: f64,
}

impl Default for RandomLoss {
    fn default() -> Self {
        Self {
            path_reports: false,
            queue: QueueDetector::default(),
            delivered: 0,
            lost: 0,
            shares: [MAX_SHARE; ROUNDS],
            next_share: 0,
            share: 0.0,
            recent_share: 0.0,
            chance: 0.0,
            flooded: false,
            unexplained: 0.0,
            extra_round_trips: 0.0,
        }
    }
}

impl RandomLoss {
    /// The path reports its losses from now on.
    pub(super) fn turn_on(&mut self) {
        self.path_reports = true;
    }

    pub(super) fn is_on(&self) -> bool {
        self.path_reports
    }

    pub(super) fn on_round_trip(&mut self, rtt: Duration, min: Duration, mean: Duration) {
        let least = self.queue.least_before().map_or(rtt, |last| last.min(rtt));
        self.extra_round_trips =
            mean.saturating_sub(least).as_secs_f64() / min.as_secs_f64().max(1e-6);
        let enough = self.samples(queue::SAMPLES);
        self.queue.on_round_trip(rtt, min + min / SHORT_QUEUE, enough);
    }

    /// Ends a round, or several short ones, with the totals of bytes delivered and lost so far.
    pub(super) fn end_round(&mut self, delivered: u64, lost: u64) {
        let came = delivered.saturating_sub(self.delivered);
        let went = lost.saturating_sub(self.lost);
        let all = came.saturating_add(went);
        if !self.path_reports || all < MIN_ROUGH_BYTES {
            return;
        }
        let seen = went as f64 / all as f64;
        (self.recent_share, self.flooded) = (seen.min(MAX_SHARE), seen > FLOOD);
        if all < MIN_BYTES {
            return;
        }
        (self.delivered, self.lost) = (delivered, lost);
        self.share = self.recent_share;
        if self.flooded {
            return;
        }
        self.shares[self.next_share] = self.share;
        self.next_share = (self.next_share + 1) % ROUNDS;
        self.chance = self.shares.iter().fold(MAX_SHARE, |least, share| least.min(*share));
    }

    /// Number of round trips that is as reliable as `samples` without losses: more, as repaired ones do not count.
    pub(super) fn samples(&self, samples: u32) -> u32 {
        queue::samples(samples, self.recent_share)
    }

    /// Returns whether all of the latest round trips found a queue.
    pub(super) fn has_queue(&self) -> bool {
        self.queue.has_queue()
    }

    /// Returns whether the recent losses are too many to be random, with or without a queue.
    pub(super) fn is_flooded(&self) -> bool {
        self.flooded
    }

    /// The share of losses that random loss explains.
    pub(super) fn chance(&self) -> f64 {
        SPREAD * self.chance
    }

    /// See [`super::Bbr::beyond_chance`]: a bucket that losses fill and that arrivals empty, at the rate of the random
    /// loss.
    pub(super) fn add_unexplained(&mut self, brought: u64, lost: i64) -> i64 {
        let before = self.unexplained;
        let explained = self.chance() / (1.0 - self.chance()) * brought as f64;
        let now = (before + lost as f64 - explained).max(0.0);
        self.unexplained = now.min(MAX_UNEXPLAINED);
        (now - before) as i64
    }

    /// Returns whether the path loses at random.
    pub(super) fn is_random(&self) -> bool {
        self.chance > MIN_CHANCE
    }

    /// Returns whether the last round lost more than random loss explains.
    pub(super) fn exceeds_random(&self) -> bool {
        !self.is_random() || self.share > self.chance() || self.flooded
    }

    /// Mean time of a packet under way, in round trips: lost parts of it are sent again. It is measured on a path that
    /// loses at random.
    pub(super) fn stretch(&self) -> f64 {
        let least = 2.0 * self.chance;
        1.0 + if self.is_random() { self.extra_round_trips.clamp(least, MAX_LONGER) } else { least }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A round of 100 packets; every fourth takes `rtt` ms, the others 200 ms.
    fn round(excess: &mut RandomLoss, rtt: u64, share: f64) {
        for unit in 0..100 {
            excess.on_round_trip(ms(if unit % 4 == 0 { rtt } else { 200 }), ms(100), ms(rtt));
        }
        let lost = (1e6 * share) as u64;
        excess.end_round(excess.delivered + 1_000_000 - lost, excess.lost + lost);
    }

    #[test]
    fn losses_of_every_round_are_random() {
        let mut excess = RandomLoss::default();
        round(&mut excess, 105, 0.2);
        assert!(!excess.is_random() && excess.chance() == 0.0, "nobody counts");
        excess.turn_on();
        (0..5).for_each(|_| round(&mut excess, 105, 0.2));
        assert!(!excess.has_queue() && excess.is_random() && !excess.exceeds_random());
        assert!((excess.chance() - 0.3).abs() < 0.01 && excess.stretch() > 1.3);
        (0..5).for_each(|_| round(&mut excess, 150, 0.28));
        assert!(excess.has_queue() && !excess.exceeds_random(), "not much more than before");
    }

    /// If a fifth of all datagrams is lost, one round trip in five shows the path, and most of these are late if a
    /// fifth is late. So it shows no queue that none of 24 was short.
    #[test]
    fn repaired_packets_show_no_queue() {
        let mut excess = RandomLoss::default();
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
    fn a_flood_does_not_count_as_random_loss() {
        let mut excess = RandomLoss::default();
        excess.turn_on();
        (0..ROUNDS).for_each(|_| round(&mut excess, 100, 0.25));
        assert!(!excess.is_flooded() && !excess.exceeds_random());
        let chance = excess.chance();
        (0..2 * ROUNDS).for_each(|_| round(&mut excess, 100, 0.6));
        assert!(excess.is_flooded() && excess.exceeds_random() && !excess.has_queue());
        assert_eq!(excess.chance(), chance, "nothing is learnt of it");
        round(&mut excess, 100, 0.2);
        assert!(!excess.is_flooded());
    }

    #[test]
    fn random_loss_explains_its_share_without_credit() {
        let mut excess = RandomLoss::default();
        assert_eq!(excess.add_unexplained(10_000, 1_000), 1_000, "nothing is known of it");
        assert_eq!(excess.add_unexplained(10_000, -1_500), -1_000, "it came late");
        excess.turn_on();
        (0..5).for_each(|_| round(&mut excess, 100, 0.1));
        let owed = |excess: &mut RandomLoss, lost| -> i64 {
            (0..100).map(|_| excess.add_unexplained(9_000, lost)).sum()
        };
        assert_eq!(owed(&mut excess, 1_000), 0);
        assert!((owed(&mut excess, 3_000) - 141_176).abs() < 200, "all above 1.5 times as much");
        assert!(owed(&mut excess, 0) >= -(64 << 10), "little is given back");
    }

    #[test]
    fn losses_of_some_rounds_are_not_random() {
        let mut excess = RandomLoss::default();
        excess.turn_on();
        round(&mut excess, 100, 0.0);
        for _ in 0..40 {
            (0..3).for_each(|_| round(&mut excess, 140, 0.1));
            assert!(excess.has_queue() && excess.exceeds_random());
            round(&mut excess, 100, 0.0);
            assert!(!excess.is_random() && !excess.has_queue());
        }
        (0..ROUNDS).for_each(|_| round(&mut excess, 100, 0.1));
        assert!(excess.is_random(), "now every round");
    }
}
