//! [`ReadAhead`]: predicts what a reader requests next.

use std::ops::Range;

/// Bytes of the first window when sequential reading begins.
const FIRST_WINDOW: u64 = 128 << 10;
/// Most bytes of the window: what a link of 1 Gbit/s transfers in 0.13 s.
const MAX_WINDOW: u64 = 16 << 20;
/// Greatest distance of a sequential read. A kernel with read-ahead of its own requests several pieces at once, in any
/// order.
const SEQUENTIAL_DISTANCE: u64 = 1 << 20;

/// Follows one reader through a file. The window doubles while it reads sequentially, as in the kernel, and closes when
/// it goes elsewhere.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    /// End of the sequential run.
    at: u64,
    window: u64,
    /// End of the bytes requested ahead.
    asked: u64,
}

/// The consequence of one read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AheadStep {
    /// Request nothing.
    Nothing,
    /// Request this range, which is likely to be read next.
    Ask(Range<u64>),
    /// The reader went elsewhere: the bytes requested ahead are of no use.
    Elsewhere,
}

impl ReadAhead {
    /// Notes a read of `bytes` in a file of `size`.
    pub(crate) fn read(&mut self, bytes: &Range<u64>, size: u64) -> AheadStep {
        let near = bytes.start <= self.at.saturating_add(SEQUENTIAL_DISTANCE)
            && bytes.end.saturating_add(SEQUENTIAL_DISTANCE) >= self.at;
        if !near {
            let asked = self.asked > self.at;
            *self = Self { at: bytes.end, window: 0, asked: bytes.end };
            return if asked { AheadStep::Elsewhere } else { AheadStep::Nothing };
        }
        if bytes.end <= self.at {
            return AheadStep::Nothing;
        }
        // A first sequential read starts at the file's front, or at the end of the last read.
        let in_order = bytes.start <= self.at;
        self.at = bytes.end;
        self.asked = self.asked.max(self.at);
        if !in_order && self.window == 0 {
            return AheadStep::Nothing;
        }
        self.window = (self.window * 2).clamp(FIRST_WINDOW, MAX_WINDOW);
        // Half of the window is still ahead: small requests cost more.
        if self.asked - self.at > self.window / 2 {
            return AheadStep::Nothing;
        }
        let end = self.at.saturating_add(self.window).min(size);
        let from = self.asked;
        self.asked = end.max(from);
        if from < end { AheadStep::Ask(from..end) } else { AheadStep::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1 << 10;

    #[test]
    fn sequential_reading_widens_the_window() {
        let (mut ahead, size, mut at) = (ReadAhead::default(), 1 << 30, 0);
        let mut furthest = 0;
        for _ in 0..1_000 {
            if let AheadStep::Ask(range) = ahead.read(&(at..at + 128 * K), size) {
                assert!(range.start == furthest.max(at + 128 * K), "{range:?} after {furthest}");
                furthest = range.end;
            }
            at += 128 * K;
            assert!(furthest >= at, "something is always asked for ahead");
            assert!(furthest <= at + MAX_WINDOW, "and never more than the window");
        }
        assert!(furthest > at + MAX_WINDOW / 4);
    }

    #[test]
    fn random_reading_requests_nothing_ahead() {
        let (mut ahead, size) = (ReadAhead::default(), 1 << 30);
        for i in 1..100_u64 {
            let at = i * 7_919 * 4_096 % size;
            assert_eq!(ahead.read(&(at..at + 4 * K), size), AheadStep::Nothing, "{i}");
        }
    }

    #[test]
    fn a_jump_closes_the_window_which_ends_with_the_file() {
        let mut ahead = ReadAhead::default();
        assert_eq!(ahead.read(&(0..4 * K), 1 << 30), AheadStep::Ask(4 * K..132 * K));
        assert_eq!(ahead.read(&(500 << 20..(500 << 20) + 4 * K), 1 << 30), AheadStep::Elsewhere);
        let mut ahead = ReadAhead::default();
        assert_eq!(ahead.read(&(0..4 * K), 10 * K), AheadStep::Ask(4 * K..10 * K));
        assert_eq!(ahead.read(&(4 * K..8 * K), 10 * K), AheadStep::Nothing);
        assert_eq!(ahead.read(&(8 * K..10 * K), 10 * K), AheadStep::Nothing);
    }
}
