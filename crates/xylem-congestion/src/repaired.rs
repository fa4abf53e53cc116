//! [`Repaired`]: what CUBIC has to know of losses on a path that repairs them before a packet is missed.
//!
//! What is lost in a round trip without a queue is chance. In a queue, more than twice as much is the queue's: without a
//! look at that, a flow goes on filling a short one, and what overflows is sent again and again.

use core::time::Duration;

use crate::queue::{self, Queue};
use crate::rtt::Rtt;

/// Pieces that may be lost in a round trip: probes for larger ones are, and one by chance is no queue.
const FEW: f64 = 3.0;
/// What is lost by chance varies: so much more is chance still.
const SPREAD: f64 = 2.0;
/// A round that loses more teaches nothing of chance, and more is never put down to it.
const MOST: f64 = 0.3;
/// Bytes that tell a share; four times as many are remembered.
const TELL: u64 = 256 << 10;
/// After so many round trips in a queue what chance takes is not known any more.
const FORGOTTEN: u32 = 256;
/// A queue that makes the round trip longer by less than this share, or that a packet alone makes, counts as none.
const SHORT_QUEUE: u32 = 16;

/// Bytes that came and that were lost.
#[derive(Clone, Copy, Debug, Default)]
struct Bytes {
    brought: u64,
    lost: u64,
}

impl Bytes {
    fn all(self) -> u64 {
        self.brought.saturating_add(self.lost)
    }
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repaired {
    queue: Queue,
    /// In this round trip, and in those without a queue.
    round: Bytes,
    clear: Bytes,
    piece: u64,
    /// A packet of this round trip found no queue.
    short: bool,
    /// Round trips since one did.
    queued: u32,
}

impl Repaired {
    /// The path has brought so many bytes, and lost so many more, or fewer, than was known, in pieces of this size.
    pub(crate) fn on_path(&mut self, brought: u64, lost: i64, piece: u64) {
        self.round.brought = self.round.brought.saturating_add(brought);
        // What comes late may have counted in a round trip before.
        let rest = self.round.lost.cast_signed().saturating_add(lost).min(0);
        self.round.lost = self.round.lost.saturating_add_signed(lost);
        self.clear.lost = self.clear.lost.saturating_add_signed(rest);
        self.piece = piece;
    }

    /// A packet took so long, of a flow that may have so many under way.
    pub(crate) fn on_round_trip(&mut self, took: Duration, rtt: &Rtt, packets: f64) {
        let (min, mean) = (rtt.min().unwrap_or(took), rtt.smoothed().unwrap_or(took));
        let limit = min + (min / SHORT_QUEUE).max(mean.div_f64(packets.max(1.0)));
        self.short |= took <= limit;
        self.queue.on_round_trip(took, limit, queue::samples(queue::SAMPLES, self.chance()));
    }

    /// The share that chance takes, where it is known.
    fn chance(&self) -> f64 {
        let all = self.clear.all();
        if all < TELL { 0.0 } else { (self.clear.lost as f64 / all as f64).min(MOST) }
    }

    /// A round trip is over, in which the flow found its rate or not: whether a queue has lost some of it.
    pub(crate) fn end_round(&mut self, starts: bool) -> bool {
        let round = core::mem::take(&mut self.round);
        if core::mem::take(&mut self.short) {
            self.queued = 0;
            if !starts && round.lost as f64 <= MOST * round.all() as f64 {
                self.remember(round);
            }
            return false;
        }
        self.queued += 1;
        if self.queued > FORGOTTEN {
            (self.queued, self.clear) = (0, Bytes::default());
        }
        let explained = SPREAD * self.chance() * round.all() as f64 + FEW * self.piece as f64;
        round.lost as f64 > explained && self.queue.is_there()
    }

    fn remember(&mut self, round: Bytes) {
        self.clear.brought = self.clear.brought.saturating_add(round.brought);
        self.clear.lost = self.clear.lost.saturating_add(round.lost);
        while self.clear.all() > 4 * TELL {
            self.clear = Bytes { brought: self.clear.brought / 2, lost: self.clear.lost / 2 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// So many round trips of 40 packets that each take so long, in each of which so many of 100 pieces are lost:
    /// how often a queue has lost them.
    fn rounds(repaired: &mut Repaired, n: u32, took: Duration, lost: u64) -> u32 {
        let mut rtt = Rtt::default();
        rtt.sample(ms(10), ms(0));
        rtt.sample(took, ms(0));
        let mut queues = 0;
        for _ in 0..n {
            for _ in 0..40 {
                repaired.on_round_trip(took, &rtt, 40.0);
            }
            repaired.on_path((100 - lost) * 1_000, lost as i64 * 1_000, 1_000);
            queues += u32::from(repaired.end_round(false));
        }
        queues
    }

    #[test]
    fn a_queue_has_lost_what_chance_does_not_explain() {
        let mut repaired = Repaired::default();
        assert_eq!(rounds(&mut repaired, 10, ms(10), 5), 0, "there is no queue");
        assert_eq!(rounds(&mut repaired, 10, ms(15), 13), 0, "not much more than before");
        assert_eq!(rounds(&mut repaired, 10, ms(15), 14), 10);
        assert_eq!(rounds(&mut repaired, 1, ms(10), 40), 0, "and it has gone");
    }

    #[test]
    fn what_chance_takes_is_not_known_for_ever() {
        let mut repaired = Repaired::default();
        assert_eq!(rounds(&mut repaired, 10, ms(15), 3), 0, "few");
        assert_eq!(rounds(&mut repaired, 1, ms(15), 4), 1, "nothing is known of chance");
        rounds(&mut repaired, 10, ms(10), 20);
        assert_eq!(rounds(&mut repaired, FORGOTTEN, ms(15), 30), 0);
        assert_eq!(rounds(&mut repaired, 10, ms(15), 30), 10);
    }

    #[test]
    fn what_comes_late_was_not_lost() {
        let mut repaired = Repaired::default();
        rounds(&mut repaired, 10, ms(15), 0);
        repaired.on_path(0, 9_000, 1_000);
        repaired.on_path(9_000, -9_000, 1_000);
        assert_eq!(rounds(&mut repaired, 1, ms(15), 0), 0);
        // Also where it was missed in the round trip before.
        rounds(&mut repaired, 10, ms(10), 10);
        repaired.on_path(0, -100_000, 1_000);
        assert_eq!(repaired.chance(), 0.0);
    }

    /// The first packets of a burst find no queue, and the last ones overflow it.
    #[test]
    fn what_a_burst_loses_is_no_chance() {
        let mut repaired = Repaired::default();
        rounds(&mut repaired, 20, ms(10), 5);
        let chance = repaired.chance();
        rounds(&mut repaired, 20, ms(10), 60);
        assert_eq!(repaired.chance(), chance);
        rounds(&mut repaired, 100, ms(10), 30);
        rounds(&mut repaired, 10, ms(15), 65);
        assert_eq!(rounds(&mut repaired, 10, ms(15), 65), 10);
    }
}
