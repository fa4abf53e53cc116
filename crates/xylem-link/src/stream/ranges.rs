//! A set of byte ranges of a stream, such as those acknowledged out of order or to be sent again.

use std::collections::BTreeMap;

/// Disjoint, non-adjoining half-open ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct RangeSet(BTreeMap<u64, u64>);

impl RangeSet {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lowest range.
    pub(super) fn first(&self) -> Option<(u64, u64)> {
        self.0.first_key_value().map(|(start, end)| (*start, *end))
    }

    /// Adds `start..end`, joined with the ranges that it touches.
    pub(super) fn insert(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        while let Some((s, e)) = self.0.range(..=end).next_back().map(|(s, e)| (*s, *e)) {
            if e < start {
                break;
            }
            self.0.remove(&s);
            start = start.min(s);
            end = end.max(e);
        }
        self.0.insert(start, end);
    }

    /// Removes `start..end`.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        while let Some((s, e)) = self.0.range(..end).next_back().map(|(s, e)| (*s, *e)) {
            if e <= start {
                break;
            }
            self.0.remove(&s);
            if e > end {
                self.0.insert(end, e);
            }
            if s < start {
                self.0.insert(s, start);
            }
        }
    }

    /// Removes everything that `other` has.
    pub(super) fn remove_all(&mut self, other: &Self) {
        for (start, end) in &other.0 {
            self.remove(*start, *end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kdf::LinkRng;

    #[test]
    fn ranges_agree_with_a_set_of_numbers() {
        let mut rng = LinkRng::new(&[1; 32]);
        let mut ranges = RangeSet::default();
        let mut slow = std::collections::BTreeSet::new();
        for _ in 0..20_000 {
            let start = rng.below(60) as u64;
            let end = start + rng.below(12) as u64;
            if rng.below(2) == 0 {
                ranges.insert(start, end);
                slow.extend(start..end);
            } else {
                ranges.remove(start, end);
                slow.retain(|n| !(start..end).contains(n));
            }
            let all: Vec<u64> = ranges.0.iter().flat_map(|(s, e)| *s..*e).collect();
            assert!(all.iter().eq(slow.iter()));
            let mut ends = ranges.0.iter();
            let mut last = ends.next().map(|(_, e)| *e);
            for (s, e) in ends {
                assert!(Some(*s) > last, "disjoint and not adjoining");
                last = Some(*e);
            }
        }
    }
}
