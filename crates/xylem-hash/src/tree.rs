//! The inner values of BLAKE3's tree: what proofs and outboards are made of.
//!
//! A *chunk group* is a run of chunks that is a subtree of its message: it starts at a multiple of
//! its own (power of two) size, and only the message's last one may be short. Its
//! [`ChainingValue`] does not depend on the rest of the message, only on its place in it. Values of
//! neighbours are joined with [`parent_cv`] up to the last two, which [`root_hash`] joins; a node
//! without a right neighbour goes up a level as it is.
//!
//! Not here: a message that is a single group has no chaining value of its own but its
//! [`crate::hash`]; and nothing here knows where in a file a node lies (see `xylem-tree`).
//!
//! A large input can be split over threads at any multiple of the group size: each thread calls
//! [`chunk_group_cvs`] for its part, and [`root_of`] joins the values in order.
//!
//! ```
//! use xylem_hash::tree::{chunk_group_cv, root_hash};
//! let message = vec![1; 12_000];
//! let left = chunk_group_cv(&message[..8_192], 0);
//! let right = chunk_group_cv(&message[8_192..], 8);
//! assert_eq!(root_hash(&left, &right), xylem_hash::hash(&message));
//! ```

use core::fmt;

use alloc::vec::Vec;

use crate::backend::{Backend, Cv, MAX_LANES};
use crate::constants::{CHUNK_LEN, OUT_LEN};
use crate::digest::{Hash, constant_time_eq};
use crate::subtree::{BATCH_LEN, Mode, PENDING, chunk_cvs, merge_level, parent_output, subtree_cv};

/// The value of an inner node: 32 bytes, and never a message's [`Hash`](struct@Hash).
///
/// `==` takes constant time.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct ChainingValue([u8; OUT_LEN]);

impl ChainingValue {
    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; OUT_LEN] {
        &self.0
    }

    /// A value that was computed elsewhere.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; OUT_LEN]) -> Self {
        Self(bytes)
    }
}

impl PartialEq for ChainingValue {
    fn eq(&self, other: &Self) -> bool {
        constant_time_eq(&self.0, &other.0)
    }
}

impl Eq for ChainingValue {}

impl fmt::Debug for ChainingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChainingValue({})", Hash::from_bytes(self.0))
    }
}

impl From<[u8; OUT_LEN]> for ChainingValue {
    fn from(bytes: [u8; OUT_LEN]) -> Self {
        Self(bytes)
    }
}

/// The value of the chunk group `input` (1 byte or more) whose first chunk is number
/// `first_chunk` of the message.
///
/// # Panics
/// If `input` is empty.
#[must_use]
pub fn chunk_group_cv(input: &[u8], first_chunk: u64) -> ChainingValue {
    assert!(!input.is_empty(), "a chunk group has at least one byte");
    ChainingValue(subtree_cv(Backend::detect(), &Mode::plain(), input, first_chunk))
}

/// Appends to `out` the value of each group of `group_len` bytes of `input`, in order; the last
/// group may be short. The first chunk of `input` is number `first_chunk` of the message.
///
/// Nearly as fast as one hash over all of `input`: the parents of many groups fill the lanes
/// together.
///
/// # Panics
/// If `group_len` is not a power of two of at least [`CHUNK_LEN`].
pub fn chunk_group_cvs(
    input: &[u8],
    group_len: usize,
    first_chunk: u64,
    out: &mut Vec<ChainingValue>,
) {
    let backend = Backend::detect();
    chunk_group_cvs_with(backend, input, group_len, first_chunk, out);
}

pub(crate) fn chunk_group_cvs_with(
    backend: Backend,
    input: &[u8],
    group_len: usize,
    first_chunk: u64,
    out: &mut Vec<ChainingValue>,
) {
    assert!(group_len.is_power_of_two() && group_len >= CHUNK_LEN, "{group_len} bytes a group");
    let mode = Mode::plain();
    out.reserve(input.len().div_ceil(group_len));
    let mut chunk = first_chunk;
    // Batches of whole groups, as many as the pending values of a hasher.
    let batch_len = PENDING * CHUNK_LEN;
    let mut rest = input;
    while group_len < batch_len && rest.len() >= group_len {
        let len = rest.len().min(batch_len) / group_len * group_len;
        let (batch, after) = rest.split_at(len);
        group_batch(backend, &mode, batch, group_len / CHUNK_LEN, chunk, out);
        (rest, chunk) = (after, chunk.wrapping_add((len / CHUNK_LEN) as u64));
    }
    for group in rest.chunks(group_len) {
        out.push(ChainingValue(subtree_cv(backend, &mode, group, chunk)));
        chunk = chunk.wrapping_add((group_len / CHUNK_LEN) as u64);
    }
}

/// The values of whole groups, at most [`PENDING`] chunks in all.
fn group_batch(
    backend: Backend,
    mode: &Mode,
    batch: &[u8],
    group_chunks: usize,
    first_chunk: u64,
    out: &mut Vec<ChainingValue>,
) {
    let mut cvs = [[0; OUT_LEN]; PENDING];
    let mut count = 0;
    for piece in batch.chunks(BATCH_LEN) {
        let chunks = piece.len() / CHUNK_LEN;
        let counter = first_chunk.wrapping_add(count as u64);
        let values = chunk_cvs(backend, mode, piece, counter);
        cvs[count..count + chunks].copy_from_slice(&values[..chunks]);
        count += chunks;
    }
    for _ in 0..group_chunks.ilog2() {
        count = merge_level(backend, mode, &mut cvs[..count]);
    }
    out.extend(cvs[..count].iter().copied().map(ChainingValue));
}

/// The value of the node over `left` and `right`, not the root.
#[must_use]
pub fn parent_cv(left: &ChainingValue, right: &ChainingValue) -> ChainingValue {
    let backend = Backend::detect();
    ChainingValue(backend.parents(&Mode::plain(), &[[left.0, right.0]], 0)[0])
}

/// Appends to `out` the parents of `children`, taken in pairs; an odd last child is appended as it
/// is (promoted).
pub fn parent_cvs(children: &[ChainingValue], out: &mut Vec<ChainingValue>) {
    parent_cvs_with(Backend::detect(), children, out);
}

pub(crate) fn parent_cvs_with(
    backend: Backend,
    children: &[ChainingValue],
    out: &mut Vec<ChainingValue>,
) {
    let mode = Mode::plain();
    out.reserve(children.len().div_ceil(2));
    let (pairs, odd) = as_cvs(children).as_chunks::<2>();
    for batch in pairs.chunks(MAX_LANES) {
        let values = backend.parents(&mode, batch, 0);
        out.extend(values[..batch.len()].iter().copied().map(ChainingValue));
    }
    out.extend(odd.iter().copied().map(ChainingValue));
}

fn as_cvs(values: &[ChainingValue]) -> &[Cv] {
    // SAFETY: `ChainingValue` is a transparent wrapper of `Cv`: same layout, same validity; length
    // and lifetime are those of `values`.
    unsafe { core::slice::from_raw_parts(values.as_ptr().cast::<Cv>(), values.len()) }
}

/// The hash of a message whose tree has these two nodes under its root.
#[must_use]
pub fn root_hash(left: &ChainingValue, right: &ChainingValue) -> Hash {
    let output = parent_output(Backend::detect(), &Mode::plain(), &left.0, &right.0);
    Hash::from_bytes(output.root_hash())
}

/// The hash of a message of which these are all nodes of one level, in order; `None` if there are
/// fewer than two (a single group's value does not tell its hash).
#[must_use]
pub fn root_of(nodes: &[ChainingValue]) -> Option<Hash> {
    let (mut level, mut above) = (nodes.to_vec(), Vec::new());
    while level.len() > 2 {
        above.clear();
        parent_cvs(&level, &mut above);
        core::mem::swap(&mut level, &mut above);
    }
    match level.as_slice() {
        [left, right] => Some(root_hash(left, right)),
        _ => None,
    }
}
