//! The inner values of BLAKE3's tree, of which proofs and outboards consist.
//!
//! A *chunk group* is a run of chunks that is a subtree of its message: it starts at a multiple of its own (power of
//! two) size, and only the message's last one may be short. Its [`ChainingValue`] depends only on its bytes and its
//! position, not on the rest of the message. Values of neighbours are joined with [`parent_cv`] up to the last two,
//! which [`root_hash`] joins. A node without a right neighbour is promoted to the next level.
//!
//! The functions here are for plain hashes. [`Tree`] has the same for keyed hashes and key derivation; [`Subtree`]
//! takes a group's bytes in pieces. Separate types prevent mixing a message's [`Hash`](struct@Hash), the values inside
//! its tree, and those of a keyed or a key-deriving tree. (Values under two keys have the same type: keep one [`Tree`]
//! for each key.)
//!
//! A message that is a single group has no chaining value, only its [`crate::hash`]. This module does not know the
//! position of a node in a file (see `xylem-tree`).
//!
//! A large input can be split over threads at any multiple of the group size: each thread calls [`chunk_group_cvs`] for
//! its part, and [`root_of`] joins the values in order.
//!
//! ```
//! use xylem_hash::tree::{chunk_group_cv, root_hash};
//! let message = vec![1; 12_000];
//! let left = chunk_group_cv(&message[..8_192], 0);
//! let right = chunk_group_cv(&message[8_192..], 8);
//! assert_eq!(root_hash(&left, &right), xylem_hash::hash(&message));
//! ```
//!
//! The same under a key:
//!
//! ```
//! use xylem_hash::{keyed_hash, tree::Tree};
//! let (key, message) = ([7; 32], vec![1; 12_000]);
//! let tree = Tree::keyed(&key);
//! let left = tree.chunk_group_cv(&message[..8_192], 0);
//! let mut right = tree.subtree(8);
//! right.update(&message[8_192..9_000]).update(&message[9_000..]);
//! assert_eq!(tree.root_hash(&left, &right.finish()), keyed_hash(&key, &message));
//! ```
//!
//! ```compile_fail,E0308
//! # use xylem_hash::tree::{Tree, chunk_group_cv};
//! let plain = chunk_group_cv(b"x", 0);
//! Tree::keyed(&[7; 32]).parent_cv(&plain, &plain); // not values of this tree
//! ```

mod node;
mod subtree;
mod value;

pub use node::Tree;
pub use subtree::Subtree;
pub use value::{ChainingValue, DeriveKey, Keyed, Kind, Plain, Value};

use crate::digest::Hash;

/// The value of the chunk group `input` (1 byte or more). Its first chunk has number `first_chunk` in the message.
///
/// # Panics
/// As [`Tree::chunk_group_cv`].
#[inline]
#[must_use]
pub fn chunk_group_cv(input: &[u8], first_chunk: u64) -> ChainingValue {
    Tree::plain().chunk_group_cv(input, first_chunk)
}

/// Appends the value of each group of `group_len` bytes of `input` to `out`, for example a `Vec`; see
/// [`Tree::chunk_group_cvs`].
///
/// # Panics
/// As [`Tree::chunk_group_cvs`].
#[inline]
pub fn chunk_group_cvs(
    input: &[u8],
    group_len: usize,
    first_chunk: u64,
    out: &mut impl Extend<ChainingValue>,
) {
    Tree::plain().chunk_group_cvs(input, group_len, first_chunk, out);
}

/// Appends the value of each of `groups` to `out`, computed side by side; see [`Tree::scattered_group_cvs`].
///
/// # Panics
/// As [`Tree::scattered_group_cvs`].
#[inline]
pub fn scattered_group_cvs<'a>(
    groups: impl IntoIterator<Item = (u64, &'a [u8])>,
    out: &mut impl Extend<ChainingValue>,
) {
    Tree::plain().scattered_group_cvs(groups, out);
}

/// The value of the node over `left` and `right`; not the root.
#[inline]
#[must_use]
pub fn parent_cv(left: &ChainingValue, right: &ChainingValue) -> ChainingValue {
    Tree::plain().parent_cv(left, right)
}

/// Appends the parents of `children`, taken in pairs, to `out`; an odd last child is appended unchanged (promoted).
#[inline]
pub fn parent_cvs(children: &[ChainingValue], out: &mut impl Extend<ChainingValue>) {
    Tree::plain().parent_cvs(children, out);
}

/// The hash of a message, from the two children of its root.
#[inline]
#[must_use]
pub fn root_hash(left: &ChainingValue, right: &ChainingValue) -> Hash {
    Tree::plain().root_hash(left, right)
}

/// The hash of a message from all nodes of one level, in order. `None` for fewer than two, as the hash does not follow
/// from a single group's value.
#[inline]
#[must_use]
pub fn root_of(nodes: &[ChainingValue]) -> Option<Hash> {
    Tree::plain().root_of(nodes)
}
