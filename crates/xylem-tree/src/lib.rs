//! [`TreeVerifier`]: proves every segment of a file as it arrives, against one root hash.
//!
//! The tree is the file's BLAKE3 tree cut off at *segments* of 8 KiB or, by [`TreeKind`], a SHA-256 tree of the same
//! shape over the segments.
//!
//! - [`Geometry`] computes the positions in a tree.
//! - [`OutboardBuilder`] turns a file's bytes into its root and its *outboard*: every node of the tree, 32 bytes each,
//!   under 1 % of the file.
//! - [`segment_signature`] and [`tile_content`] read proofs from an outboard.
//! - [`TreeVerifier`] checks proofs and makes [`Verified`], which only this crate can make.
//! - [`Anchor`] does so for single packets, on any thread and without an allocator. A build without default features
//!   has
//!   only [`Geometry`] and [`Anchor`].
//! - [`GrowingTree`] is for a file that is only appended to; [`consistency`] proves that one of its checkpoints begins
//!   another.
//! - [`parts`] hashes a message that is spread over several machines.
//!
//! The formats are in docs/spec/tree.md.
//!
//! Bytes come from the publisher (builder), from an outboard on disk (extraction), and from packets of untrusted peers
//! (verifier). Verified segments and proven nodes go to the store.
//!
//! This crate reads no files and starts no threads; callers may run [`hash_region`] on theirs. It knows no names,
//! packets or signatures, and does not decide what to fetch. It trusts size and root, which must come from a manifest
//! with a verified signature.
//!
//! ```
//! use xylem_tree::{Outboard, SegmentIndex, SegmentSize, Tile, TreeVerifier};
//! use xylem_tree::{segment_signature, tile_content, tile_signature};
//!
//! // The sharer of a file: 20 segments, so proofs end at a tile.
//! let file = vec![42; 20 * 8192];
//! let outboard = Outboard::of(&file, SegmentSize::DEFAULT);
//! let (geo, mut nodes) = (*outboard.geometry(), outboard.as_bytes());
//! let (mut tile, mut tile_proof, mut proof) = (vec![], vec![], vec![]);
//! let first = Tile { tier: 0, index: 0 };
//! tile_content(&geo, first, &mut nodes, &mut tile)?;
//! tile_signature(&geo, first, &mut nodes, &mut tile_proof)?;
//! segment_signature(&geo, SegmentIndex(7), &mut nodes, &mut proof)?;
//!
//! // The getter: trusts size and root, nothing else.
//! let mut verifier = TreeVerifier::new(geo, outboard.root());
//! verifier.tile(first, &tile, &tile_proof)?;
//! let bytes = &file[geo.segment_range(SegmentIndex(7)).start as usize..][..8192];
//! let segment = verifier.segment(SegmentIndex(7), bytes, &proof)?;
//! assert_eq!((segment.offset, segment.content), (7 * 8192, bytes));
//! assert!(verifier.segment(SegmentIndex(6), bytes, &proof).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;

mod error;
mod geometry;
mod ids;
#[cfg(feature = "alloc")]
mod segment_set;

mod hashing;
mod proof;
mod sha256;

#[cfg(feature = "alloc")]
mod builder;
#[cfg(feature = "alloc")]
mod outboard;

#[cfg(feature = "alloc")]
pub mod consistency;
#[cfg(feature = "alloc")]
mod growing;
#[cfg(feature = "alloc")]
pub mod parts;

mod anchor;
#[cfg(feature = "alloc")]
mod known;
mod verified;
#[cfg(feature = "alloc")]
mod verifier;

#[cfg(feature = "alloc")]
mod update;

pub use anchor::{Anchor, ProvenTile};
#[cfg(feature = "alloc")]
pub use builder::{OutboardBuilder, REGION_LEN, Region, RegionBuilder, hash_region};
pub use error::{BuildError, Culprit, ExtractError, ProofError};
pub use geometry::{Geometry, SEGMENT_PROOF_LEVELS, Siblings, TILE_LEVELS, TILE_PROOF_LEVELS};
#[cfg(feature = "alloc")]
pub use growing::{Checkpoint, GrowingTree};
pub use hashing::leaf_value;
pub use ids::{NODE_LEN, Node, NodeValue, SegmentIndex, SegmentSize, Tile, TreeKind};
#[cfg(feature = "alloc")]
pub use outboard::{
    NodeSource, Outboard, OutboardTooShort, segment_signature, tile_content, tile_signature,
};
pub use proof::{segment_signature_len, tile_content_len, tile_signature_len};
#[cfg(feature = "alloc")]
pub use segment_set::SegmentSet;
#[cfg(feature = "alloc")]
pub use update::{
    Claims, ProvenClaims, UPDATE_MIN_SIZE, UPDATE_SUMS_LEN, UpdateBlocks, WeakSum, weak_sum,
};
pub use verified::{Segment, Verified};
#[cfg(feature = "alloc")]
pub use verifier::{Recording, TreeVerifier};
