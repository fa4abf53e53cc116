//! Verifying on several threads: verifiers that start from the same proven nodes, and are joined.

use alloc::vec::Vec;

use super::{Burst, Recording, Verifier};
use crate::{
    ids::{Node, NodeValue},
    verified::Verified,
};

impl Verifier {
    /// A verifier of its own that has proven what this one has, for another thread. It shares
    /// nothing with this one and records only what it proves itself; [`Self::absorb`] brings that
    /// back. Costs a copy of what is held ([`Self::held_bytes`]).
    ///
    /// ```
    /// # use xylem_tree::{Outboard, SegmentIndex, SegmentSize, Verifier, segment_signature};
    /// let file = vec![42; 8 * 8192];
    /// let outboard = Outboard::of(&file, SegmentSize::DEFAULT);
    /// let prove = |verifier: &mut Verifier, i: u64| {
    ///     let (geo, mut proof) = (*verifier.geometry(), vec![]);
    ///     segment_signature(&geo, SegmentIndex(i), &mut outboard.as_bytes(), &mut proof).unwrap();
    ///     verifier.segment(SegmentIndex(i), &file[..8192], &proof).unwrap();
    /// };
    /// let mut verifier = Verifier::new(*outboard.geometry(), outboard.root());
    /// let mut other = verifier.fork();
    /// std::thread::scope(|threads| {
    ///     threads.spawn(|| (4..8).for_each(|i| prove(&mut other, i)));
    ///     (0..4).for_each(|i| prove(&mut verifier, i));
    /// });
    /// assert!(verifier.absorb(&mut other));
    /// assert_eq!(verifier.take_proven().len(), 15);
    /// ```
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            geo: self.geo,
            root: self.root,
            known: self.known.clone(),
            recording: Recording::On,
            fresh: Vec::new(),
            pending: Vec::new(),
            burst: Burst::default(),
            nodes_hashed: 0,
        }
    }

    /// Takes over what a fork has proven and not given to [`Self::take_proven`], without hashing
    /// anything again; the fork may go on. What both have proven is recorded once. A fork that does
    /// not record ([`Self::set_recording`]) has nothing to give.
    ///
    /// False, and nothing happens, if it is no verifier of this very object.
    #[must_use]
    pub fn absorb(&mut self, fork: &mut Self) -> bool {
        if fork.geo != self.geo || fork.root != self.root {
            return false;
        }
        self.nodes_hashed += core::mem::take(&mut fork.nodes_hashed);
        self.keep_pairs(fork.fresh.drain(..));
        true
    }

    /// Takes over what another verifier of this object has proven and given out by
    /// [`Self::take_proven`]: all of what it gave, in that order. Nothing is hashed or recorded.
    ///
    /// False, and nothing happens, for nodes of another object.
    #[must_use]
    pub fn learn(&mut self, nodes: &Verified<Vec<(Node, NodeValue)>>) -> bool {
        if nodes.root() != self.root {
            return false;
        }
        let recording = core::mem::replace(&mut self.recording, Recording::Off);
        self.keep_pairs(nodes.iter().copied());
        self.recording = recording;
        true
    }

    /// Recorded are pairs of children, and first of all the root by a verifier that is no fork.
    fn keep_pairs(&mut self, proven: impl Iterator<Item = (Node, NodeValue)>) {
        let root = self.geo.root();
        let mut proven = proven.filter(|(node, _)| *node != root);
        while let (Some((left, l)), Some((right, r))) = (proven.next(), proven.next()) {
            let pair =
                self.geo.parent(left).filter(|p| self.geo.children(*p) == Some((left, right)));
            if let Some(parent) = pair.filter(|p| self.known.pair(*p).is_none()) {
                self.keep(parent, [l, r]);
            }
        }
    }
}
