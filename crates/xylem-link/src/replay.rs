//! The replay window: which of the last 4,096 packet numbers have been seen.
//!
//! It records only packets that authenticated; queries change nothing. No number above [`LAST_NUMBER`] is recorded, so
//! no sum here overflows.

use core::ops::RangeInclusive;

/// Size of the window below the highest number seen, in packet numbers.
pub(crate) const WINDOW: u64 = 4_096;
/// The last packet number that is ever used; a peer reaches it only after millennia.
pub(crate) const LAST_NUMBER: u64 = (1 << 62) - 1;
const WORDS: usize = (WINDOW / 64) as usize;

/// A bitmap over the last [`WINDOW`] packet numbers, indexed by the number's low bits.
#[derive(Clone, Debug)]
pub(crate) struct ReplayWindow {
    /// One above the highest number seen; 0 when none was.
    end: u64,
    bits: [u64; WORDS],
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self { end: 0, bits: [0; WORDS] }
    }
}

impl ReplayWindow {
    /// One above the highest packet number seen.
    #[must_use]
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns whether `number` has not been seen. A number older than the window, or above [`LAST_NUMBER`], counts as
    /// seen.
    #[must_use]
    pub(crate) fn is_fresh(&self, number: u64) -> bool {
        if number >= self.end {
            return number <= LAST_NUMBER;
        }
        if self.end - number > WINDOW {
            return false;
        }
        let (word, bit) = place(number);
        self.bits[word] & bit == 0
    }

    /// Returns whether a number of `from..to` has not been seen. Numbers below the window count as seen.
    #[must_use]
    pub(crate) fn has_gap(&self, from: u64, to: u64) -> bool {
        let from = from.max(self.floor());
        from < to && self.run_below(to - 1, true) > from
    }

    /// The numbers that have been seen, from `largest` down to the end of the window, as inclusive ranges, highest
    /// first. There is none if `largest` has not been seen; else the first range ends there.
    pub(crate) fn seen_below(&self, largest: u64) -> impl Iterator<Item = RangeInclusive<u64>> {
        let floor = self.floor();
        // One above the next range's end; 0 when there is none.
        let mut end = if largest < self.end { largest + 1 } else { 0 };
        let mut first = true;
        core::iter::from_fn(move || {
            if !core::mem::take(&mut first) {
                end = if end > floor { self.run_below(end - 1, false) } else { floor };
            }
            if end <= floor {
                return None;
            }
            let start = self.run_below(end - 1, true);
            if start == end {
                return None;
            }
            let range = start..=end - 1;
            end = start;
            Some(range)
        })
    }

    /// The lowest number that the window remembers.
    fn floor(&self) -> u64 {
        self.end.saturating_sub(WINDOW)
    }

    /// The lowest number in the window such that it and all up to `at` (below the window's end) have been `seen`, or
    /// have not; `at + 1` if `at` is not one of them.
    fn run_below(&self, at: u64, seen: bool) -> u64 {
        let floor = self.floor();
        let mut next = at + 1;
        while next > floor {
            let (word, _) = place(next - 1);
            // The numbers of the word from the next one down, in the highest bits.
            let count = (next - 1) % 64 + 1;
            let bits = if seen { self.bits[word] } else { !self.bits[word] } << (64 - count);
            let run = u64::from(bits.leading_ones()).min(count);
            next -= run;
            if run < count {
                break;
            }
        }
        next.max(floor)
    }

    /// Records `number`, which must have authenticated and be fresh. Returns whether it is the highest so far.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        assert!(self.is_fresh(number), "asked before");
        let newest = number >= self.end;
        if newest {
            // Numbers between the old end and the new one have not been seen: clear their bits.
            let skipped = number - self.end;
            if skipped >= WINDOW {
                self.bits = [0; WORDS];
            } else {
                for n in self.end..number {
                    let (word, bit) = place(n);
                    self.bits[word] &= !bit;
                }
            }
            self.end = number + 1;
        }
        let (word, bit) = place(number);
        self.bits[word] |= bit;
        newest
    }
}

fn place(number: u64) -> (usize, u64) {
    ((number / 64) as usize % WORDS, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_window_agrees_with_a_set_over_random_walks() {
        let mut rng = xylem_sim::Rng::new(1);
        let mut window = ReplayWindow::default();
        let mut seen = HashSet::new();
        let mut highest = 0u64;
        for _ in 0..200_000 {
            let r = rng.next_u64() >> 33;
            let number = match r % 100 {
                0 => highest + r % 10_000,
                1..=40 => highest.saturating_sub(r % 5_000),
                _ => highest + r % 3,
            };
            let fresh = !seen.contains(&number) && number + WINDOW > highest;
            assert_eq!(window.is_fresh(number), fresh, "{number} of {highest}");
            if fresh {
                window.insert(number);
                seen.insert(number);
                highest = highest.max(number);
            }
            if r.is_multiple_of(50) {
                ranges_hold_against_a_set(&window, &seen, number, highest);
            }
        }
    }

    fn ranges_hold_against_a_set(
        window: &ReplayWindow,
        seen: &HashSet<u64>,
        number: u64,
        highest: u64,
    ) {
        let floor = (highest + 1).saturating_sub(WINDOW);
        let slow: Vec<u64> = (floor..=number).rev().take_while(|n| seen.contains(n)).collect();
        let fast: Vec<_> = window.seen_below(number).collect();
        assert_eq!(fast.first().map_or(0, |r| (r.end() + 1 - r.start()) as usize), slow.len());
        if slow.is_empty() {
            return;
        }
        let all = (floor..=number).rev().filter(|n| seen.contains(n));
        assert!(fast.iter().cloned().flat_map(Iterator::rev).eq(all));
        assert!(fast.windows(2).all(|w| w[1].end() + 1 < *w[0].start()), "they do not adjoin");
        for from in [floor.saturating_sub(9), number.saturating_sub(70), number.saturating_sub(1)] {
            let gap = (from.max(floor)..number).any(|n| !seen.contains(&n));
            assert_eq!(window.has_gap(from, number), gap, "{from}..{number} of {highest}");
        }
    }

    /// WRAITH: overflow near u64::MAX.
    #[test]
    fn the_window_is_right_at_the_limits_of_numbers() {
        let mut window = ReplayWindow::default();
        assert!(window.insert(0));
        assert!(!window.is_fresh(0));
        assert!(window.insert(WINDOW));
        assert!(!window.is_fresh(0), "just outside");
        assert!(window.is_fresh(1), "just inside");
        assert!(window.insert(LAST_NUMBER));
        assert!(!window.is_fresh(WINDOW));
        for number in [LAST_NUMBER, LAST_NUMBER + 1, u64::MAX] {
            assert!(!window.is_fresh(number), "no overflow at the very end");
        }
    }
}
