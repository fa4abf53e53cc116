//! [`Ahead`]: what a reader is likely to want next.

use std::ops::Range;

/// Bytes that are asked for ahead when somebody has begun to read in order.
const FIRST: u64 = 128 << 10;
/// Most bytes that are asked for ahead: what a link of 1 Gbit/s brings in 0.13 s.
const MOST: u64 = 16 << 20;
/// A kernel that reads ahead itself asks for several pieces at once, in any order: what lies this close to where
/// the reader is goes on with it.
const NEAR: u64 = 1 << 20;

/// Follows one reader through a file. The window doubles while it reads in order, as in the kernel, and is
/// closed when it goes elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Past the furthest byte of the run that is read in order.
    at: u64,
    window: u64,
    /// Past the last byte that was asked for ahead.
    asked: u64,
}

/// What follows from one read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing to ask for.
    Nothing,
    /// What is read next is likely to be this.
    Ask(Range<u64>),
    /// The reader went elsewhere: what was asked for ahead is of no use.
    Elsewhere,
}

impl Ahead {
    /// Somebody reads `bytes` of a file of `size`.
    pub(crate) fn read(&mut self, bytes: &Range<u64>, size: u64) -> Next {
        let near = bytes.start <= self.at.saturating_add(NEAR)
            && bytes.end.saturating_add(NEAR) >= self.at;
        if !near {
            let asked = self.asked > self.at;
            *self = Self { at: bytes.end, window: 0, asked: bytes.end };
            return if asked { Next::Elsewhere } else { Next::Nothing };
        }
        if bytes.end <= self.at {
            return Next::Nothing;
        }
        // What was never read in order begins at the file's front, or behind what was read last.
        let in_order = bytes.start <= self.at;
        self.at = bytes.end;
        self.asked = self.asked.max(self.at);
        if !in_order && self.window == 0 {
            return Next::Nothing;
        }
        self.window = (self.window * 2).clamp(FIRST, MOST);
        // Half a window is there still: asking for little at a time costs more.
        if self.asked - self.at > self.window / 2 {
            return Next::Nothing;
        }
        let end = self.at.saturating_add(self.window).min(size);
        let from = self.asked;
        self.asked = end.max(from);
        if from < end { Next::Ask(from..end) } else { Next::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1 << 10;

    #[test]
    fn who_reads_in_order_gets_more_and_more_ahead() {
        let (mut ahead, size, mut at) = (Ahead::default(), 1 << 30, 0);
        let mut furthest = 0;
        for _ in 0..1_000 {
            if let Next::Ask(range) = ahead.read(&(at..at + 128 * K), size) {
                assert!(range.start == furthest.max(at + 128 * K), "{range:?} after {furthest}");
                furthest = range.end;
            }
            at += 128 * K;
            assert!(furthest >= at, "something is always asked for ahead");
            assert!(furthest <= at + MOST, "and never more than the window");
        }
        assert!(furthest > at + MOST / 4);
    }

    #[test]
    fn who_reads_here_and_there_gets_nothing_ahead() {
        let (mut ahead, size) = (Ahead::default(), 1 << 30);
        for i in 1..100_u64 {
            let at = i * 7_919 * 4_096 % size;
            assert_eq!(ahead.read(&(at..at + 4 * K), size), Next::Nothing, "{i}");
        }
    }

    #[test]
    fn who_goes_elsewhere_gives_up_what_was_ahead_and_nothing_is_asked_past_the_end() {
        let mut ahead = Ahead::default();
        assert_eq!(ahead.read(&(0..4 * K), 1 << 30), Next::Ask(4 * K..132 * K));
        assert_eq!(ahead.read(&(500 << 20..(500 << 20) + 4 * K), 1 << 30), Next::Elsewhere);
        let mut ahead = Ahead::default();
        assert_eq!(ahead.read(&(0..4 * K), 10 * K), Next::Ask(4 * K..10 * K));
        assert_eq!(ahead.read(&(4 * K..8 * K), 10 * K), Next::Nothing);
        assert_eq!(ahead.read(&(8 * K..10 * K), 10 * K), Next::Nothing);
    }
}
