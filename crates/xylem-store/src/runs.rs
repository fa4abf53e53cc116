//! Divides the regions of a file among several threads.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most consecutive regions for a thread: 64 MiB. Sequential reading of a disk is fastest. Several threads at as many
/// places are nearly as fast if each stays at its place for a while.
const LONGEST: u64 = 16;

/// Hands out the numbers below a count in ascending runs: long ones first, and single ones towards the end, so that no
/// thread waits long for the last.
#[derive(Debug)]
pub struct RegionRuns {
    next: AtomicU64,
    count: u64,
    threads: u64,
}

impl RegionRuns {
    /// Divides `0..count` among up to `threads` threads.
    #[must_use]
    pub fn new(count: u64, threads: usize) -> Self {
        let threads = u64::try_from(threads).unwrap_or(u64::MAX).max(1);
        Self { next: AtomicU64::new(0), count, threads }
    }

    /// The next run; `None` after the last.
    pub fn next_run(&self) -> Option<Range<u64>> {
        let end = |first: u64| {
            let left = self.count.checked_sub(first).filter(|left| *left > 0)?;
            Some(first + (left / self.threads.saturating_mul(4)).clamp(1, LONGEST))
        };
        // Relaxed: threads share nothing but the numbers here.
        let first = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end).ok()?;
        Some(first..end(first)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_handed_out_once_and_the_last_singly() {
        for (count, threads) in [(0, 2), (1, 1), (1, 64), (7, 0), (256, 2), (257, 3), (1000, 16)] {
            let runs = RegionRuns::new(count, threads);
            let taken: Vec<Range<u64>> = std::iter::from_fn(|| runs.next_run()).collect();
            assert!(taken.iter().cloned().flatten().eq(0..count), "{count} for {threads}");
            assert!(taken.iter().all(|run| run.end - run.start <= LONGEST));
            assert!(taken.last().is_none_or(|run| run.end - run.start == 1));
            assert_eq!(runs.next_run(), None);
        }
        assert_eq!(RegionRuns::new(256, 2).next_run(), Some(0..LONGEST));
    }
}
