//! Proofs that one file is the beginning of another: [`prove`] and [`verify`], of two roots and
//! two sizes, without the bytes in between (docs/spec/tree.md, "Consistency proofs").
//!
//! A proof is the way up from the segment at which the older file ends, in the newer file's tree. Its
//! siblings on the left are the older file's left-complete subtrees, so they, and the segment, give
//! the older root; with the siblings on the right they give the newer one.
//!
//! Whoever holds the newer file's outboard makes a proof, or whoever fetched that one segment with
//! what proves it. It is believed by nobody: the roots come from signed manifests.
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
    /// The file that should be the newer one is the shorter one.
    #[error("the newer one has {new} bytes, fewer than the {old} of the older one")]
    Shorter {
        /// Bytes of the older file.
        old: u64,
        /// Bytes of the newer file.
        new: u64,
    },
    /// Segments of two sizes, or trees of two kinds.
    #[error("their trees are not of one kind and segment size")]
    OtherShape,
    /// The proof does not have its one right length.
    #[error("the proof is {got} bytes long, where the two sizes demand {expected}")]
    ProofLength {
        /// Bytes that a proof for these sizes has.
        expected: usize,
        /// Bytes that were given.
        got: usize,
    },
    /// What the proof holds is not what the older root stands for.
    #[error("the proof does not give the older root")]
    OldRoot,
    /// What the proof holds is not what the newer root stands for.
    #[error("the proof does not give the newer root: it is no continuation")]
    NewRoot,
}

/// Evidence that one file is the beginning of another; only [`verify`] makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Continuation {
    older: (u64, Hash),
    newer: (u64, Hash),
}

impl Continuation {
    /// Bytes and root of the file that is the beginning.
    #[must_use]
    pub fn older(&self) -> (u64, Hash) {
        self.older
    }

    /// Bytes and root of the file that begins with it.
    #[must_use]
    pub fn newer(&self) -> (u64, Hash) {
        self.newer
    }
}

/// What a proof begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The segment at which the older file ends; of the newer file.
    pub segment: SegmentIndex,
    /// Whether its bytes are in the proof, and not its leaf's value alone: where the older file has
    /// only a part of it, or nothing else.
    pub content: bool,
}

/// What a proof is about; `None` where none is needed (sizes are equal, or the older file is empty) or
/// none can be.
#[must_use]
pub fn needs(old: &Geometry, new: &Geometry) -> Option<Needs> {
    if old.size() == 0 || old.size() >= new.size() {
        return None;
    }
    let partial = !old.size().is_multiple_of(old.segment_size().bytes() as u64);
    Some(Needs { segment: old.last_segment(), content: partial || old.segments() == 1 })
}

/// Nodes and the levels at which they meet the way up, bottom up.
fn way(geo: &Geometry, from: SegmentIndex) -> impl Iterator<Item = (Node, Node)> {
    let leaf = Node::leaf(from);
    let siblings = Siblings::new(*geo, geo.real(leaf), geo.levels());
    siblings.zip(geo.steps(leaf, geo.levels()))
}

/// Bytes that the proof for these two sizes has.
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
        start + way(new, needs.segment).count() * NODE_LEN
    }))
}

/// Appends the proof that the file of geometry `old` is the beginning of that of geometry `new` to
/// `out`. `content` is the bytes of the newer file's segment that [`needs`] names (not looked at where
/// it does not want them); `value` gives nodes of the newer file's tree.
///
/// False, and `out` as it was, if a value is not known, `content` is too short, or there can be no
/// proof for these sizes. What is put together here need not hold.
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
    for (sibling, _) in way(new, needs.segment) {
        let Some(value) = value(sibling).filter(|value| !value.is_unknown()) else { break };
        out.extend_from_slice(&value.0);
    }
    let whole = out.len() == before + len;
    if !whole {
        out.truncate(before);
    }
    whole
}

/// Checks that `proof` shows the file `old` to be the beginning of the file `new`; sizes and roots have
/// to come from signed manifests.
///
/// # Errors
/// [`ConsistencyError`], whatever the bytes.
pub fn verify(
    old: (&Geometry, Hash),
    new: (&Geometry, Hash),
    proof: &[u8],
) -> Result<Continuation, ConsistencyError> {
    let (older, newer) = shown(old.0, new, proof)?;
    match (older == old.1.into(), newer == new.1.into()) {
        (true, true) => {
            Ok(Continuation { older: (old.0.size(), old.1), newer: (new.0.size(), new.1) })
        }
        (false, true) if old.0.size() == new.0.size() => Err(ConsistencyError::NewRoot),
        (false, _) => Err(ConsistencyError::OldRoot),
        (true, false) => Err(ConsistencyError::NewRoot),
    }
}

/// Whether `proof` shows that the file `old` is *not* the beginning of the file `new`: it holds in the newer
/// one's tree, and gives another root for so many bytes of it. A proof that holds in neither shows nothing.
///
/// # Errors
/// [`ConsistencyError::Shorter`], [`ConsistencyError::OtherShape`], [`ConsistencyError::ProofLength`].
pub fn contradicts(
    old: (&Geometry, Hash),
    new: (&Geometry, Hash),
    proof: &[u8],
) -> Result<bool, ConsistencyError> {
    let (older, newer) = shown(old.0, new, proof)?;
    Ok(newer == new.1.into() && older != old.1.into())
}

/// What a proof gives: the root of the first bytes of the newer file, as many as the older one has, and the root of the
/// newer file.
fn shown(
    old: &Geometry,
    (new, new_root): (&Geometry, Hash),
    proof: &[u8],
) -> Result<(NodeValue, NodeValue), ConsistencyError> {
    let expected = proof_len(old, new)?;
    if proof.len() != expected {
        return Err(ConsistencyError::ProofLength { expected, got: proof.len() });
    }
    let Some(needs) = needs(old, new) else {
        // Nothing of the newer tree is needed: all of it, or nothing.
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
    // In the older tree nothing is on the right: its steps are those with a sibling on the left.
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
