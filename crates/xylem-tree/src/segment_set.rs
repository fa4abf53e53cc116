//! [`SegmentSet`]: the segments of a file that are present, or missing; a set of small integers.
//!
//! Large sets are split into pages of [`PAGE`] integers. A page without members, or with all of them, takes no memory
//! besides its entry. So the memory of a set grows with the changes in it, and not with a length that a peer claims:
//! the missing segments of 2 TiB take 1 MiB until some are present.

mod bits;

use alloc::{boxed::Box, vec, vec::Vec};
use core::ops::Range;

use bits::Bits;

/// Integers in a page. A set of at most this length is one bit set, of 4 KiB.
const PAGE: u64 = 1 << 15;

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
    form: SegmentSetForm,
}

#[derive(Clone, PartialEq, Eq)]
enum SegmentSetForm {
    Small(Bits),
    Large {
        pages: Vec<SegmentPage>,
        /// The pages that have a member.
        some: Bits,
    },
}

#[derive(Clone, PartialEq, Eq)]
enum SegmentPage {
    Empty,
    Full,
    /// Neither empty nor full.
    Mixed(Box<Bits>),
}

impl core::fmt::Debug for SegmentSet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SegmentSet({} of {})", self.count, self.len)
    }
}

/// The page of a position, and the position in the page.
fn split(i: u64) -> (usize, u64) {
    ((i / PAGE) as usize, i % PAGE)
}

/// Number of integers in page `p` of a set of this length.
fn page_len(len: u64, p: usize) -> u64 {
    (len - p as u64 * PAGE).min(PAGE)
}

impl SegmentSet {
    /// The empty set over `0..len`. Takes `len / 8` bytes if that is less than 4 KiB; else 16 bytes for each page of
    /// 32,768 integers, and 4 KiB more for each page that has some but not all of them.
    pub fn new(len: u64) -> Self {
        let form = if len <= PAGE {
            SegmentSetForm::Small(Bits::new(len))
        } else {
            let pages = len.div_ceil(PAGE);
            SegmentSetForm::Large {
                pages: vec![SegmentPage::Empty; pages as usize],
                some: Bits::new(pages),
            }
        };
        Self { len, count: 0, form }
    }

    /// Memory of the set in bytes, without this struct.
    pub fn bytes(&self) -> usize {
        match &self.form {
            SegmentSetForm::Small(bits) => bits.bytes(),
            SegmentSetForm::Large { pages, some } => {
                let of = |page: &SegmentPage| match page {
                    SegmentPage::Mixed(bits) => size_of::<Bits>() + bits.bytes(),
                    _ => 0,
                };
                some.bytes() + size_of_val(&pages[..]) + pages.iter().map(of).sum::<usize>()
            }
        }
    }

    /// Upper bound of the members: all are below it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the set has no members.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of members, in O(1).
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns whether all integers below the set's length are members.
    pub fn is_full(&self) -> bool {
        self.count == self.len
    }

    /// Returns whether `i` is a member; false outside `0..len`.
    #[inline]
    pub fn contains(&self, i: u64) -> bool {
        match &self.form {
            SegmentSetForm::Small(bits) => bits.contains(i),
            SegmentSetForm::Large { .. } if i >= self.len => false,
            SegmentSetForm::Large { pages, .. } => match &pages[split(i).0] {
                SegmentPage::Empty => false,
                SegmentPage::Full => true,
                SegmentPage::Mixed(bits) => bits.contains(i % PAGE),
            },
        }
    }

    /// Adds `i`. Returns false if it is a member already or lies outside `0..len`.
    #[inline]
    pub fn insert(&mut self, i: u64) -> bool {
        if i >= self.len || self.contains(i) {
            return false;
        }
        let (p, at) = split(i);
        self.change(p, |bits| {
            bits.insert(at);
        });
        true
    }

    /// Removes `i`. Returns false if it is not a member.
    #[inline]
    pub fn remove(&mut self, i: u64) -> bool {
        if !self.contains(i) {
            return false;
        }
        let (p, at) = split(i);
        self.change(p, |bits| {
            bits.remove(at);
        });
        true
    }

    /// Adds all integers of `range` within `0..len`, a word or a page at a time.
    pub fn insert_range(&mut self, range: Range<u64>) {
        self.change_range(range, true);
    }

    /// Removes all members of `range`, a word or a page at a time.
    pub fn remove_range(&mut self, range: Range<u64>) {
        self.change_range(range, false);
    }

    fn change_range(&mut self, range: Range<u64>, set: bool) {
        let (mut start, end) = (range.start, range.end.min(self.len));
        while start < end {
            let (p, low) = split(start);
            let len = page_len(self.len, p);
            let high = len.min(end - (start - low));
            if let SegmentSetForm::Large { pages, some } = &mut self.form
                && high - low == len
            {
                let before = pages[p].count(len);
                pages[p] = if set { SegmentPage::Full } else { SegmentPage::Empty };
                let _ = if set { some.insert(p as u64) } else { some.remove(p as u64) };
                self.count = self.count - before + if set { len } else { 0 };
            } else {
                self.change(p, |bits| bits.change_range(low..high, set));
            }
            start += high - low;
        }
    }

    /// Changes one page. Its bits are in memory for that, and stay there if the page is neither empty nor full.
    #[inline]
    fn change(&mut self, p: usize, change: impl FnOnce(&mut Bits)) {
        match &mut self.form {
            SegmentSetForm::Small(bits) => {
                change(bits);
                self.count = bits.count();
            }
            SegmentSetForm::Large { pages, some } => {
                let len = page_len(self.len, p);
                let before = pages[p].count(len);
                let bits = pages[p].bits(len);
                change(bits);
                let now = bits.count();
                self.count = self.count - before + now;
                if now == 0 {
                    pages[p] = SegmentPage::Empty;
                    some.remove(p as u64);
                } else {
                    if now == len {
                        pages[p] = SegmentPage::Full;
                    }
                    if before == 0 {
                        some.insert(p as u64);
                    }
                }
            }
        }
    }

    /// The smallest member at or above `from`. Accesses at most two words of each level.
    #[inline]
    pub fn next(&self, from: u64) -> Option<u64> {
        if from >= self.len {
            return None;
        }
        let (pages, some) = match &self.form {
            SegmentSetForm::Small(bits) => return bits.next(from),
            SegmentSetForm::Large { pages, some } => (pages, some),
        };
        let (p, at) = split(from);
        let here = match &pages[p] {
            SegmentPage::Empty => None,
            SegmentPage::Full => Some(at),
            SegmentPage::Mixed(bits) => bits.next(at),
        };
        if let Some(at) = here {
            return Some(p as u64 * PAGE + at);
        }
        let p = some.next(p as u64 + 1)?;
        let first = match &pages[p as usize] {
            SegmentPage::Mixed(bits) => bits.next(0)?,
            _ => 0,
        };
        Some(p * PAGE + first)
    }

    /// The smallest integer at or above `from` that is not a member; the length if there is none.
    fn next_absent(&self, from: u64) -> u64 {
        let pages = match &self.form {
            SegmentSetForm::Small(bits) => return bits.next_absent(from),
            SegmentSetForm::Large { pages, .. } => pages,
        };
        let mut from = from;
        while from < self.len {
            let (p, at) = split(from);
            let len = page_len(self.len, p);
            let absent = match &pages[p] {
                SegmentPage::Empty => at,
                SegmentPage::Full => len,
                SegmentPage::Mixed(bits) => bits.next_absent(at),
            };
            from = from - at + absent;
            if absent < len {
                return from;
            }
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

    /// The non-members as maximal ranges, ascending.
    pub fn missing(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut at = 0;
        core::iter::from_fn(move || {
            let start = self.next_absent(at);
            at = self.next(start).unwrap_or(self.len);
            (start < self.len).then_some(start..at)
        })
    }

    /// The members in ascending order. Each takes one word operation; the summaries are searched only to skip empty
    /// words.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let (small, pages) = match &self.form {
            SegmentSetForm::Small(bits) => (Some(bits), &[][..]),
            SegmentSetForm::Large { pages, .. } => (None, &pages[..]),
        };
        let large = pages.iter().enumerate().flat_map(move |(p, page)| {
            let (all, bits) = match page {
                SegmentPage::Empty => (0..0, None),
                SegmentPage::Full => (0..page_len(self.len, p), None),
                SegmentPage::Mixed(bits) => (0..0, Some(bits)),
            };
            let members = all.chain(bits.into_iter().flat_map(|bits| bits.iter()));
            members.map(move |at| p as u64 * PAGE + at)
        });
        small.into_iter().flat_map(Bits::iter).chain(large)
    }

    /// Appends the members to `out` in ascending order, 8 bytes each. It is several times as fast as [`Self::iter`].
    #[inline]
    pub fn list(&self, out: &mut Vec<u64>) {
        if self.count > 0 {
            self.list_members(out);
        }
    }

    fn list_members(&self, out: &mut Vec<u64>) {
        let mut at = out.len();
        let end = at + self.count as usize;
        out.resize(end + bits::SPARE, 0);
        match &self.form {
            SegmentSetForm::Small(bits) => {
                bits.list(0, &mut out[at..]);
            }
            SegmentSetForm::Large { pages, .. } => {
                for (p, page) in pages.iter().enumerate() {
                    let first = p as u64 * PAGE;
                    at += match page {
                        SegmentPage::Empty => 0,
                        SegmentPage::Full => {
                            let len = page_len(self.len, p);
                            out[at..]
                                .iter_mut()
                                .zip(first..first + len)
                                .for_each(|(place, i)| *place = i);
                            len as usize
                        }
                        SegmentPage::Mixed(bits) => bits.list(first, &mut out[at..]),
                    };
                }
            }
        }
        out.truncate(end);
    }
}

impl SegmentPage {
    /// Number of members of a page of this length.
    fn count(&self, len: u64) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Full => len,
            Self::Mixed(bits) => bits.count(),
        }
    }

    /// The page's bits, which are in memory from now on.
    fn bits(&mut self, len: u64) -> &mut Bits {
        if !matches!(self, Self::Mixed(_)) {
            let mut bits = Bits::new(len);
            if matches!(self, Self::Full) {
                bits.change_range(0..len, true);
            }
            *self = Self::Mixed(Box::new(bits));
        }
        let Self::Mixed(bits) = self else { unreachable!("it was just made so") };
        bits
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
            (i.clone(), 0..3 * PAGE).prop_map(|(a, n)| Op::InsertRange(a, a + n)),
            (i.clone(), 0..3 * PAGE).prop_map(|(a, n)| Op::RemoveRange(a, a + n)),
            i.prop_map(Op::Next),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn agrees_with_a_btree_set(
            (len, ops) in prop_oneof![0..9_000_u64, PAGE - 200..3 * PAGE + 200].prop_flat_map(|n| (Just(n), prop::collection::vec(op(n), 1..60)))
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
            let mut list = vec![7];
            fast.list(&mut list);
            prop_assert!(list[0] == 7 && list[1..].iter().eq(slow.iter()));
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
    fn memory_grows_with_the_changed_pages() {
        // 2 TiB in segments of 1 KiB: all missing, then some present, at either end and between.
        let mut set = SegmentSet::new(1 << 31);
        set.insert_range(0..1 << 31);
        assert!(set.bytes() < 1_100_000, "{}", set.bytes());
        for i in [0, 1, 1 << 30, (1 << 31) - 1] {
            assert!(set.remove(i));
        }
        assert!(set.bytes() < 1_120_000, "{}", set.bytes());
        assert!(set.insert(0) && set.insert(1));
        set.remove_range(0..1 << 31);
        assert!(set == SegmentSet::new(1 << 31));
        // 64 GiB in segments of 8 KiB, every other one present.
        let mut set = SegmentSet::new(1 << 23);
        (0..1 << 23).step_by(2).for_each(|i| assert!(set.insert(i)));
        assert!(set.bytes() < 1_150_000, "{}", set.bytes());
    }
}
