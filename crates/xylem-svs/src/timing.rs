//! When a group sends.

use core::time::Duration;

use xylem_congestion::SplitMix64;

/// The protocol's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupTiming {
    /// PeriodicTimeout: at rest one member of the group sends at this interval, ±10 %.
    pub periodic: Duration,
    /// SuppressionPeriod: after an old vector a member waits at most this long for another to answer it.
    pub suppression: Duration,
    /// Length of a round after a change (see [`GroupTiming::ROUNDS`]): about one round trip.
    pub settle: Duration,
}

impl Default for GroupTiming {
    /// 30 s and 200 ms as in the specification; 100 ms.
    fn default() -> Self {
        GroupTiming {
            periodic: Duration::from_secs(30),
            suppression: Duration::from_millis(200),
            settle: Duration::from_millis(100),
        }
    }
}

impl GroupTiming {
    /// Rounds after a change, in each of which some member repeats the vector. A member that has lost the Interest of
    /// the change then need not wait for the next periodic one. A member that receives a repetition in a round does not
    /// repeat the vector itself in that round.
    pub const ROUNDS: u32 = 4;
    /// Average number of members that decide to repeat a vector in a round, before they receive each other's.
    const SPEAKERS: u64 = 4;
    const SETTLE_LEAST: Duration = Duration::from_millis(10);
    const SETTLE_MOST: Duration = Duration::from_secs(1);
    /// How often the waiting time may double while answers change nothing.
    const DOUBLINGS: u32 = 4;

    pub(crate) fn set_settle(&mut self, round_trip: Duration) {
        self.settle = round_trip.clamp(Self::SETTLE_LEAST, Self::SETTLE_MOST);
    }

    /// PeriodicTimeout ± 10 %.
    pub(crate) fn periodic(&self, chance: &mut SplitMix64) -> Duration {
        self.periodic.mul_f64(0.9 + 0.2 * fraction(chance))
    }

    /// The end of a round, half a round to one and a half from now.
    pub(crate) fn round(&self, chance: &mut SplitMix64) -> Duration {
        self.settle.mul_f64(0.5 + fraction(chance))
    }

    /// SuppressionTimeout: c (1 - e^((v - c) / (c / 10))), with v uniform between 0 and c; c doubles with each answer
    /// that changed nothing.
    pub(crate) fn suppression(&self, fruitless: u32, chance: &mut SplitMix64) -> Duration {
        let c = self.suppression.saturating_mul(1 << fruitless.min(Self::DOUBLINGS));
        c.mul_f64(1.0 - (10.0 * (fraction(chance) - 1.0)).exp())
    }

    /// Whether this one of `members` is drawn to send in a round.
    pub(crate) fn is_drawn_to_send(members: usize, chance: &mut SplitMix64) -> bool {
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        fraction(chance) * f64::from(members) < Self::SPEAKERS as f64
    }
}

/// A uniform number, at least 0 and below 1.
fn fraction(chance: &mut SplitMix64) -> f64 {
    (chance.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}
