//! Acknowledgements: which datagrams arrived, as ranges of their numbers.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::ops::RangeInclusive;

/// Most ranges of packet numbers in one ack.
pub const MAX_ACK_RANGES: usize = 32;

/// Acknowledges datagrams, newest first; some may not have asked for an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack<'a> {
    /// The highest packet number that arrived of those that ask for an acknowledgement.
    pub largest: u64,
    /// Microseconds from its arrival to this acknowledgement.
    pub delay: u32,
    /// Datagrams so far that a router marked instead of dropping (ECN CE), modulo 2^32.
    pub marked: u32,
    pub(super) ranges: &'a [[u8; 8]],
}

impl<'a> Ack<'a> {
    /// Makes an ack of encoded ranges (see [`AckRanges`]), 1..=[`MAX_ACK_RANGES`] of them. `None` if they are
    /// inconsistent.
    #[inline]
    #[must_use]
    pub fn new(largest: u64, delay: u32, marked: u32, ranges: &'a [[u8; 8]]) -> Option<Self> {
        let ack = Self { largest, delay, marked, ranges };
        if ranges.is_empty() || ranges.len() > MAX_ACK_RANGES || ranges[0][..4] != [0; 4] {
            return None;
        }
        // Numbers that the ranges cover and leave out: 64 times 2^32 at most. They are checked together, since no ack
        // of an honest peer fails.
        let (mut span, mut holds) = (0_u64, true);
        for (i, (gap, len)) in ack.pairs().enumerate() {
            holds &= len != 0 && (gap != 0 || i == 0);
            span = span.saturating_add(u64::from(gap)).saturating_add(u64::from(len));
        }
        (holds && span <= largest.checked_add(1)?).then_some(ack)
    }

    fn pairs(&self) -> impl Iterator<Item = (u32, u32)> + use<'a> {
        self.ranges.iter().map(|range| {
            let [a, b, c, d, e, f, g, h] = *range;
            (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
        })
    }

    /// The numbers that arrived, as inclusive ranges, highest first.
    pub fn ranges(&self) -> impl Iterator<Item = RangeInclusive<u64>> + use<'a> {
        // One more than what is not covered yet; `new` has ensured that nothing is cut off here.
        let mut rest = self.largest.saturating_add(1);
        self.pairs().map(move |(gap, len)| {
            let end = rest.saturating_sub(u64::from(gap));
            rest = end.saturating_sub(u64::from(len));
            rest..=end.saturating_sub(1)
        })
    }
}

/// Ranges of an [`Ack`] under construction.
#[derive(Clone, Debug, Default)]
pub struct AckRanges {
    largest: u64,
    /// The lowest number so far.
    lowest: u64,
    encoded: [[u8; 8]; MAX_ACK_RANGES],
    count: usize,
}

impl AckRanges {
    /// Most ranges.
    pub const MOST: usize = MAX_ACK_RANGES;

    /// Adds a range below all earlier ones and not adjoining them. Returns whether there was room.
    pub fn push(&mut self, range: RangeInclusive<u64>) -> bool {
        let (start, end) = (*range.start(), *range.end());
        let gap = match self.count {
            0 => Some(0),
            _ => self.lowest.checked_sub(end).and_then(|more| more.checked_sub(1)),
        };
        let len = end.checked_sub(start).and_then(|more| more.checked_add(1));
        let narrow = |n: Option<u64>| u32::try_from(n?).ok();
        let (Some(gap), Some(len)) = (narrow(gap), narrow(len)) else { return false };
        if gap == 0 && self.count > 0 {
            return false;
        }
        let Some(place) = self.encoded.get_mut(self.count) else { return false };
        place[..4].copy_from_slice(&gap.to_be_bytes());
        place[4..].copy_from_slice(&len.to_be_bytes());
        if self.count == 0 {
            self.largest = end;
        }
        self.lowest = start;
        self.count = self.count.saturating_add(1);
        true
    }

    /// The ack, if there is a range.
    #[must_use]
    pub fn ack(&self, delay: u32, marked: u32) -> Option<Ack<'_>> {
        Ack::new(self.largest, delay, marked, &self.encoded[..self.count])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 numbers from the top, and 20 below a gap of 3.
    const RANGE: [u8; 8] = [0, 0, 0, 0, 0, 0, 0, 10];
    const LATER: [u8; 8] = [0, 0, 0, 3, 0, 0, 0, 20];

    #[test]
    fn acks_name_what_arrived_and_impossible_ranges_are_refused() {
        let mut ranges = AckRanges::default();
        assert!(ranges.ack(0, 0).is_none());
        for range in [991..=1_000, 968..=987, 0..=0] {
            assert!(ranges.push(range));
        }
        for range in [0..=0, 5..=6] {
            assert!(!ranges.push(range), "not below the last one");
        }
        let ack = ranges.ack(5, 7).unwrap();
        assert_eq!(ack.ranges().collect::<Vec<_>>(), [991..=1_000, 968..=987, 0..=0]);
        let mut full = AckRanges::default();
        let top = 10 * MAX_ACK_RANGES as u64;
        (0..MAX_ACK_RANGES as u64).for_each(|i| assert!(full.push(top - 2 * i..=top - 2 * i)));
        assert!(!full.push(0..=1));
        assert_eq!(full.ack(0, 0).unwrap().ranges().count(), MAX_ACK_RANGES);
        let one = |len: u8| [[0, 0, 0, 0, 0, 0, 0, len]];
        assert!(Ack::new(9, 0, 0, &one(10)).is_some());
        assert_eq!(Ack::new(9, 0, 0, &one(11)), None, "below zero");
        assert_eq!(Ack::new(9, 0, 0, &one(0)), None);
        assert_eq!(Ack::new(u64::MAX, 0, 0, &one(1)), None);
        assert_eq!(Ack::new(9, 0, 0, &[LATER]), None, "a gap before the largest");
        assert_eq!(Ack::new(99, 0, 0, &[RANGE, RANGE]), None, "no gap between two ranges");
        assert_eq!(Ack::new(9, 0, 0, &[]), None);
        assert_eq!(Ack::new(u64::MAX - 1, 0, 0, &[RANGE; 33]), None);
    }
}
