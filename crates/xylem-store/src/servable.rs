//! Segments of a fetch in progress that can be served: written to disk together with their proofs.

use std::ops::Range;

use xylem_tree::{Node, NodeValue, SegmentSet};

/// Called with segments that can be served from now on.
pub type OnServable = Box<dyn FnMut(&[Range<u64>]) + Send + Sync>;

/// Tracks what is on disk while a [`Partial`](crate::Partial) is written.
///
/// A segment's proof consists of its leaf and the siblings up to level 3. They are proven together, with the first to
/// arrive of the two segments under one parent, and so are reported together. So once a leaf has been taken in, the
/// segment's whole proof has.
pub(crate) struct Servable {
    /// Segments with a leaf that was taken in.
    leaves: SegmentSet,
    /// Segments with data that were taken in, not reported yet.
    waiting: Vec<u64>,
    on_servable: OnServable,
}

impl std::fmt::Debug for Servable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Servable({} wait)", self.waiting.len())
    }
}

impl Servable {
    /// Starts with the proven segments of an earlier run, which are reported at once. `leaves`: segments of which that
    /// run left only the leaf.
    pub(crate) fn new(have: &SegmentSet, mut leaves: SegmentSet, mut tell: OnServable) -> Self {
        let there: Vec<Range<u64>> = have.ranges().collect();
        if !there.is_empty() {
            tell(&there);
        }
        there.into_iter().for_each(|run| leaves.insert_range(run));
        Self { leaves, waiting: Vec::new(), on_servable: tell }
    }

    pub(crate) fn segment(&mut self, index: u64) {
        self.waiting.push(index);
    }

    pub(crate) fn nodes(&mut self, nodes: &[(Node, NodeValue)]) {
        for (node, _) in nodes.iter().filter(|(node, _)| node.level == 0) {
            self.leaves.insert(node.index);
        }
    }

    /// All that was taken in has been written.
    pub(crate) fn flushed(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        // The proof of a single segment is the root, which is always known.
        let only = self.leaves.len() == 1;
        self.waiting.sort_unstable();
        let mut runs: Vec<Range<u64>> = Vec::new();
        let leaves = &self.leaves;
        self.waiting.retain(|&i| {
            let proven = only || leaves.contains(i);
            if proven {
                match runs.last_mut() {
                    Some(run) if run.end == i => run.end += 1,
                    _ => runs.push(i..i + 1),
                }
            }
            !proven
        });
        if !runs.is_empty() {
            (self.on_servable)(&runs);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn leaf(index: u64) -> (Node, NodeValue) {
        (Node { level: 0, index }, NodeValue([1; 32]))
    }

    #[test]
    fn written_segments_are_reported_with_their_leaves() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let into = told.clone();
        let tell =
            Box::new(move |runs: &[Range<u64>]| into.lock().unwrap().extend_from_slice(runs));
        let mut have = SegmentSet::new(100);
        have.insert_range(90..100);
        let mut servable = Servable::new(&have, SegmentSet::new(100), tell);
        let take = || std::mem::take(&mut *told.lock().unwrap());
        assert_eq!(take(), vec![90..100]);
        [3, 1, 2, 7].into_iter().for_each(|i| servable.segment(i));
        servable.flushed();
        assert_eq!(take(), [], "no proof has come");
        servable.nodes(&[
            leaf(1),
            leaf(2),
            leaf(3),
            (Node { level: 1, index: 7 }, NodeValue([1; 32])),
        ]);
        assert_eq!(take(), [], "nothing is written");
        servable.flushed();
        assert_eq!(take(), vec![1..4]);
        servable.nodes(&[leaf(7), leaf(8)]);
        servable.flushed();
        assert_eq!(take(), vec![7..8]);
        servable.flushed();
        assert_eq!(take(), []);
    }

    #[test]
    fn the_only_segment_needs_no_leaf() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let into = told.clone();
        let tell =
            Box::new(move |runs: &[Range<u64>]| into.lock().unwrap().extend_from_slice(runs));
        let mut servable = Servable::new(&SegmentSet::new(1), SegmentSet::new(1), tell);
        servable.segment(0);
        servable.flushed();
        assert_eq!(*told.lock().unwrap(), vec![0..1]);
    }
}
