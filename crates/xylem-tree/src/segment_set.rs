//! [`SegmentSet`]: which segments of a file are there, or missing; a set of small integers with summary
//! levels.
//!
//! Level 0 holds one bit per member; a bit of level k + 1 says that the word below it is not zero. So
//! membership, insertion, removal, the count and the next member from any position all cost a handful of
//! word operations, whatever the size: 64 GiB in 8 KiB segments is 2^23 bits, about 1 MB with summaries.

use alloc::{vec, vec::Vec};
use core::ops::Range;

/// 64^8 bits: more than any address space holds, so the depth never grows past it.
const MAX_LEVELS: usize = 8;

/// A set of segment numbers, or of other integers below a fixed length.
///
/// ```
/// let mut missing = xylem_tree::SegmentSet::new(1_000);
/// missing.insert_range(10..14);
/// missing.remove(11);
/// assert_eq!((missing.count(), missing.next(11)), (3, Some(12)));
/// assert!(missing.ranges().eq([10..11, 12..14]));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SegmentSet {
    len: u64,
    count: u64,
    depth: usize,
    starts: [usize; MAX_LEVELS + 1],
    words: Vec<u64>,
}

impl core::fmt::Debug for SegmentSet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SegmentSet({} of {})", self.count, self.len)
    }
}

impl SegmentSet {
    /// The empty set over `0..len`. Takes `len / 8` bytes and 2 % more.
    pub fn new(len: u64) -> Self {
        let mut starts = [0; MAX_LEVELS + 1];
        let (mut depth, mut total, mut bits) = (0, 0, len);
        loop {
            let words = bits.div_ceil(64).max(1);
            total += words as usize;
            depth += 1;
            starts[depth] = total;
            if words == 1 || depth == MAX_LEVELS {
                break;
            }
            bits = words;
        }
        Self { len, count: 0, depth, starts, words: vec![0; total] }
    }

    /// Bytes of memory that the set takes, beside this struct.
    pub fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    /// How many integers the set may hold: members are below it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the set has no member.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many members the set has, in O(1).
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether all integers below its length are members.
    pub fn is_full(&self) -> bool {
        self.count == self.len
    }

    /// Whether `i` is a member; false outside `0..len`.
    #[inline]
    pub fn contains(&self, i: u64) -> bool {
        i < self.len && self.words[(i / 64) as usize] >> (i % 64) & 1 == 1
    }

    /// Adds `i`; false if it was there already or lies outside.
    #[inline]
    pub fn insert(&mut self, i: u64) -> bool {
        if i >= self.len || self.contains(i) {
            return false;
        }
        self.count += 1;
        let mut position = i;
        for level in 0..self.depth {
            let word = &mut self.words[self.starts[level] + (position / 64) as usize];
            let was_empty = *word == 0;
            *word |= 1 << (position % 64);
            if !was_empty {
                break;
            }
            position /= 64;
        }
        true
    }

    /// Takes `i` out; false if it was not there.
    #[inline]
    pub fn remove(&mut self, i: u64) -> bool {
        if !self.contains(i) {
            return false;
        }
        self.count -= 1;
        let mut position = i;
        for level in 0..self.depth {
            let word = &mut self.words[self.starts[level] + (position / 64) as usize];
            *word &= !(1 << (position % 64));
            if *word != 0 {
                break;
            }
            position /= 64;
        }
        true
    }

    /// Adds every member of `range`, a word at a time; what lies outside `0..len` is left out.
    pub fn insert_range(&mut self, range: Range<u64>) {
        self.change_range(range, true);
    }

    /// Takes every member of `range` out, a word at a time.
    pub fn remove_range(&mut self, range: Range<u64>) {
        self.change_range(range, false);
    }

    fn change_range(&mut self, range: Range<u64>, set: bool) {
        let (start, end) = (range.start, range.end.min(self.len));
        if start >= end {
            return;
        }
        let (first, last) = (start / 64, (end - 1) / 64);
        for w in first..=last {
            let low = if w == first { start % 64 } else { 0 };
            let high = if w == last { (end - 1) % 64 } else { 63 };
            let mask = (u64::MAX << low) & (u64::MAX >> (63 - high));
            let word = &mut self.words[w as usize];
            let before = word.count_ones();
            *word = if set { *word | mask } else { *word & !mask };
            self.count = self.count + u64::from(word.count_ones()) - u64::from(before);
        }
        self.summarise(first, last);
    }

    /// Makes the summaries of words `first..=last` of level 0 agree with them.
    fn summarise(&mut self, mut first: u64, mut last: u64) {
        for level in 1..self.depth {
            for below in first..=last {
                let full = self.words[self.starts[level - 1] + below as usize] != 0;
                let word = &mut self.words[self.starts[level] + (below / 64) as usize];
                let bit = 1 << (below % 64);
                *word = if full { *word | bit } else { *word & !bit };
            }
            (first, last) = (first / 64, last / 64);
        }
    }

    /// The smallest member at or above `from`. At most two words of each level are looked at.
    #[inline]
    pub fn next(&self, from: u64) -> Option<u64> {
        if from >= self.len {
            return None;
        }
        let mut position = from;
        let mut level = 0;
        // Up: until a word holds a bit at or above the position.
        let mut found = loop {
            let in_level = self.starts[level + 1] - self.starts[level];
            let w = (position / 64) as usize;
            if w >= in_level {
                return None;
            }
            let rest = self.words[self.starts[level] + w] & (u64::MAX << (position % 64));
            if rest != 0 {
                break w as u64 * 64 + u64::from(rest.trailing_zeros());
            }
            level += 1;
            if level == self.depth {
                return None;
            }
            position = w as u64 + 1;
        };
        // Down: the lowest bit of each word; summaries never name an empty word.
        while level > 0 {
            level -= 1;
            let word = self.words[self.starts[level] + found as usize];
            found = found * 64 + u64::from(word.trailing_zeros());
        }
        Some(found)
    }

    /// The smallest integer at or above `from` that is no member; the length if there is none.
    fn next_absent(&self, from: u64) -> u64 {
        let mut at = from;
        while at < self.len {
            let absent = !self.words[(at / 64) as usize] >> (at % 64);
            if absent != 0 {
                return (at + u64::from(absent.trailing_zeros())).min(self.len);
            }
            at = (at / 64 + 1) * 64;
        }
        self.len
    }

    /// The members as maximal ranges, ascending.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut at = 0;
        core::iter::from_fn(move || {
            let start = self.next(at)?;
            at = self.next_absent(start);
            Some(start..at)
        })
    }

    /// What is no member, as maximal ranges, ascending.
    pub fn missing(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut at = 0;
        core::iter::from_fn(move || {
            let start = self.next_absent(at);
            at = self.next(start).unwrap_or(self.len);
            (start < self.len).then_some(start..at)
        })
    }

    /// The members in ascending order: a word operation each, and a walk over the summaries only where
    /// words between two members are empty.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let mut left = self.count;
        let (mut at, mut rest) = (0, self.words.first().copied().unwrap_or(0));
        core::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            left -= 1;
            if rest == 0 {
                at = self.next(64 * (at + 1))? / 64;
                rest = self.words[at as usize];
            }
            let i = 64 * at + u64::from(rest.trailing_zeros());
            rest &= rest - 1;
            Some(i)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u64),
        Remove(u64),
        InsertRange(u64, u64),
        RemoveRange(u64, u64),
        Next(u64),
    }

    fn op(len: u64) -> impl Strategy<Value = Op> {
        let i = 0..len + 70;
        prop_oneof![
            i.clone().prop_map(Op::Insert),
            i.clone().prop_map(Op::Remove),
            (i.clone(), 0..300_u64).prop_map(|(a, n)| Op::InsertRange(a, a + n)),
            (i.clone(), 0..300_u64).prop_map(|(a, n)| Op::RemoveRange(a, a + n)),
            i.prop_map(Op::Next),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn agrees_with_a_btree_set(
            (len, ops) in (0..9_000_u64).prop_flat_map(|n| (Just(n), prop::collection::vec(op(n), 1..60)))
        ) {
            let mut fast = SegmentSet::new(len);
            let mut slow = BTreeSet::new();
            for op in ops {
                match op {
                    Op::Insert(i) => prop_assert_eq!(fast.insert(i), i < len && slow.insert(i)),
                    Op::Remove(i) => prop_assert_eq!(fast.remove(i), slow.remove(&i)),
                    Op::InsertRange(a, b) => {
                        fast.insert_range(a..b);
                        slow.extend(a..b.min(len).max(a));
                        slow.retain(|i| *i < len);
                    }
                    Op::RemoveRange(a, b) => {
                        fast.remove_range(a..b);
                        slow.retain(|i| !(a..b).contains(i));
                    }
                    Op::Next(i) => prop_assert_eq!(fast.next(i), slow.range(i..).next().copied()),
                }
                prop_assert_eq!(fast.count(), slow.len() as u64);
            }
            prop_assert!(fast.iter().eq(slow.iter().copied()));
            prop_assert!(fast.ranges().flatten().eq(slow.iter().copied()));
            prop_assert!(fast.missing().flatten().eq((0..len).filter(|i| !slow.contains(i))));
            let maximal: Vec<_> = fast.ranges().collect();
            prop_assert!(maximal.windows(2).all(|two| two[0].end < two[1].start));
        }
    }

    #[test]
    fn boundary_lengths() {
        for len in [0, 1, 63, 64, 65, 4095, 4096, 4097, 262_143, 262_144, 262_145] {
            let mut set = SegmentSet::new(len);
            assert_eq!(set.next(0), None);
            set.insert_range(0..len);
            assert_eq!(set.count(), len);
            if len > 0 {
                set.remove_range(0..len - 1);
                assert_eq!((set.next(0), set.count()), (Some(len - 1), 1), "{len}");
            }
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

    #[test]
    fn sixty_four_gibibytes_of_segments_take_about_a_megabyte() {
        let set = SegmentSet::new(1 << 23);
        assert!(set.bytes() < 1_100_000);
    }
}
