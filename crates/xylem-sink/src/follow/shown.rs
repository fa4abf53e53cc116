//! [`ContinuationProof`]: what was fetched to prove that a checkpoint continues the content here.

use std::collections::HashMap;

use bytes::Bytes;
use xylem_object::Manifest;
use xylem_tree::{Geometry, Node, NodeValue, Segment, TreeVerifier, Verified};

/// Parts of a continuation proof; see the module's documentation.
#[derive(Default)]
pub struct ContinuationProof {
    /// Nodes of its tree that were proven on the way.
    pub nodes: HashMap<Node, NodeValue>,
    /// The segment in which the content here ends.
    pub segment: Option<Verified<Segment<Bytes>>>,
    /// The proof made from both.
    pub proof: Vec<u8>,
}

impl ContinuationProof {
    /// Returns a verifier that knows the nodes proven on the way, so that no tile is requested twice.
    pub fn verifier(&self, geometry: Geometry, manifest: &Manifest) -> Option<TreeVerifier> {
        let mut parents: Vec<Node> =
            self.nodes.keys().filter_map(|n| geometry.parent(*n)).collect();
        parents.sort_unstable_by_key(|parent| std::cmp::Reverse(parent.level));
        parents.dedup();
        let mut verifier = TreeVerifier::new(geometry, manifest.root);
        for parent in parents {
            let Some((left, right)) = geometry.children(parent) else { continue };
            if let (Some(l), Some(r)) = (self.nodes.get(&left), self.nodes.get(&right)) {
                // Nodes that do not verify are requested again.
                let _ = verifier.adopt_children(parent, *l, *r);
            }
        }
        Some(verifier)
    }
}
