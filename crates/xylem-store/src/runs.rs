//! Which of several threads reads which regions of a file.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Regions that a thread reads in a row, at most: 64 MiB. A disk is read fastest by one who goes on where they
/// are; several threads at as many places are nearly that, if they stay there for a while.
const LONGEST: u64 = 16;

/// The numbers below a count, handed out in ascending runs to whoever asks: long ones first, and single ones
/// towards the end, so that nobody waits long for the last.
#[derive(Debug)]
pub struct Runs {
    next: AtomicU64,
    count: u64,
    threads: u64,
}

impl Runs {
    /// `0..count`, for up to `threads` who will ask.
    #[must_use]
    pub fn new(count: u64, threads: usize) -> Self {
        let threads = u64::try_from(threads).unwrap_or(u64::MAX).max(1);
        Self { next: AtomicU64::new(0), count, threads }
    }

    /// The next that nobody has taken yet; `None` after the last.
    pub fn take(&self) -> Option<Range<u64>> {
        let end = |first: u64| {
            let left = self.count.checked_sub(first).filter(|left| *left > 0)?;
            Some(first + (left / self.threads.saturating_mul(4)).clamp(1, LONGEST))
        };
        // Relaxed: the numbers are all that threads share here.
        let first = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end).ok()?;
        Some(first..end(first)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_handed_out_once_and_the_last_ones_alone() {
        for (count, threads) in [(0, 2), (1, 1), (1, 64), (7, 0), (256, 2), (257, 3), (1000, 16)] {
            let runs = Runs::new(count, threads);
            let taken: Vec<Range<u64>> = std::iter::from_fn(|| runs.take()).collect();
            assert!(taken.iter().cloned().flatten().eq(0..count), "{count} for {threads}");
            assert!(taken.iter().all(|run| run.end - run.start <= LONGEST));
            assert!(taken.last().is_none_or(|run| run.end - run.start == 1));
            assert_eq!(runs.take(), None);
        }
        assert_eq!(Runs::new(256, 2).take(), Some(0..LONGEST));
    }
}
