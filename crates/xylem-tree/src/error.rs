//! Errors of proofs: what is wrong, where, and which side is at fault.

use crate::ids::{Node, SegmentIndex, Tile};

/// Which side is at fault for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Culprit {
    /// The sender of the bytes: no honest holder of the object sends these.
    Sender,
    /// No side: the bytes were not checked, or were not needed.
    Neither,
}

/// Why a segment or a tile was not accepted. The verifier is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The content does not have the length that the file's size requires.
    #[error("content is {got} bytes long; the file's size requires {expected}")]
    WrongLength {
        /// Length of this segment or tile, in bytes.
        expected: usize,
        /// Bytes given.
        got: usize,
    },
    /// The proof does not have the right length.
    #[error("proof is {got} bytes long; its place in the tree requires {expected}")]
    ProofLength {
        /// Length of the proof of this segment or tile, in bytes.
        expected: usize,
        /// Bytes given.
        got: usize,
    },
    /// The proof ends at a node of this tile, which is not proven yet. Keep the bytes until it is, or request them
    /// again.
    #[error("{0} has to be proven first")]
    NeedTile(Tile),
    /// The content does not hash to its leaf.
    #[error("{0} does not hash to its leaf")]
    LeafMismatch(SegmentIndex),
    /// The given or computed value is not this node's value.
    #[error("{0} does not have the value that was claimed for it")]
    NodeMismatch(Node),
    /// Everything under this segment or tile was reported complete and its nodes dropped
    /// ([`TreeVerifier::forget_complete`](crate::TreeVerifier::forget_complete)); the bytes were not checked.
    #[error("already complete; the bytes were not checked")]
    AlreadyComplete,
    /// A node read from disk cannot be checked: its parent is not proven, or its slot was never written.
    #[error("{0} is not proven")]
    NotProven(Node),
    /// The file has no such segment, tile or node.
    #[error("the file has no such segment, tile or node")]
    OutOfRange,
}

impl ProofError {
    /// The side at fault. Bytes out of range or received twice are the getter's doing, not the sender's.
    #[must_use]
    pub fn culprit(&self) -> Culprit {
        match self {
            Self::WrongLength { .. }
            | Self::ProofLength { .. }
            | Self::LeafMismatch(_)
            | Self::NodeMismatch(_) => Culprit::Sender,
            Self::NeedTile(_) | Self::AlreadyComplete | Self::NotProven(_) | Self::OutOfRange => {
                Culprit::Neither
            }
        }
    }
}

/// Why a proof could not be read from an outboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError<E> {
    /// The file has no such segment or tile.
    #[error("the file has no such segment or tile")]
    OutOfRange,
    /// The outboard is of a fetch in progress and lacks this node.
    #[error("{0} is not known yet")]
    Unknown(Node),
    /// The outboard could not be read.
    #[error("the outboard could not be read")]
    Source(#[source] E),
}

/// Why an outboard could not be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError<E> {
    /// The number of bytes differs from the geometry's size: the file is not the one that was measured.
    #[error("the file changed: {got} bytes read, {expected} expected")]
    WrongSize {
        /// The geometry's size.
        expected: u64,
        /// Bytes received; for a file that is too long, the bytes received so far.
        got: u64,
    },
    /// A region of another file, or not the next one.
    #[error("regions have to be pushed in order")]
    OutOfOrder,
    /// The nodes could not be written.
    #[error("the outboard could not be written")]
    Sink(#[source] E),
}
