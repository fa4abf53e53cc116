//! Rarest first: blocks that few peers have are asked for before blocks that many have.
//!
//! Fetchers of one source thus come to hold different blocks and serve each other. Ties are broken at random. None of
//! this runs while all peers have everything, or while the caller wants segments in order.

use core::time::Duration;

use crate::available::{BLOCK, SegmentRuns};

/// Number of blocks of one object that are compared in one choice.
const MAX_BLOCKS_TRIED: u32 = 64;
/// How long a count of peers per block stays in use after a peer has announced something new.
const COUNT_LIFETIME: Duration = Duration::from_millis(100);

/// For each block of an object, the number of partial peers that have something of it.
#[derive(Debug)]
pub(crate) struct BlockRarity {
    counts: Vec<u8>,
    /// The version of [`TransferPeers`](crate::peers::TransferPeers) that was counted. `None`: nothing is counted yet.
    version: Option<u64>,
    counted_at: Duration,
}

impl BlockRarity {
    /// The counts for an object of `segments` segments. Nothing is counted yet.
    pub(crate) fn new(segments: u64) -> Self {
        let counts = vec![0; segments.div_ceil(BLOCK) as usize];
        Self { counts, version: None, counted_at: Duration::ZERO }
    }

    /// Counts the parts that peers have, unless that was done for this version or less than [`COUNT_LIFETIME`] ago.
    pub(crate) fn count<'a>(
        &mut self,
        now: Duration,
        version: u64,
        parts: impl Iterator<Item = SegmentRuns<'a>>,
    ) {
        let is_fresh = |of| of == version || now < self.counted_at + COUNT_LIFETIME;
        if self.version.is_some_and(is_fresh) {
            return;
        }
        self.counts.fill(0);
        parts.for_each(|runs| runs.count_blocks(&mut self.counts));
        (self.version, self.counted_at) = (Some(version), now);
    }

    /// The block with the fewest peers among some blocks at and after segment `start`. Returns the number of peers and
    /// the block. `next` gives the first segment at or after another that may be asked for.
    pub(crate) fn rarest(
        &self,
        start: u64,
        next: impl Fn(u64) -> Option<u64>,
    ) -> Option<(u8, u64)> {
        let mut best: Option<(u8, u64)> = None;
        let (mut from, mut wrapped) = (start, false);
        for _ in 0..MAX_BLOCKS_TRIED {
            let Some(i) = next(from).filter(|i| !wrapped || *i < start) else {
                if wrapped {
                    break;
                }
                (from, wrapped) = (0, true);
                continue;
            };
            let block = i / BLOCK;
            let count = self.counts.get(block as usize).copied().unwrap_or(0);
            if best.is_none_or(|(least, _)| count < least) {
                best = Some((count, block));
                if count == 0 {
                    break;
                }
            }
            from = (block + 1) * BLOCK;
        }
        best
    }
}
