//! Verification on several threads: forks start from the same proven nodes and are merged later.

use alloc::vec::Vec;

use super::{Burst, Recording, TreeVerifier};
use crate::{
    ids::{Node, NodeValue},
    verified::Verified,
};

impl TreeVerifier {
    /// Returns an independent verifier for another thread, which has proven the same nodes. It shares nothing with this
    /// one and records only what it proves itself; [`Self::absorb`] merges that. Costs a copy of what is held
    /// ([`Self::held_bytes`]).
    ///
    /// ```
    /// # use xylem_tree::{Outboard, SegmentIndex, SegmentSize, TreeVerifier, segment_signature};
    /// let file = vec![42; 8 * 8192];
    /// let outboard = Outboard::of(&file, SegmentSize::DEFAULT);
    /// let prove = |verifier: &mut TreeVerifier, i: u64| {
    ///     let (geo, mut proof) = (*verifier.geometry(), vec![]);
    ///     segment_signature(&geo, SegmentIndex(i), &mut outboard.as_bytes(), &mut proof).unwrap();
    ///     verifier.segment(SegmentIndex(i), &file[..8192], &proof).unwrap();
    /// };
    /// let mut verifier = TreeVerifier::new(*outboard.geometry(), outboard.root());
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

    /// Merges what a fork has proven and not yet returned from [`Self::take_proven`], without hashing anything again.
    /// The fork may continue. Nodes that both have proven are recorded once. A fork that does not record
    /// ([`Self::set_recording`]) contributes nothing.
    ///
    /// Returns false and does nothing if `fork` is not a verifier of the same object.
    #[must_use]
    pub fn absorb(&mut self, fork: &mut Self) -> bool {
        if fork.geo != self.geo || fork.root != self.root {
            return false;
        }
        self.nodes_hashed += core::mem::take(&mut fork.nodes_hashed);
        self.keep_pairs(fork.fresh.drain(..));
        true
    }

    /// Merges what another verifier of this object has proven and returned from [`Self::take_proven`]: all of it, in
    /// that order. Nothing is hashed or recorded.
    ///
    /// Returns false and does nothing for nodes of another object.
    #[must_use]
    pub fn absorb_nodes(&mut self, nodes: &Verified<Vec<(Node, NodeValue)>>) -> bool {
        if nodes.root() != self.root {
            return false;
        }
        let recording = core::mem::replace(&mut self.recording, Recording::Off);
        self.keep_pairs(nodes.iter().copied());
        self.recording = recording;
        true
    }

    /// `proven` holds pairs of children, preceded by the root if the verifier is not a fork.
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
