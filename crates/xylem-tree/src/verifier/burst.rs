//! Proves several segments together: leaves side by side, then the parents of each level.
//!
//! The result equals that of one segment after the other. Each segment's path up, by its own siblings, is hashed ahead,
//! as it depends on nothing else. [`TreeVerifier::climb`] then takes these values instead of hashing.

use alloc::vec::Vec;

use super::{Recording, TreeVerifier};
use crate::{
    error::ProofError,
    geometry::{Geometry, SEGMENT_PROOF_LEVELS},
    hashing::{leaf_values, parents},
    ids::{Node, NodeValue, SegmentIndex},
    known::{Pair, ProvenNodes},
    proof::split_value,
    verified::{Segment, Verified},
};

/// Buffers of the current burst, kept to reuse their allocations.
#[derive(Default)]
pub(super) struct Burst {
    leaves: Vec<NodeValue>,
    ways: Vec<ProofPath>,
    /// The distinct pairs of the current level, and their hashes.
    pairs: Vec<(Node, Pair)>,
    values: Vec<NodeValue>,
}

/// The part of one segment's path up that has been computed.
struct ProofPath {
    /// Values of the parents on the path, bottom up.
    values: [NodeValue; SEGMENT_PROOF_LEVELS as usize],
    count: usize,
    open: bool,
    /// Index of the path's pair among those of the current level.
    pair: Option<usize>,
}

impl ProofPath {
    const CLOSED: Self = Self {
        values: [NodeValue::UNKNOWN; SEGMENT_PROOF_LEVELS as usize],
        count: 0,
        open: false,
        pair: None,
    };
}

impl TreeVerifier {
    /// Proves several segments, with the results of [`Self::segment`] on one after the other, and appends the results
    /// to `out` in the same order. It is several times as fast for small segments: all leaves, and then the nodes of
    /// each level, are hashed side by side.
    pub fn segments<'a, B: AsRef<[u8]>>(
        &mut self,
        batch: impl IntoIterator<Item = (SegmentIndex, B, &'a [u8])>,
        out: &mut Vec<Result<Verified<Segment<B>>, ProofError>>,
    ) {
        // Whether a segment can be checked depends on tiles alone, so all can be admitted first.
        let batch: Vec<_> = batch
            .into_iter()
            .map(|(i, content, signature)| {
                let admitted = self.admit_segment(i, content.as_ref().len(), signature.len());
                (i, content, signature, admitted)
            })
            .collect();
        let admitted = || batch.iter().filter(|(_, _, _, admitted)| admitted.is_ok());
        let mut burst = core::mem::take(&mut self.burst);
        burst.leaves.clear();
        let contents = admitted().map(|(i, content, ..)| (*i, content.as_ref()));
        leaf_values(&self.geo, contents, &mut burst.leaves);
        let proofs = admitted().map(|(i, _, signature, _)| (*i, *signature));
        self.nodes_hashed += burst.climb(&self.geo, &self.known, proofs);

        let mut worked_out = burst.leaves.iter().zip(&burst.ways);
        out.reserve(batch.len());
        if self.recording == Recording::On {
            self.fresh.reserve(2 * burst.ways.len());
        }
        out.extend(batch.into_iter().map(|(i, content, signature, admitted)| {
            admitted?;
            let (leaf, way) = worked_out.next().expect("one for each segment that was admitted");
            self.prove_segment(i, *leaf, signature, &way.values[..way.count])?;
            Ok(self.evidence(i, content))
        }));
        self.burst = burst;
    }
}

impl Burst {
    /// Computes, level by level, the paths up of the segments with matching leaves, as far as nothing on them is proven
    /// yet. Returns the number of nodes hashed.
    fn climb<'a>(
        &mut self,
        geo: &Geometry,
        known: &ProvenNodes,
        proofs: impl Iterator<Item = (SegmentIndex, &'a [u8])> + Clone,
    ) -> u64 {
        self.ways.clear();
        self.ways.extend(proofs.clone().zip(&self.leaves).map(|((_, proof), leaf)| ProofPath {
            open: split_value(proof).0 == *leaf,
            ..ProofPath::CLOSED
        }));
        let mut hashed = 0;
        for level in 0..geo.segment_proof_end() {
            self.pairs.clear();
            for (n, (i, proof)) in proofs.clone().enumerate() {
                self.step(geo, known, level, n, i, proof);
            }
            self.values.clear();
            self.values.resize(self.pairs.len(), NodeValue::UNKNOWN);
            parents(geo, |n| self.pairs[n].1, &mut self.values);
            hashed += self.pairs.len() as u64;
            for way in &mut self.ways {
                if let Some(pair) = way.pair.take() {
                    way.values[way.count] = self.values[pair];
                    way.count += 1;
                }
            }
        }
        hashed
    }

    /// Adds the pair of segment `i`, the `n`-th one, at `level` to the level's pairs.
    fn step(
        &mut self,
        geo: &Geometry,
        known: &ProvenNodes,
        level: u8,
        n: usize,
        i: SegmentIndex,
        proof: &[u8],
    ) {
        let way = &mut self.ways[n];
        if !way.open || i.0 >> level ^ 1 > geo.last_segment().0 >> level {
            return; // without a neighbour the value is promoted unchanged
        }
        let parent = Node { level: level + 1, index: i.0 >> level >> 1 };
        let (leaf, siblings) = split_value(proof);
        let sibling = NodeValue::each(siblings).nth(way.count);
        let (false, None, Some(sibling)) = (parent == geo.root(), known.pair(parent), sibling)
        else {
            way.open = false; // the root is hashed separately, and proven pairs are only compared
            return;
        };
        let value = way.count.checked_sub(1).map_or(leaf, |last| way.values[last]);
        let pair = if i.0 >> level & 1 == 0 { [value, sibling] } else { [sibling, value] };
        // Neighbours share their parents, and usually come in order.
        if self.pairs.last() != Some(&(parent, pair)) {
            self.pairs.push((parent, pair));
        }
        way.pair = Some(self.pairs.len() - 1);
    }
}
