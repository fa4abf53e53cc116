//! Computed cost of shaping profiles, for the table of docs/shaping.md and a row of the benchmarks.

use core::time::Duration;

use crate::mtu::BASE_DATAGRAM;
use crate::seal::OVERHEAD;
use crate::shape::{Cover, SendTiming, ShapingProfile};

/// The cost of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapingCost {
    /// Bytes in datagrams for each thousand bytes without shaping.
    pub permille: u64,
    /// Mean wait of a packet with none before it.
    pub delay: Duration,
    /// Most bytes a second that can pass; `None` without a limit.
    pub rate: Option<u64>,
    /// Bytes a second of cover on an idle link, while cover is sent.
    pub cover: u64,
}

impl ShapingProfile {
    /// Estimates the cost for packets of `len` bytes, each alone, on a path that carries datagrams of `most` bytes.
    #[must_use]
    pub fn cost(&self, len: usize, most: usize) -> ShapingCost {
        let profile = self.bounded();
        let most = most.max(BASE_DATAGRAM);
        let moments = match profile.cover {
            Cover::Constant { interval, .. } => SendTiming::Fixed(interval),
            _ => profile.timing,
        };
        let full = profile.padding.largest().map_or(most, |largest| largest.min(most));
        let mean =
            if profile.padding.is_chosen() { profile.padding.mean().min(most) } else { full };
        // A packet needs whole datagrams, and one for the remainder.
        let room = (mean - OVERHEAD).max(1);
        let (whole, rest) = (len / room, len % room);
        let last = if rest == 0 { 0 } else { profile.padding.closed(rest + OVERHEAD, mean) };
        let (shaped, plain) = (whole * mean + last, len + len.div_ceil(most - OVERHEAD) * OVERHEAD);
        let per_second = |size: usize, burst: u16, gap: Duration| {
            (size as f64 * f64::from(burst) / gap.as_secs_f64()) as u64
        };
        let cover = match profile.cover {
            Cover::None => 0,
            Cover::Constant { interval, .. } => per_second(mean, profile.burst, interval),
            Cover::Poisson { mean: gap, .. } => per_second(mean, 1, gap),
        };
        let gated = moments != SendTiming::None;
        ShapingCost {
            permille: shaped as u64 * 1_000 / (plain as u64).max(1),
            // Half the gap with a fixed rhythm; after a silence, a whole drawn gap.
            delay: if matches!(moments, SendTiming::Fixed(_)) {
                moments.mean() / 2
            } else {
                moments.mean()
            },
            rate: gated.then(|| per_second(mean, profile.burst, moments.mean())),
            cover,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    #[test]
    fn levels_cost_more_the_more_they_hide() {
        let costs = Level::ALL.map(|level| level.profile().cost(50, 1_452));
        assert!(costs.windows(2).all(|pair| pair[0].permille <= pair[1].permille), "{costs:?}");
        assert_eq!(
            costs[0],
            ShapingCost { permille: 1_000, delay: Duration::ZERO, rate: None, cover: 0 }
        );
        assert_eq!(costs[4].rate, Some(985_600));
        assert_eq!(costs[4].cover, 985_600, "busy or idle");
    }
}
