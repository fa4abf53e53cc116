//! Which segments each peer has.
//!
//! A peer at the other end of a link is asked for its [`Have`] (`question.rs`). Until it answers, and if it never does,
//! it counts as having everything. Its answer is a hint: it decides what the peer is asked for, never what is accepted.

use core::ops::Range;

use xylem_object::Have;

use crate::key::{ItemKeyMap, object_number};

/// Segments that are asked of one peer together when rare blocks go first. 64 is one word of the sets and half a
/// mebibyte of content, and few enough that peers of one source soon hold different blocks.
pub(crate) const BLOCK: u64 = 64;

/// One block of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentBlock {
    pub object: u64,
    pub number: u64,
}

impl SegmentBlock {
    /// The segments of the block; some may lie past the object's end.
    pub(crate) fn segments(self) -> Range<u64> {
        self.number * BLOCK..(self.number + 1) * BLOCK
    }
}

/// The files and segments that a partial peer can be asked for.
#[derive(Debug, Default)]
pub(crate) struct PeerSegments {
    whole_files: Vec<Range<u64>>,
    /// By object number. Runs ascend and do not touch.
    partial: ItemKeyMap<u64, Vec<Range<u64>>>,
}

/// The segments of one object that a peer has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SegmentRuns<'a> {
    All,
    Only(&'a [Range<u64>]),
}

impl PeerSegments {
    /// Returns `None` if the peer has everything.
    pub(crate) fn of(have: Have) -> Option<Self> {
        let partial = have.partial.into_iter().map(|(id, runs)| (object_number(id), runs));
        (!have.everything)
            .then(|| Self { whole_files: have.whole_files, partial: partial.collect() })
    }

    pub(crate) fn runs(&self, object: u64) -> SegmentRuns<'_> {
        let is_whole = object.checked_sub(1).is_some_and(|file| contains(&self.whole_files, file));
        match self.partial.get(&object) {
            _ if is_whole => SegmentRuns::All,
            Some(runs) => SegmentRuns::Only(runs),
            None => SegmentRuns::Only(&[]),
        }
    }

    /// The amount that the peer has: files plus segments. It grows as the peer fetches more.
    pub(crate) fn extent(&self) -> u64 {
        let partial = self.partial.values().flatten();
        self.whole_files
            .iter()
            .chain(partial)
            .fold(0, |n, run| n.saturating_add(run.end - run.start))
    }
}

impl<'a> SegmentRuns<'a> {
    /// The first segment at or after `i` that the peer has.
    #[inline]
    pub(crate) fn at_or_after(self, i: u64) -> Option<u64> {
        match self {
            Self::All => Some(i),
            Self::Only(runs) => {
                let run = runs.get(runs.partition_point(|run| run.end <= i))?;
                Some(run.start.max(i))
            }
        }
    }

    /// Whether the peer has a segment of `range`. It then has the tree nodes above that as well.
    pub(crate) fn meets(self, range: Range<u64>) -> bool {
        self.at_or_after(range.start).is_some_and(|i| i < range.end)
    }

    pub(crate) fn is_empty(self) -> bool {
        matches!(self, Self::Only([]))
    }

    /// Adds one to the count of each block of which the peer has a segment. Blocks past the end are ignored.
    pub(crate) fn count_blocks(self, counts: &mut [u8]) {
        let Self::Only(runs) = self else {
            counts.iter_mut().for_each(|count| *count = count.saturating_add(1));
            return;
        };
        let mut from = 0;
        for run in runs {
            let first = usize::try_from(run.start / BLOCK).unwrap_or(usize::MAX).max(from);
            let end = usize::try_from(run.end.div_ceil(BLOCK)).unwrap_or(usize::MAX);
            for count in counts.get_mut(first..end.min(counts.len())).into_iter().flatten() {
                *count = count.saturating_add(1);
            }
            from = from.max(end);
        }
    }
}

fn contains(runs: &[Range<u64>], i: u64) -> bool {
    runs.get(runs.partition_point(|run| run.end <= i)).is_some_and(|run| run.start <= i)
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_object::ObjectId;

    #[test]
    fn a_partial_peer_has_the_listed_runs_and_files() {
        let partial =
            vec![(ObjectId::Root, vec![10..20, 100..300]), (ObjectId::File(7), vec![0..1, 4..5])];
        let have = Have { everything: false, whole_files: vec![0..2, 5..6], partial };
        let available = PeerSegments::of(have).expect("a part");
        assert_eq!(available.extent(), 215);
        let runs = available.runs(0);
        let at = [0, 10, 19, 20, 299, 300].map(|i| runs.at_or_after(i));
        assert_eq!(at, [Some(10), Some(10), Some(19), Some(100), Some(299), None]);
        assert!(runs.meets(0..11) && !runs.meets(0..10) && !runs.meets(20..100));
        let whole = |file: u64| matches!(available.runs(file + 1), SegmentRuns::All);
        assert_eq!([0, 1, 2, 5, 6].map(whole), [true, true, false, true, false]);
        assert!(available.runs(9).is_empty() && !available.runs(8).is_empty());
        let mut counts = [0; 4];
        runs.count_blocks(&mut counts);
        SegmentRuns::All.count_blocks(&mut counts[..2]);
        assert_eq!(counts, [2, 2, 1, 1]);
    }

    #[test]
    fn runs_in_one_block_count_once() {
        let mut counts = [0; 2];
        SegmentRuns::Only(&[0..1, 5..6, 60..70, 80..90]).count_blocks(&mut counts);
        assert_eq!(counts, [1, 1]);
        SegmentRuns::Only(core::slice::from_ref(&(u64::MAX - 5..u64::MAX)))
            .count_blocks(&mut counts);
        assert_eq!(counts, [1, 1]);
    }
}
