//! [`SegmentSet`]: which segments of a file are there.

use std::ops::Range;

/// A set of segment numbers `0..len`, one bit each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentSet {
    words: Vec<u64>,
    len: u64,
    count: u64,
}

impl SegmentSet {
    /// The empty set over `len` segments.
    #[must_use]
    pub fn new(len: u64) -> Self {
        Self { words: vec![0; len.div_ceil(64) as usize], len, count: 0 }
    }

    /// Segments that could be in it: the file's.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether no segment is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Segments that are in it.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether all are in it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.count == self.len
    }

    /// Whether segment `i` is in it; false beyond the end.
    #[must_use]
    pub fn contains(&self, i: u64) -> bool {
        i < self.len && self.words[(i / 64) as usize] & (1 << (i % 64)) != 0
    }

    /// Adds segment `i`; true if it was not there. Beyond the end nothing happens.
    pub fn insert(&mut self, i: u64) -> bool {
        if i >= self.len {
            return false;
        }
        let (word, bit) = (&mut self.words[(i / 64) as usize], 1 << (i % 64));
        let new = *word & bit == 0;
        *word |= bit;
        self.count += u64::from(new);
        new
    }

    /// Adds a range, cut off at the end.
    pub fn insert_range(&mut self, range: Range<u64>) {
        for i in range.start..range.end.min(self.len) {
            self.insert(i);
        }
    }

    /// The bits, 64 to a word, segment 0 in the lowest bit of the first; bits beyond the last
    /// segment are zero.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The segments in it as maximal ranges, ascending.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.runs(true)
    }

    /// The segments not in it as maximal ranges, ascending.
    pub fn missing(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.runs(false)
    }

    fn runs(&self, present: bool) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = self.next(at, present);
            if start == self.len {
                return None;
            }
            at = self.next(start, !present);
            Some(start..at)
        })
    }

    /// The first segment from `from` on that is in the set (or not in it); `len` if there is none.
    fn next(&self, from: u64, present: bool) -> u64 {
        let mut at = from;
        while at < self.len {
            let word = self.words[(at / 64) as usize];
            let wanted = if present { word } else { !word } >> (at % 64);
            if wanted != 0 {
                return (at + u64::from(wanted.trailing_zeros())).min(self.len);
            }
            at = (at / 64 + 1) * 64;
        }
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_missing_split_the_whole() {
        for len in [0, 1, 63, 64, 65, 130, 200] {
            let mut set = SegmentSet::new(len);
            let mut plain = vec![false; len as usize];
            let mut rng = xylem_sim::Rng::new(len);
            for _ in 0..len / 2 {
                let i = rng.below(len);
                assert_eq!(set.insert(i), !plain[i as usize]);
                plain[i as usize] = true;
            }
            let mut seen = vec![None; len as usize];
            for r in set.ranges() {
                r.for_each(|i| seen[i as usize] = Some(true));
            }
            for r in set.missing() {
                r.for_each(|i| assert!(seen[i as usize].replace(false).is_none()));
            }
            assert!(seen.iter().zip(&plain).all(|(s, p)| *s == Some(*p)));
            assert_eq!(set.count(), plain.iter().filter(|p| **p).count() as u64);
        }
    }

    #[test]
    fn beyond_the_end_is_never_in() {
        let mut set = SegmentSet::new(3);
        assert!(!set.insert(3));
        set.insert_range(0..99);
        assert!(set.is_full() && !set.contains(3) && !set.contains(u64::MAX));
        assert_eq!(set.ranges().collect::<Vec<_>>(), vec![0..3]);
        assert_eq!(set.missing().count(), 0);
    }
}
