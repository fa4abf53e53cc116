//! Consistency proofs: [`prove`] and [`verify`] that one file is the beginning of another, from two roots and two
//! sizes, without the bytes between (docs/spec/tree.md, "Consistency proofs").
//!
//! A proof is the path up, in the newer file's tree, from the segment at which the older file ends. The siblings on its
//! left are the older file's left-complete subtrees; with the segment they give the older root. Together with the
//! siblings on the right they give the newer root.
//!
//! A holder of the newer file's outboard can make the proof, and so can a getter of that one segment and its proof. The
//! maker need not be trusted: the roots come from signed manifests.
//!
//! ```
//! use xylem_tree::{NodeValue, Outboard, SegmentSize, consistency};
//! let file = vec![42; 300_000];
//! let (old, new) = (Outboard::of(&file[..100_000], SegmentSize::DEFAULT),
//!                   Outboard::of(&file, SegmentSize::DEFAULT));
//! let node = |node: xylem_tree::Node| {
//!     NodeValue::from_slice(new.as_bytes().get(node.slot() as usize * 32..)?.get(..32)?)
//! };
//! let mut proof = Vec::new();
//! let end = consistency::needs(old.geometry(), new.geometry()).unwrap();
//! let range = new.geometry().segment_range(end.segment);
//! let content = &file[range.start as usize..range.end as usize];
//! assert!(consistency::prove(old.geometry(), new.geometry(), content, node, &mut proof));
//! consistency::verify((old.geometry(), old.root()), (new.geometry(), new.root()), &proof)?;
//! # Ok::<(), consistency::ConsistencyError>(())
//! ```

use alloc::vec::Vec;

use xylem_hash::Hash;

use crate::{
    geometry::{Geometry, Siblings},
    hashing::{join, leaf_value},
    ids::{NODE_LEN, Node, NodeValue, SegmentIndex},
    proof::side,
};

/// Why a proof does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConsistencyError {
    /// The supposedly newer file is shorter than the older one.
    #[error("the newer file has {new} bytes, fewer than the {old} of the older one")]
    Shorter {
        /// Bytes of the older file.
        old: u64,
        /// Bytes of the newer file.
        new: u64,
    },
    /// The trees differ in segment size or kind.
    #[error("the two trees differ in kind or segment size")]
    OtherShape,
    /// The proof does not have the right length.
    #[error("the proof is {got} bytes long; the two sizes require {expected}")]
    ProofLength {
        /// Length of a proof for these sizes, in bytes.
        expected: usize,
        /// Bytes given.
        got: usize,
    },
    /// The proof does not hash to the older root.
    #[error("the proof does not give the older root")]
    OldRoot,
    /// The proof does not hash to the newer root.
    #[error(
        "the proof does not give the newer root: the newer file does not continue the older one"
    )]
    NewRoot,
}

/// Evidence that one file is the beginning of another; only [`verify`] makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Continuation {
    older: (u64, Hash),
    newer: (u64, Hash),
}

impl Continuation {
    /// Size in bytes and root of the older file.
    #[must_use]
    pub fn older(&self) -> (u64, Hash) {
        self.older
    }

    /// Size in bytes and root of the newer file.
    #[must_use]
    pub fn newer(&self) -> (u64, Hash) {
        self.newer
    }
}

/// The segment of a proof, and in which form the proof holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofNeeds {
    /// The segment of the newer file at which the older file ends.
    pub segment: SegmentIndex,
    /// Whether the proof holds the segment's bytes instead of its leaf's value. It must if the older file has only a
    /// part of the segment, or no other segment.
    pub content: bool,
}

/// The segment of the proof; `None` if no proof is needed (the sizes are equal, or the older file is empty) or none is
/// possible.
#[must_use]
pub fn needs(old: &Geometry, new: &Geometry) -> Option<ProofNeeds> {
    if old.size() == 0 || old.size() >= new.size() {
        return None;
    }
    let partial = !old.size().is_multiple_of(old.segment_size().bytes() as u64);
    Some(ProofNeeds { segment: old.last_segment(), content: partial || old.segments() == 1 })
}

/// The nodes beside the path up, bottom up, each with its parent.
fn siblings_up(geo: &Geometry, from: SegmentIndex) -> impl Iterator<Item = (Node, Node)> {
    let leaf = Node::leaf(from);
    let siblings = Siblings::new(*geo, geo.real(leaf), geo.levels());
    siblings.zip(geo.steps(leaf, geo.levels()))
}

/// Length in bytes of the proof for these two sizes.
///
/// # Errors
/// [`ConsistencyError::Shorter`], [`ConsistencyError::OtherShape`].
pub fn proof_len(old: &Geometry, new: &Geometry) -> Result<usize, ConsistencyError> {
    if (old.segment_size(), old.kind()) != (new.segment_size(), new.kind()) {
        return Err(ConsistencyError::OtherShape);
    }
    if old.size() > new.size() {
        return Err(ConsistencyError::Shorter { old: old.size(), new: new.size() });
    }
    Ok(needs(old, new).map_or(0, |needs| {
        let start = if needs.content { new.segment_len(needs.segment) } else { NODE_LEN };
        start + siblings_up(new, needs.segment).count() * NODE_LEN
    }))
}

/// Appends the proof that the file of geometry `old` is the beginning of the file of geometry `new` to `out`. `content`
/// is the bytes of the newer file's segment that [`needs`] names; it is ignored if the proof holds only the leaf.
/// `value` gives nodes of the newer file's tree.
///
/// Returns false and leaves `out` as it was if a value is unknown, `content` is too short, or no proof is possible for
/// these sizes. The proof is assembled and not verified.
pub fn prove(
    old: &Geometry,
    new: &Geometry,
    content: &[u8],
    mut value: impl FnMut(Node) -> Option<NodeValue>,
    out: &mut Vec<u8>,
) -> bool {
    let Ok(len) = proof_len(old, new) else { return false };
    let Some(needs) = needs(old, new) else { return true };
    let before = out.len();
    if needs.content {
        out.extend_from_slice(content);
    } else if let Some(leaf) = value(Node::leaf(needs.segment)) {
        out.extend_from_slice(&leaf.0);
    }
    for (sibling, _) in siblings_up(new, needs.segment) {
        let Some(value) = value(sibling).filter(|value| !value.is_unknown()) else { break };
        out.extend_from_slice(&value.0);
    }
    let whole = out.len() == before + len;
    if !whole {
        out.truncate(before);
    }
    whole
}

/// Verifies that `proof` shows the file `old` to be the beginning of the file `new`. Sizes and roots must come from
/// signed manifests.
///
/// # Errors
/// [`ConsistencyError`]; never panics, for any bytes.
pub fn verify(
    old: (&Geometry, Hash),
    new: (&Geometry, Hash),
    proof: &[u8],
) -> Result<Continuation, ConsistencyError> {
    let (older, newer) = implied_roots(old.0, new.0, new.1, proof)?;
    match (older == old.1.into(), newer == new.1.into()) {
        (true, true) => {
            Ok(Continuation { older: (old.0.size(), old.1), newer: (new.0.size(), new.1) })
        }
        (false, true) if old.0.size() == new.0.size() => Err(ConsistencyError::NewRoot),
        (false, _) => Err(ConsistencyError::OldRoot),
        (true, false) => Err(ConsistencyError::NewRoot),
    }
}

/// Returns whether `proof` shows that the file `old` is *not* the beginning of the file `new`: it holds in the newer
/// tree, and gives another root for the first `old` bytes. A proof that does not hold in the newer tree shows nothing.
///
/// # Errors
/// [`ConsistencyError::Shorter`], [`ConsistencyError::OtherShape`], [`ConsistencyError::ProofLength`].
pub fn contradicts(
    old: (&Geometry, Hash),
    new: (&Geometry, Hash),
    proof: &[u8],
) -> Result<bool, ConsistencyError> {
    let (older, newer) = implied_roots(old.0, new.0, new.1, proof)?;
    Ok(newer == new.1.into() && older != old.1.into())
}

/// The two roots that a proof gives: that of the newer file's first bytes, as many as the older file has, and that of
/// the newer file.
fn implied_roots(
    old: &Geometry,
    new: &Geometry,
    new_root: Hash,
    proof: &[u8],
) -> Result<(NodeValue, NodeValue), ConsistencyError> {
    let expected = proof_len(old, new)?;
    if proof.len() != expected {
        return Err(ConsistencyError::ProofLength { expected, got: proof.len() });
    }
    let Some(needs) = needs(old, new) else {
        // Sizes that need no nodes of the newer tree: the older file is all of the newer one, or empty.
        let older = match old.size() == new.size() {
            true => new_root.into(),
            false => leaf_value(old, SegmentIndex(0), &[]),
        };
        return Ok((older, new_root.into()));
    };
    let leaf = Node::leaf(needs.segment);
    let (start, siblings) =
        proof.split_at(if needs.content { new.segment_len(needs.segment) } else { NODE_LEN });
    let (mut older, mut newer) = if needs.content {
        let begins = &start[..old.segment_len(needs.segment)];
        (leaf_value(old, needs.segment, begins), leaf_value(new, needs.segment, start))
    } else {
        let value = NodeValue::from_slice(start).unwrap_or(NodeValue::UNKNOWN);
        (value, value)
    };
    // The older tree has nothing on the right: its steps are those with a sibling on the left.
    let mut older_parents = old.steps(leaf, old.levels());
    let mut node = leaf;
    for (parent, given) in new.steps(leaf, new.levels()).zip(NodeValue::each(siblings)) {
        if side(node, parent) == 0 {
            newer = join(new, parent, newer, given);
        } else {
            newer = join(new, parent, given, newer);
            if let Some(parent) = older_parents.next() {
                older = join(old, parent, given, older);
            }
        }
        node = parent;
    }
    Ok((older, newer))
}
