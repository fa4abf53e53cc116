//! Resumes from nodes on the local disk, which are checked against the proven nodes above them.

use super::TreeVerifier;
use crate::{
    error::ProofError,
    hashing::join,
    ids::{Node, NodeValue},
};

impl TreeVerifier {
    /// Proves the two children of a proven node, read from the local disk. They are not recorded for
    /// [`Self::take_proven`]. If they had been forgotten, they are kept until their segments are reported complete
    /// again.
    ///
    /// # Errors
    /// [`ProofError::NotProven`] if the parent is not proven, or a child is zeros (its slot was never written);
    /// [`ProofError::NodeMismatch`] if they are not the parent's children; [`ProofError::OutOfRange`] if `parent` is
    /// no real node above the segments.
    pub fn adopt_children(
        &mut self,
        parent: Node,
        left: NodeValue,
        right: NodeValue,
    ) -> Result<(), ProofError> {
        let Some((l, r)) = self.geo.children(parent) else { return Err(ProofError::OutOfRange) };
        let Some(value) = self.value(parent) else { return Err(ProofError::NotProven(parent)) };
        for (node, value) in [(l, left), (r, right)] {
            if value.is_unknown() {
                return Err(ProofError::NotProven(node));
            }
        }
        match self.known.pair(parent) {
            Some(known) if *known == [left, right] => return Ok(()),
            Some(_) => return Err(ProofError::NodeMismatch(parent)),
            None => {}
        }
        self.nodes_hashed += 1;
        if join(&self.geo, parent, left, right) != value {
            return Err(ProofError::NodeMismatch(parent));
        }
        self.known.insert_reopening(parent, [left, right]);
        Ok(())
    }
}
