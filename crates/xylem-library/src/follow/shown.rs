//! [`Shown`]: what was fetched to show that a checkpoint continues what is here.

use std::collections::HashMap;

use bytes::Bytes;
use xylem_object::Manifest;
use xylem_tree::{Geometry, Node, NodeValue, Segment, Verified, Verifier};

/// See the module's documentation.
#[derive(Default)]
pub struct Shown {
    /// Nodes of its tree that were proven on the way.
    pub nodes: HashMap<Node, NodeValue>,
    /// The segment at which what is here ends.
    pub segment: Option<Verified<Segment<Bytes>>>,
    /// What was made of both.
    pub proof: Vec<u8>,
}

impl Shown {
    /// A verifier that knows what was proven on the way, so that no tile is asked for twice.
    pub fn verifier(&self, geometry: Geometry, manifest: &Manifest) -> Option<Verifier> {
        let mut parents: Vec<Node> =
            self.nodes.keys().filter_map(|n| geometry.parent(*n)).collect();
        parents.sort_unstable_by_key(|parent| std::cmp::Reverse(parent.level));
        parents.dedup();
        let mut verifier = Verifier::new(geometry, manifest.root);
        for parent in parents {
            let Some((left, right)) = geometry.children(parent) else { continue };
            if let (Some(l), Some(r)) = (self.nodes.get(&left), self.nodes.get(&right)) {
                // What does not hold is asked for again.
                let _ = verifier.adopt_children(parent, *l, *r);
            }
        }
        Some(verifier)
    }
}
