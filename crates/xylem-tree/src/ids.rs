//! The integer types of the tree, and the 32-byte value of a node.

use core::fmt;

use xylem_hash::{Hash, tree::ChainingValue};

/// Bytes of one node on disk and on the wire.
pub const NODE_LEN: usize = 32;

/// Bytes of a file in one segment: 2^k BLAKE3 chunks of 1,024 bytes, with `k` from 0 to 3.
///
/// A manifest holds `k`. Larger segments would not fit into NDN's 8,800-byte packets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentSize(u8);

impl SegmentSize {
    /// 8,192 bytes: fills the eight lanes of an AVX2 hash engine, and one NDN packet.
    pub const DEFAULT: Self = Self(3);
    /// The largest `k` that is valid on the wire.
    pub const MAX_LOG2_CHUNKS: u8 = 3;

    /// The segment size of `2^k` chunks; `None` if `k` is over [`Self::MAX_LOG2_CHUNKS`].
    #[must_use]
    pub const fn from_log2_chunks(k: u8) -> Option<Self> {
        if k <= Self::MAX_LOG2_CHUNKS { Some(Self(k)) } else { None }
    }

    /// `k`: the base-2 logarithm of the chunks in a segment.
    #[must_use]
    pub const fn log2_chunks(self) -> u8 {
        self.0
    }

    /// Bytes of every segment except a file's last one.
    #[must_use]
    pub const fn bytes(self) -> usize {
        xylem_hash::CHUNK_LEN << self.0
    }

    /// Chunks of every segment except a file's last one.
    #[must_use]
    pub const fn chunks(self) -> u64 {
        1 << self.0
    }
}

impl Default for SegmentSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Debug for SegmentSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SegmentSize({} bytes)", self.bytes())
    }
}

/// The hash function of a tree. Shapes, proofs and outboards are the same for every kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TreeKind {
    /// The file's own BLAKE3 tree: the root is its plain hash. NDN signature type 8.
    #[default]
    Blake3,
    /// The tree of RFC 9162 section 2.1.1 over the segments: SHA-256, leaves after a byte 0, inner
    /// nodes after a byte 1. NDN signature type 9.
    Sha256,
}

impl TreeKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Blake3, Self::Sha256];
}

/// The number of a segment in its file, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentIndex(pub u64);

impl fmt::Display for SegmentIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {}", self.0)
    }
}

/// The subtree over the segments `index << level .. (index + 1) << level`, clipped at the file's end.
///
/// Level 0 is a segment. A file's [`Geometry`](crate::Geometry) determines whether such a node exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// Height above the segments.
    pub level: u8,
    /// Position among the nodes of that level, from 0.
    pub index: u64,
}

impl Node {
    /// The leaf of a segment.
    #[must_use]
    pub const fn leaf(i: SegmentIndex) -> Self {
        Self { level: 0, index: i.0 }
    }

    /// The node's position in an outboard, in units of [`NODE_LEN`] bytes (docs/spec/tree.md, "Slots"). It has no
    /// meaning for a node that no file below 2^64 bytes can have; never panics.
    #[must_use]
    pub const fn slot(self) -> u64 {
        let odd = self.index.wrapping_mul(2).wrapping_add(1);
        match odd.checked_shl(self.level as u32) {
            Some(end) => end.wrapping_sub(1),
            None => u64::MAX,
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} of level {}", self.index, self.level)
    }
}

/// A run of up to 256 neighbouring nodes that one packet carries (docs/spec/tree.md, "Tiles").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tile {
    /// 0 for the tiles that segments' proofs end at, 1 for those that tier 0's proofs end at, ...
    pub tier: u8,
    /// Position among the tiles of that tier, from 0.
    pub index: u64,
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tile {} of tier {}", self.index, self.tier)
    }
}

/// The 32 bytes of a node. In a BLAKE3 tree it is a chaining value, or the hash for the root; in the other kind of tree
/// a SHA-256 hash.
///
/// These bytes are public, so comparisons need not take constant time.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeValue(pub [u8; NODE_LEN]);

impl NodeValue {
    /// The value of outboard slots that were never written. No node has this value in practice: finding one means
    /// finding a preimage of zero.
    pub const UNKNOWN: Self = Self([0; NODE_LEN]);

    /// Returns whether this is the zero value of a slot that was never written.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::UNKNOWN
    }

    /// The value in `bytes`; `None` unless there are exactly [`NODE_LEN`].
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub(crate) fn to_cv(self) -> ChainingValue {
        ChainingValue::from_bytes(self.0)
    }

    /// Splits `bytes` into whole nodes. A remainder is ignored, as every caller has checked the length.
    pub(crate) fn each(bytes: &[u8]) -> impl ExactSizeIterator<Item = Self> + '_ {
        bytes.chunks_exact(NODE_LEN).map(|b| Self(b.try_into().expect("chunks of NODE_LEN")))
    }
}

impl From<&ChainingValue> for NodeValue {
    fn from(cv: &ChainingValue) -> Self {
        Self(*cv.as_bytes())
    }
}

impl From<Hash> for NodeValue {
    fn from(hash: Hash) -> Self {
        Self(*hash.as_bytes())
    }
}

impl fmt::Debug for NodeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeValue(")?;
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
        f.write_str(")")
    }
}
