//! [`Bits`]: a set of small integers with summary levels.
//!
//! Level 0 holds one bit per integer. A bit of level k + 1 is set if its word of level k is not zero. So membership,
//! insertion, removal, the count and the next member from any position each cost a few word operations, whatever the
//! size.

use alloc::{vec, vec::Vec};
use core::ops::Range;

/// 64^8 bits: more than any address space holds, so the depth never grows past it.
const MAX_LEVELS: usize = 8;

/// Places past the last member to which [`Bits::list`] may write.
pub(super) const SPARE: usize = 8;
/// Number of members from which a word is listed byte by byte.
const DENSE: usize = 16;

/// The positions of the set bits of each byte, ascending; the places after them have no meaning.
static BITS_OF_BYTE: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut at) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte][at] = bit;
                at += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// A set of integers below a fixed length, with all its bits in memory.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Bits {
    len: u64,
    count: u64,
    depth: usize,
    starts: [usize; MAX_LEVELS + 1],
    words: Vec<u64>,
}

impl Bits {
    /// The empty set over `0..len`. Takes `len / 8` bytes and 2 % more.
    pub(super) fn new(len: u64) -> Self {
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

    /// Memory of the set in bytes, without this struct.
    pub(super) fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    /// Number of members, in O(1).
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns whether `i` is a member; false outside `0..len`.
    #[inline]
    pub(super) fn contains(&self, i: u64) -> bool {
        i < self.len && self.words[(i / 64) as usize] >> (i % 64) & 1 == 1
    }

    /// Adds `i`. Returns false if it is a member already or lies outside `0..len`.
    #[inline]
    pub(super) fn insert(&mut self, i: u64) -> bool {
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

    /// Removes `i`. Returns false if it is not a member.
    #[inline]
    pub(super) fn remove(&mut self, i: u64) -> bool {
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

    /// Adds or removes all integers of `range`, a word at a time.
    pub(super) fn change_range(&mut self, range: Range<u64>, set: bool) {
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

    /// Updates the summaries of words `first..=last` of level 0.
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

    /// The smallest member at or above `from`. Accesses at most two words of each level.
    #[inline]
    pub(super) fn next(&self, from: u64) -> Option<u64> {
        if from >= self.len {
            return None;
        }
        let mut position = from;
        let mut level = 0;
        // Up: until a word has a bit at or above the position.
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
        // Down: the lowest bit of each word. A summary bit never stands for an empty word.
        while level > 0 {
            level -= 1;
            let word = self.words[self.starts[level] + found as usize];
            found = found * 64 + u64::from(word.trailing_zeros());
        }
        Some(found)
    }

    /// The smallest integer at or above `from` that is not a member; the length if there is none.
    pub(super) fn next_absent(&self, from: u64) -> u64 {
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

    /// The members in ascending order. Each takes one word operation; the summaries are searched only to skip empty
    /// words.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
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

    /// Writes the members in ascending order, each plus `offset`, to the front of `out`, which must have room for them
    /// and [`SPARE`] more. Returns their number.
    pub(super) fn list(&self, offset: u64, out: &mut [u64]) -> usize {
        let (words, summaries) = self.words.split_at(self.starts[1]);
        let mut at = 0;
        let mut write =
            |w: usize| at += list_word(words[w], offset + 64 * w as u64, &mut out[at..]);
        if self.depth == 1 {
            write(0);
        } else {
            // The summary marks the words that have members. Testing each word instead would be an unpredictable branch
            // in a sparse set.
            for (n, summary) in summaries[..self.starts[2] - self.starts[1]].iter().enumerate() {
                let mut rest = *summary;
                while rest != 0 {
                    write(64 * n + rest.trailing_zeros() as usize);
                    rest &= rest - 1;
                }
            }
        }
        at
    }
}

/// [`Bits::list`] for one word. It writes several places at a time, more than there are members, as a loop over their
/// unpredictable number would mispredict.
#[inline]
fn list_word(word: u64, base: u64, out: &mut [u64]) -> usize {
    let count = word.count_ones() as usize;
    if count < DENSE {
        let mut rest = word;
        for places in out.as_chunks_mut::<4>().0 {
            for place in places {
                *place = base + u64::from(rest.trailing_zeros());
                rest &= rest.wrapping_sub(1);
            }
            if rest == 0 {
                break;
            }
        }
    } else {
        let mut at = 0;
        for (i, byte) in word.to_le_bytes().into_iter().enumerate() {
            let base = base + 8 * i as u64;
            let places = &mut out[at..at + 8];
            for (place, bit) in places.iter_mut().zip(&BITS_OF_BYTE[usize::from(byte)]) {
                *place = base + u64::from(*bit);
            }
            at += byte.count_ones() as usize;
        }
    }
    count
}
