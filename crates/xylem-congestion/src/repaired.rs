//! [`RepairedLosses`]: the losses that CUBIC has to react to on a path that repairs them before a packet is missed.
//!
//! Losses in a round trip without a queue are random. With a queue, losses are the queue's if there are more than twice
//! as many. Without this check a flow would keep filling a short queue, and what overflows would be sent again and
//! again.

use core::time::Duration;

use crate::queue::{self, QueueDetector};
use crate::rtt::Rtt;

/// Pieces that may be lost in a round trip: probes for larger datagrams are lost, and one random loss is no queue.
const IGNORED_LOST_PIECES: f64 = 3.0;
/// Random losses vary: up to this multiple still counts as random.
const SPREAD: f64 = 2.0;
/// Largest share of random losses: a round that loses more is not used for the estimate.
const MAX_CHANCE: f64 = 0.3;
/// Bytes that give a share; four times as many are remembered.
const MIN_SHARE_BYTES: u64 = 256 << 10;
/// Round trips with a queue after which the estimate of the random loss is dropped.
const FORGET_AFTER_ROUNDS: u32 = 256;
/// A queue that lengthens the round trip by less than 1/16, or that one packet alone makes, counts as none.
const SHORT_QUEUE: u32 = 16;

/// Bytes delivered and bytes lost.
#[derive(Clone, Copy, Debug, Default)]
struct ByteCounts {
    delivered: u64,
    lost: u64,
}

impl ByteCounts {
    fn all(self) -> u64 {
        self.delivered.saturating_add(self.lost)
    }
}

/// State of one flow; see the module's documentation.
#[derive(Clone, Debug, Default)]
pub(crate) struct RepairedLosses {
    queue: QueueDetector,
    /// Bytes of this round trip, and of round trips without a queue.
    round: ByteCounts,
    clear: ByteCounts,
    piece: u64,
    /// Whether a packet of this round trip found no queue.
    found_no_queue: bool,
    /// Round trips since a packet found no queue.
    queued_rounds: u32,
}

impl RepairedLosses {
    /// Adds bytes delivered by the path and the change of the bytes lost, in pieces of `piece` bytes.
    pub(crate) fn on_path(&mut self, brought: u64, lost: i64, piece: u64) {
        self.round.delivered = self.round.delivered.saturating_add(brought);
        // A late piece may have counted as lost in an earlier round trip.
        let rest = self.round.lost.cast_signed().saturating_add(lost).min(0);
        self.round.lost = self.round.lost.saturating_add_signed(lost);
        self.clear.lost = self.clear.lost.saturating_add_signed(rest);
        self.piece = piece;
    }

    /// Adds a packet's round trip; `packets` is the number that the flow may have under way.
    pub(crate) fn on_round_trip(&mut self, took: Duration, rtt: &Rtt, packets: f64) {
        let (min, mean) = (rtt.min().unwrap_or(took), rtt.smoothed().unwrap_or(took));
        let limit = min + (min / SHORT_QUEUE).max(mean.div_f64(packets.max(1.0)));
        self.found_no_queue |= took <= limit;
        self.queue.on_round_trip(took, limit, queue::samples(queue::SAMPLES, self.chance()));
    }

    /// The share of random losses, if known; else 0.
    fn chance(&self) -> f64 {
        let all = self.clear.all();
        if all < MIN_SHARE_BYTES {
            0.0
        } else {
            (self.clear.lost as f64 / all as f64).min(MAX_CHANCE)
        }
    }

    /// Ends a round trip; `starts` if the flow was still finding its rate. Returns whether a queue has lost some of its
    /// bytes.
    pub(crate) fn end_round(&mut self, starts: bool) -> bool {
        let round = core::mem::take(&mut self.round);
        if core::mem::take(&mut self.found_no_queue) {
            self.queued_rounds = 0;
            if !starts && round.lost as f64 <= MAX_CHANCE * round.all() as f64 {
                self.remember(round);
            }
            return false;
        }
        self.queued_rounds += 1;
        if self.queued_rounds > FORGET_AFTER_ROUNDS {
            (self.queued_rounds, self.clear) = (0, ByteCounts::default());
        }
        let explained =
            SPREAD * self.chance() * round.all() as f64 + IGNORED_LOST_PIECES * self.piece as f64;
        round.lost as f64 > explained && self.queue.has_queue()
    }

    fn remember(&mut self, round: ByteCounts) {
        self.clear.delivered = self.clear.delivered.saturating_add(round.delivered);
        self.clear.lost = self.clear.lost.saturating_add(round.lost);
        while self.clear.all() > 4 * MIN_SHARE_BYTES {
            self.clear =
                ByteCounts { delivered: self.clear.delivered / 2, lost: self.clear.lost / 2 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// Runs `n` round trips of 40 packets that each take `took`, in each of which `lost` of 100 pieces are lost.
    /// Returns how often a queue has lost them.
    fn rounds(repaired: &mut RepairedLosses, n: u32, took: Duration, lost: u64) -> u32 {
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
    fn a_queue_explains_losses_beyond_random_ones() {
        let mut repaired = RepairedLosses::default();
        assert_eq!(rounds(&mut repaired, 10, ms(10), 5), 0, "there is no queue");
        assert_eq!(rounds(&mut repaired, 10, ms(15), 13), 0, "not much more than before");
        assert_eq!(rounds(&mut repaired, 10, ms(15), 14), 10);
        assert_eq!(rounds(&mut repaired, 1, ms(10), 40), 0, "and it has gone");
    }

    #[test]
    fn the_estimate_of_random_loss_expires() {
        let mut repaired = RepairedLosses::default();
        assert_eq!(rounds(&mut repaired, 10, ms(15), 3), 0, "few");
        assert_eq!(rounds(&mut repaired, 1, ms(15), 4), 1, "nothing is known of chance");
        rounds(&mut repaired, 10, ms(10), 20);
        assert_eq!(rounds(&mut repaired, FORGET_AFTER_ROUNDS, ms(15), 30), 0);
        assert_eq!(rounds(&mut repaired, 10, ms(15), 30), 10);
    }

    #[test]
    fn late_pieces_do_not_count_as_lost() {
        let mut repaired = RepairedLosses::default();
        rounds(&mut repaired, 10, ms(15), 0);
        repaired.on_path(0, 9_000, 1_000);
        repaired.on_path(9_000, -9_000, 1_000);
        assert_eq!(rounds(&mut repaired, 1, ms(15), 0), 0);
        // Also if it was missed in the round trip before.
        rounds(&mut repaired, 10, ms(10), 10);
        repaired.on_path(0, -100_000, 1_000);
        assert_eq!(repaired.chance(), 0.0);
    }

    /// The first packets of a burst find no queue, and the last ones overflow it.
    #[test]
    fn losses_of_a_burst_do_not_count_as_random() {
        let mut repaired = RepairedLosses::default();
        rounds(&mut repaired, 20, ms(10), 5);
        let chance = repaired.chance();
        rounds(&mut repaired, 20, ms(10), 60);
        assert_eq!(repaired.chance(), chance);
        rounds(&mut repaired, 100, ms(10), 30);
        rounds(&mut repaired, 10, ms(15), 65);
        assert_eq!(rounds(&mut repaired, 10, ms(15), 65), 10);
    }
}
