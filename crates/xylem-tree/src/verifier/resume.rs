//! What is read back from our own disk, held against what is proven above it.

use alloc::vec::Vec;

use super::Verifier;
use crate::{
    error::{AdoptError, VerifyError},
    hashing::{join, leaf_value},
    ids::{Node, NodeValue, SegmentIndex},
    outboard::{NodeSource, read_node},
    proof::check_len,
    verified::{Segment, Verified},
};

impl Verifier {
    /// Proves the two children of a proven node, read back from our own disk. They are not
    /// recorded for [`Self::take_proven`]. If they had been forgotten, they are kept until their
    /// segments are reported complete again.
    ///
    /// # Errors
    /// [`VerifyError::NotProven`] for a parent that is not, or a child that is zeros (its slot was
    /// never written); [`VerifyError::NodeMismatch`] if they are not the parent's children;
    /// [`VerifyError::OutOfRange`] if `parent` is no real node over the segments.
    pub fn adopt_children(
        &mut self,
        parent: Node,
        left: NodeValue,
        right: NodeValue,
    ) -> Result<(), VerifyError> {
        let Some((l, r)) = self.geo.children(parent) else { return Err(VerifyError::OutOfRange) };
        let Some(value) = self.value(parent) else { return Err(VerifyError::NotProven(parent)) };
        for (node, value) in [(l, left), (r, right)] {
            if value.is_unknown() {
                return Err(VerifyError::NotProven(node));
            }
        }
        match self.known.pair(parent) {
            Some(known) if *known == [left, right] => return Ok(()),
            Some(_) => return Err(VerifyError::NodeMismatch(parent)),
            None => {}
        }
        self.nodes_hashed += 1;
        if join(&self.geo, parent, left, right) != value {
            return Err(VerifyError::NodeMismatch(parent));
        }
        self.known.insert_reopening(parent, [left, right]);
        Ok(())
    }

    /// Proves all nodes from the lowest proven one down to a segment's leaf out of our own
    /// outboard, for [`Self::check_segment`].
    ///
    /// # Errors
    /// [`AdoptError::Refused`] with what [`Self::adopt_children`] says; what was adopted above
    /// stays. [`AdoptError::Source`] if the outboard cannot be read.
    pub fn adopt_path<S: NodeSource>(
        &mut self,
        i: SegmentIndex,
        src: &mut S,
    ) -> Result<(), AdoptError<S::Error>> {
        if !self.geo.has_segment(i) {
            return Err(AdoptError::Refused(VerifyError::OutOfRange));
        }
        let mut node = Node::leaf(i);
        let mut unproven = Vec::new();
        while self.value(node).is_none() {
            let Some(parent) = self.geo.parent(node) else { break }; // the root is proven
            unproven.push(parent);
            node = parent;
        }
        for parent in unproven.into_iter().rev() {
            let Some((left, right)) = self.geo.children(parent) else { break }; // a parent has
            let left = read_node(left, src)?;
            let right = read_node(right, src)?;
            self.adopt_children(parent, left, right).map_err(AdoptError::Refused)?;
        }
        Ok(())
    }

    /// Holds a segment read back from our own disk against its proven leaf.
    ///
    /// # Errors
    /// [`VerifyError::NotProven`] if the leaf is not (see [`Self::adopt_path`]);
    /// [`VerifyError::WrongLength`], [`VerifyError::LeafMismatch`], [`VerifyError::OutOfRange`].
    pub fn check_segment<B: AsRef<[u8]>>(
        &self,
        i: SegmentIndex,
        content: B,
    ) -> Result<Verified<Segment<B>>, VerifyError> {
        if !self.geo.has_segment(i) {
            return Err(VerifyError::OutOfRange);
        }
        let node = Node::leaf(i);
        let Some(proven) = self.value(node) else { return Err(VerifyError::NotProven(node)) };
        let bytes = content.as_ref();
        check_len(self.geo.segment_len(i), bytes.len())?;
        if leaf_value(&self.geo, i, bytes) != proven {
            return Err(VerifyError::LeafMismatch(i));
        }
        Ok(self.evidence(i, content))
    }
}
