//! What can be wrong with a proof, where, and by whose fault.

use crate::ids::{Node, SegmentIndex, Tile};

/// Who is to answer for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Culprit {
    /// Whoever made the bytes: no honest holder of the object sends this.
    Sender,
    /// Nobody: the bytes were not judged, or were not needed.
    Nobody,
}

/// Why a segment or a tile was not accepted. The verifier is as it was before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The content is not as long as the file's size demands.
    #[error("content is {got} bytes long, where the file's size demands {expected}")]
    WrongLength {
        /// Bytes that this segment or tile has.
        expected: usize,
        /// Bytes that were given.
        got: usize,
    },
    /// The proof does not have its one right length.
    #[error("proof is {got} bytes long, where its place in the tree demands {expected}")]
    ProofLength {
        /// Bytes that the proof of this segment or tile has.
        expected: usize,
        /// Bytes that were given.
        got: usize,
    },
    /// The proof ends at a node that this tile would prove and that is not proven yet. Keep the
    /// bytes until it is, or ask for them again.
    #[error("{0} has to be proven first")]
    NeedTile(Tile),
    /// The content does not hash to its leaf.
    #[error("{0} does not hash to its leaf")]
    LeafMismatch(SegmentIndex),
    /// The value that was given or worked out for this node is not its own.
    #[error("{0} does not have the value that was claimed for it")]
    NodeMismatch(Node),
    /// Everything under this segment or tile was reported done and has been forgotten
    /// ([`Verifier::forget_complete`](crate::Verifier::forget_complete)); the bytes were not judged.
    #[error("already complete; the bytes were not judged")]
    AlreadyComplete,
    /// A node read from disk cannot be checked as the node above it is not proven, or what was
    /// read for it was never written.
    #[error("{0} is not proven")]
    NotProven(Node),
    /// The file has no such segment, tile or node.
    #[error("the file has no such segment, tile or node")]
    OutOfRange,
}

impl VerifyError {
    /// Who is to answer for it. What is asked for out of range, or twice, is the asker's doing.
    #[must_use]
    pub fn culprit(&self) -> Culprit {
        match self {
            Self::WrongLength { .. }
            | Self::ProofLength { .. }
            | Self::LeafMismatch(_)
            | Self::NodeMismatch(_) => Culprit::Sender,
            Self::NeedTile(_) | Self::AlreadyComplete | Self::NotProven(_) | Self::OutOfRange => {
                Culprit::Nobody
            }
        }
    }
}

/// Why a proof could not be read out of an outboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError<E> {
    /// The file has no such segment or tile.
    #[error("the file has no such segment or tile")]
    OutOfRange,
    /// The outboard is of a fetch under way and this node has not come yet.
    #[error("{0} is not known yet")]
    Unknown(Node),
    /// The outboard could not be read.
    #[error("the outboard could not be read")]
    Source(#[source] E),
}

/// Why an outboard could not be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError<E> {
    /// More or fewer bytes came than the geometry says: the file is not the one that was measured.
    #[error("{got} bytes came, where the file's size was {expected}")]
    WrongSize {
        /// The size that the geometry was made for.
        expected: u64,
        /// How many bytes came; for a file that is too long, how many were seen.
        got: u64,
    },
    /// A region of another file or of another place than the next.
    #[error("regions have to be pushed in order")]
    OutOfOrder,
    /// The nodes could not be written.
    #[error("the outboard could not be written")]
    Sink(#[source] E),
}
